"""The fifth generation of tensor cores (tcgen05): products whose sums lie in tensor memory.

Operations with `pair` are those of two CTAs of a cluster, whose ranks differ in the lowest bit
(`.cta_group::2`); a kernel has either these or the others.
"""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import PointerType, bit_width, lanes_of, scalar_of
from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.nvvm.mbarrier import check_shared
from tileiras.dialects.nvvm.wgmma import DESCRIPTOR_UNIT
from tileiras.dialects.operations import SegmentedOp, operations_in

MEMORY = traits_def(MemoryReadEffect(), MemoryWriteEffect())
MOST_COLUMNS = 512
LEAST_COLUMNS = 32
FENCES = ("before_thread_sync", "after_thread_sync")
SHAPES = {"16x256b": 4, "32x32b": 1}
"""Shapes of loads and stores, with the registers of a thread that one repeat moves."""
MOST_REGISTERS = 128
"""Of a thread, by one load (PTX ISA, "tcgen05.ld", table of `.num`)."""


def _check_columns(name: str, columns: int) -> None:
    """Raises unless so many columns can be allocated."""
    is_power = columns > 0 and not columns & (columns - 1)
    if not is_power or not LEAST_COLUMNS <= columns <= MOST_COLUMNS:
        raise VerifyException(f"{name}: {columns} columns, expected a power of two, 32 to 512")


@irdl_op_definition
class Tcgen05AllocOp(IRDLOperation):
    """Allocates `columns` of tensor memory; their address arrives in shared memory.

    All lanes of one warp together. It waits while other CTAs of the SM have too many. PTX ISA,
    "tcgen05.alloc".
    """

    name = "nvvm.tcgen05.alloc"
    pair = opt_prop_def(UnitAttr)
    columns = prop_def(IntAttr)
    address = operand_def(PointerType)
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer and a legal number."""
        check_shared(self.name, self.address.type)
        _check_columns(self.name, self.columns.data)


@irdl_op_definition
class Tcgen05DeallocOp(IRDLOperation):
    """Gives `columns` of tensor memory back. PTX ISA, "tcgen05.dealloc"."""

    name = "nvvm.tcgen05.dealloc"
    pair = opt_prop_def(UnitAttr)
    columns = prop_def(IntAttr)
    tmem = operand_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """A legal number."""
        _check_columns(self.name, self.columns.data)


@irdl_op_definition
class Tcgen05RelinquishOp(IRDLOperation):
    """The CTA allocates no more: others may. PTX ISA, "tcgen05.relinquish_alloc_permit"."""

    name = "nvvm.tcgen05.relinquish_alloc_permit"
    pair = opt_prop_def(UnitAttr)
    traits = MEMORY


@irdl_op_definition
class Tcgen05MmaOp(SegmentedOp):
    """Multiplies and accumulates along K: `d = sum_k a[k] * b[k] (+ d)`, where the guard holds.

    `kind` names a row of `codegen.atoms.tcgen05`, `descriptor` is the instruction descriptor.
    `a` and `b` are descriptors of shared memory; `a_offsets` and `b_offsets` are bytes added to
    them, one per step of K. An `a` of i32 is an address in tensor memory, and its offsets are
    columns. `accumulates` false for the first step ignores what is in `d`.

    Asynchronous, in order; one thread issues it. PTX ISA, "tcgen05.mma".
    """

    name = "nvvm.tcgen05.mma"
    pair = opt_prop_def(UnitAttr)
    kind = prop_def(StringAttr)
    descriptor = prop_def(IntAttr)
    a_offsets = prop_def(IndicesAttr)
    b_offsets = prop_def(IndicesAttr)
    d = operand_def(IntegerType(32))
    a = operand_def(IntegerType)
    b = operand_def(IntegerType(64))
    accumulates = operand_def(IntegerType(1))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    @property
    def has_a_in_tmem(self) -> bool:
        """Whether A lies in tensor memory."""
        return self.a.type == IntegerType(32)

    def verify_(self) -> None:
        """An offset of A and of B for every step, of whole units."""
        steps = len(self.a_offsets.data)
        if not steps or len(self.b_offsets.data) != steps:
            raise VerifyException(f"{self.name}: expected an A and a B offset for every k step")
        if self.a.type not in (IntegerType(64), IntegerType(32)):
            raise VerifyException(f"{self.name}: {self.a.type}, expected i64 or i32")
        offsets = (*(() if self.has_a_in_tmem else self.a_offsets.data), *self.b_offsets.data)
        if any(offset % DESCRIPTOR_UNIT for offset in offsets):
            raise VerifyException(f"{self.name}: offsets {offsets} are not multiples of 16 bytes")
        if not 0 <= self.descriptor.data < 1 << 32:
            raise VerifyException(f"{self.name}: descriptor {self.descriptor.data} has no 32 bits")


@irdl_op_definition
class Tcgen05CommitOp(SegmentedOp):
    """Arrives at a barrier when all that the thread has issued before is done, where it holds.

    With `multicast` (i16), a mask of CTA ranks, at the barriers of the same place in these CTAs.
    PTX ISA, "tcgen05.commit".
    """

    name = "nvvm.tcgen05.commit"
    pair = opt_prop_def(UnitAttr)
    barrier = operand_def(PointerType)
    multicast = opt_operand_def(IntegerType(16))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer."""
        check_shared(self.name, self.barrier.type)


