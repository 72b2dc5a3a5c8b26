"""A product whose operands come through pipelines: its operands, and which instructions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tileiras.codegen.atoms.wgmma import PARTIAL_K, WgmmaFamily
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.mma.mma_sync import MmaSyncDot
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.wgmma import (
    Fragments,
    accumulator_layout,
    accumulator_registers,
    is_two_level,
)
from tileiras.planning.operands.tma import SharedOperand
from tileiras.planning.resources.cta import MOST_WARPGROUPS

ROWS_PER_WARPGROUP = 64
"""Fixed: of one wgmma (PTX ISA, "wgmma.mma_async", shapes)."""


@dataclass(frozen=True)
class WgmmaDot:
    """A product done by wgmma: operands in shared memory (`lhs` None: from registers).

    A left operand loaded outside the loop of the product stays in its stage until the loop is over.
    """

    dot: aa.DotOp
    lhs: SharedOperand | None
    rhs: SharedOperand
    family: WgmmaFamily
    fragments: Fragments = None
    """The operand in shared memory that threads read into registers, "rhs" as left operand.

    "smem_transpose": the right one, which they write to shared memory again with K contiguous.
    "both": they read the left one and transpose the right one, or where `transposed` says so the
    other way round.
    """
    transposed: bool = False
    """Whether the instructions compute the transposed product: always so with `fragments` "rhs"."""
    by_columns: bool = False
    """Whether two warpgroups have half of the columns each, of 64 rows."""

    is_asynchronous: ClassVar[bool] = True
    """Whether the product is issued and waited for later."""
    scales: ClassVar[tuple[SharedOperand, ...]] = ()
    """Scales that come through stages."""
    is_in_tmem: ClassVar[bool] = False
    """Whether the sum lies in tensor memory."""

    @property
    def is_read_by_warps(self) -> bool:
        """Whether each warp reads stages into registers, and hands them back."""
        return self.fragments is not None

    @property
    def operand_bits(self) -> int:
        """Bits of an element of the operands."""
        return self.family.operand_bits

    def suits(self, warpgroups: int) -> bool:
        """Whether every warpgroup has blocks of rows for the instructions, or columns."""
        if self.by_columns:
            return warpgroups == MOST_WARPGROUPS
        if self.rows < ROWS_PER_WARPGROUP:
            return warpgroups == 1
        return self.rows % (warpgroups * ROWS_PER_WARPGROUP) == 0

    @property
    def copies(self) -> int:
        """How many warps of a warpgroup hold each row: more than one where there are few rows."""
        return max(1, ROWS_PER_WARPGROUP // self.rows)

    def accumulator_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the result."""
        return accumulator_registers(self.dot, self.family, warpgroups, by_columns=self.by_columns)

    def left_registers(self, warpgroups: int) -> int:
        """Registers of a thread for a left operand that comes from registers."""
        if self.lhs is not None:
            return 0
        rows, *others = shape_of(self.dot.lhs)
        bits = max(rows, ROWS_PER_WARPGROUP) * prod(others) * self.operand_bits
        return bits // (32 * 128 * warpgroups)

    def result_layout(self, warpgroups: int) -> LinearLayout:
        """Where the threads hold the result."""
        return accumulator_layout(
            shape_of(self.dot.result),
            self.family,
            self.fragments,
            warpgroups,
            self.transposed,
        )

    @property
    def rows(self) -> int:
        """Rows of the instructions' results: of the transposed product they are the columns."""
        return shape_of(self.dot.result)[1 if self.transposed else 0]

    @property
    def columns(self) -> int:
        """Columns of the instructions' results."""
        return shape_of(self.dot.result)[0 if self.transposed else 1]

    @property
    def is_two_level(self) -> bool:
        """Whether the product is summed up by itself and then added to the accumulator."""
        is_one_sum = self.starts_at_zero and shape_of(self.dot.lhs)[-1] <= PARTIAL_K
        return is_two_level(self.dot, self.family) and not is_one_sum

    @property
    def may_be_by_columns(self) -> bool:
        """Whether two warpgroups could have half of the columns each."""
        return (
            self.fragments is None
            and self.lhs is not None
            and self.rows == ROWS_PER_WARPGROUP
            and self.columns // MOST_WARPGROUPS in self.family.sizes_n
            and not self.transposed
            and not self.is_two_level
        )

    @property
    def starts_at_zero(self) -> bool:
        """Whether nothing is added to."""
        return is_zero(self.dot.acc)

    def smem_transpose_bytes(self, warpgroups: int) -> int:
        """Shared memory for an operand that threads transpose: a copy for each warpgroup.

        Of 32-bit operands two copies, of which all take turns.
        """
        if not self.is_smem_transposed:
            return 0
        operand = self.lhs if self.transposed and self.lhs is not None else self.rhs
        return operand.bytes * (2 if self.transposes_words else warpgroups)

    @property
    def is_smem_transposed(self) -> bool:
        """Whether threads write an operand again."""
        return self.fragments in ("smem_transpose", "both")

    @property
    def transposes_words(self) -> bool:
        """Whether it is one of 32-bit elements: all reads of its stage are the threads' own."""
        return self.is_smem_transposed and self.family.operand_bits == 32

    @property
    def is_lhs_resident(self) -> bool:
        """Whether the left operand is loaded outside the block of the product."""
        lhs = self.lhs
        return lhs is not None and lhs.load.parent_block() is not self.dot.parent_block()


PlannedDot = WgmmaDot | MmaSyncDot | Tcgen05Dot
"""A product of a kernel with warp roles: a row for each strategy."""
