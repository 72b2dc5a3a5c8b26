"""When products are finished and stages handed back, as attributes beside operations, and back."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, UnitAttr, i32
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import ACCUMULATORS, AHEAD, PENDING, RELEASES
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.mma.tcgen05 import Accumulator
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.schedule.accumulator_use import summing_op
from tileiras.planning.schedule.products_ahead import products_ahead
from tileiras.planning.schedule.stage_releases import Releasing, is_last_reader, resident_users
from tileiras.planning.schedule.unfinished_products import finishes_at_once, most_unfinished


def write_products(roles: WarpRoles) -> None:
    """Says how many products may be unfinished, where stages go back, and where sums are made."""
    for dot, pending in roles.pending.items():
        dot.attributes[PENDING] = IntegerAttr(pending, i32)
    for op, numbers in roles.releases.items():
        op.attributes[RELEASES] = DenseArrayBase.from_list(i32, numbers)
    for op, sums in roles.accumulators.items():
        columns = [own.column for own in sums]
        op.attributes[ACCUMULATORS] = DenseArrayBase.from_list(i32, columns)
    for op in roles.ahead:
        op.attributes[AHEAD] = UnitAttr()


def read_products(func: aa.FuncOp, plan: RolePlan, roles: WarpRoles) -> None:
    """Notes what stands beside operations. Raises CompileError where it cannot be so."""
    for op in func.body.walk():
        if PENDING in op.attributes:
            roles.pending[op] = _read_pending(op, plan)
        if RELEASES in op.attributes:
            roles.releases[op] = _read_releases(op, plan)
        if ACCUMULATORS in op.attributes:
            roles.accumulators[op] = _read_accumulators(op, plan)
        if AHEAD in op.attributes:
            roles.ahead[op] = None
    _check_ahead(plan, roles)
    _check_pending(plan, roles)
    _check_releases(plan, roles)
    for own in plan.sums:
        op = summing_op(own)
        if own not in roles.accumulators.get(op, ()):
            raise contradiction(op, f"has no '{ACCUMULATORS}' with {own.column}, its sum's column")


def _check_ahead(plan: RolePlan, roles: WarpRoles) -> None:
    """Whether products that are issued ahead may be, and with those of their loop that may."""
    allowed = products_ahead(plan) if roles.ahead else {}
    for op in roles.ahead:
        if op not in allowed:
            raise contradiction(op, f"has '{AHEAD}', and others of its iteration depend on it")
        for other in allowed:
            if other.parent_op() is op.parent_op() and other not in roles.ahead:
                raise contradiction(other, f"has no '{AHEAD}', and one beside it has")


def _check_pending(plan: RolePlan, roles: WarpRoles) -> None:
    """Whether products are finished that have to be, and those of a stage together."""
    for planned in plan.dots.values():
        if not isinstance(planned, WgmmaDot):
            continue
        if planned.dot not in roles.pending and finishes_at_once(planned):
            raise contradiction(planned.dot, f"has no '{PENDING}', and threads take part in it")
        for other in plan.products_sharing_stages(planned):
            if roles.pending.get(other.dot) != roles.pending.get(planned.dot):
                said = "of another product of its stage"
                raise contradiction(other.dot, f"has another '{PENDING}' than that {said}")


def _read_pending(op: Operation, plan: RolePlan) -> int:
    """How many products may be unfinished behind one."""
    planned, pending = plan.dots.get(op), op.attributes[PENDING]
    if not isinstance(planned, WgmmaDot) or not isinstance(pending, IntegerAttr):
        raise contradiction(op, f"has '{PENDING}', and is no product by wgmma")
    number, most = pending.value.data, most_unfinished(planned, plan)
    if not 0 <= number <= most:
        raise contradiction(op, f"leaves {number} products unfinished, at most {most} may be")
    return number


def _read_releases(op: Operation, plan: RolePlan) -> tuple[int, ...]:
    """The pipelines that get a stage back behind an operation."""
    numbers = _numbers(op, RELEASES)
    if not numbers or not all(number in range(len(plan.pipelines)) for number in numbers):
        raise contradiction(op, f"has '{RELEASES}' of no pipeline")
    for number in numbers:
        if not _may_release(op, number, plan):
            raise contradiction(op, f"hands back pipeline {number}, and is not its last reader")
    return numbers


def _may_release(op: Operation, number: int, plan: RolePlan) -> bool:
    """Whether no product reads the stage of a pipeline behind the operation, and one did before."""
    planned = plan.dots.get(op)
    if planned is not None:
        return plan.pipeline_of(planned.rhs.load) == number and is_last_reader(planned, plan)
    users, block = resident_users(number, plan), op.parent_block()
    if not users or block is not users[-1].parent_block() or not isinstance(op, Releasing):
        return False
    return op is users[-1] or users[-1].is_before_in_block(op)


def _check_releases(plan: RolePlan, roles: WarpRoles) -> None:
    """Whether each stage is handed back once."""
    for planned in plan.dots.values():
        if is_last_reader(planned, plan) and planned.dot not in roles.releases:
            raise contradiction(planned.dot, f"has no '{RELEASES}', and is the last of its stage")
    for number in range(len(plan.pipelines)):
        users = resident_users(number, plan)
        times = sum(number in numbers for numbers in roles.releases.values())
        if users and times != 1:
            said = f"pipeline {number}, which is handed back {times} times"
            raise contradiction(users[-1], f"reads {said}, expected once")


def _read_accumulators(op: Operation, plan: RolePlan) -> tuple[Accumulator, ...]:
    """The sums that are acquired before an operation and committed behind it."""
    made = {own.column: own for own in plan.sums if summing_op(own) is op}
    columns = _numbers(op, ACCUMULATORS)
    if not columns or not all(column in made for column in columns):
        raise contradiction(op, f"has '{ACCUMULATORS}' where it makes no sum")
    return tuple(made[column] for column in columns)


def _numbers(op: Operation, name: str) -> tuple[int, ...]:
    """The integers of an attribute, each once."""
    found = op.attributes[name]
    if not isinstance(found, DenseArrayBase) or not isinstance(found.elt_type, IntegerType):
        raise contradiction(op, f"has '{name}' that are no integers")
    numbers = tuple(map(int, found.get_values()))
    if list(numbers) != sorted(set(numbers)):
        raise contradiction(op, f"has '{name}' {list(numbers)}, expected rising ones")
    return numbers
