"""Which products stay unfinished: what is written, what is refused, and that it is acted on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute

from tests.kernels.assigned import BORDER, assigned, first, plan_of, read, run
from tests.kernels.planned import SPECIALISED, kernel_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import PENDING
from tileiras.errors import CompileError
from tileiras.planning.warp_roles.assignment import assign_roles

UNFINISHED: dict[str, list[int | None]] = {
    "gemm": [1],
    "persistent": [1],
    "joined in rounds": [2, 2, 1],
    "turned bytes": [0],
    "turned words": [1],
    "attention": [None] * 8,
    "gather": [1],
    "shared operands": [2, 2],
}
"""How many products may be unfinished behind each; None for those that are waited for later."""


@pytest.mark.parametrize("name", UNFINISHED)
def test_products_that_their_loop_only_adds_to_stay_unfinished(name: str) -> None:
    func = kernel_of(assigned(SPECIALISED[name]()))
    plan, found = plan_of(func), read(func).pending
    assert [found.get(dot) for dot in plan.dots] == UNFINISHED[name]
    assert found == assign_roles(func, plan).pending


def number(value: int) -> Attribute:
    """An integer as it stands beside a product."""
    return IntegerAttr(value, i32)


def spoil(value: Attribute | None) -> Callable[[aa.FuncOp], object]:
    """Writes another number beside the first product, or none."""

    def change(func: aa.FuncOp) -> object:
        attributes = first(func, aa.DotOp)
        return attributes.pop(PENDING) if value is None else attributes.update({PENDING: value})

    return change


SPOILED: dict[str, tuple[str, Callable[[aa.FuncOp], object], str]] = {
    "more than there are": ("gemm", spoil(number(2)), "leaves 2 products unfinished, at most 1"),
    "a negative number": ("gemm", spoil(number(-1)), "leaves -1 products unfinished, at most 1"),
    "a word": ("gemm", spoil(StringAttr("all")), "has 'pending', and is no product by wgmma"),
    "a sum that is read": (
        "attention",
        spoil(number(1)),
        "leaves 1 products unfinished, .* 0",
    ),
    "a sum that threads add": ("turned bytes", spoil(None), "has no 'pending', and threads take"),
    "half a stage": ("shared operands", spoil(number(1)), "has another 'pending' than that of"),
    "half a stage alone": ("shared operands", spoil(None), "has another 'pending' than that of"),
    "no product": (
        "gemm",
        lambda f: first(f, aa.ForOp).update({PENDING: number(0)}),
        "'for' op has 'pending', and is no product by wgmma",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_numbers_that_contradict_the_program_are_refused(what: str) -> None:
    name, change, message = SPOILED[what]
    func = kernel_of(assigned(SPECIALISED[name]()))
    change(func)
    with pytest.raises(CompileError, match=message):
        read(func)


@pytest.mark.parametrize(("pending", "kept"), [(None, 0), (0, 0), (1, 1)])
def test_conversion_does_what_is_written(pending: int | None, kept: int) -> None:
    module = assigned(SPECIALISED["gemm"]())
    spoil(None if pending is None else number(pending))(kernel_of(module))
    text = run(module, BORDER)
    product = next(line for line in text.splitlines() if "nv_tileas.wgmma_dot" in line)
    assert (f"pending = {pending}" in product) == (pending is not None)
    waits = text.count("nv_tileas.dot_wait")
    assert waits == (0 if pending == 0 else 1)
    assert text.count("consumer_release") == 1 + kept
    assert ("keep = 1" in text) == bool(kept)