@irdl_op_definition
class Tcgen05FenceOp(IRDLOperation):
    """Orders accesses to tensor memory `before_thread_sync` or `after_thread_sync`.

    PTX ISA, "tcgen05.fence".
    """

    name = "nvvm.tcgen05.fence"
    kind = prop_def(StringAttr)
    traits = MEMORY

    def verify_(self) -> None:
        """A known kind."""
        if self.kind.data not in FENCES:
            raise VerifyException(f"{self.name}: unknown kind '{self.kind.data}'")


@irdl_op_definition
class Tcgen05LdOp(IRDLOperation):
    """Loads from tensor memory, all lanes of a warp together, and waits for what is loaded.

    One instruction of `shape` with `repeats` per offset; `offsets` are added to the address `tmem`
    (lane in the upper, column in the lower 16 bits). The registers of one lie behind those of the
    one before. PTX ISA, "tcgen05.ld", "tcgen05.wait".
    """

    name = "nvvm.tcgen05.ld"
    shape = prop_def(StringAttr)
    repeats = prop_def(IntAttr)
    offsets = prop_def(IndicesAttr)
    tmem = operand_def(IntegerType(32))
    result = result_def()
    traits = MEMORY

    def verify_(self) -> None:
        """A known shape, and as many 32-bit registers as it fills."""
        _check_transfer(self.name, self.shape, self.repeats, self.offsets, self.result.type)


@irdl_op_definition
class Tcgen05StOp(IRDLOperation):
    """Stores to tensor memory, all lanes of a warp together, and waits until it is there.

    As `nvvm.tcgen05.ld`: `words` are the registers, those of one instruction behind those of the
    one before. PTX ISA, "tcgen05.st", "tcgen05.wait".
    """

    name = "nvvm.tcgen05.st"
    shape = prop_def(StringAttr)
    repeats = prop_def(IntAttr)
    offsets = prop_def(IndicesAttr)
    tmem = operand_def(IntegerType(32))
    words = operand_def()
    traits = MEMORY

    def verify_(self) -> None:
        """A known shape, and as many 32-bit registers as it takes."""
        _check_transfer(self.name, self.shape, self.repeats, self.offsets, self.words.type)


