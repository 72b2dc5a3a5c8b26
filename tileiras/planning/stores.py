"""How a specialised kernel stores: decided once, and written beside its strategy.

    func @gemm attributes {strategy = .., plan = <.., stores_delayed = 1, store_warp = 1>} {
      ..  tiled_store %t {by_tma} }

Passes that let tile blocks divide many tiles ask of the copy that they have made, for they gain by
it only if a warp of its own stores. `tileas-plan-cta` asks of all kernels. Whoever asks first
decides. What is written goes with the strategy, when a pass changes the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import PLAN, KernelPlanAttr
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.planning.strategy import strategy_of

if TYPE_CHECKING:  # most kernels have no products
    from tileiras.planning.model.kernel import RolePlan


def are_stores_decided(func: aa.FuncOp) -> bool:
    """Whether it stands on a kernel how it stores."""
    plan = func.attributes.get(PLAN)
    return isinstance(plan, KernelPlanAttr) and plan.has("store_warp")


def plan_with_stores(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions
) -> RolePlan | None:
    """The plan that stands on a kernel, with its stores, which are written down if they were not.

    None if the kernel will not be specialised, or has no room for its pipelines. Raises what
    `strategy_of` does.
    """
    roles = strategy_of(func, target)
    if roles is None or are_stores_decided(func):
        return roles
    from tileiras.planning.model.written import erase_plan
    from tileiras.planning.model.written_roles import write_roles
    from tileiras.planning.resources.stages import has_room

    for plan in _with_and_without_stores(func, roles, target, options):
        if has_room(func, plan, target):
            erase_plan(func)
            write_roles(func, plan, plan.shape.consumer_warps)
            return plan
    return None


def plan_of_loop(
    func: aa.FuncOp, one: RolePlan, many: RolePlan, target: GpuTarget, options: CompileOptions
) -> RolePlan | None:
    """What is known of the plan of a kernel that goes through many tiles, by its plan for `one`;
    None if no warp of its own would store.

    `many` has the memory of stages, of as many tiles as are computed at once. Nothing is written.
    """
    from tileiras.planning.operands.tma_stores import has_room_to_store, stores_by_tma
    from tileiras.planning.resources.stages import has_room
    from tileiras.planning.warp_roles.store_warp import with_store_warp

    prefer = options.switch(PREFER_TMA)
    if prefer is False or options.switch(DELAY_TMA_STORE_WAIT) is False:
        return None
    stores = stores_by_tma(func, replace(one, becomes_loop=True), prefer)
    plan = replace(many, becomes_loop=True)
    if not stores or not has_room_to_store(func, plan, target, stores):
        return None
    plan = with_store_warp(func, replace(plan, stores=stores), target)
    return plan if plan.has_store_warp and has_room(func, plan, target) else None


def _with_and_without_stores(
    func: aa.FuncOp, roles: RolePlan, target: GpuTarget, options: CompileOptions
) -> Iterator[RolePlan]:
    """The plan of a specialised kernel with the stores that TMA does, then without them."""
    delayed = options.switch(DELAY_TMA_STORE_WAIT) is not False
    plan = _with_stores(func, roles, target, options.switch(PREFER_TMA), delayed)
    yield plan
    if plan.stores or plan.row_stores:
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
    elif func.two_tiles is not None and func.static_tile_scheduler is not None:
        from tileiras.planning.operands.row_stores import row_stores

        roles = replace(roles, row_stores=row_stores(func, roles))
    return roles
