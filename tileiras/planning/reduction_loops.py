"""Loops that do nothing but add up large tiles, and that the CTAs of a cluster may divide.

    %s = for %i .. (%t = zeros) { %x = load %a[%i, %pid]; continue %t + %x }
    %r = reduce %s dim 0
    store %r, %out[%pid]

The tile blocks of such a kernel are those of the columns, of which there may be fewer than SMs. A
CTA that runs every n-th iteration has a sum of its own; the sums of all are added up in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, TensorType, i32
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
)
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.planning.critical_sections import constant_scalar
from tileiras.planning.resources.warps import adds_up_columns
from tileiras.planning.tile_scheduler.communication import may_communicate
from tileiras.planning.tiling.product_region import has_no_effect

LEAST_ELEMENTS = 1024
"""Policy: of a tile that CTAs of a cluster load and add up."""
LEAST_DIVISOR = 16
"""Policy: a bound that is a quotient by so much is far enough from the largest integer."""
MOST_STEP = 1 << 16
"""Policy: a step below which a few more do not overflow either."""
_IDEMPOTENT = (aa.MaxFOp, aa.MinFOp, aa.MaxIOp, aa.MinIOp, aa.AndIOp, aa.OrIOp)
_FROM_ZERO = (aa.AddFOp, aa.AddIOp, aa.XOrIOp)
_KEPT = ("rounding_mode", "flush_to_zero", "signedness", "propagate_nan")
WORD_BITS = 32
"""Fixed: of an element that threads send to another CTA."""
_NOT_TWICE = (aa.AllocaOp, aa.PrintOp, aa.AssertOp)


@dataclass(frozen=True)
class DividedSum:
    """A tile that a loop carries and only combines with others.

    `reduction` reduces what the loop hands on, which nobody else reads, by the same function. Its
    result is what CTAs have to combine once more, by `function` with `properties`.
    """

    function: type[Operation]
    properties: Mapping[str, Attribute]
    reduction: aa.ReduceOp

    @property
    def combined(self) -> SSAValue:
        """The tile that every CTA has of its own iterations."""
        return self.reduction.results[0]


@dataclass(frozen=True)
class DividedLoop:
    """A loop whose iterations may be divided, what it sums up, and what follows.

    `lower`, `step`: constants of the loop. `following`: not the reductions of `sums`, nor the end.
    """

    loop: aa.ForOp
    lower: int
    step: int
    sums: tuple[DividedSum, ...]
    following: tuple[Operation, ...]


def find_divided_loop(func: aa.FuncOp) -> DividedLoop | None:
    """The loop of a kernel that several CTAs may divide, None if there is none."""
    loops = [op for op in func.body.block.ops if op.regions and not isinstance(op, aa.ReduceOp)]
    if len(loops) != 1 or not isinstance(loop := loops[0], aa.ForOp):
        return None
    counted = _counted(loop)
    if counted is None or not adds_up_columns(loop, LEAST_ELEMENTS):
        return None
    if not all(map(has_no_effect, (*_before(loop), *loop.walk()))):
        return None
    if any(may_communicate(op) or isinstance(op, _NOT_TWICE) for op in func.walk()):
        return None
    found = [_sum(loop, number) for number in range(len(loop.results)) if _is_tile(loop, number)]
    sums = tuple(each for each in found if each is not None)
    others = [value for n, value in enumerate(loop.results) if not _is_tile(loop, n)]
    if len(sums) < len(found) or not all(isinstance(v.type, MemTokenType) for v in others):
        return None
    reductions = [each.reduction for each in sums]
    following = [op for op in _behind(loop) if op not in reductions]
    if not following or not isinstance(following.pop(), aa.ReturnOp) or not following:
        return None
    return DividedLoop(loop, *counted, sums, tuple(following))


def _is_tile(loop: aa.ForOp, number: int) -> bool:
    return isinstance(loop.results[number].type, TensorType)


def _before(op: Operation) -> Iterator[Operation]:
    """What stands before an operation, with what is inside of it."""
    before = op.prev_op
    while before is not None:
        yield from before.walk()
        before = before.prev_op


def _behind(op: Operation) -> Iterator[Operation]:
    """What stands behind an operation in its block."""
    behind = op.next_op
    while behind is not None:
        yield behind
        behind = behind.next_op


def _counted(loop: aa.ForOp) -> tuple[int, int] | None:
    """Start and step of a loop of i32, where both are constants, and it ends far from 2**31.

    So that starting some steps later, and making larger ones, overflows nowhere.
    """
    lower, step = constant_scalar(loop.lower_bound), constant_scalar(loop.step)
    if lower is None or step is None or loop.step.type != i32 or loop.unsigned_cmp is not None:
        return None
    if not 0 < step < MOST_STEP or lower >= MOST_STEP:
        return None
    upper = loop.upper_bound
    if (constant := constant_scalar(upper)) is not None:
        is_near = constant < (1 << 31) // LEAST_DIVISOR
    else:
        division = upper.op if isinstance(upper, OpResult) else None
        divisor = constant_scalar(division.rhs) if isinstance(division, aa.DivIOp) else None
        is_near = divisor is not None and LEAST_DIVISOR <= divisor < MOST_STEP
    return (lower, step) if is_near else None


def _sum(loop: aa.ForOp, number: int) -> DividedSum | None:
    """What is to know of a tile that a loop carries, None if it is no such sum."""
    carried, end = loop.body.block.args[number + 1], loop.body.block.last_op
    if not isinstance(end, aa.ContinueOp) or len(list(carried.uses)) != 1:
        return None
    new = end.operands[number]
    if not isinstance(new, OpResult) or len(list(new.uses)) != 1:
        return None
    update = new.op
    if update.parent_block() is not loop.body.block or not _adds(update, carried):
        return None
    function = aa.AddFOp if isinstance(update, aa.FmaOp) else type(update)
    if not _may_start_everywhere(loop.init_values[number], function):
        return None
    properties = _how(update)
    result = loop.results[number]
    if not isinstance(result.type, TensorType):
        return None
    if storage_bits(result.type.element_type) != WORD_BITS:
        return None
    uses = list(result.uses)
    reduction = uses[0].operation if len(uses) == 1 else None
    if isinstance(reduction, aa.ReduceOp) and _combines_alike(reduction, function, properties):
        return DividedSum(function, properties, reduction)
    return None


def _how(op: Operation) -> dict[str, Attribute]:
    """How numbers are combined, without promises about overflow."""
    found = {k: v for k, v in op.properties.items() if k in _KEPT}
    if isinstance(op, aa.AddIOp):
        found["overflow"] = IntegerOverflowAttr(IntegerOverflow.NONE)
    return found


def _adds(update: Operation, carried: SSAValue) -> bool:
    """Whether an operation combines what is carried with something, and the order may be another.

    Sums are those of f32, rounded to nearest even, as reductions and products add them in an order
    of their own, too.
    """
    if isinstance(update, aa.FmaOp):
        others = update.operands[:2]
        return carried is update.operands[2] and carried not in others and _is_plain_sum(update)
    if not isinstance(update, _IDEMPOTENT + _FROM_ZERO) or carried not in update.operands:
        return False
    if update.operands[0] is update.operands[1]:
        return False
    return not isinstance(update, aa.AddFOp) or _is_plain_sum(update)


def _is_plain_sum(op: aa.AddFOp | aa.FmaOp) -> bool:
    type = op.results[0].type
    is_nearest = op.rounding_mode == RoundingModeAttr(RoundingMode.NEAREST_EVEN)
    return is_nearest and isinstance(type, TensorType) and type.element_type == Float32Type()


def _may_start_everywhere(value: SSAValue, function: type[Operation]) -> bool:
    """Whether every CTA may start from a value: nobody sees how often it has been combined."""
    return issubclass(function, _IDEMPOTENT) or is_zero(value)


def _combines_alike(
    reduction: aa.ReduceOp, function: type[Operation], properties: Mapping[str, Attribute]
) -> bool:
    """Whether a reduction combines elements by the same function, and has a tile as its result."""
    body = list(reduction.body.block.ops)
    if len(reduction.operands) != 1 or len(body) != 2 or type(body[0]) is not function:
        return False
    if not isinstance(reduction.results[0].type, TensorType) or _how(body[0]) != properties:
        return False
    return set(body[0].operands) == set(reduction.body.block.args)
