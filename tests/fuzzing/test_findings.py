"""What fuzzing has found, each as small as it can be."""

from __future__ import annotations

import time

import pytest

from tests.bytecode.files import File
from tests.fuzzing import seeds
from tileiras.bytecode.opcodes import OPERATIONS
from tileiras.bytecode.reader import read_module
from tileiras.driver import compile_module, read_source, verify_input
from tileiras.errors import BytecodeError
from tileiras.options import CompileOptions


def mistake(text: str, emit: str = "ptx") -> BytecodeError:
    """How a text is refused."""
    with pytest.raises(BytecodeError) as caught:
        compile_module(text.encode(), CompileOptions("sm_90", emit=emit), "f.mlir")
    return caught.value


def opcode(name: str) -> int:
    """The number of an operation."""
    return next(row.opcode for row in OPERATIONS if row.cls.name == f"cuda_tile.{name}")


@pytest.mark.parametrize("name", ["extract", "insert"])
def test_operation_with_fewer_operands_than_it_must_have(name: str) -> None:
    """A count of none was believed, and the verifier looked for the first."""
    tile = b"\x0d\1\1" + (2).to_bytes(8, "little")
    body = bytes([opcode(name), 1, 2, 0, 0])
    with pytest.raises(BytecodeError, match=f"'cuda_tile.{name}' has 0 operands, expected at"):
        read_module(File(body=body, version=(13, 5), types=[b"\0", tile]).build())


@pytest.mark.parametrize("count", [0, 2])
def test_operation_with_another_number_of_results_than_it_has(count: int) -> None:
    tile = b"\x0d\1\1" + (2).to_bytes(8, "little")
    body = bytes([opcode("iota"), 2, opcode("extract"), count, *[2] * count, 1, 0, 92, 0, 0])
    module = read_module(File(body=body, version=(13, 5), types=[b"\3", tile]).build())
    with pytest.raises(BytecodeError, match=f"extract' op has {count} results, expected 1"):
        verify_input(module, from_bytecode=True)


def test_many_empty_lines_are_read_in_linear_time() -> None:
    start = time.process_time()
    module = read_source(b"entry @k() {\n" + b"\n" * 400_000 + b"  return\n}")
    assert time.process_time() - start < 5
    verify_input(module, from_bytecode=False)


def thread_program(body: str, arguments: str = "", attributes: str = "kernel") -> str:
    """A program of the llvm dialect."""
    head = f"  llvm.func @k({arguments}) attributes {{{attributes}}} {{\n"
    return f"builtin.module {{\n{head}    {body}\n    llvm.return\n  }}\n}}\n"


def test_float_with_an_enormous_exponent_takes_no_time() -> None:
    start = time.process_time()
    error = mistake(thread_program("%0 = llvm.constant 1.0e999999999 : f32"))
    assert "'1.0e999999999' is no constant of type f32" in error.message
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("kernel, reqntid = [4294967296]", "a reqntid of [4294967296], expected 1 to 1024"),
        ("kernel, reqntid = [64, 64]", "a reqntid of [64, 64], expected 1 to 1024"),
        ("kernel, cluster_dim = [64]", "a cluster_dim of [64], expected 1 to 32"),
        ("kernel, min_ctas = 0", "a min_ctas of [0], expected 1 to 32"),
        ("kernel, max_registers = 256", "a max_registers of [256], expected 1 to 255"),
    ],
)
def test_launch_dimensions_that_end_llvm(attributes: str, said: str) -> None:
    error = mistake(thread_program("", attributes=attributes))
    assert error.message == f"'llvm.func' op has {said}"
    assert error.location is not None


