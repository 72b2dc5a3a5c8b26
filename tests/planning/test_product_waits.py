"""When products are finished and stages handed back: what is written, refused, and acted on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, f32, i32
from xdsl.ir import Attribute, Block, Operation, Region

from tests.kernels.assigned import BORDER, assigned, first, plan_of, read, run
from tests.kernels.planned import SPECIALISED, kernel_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import PENDING, RELEASES
from tileiras.errors import CompileError
from tileiras.planning.warp_roles.assignment import assign_roles

UNFINISHED: dict[str, list[int | None]] = {
    "gemm": [1],
    "persistent": [1],
    "two tiles in rounds": [2, 2, 1, 1, 1],
    "transposed bytes": [0],
    "transposed words": [1],
    "attention": [None] * 8,
    "gather": [2, 2],
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


def released(*numbers: int) -> Attribute:
    """Pipelines as they stand beside what hands their stages back."""
    return DenseArrayBase.from_list(i32, numbers)


def release(kind: type[Operation], value: Attribute | None) -> Callable[[aa.FuncOp], object]:
    """Writes other pipelines beside the first operation of a kind, or none."""

    def change(func: aa.FuncOp) -> object:
        attributes = first(func, kind)
        return attributes.pop(RELEASES) if value is None else attributes.update({RELEASES: value})

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
    "a sum that threads add": (
        "transposed bytes",
        spoil(None),
        "has no 'pending', and threads take",
    ),
    "half a stage": ("shared operands", spoil(number(1)), "has another 'pending' than that of"),
    "half a stage alone": ("shared operands", spoil(None), "has another 'pending' than that of"),
    "no product": (
        "gemm",
        lambda f: first(f, aa.ForOp).update({PENDING: number(0)}),
        "'for' op has 'pending', and is no product by wgmma",
    ),
    "a stage that stays": ("gemm", release(aa.DotOp, None), "has no 'releases', and is the last"),
    "no pipeline": ("gemm", release(aa.DotOp, released(1)), "has 'releases' of no pipeline"),
    "no list": ("gemm", release(aa.DotOp, number(0)), "has 'releases' that are no integers"),
    "no integers": (
        "gemm",
        release(aa.DotOp, DenseArrayBase.from_list(f32, [0.0])),
        "has 'releases' that are no integers",
    ),
    "a stage twice": ("gemm", release(aa.DotOp, released(0, 0)), "expected rising ones"),
    "an empty list": ("gemm", release(aa.DotOp, released()), "has 'releases' of no pipeline"),
    "a stage that is read again": (
        "shared operands",
        release(aa.DotOp, released(0)),
        "'dot' op hands back pipeline 0, and is not its last reader",
    ),
    "another one's stage": (
        "attention",
        release(aa.DotOp, released(1)),
        "'dot' op hands back pipeline 1, and is not its last reader",
    ),
    "a stage of products by a loop": (
        "gemm",
        release(aa.ForOp, released(0)),
        "'for' op hands back pipeline 0, and is not its last reader",
    ),
    "a tile that products still read": (
        "attention",
        release(aa.ForOp, released(2)),
        "hands back pipeline 2, and is not its last reader",
    ),
    "a tile that stays for ever": (
        "attention",
        lambda f: [op.attributes.pop(RELEASES, 0) for op in f.walk() if isinstance(op, aa.IfOp)],
        "'if' op reads pipeline 2, which is handed back 0 times, expected once",
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


RELEASES_OF: dict[str, list[tuple[int, ...] | None]] = {
    "gemm": [(0,)],
    "two tiles in rounds": [None, (0,), (0,), (0,), (0,)],
    "two tiles of the grid": [None, (0,), (1,)],
    "transposed bytes": [(0,)],
    "attention": [(0,), (1,)] * 4,
    "shared operands": [None, (0,)],
}
"""The pipelines that get a stage back behind each product."""


@pytest.mark.parametrize("name", RELEASES_OF)
def test_last_product_of_a_stage_hands_it_back(name: str) -> None:
    func = kernel_of(assigned(SPECIALISED[name]()))
    plan, found = plan_of(func), read(func).releases
    assert [found.get(dot) for dot in plan.dots] == RELEASES_OF[name]
    assert found == assign_roles(func, plan).releases


def test_tile_that_stays_is_handed_back_behind_the_last_branch_that_reads_it() -> None:
    func = kernel_of(assigned(SPECIALISED["attention"]()))
    others = {op: n for op, n in read(func).releases.items() if not isinstance(op, aa.DotOp)}
    assert list(others.values()) == [(2,)]
    assert [type(op) for op in others] == [aa.IfOp]


def test_tile_may_stay_until_a_later_branch() -> None:
    func = kernel_of(assigned(SPECIALISED["attention"]()))
    (branch,) = (op for op in read(func).releases if isinstance(op, aa.IfOp))
    later = aa.IfOp.create(
        operands=[branch.condition], regions=[Region(Block([aa.YieldOp.create()])), Region()]
    )
    func.body.block.insert_op_after(later, branch)
    later.attributes[RELEASES] = branch.attributes.pop(RELEASES)
    assert read(func).releases[later] == (2,)
