"""A product by tcgen05: operands in stages of pipelines, sums in tensor memory.

One thread of a warp of its own issues the instructions. Consumers wait for the sums of a whole
loop, and load them into registers for what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.codegen.atoms.element_names import wgmma_accumulator, wgmma_operand
from tileiras.codegen.atoms.tcgen05 import (
    COLUMNS,
    MOST_N,
    ROWS,
    Tcgen05Kind,
    allocated_columns,
    find_tcgen05_kind,
)
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.tmem import BLOCK_ROWS, HALF_ROWS, tmem_accumulator
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.mma.zero import is_zero
from tileiras.planning.operands.staged import staged_operands
from tileiras.planning.operands.tma import SharedOperand, is_by_tma
from tileiras.planning.resources.cta import CtaShape

MOST_BUFFERS = 2
"""Policy: stages of an accumulator where each CTA makes several tiles: while the consumers read
one, the products of the next tile are computed.
"""
LEAST_COLUMNS_OF_WARP = 16
"""Policy: columns of a tile that a warpgroup loads at least."""


@dataclass(frozen=True)
class Accumulator:
    """Sums of a loop in tensor memory: from column `column` on, `buffers` times `columns`."""

    loop: aa.ForOp
    position: int
    """Among the values that the loop carries."""
    column: int = 0
    columns: int = 0
    buffers: int = 1


@dataclass(frozen=True)
class Tcgen05Dot:
    """A product by tcgen05: both operands in shared memory, the sum in tensor memory.

    `load_shape`: of the instructions that bring the sum to registers, when the loop is over.
    """

    dot: aa.DotOp
    lhs: SharedOperand
    rhs: SharedOperand
    kind: Tcgen05Kind
    accumulator: Accumulator
    load_shape: str = "16x256b"

    fragments: ClassVar[None] = None
    """No operand is read into registers for an instruction that would take it from memory."""
    transposed: ClassVar[bool] = False
    is_promoted: ClassVar[bool] = False
    is_turned: ClassVar[bool] = False
    turns_words: ClassVar[bool] = False
    is_read_by_warps: ClassVar[bool] = False
    """Whether each warp reads stages by itself, and hands them back."""
    is_asynchronous: ClassVar[bool] = True
    """Whether the product is issued and waited for later."""
    is_in_tmem: ClassVar[bool] = True
    """Whether the sum lies in tensor memory."""
    is_lhs_kept: ClassVar[bool] = False
    """Whether the left operand is loaded outside the block of the product."""
    starts_at_zero: ClassVar[bool] = False

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

    def turned_bytes(self, warpgroups: int) -> int:
        """Shared memory for operands written again: none is."""
        return 0

    def left_registers(self, warpgroups: int) -> int:
        """Registers of a thread for a left operand that comes from registers."""
        return 0

    def suits(self, warpgroups: int) -> bool:
        """Whether every warpgroup has columns, or rows, of its own to load."""
        has_blocks = self.rows >= BLOCK_ROWS * warpgroups
        return has_blocks or self.columns >= LEAST_COLUMNS_OF_WARP * warpgroups

    def result_layout(self, warpgroups: int) -> LinearLayout:
        """Where the threads hold the result once it is loaded."""
        return tmem_accumulator((self.rows, self.columns), self.load_shape, warpgroups)

    def accumulator_registers(self, warpgroups: int) -> int:
        """Registers of a thread for the result once it is loaded."""
        threads = 128 * warpgroups
        return self.rows * self.columns // threads

    @property
    def tmem_columns(self) -> int:
        """Columns of tensor memory for one stage of the sum."""
        return self.columns * max(1, self.rows // BLOCK_ROWS)


def tcgen05_dot(op: aa.DotOp, target: GpuTarget) -> Tcgen05Dot | str:
    """The product with its sum in tensor memory, or why it has none there."""
    shape, depth = shape_of(op.result), shape_of(op.lhs)[-1]
    if len(shape) != 2:
        return "tcgen05 multiplies no batches"
    kind = dot_kind(op)
    if kind is None or not target.has(kind.feature):
        return "tcgen05 has no instructions for the element types"
    rows, columns = shape
    m = HALF_ROWS if rows == HALF_ROWS else BLOCK_ROWS
    if rows % m or m not in ROWS or not kind.holds(m, min(columns, MOST_N)) or depth % kind.k:
        return f"tcgen05 has no instructions for a product of {rows}x{columns}x{depth}"
    operands = staged_operands(op)
    if operands is None or operands.lhs is None:
        return "an operand does not come through a pipeline"
    lhs, rhs = operands.lhs, operands.rhs
    if lhs.load.parent_block() is not op.parent_block():
        return "an operand stays in its stage throughout a loop"
    if not is_by_tma(lhs.load) or not is_by_tma(rhs.load):
        return "an operand would be gathered into its stage"
    if not kind.transposes and (lhs.major_axis, rhs.major_axis) != (1, 0):
        return "K of an operand is not contiguous"
    accumulator = accumulator_of(op)
    if isinstance(accumulator, str):
        return accumulator
    return Tcgen05Dot(op, lhs, rhs, kind, accumulator)


def dot_kind(op: aa.DotOp) -> Tcgen05Kind | None:
    """The kind of instructions for the element types, None if the hardware has none."""
    return find_tcgen05_kind(wgmma_accumulator(element_of(op.result)), *operand_names(op))


def operand_names(op: aa.DotOp) -> tuple[str | None, str | None]:
    """PTX's names of the operands' types."""
    signs = (op.signedness_lhs, op.signedness_rhs)
    lhs, rhs = (
        wgmma_operand(element_of(value), _is_unsigned(sign))
        for value, sign in zip((op.lhs, op.rhs), signs, strict=True)
    )
    return lhs, rhs


def _is_unsigned(signedness: SignednessAttr | None) -> bool:
    return signedness is not None and signedness.data is Signedness.UNSIGNED


def accumulator_of(op: aa.DotOp) -> Accumulator | str:
    """The sum of a loop that the product adds to, or why it is none.

    The loop carries it from zero on, products of its body add to it one after another, and nothing
    else reads it there.
    """
    loop = op.parent_op()
    if not isinstance(loop, aa.ForOp):
        return "a product stands in no loop"
    value: SSAValue = op.acc
    while isinstance(value, OpResult) and isinstance(value.op, aa.DotOp):
        if value.op.parent_op() is not loop or not _has_one_use(value):
            return "a sum is read in its loop"
        value = value.op.acc
    arguments = loop.body.block.args[1:]
    if value not in arguments or not _has_one_use(value):
        return "a sum is read in its loop"
    position = arguments.index(value)
    if not _is_carried_on(op, loop, position):
        return "a sum is read in its loop"
    if not is_zero(loop.init_values[position]):
        return "a sum does not start from zero"
    return Accumulator(loop, position)


def _is_carried_on(op: aa.DotOp, loop: aa.ForOp, position: int) -> bool:
    """Whether nothing but further products and the next iteration reads the result."""
    result: SSAValue = op.result
    while True:
        uses = list(result.uses)
        if len(uses) != 1:
            return False
        user, index = uses[0].operation, uses[0].index
        if isinstance(user, aa.ContinueOp) and user.parent_op() is loop:
            return index == position
        if not isinstance(user, aa.DotOp) or user.parent_op() is not loop:
            return False
        if user.operands[index] is not user.acc or user.lhs is result or user.rhs is result:
            return False
        result = user.result


def _has_one_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def placed_sums(dots: Sequence[Tcgen05Dot], shape: CtaShape) -> list[Tcgen05Dot] | str:
    """The products with places for their sums in tensor memory, or that there is no room.

    CTAs that share an SM share its columns, too, and each allocates a power of two of them.
    """
    most = COLUMNS // shape.ctas
    for buffers in range(MOST_BUFFERS, 0, -1):
        column, places = 0, dict[tuple[Operation, int], Accumulator]()
        for planned in dots:
            own = planned.accumulator
            key = (own.loop, own.position)
            if key in places:
                continue
            count = buffers if _is_repeated(own.loop) else 1
            places[key] = replace(own, column=column, columns=planned.tmem_columns, buffers=count)
            column += count * planned.tmem_columns
        if allocated_columns(column) <= most:
            return [
                replace(p, accumulator=places[p.accumulator.loop, p.accumulator.position])
                for p in dots
            ]
    return f"the sums take more than {most} columns of tensor memory"


def _is_repeated(loop: Operation) -> bool:
    """Whether a loop runs several times in a tile block."""
    parent = loop.parent_op()
    while parent is not None and not isinstance(parent, aa.ForOp | aa.LoopOp):
        parent = parent.parent_op()
    return parent is not None


def accumulators(dots: Sequence[Tcgen05Dot]) -> list[Accumulator]:
    """The different sums of products, in program order."""
    return list(dict.fromkeys(planned.accumulator for planned in dots))
