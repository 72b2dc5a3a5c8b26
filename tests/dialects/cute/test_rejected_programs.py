"""Bad programs: what is said, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context

from tests.kernels.cute_operations import COPY, EXAMPLES, GMEM, INT, MMA, SWIZZLED, WARP, A, layout
from tileiras.cli import run
from tileiras.dialects.assembly.reading import read_module
from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text, register_dialects
from tileiras.stages import verify_text

FRAGMENT = "!cute.tensor<f32, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>"
F64 = GMEM.replace("f32", "f64")
BAD: tuple[tuple[str, tuple[str, ...], str, str, str], ...] = (
    # operation, operands, result, static parameters, message
    ("static", (), INT("?"), "", "a static value has no dynamic leaves"),
    ("make_shape", (), "!cute.shape<(?,4)>", "", "fewer operands than dynamic leaves"),
    ("make_shape", (INT(4),), "!cute.shape<(8,4)>", "", "expected one for each dynamic leaf"),
    ("make_coord", (INT(3),), "!cute.coord<(?{div=2})>", "", "3 is not divisible by 2"),
    ("make_layout", ("!cute.shape<(4,8)>", "!cute.stride<(1,2,3)>"), "", "", "are not congruent"),
    ("make_layout", ("!cute.stride<(4,8)>",), "", "", "operand 0 is !cute.stride<(4,8)>, expected"),
    ("make_layout", (), "", "", "has 0 operands, expected 1 or 2"),
    ("make_ordered_layout", ("!cute.shape<(4,8)>", "!cute.coord<0>"), "", "", "not congruent"),
    ("make_swizzle", (), "", "3,4,1", "a shift of at least bits"),
    ("make_swizzle", (), "!cute.swizzle<S<3,4,3>>", "3,4", "has 2 static parameters, expected 3"),
    ("make_tv_layout", (layout("4:3"), layout("2:1")), "", "", "are not numbered from 0 on"),
    ("make_tensor", (INT(4), A), "", "", "operand 0 is !cute.int<4>, expected !cute.ptr"),
    ("alloc", (), GMEM, "", "memory is made in rmem or smem, not in gmem"),
    (
        "alloc",
        (),
        GMEM.replace("(8,4)", "(?,4)").replace("gmem", "smem"),
        "",
        "static layouts only",
    ),
    ("recast_tensor", (GMEM.replace("(8,4):(1,8)", "(8,4):(4,3)"),), F64, "", "in groups of 2"),
    ("get_stride", (SWIZZLED,), "", "", "is no sum of strides"),
    ("get_outer", (A,), "", "", "expected a composed layout"),
    ("get_leaf", ("!cute.shape<(4,(2,8))>",), "", "1", "the mode is no integer"),
    ("shape_at", (A,), "", "2", "has no mode 2, its rank is 2"),
    ("layout_at", (A,), "", "5", "has no mode 5, its rank is 2"),
    ("elem_less", ("!cute.coord<(1,2)>", "!cute.shape<4>"), "", "", "are not congruent"),
    ("tuple_div", (INT(4), INT(0)), "", "", "a divisor is positive, found 0"),
    ("tuple_add", ("!cute.coord<(1,2)>", INT(4)), "", "", "are not congruent"),
    ("shape_div", ("!cute.shape<(4,3)>", INT(3)), "", "", "neither divides the other"),
    ("crd2idx", ("!cute.coord<(1,2,3)>", A), "", "", "does not fit shape (4,8)"),
    ("crd2crd", (INT(1), "!cute.shape<8>", "!cute.shape<9>"), "", "", "has 8 elements, 9 has 9"),
    ("slice", ("!cute.coord<(_,1,_)>", A), "", "", "does not fit shape (4,8)"),
    ("coalesce", (A, "!cute.coord<(1,1,1)>"), "", "", "has more modes than"),
    (
        "composition",
        (layout("(4,6):(1,8)"), layout("6:1")),
        "",
        "",
        "the extent 6 is no multiple of 4",
    ),
    ("complement", (layout("(4,2):(1,3)"), INT(24)), "", "", "has no complement"),
    ("left_inverse", (layout("(4,2):(0,1)"),), "", "", "has a stride of 0"),
    ("recast_layout", (A,), "", "16,24", "elements of 16 bits are no elements of 24 bits"),
    ("downcast", (layout("8:2"),), "", "2", "has no mode of stride 1"),
    ("upcast", (layout("8:3"),), "", "2", "cannot be seen in groups of 2"),
    ("group_modes", (A,), "", "1,5", "do not exist or are none"),
    ("select", (A,), "", "3", "has no mode 3"),
    ("take", (A,), "", "1,1", "do not exist or are none"),
    ("with_shape", (A, "!cute.shape<(4,9)>"), "", "", "a shape of 36 elements is none of 32"),
    ("zipped_divide", (A, "!cute.tile<[2:1;4:1;8:1]>"), "", "", "does not fit"),
    ("logical_divide", (layout("(4,6):(1,8)"), layout("9:1")), "", "", "does not compose with"),
    ("local_tile", (A, "!cute.tile<[2:1;4:1]>", "!cute.coord<(1,0,0)>"), "", "", "does not fit"),
    (
        "local_partition",
        (GMEM, layout("(4,2):(1,4)"), INT(9)),
        "",
        "",
        "there is no thread 9 among",
    ),
    ("local_partition", (GMEM, layout("4:2"), INT(0)), "", "", "does not number its 4 threads"),
    ("tv_partition", (GMEM, layout("8:1"), INT(0)), "", "", "a TV layout is (thread, value)"),
    (
        "make_tiled_copy_tv",
        ("!cute.copy_atom<universal, 32>", layout("(4,2):(2,1)"), "!cute.shape<9>"),
        "",
        "",
        "does not cover the tile (9)",
    ),
    ("partition_s", (COPY, layout("(12,4):(1,12)"), INT(0)), "", "", "not made of whole tiles (8)"),
    ("partition_d", (COPY, GMEM, INT(4)), "", "", "there is no thread 4 among 4"),
    ("retile", (COPY, GMEM), "", "", "registers are retiled, not gmem"),
    ("make_tiled_mma", (WARP, layout("(1,1):(0,0)")), "", "", "have a layout (M,N,K)"),
    ("make_tiled_mma", (WARP, layout("(2,1,1):(2,0,0)")), "", "", "does not number groups"),
    (
        "make_tiled_mma",
        (WARP.replace("(16,8,16)", "(17,8,16)"), layout("(1,1,1):(0,0,0)")),
        "",
        "",
        "tile dims must be powers of two",
    ),
    (
        "make_tiled_mma",
        (WARP.replace("warp", "tcgen05"), layout("(1,1,1):(0,0,0)")),
        "",
        "",
        "is no atom of 128 rows and 8 to 256 columns",
    ),
    ("partition_a", (MMA, layout("(24,16):(16,1)"), INT(0)), "", "", "not made of whole tiles"),
    ("partition_b", (MMA, layout("(16):(1)"), INT(0)), "", "", "operand B has two modes"),
    ("make_fragment_a", (MMA, FRAGMENT), "", "", "operand A has 8 values in a thread"),
    ("copy", ("!cute.copy_atom<universal, 32>", GMEM, F64), "", "", "elements f32 face f64"),
    (
        "copy",
        ("!cute.copy_atom<universal, 128>", GMEM.replace("align<16>", "align<4>"), GMEM),
        "",
        "",
        "the source is aligned to 4 bytes, an access of 128 bits needs 16",
    ),
    (
        "copy",
        ("!cute.copy_atom<universal, 32>", GMEM, GMEM.replace("(8,4)", "(8,2)")),
        "",
        "",
        "32 elements of (8,4):(1,8) face 16",
    ),
    ("copy", ("!cute.copy_atom<universal, 8>", GMEM, GMEM), "", "", "holds no elements of 32 bits"),
    (
        "copy_if",
        ("!cute.copy_atom<universal, 32>", *[GMEM] * 3),
        "",
        "",
        "a predicate has elements",
    ),
    ("clear", (GMEM.replace("(1,8)", "(0,8)"),), "", "", "elements would be written twice"),
    ("add", (GMEM, GMEM, F64), "", "", "elements f32 face f64"),
    ("gemm", (MMA, FRAGMENT, FRAGMENT, FRAGMENT, FRAGMENT), "", "", "operand A of warp"),
    ("store", ("f32", GMEM, "!cute.coord<(_,1)>"), "", "", "a coordinate of one element has no"),
    ("thread_idx", (), "", "3", "an axis is 0, 1 or 2, found 3"),
    ("size", (INT(4),), INT(5), "", "result is !cute.int<5>, expected !cute.int<4>"),
)


def program(name: str, operands: tuple[str, ...], result: str, statics: str) -> str:
    """A kernel that does one operation on line 4 + the number of operands that it makes."""
    arguments, lines, uses = [], [], []
    for number, kind in enumerate(operands):
        use = f"%v{number}"
        uses.append(use)
        if kind.startswith("!cute.tensor") and "gmem" in kind or kind[0] != "!":
            arguments.append(f"{use}: {kind}")
        elif kind.startswith("!cute.tensor"):
            lines.append(f"{use} = cute.alloc() -> {kind}")
        else:
            lines.append(f"{use} = cute.static() -> {kind}")
    parameters = f"<{statics}>" if statics else ""
    shown = f" -> {result}" if result else ""
    left = "%r = " if result else ""
    call = f"{left}cute.{name}{parameters}({', '.join(uses)}){shown}"
    return "\n".join(
        [f"cute.func @k({', '.join(arguments)}) threads 32 {{", *lines, call, "cute.return", "}"]
    )


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad[0]}-{BAD.index(bad)}")
def test_says_what_is_wrong_and_where(bad: tuple[str, tuple[str, ...], str, str, str]) -> None:
    """The message names the operation, and the place is its line."""
    name, operands, result, statics, message = bad
    text = program(name, operands, result, statics)
    with pytest.raises(BytecodeError) as raised:
        parse_text(text, "bad.mlir")
    assert message in raised.value.message
    assert f"'cute.{name}' op" in raised.value.message
    place = raised.value.location
    assert place is not None
    assert f"cute.{name}" in text.splitlines()[place.line - 1]


def test_there_are_thirty_classes() -> None:
    """Operations with a bad program."""
    assert len({bad[0] for bad in BAD}) >= 30


ROWS = {example[0]: example for example in EXAMPLES}


@pytest.mark.parametrize("name", ROWS)
def test_every_operation_rejects_an_operand_too_many(name: str) -> None:
    """Or one of another kind, where there may be any number: a swizzle is an operand of few."""
    _, operands, result, statics = ROWS[name]
    kinds = [kind for kind in operands.split("|") if kind]
    lines = [f'%{number} = "test.value"() : () -> {kind}' for number, kind in enumerate(kinds)]
    lines.append('%s = "test.value"() : () -> !cute.swizzle<S<2,3,3>>')
    uses = ", ".join([f"%{number}" for number in range(len(kinds))] + ["%s", "%s", "%s"])
    parameters = f"<{statics}>" if statics else ""
    left = "%r = " if result else ""
    types = ", ".join(kinds + ["!cute.swizzle<S<2,3,3>>"] * 3)
    call = f"{left}cute.{name}{parameters}({uses}) : ({types}) -> {result or '()'}"
    context = Context(allow_unregistered=True)
    register_dialects(context)
    text = "\n".join(["builtin.module {", *lines, call, "}"])
    read = read_module(context, text, "bad.mlir")
    with pytest.raises(BytecodeError) as raised:
        verify_text(read.module, read.places)
    assert f"'cute.{name}' op" in raised.value.message
    assert "operands, expected" in raised.value.message or "expected !cute." in raised.value.message
    place = raised.value.location
    assert place is not None
    assert f"cute.{name}" in text.splitlines()[place.line - 1]


STRUCTURE = (
    ("cute.func @k() threads 2000 {\ncute.return\n}", 1, "has 2000 threads, expected 1 to 1024"),
    ("cute.func @k() threads 32 {\n}", 1, "does not end with 'cute.return'"),
    (
        "cute.func @k(%a: !cute.layout<4,1>) threads 32 {\ncute.return\n}",
        1,
        "expected a tensor, pointer or number",
    ),
    (
        "cute.func @k(%a: !cute.ptr<f32, smem, align<4>>) threads 32 {\ncute.return\n}",
        1,
        "argument is in smem, expected gmem",
    ),
    ("cute.return", 1, "stands outside of 'cute.func'"),
    ("cute.func @k() threads 32 {\n%a = cute.size(%b)\ncute.return\n}", 2, "%b is not defined"),
    (
        "cute.func @k() threads 32 {\n%a = cute.constant 1 : i7\ncute.return\n}",
        2,
        "result is i7, expected f16",
    ),
    (
        f"cute.func @k(%a: {GMEM}, %c: i32) threads 32 {{\n%x = cute.load(%a, %c) : f16\n"
        "cute.return\n}",
        2,
        "result is f16, expected f32",
    ),
    (
        "cute.func @k(%n: i32) threads 32 {\n%s = cute.static() -> !cute.int<0>\n"
        "cute.for %i = %n to %n step %s {\n}\ncute.return\n}",
        3,
        "step is 0, expected at least 1",
    ),
    (
        "cute.func @k(%n: i32, %x: f32) threads 32 {\n"
        "%r = cute.for %i = %n to %n step %n carries (%y = %x) {\ncute.yield(%n)\n}\n"
        "cute.return\n}",
        3,
        "gives (i32), the loop carries (f32)",
    ),
    (
        "cute.func @k() threads 32 cluster (4,4,1) {\ncute.return\n}",
        1,
        "has clusters (4,4,1), expected (x,y,z) of 1 to 8 CTAs",
    ),
    (
        "cute.func @k(%x: f32) threads 32 {\n%r = cute.while carries (%y = %x) {\n"
        "cute.yield(%y)\n}\ncute.return\n}",
        2,
        "the first value that is carried is a condition, !cute.bool<?>",
    ),
    ("cute.nothing()", 1, "unknown operation 'cute.nothing'"),
    ("cute.func @k(%a: !cute.int<(1,2)>) threads 1 {\ncute.return\n}", 1, "expected an integer"),
    ("cute.func @k(%a: !cute.shape<(0,2)>) threads 1 {\ncute.return\n}", 1, "extents from 1 on"),
    ("cute.func @k(%a: !cute.layout<(4,8)>) threads 1 {\ncute.return\n}", 1, "expected a layout"),
    ("cute.func @k(%a: !cute.ptr<f33, gmem, align<4>>) threads 1 {}", 1, "'f33' is no element"),
    ("cute.func @k(%a: !cute.ptr<f32, vmem, align<4>>) threads 1 {}", 1, "is no memory space"),
    ("cute.func @k(%a: !cute.ptr<f32, gmem, align<3>>) threads 1 {}", 1, "is a power of two"),
    ("cute.func @k(%a: !cute.ptr<f32, gmem>) threads 1 {}", 1, "align<bytes>"),
    ("cute.func @k(%a: !cute.bool<maybe>) threads 1 {}", 1, "expected true, false or ?"),
    ("cute.func @k(%a: !cute.mma_atom<warp, (16,8)>) threads 1 {}", 1, "(M,N,K), A, B, C"),
    (
        "cute.func @k(%a: !cute.mma_atom<warp, (16,8,32), i8, i8, i32, f16, 8>) threads 1 {}",
        1,
        "scales are f8E8M0FNU or f8E4M3FN, found f16",
    ),
    (
        "cute.func @k(%a: !cute.mma_atom<warp, (16,8,32), i8, i8, i32, f8E8M0FNU, 5>) threads 1 {}",
        1,
        "5 elements that share a scale do not divide K",
    ),
    ("cute.func @k(%a: !cute.copy_atom<universal>) threads 1 {}", 1, "'kind, bits'"),
    ("cute.func @k(%a: !cute.layout<(4,8),(8,1)) threads 1 {\n}", 1, "the matching '>'"),
)


@pytest.mark.parametrize("case", STRUCTURE, ids=lambda case: case[2])
def test_structure_and_types_are_checked(case: tuple[str, int, str]) -> None:
    """Functions, loops and the notation of types."""
    text, line, message = case
    with pytest.raises(BytecodeError) as raised:
        parse_text(text, "bad.mlir")
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == line


class TestTheCommand:
    """`tileiras` reads, checks and prints programs of the dialect."""

    GOOD = "cute.func @k() threads 32 {\ncute.sync_threads()\ncute.return\n}"

    def test_prints_a_program(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`--emit=cute`."""
        source = tmp_path / "k.mlir"
        source.write_text(self.GOOD)
        assert run([str(source), "--emit=cute", "-o", "-"]) == 0
        assert "cute.sync_threads() : () -> ()" in capsys.readouterr().out

    def test_exits_with_3_for_a_bad_one(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the place and the line."""
        source = tmp_path / "k.mlir"
        source.write_text(self.GOOD.replace("cute.sync_threads()", "%s = cute.thread_idx<7>()"))
        assert run([str(source), "--emit=cute", "-o", "-"]) == 3
        said = capsys.readouterr().err
        assert f'loc("{source}":2:6): error: ' in said
        assert "an axis is 0, 1 or 2, found 7" in said
