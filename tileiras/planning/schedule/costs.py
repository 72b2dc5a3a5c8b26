"""What operations on tiles cost on sm_90: cycles of an SM, registers of a thread.

Cycles are those of all warps of a tile block together, from the number of results for each cycle
(CUDA C++ Programming Guide, "Arithmetic Instructions", compute capability 9.0).
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits

QUANTUM = 32
"""Cycles of the smallest unit of time that schedules are made in."""
PRODUCT_LATENCY = 128
"""Cycles from the end of a product to the first instruction that reads it."""
MULTIPLY_ADDS = 2048
"""f16 multiply-adds of the tensor cores in a cycle; the wider the operands, the fewer."""
PLAIN, CONVERSIONS, SPECIAL, MANY = 128, 64, 16, 4
"""Results in a cycle: simple arithmetic, conversions, ex2 and its like, whole routines."""

FEW = 16
"""A tensor of so many times fewer elements counts as few values."""

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


class TileCosts:
    """Costs for tile blocks of so many threads; what it has found out is kept."""

    def __init__(self, threads: int):
        self.threads = threads
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

    def cycles(self, op: Operation) -> int:
        """Cycles that the vector units work on an operation; results once for each element."""
        match op:
            case aa.IfOp():
                return max(
                    sum(self.cycles(inner) for block in region.blocks for inner in block.ops)
                    for region in op.regions
                )
            case aa.ReduceOp() | aa.ScanOp():
                return sum(self.elements(operand) for operand in op.operands) // PLAIN
            case ElementwiseOp():
                return self.elements(op.results[0]) // _rate(op)
            case aa.LoadOp() | aa.TiledLoadOp():
                return self.elements(op.results[0]) // CONVERSIONS
            case _:
                return 0

    def product_cycles(self, op: aa.DotOp) -> int:
        """Cycles that the tensor cores work on a product."""
        if not isinstance(op.lhs.type, TensorType) or not isinstance(op.rhs.type, TensorType):
            return 0
        rows, depth = op.lhs.type.get_shape()[-2:]
        multiply_adds = rows * depth * op.rhs.type.get_shape()[-1]
        return multiply_adds * storage_bits(op.rhs.type.element_type) // (16 * MULTIPLY_ADDS)

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


def _rate(op: Operation) -> int:
    """Results of the operation in a cycle."""
    if isinstance(op, _ROUTINES):
        return MANY
    if isinstance(op, _SPECIAL):
        is_single = isinstance(op.results[0].type, TensorType) and isinstance(
            op.results[0].type.element_type, Float32Type
        )
        return SPECIAL if is_single else MANY
    return CONVERSIONS if isinstance(op, _CONVERSIONS) else PLAIN
