"""Which operations have no effect: the whole list, so that a change of it is seen."""

from __future__ import annotations

from xdsl.traits import NoMemoryEffect

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile import CudaTile, DivIOp, RemIOp
from tileiras.dialects.cuda_tile.effects import is_pure, is_speculatable
from tileiras.dialects.cuda_tile.text import parse_module

EFFECTS = {
    "alloca",
    "assert",
    "atomic_cas_tko",
    "atomic_red_view_tko",
    "atomic_rmw_tko",
    "break",
    "continue",
    "entry",
    "for",
    "gdc_launch_dependents_tko",
    "gdc_wait_tko",
    "global",
    "if",
    "load_ptr_tko",
    "load_view_tko",
    "loop",
    "memory_fence_alias_tko",
    "module",
    "multimem_load_reduce_view_tko",
    "multimem_reduce_view_tko",
    "multimem_store_view_tko",
    "print_tko",
    "return",
    "store_ptr_tko",
    "store_view_tko",
    "yield",
}


def test_all_other_operations_have_no_effect() -> None:
    """By their traits."""
    found = {
        op.name.removeprefix("cuda_tile.")
        for op in CudaTile.operations
        if not op.has_trait(NoMemoryEffect)
    }
    assert found == EFFECTS


def pure(body: str) -> bool:
    """Whether the last operation of a body is pure."""
    module = parse_module(kernel(body))
    *_, last, _ = list(module.walk())[2].regions[0].blocks[0].ops
    return is_pure(last)


def test_structured_operations_are_what_they_hold() -> None:
    """An if or for of pure operations is pure; one that leaves its region is not."""
    assert pure("if %v_i1 {\n%0 = negi %v_i32 : tile<i32>\n}")
    assert not pure('if %v_i1 {\n%0 = print_tko "x" -> token\n}')
    assert pure("for %i in (%v_i32 to %v_i32, step %v_i32) : tile<i32> {\n}")
    assert not pure("if %v_i1 {\nreturn\n}")
    assert not pure(
        "for %i in (%v_i32 to %v_i32, step %v_i32) : tile<i32> {\nif %v_i1 {\ncontinue\n}\n"
        '%0 = print_tko "x" -> token\n}'
    )


def test_loop_may_not_end() -> None:
    """So it stays."""
    assert not pure("loop {\nbreak\n}")


def test_division_is_not_moved_to_where_it_did_not_run() -> None:
    """It is undefined for zero; addition never is."""
    module = parse_module(
        kernel(
            "%0 = divi %v_i32, %v_i32 signed : tile<i32>\n%1 = addi %v_i32, %v_i32 : tile<i32>\n"
            "%2 = remi %v_i32, %v_i32 signed : tile<i32>"
        )
    )
    for op in list(module.walk())[2].regions[0].blocks[0].ops:
        if op.name == "cuda_tile.constant":
            continue
        divides = isinstance(op, DivIOp | RemIOp)
        if op.results:
            assert is_speculatable(op) != divides
