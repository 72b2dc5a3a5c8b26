"""Prints and assertions: the compiled program prints what the interpreter prints."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.codegen.lowering import rows
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.interpreter import RunLog, SimulatedMemory, run_entry


def run_both(body: str, grid: tuple[int, int, int] = (1, 1, 1)) -> tuple[RunLog, RunLog]:
    """What the interpreter and the compiled program report for an entry with this body."""
    text = f"cuda_tile.module @m {{ entry @k() {{ {body}\n return }} }}"
    wanted = run_entry(parse_module(text), "k", [], grid, SimulatedMemory())
    return wanted, run_lowered(lower_to_llvm(parse_module(text)), [], grid)


def tile(element: str, shape: str) -> str:
    """Text that defines %v, a tile of small numbers of an element type; `x` between dims."""
    count = int(np.prod([int(dim) for dim in shape.split("x")]))
    signed = "signed"
    made = f"%i = iota : tile<{count}xi32>\n"
    made += f"%r = reshape %i : tile<{count}xi32> -> tile<{shape}xi32>\n"
    match element:
        case "i32":
            made += f"%z = constant <i32: 0> : tile<{shape}xi32>\n"
            return made + f"%v = addi %r, %z : tile<{shape}xi32>"
        case "i64":
            return made + f"%v = exti %r {signed} : tile<{shape}xi32> -> tile<{shape}xi64>"
        case "i1" | "i8" | "i16":
            return made + f"%v = trunci %r : tile<{shape}xi32> -> tile<{shape}x{element}>"
        case "bf16":
            wide = f"%w = itof %r {signed} : tile<{shape}xi32> -> tile<{shape}xf32>\n"
            return made + wide + f"%v = ftof %w : tile<{shape}xf32> -> tile<{shape}xbf16>"
        case _:
            return made + f"%v = itof %r {signed} : tile<{shape}xi32> -> tile<{shape}x{element}>"


@pytest.mark.parametrize("element", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("conversion", ["%d", "%u", "%5i", "%-4x|", "%llo", "%c", "%.3f", "%hhd"])
def test_integers_print_in_every_form(element: str, conversion: str) -> None:
    body = tile(element, "2x4")
    wanted, found = run_both(
        f'{body} print_tko "a {conversion} b", %v : tile<2x4x{element}> -> token'
    )
    assert "".join(found.printed) == "".join(wanted.printed)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("conversion", ["%f", "%10.4f", "%+e", "%g", "%d", "%lf"])
def test_floats_print_in_every_form(element: str, conversion: str) -> None:
    body = tile(element, "8")
    wanted, found = run_both(f'{body} print_tko "{conversion}", %v : tile<8x{element}> -> token')
    assert "".join(found.printed) == "".join(wanted.printed)


@pytest.mark.parametrize(
    "shape",
    [
        *("1", "32", "64", "256", "2x16", "16x4", "4x64", "2x4x16", "64x2", "1x128", "8x2x2x8"),
        "4x1024",
    ],
)
def test_tiles_print_as_nested_lists(shape: str) -> None:
    body = tile("i32", shape)
    wanted, found = run_both(f'{body} print_tko "<%d>\\n", %v : tile<{shape}xi32> -> token')
    assert "".join(found.printed) == "".join(wanted.printed)
    assert found.printed[-1].endswith(">\n")


def test_what_fits_is_one_call() -> None:
    body = tile("f32", "16")
    print_ = 'print_tko "100%% %d: %f %f\\n", %s, %v, %v : tile<i32>, tile<16xf32>, tile<16xf32>'
    short = print_.replace("%d: %f %f", "%f %f").replace("%s, ", "").replace("tile<i32>, ", "")
    _, found = run_both(f"{body} {short} -> token")
    assert len(found.printed) == 1
    assert found.printed[0].startswith("100% [0.000000, 1.000000,")


def test_more_arguments_than_a_call_takes() -> None:
    body = tile("f32", "16") + "\n %s = constant <i32: 7> : tile<i32>"
    print_ = 'print_tko "%d: %f %f\\n", %s, %v, %v : tile<i32>, tile<16xf32>, tile<16xf32>'
    wanted, found = run_both(f"{body} {print_} -> token")
    assert "".join(found.printed) == "".join(wanted.printed)
    assert len(found.printed) == 2


def test_every_tile_block_prints() -> None:
    body = "%x, %y, %z = get_tile_block_id : tile<i32>"
    wanted, found = run_both(f'{body} print_tko "block %d\\n", %x : tile<i32> -> token', (3, 1, 1))
    assert found.printed == wanted.printed == ["block 0\n", "block 1\n", "block 2\n"]


def test_large_unsigned_and_negative_numbers() -> None:
    body = "%a = constant <i8: -1> : tile<i8>\n %b = constant <i64: -2> : tile<i64>"
    print_ = 'print_tko "%d %u %d %llu %x", %a, %a, %b, %b, %a'
    types = "tile<i8>, tile<i8>, tile<i64>, tile<i64>, tile<i8>"
    wanted, found = run_both(f"{body} {print_} : {types} -> token")
    assert found.printed == wanted.printed == ["-1 255 -2 18446744073709551614 ff"]


def assertion(shape: str, expected: str) -> str:
    """A body whose assertion compares %v with a constant."""
    compare = f"%e = constant <i32: {expected}> : tile<{shape}xi32>\n"
    compare += f"%c = cmpi not_equal %v, %e, signed : tile<{shape}xi32> -> tile<{shape}xi1>\n"
    return tile("i32", shape) + "\n" + compare + f'assert %c, "100% wrong" : tile<{shape}xi1>'


@pytest.mark.parametrize("shape", ["8", "4x64", "1024", "2x2x128"])
def test_assertions_that_hold_say_nothing(shape: str) -> None:
    wanted, found = run_both(assertion(shape, "-1"))
    assert not wanted.failures
    assert not found.printed and not found.failures


@pytest.mark.parametrize("shape", ["8", "4x64", "1024", "2x2x128"])
def test_failed_elements_are_named(shape: str) -> None:
    wanted, found = run_both(assertion(shape, "6"))
    (failure,) = wanted.failures
    (place,) = failure.elements
    (line,) = found.printed
    assert "100% wrong" in line and line.count("\n") == 1
    assert f"element {list(place)} of tile block [0, 0, 0]" in line
    assert [failure.message for failure in found.failures] == ["100% wrong"]


def test_failed_scalar() -> None:
    body = '%c = constant <i1: 0> : tile<i1>\n assert %c, "no" : tile<i1>'
    wanted, found = run_both(body)
    assert len(wanted.failures) == 1
    assert len(found.printed) == 1 and "no (tile block [0, 0, 0])\n" in found.printed[0]
    assert [failure.message for failure in found.failures] == ["no"]


@pytest.mark.parametrize("shape", ["1024", "8x128", "2x2x256"])
def test_failed_elements_are_found_in_every_round(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROUND_BYTES", 256)
    wanted, found = run_both(assertion(shape, "700"))
    (line,) = found.printed
    assert f"element {list(wanted.failures[0].elements[0])} of" in line
    assert len(found.failures) == 1


@pytest.mark.parametrize("shape", ["256", "2x128", "16x16", "2x64x2"])
def test_long_tiles_print_in_rounds(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROUND_BYTES", 512)
    wanted, found = run_both(
        tile("i32", shape) + f'print_tko "%d", %v : tile<{shape}xi32> -> token'
    )
    assert "".join(found.printed) == "".join(wanted.printed)
