"""Cuts products that are longer along rows or columns than what the asynchronous instructions take.

wgmma computes at most 256 columns, a bulk copy brings at most 256 rows: a product of 64x512 would
fall back to all warps doing the same.

    64x512 f32     -> 2 parts of 64x256
    512x64 f32     -> 2 parts of 256x64
"""

from __future__ import annotations

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.nv_tileaa.split_k import split_steps
from tileiras.passes.nv_tileaa.split_products import MAX_EXTENT, is_longer, split_products
from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise


def split_mn(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, list[str]]:
    """The function with long products cut, and what was done, if that makes it specialised."""
    long = [op for op in func.walk() if isinstance(op, aa.DotOp) and is_longer(op, MAX_EXTENT)]
    if not long or not (target.has(Feature.WGMMA) and target.has(Feature.TMA)):
        return func, []
    if _would_be_specialised(without_strategy(func), target):
        return func, []
    changed = without_strategy(func)
    done = split_products(changed, 1, MAX_EXTENT)
    if not done or not _would_be_specialised(changed, target):
        return func, []
    return changed, done


def fits_tensor_memory(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether all sums of a kernel would lie in tensor memory as it is, with registers enough."""
    plan = would_specialise(without_strategy(func), target)
    return plan is not None and all(planned.is_in_tmem for planned in plan.dots.values())


def _would_be_specialised(copy: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether a kernel would be, steps of K being cut where they must."""
    would_specialise(copy, target)
    return strategy_of(split_steps(copy, target)[0], target) is not None
