"""The plan of a whole kernel, from which the conversion to nv_tileas is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.resources.warps import plan_cta

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan


def has_products(func: aa.FuncOp) -> bool:
    """Whether there is a matrix product: other kernels are not specialised."""
    return any(isinstance(op, aa.ProductOp) for op in func.walk())


def plan_kernel(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions, num_warps: int = 0
) -> CtaPlan:
    """Specialised warps where a strategy was chosen, else (and at -O0) warps that all do the same.

    With `num_warps` they do so in any case, and are so many. Raises CompileError where no
    strategy has been chosen yet (`planning.strategy`).
    """
    if num_warps:
        return plan_cta(func, target, num_warps)
    if options.opt_level > 0 and has_products(func):
        from tileiras.planning.resources.stages import has_room
        from tileiras.planning.strategy import strategy_of

        roles = strategy_of(func, target)
        plans = _with_and_without_stores(func, roles, target, options) if roles else ()
        for plan in plans:
            if has_room(func, plan, target):
                return CtaPlan(plan.shape.consumer_warps, target, plan)
    return plan_cta(func, target)


def _with_and_without_stores(
    func: aa.FuncOp, roles: RolePlan, target: GpuTarget, options: CompileOptions
) -> Iterator[RolePlan]:
    """The plan of a specialised kernel with the stores that TMA does, then without them."""
    delayed = options.switch(DELAY_TMA_STORE_WAIT) is not False
    plan = _with_stores(func, roles, target, options.switch(PREFER_TMA), delayed)
    yield plan
    if plan.stores:
        yield replace(roles, are_stores_delayed=delayed)


def _with_stores(
    func: aa.FuncOp, roles: RolePlan, target: GpuTarget, prefer: bool | None, delayed: bool
) -> RolePlan:
    """The plan of a specialised kernel with the stores that TMA does."""
    from tileiras.planning.operands.tma_stores import tma_stores

    # What mma.sync leaves in registers is stored from there, unless TMA is asked for.
    if not roles.is_asynchronous and prefer is not True:
        return roles
    stores = tma_stores(func, roles, target, prefer)
    roles = replace(roles, stores=stores, are_stores_delayed=delayed)
    if stores:
        from tileiras.planning.warp_roles.store_warp import with_store_warp

        roles = with_store_warp(func, roles, target)
    return roles
