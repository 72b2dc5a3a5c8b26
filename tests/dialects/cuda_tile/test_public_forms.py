"""Forms of the text that the public tests of the language have, accepted and refused."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase

from tests.kernels.cuda_tile_text import TENSOR_VIEW, error_of, kernel, verified
from tileiras.bytecode.writer import write_module
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.hints import check_hints
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError
from tileiras.options import CompileOptions

SCOPES = """#f = #cuda_tile.di_file<"k.py" in "/tmp">
#u = #cuda_tile.di_compile_unit<file = #f>
#s = #cuda_tile.di_subprogram<file = #f, line = 1, name = "k", linkageName = "k", compileUnit = #u>
#other = #cuda_tile.di_subprogram<file = #f, line = 1, name = "o", linkageName = "o",
  compileUnit = #u>
#block = #cuda_tile.di_lexical_block<scope = #s, file = #f, line = 3, column = 4>
#di = #cuda_tile.di_loc<loc("k.py":2:1) in #s>
#di_other = #cuda_tile.di_loc<loc("k.py":2:1) in #other>
#di_block = #cuda_tile.di_loc<loc("k.py":2:1) in #block>
"""


@pytest.mark.parametrize(
    "wrapped", ['"x"({})', "fused[{}]", 'fused["f.py":1:2, {}]', '"a"("b"({}))']
)
def test_names_and_fusions_of_scoped_locations(wrapped: str) -> None:
    """Read, verified, printed and read again; the scope inside counts."""
    inside = wrapped.format("#di")
    text = f"entry @k() {{\n  return loc({inside})\n}} loc({inside})\n{SCOPES}"
    printed = print_module(verified(text), debug_info=True)
    assert print_module(parse_module(printed), debug_info=True) == printed
    for place, wrong, fact in (
        (1, "#di_block", "Function location must have cuda_tile.di_subprogram debug info scope"),
        (1, "#di_other", 'Function name "k" does not match subprogram scope linkage name "o"'),
        (0, "#di_other", "Operation debug info scope does not match function debug info scope"),
    ):
        locations = [inside, inside]
        locations[place] = wrapped.format(wrong)
        damaged = f"entry @k() {{\n  return loc({locations[0]})\n}} loc({locations[1]})\n{SCOPES}"
        assert fact in error_of(damaged)


def test_global_has_no_scope_in_a_wrapped_location() -> None:
    """Nor plainly."""
    for location in ("#di", '"x"(#di)', "fused[#di]"):
        text = f"global @g <i8: 1> : tile<2xi8> loc({location})\n{SCOPES}"
        assert "Global variables must not have scope" in error_of(text)


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ('"x"("f.py":1:2)', "NameLoc"),
        ('"x"(#di)', "NameLoc"),
        ('fused["f.py":1:2, "f.py":3:4]', "FusedLoc"),
        ("fused[#di]", "FusedLoc"),
        ("callsite(fused[#di] at #di)", "FusedLoc"),
    ],
)
def test_bytecode_has_no_names_and_fusions(location: str, kind: str) -> None:
    """Writing them is an error with the place, not silence."""
    module = parse_module(f"entry @k() {{\n  return loc({location})\n}} loc(#di)\n{SCOPES}")
    with pytest.raises(BytecodeError, match=f"unsupported location, got {kind}") as caught:
        write_module(module)
    assert caught.value.location is not None


def test_generic_access_without_inbounds() -> None:
    """Version 13.3 has no such flags: nothing is promised."""
    view = f"partition_view<tile=(4x8), {TENSOR_VIEW}>"
    text = kernel(
        '%0, %1 = "cuda_tile.load_view_tko"(%pv, %v_i32, %v_i32) <{memory_ordering_semantics = '
        "0 : i32, operandSegmentSizes = array<i32: 1, 2, 0>}> : "
        f"({view}, tile<i32>, tile<i32>) -> (tile<4x8xf32>, token)"
    )
    loads = [op for op in verified(text).walk() if isinstance(op, ct.LoadViewTkoOp)]
    inbounds = loads[0].inbounds
    assert isinstance(inbounds, DenseArrayBase) and list(inbounds.get_values()) == [0, 0]


def test_module_with_attributes() -> None:
    """Of the outer module; they say nothing to us."""
    text = "module attributes {a = 1 : i32, b} {\ncuda_tile.module @m {\nentry @k() {\n}\n}\n}\n"
    assert "entry @k" in print_module(verified(text))
    assert "entry @k" in print_module(verified(text.replace("module attr", "module @x attr")))


def test_several_results_under_one_name() -> None:
    """With numbers of any length, one by one or in groups."""
    text = kernel(
        "%920:3 = get_tile_block_id : tile<i32>\n%1 = addi %920#0, %920#2 : tile<i32>\n"
        "%a, %b:2 = get_tile_block_id : tile<i32>\n%2 = addi %a, %b#1 : tile<i32>"
    )
    assert print_module(verified(text)).count("addi") == 2


@pytest.mark.parametrize(
    "body",
    [
        "if %v_i1 {\n} {a = 1 : i32}",
        "if %v_i1 {\n} else {\n} {a}",
        "for %i in (%v_i32 to %v_i32, step %v_i32) : tile<i32> {\n} {unroll, a = [1, 2]}",
        "loop {\nbreak\n} {a}",
    ],
)
def test_attributes_behind_regions(body: str) -> None:
    """Of if, for and loop."""
    verified(kernel(body))
    assert "found 'b', expected" in error_of(kernel(body[:-1] + " b}"))


@pytest.mark.parametrize(
    ("literal", "type", "bits"),
    [
        ("0x7C00", "f16", "0x7C00"),
        ("70000.0", "f16", "0x7C00"),
        ("-70000.0", "f16", "0xFC00"),
        ("1.0e300", "f32", "0x7F800000"),
        ("-1.0e300", "bf16", "0xFF80"),
        ("1.0e400", "f64", "0x7FF0000000000000"),
    ],
)
def test_floats_beyond_the_largest(literal: str, type: str, bits: str) -> None:
    """Are infinite, where the type has infinities."""
    text = kernel(f"%0 = constant <{type}: {literal}> : tile<{type}>")
    assert f"<{type}: {bits}>" in print_module(verified(text))
    assert "does not fit" in error_of(kernel("%0 = constant <f8E4M3FN: 1.0e5> : tile<f8E4M3FN>"))


FOUR_MODULES = "".join(f"cuda_tile.module @m{i} {{\nentry @k() {{\n}}\n}}\n" for i in range(4))


def test_several_modules_in_a_text() -> None:
    """Each is a program of its own: names are its own, too."""
    verified(FOUR_MODULES)
    source = FOUR_MODULES.encode()
    compile_module(source, CompileOptions(gpu_name="sm_90", emit="cuda_tile"))
    with pytest.raises(BytecodeError, match="text holds 4 modules, expected one to compile") as one:
        compile_module(source, CompileOptions(gpu_name="sm_90", emit="ptx"), "k.mlir")
    assert one.value.location is not None and one.value.location.line == 5
    wrong = FOUR_MODULES.replace("@m2 {", "@m2 {\nentry @k() {\n}", 1)
    assert "defines symbol 'k' again" in error_of(wrong)


LOWEST = "-9223372036854775808"


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("tensor_view<f32, strides=[]>", "strides must not be provided for 0-d tiles"),
        ("tensor_view<f32, strides=[1]>", "strides must not be provided for 0-d tiles"),
        (f"tensor_view<?xf32, strides=[{LOWEST}]>", f"strictly positive integer, got {LOWEST}"),
    ],
)
def test_strides_that_no_view_has(view: str, message: str) -> None:
    """The smallest integer stands for a dynamic stride inside, and is no stride outside."""
    text = kernel(f"%0 = make_tensor_view %p_f32, shape = [4], strides = [1] : {view}")
    assert message in error_of(text)


@pytest.mark.parametrize(
    "sizes", [f"shape = [{LOWEST}], strides = [1]", "shape = [4], strides = [0]"]
)
def test_sizes_that_no_view_has(sizes: str) -> None:
    """In the operation, as in its type."""
    text = kernel(f"%0 = make_tensor_view %p_f32, {sizes} : tensor_view<4xf32, strides=[1]>")
    assert "expected strictly positive integer, got" in error_of(text)


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ("sm_100a = {num_cta_in_cga = 2}", "unknown hint key sm_100a"),
        ("sm_100 = {num_qqq = 1}", "num_qqq is not known hint for current Operation"),
        ("sm_100 = {latency = 1}", "latency is not known hint for current Operation"),
        ('sm_100 = {num_cta_in_cga = "a"}', "integer value expected for sm_100.num_cta_in_cga"),
        ("sm_100 = {num_cta_in_cga = 7}", "expected power-of-two ≤ 16 for sm_100.num_cta_in_cga"),
        ("default = {occupancy = 64}", "[1, 32] is expected for default.occupancy"),
        (
            "sm_90 = {num_worker_warps_per_cta = 64}",
            "expected power-of-two ≤ 32 for sm_90.num_worker_warps_per_cta",
        ),
        ("sm_90 = {ocupancy = 1}", "did you mean 'occupancy'?"),
    ],
)
def test_hints_that_do_nothing(hints: str, message: str) -> None:
    """Are silent, unless `--Werr-hints` asks."""
    source = f"entry @k() optimization_hints=<{hints}> {{\n}}\n"
    options = CompileOptions(gpu_name="sm_90", emit="cuda_tile")
    compile_module(source.encode(), options)
    with pytest.raises(BytecodeError) as caught:
        compile_module(
            source.encode(),
            CompileOptions(gpu_name="sm_90", emit="cuda_tile", reject_hints=True),
            "k.mlir",
        )
    assert "Optimization hints verification failed" in caught.value.message
    assert message in caught.value.message
    assert caught.value.location is not None


def test_hints_that_do_something() -> None:
    """Of entries and of accesses."""
    text = kernel(
        "%0, %1 = load_view_tko weak %pv[%v_i32, %v_i32] optimization_hints = "
        "<sm_90 = {latency = 4, allow_tma = false}> : "
        f"partition_view<tile=(4x8), {TENSOR_VIEW}>, tile<i32> -> tile<4x8xf32>, token"
    ).replace(") {", ") optimization_hints=<default = {occupancy = 2, num_cta_in_cga = 4}> {", 1)
    check_hints(verified(text), ("sm_90",))
    with pytest.raises(BytecodeError, match=r"\[1, 10\] is expected for sm_90.latency"):
        check_hints(verified(text.replace("latency = 4", "latency = 11")), ("sm_90",))
    with pytest.raises(BytecodeError, match="boolean value expected for sm_90.allow_tma"):
        check_hints(verified(text.replace("false", "2")), ("sm_90",))