def _check_transfer(
    name: str, shape: StringAttr, repeats: IntAttr, offsets: IndicesAttr, registers: Attribute
) -> None:
    """Raises unless a load or store of a known shape has as many 32-bit registers as it moves."""
    each = SHAPES.get(shape.data, 0) * repeats.data
    is_power = repeats.data > 0 and not repeats.data & (repeats.data - 1)
    if not is_power or not 0 < each <= MOST_REGISTERS:
        raise VerifyException(f"{name}: no transfer of shape {shape.data}.x{repeats.data}")
    count = each * len(offsets.data)
    if (lanes_of(registers) or 1) != count or bit_width(scalar_of(registers)) != 32:
        raise VerifyException(f"{name}: {registers}, expected {count} elements of 32 bits")


TCGEN05_OPS = operations_in(vars())


@irdl_op_definition
class Tcgen05CpOp(SegmentedOp):
    """Copies chunks of 32 rows of 16 bytes to four columns each, into every quarter of the lanes.

    Chunk i comes from `offsets[i]` bytes behind the descriptor `source` and goes to column
    `columns[i]` behind `tmem`, where the guard holds. Asynchronous, in order with products of the
    same thread. PTX ISA, "tcgen05.cp", `.32x128b.warpx4`.
    """

    name = "nvvm.tcgen05.cp"
    pair = opt_prop_def(UnitAttr)
    offsets = prop_def(IndicesAttr)
    columns = prop_def(IndicesAttr)
    tmem = operand_def(IntegerType(32))
    source = operand_def(IntegerType(64))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A column for every chunk; chunks start at whole units."""
        if not self.offsets.data or len(self.offsets.data) != len(self.columns.data):
            raise VerifyException(f"{self.name}: expected a column for every chunk")
        if any(offset % DESCRIPTOR_UNIT for offset in self.offsets.data):
            raise VerifyException(f"{self.name}: offsets are not multiples of 16 bytes")


@irdl_op_definition
class Tcgen05MmaScaledOp(SegmentedOp):
    """`d = sum_k (a[k] * scales_a[k]) * (b[k] * scales_b[k]) (+ d)`, where the guard holds.

    As `nvvm.tcgen05.mma`, with an instruction descriptor for each step of K, for it says which byte
    of a word the scales begin with. `a_scales` and `b_scales` are columns behind `scales`, one per
    step. `collector`: of a single step, whether the tensor core shall keep A ("fill"), or has it
    already ("use", "lastuse"). PTX ISA, "tcgen05.mma", `.block_scale`, `.collector_usage`.
    """

    name = "nvvm.tcgen05.mma_scaled"
    pair = opt_prop_def(UnitAttr)
    kind = prop_def(StringAttr)
    vector = prop_def(IntAttr)
    descriptors = prop_def(IndicesAttr)
    a_offsets = prop_def(IndicesAttr)
    b_offsets = prop_def(IndicesAttr)
    a_scales = prop_def(IndicesAttr)
    b_scales = prop_def(IndicesAttr)
    collector = opt_prop_def(StringAttr)
    d = operand_def(IntegerType(32))
    a = operand_def(IntegerType(64))
    b = operand_def(IntegerType(64))
    scales = operand_def(IntegerType(32))
    accumulates = operand_def(IntegerType(1))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """All of a step of K for every step."""
        steps = len(self.descriptors.data)
        each = (self.a_offsets, self.b_offsets, self.a_scales, self.b_scales)
        if not steps or any(len(values.data) != steps for values in each):
            raise VerifyException(f"{self.name}: expected offsets and columns for every k step")
        if self.vector.data not in (1, 2, 4):
            raise VerifyException(f"{self.name}: {self.vector.data} scales a row, expected 1, 2, 4")
        offsets = (*self.a_offsets.data, *self.b_offsets.data)
        if any(offset % DESCRIPTOR_UNIT for offset in offsets):
            raise VerifyException(f"{self.name}: offsets {offsets} are not multiples of 16 bytes")


TCGEN05_SCALED_OPS = (Tcgen05CpOp, Tcgen05MmaScaledOp)
