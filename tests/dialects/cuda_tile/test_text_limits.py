"""Text that is too long, too deep or too large for what it says is a mistake with a place."""

from __future__ import annotations

import time

import pytest

from tests.kernels.cuda_tile_text import kernel
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError
from tileiras.options import CompileOptions

TEXT = CompileOptions(gpu_name="sm_90", emit="cuda_tile")
NINES = "9" * 5000


def refusal(text: str) -> BytecodeError:
    """The error of a text; fails if it takes long or has no place."""
    start = time.perf_counter()
    with pytest.raises(BytecodeError) as caught:
        compile_module(text.encode(), TEXT, "k.mlir")
    assert time.perf_counter() - start < 5
    error = caught.value
    assert error.exit_code == 3 and error.location is not None
    assert all(len(one.message) < 300 for one in error.every_mistake())
    return error


@pytest.mark.parametrize(
    "body",
    [
        f"%0 = iota : tile<8xi{NINES}>",
        f"%0 = iota : tile<{NINES}xi32>",
        f"%0 = constant <i32: {NINES}> : tile<i32>",
        f"%0 = constant <i32: 0x{NINES}> : tile<i32>",
        f"%0 = constant <f32: {NINES}.0> : tile<f32>",
        f"%0 = constant <f32: 1.0e{NINES}> : tile<f32>",
        "%0 = constant <f64: 1.0e999999999> : tile<f64>",
        f"%0:{NINES} = get_tile_block_id : tile<i32>",
        f"%0:3 = get_tile_block_id : tile<i32>\n%1 = negi %0#{NINES} : tile<i32>",
        f"%0 = make_partition_view %tv : partition_view<tile=({NINES}x4), tensor_view<4xf32>>",
        f'%0 = iota : tile<8xi32> loc("f":{NINES}:1)',
        f"%0 = alloca num_elem = {NINES}, alignment = 4 : tile<ptr<f32>>",
        f"%0 = assume div_by<{NINES}>, %v_i32 : tile<i32>",
    ],
)
def test_number_with_thousands_of_digits(body: str) -> None:
    """Wherever a number may stand."""
    assert "digits" in refusal(kernel(body)).message


@pytest.mark.parametrize(
    "body",
    [
        "%0 = iota : tile<8xi99999999>",
        "%0 = iota : tile<8xi0>",
        "%0 = alloca num_elem = 99999999999999999999, alignment = 4 : tile<ptr<f32>>",
        "%0 = permute %v_4x8_f32 [4294967296, 0] : tile<4x8xf32> -> tile<8x4xf32>",
        "%0 = permute %v_4x8_f32 [99999999999999999999, 0] : tile<4x8xf32> -> tile<8x4xf32>",
        '%0 = "cuda_tile.permute"(%v_4x8_f32) <{permutation = array<i32: 99999999999, 0>}> : '
        "(tile<4x8xf32>) -> tile<8x4xf32>",
        '%0 = "cuda_tile.permute"(%v_4x8_f32) <{permutation = array<i77: 1, 0>}> : '
        "(tile<4x8xf32>) -> tile<8x4xf32>",
        "%0 = cat %v_8_f32, %v_8_f32 dim = 99999999999 : tile<8xf32>, tile<8xf32> -> tile<16xf32>",
    ],
)
def test_number_that_its_place_cannot_hold(body: str) -> None:
    """xDSL raises ValueError or VerifyException there, which must not look like our bug."""
    refusal(kernel(body))


@pytest.mark.parametrize(
    "text",
    [
        "entry @k() {\n" + "if %c {\n" * 5000,
        'entry @k() {\n%0 = "cuda_tile.iota"() : () -> ' + "(" * 5000,
        'entry @k() {\n%0 = "cuda_tile.iota"() : ' + "() -> (" * 5000,
        "entry @k() optimization_hints=<" + "a={" * 5000,
        "entry @k() optimization_hints=<a={b=" + "[" * 5000,
        "cuda_tile.module @m attributes {a = " + "{b = " * 5000,
        "#a = " + "[" * 5000 + "\nentry @k() {\n}\n",
        '"builtin.module"() ({\n' * 3000,
    ],
)
def test_nesting_of_any_kind(text: str) -> None:
    """Never exhausts Python's stack."""
    refusal(text)


@pytest.mark.parametrize(
    "name",
    ["frob" * 2000, '"' + "frob " * 2000 + '"() : () -> ()', "#" + "x" * 5000, "@" + "y" * 5000],
)
def test_long_tokens_are_not_repeated(name: str) -> None:
    """A message shows 80 characters of the input at most."""
    error = refusal(kernel(name))
    shown = error.render()
    assert name.strip('"')[:60] in shown and name.strip('"')[:90] not in shown


GENERIC = '"cuda_tile.{}"({}) <{{{}}}> : ({}) -> ({})'
ROUNDING = "rounding_mode = #cuda_tile.rounding<zero>"


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            GENERIC.format("addf", "%v_f32", ROUNDING, "tile<f32>", "tile<f32>"),
            "'cuda_tile.addf' op expected 2 operands, but got 1",
        ),
        (
            GENERIC.format("negf", "%v_f32", "", "tile<f32>", "tile<f32>, tile<f32>"),
            "'cuda_tile.negf' op expected 1 result, but got 2",
        ),
        (GENERIC.format("iota", "", "a = 1 : i32", "", "tile<8xi32>"), "has no property 'a'"),
        (
            '"cuda_tile.if"(%v_i1) : (tile<i1>) -> ()',
            "'cuda_tile.if' op expected 2 regions, but got 0",
        ),
        (
            GENERIC.format("negi", "%v_i32", "overflow = 3 : i32", "tile<i32>", "tile<i32>"),
            "overflow",
        ),
        (
            GENERIC.format("negi", "%v_i32", 'overflow = "none"', "tile<i32>", "tile<i32>"),
            "overflow",
        ),
    ],
)
def test_wrong_arity_and_kinds_in_generic_form(operation: str, message: str) -> None:
    """The message names the operation."""
    assert message in refusal(kernel(operation)).message


def test_second_block_in_generic_form() -> None:
    """A region of this dialect has one."""
    entry = '"cuda_tile.entry"() <{function_type = () -> (), sym_name = "k"}> ({\n'
    returned = '"cuda_tile.return"() : () -> ()\n'
    text = f"{entry}^a:\n{returned}^b:\n{returned}}}) : () -> ()\n"
    assert "found '^b', expected an operation" in refusal(text).message


def test_time_is_linear_in_the_number_of_mistakes() -> None:
    """And in that of lines between them."""
    refusal("entry @k() {\n" + '%0 = print_tko "open\n' * 20000)
    refusal("entry @k() {\n" + "{ %0 = nope\n" * 20000)
