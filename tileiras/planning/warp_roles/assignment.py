"""Decides which role of a specialised kernel runs which operations.

Each role but the consumers' has a slice of the kernel: the accesses that it is for, the control
flow around them, and what addresses, bounds and conditions are made from. What several roles need
each computes for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.assigned import AccessAttr, access_attribute
from tileiras.dialects.nv_tileas.warp_roles import PRODUCER, PRODUCT, STORE
from tileiras.errors import InternalError
from tileiras.planning.access import plan_pointer_access, plan_view_access
from tileiras.planning.clusters import find_multicast
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import RoleProgram, WarpRoles
from tileiras.planning.operands.tma import root_load, rounds_to_tf32
from tileiras.planning.operands.uniform import uniform_loads_of
from tileiras.planning.schedule.accumulator_use import accumulator_use
from tileiras.planning.schedule.products_ahead import products_ahead
from tileiras.planning.schedule.prologue import prologue_fills
from tileiras.planning.schedule.stage_releases import stage_releases
from tileiras.planning.schedule.starts import keeps_maps, late_start
from tileiras.planning.schedule.unfinished_products import unfinished_products
from tileiras.planning.tile_scheduler.longest_tile_first import longest_tile_first
from tileiras.planning.warp_roles.consumer_loops import loops_of_others
from tileiras.planning.warp_roles.early_exit import early_exit, with_condition
from tileiras.planning.warp_roles.producer_layouts import producer_layouts
from tileiras.planning.warp_roles.producer_slice import SlicedAccess, producer_slice


def assign_roles(func: aa.FuncOp, plan: RolePlan) -> WarpRoles:
    """The roles of a kernel that has been planned."""
    order = longest_tile_first(func) if func.cluster_size == 1 else None
    # CTAs of a cluster wait for each other, so that none may leave alone; those in rows do all, and
    # those that divide a tile block.
    leave_together = func.in_rows is not None or func.dynamic_tile_scheduler is not None
    may_leave = order is None and (func.cluster_size == 1 or leave_together)
    exit = early_exit(func.body.block) if may_leave else None
    accesses: dict[str, Sequence[SlicedAccess]] = {
        PRODUCER: [load for pipeline in plan.pipelines for load in pipeline.loads]
    }
    if plan.has_store_warp:
        accesses[STORE] = plan.stores
    if plan.is_in_tmem:
        accesses[PRODUCT] = [planned.dot for planned in plan.dots.values()]
    programs = {role: _program(func, role, of, exit) for role, of in accesses.items()}
    multicast = find_multicast(func, plan)
    return WarpRoles(
        programs,
        multicast,
        prologue_fills(func, plan, multicast, programs[PRODUCER].kept),
        uniform_loads_of(plan.pipelines),
        () if exit is None else tuple(with_condition(exit)),
        dict.fromkeys(_elsewhere(func, plan, exit)),
        order,
        keeps_maps(func, plan, differ=order is not None),
        late_start(func, plan, differ=order is not None),
        unfinished_products(plan),
        stage_releases(plan),
        accumulator_use(plan),
        products_ahead(plan),
    )


def _program(
    func: aa.FuncOp, role: str, accesses: Sequence[SlicedAccess], exit: aa.IfOp | None
) -> RoleProgram:
    """The slice of a role, which planning has found to be possible."""
    kept = producer_slice(func, accesses, exit)
    layouts = producer_layouts(kept) if kept is not None else None
    if kept is None or layouts is None:
        raise InternalError(f"a planned role of warps has no program: {role}", where="planning")
    found = ((op, _access(op, layouts.warps)) for op in kept.ops if op not in accesses)
    return RoleProgram(kept, layouts, {op: access for op, access in found if access is not None})


def _access(op: Operation, warps: int) -> AccessAttr | None:
    """How threads of a role load a tensor for themselves; None: element by element."""
    if not isinstance(op, aa.LoadOp | aa.TiledLoadOp):
        return None
    if not isinstance(op.results[0].type, TensorType):
        return None
    if isinstance(op, aa.LoadOp):
        access = plan_pointer_access(op, warps)
    else:
        access = plan_view_access(op.view, warps)
    if access is None:
        return None
    return access_attribute(access.vector, access.axis, access.layout)


def _elsewhere(func: aa.FuncOp, plan: RolePlan, exit: aa.IfOp | None) -> Iterator[Operation]:
    """What consumers do not run."""
    if exit is not None:
        yield exit
    for loop in loops_of_others(func, plan):
        yield from loop.walk()
    for op in func.walk():
        if rounds_to_tf32(op):
            load = root_load(op.results[0])
            if load is not None and plan.pipeline_of(load) is not None:
                yield op
        elif plan.is_in_tmem and (op in plan.dots or op in plan.scalings):
            yield op
