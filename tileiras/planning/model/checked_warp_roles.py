"""Compares the written roles of warps with the plan of the kernel: nothing planned may be lost."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import (
    CONSUMER,
    PRODUCT,
    STORE,
    TILE_ORDER,
    WARP_ROLES,
    WarpRolesAttr,
)
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import RoleProgram, WarpRoles
from tileiras.planning.operands.tma import root_load, rounds_to_tf32
from tileiras.planning.tile_scheduler.longest_tile_first import longest_tile_first
from tileiras.planning.warp_roles.consumer_loops import is_of_others
from tileiras.planning.warp_roles.early_exit import early_exit, with_condition
from tileiras.planning.warp_roles.producer_layouts import producer_warps


def check_against_plan(
    func: aa.FuncOp, written: WarpRolesAttr, plan: RolePlan, roles: WarpRoles
) -> None:
    """Raises CompileError at the operation whose role is another one than the plan asks for."""
    _check_exit(func, roles)
    for op in func.body.walk():
        _check_consumer(op, plan, roles)
        _check_operands(op, plan, roles)
    for role, program in roles.programs.items():
        _check_program(func, role, program, roles)
    for role, is_planned in ((STORE, plan.has_store_warp), (PRODUCT, plan.is_in_tmem)):
        if written.has(role) != is_planned:
            asks = "asks for" if is_planned else "has not"
            raise contradiction(func, f"has '{WARP_ROLES}' against its plan, which {asks} {role}")
    warps = {CONSUMER: plan.shape.consumer_warps}
    warps |= {role: producer_warps(program.kept) for role, program in roles.programs.items()}
    for role, number in warps.items():
        if written.integer(role) != number:
            said = f"{written.integer(role)} warps of role {role}, its plan asks for {number}"
            raise contradiction(func, f"has in '{WARP_ROLES}' {said}")
    _check_order(func, roles)


def _check_exit(func: aa.FuncOp, roles: WarpRoles) -> None:
    """Whether what all warps run first is a branch that ends the kernel, with its condition."""
    if not roles.exit:
        return
    exit = early_exit(func.body.block)
    expected = () if exit is None else tuple(with_condition(exit))
    for op in roles.exit:
        if op not in expected:
            raise contradiction(op, "has the role entry, but does not decide an early exit")
    for op in expected:
        if op not in roles.exit:
            raise contradiction(op, "decides an early exit, but has not the role entry")


def _check_consumer(op: Operation, plan: RolePlan, roles: WarpRoles) -> None:
    """Whether consumers run an operation if, and only if, it is theirs."""
    planned = _is_elsewhere(op, plan) or (isinstance(op, aa.IfOp) and op in roles.exit)
    if isinstance(op, aa.ForOp) and op in roles.elsewhere:
        planned = is_of_others(op, plan)
    elif isinstance(loop := op.parent_op(), aa.ForOp) and loop in roles.elsewhere:
        planned = True
    if op in roles.elsewhere and not planned:
        raise contradiction(op, "has roles without consumer, which has to run it")
    if planned and op not in roles.elsewhere:
        raise contradiction(op, "has the role consumer, which does not run it")


def _check_operands(op: Operation, plan: RolePlan, roles: WarpRoles) -> None:
    """Whether consumers make what an operation of theirs reads, or find it in memory."""
    if op in roles.elsewhere:
        return
    for value in op.operands:
        maker = value.owner
        if maker in roles.elsewhere and not _is_in_memory(op, value, plan):
            raise contradiction(op, "has the role consumer, what makes its operands has not")


def _is_in_memory(op: Operation, value: SSAValue, plan: RolePlan) -> bool:
    """Whether consumers read a value from a stage, as a product does, or from tensor memory."""
    planned = plan.dots.get(op)
    if planned is not None and value is planned.dot.lhs:
        return planned.lhs is not None
    # Of a loop without consumers they read sums alone: `is_of_others`.
    return planned is not None or value.owner in plan.dots or isinstance(value.owner, aa.ForOp)


def _is_elsewhere(op: Operation, plan: RolePlan) -> bool:
    """Whether products read through an operation, or another role issues it."""
    if rounds_to_tf32(op):
        load = root_load(op.results[0])
        return load is not None and plan.pipeline_of(load) is not None
    return plan.is_in_tmem and (op in plan.dots or op in plan.scalings)


def _check_program(func: aa.FuncOp, role: str, program: RoleProgram, roles: WarpRoles) -> None:
    """Whether a role runs what it is for, and every end of the kernel."""
    for access in program.kept.loads:
        if not program.kept.keeps(access):
            raise contradiction(access, f"has not the role {role}, which is planned for it")
    for op in func.body.walk():
        if not isinstance(op, aa.ReturnOp) or program.kept.keeps(op):
            continue
        if not any(exit.is_ancestor(op) for exit in roles.exit):
            raise contradiction(op, f"has not the role {role}, whose program ends there")


def _check_order(func: aa.FuncOp, roles: WarpRoles) -> None:
    """Whether the order of tile blocks is the one that the kernel's loops ask for."""
    asked = longest_tile_first(func) if func.cluster_size == 1 else None
    if roles.tile_order == asked:
        return
    if roles.tile_order is None:
        raise contradiction(func, f"has no '{TILE_ORDER}', its loops ask for {_order(asked)}")
    said = f"has a '{TILE_ORDER}' of {_order(roles.tile_order)}"
    raise contradiction(func, f"{said}, its loops ask for {_order(asked)}")


def _order(order: tuple[int, int, int] | None) -> str:
    """An order of tile blocks: axis, direction, blocks of a group."""
    return f"[{', '.join(map(str, order))}]" if order is not None else "none"
