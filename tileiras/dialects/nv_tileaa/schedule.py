"""Schedules of loops, as attributes: which stage every operation is in, and when it starts there.

    nv_tileaa.for %i .. attributes {
        loop_schedule = #nv_tileaa.loop_schedule<stages = 2, initiation_interval = 1024>} {
      %k = tiled_load ..   {schedule = #nv_tileaa.op_schedule<stage = 0, order = 0, ..>}
      %s = dot %q, %k, ..  {schedule = #nv_tileaa.op_schedule<stage = 0, order = 1, ..>}
      %p = exp2 %s         {schedule = #nv_tileaa.op_schedule<stage = 0, order = 3, ..>}
      %o = dot %p, %v, ..  {schedule = #nv_tileaa.op_schedule<stage = 1, order = 2, ..>}
    }

An operation of stage s of iteration i runs in interval i + s, at `order` among the operations of
that interval. Operations that cost nothing (`is_repeatable`) have no place: every stage that needs
them repeats them. `tileas-generate-schedule` writes the attributes, `tileas-expand-schedule` acts
on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.named_values import NamedValues
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.memory import (
    BlockTileOp,
    CreateMemTokenOp,
    JoinMemTokensOp,
    TiledLoadOp,
)
from tileiras.dialects.nv_tileaa.tensors import (
    BroadcastOp,
    ConstantOp,
    MakeRangeOp,
    PermuteOp,
    ReshapeOp,
    SplatOp,
)
from tileiras.dialects.nv_tileaa.types import MemTokenType

LOOP_SCHEDULE, SCHEDULE, PREFETCH = "loop_schedule", "schedule", "prefetch"
"""Names of the attributes: of loops, of the operations in them, and of loads."""
REMAINDER = "remainder"
"""Says of a loop that it does what two iterations at a time have left: mostly one, or none."""
PUT_OFF = "put_off"
"""Says of a product that it is still to be issued late: the schedule has been acted on."""

_SHAPES = (
    ConstantOp,
    SplatOp,
    MakeRangeOp,
    BroadcastOp,
    ReshapeOp,
    PermuteOp,
    BlockTileOp,
    CreateMemTokenOp,
    JoinMemTokensOp,
)


@irdl_attr_definition
class LoopScheduleAttr(NamedValues):
    """How many stages a loop has, and the cycles from one iteration to the next.

    Of a `for`. `serial`: cycles of an iteration whose operations run one after the other.
    `frees_stages`: what follows the loop finds room in the shared memory of its prefetched tiles.
    `unrolled`: so many iterations wait for their loads together. `registers`: of a thread, for the
    tiles that are live at once. `ctas`: the schedule pays if so many CTAs share an SM when it has
    been acted on.
    """

    name = "nv_tileaa.loop_schedule"
    required: ClassVar[tuple[str, ...]] = ("stages",)
    optional: ClassVar[tuple[str, ...]] = (
        "initiation_interval",
        "serial",
        "frees_stages",
        "unrolled",
        "registers",
        "ctas",
    )


@irdl_attr_definition
class OpScheduleAttr(NamedValues):
    """The stage of an operation, its place in an interval and the unit that works on it.

    `order`: its number among the operations of an interval, of all stages. `cycle`: when its unit
    begins, counted from the start of the interval; absent where only the order is decided. `late`:
    a product is issued in the next iteration, by `tileas-put-off-products`; it gets `PUT_OFF`.
    """

    name = "nv_tileaa.op_schedule"
    required: ClassVar[tuple[str, ...]] = ("stage", "order")
    optional: ClassVar[tuple[str, ...]] = ("cycle", "unit", "late")

    @property
    def unit(self) -> str:
        """The unit's name, empty where none is said."""
        return self.word("unit") if self.has("unit") else ""


@irdl_attr_definition
class PrefetchAttr(NamedValues):
    """A load that is an asynchronous copy to shared memory, `distance` iterations before its use.

    `smem_operand`: products read the tile where it was copied to; then `ctas` tile blocks share an
    SM. `resident`: later loops find the tile there; loads with the same number share a circular
    buffer of `resident_stages` tiles.
    """

    name = "nv_tileaa.prefetch"
    required: ClassVar[tuple[str, ...]] = ("distance",)
    optional: ClassVar[tuple[str, ...]] = ("smem_operand", "ctas", "resident", "resident_stages")


class WrongOperation(VerifyException):
    """What is wrong with an operation that is not the one that is verified, but in it."""

    def __init__(self, operation: Operation, message: str):
        super().__init__(message)
        self.operation = operation


def is_repeatable(op: Operation) -> bool:
    """Whether every stage may repeat the operation: it costs nothing worth counting."""
    if isinstance(op, _SHAPES):
        return True
    return isinstance(op, ElementwiseOp) and not isinstance(op.results[0].type, TensorType)


def operands_of(op: Operation) -> list[SSAValue]:
    """What an operation reads, within its regions included."""
    read = dict.fromkeys(op.operands)
    if op.regions:
        inside = {value for inner in op.walk() for value in _defined(inner)}
        for inner in op.walk():
            read.update(dict.fromkeys(v for v in inner.operands if v not in inside))
    return list(read)