def assembly(text: str, constraints: str, arguments: str = "", ends: str = "() -> ()") -> str:
    """A program with inline assembly; %a is an i32."""
    line = f'llvm.inline_asm "{text}", "{constraints}" ({arguments}) : {ends}'
    return thread_program(line, "%a: i32")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (assembly("x;", "k"), "has an unknown constraint 'k'"),
        (assembly("x;", "r,=r", "%a", "(i32) -> i32"), "has a misplaced output constraint '=r'"),
        (assembly("x;", "0", "%a", "(i32) -> ()"), "has a constraint '0' without such an output"),
        (assembly("x;", "=r"), "has constraints of 1 outputs, but 0 of them"),
        (assembly("x;", "r,r", "%a", "(i32) -> ()"), "has constraints of 2 inputs, but 1 of them"),
        (assembly("x $1;", "r", "%a", "(i32) -> ()"), "has '$1' in its text, expected $0 to $0"),
        (assembly("x $", "r", "%a", "(i32) -> ()"), "has '$' in its text, expected $0 to $0"),
        (
            assembly("x ${0:a};", "r", "%a", "(i32) -> ()"),
            "has '${' in its text, expected $0 to $0",
        ),
        (assembly("x;", "n", "%a", "(i32) -> ()"), "has an unknown constraint 'n'"),
        (
            assembly("x;", "b", "%a", "(i32) -> ()"),
            "has a constraint 'b' for a value of 32 bits, expected 1",
        ),
        (
            assembly("x;", "q", "%a", "(i32) -> ()"),
            "has a constraint 'q' for a value of 32 bits, expected 128",
        ),
        (
            assembly("x;", "=h,0", "%a", "(i32) -> i16"),
            "has a constraint 'h' for a value of 32 bits, expected 16",
        ),
    ],
)
def test_inline_assembly_that_ends_llvm(text: str, said: str) -> None:
    error = mistake(text)
    assert error.message == f"'llvm.inline_asm' op {said}"
    assert error.location is not None


@pytest.mark.parametrize("constraints", ["=r,r", "=r,0", "=l,r", "=&r,r,~{memory}"])
def test_inline_assembly_that_fits_its_registers(constraints: str) -> None:
    text = assembly("x.y $0, $1;", constraints, "%a", "(i32) -> i32").replace(
        "llvm.inline_asm", "%r = llvm.inline_asm"
    )
    ptx = compile_module(text.encode(), CompileOptions("sm_90", emit="ptx"), "f.mlir").output
    assert b".visible .entry k" in ptx


def test_unknown_argument_attribute_ends_llvm() -> None:
    generic = compile_module(
        thread_program("", "%a: i64").encode(),
        CompileOptions("sm_90", emit="llvm-dialect", print_generic=True),
    ).output.decode()
    text = generic.replace("kernel", 'arg_attrs = ["align 16 sorcery"], kernel', 1)
    assert "unknown argument attribute 'sorcery'" in mistake(text).message


