"""A product by mma.sync whose operands lie in stages of a pipeline: how consumer warps compute it.

The warps split the tile between them, read fragments from the stage through TMA's swizzle
(`ldmatrix`, plain or transposing) and hand the stage back, each warp for itself. A left operand
that the kernel computes, such as attention's probabilities, comes from registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import Operand, mma_operand_layout
from tileiras.dialects.layout.operands import reads_as_matrices
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.mma.instructions import Instruction, arrange_warps
from tileiras.planning.operands.tma import OperandLoad, SharedOperand

WARPS_PER_WARPGROUP = 4
"""Fixed: by the instruction set."""
WORD_BITS = 32
"""Fixed: by the instruction set."""
WARP_THREADS = 32
"""Fixed: by the instruction set."""
STEP_BYTES = 32
"""Fixed: bytes of K of one instruction, of a row or column: those of every mma.sync but f64's."""


@dataclass(frozen=True)
class MmaSyncDot:
    """A product by mma.sync: operands in shared memory (`lhs` None: from registers).

    `by_rows`: each warp computes whole rows, so that what is computed from a row stays in a warp,
    and a result can be the left operand of the next product without changing places.
    """

    dot: aa.ProductOp
    lhs: SharedOperand | None
    rhs: SharedOperand
    instruction: Instruction
    by_rows: bool = False

    fragments: ClassVar[None] = None
    """No operand is read into registers for an instruction that would take it from memory."""
    transposed: ClassVar[bool] = False
    is_two_level: ClassVar[bool] = False
    is_smem_transposed: ClassVar[bool] = False
    transposes_words: ClassVar[bool] = False
    is_read_by_warps: ClassVar[bool] = True
    """Whether each warp reads stages by itself, and hands them back."""
    is_asynchronous: ClassVar[bool] = False
    """Whether the product is issued and waited for later."""
    copies: ClassVar[int] = 1
    """How many warps hold each row."""
    scales: ClassVar[tuple[SharedOperand, ...]] = ()
    """Scales that come through stages: those of mma.sync go to registers."""
    is_in_tmem: ClassVar[bool] = False
    """Whether the sum lies in tensor memory."""

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return shape_of(self.dot.result)[0]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return shape_of(self.dot.result)[1]

    @property
    def loads(self) -> tuple[OperandLoad, ...]:
        """The loads that pipelines bring."""
        return tuple(operand.load for operand in (self.lhs, self.rhs) if operand is not None)

    @property
    def is_lhs_resident(self) -> bool:
        """Whether the left operand is loaded outside the block of the product."""
        return self.lhs is not None and self.lhs.load.parent_block() is not self.dot.parent_block()

    @property
    def operand_bits(self) -> int:
        """Bits of an element of the operands."""
        return storage_bits(element_of(self.dot.rhs))

    @property
    def starts_at_zero(self) -> bool:
        """Whether nothing is added to."""
        return is_zero(self.dot.acc)

    def smem_transpose_bytes(self, warpgroups: int) -> int:
        """Shared memory for operands written again: `ldmatrix` transposes what it reads."""
        return 0

    def grid(self, warpgroups: int) -> tuple[int, int]:
        """Warps along rows and columns."""
        warps = WARPS_PER_WARPGROUP * warpgroups
        if self.by_rows:
            return warps, 1
        return arrange_warps(self.rows, self.columns, self.instruction.fragments, warps)

    def layout(self, which: Operand, warpgroups: int) -> LinearLayout:
        """Where the threads hold the fragments of an operand (A, B) or the result (C)."""
        value = {"A": self.dot.lhs, "B": self.dot.rhs, "C": self.dot.result}[which]
        fragments = self.instruction.fragments
        rows = {"A": fragments.a, "B": fragments.b, "C": fragments.c}[which]
        return mma_operand_layout(rows, shape_of(value), self.grid(warpgroups), which)

    def result_layout(self, warpgroups: int) -> LinearLayout:
        """Where the threads hold the result."""
        return self.layout("C", warpgroups)

    def suits(self, warpgroups: int) -> bool:
        """Whether there is an instruction's tile for every warp."""
        m, n, _ = self.instruction.fragments.shape
        warps_m, warps_n = self.grid(warpgroups)
        return self.rows >= m * warps_m and self.columns >= n * warps_n

    def fragment_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the fragments of a step of K that it reads.

        ptxas reads those of the next step early where it has registers left; reading them early in
        the PTX made no difference (0.97 to 1.02 of the time on an H200; decision 0021).
        """
        warps_m, warps_n = self.grid(warpgroups)
        rows = 0 if self.lhs is None else self.rows // warps_m
        held = (rows + self.columns // warps_n) * STEP_BYTES * 8
        return held // (WORD_BITS * WARP_THREADS)

    def left_registers(self, warpgroups: int) -> int:
        """Registers of a thread for a left operand that comes from registers."""
        if self.lhs is not None:
            return 0
        return self.layout("A", warpgroups).in_size("register") * self.operand_bits // WORD_BITS

    def accumulator_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the result."""
        bits = storage_bits(element_of(self.dot.result))
        return self.layout("C", warpgroups).in_size("register") * bits // WORD_BITS


def unread_operand(planned: MmaSyncDot) -> str | None:
    """Why `ldmatrix` cannot read an operand in its stage; None if it can read both."""
    operands: tuple[tuple[SharedOperand | None, Operand], ...] = (
        (planned.lhs, "A"),
        (planned.rhs, "B"),
    )
    for operand, which in operands:
        if operand is None:
            continue
        k_dim, row_dim = (-1 if which == "A" else -2), operand.major_axis - 2
        layout, bits = planned.layout(which, 1), planned.operand_bits
        if not reads_as_matrices(layout, row_dim, bits, row_dim != k_dim):
            side = "left" if which == "A" else "right"
            return f"K of the {side} operand is not contiguous, and its elements have {bits} bits"
    return None
