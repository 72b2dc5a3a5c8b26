"""A product by tcgen05: operands in stages of pipelines, sums in tensor memory.

One thread of a warp of its own issues the instructions. Consumers wait for the sums of a whole
loop, and load them into registers for what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tileiras.codegen.atoms.tcgen05 import Tcgen05Kind
from tileiras.codegen.atoms.tcgen05_scaled import ScaledKind
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout, scale_factors
from tileiras.dialects.layout.tmem import BLOCK_ROWS, TMEM_COLUMN_BITS, tmem_accumulator
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.operands.tma import SharedOperand, halved_dim, is_by_tma

LEAST_COLUMNS_OF_WARP = 16
"""Policy: columns of a tile that a warpgroup loads at least."""
LEFT_SHAPE = "32x32b"
"""Fixed: of stores to tensor memory: rows of a left operand lie in lanes, elements beside each
other in columns, so that a thread has a whole row.
"""


SCALED_AT_ONCE = 32
"""Policy: registers of a thread for a part of a sum that is scaled in tensor memory."""


STORED_BESIDE = 24
"""Policy: registers of a thread beside a whole sum on its way to memory."""


@dataclass(frozen=True)
class Accumulator:
    """Sums in tensor memory: from column `column` on, `buffers` times `columns`.

    Those of a whole loop, or of one iteration where the loop reads them.
    """

    loop: aa.ForOp
    """The last one, where loops go on with the sum of a loop before."""
    position: int
    """Among the values that the loop carries; -1 for the sum of an iteration."""
    dot: aa.DotOp | None = None
    """The only product of the sum where it is one of an iteration."""
    column: int = 0
    columns: int = 0
    buffers: int = 1
    before: tuple[tuple[aa.ForOp, int], ...] = ()
    """The loops before, whose sum the loop goes on with, and the position in each."""
    is_scaled: bool = False
    """Whether consumers scale the sum where it lies, before each product."""
    is_filled: bool = False
    """Whether it does not start from zero: consumers store what it starts from."""

    @property
    def places(self) -> tuple[tuple[aa.ForOp, int], ...]:
        """The loops that carry the sum, and the position in each, in program order."""
        return (*self.before, (self.loop, self.position))

    @property
    def is_of_iteration(self) -> bool:
        """Whether consumers load the sum in each iteration, and add it to what they hold."""
        return self.dot is not None


@dataclass(frozen=True)
class Tcgen05Dot:
    """A product by tcgen05: operands in shared memory, the sum in tensor memory.

    `lhs` None: consumers compute the left operand, and store it to tensor memory. One that is
    loaded outside the loop of the product stays in its stage until the loop is over.
    `load_shape`: of the instructions that bring the sum to registers, when the loop is over, or
    in each iteration.
    """

    dot: aa.ProductOp
    lhs: SharedOperand | None
    rhs: SharedOperand
    kind: Tcgen05Kind | ScaledKind
    accumulator: Accumulator
    load_shape: str = "16x256b"
    scales: tuple[SharedOperand, ...] = ()
    """Those of the left and of the right operand, of a block-scaled product."""
    scales_column: int = 0
    """The column of tensor memory where they begin."""
    is_in_turn: bool = False
    """Whether it is issued step by step with the product before, whose left operand it has."""
    left_column: int = 0
    """The column of tensor memory where a left operand begins that consumers compute."""

    fragments: ClassVar[None] = None
    """No operand is read into registers for an instruction that would take it from memory."""
    transposed: ClassVar[bool] = False
    is_two_level: ClassVar[bool] = False
    is_smem_transposed: ClassVar[bool] = False
    transposes_words: ClassVar[bool] = False
    is_read_by_warps: ClassVar[bool] = False
    """Whether each warp reads stages by itself, and hands them back."""
    is_asynchronous: ClassVar[bool] = True
    """Whether the product is issued and waited for later."""
    copies: ClassVar[int] = 1
    """How many warps hold each row."""
    is_in_tmem: ClassVar[bool] = True
    """Whether the sum lies in tensor memory."""

    @property
    def starts_at_zero(self) -> bool:
        """Whether nothing is added to."""
        return is_zero(self.dot.acc)

    @property
    def is_paired(self) -> bool:
        """Whether two CTAs multiply together, each with a half of the right operand."""
        return halved_dim(self.rhs.load) is not None

    @property
    def is_lhs_resident(self) -> bool:
        """Whether the left operand is loaded outside the block of the product."""
        return self.lhs is not None and self.lhs.load.parent_block() is not self.dot.parent_block()

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return shape_of(self.dot.result)[0]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return shape_of(self.dot.result)[1]

    @property
    def operand_bits(self) -> int:
        """Bits of an element of the operands."""
        return self.kind.operand_bits

    def smem_transpose_bytes(self, warpgroups: int) -> int:
        """Shared memory for operands written again: none is."""
        return 0

    def left_registers(self, warpgroups: int) -> int:
        """Registers of a thread for a left operand that comes from registers.

        One that is computed goes to tensor memory, in the place of what it is made of.
        """
        return 0

    def suits(self, warpgroups: int) -> bool:
        """Whether every warpgroup has columns, or rows, of its own to load."""
        has_blocks = self.rows >= BLOCK_ROWS * warpgroups
        return has_blocks or self.columns >= LEAST_COLUMNS_OF_WARP * warpgroups

    def result_layout(self, warpgroups: int) -> LinearLayout:
        """Where the threads hold the result once it is loaded."""
        return tmem_accumulator((self.rows, self.columns), self.load_shape, warpgroups)

    @property
    def left_columns(self) -> int:
        """Columns of tensor memory for a left operand that consumers compute."""
        if self.lhs is not None:
            return 0
        rows, depth = shape_of(self.dot.lhs)
        return depth * self.operand_bits // TMEM_COLUMN_BITS * (rows // BLOCK_ROWS)

    def accumulator_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the result once it is loaded."""
        threads = 128 * warpgroups
        return self.rows * self.columns // threads

    def loop_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the result in its loop: of a sum that is scaled, for a part."""
        whole = self.accumulator_registers(warpgroups)
        return min(whole, SCALED_AT_ONCE) if self.accumulator.is_scaled else whole

    def epilogue_registers(self, warpgroups: int) -> int:
        """Registers of a thread for a sum that its loop does not hold, and to store it."""
        whole = self.accumulator_registers(warpgroups)
        return whole + STORED_BESIDE if self.accumulator.is_scaled else 0

    @property
    def tmem_columns(self) -> int:
        """Columns of tensor memory for one stage of the sum."""
        return self.columns * max(1, self.rows // BLOCK_ROWS)

    @property
    def touches_scales(self) -> bool:
        """Whether the warp that issues it looks at the signs of its scales, or puts them in order
        where TMA has brought them.
        """
        if not isinstance(self.kind, ScaledKind):
            return False
        return not self.kind.has_signs or any(is_by_tma(scale.load) for scale in self.scales)

    @property
    def scale_columns(self) -> int:
        """Columns of tensor memory for the scales of a stage."""
        if not isinstance(self.dot, aa.DotScaledOp):
            return 0
        blocks = shape_of(self.dot.lhs_scale)[-1]
        return scale_factors.scale_columns(self.rows, blocks) + self.right_scale_columns

    @property
    def right_scale_columns(self) -> int:
        """Those of the right operand."""
        if not isinstance(self.dot, aa.DotScaledOp):
            return 0
        blocks = shape_of(self.dot.lhs_scale)[-1]
        return scale_factors.scale_columns(self.columns, blocks)


def accumulators(dots: Sequence[Tcgen05Dot]) -> list[Accumulator]:
    """The different sums of products, in program order."""
    return list(dict.fromkeys(planned.accumulator for planned in dots))
