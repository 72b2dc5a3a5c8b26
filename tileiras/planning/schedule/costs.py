"""What operations on tiles cost: cycles of the units of an SM, registers of a thread.

Cycles are those of all warps of a tile block together, from the target's table of units
(`codegen/target/performance.py`).
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Operation, OpResult, Region, SSAValue

from tileiras.analysis.register_pressure import tensor_words
from tileiras.codegen.target import GpuTarget, Unit, Work
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits

QUANTUM = 32
"""Policy: cycles of the smallest unit of time that schedules are made in."""
FEW = 16
"""Policy: a tensor of so many times fewer elements counts as few values."""

_SPECIAL = (aa.Exp2Op, aa.RsqrtOp, aa.Log2Op, aa.SqrtOp, aa.TanhOp, aa.ExpOp, aa.LogOp)
_ROUTINES = (
    aa.SinOp,
    aa.CosOp,
    aa.TanOp,
    aa.SinhOp,
    aa.CoshOp,
    aa.PowOp,
    aa.FPowIOp,
    aa.Atan2Op,
    aa.DivFOp,
    aa.RemFOp,
    aa.DivIOp,
    aa.RemIOp,
)
_CONVERSIONS = (aa.FpToFpOp, aa.FpToIntOp, aa.IntToFpOp)


Uses = tuple[tuple[Unit, int], ...]
"""Units, and for how many cycles an operation holds each of them; the one that does the work first.
"""


class TileCosts:
    """Costs for tile blocks of so many threads on a target; what it has found out is kept."""

    def __init__(self, threads: int, target: GpuTarget):
        self.threads = threads
        self.performance = target.performance
        self._varying: dict[SSAValue, frozenset[int]] = {}

    def varying(self, value: SSAValue) -> frozenset[int]:
        """The dims along which the elements of a tensor may differ."""
        known = self._varying.get(value)
        if known is None:
            known = self._varying[value] = self._find_varying(value)
        return known

    def _find_varying(self, value: SSAValue) -> frozenset[int]:
        if not isinstance(value.type, TensorType):
            return frozenset()
        every = frozenset(i for i, extent in enumerate(value.type.get_shape()) if extent > 1)
        if not isinstance(value, OpResult):
            return every
        match value.op:
            case aa.SplatOp():
                return frozenset()
            case aa.ConstantOp() as op:
                return frozenset() if op.value.is_splat else every
            case aa.BroadcastOp() as op:
                return self.varying(op.source)
            case aa.PermuteOp() as op:
                source = self.varying(op.source)
                order = [int(i) for i in op.permutation.get_values()]
                return frozenset(i for i, dim in enumerate(order) if dim in source)
            case aa.ReshapeOp() as op:
                return every if self.varying(op.source) else frozenset()
            case ElementwiseOp() as op:
                return frozenset[int]().union(*(self.varying(operand) for operand in op.operands))
            case _:
                return every

    def elements(self, value: SSAValue) -> int:
        """Different elements of a tensor."""
        if not isinstance(value.type, TensorType):
            return 0
        shape = value.type.get_shape()
        return prod(shape[dim] for dim in self.varying(value))

    def uses(self, op: Operation) -> Uses:
        """The units that an operation holds; what is computed, once for each different element.

        Products are asynchronous ones; `waited_product` has the others.
        """
        match op:
            case aa.IfOp():
                sides = [self._uses_of_region(region) for region in op.regions]
                units = dict.fromkeys(unit for side in sides for unit in side)
                return tuple((unit, max(side.get(unit, 0) for side in sides)) for unit in units)
            case aa.ReduceOp() | aa.ScanOp():
                total = sum(self.elements(operand) for operand in op.operands)
                return self.performance.uses(Work.ARITHMETIC, total)
            case ElementwiseOp():
                return self.performance.uses(kind_of_work(op), self.elements(op.results[0]))
            case aa.LoadOp() | aa.TiledLoadOp():
                return self.performance.uses(Work.ACCESS, self.elements(op.results[0]))
            case aa.DotOp() | aa.DotScaledOp():
                return self.performance.uses(Work.WGMMA, multiply_adds(op))
            case _:
                return ()

    def _uses_of_region(self, region: Region) -> dict[Unit, int]:
        """Cycles of each unit for all operations of a region but products."""
        found: dict[Unit, int] = {}
        for block in region.blocks:
            for inner in block.ops:
                for unit, cycles in () if isinstance(inner, aa.ProductOp) else self.uses(inner):
                    found[unit] = found.get(unit, 0) + cycles
        return found

    def issue_cycles(self, op: Operation) -> int:
        """Cycles for which an operation holds the issue slots."""
        return dict(self.uses(op)).get(Unit.ISSUE, 0)

    def waited_product(self, op: aa.ProductOp) -> int:
        """Cycles for which a product by mma.sync holds the issue slots."""
        return self.performance.cycles(Work.MMA_SYNC, multiply_adds(op), Unit.ISSUE)

    def is_interleaved(self, value: SSAValue) -> bool:
        """Whether elements are computed, each where it is read, from few values (as masks are)."""
        if not isinstance(value, OpResult) or not isinstance(value.op, ElementwiseOp):
            return False
        return all(
            self.elements(operand) * FEW <= _size(value) or self.is_interleaved(operand)
            for operand in value.op.operands
        )

    def registers(self, value: SSAValue) -> int:
        """Registers of a thread that a tensor takes."""
        if not isinstance(value.type, TensorType) or self.is_interleaved(value):
            return 0
        total = _size(value)
        # A row of a tile is spread over four lanes, which all hold what belongs to the row.
        copies = 1 if self.elements(value) == total and total >= 8 * self.threads else 4
        words = tensor_words(value.type) * self.elements(value) // max(1, total)
        return -(-words * copies // self.threads)


def _size(value: SSAValue) -> int:
    """Elements of a tensor, equal ones included."""
    return prod(value.type.get_shape()) if isinstance(value.type, TensorType) else 1


def multiply_adds(op: aa.ProductOp) -> int:
    """Multiply-adds of 16-bit elements that take as long; the wider the operands, the more."""
    if not isinstance(op.lhs.type, TensorType) or not isinstance(op.rhs.type, TensorType):
        return 0
    rows, depth = op.lhs.type.get_shape()[-2:]
    count = rows * depth * op.rhs.type.get_shape()[-1]
    return count * storage_bits(op.rhs.type.element_type) // 16


def kind_of_work(op: Operation) -> Work:
    """The kind of work that an elementwise operation is."""
    if isinstance(op, _ROUTINES):
        return Work.ROUTINE
    if isinstance(op, _SPECIAL):
        is_single = isinstance(op.results[0].type, TensorType) and isinstance(
            op.results[0].type.element_type, Float32Type
        )
        return Work.SPECIAL if is_single else Work.ROUTINE
    return Work.CONVERSION if isinstance(op, _CONVERSIONS) else Work.ARITHMETIC
