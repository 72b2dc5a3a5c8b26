"""Matrix instructions: mma.sync on whole fragments, ldmatrix and stmatrix."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import PointerType, lanes_of, scalar_of, vector_type

MATRIX_COUNTS = (1, 2, 4)


@irdl_op_definition
class MmaSyncOp(IRDLOperation):
    """One warp-wide multiply-accumulate instruction: `result = a * b + c`.

    `atom` names a row of `codegen.atoms.mma`; the vectors are one thread's fragments, in the
    register order of the PTX ISA. tf32 operands are vectors of f32 or i32 that hold tf32 values.
    """

    name = "nvvm.mma_sync"
    atom = prop_def(StringAttr)
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Accumulator in and out have one vector type."""
        _check_accumulator(self.name, self)


@irdl_op_definition
class MmaTileOp(IRDLOperation):
    """A grid of `reps_m * reps_n * reps_k` mma.sync atoms on a thread's whole fragments.

    Register order, lowest first. A: the atom's registers, then K repeats, then M repeats. B: the
    atom's registers, then K repeats, then N repeats. C: the atom's registers, then N repeats, then
    M repeats. For every (m, n) the K repeats are added in ascending order: `c[m,n] = a[m,k] *
    b[n,k] + c[m,n]`. One op however many instructions it becomes.
    """

    name = "nvvm.mma_tile"
    atom = prop_def(StringAttr)
    reps_m = prop_def(IntAttr)
    reps_n = prop_def(IntAttr)
    reps_k = prop_def(IntAttr)
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Positive counts, fragments divisible by them, one accumulator type."""
        _check_accumulator(self.name, self)
        m, n, k = self.reps_m.data, self.reps_n.data, self.reps_k.data
        if min(m, n, k) < 1:
            raise VerifyException("nvvm.mma_tile: repeat counts must be positive")
        for which, value, reps in (
            ("a", self.a, m * k),
            ("b", self.b, n * k),
            ("c", self.c, m * n),
        ):
            if (lanes_of(value.type) or 0) % reps:
                raise VerifyException(
                    f"nvvm.mma_tile: {value.type} of operand {which} is not {reps} atom fragments"
                )


@irdl_op_definition
class MmaScaledTileOp(IRDLOperation):
    """A grid of block-scaled mma.sync atoms, in the order of `MmaTileOp`.

    `scale_a` and `scale_b` are words of four scales, of all steps along K of a tile with `blocks`
    scales along K; those of this op begin with atom `step`. Which word, byte and lanes an atom
    takes is `dialects.layout.scales.ScaleWords`.
    """

    name = "nvvm.mma_scaled_tile"
    atom = prop_def(StringAttr)
    reps_m = prop_def(IntAttr)
    reps_n = prop_def(IntAttr)
    reps_k = prop_def(IntAttr)
    blocks = prop_def(IntAttr)
    step = prop_def(IntAttr)
    a = operand_def()
    b = operand_def()
    c = operand_def()
    scale_a = operand_def()
    scale_b = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Scales are words; one accumulator type."""
        _check_accumulator(self.name, self)
        for value in (self.scale_a, self.scale_b):
            if scalar_of(value.type) != IntegerType(32):
                raise VerifyException(f"{self.name}: expected words of scales, found {value.type}")


def _check_accumulator(name: str, op: "MmaSyncOp | MmaTileOp | MmaScaledTileOp") -> None:
    if op.c.type != op.result.type or lanes_of(op.c.type) is None:
        raise VerifyException(f"{name}: accumulator {op.c.type} gives {op.result.type}")
    if scalar_of(op.a.type) != scalar_of(op.b.type) and not isinstance(
        scalar_of(op.a.type), IntegerType
    ):
        raise VerifyException(f"{name}: operands {op.a.type} and {op.b.type} differ in kind")


@irdl_op_definition
class LdMatrixOp(IRDLOperation):
    """Loads `count` 8x8 matrices of 16-bit elements from shared memory into the warp's registers.

    Lane l gives the address of row l % 8 of matrix l / 8; `result[i]` holds two elements of matrix
    i. `transposed` gives the columns instead. PTX ISA, "ldmatrix".
    """

    name = "nvvm.ldmatrix"
    count = prop_def(IntAttr)
    transposed = opt_prop_def(UnitAttr)
    pointer = operand_def(PointerType)
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        """A shared pointer, and one i32 per matrix."""
        _check_matrices(self.name, self.count.data, self.pointer.type, self.result.type)


@irdl_op_definition
class StMatrixOp(IRDLOperation):
    """Stores `count` 8x8 matrices of 16-bit elements, the mirror of ldmatrix (sm_90 and later)."""

    name = "nvvm.stmatrix"
    count = prop_def(IntAttr)
    transposed = opt_prop_def(UnitAttr)
    value = operand_def()
    pointer = operand_def(PointerType)
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        """A shared pointer, and one i32 per matrix."""
        _check_matrices(self.name, self.count.data, self.pointer.type, self.value.type)


def _check_matrices(name: str, count: int, pointer: object, registers: object) -> None:
    if count not in MATRIX_COUNTS:
        raise VerifyException(f"{name}: {count} matrices, expected 1, 2 or 4")
    if not isinstance(pointer, PointerType) or pointer.address_space != 3:
        raise VerifyException(f"{name}: expected a shared memory pointer, found {pointer}")
    if registers != vector_type(IntegerType(32), count):
        raise VerifyException(f"{name}: expected vector<{count}xi32>, found {registers}")