@pytest.fixture(scope="module")
def stages() -> dict[str, str]:
    """A product at the two stages in between."""
    source = (seeds.EXAMPLES / "matmul.mlir").read_bytes()
    return {
        stage: compile_module(source, CompileOptions("sm_90", emit=stage)).output.decode()
        for stage in ("nv_tileaa", "nv_tileas")
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("stages = 8", "stages = 0", "create_pipeline' op a pipeline needs a stage, bytes in it"),
        (
            "stage_bytes = 12288",
            "stage_bytes = -1",
            "create_pipeline' op a pipeline needs a stage, bytes in it",
        ),
        ("{swizzle = 64}", "{swizzle = 48}", "has a 'swizzle' of 48, expected one of (0, 16, 32"),
        ("consumer_warps = 4", "consumer_warps = 3", "of 3, expected powers of two"),
        ("num_warps = 4", "num_warps = 12", "a 'num_warps' of 12, expected powers of two"),
        ("box [64, 32]", "box [64, 512]", "a 'box' of 64, 512, expected 1 to 256"),
        ("swizzle = 64, major = 1", "swizzle = 64, major = 2", "a tile of rank 2 with dim 2 con"),
        (
            "swizzle = 64, major",
            "swizzle = 16, major",
            "a swizzle of 16 bytes, expected one of (32",
        ),
        ("swizzle = 64, major", "swizzle = 128, major", "rows of 64 bytes in panels of 128"),
        ("32x64xf16, #shared1", "32x65xf16, #shared1", "rows of 130 bytes in panels of 128"),
        ("32x64xf16, #shared1", "33x64xf16, #shared1", "a tile of shape [33, 64], expected powers"),
        ("32x64xf16, #shared1", "2x32x64xf16, #shared1", "a tile of rank 3, expected 2"),
        ("#shared0, smem>", "#shared0, tmem>", "found 'tmem', expected 'smem' for nv_tileas.nvmma"),
        (
            "#shared0, smem>",
            "i32, smem>",
            "expected one of nv_tileas.nvmma_shared, nv_tileas.pair_shared, nv_tileas.scale",
        ),
        ("at [0, 4096, 8192]", "at [0, 4096]", "consumer_wait: 2 offsets for 3 tiles"),
        ("at [0, 4096, 8192]", "at [0, 5000, 8192]", "wgmma_dots: tile 1 is not behind the one"),
        ("at [0, 4096, 8192]", "at [0, 4096, -8]", "a 'offsets' of 0, 4096, -8, expected 0 to"),
        ("[16, 0], [32, 0]], lane = [[2", "[0, 0], [32, 0]], lane = [[2", "not hold the whole"),
        ("lane = [[2, 0], ", "lane = [", "convert_layout' op cannot convert from 16 to 32 lanes"),
        ("lane = [[2", "line = [[2", "op expected input dims ['register', 'lane', 'warp'], found"),
    ],
)
def test_numbers_that_no_pass_makes(stages: dict[str, str], old: str, new: str, said: str) -> None:
    text = stages["nv_tileas"]
    assert old in text
    error = mistake(text.replace(old, new))
    assert said in error.message
    assert error.location is not None
    assert error.location.filename == "f.mlir"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "axis = 0",
            "axis = 1",
            "'nv_tileas.tiled_load' op has an 'axis' of 1, expected less than 1",
        ),
        ("lane = [[1], ", "lane = [", "a layout of 16 lanes, expected 32"),
        ("lane = [[1]", "line = [[1]", "a layout of register, warp, line, expected register, lane"),
    ],
)
def test_copies_that_no_pass_makes(old: str, new: str, said: str) -> None:
    """No layout of a vector's addition is converted, which would be the first to find it wrong."""
    source = (seeds.EXAMPLES / "vector_add.mlir").read_bytes()
    text = compile_module(source, CompileOptions("sm_90", emit="nv_tileas")).output.decode()
    assert old in text
    assert said in mistake(text.replace(old, new)).message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("num_warps = 4,", "num_warps = 5,", "a plan of 5 warps, expected a power of two up to 32"),
        ("num_warps = 4,", "num_warps = many,", "a plan whose num_warps is many, expected an"),
        ("ctas = 1", "ctas = -1", "ctas is -1, expected no negative number"),
        ("tiled_view<64x32 ", "tiled_view<64x33 ", "a tile of shape [64, 33], expected powers of"),
        ("memref<?x?xf16, strides = [?, 1]>", "memref<?xf16, strides = [1]>", "a view whose dim"),
    ],
)
def test_plans_and_views_that_no_pass_makes(
    stages: dict[str, str], old: str, new: str, said: str
) -> None:
    text = stages["nv_tileaa"]
    assert old in text, text[:3000]
    assert said in mistake(text.replace(old, new, 1)).message


def test_what_only_a_pass_finds_is_the_texts_mistake_and_located(stages: dict[str, str]) -> None:
    """Verifiers see single operations: here a tile has the rank of no view."""
    error = mistake(stages["nv_tileaa"].replace("tiled_view<64x32 ", "tiled_view<32 "))
    assert error.message.startswith("text of stage nv_tileaa cannot be compiled: in tileas-assign-")
    assert error.location is not None
    assert error.notes == ["if tileiras printed this text, that is a bug in tileiras"]


def test_what_only_llvm_finds_is_the_texts_mistake() -> None:
    """A type that LLVM has not."""
    error = mistake(thread_program("", "%a: tf32"))
    assert error.message.startswith("text of stage llvm-dialect cannot be compiled: in LLVM")
    assert error.location is not None


def test_unchanged_texts_of_later_stages_are_compiled() -> None:
    """None of the limits is one that our own output has."""
    for text, gpu_name in seeds.lower_texts():
        compile_module(text.encode(), CompileOptions(gpu_name, emit="llvm"))


