"""Numbers of a program for one tile block: bounds of loops, extents of tensors, conditions.

Only integer arithmetic on scalars is followed; whatever else a number depends on makes it unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, RoundingMode, Signedness

_UNROUNDED: Mapping[type[Operation], Callable[[int, int], int]] = {
    aa.AddIOp: lambda x, y: x + y,
    aa.SubIOp: lambda x, y: x - y,
    aa.MulIOp: lambda x, y: x * y,
    aa.MaxIOp: max,
    aa.MinIOp: min,
    aa.AndIOp: lambda x, y: x & y,
    aa.OrIOp: lambda x, y: x | y,
    aa.XOrIOp: lambda x, y: x ^ y,
}
_COMPARISONS: Mapping[ComparisonPredicate, Callable[[int, int], bool]] = {
    ComparisonPredicate.EQUAL: lambda x, y: x == y,
    ComparisonPredicate.NOT_EQUAL: lambda x, y: x != y,
    ComparisonPredicate.LESS_THAN: lambda x, y: x < y,
    ComparisonPredicate.LESS_THAN_OR_EQUAL: lambda x, y: x <= y,
    ComparisonPredicate.GREATER_THAN: lambda x, y: x > y,
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: lambda x, y: x >= y,
}


@dataclass
class Scalars:
    """The numbers of one tile block `program` of `grid`, `arguments` by the parameter's place."""

    arguments: Mapping[int, int]
    grid: Sequence[int] = ()
    program: Sequence[int] = (0, 0, 0)
    _known: dict[SSAValue, int | None] = field(default_factory=dict[SSAValue, int | None])

    def value(self, value: SSAValue) -> int | None:
        """The number, None if it is not known before the kernel runs."""
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._find(value)
        return self._known[value]

    def assume(self, value: SSAValue, number: int | None) -> None:
        """Takes a number as known, such as that of an iteration."""
        self._known[value] = number

    def _find(self, value: SSAValue) -> int | None:
        if isinstance(value.type, TensorType):
            return None
        if isinstance(value, BlockArgument):
            return self._argument(value)
        if not isinstance(value, OpResult):
            return None
        op = value.op
        match op:
            case aa.ConstantOp() if isinstance(value.type, IntegerType):
                return int.from_bytes(op.value.raw.data, "little", signed=value.type != _BIT)
            case aa.GetProgramIdOp():
                return self._along(self.program, op.axis)
            case aa.GetNumProgramsOp() | aa.GetGridSizeOp():
                return self._along(self.grid, op.axis)
        numbers = [self.value(operand) for operand in op.operands]
        return None if None in numbers else _computed(op, [n for n in numbers if n is not None])

    def _argument(self, value: BlockArgument) -> int | None:
        block = value.owner
        if isinstance(block, Block) and isinstance(block.parent_op(), aa.FuncOp):
            return self.arguments.get(value.index)
        return None

    def _along(self, numbers: Sequence[int], axis: object) -> int | None:
        index = axis.value.data if isinstance(axis, IntegerAttr) else 0
        return numbers[index] if index < len(numbers) else None

    def trips(self, loop: aa.ForOp) -> int | None:
        """How often a loop runs, None if that is not known."""
        bounds = [self.value(v) for v in (loop.lower_bound, loop.upper_bound, loop.step)]
        lower, upper, step = bounds
        if lower is None or upper is None or not step or step < 0:
            return None
        return max(0, -(-(upper - lower) // step))


_BIT = IntegerType(1)


def _computed(op: Operation, numbers: Sequence[int]) -> int | None:
    """The number that an operation makes of others, None where it is none that is followed."""
    function = _UNROUNDED.get(type(op))
    if function is not None:
        return function(numbers[0], numbers[1])
    match op:
        case aa.DivIOp() if numbers[1]:
            return _divided(numbers[0], numbers[1], op.rounding.data)
        case aa.RemIOp() if numbers[1]:
            quotient = _divided(numbers[0], numbers[1], RoundingMode.ZERO)
            return numbers[0] - quotient * numbers[1]
        case aa.CmpIOp() if op.signedness.data is Signedness.SIGNED or min(numbers) >= 0:
            return int(_COMPARISONS[op.comparison_predicate.data](numbers[0], numbers[1]))
        case aa.SelectOp():
            return numbers[1] if numbers[0] else numbers[2]
        case aa.ExtIOp() | aa.TruncIOp():
            return numbers[0]
        case _:
            return None


def _divided(x: int, y: int, rounding: RoundingMode) -> int:
    """The quotient, rounded as the operation says."""
    match rounding:
        case RoundingMode.POSITIVE_INF:
            return -(-x // y)
        case RoundingMode.NEGATIVE_INF:
            return x // y
        case _:
            quotient = abs(x) // abs(y)
            return quotient if (x < 0) == (y < 0) else -quotient
