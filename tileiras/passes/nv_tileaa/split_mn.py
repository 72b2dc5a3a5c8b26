"""Cuts products that are longer along rows or columns than what the asynchronous instructions take.

wgmma computes at most 256 columns, a bulk copy brings at most 256 rows: a product of 64x512 would
fall back to all warps doing the same.

    64x512 f32     -> 2 parts of 64x256
    512x64 f32     -> 2 parts of 256x64

Whether that is so depends on how the kernel is planned. What is returned has its strategy on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.nv_tileaa.split_products import MAX_EXTENT, is_longer, split_products
from tileiras.passes.nv_tileaa.split_steps import split_steps
from tileiras.planning.mma.strategy import WgmmaStrategy
from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise


@dataclass(frozen=True)
class Sliced:
    """A kernel with its strategy, and what was cut: products, and steps of K."""

    func: aa.FuncOp
    products: list[str]
    steps: list[str]


def split_mn(func: aa.FuncOp, target: GpuTarget) -> Sliced | None:
    """The kernel with long products cut if that makes it specialised, else as it is; None if there
    are none. Steps of K are cut where they must.
    """
    long = [op for op in func.walk() if isinstance(op, aa.DotOp) and is_longer(op, MAX_EXTENT)]
    if not long or not (target.has(Feature.WGMMA) and target.has(Feature.TMA)):
        return None
    products = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    may_stay = not isinstance(WgmmaStrategy().plan(products, target), str)
    whole = _with_steps(without_strategy(func), [], target) if may_stay else None
    if whole is not None and strategy_of(whole.func, target) is not None:
        return whole
    changed = without_strategy(func)
    done = split_products(changed, 1, MAX_EXTENT)
    cut = _with_steps(changed, done, target) if done else None
    if cut is not None and strategy_of(cut.func, target) is not None:
        return cut
    return whole or _with_steps(without_strategy(func), [], target)


def with_strategy(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, bool]:
    """A copy of a kernel with its strategy on it, to take its place; whether all of its sums would
    lie in tensor memory as it is, with registers enough.
    """
    copy = without_strategy(func)
    plan = would_specialise(copy, target)
    return copy, plan is not None and all(planned.is_in_tmem for planned in plan.dots.values())


def _with_steps(copy: aa.FuncOp, products: list[str], target: GpuTarget) -> Sliced:
    """A copy in which products are cut, with its strategy; steps of K are cut where they must."""
    would_specialise(copy, target)
    func, steps = split_steps(copy, target)
    return Sliced(func, products, steps)