@pytest.mark.parametrize(
    "place",
    ['"a":99999999999999999999:1', '"a":1:99999999999999999999', '"a":-1:-1', '"\\FF\\FE":1:1'],
)
def test_places_that_llvm_cannot_hold(place: str) -> None:
    """Are cut to what it can, or refused with a place; the program is compiled all the same."""
    text = f"cuda_tile.module @m {{ entry @k() {{ return loc({place}) }} loc({place}) }}"
    options = CompileOptions("sm_90", emit="ptx", line_info=True)
    try:
        ptx = compile_module(text.encode(), options, "f.mlir").output
    except BytecodeError as error:
        assert error.location is not None
    else:
        assert b".visible .entry k" in ptx


def test_guarded_access_of_a_width_that_no_register_has() -> None:
    lines = (
        "%0 = llvm.poison : vector<2x!llvm.ptr<1>>\n    %1 = llvm.poison : vector<2xi1>\n"
        "    %2 = llvm.poison : vector<2xi24>\n"
        "    nvvm.guarded_store %2, %0 if %1 {align = 4} : vector<2xi24>, vector<2x!llvm.ptr<1>>, "
        "vector<2xi1>"
    )
    error = mistake(thread_program(lines))
    assert error.location is not None


def test_long_word_of_the_input_is_not_repeated() -> None:
    error = mistake(thread_program(f"%0 = nvvm.read_sreg {'i' * 5000}"))
    assert "unknown register" in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("type", ["i", "si", "!llvm.array<4 x i", "f"])
def test_type_with_thousands_of_digits(type: str) -> None:
    """Python refuses to make a number of them, in words that name its own settings."""
    error = mistake(thread_program("llvm.return", f"%a: {type}{'9' * 5000}"))
    assert error.message == "number has 5000 digits, expected at most 128"
    assert error.location is not None


def test_names_of_values_may_have_as_many_digits() -> None:
    text = thread_program(f"%v{'9' * 200} = llvm.constant 1 : i64")
    compile_module(text.encode(), CompileOptions("sm_90", emit="ptx"))


@pytest.mark.parametrize(
    ("regions", "found"), [("()", "[]"), ("() ({}, {})", "[0, 0]"), ("() ({})", "[0]")]
)
def test_module_in_generic_form_without_its_block(regions: str, found: str) -> None:
    error = mistake(f'"builtin.module"{regions} : () -> ()')
    assert error.message == (
        f"'builtin.module' has regions of {found} blocks, expected one of 1 block"
    )
    assert error.location is not None


def test_operation_is_not_repeated_whole_by_a_verifier() -> None:
    """A value from outside of a function: xDSL prints the operation that uses it."""
    out, result = "o" * 70, "r" * 70
    head = f"builtin.module {{\n  %{out} = llvm.constant 1 : i64\n"
    body = f"    %{result} = llvm.add %{out}, %{out} : i64\n    llvm.return\n"
    error = mistake(f"{head}  llvm.func @k() attributes {{kernel}} {{\n{body}  }}\n}}\n")
    assert "out of its IsolatedFromAbove parent: " in error.message
    assert len(error.message.partition("parent: ")[2]) <= 80


def hinted(hints: str) -> str:
    """A kernel with hints."""
    return f"cuda_tile.module @m {{\n  entry @k() optimization_hints=<{hints}> {{ return }}\n}}\n"


def test_hints_for_a_target_in_quotes() -> None:
    options = CompileOptions("sm_90", emit="cuda_tile")
    texts = [
        compile_module(hinted(f"{name} = {{occupancy = 2}}").encode(), options).output
        for name in ("default", '"default"')
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ('"sm_90" = 3', "hints for 'sm_90' are not in braces"),
        ("sm_90", "hints for 'sm_90' are not in braces"),
        ('sm_90 = {}, "sm_90" = {}', "'sm_90' is given twice"),
        (f'"{"x" * 5000}" = 3', f"hints for '{'x' * 77}...' are not in braces"),
        (f"{'x' * 5000} = {{}}, {'x' * 5000} = {{}}", f"'{'x' * 77}...' is given twice"),
    ],
)
def test_hints_that_are_not_right(hints: str, said: str) -> None:
    error = mistake(hinted(hints))
    assert said in error.message
    assert error.location is not None
