"""cse: equal expressions are computed once, where that is the same program."""

from __future__ import annotations

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.passes.cuda_tile.cse import eliminate_common_subexpressions

ARGUMENTS = "%x: tile<i32>, %y: tile<i32>, %c: tile<i1>, %p: tile<ptr<f32>>"


def merged(body: str) -> list[str]:
    """The operations after the pass, one a line."""
    module = parse_module(kernel(body, ARGUMENTS))
    verify_module(module)
    eliminate_common_subexpressions(module)
    verify_module(module)
    return [line.strip() for line in print_module(module).splitlines()[1:-2]]


def count(lines: list[str], mnemonic: str) -> int:
    """How often an operation is there."""
    return sum(f" {mnemonic} " in f" {line} " for line in lines)


def test_merges_equal_operations() -> None:
    """Operands, properties and types are equal; chains merge whole."""
    lines = merged(
        "%a = muli %x, %y : tile<i32>\n%b = muli %x, %y : tile<i32>\n"
        "%d = negi %a : tile<i32>\n%e = negi %b : tile<i32>\n%f = addi %d, %e : tile<i32>"
    )
    assert lines == [
        "%0 = muli %arg0, %arg1 : tile<i32>",
        "%1 = negi %0 : tile<i32>",
        "%2 = addi %1, %1 : tile<i32>",
    ]


def test_merges_operations_with_several_results() -> None:
    """All results at once."""
    lines = merged(
        "%a:3 = get_tile_block_id : tile<i32>\n%b:3 = get_tile_block_id : tile<i32>\n"
        "%d = addi %a#0, %b#2 : tile<i32>"
    )
    assert count(lines, "get_tile_block_id") == 1
    assert lines[-1] == "%0 = addi %blockId_x, %blockId_z : tile<i32>"


def test_keeps_operations_that_differ() -> None:
    """In operands, their order, properties, or the type of the result."""
    lines = merged(
        "%a = subi %x, %y : tile<i32>\n%b = subi %y, %x : tile<i32>\n"
        "%d = addi %x, %y : tile<i32>\n%e = addi %x, %y overflow<no_wrap> : tile<i32>\n"
        "%f = reshape %x : tile<i32> -> tile<1xi32>\n%g = reshape %x : tile<i32> -> tile<1x1xi32>"
    )
    assert len(lines) == 6


def test_merges_weak_loads_behind_the_same_token() -> None:
    """Nothing orders a write between them; a token of a store does."""
    loads = (
        "%o = make_token : token\n"
        "%a, %s = load_ptr_tko weak %p token=%o : tile<ptr<f32>> -> tile<f32>, token\n"
        "%w = store_ptr_tko weak %p, %a token=%s : tile<ptr<f32>>, tile<f32> -> token\n"
        "%b, %t = load_ptr_tko weak %p token={} : tile<ptr<f32>> -> tile<f32>, token\n"
        "%d = addf %a, %b : tile<f32>"
    )
    assert count(merged(loads.format("%o")), "load_ptr_tko") == 1
    assert count(merged(loads.format("%w")), "load_ptr_tko") == 2


def test_keeps_operations_with_effects() -> None:
    """Two loads may see different memory if others may write it; large tiles take registers."""
    tile = "tile<16384xptr<f32>>"
    lines = merged(
        "%a, %s = load_ptr_tko relaxed device %p : tile<ptr<f32>> -> tile<f32>, token\n"
        "%b, %t = load_ptr_tko relaxed device %p : tile<ptr<f32>> -> tile<f32>, token\n"
        "%q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>\n"
        f"%r = broadcast %q : tile<1xptr<f32>> -> {tile}\n"
        f"%g, %u = load_ptr_tko weak %r : {tile} -> tile<16384xf32>, token\n"
        f"%h, %v = load_ptr_tko weak %r : {tile} -> tile<16384xf32>, token\n"
        "%d = alloca num_elem = 4, alignment = 4 : tile<ptr<f32>>\n"
        "%e = alloca num_elem = 4, alignment = 4 : tile<ptr<f32>>"
    )
    assert len(lines) == 8


def test_takes_what_is_known_outside_of_a_region() -> None:
    """An operation before the if dominates both branches."""
    lines = merged(
        "%a = negi %x : tile<i32>\nif %c {\n%b = negi %x : tile<i32>\n"
        '%t = print_tko "%i", %b : tile<i32> -> token\n}'
    )
    assert count(lines, "negi") == 1


def test_does_not_take_what_is_inside_or_beside() -> None:
    """What a branch computes is not known after it, nor in the other branch."""
    lines = merged(
        "if %c {\n%a = negi %x : tile<i32>\n} else {\n%b = negi %x : tile<i32>\n}\n"
        "%d = negi %x : tile<i32>"
    )
    assert count(lines, "negi") == 3


def test_does_not_take_what_comes_after_the_region() -> None:
    """It does not dominate."""
    lines = merged("if %c {\n%a = negi %x : tile<i32>\n}\n%b = negi %x : tile<i32>")
    assert count(lines, "negi") == 2


def test_bodies_of_reductions_stay_closed() -> None:
    """Their constants are their own."""
    lines = merged(
        "%k = constant <i32: 3> : tile<i32>\n"
        "%r = reduce %v_8_i32 dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32> "
        "(%a: tile<i32>, %b: tile<i32>) {\n%m = constant <i32: 3> : tile<i32>\n"
        "%n = constant <i32: 3> : tile<i32>\n%s = addi %m, %n : tile<i32>\n"
        "yield %s : tile<i32>\n}"
    )
    assert sum("constant <i32: 3>" in line for line in lines) == 2