def _defined(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def loop_schedule(loop: Operation) -> LoopScheduleAttr | None:
    """The schedule of a loop, if it has one."""
    found = loop.attributes.get(LOOP_SCHEDULE)
    return found if isinstance(found, LoopScheduleAttr) else None


def op_schedule(op: Operation) -> OpScheduleAttr | None:
    """The place of an operation in the schedule of its loop, if it has one."""
    found = op.attributes.get(SCHEDULE)
    return found if isinstance(found, OpScheduleAttr) else None


def prefetch_of(op: Operation) -> PrefetchAttr | None:
    """How a load is prefetched, if it is."""
    found = op.attributes.get(PREFETCH)
    return found if isinstance(found, PrefetchAttr) else None


def erase_schedule(loop: Operation) -> None:
    """Takes the schedule of a loop away, not those of loops in it."""
    loop.attributes.pop(LOOP_SCHEDULE, None)
    for region in loop.regions:
        for block in region.blocks:
            for op in block.ops:
                op.attributes.pop(SCHEDULE, None)
                op.attributes.pop(PREFETCH, None)


def check_schedule(loop: Operation, block: Block) -> None:
    """Verifies the schedule of a loop with this body.

    Raises WrongOperation where stages or orders are missing, out of range or given twice, where an
    operation runs before what it reads, and where prefetched loads are not a stage of their own.
    """
    if LOOP_SCHEDULE not in loop.attributes:
        strangers = (op for op in block.ops if {SCHEDULE, PREFETCH} & op.attributes.keys())
        if (stranger := next(strangers, None)) is not None:
            raise WrongOperation(stranger, "has a place in a loop that has no schedule")
        return
    whole = loop_schedule(loop)
    if whole is None or not whole.integer("stages"):
        raise VerifyException("the schedule of a loop is a #nv_tileaa.loop_schedule with stages")
    orders: dict[int, Operation] = {}
    for op in block.ops:
        if op.has_trait(IsTerminator):
            continue
        if is_repeatable(op):
            if SCHEDULE in op.attributes:
                raise WrongOperation(op, "has a stage, expected none: every stage may repeat it")
            continue
        order = _check_place(op, whole)
        if order in orders:
            raise WrongOperation(op, f"has order {order}, as '{orders[order].name}' has before")
        orders[order] = op
    for op in orders.values():
        _check_operands(op, block, whole.integer("stages"))
        _check_prefetch(op, whole.integer("stages"))


def _check_place(op: Operation, whole: LoopScheduleAttr) -> int:
    """The order of an operation, whose stage and cycle are within bounds."""
    place = op_schedule(op)
    if place is None:
        raise WrongOperation(op, "has no stage in the schedule of its loop")
    stage, stages = place.integer("stage"), whole.integer("stages")
    if stage >= stages:
        raise WrongOperation(op, f"is in stage {stage}, expected less than {stages}")
    interval = whole.integer("initiation_interval")
    if place.has("cycle") and place.integer("cycle") >= max(1, interval):
        cycle = place.integer("cycle")
        raise WrongOperation(op, f"starts in cycle {cycle} of an interval of {interval}")
    return place.integer("order")


def _place(op: Operation) -> tuple[int, int]:
    """Stage and order of an operation that has them."""
    found = op_schedule(op)
    return (0, 0) if found is None else (found.integer("stage"), found.integer("order"))


def _check_operands(op: Operation, block: Block, stages: int) -> None:
    """What an operation reads runs in an earlier interval, or before it in the same.

    Loads need not follow loads, so that prefetched ones may pass over their tokens.
    """
    stage, order = _place(op)
    values = operands_of(op)
    if PREFETCH in op.attributes:
        values = [value for value in values if not isinstance(value.type, MemTokenType)]
    for maker, distance in makers(values, block, stages):
        made, number = _place(maker)
        if (made - distance, number) >= (stage, order):
            raise WrongOperation(
                op,
                f"in stage {stage}, order {order} runs before '{maker.name}' in stage {made}, "
                f"order {number}, which it reads",
            )


def makers(
    values: Sequence[SSAValue], block: Block, distances: int
) -> dict[tuple[Operation, int], None]:
    """The operations of a loop body that values come from, and how many iterations ago.

    Through what is repeatable and through carried values, over so many iterations at most.
    """
    last = block.last_op
    found: dict[tuple[Operation, int], None] = {}
    seen: dict[tuple[SSAValue, int], None] = {}
    pending = [(value, 0) for value in values]
    while pending:
        value, distance = pending.pop()
        if (value, distance) in seen or distance > distances:
            continue
        seen[value, distance] = None
        if isinstance(value, BlockArgument):
            if value.owner is block and value.index and last is not None:
                pending.append((last.operands[value.index - 1], distance + 1))
        elif isinstance(value, OpResult) and value.op.parent_block() is block:
            if is_repeatable(value.op):
                pending += [(operand, distance) for operand in value.op.operands]
            else:
                found[value.op, distance] = None
    return found


def _check_prefetch(op: Operation, stages: int) -> None:
    """Prefetched loads are in the first stage, what reads their tiles is in the last one."""
    if PREFETCH not in op.attributes:
        return
    found = prefetch_of(op)
    if found is None or not isinstance(op, TiledLoadOp):
        raise WrongOperation(op, "is prefetched, expected a load from a view")
    stage, distance = _place(op)[0], found.integer("distance")
    if stage or not distance or distance != stages - 1:
        raise WrongOperation(
            op,
            f"in stage {stage} of {stages} is prefetched by {distance} iterations, expected stage "
            f"0 and {stages - 1}",
        )
    if found.has("resident") and found.integer("resident_stages") <= distance:
        raise WrongOperation(op, "keeps fewer resident stages than it prefetches")
