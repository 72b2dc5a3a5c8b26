"""Block-scaled products by tcgen05: scales go to tensor memory, then instructions read them there.

One lane issues both, and the tensor core does them in order (PTX ISA, "tcgen05 memory consistency
model", implicitly pipelined instructions): no one waits between a copy and the products that read
it, nor between these and the next copy to the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.element_names import wgmma_operand
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.atoms.tcgen05 import MOST_N
from tileiras.codegen.atoms.tcgen05_scaled import SCALED_ROWS, ScaledKind, get_scaled_kind
from tileiras.codegen.llvmir.tcgen05_builder import ScaledStep
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.pipelines import SumPipeline, Variable
from tileiras.codegen.lowering.scale_rows import put_in_chunks
from tileiras.codegen.lowering.scale_signs import (
    SignedOperand,
    apply_signs,
    end_where,
    start_where,
)
from tileiras.codegen.lowering.tcgen05_operands import operand_in_stage, scale_blocks
from tileiras.codegen.lowering.tensor_memory import tensor_memory
from tileiras.codegen.lowering.types import element_type
from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_COLUMNS,
    GROUP_BYTES,
    WORD_BLOCKS,
    chunk_number,
    chunks,
    scale_columns,
)
from tileiras.dialects.nv_tileas.memdesc import ScaleRowsAttr, is_in_smem
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.errors import InternalError

_F4 = "e2m1"


def lower_tcgen05_dot_scaled(ctx: KernelLowering, op: Tcgen05DotScaledOp) -> None:
    """Copies the scales, then issues instructions for all blocks of rows and columns, along K.

    Of products that are issued in turn the first one's rule does so for all.
    """
    if op.in_turn is not None:
        return
    together = _in_turn(op)
    _prepare(ctx, together)
    b, memory = ctx.b, tensor_memory(ctx)
    scales = b.add(memory.address(), b.i32(op.column.data))
    issued = [_issued(ctx, product, op.column.data) for product in together]
    for product in issued:
        _copy_all_scales(ctx, product, scales)
    if len(issued) == 1:
        _issue(ctx, issued[0], scales)
    else:
        _issue_in_turn(ctx, issued, scales)
    for product in issued:
        product.pipeline.adds.set(b, b.i32(1))


def _in_turn(op: Tcgen05DotScaledOp) -> list[Tcgen05DotScaledOp]:
    """A product and those that are issued in turn with it."""
    found, following = [op], op.next_op
    while isinstance(following, Tcgen05DotScaledOp) and following.in_turn is not None:
        found.append(following)
        following = following.next_op
    return found


def _prepare(ctx: KernelLowering, together: Sequence[Tcgen05DotScaledOp]) -> None:
    """Puts the scales of products in order, and moves their signs, where that has not been done."""
    seen = _put_in_chunks(ctx, together)
    if not get_scaled_kind(together[0].kind.data).has_signs:
        apply_signs(ctx, [side for op in together for side in _signed(ctx, op)], seen)


def _signed(ctx: KernelLowering, op: Tcgen05DotScaledOp) -> Iterator[SignedOperand]:
    """The operands of a product whose signs nobody has moved."""
    sides = (
        (op.lhs, operand_in_stage(op.lhs, 1), op.lhs_scale, op.lhs_ready),
        (op.rhs, operand_in_stage(op.rhs, 0), op.rhs_scale, op.rhs_ready),
    )
    for tile, operand, scale, ready in sides:
        if ready is None:
            yield SignedOperand(
                ctx.value(tile),
                operand,
                ctx.value(scale),
                scale_blocks(op.lhs_scale),
                _is_halved(tile),
                not _lie_in_rows(scale),
                None if op.condition is None else ctx.value(op.condition),
            )


@dataclass(frozen=True)
class _Issued:
    """A product as instructions see it: operands in stages, their descriptors, where its sum is,
    whether it adds, and who issues. `scale`: the column of the right operand's scales behind those
    of the first product.
    """

    op: Tcgen05DotScaledOp
    lhs: SharedOperand
    rhs: SharedOperand
    a: SSAValue
    b: SSAValue
    pipeline: SumPipeline
    to: SSAValue
    adds: SSAValue
    scale: int
    issues: SSAValue | None

    @property
    def is_paired(self) -> bool:
        """Whether two CTAs multiply together."""
        return self.op.pair is not None

    @property
    def ctas(self) -> int:
        """How many do."""
        return 2 if self.is_paired else 1

    @property
    def columns(self) -> int:
        """Of the sum."""
        return self.rhs.extent * self.ctas

    def steps(self, row: int, column: int) -> list[ScaledStep]:
        """The steps of K of a block of rows and of columns."""
        kind, found = get_scaled_kind(self.op.kind.data), list[ScaledStep]()
        n = min(self.columns, MOST_N)
        transposed = (self.lhs.major == "mn", self.rhs.major == "mn")
        pairs = zip(self.lhs.k_offsets, self.rhs.k_offsets, strict=True)
        for step, (to_a, to_b) in enumerate(pairs):
            word, byte = kind.scale_place(step)
            block = word * WORD_BLOCKS
            found.append(
                ScaledStep(
                    kind.descriptor(
                        *_names(self.op, kind),
                        SCALED_ROWS * self.ctas,
                        n,
                        byte,
                        transposed=transposed,
                        ctas=self.ctas,
                    ),
                    self.lhs.extent_offset(row) + to_a,
                    self.rhs.extent_offset(column // self.ctas) + to_b,
                    chunk_number(row, block, self.lhs.extent) * CHUNK_COLUMNS,
                    self.scale + chunk_number(column, block, self.columns) * CHUNK_COLUMNS,
                )
            )
        return found


def _issued(ctx: KernelLowering, op: Tcgen05DotScaledOp, first_column: int) -> _Issued:
    """A product whose scales lie behind `first_column`."""
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline = memory.pipeline(op.accumulator)
    lhs, rhs = operand_in_stage(op.lhs, 1), operand_in_stage(op.rhs, 0)
    behind = scale_columns(lhs.extent, scale_blocks(op.lhs_scale))
    issues = memory.leader
    if op.condition is not None:
        holds = ctx.value(op.condition)
        issues = holds if issues is None else b.and_(issues, holds)
    a = b.tcgen05_descriptor(ctx.value(op.lhs), lhs)
    right = b.tcgen05_descriptor(ctx.value(op.rhs), rhs)
    to = b.add(memory.address(), pipeline.offset(b))
    adds = b.trunc(pipeline.adds.get(b), i1)
    place = op.column.data - first_column + behind
    return _Issued(op, lhs, rhs, a, right, pipeline, to, adds, place, issues)


def _copy_all_scales(ctx: KernelLowering, product: _Issued, scales: SSAValue) -> None:
    """Copies the scales of a product to tensor memory; those of the left operand once."""
    op, blocks = product.op, scale_blocks(product.op.lhs_scale)
    if op.in_turn is None:
        _copy_scales(ctx, product, op.lhs_scale, scales, chunks(product.lhs.extent, blocks), 0)
    count = chunks(product.columns, blocks)
    _copy_scales(ctx, product, op.rhs_scale, scales, count, product.scale)


def _issue(ctx: KernelLowering, product: _Issued, scales: SSAValue) -> None:
    """Instructions of one product, along K for each block."""
    for row, column in _blocks(product):
        _multiply(ctx, product, (row, column), product.steps(row, column), scales, product.adds)


def _issue_in_turn(ctx: KernelLowering, products: Sequence[_Issued], scales: SSAValue) -> None:
    """Instructions of several products with one left operand: it is read by the first one of a step
    of K, and kept for the others.
    """
    first = products[0]
    for row in range(0, first.lhs.extent, SCALED_ROWS):
        for step in range(len(first.lhs.k_offsets)):
            turn = [
                (product, column)
                for product in products
                for at, column in _blocks(product)
                if at == row
            ]
            for number, (product, column) in enumerate(turn):
                use = "fill" if not number else "use" if number + 1 < len(turn) else "lastuse"
                one = product.steps(row, column)[step : step + 1]
                adds = ctx.b.i1(True) if step else product.adds
                _multiply(ctx, product, (row, column), one, scales, adds, use)


def _blocks(product: _Issued) -> Iterator[tuple[int, int]]:
    """The first row and column of what instructions compute."""
    for row in range(0, product.lhs.extent, SCALED_ROWS):
        for column in range(0, product.columns, min(product.columns, MOST_N)):
            yield row, column


def _multiply(
    ctx: KernelLowering,
    product: _Issued,
    block: tuple[int, int],
    steps: Sequence[ScaledStep],
    scales: SSAValue,
    adds: SSAValue,
    collector: str | None = None,
) -> None:
    """Instructions for a block of rows and columns."""
    b, kind = ctx.b, get_scaled_kind(product.op.kind.data)
    row, column = block
    to = row // SCALED_ROWS * product.columns + column
    b.tcgen05_mma_scaled(
        kind.name,
        kind.vector,
        b.add(product.to, b.i32(to)) if to else product.to,
        product.a,
        product.b,
        scales,
        adds,
        steps,
        predicate=product.issues,
        pair=product.is_paired,
        collector=collector,
    )


def _put_in_chunks(ctx: KernelLowering, together: Sequence[Tcgen05DotScaledOp]) -> SSAValue | None:
    """Scales that lie in rows are put in chunks. i32: theirs, or-ed; None where there are none."""
    found = [(op, operands) for op in together if (operands := list(_in_rows(ctx, op)))]
    if not found:
        return None
    (_, operands), *others = found
    seen = put_in_chunks(ctx, operands)
    if others:
        together_seen = Variable(ctx, 0)
        together_seen.set(ctx.b, seen)
        for op, operands in others:
            after = start_where(ctx, None if op.condition is None else ctx.value(op.condition))
            more = put_in_chunks(ctx, operands)
            together_seen.set(ctx.b, ctx.b.or_(together_seen.get(ctx.b), more))
            end_where(ctx, after)
        seen = together_seen.get(ctx.b)
    ctx.b.fence_proxy_async()
    ctx.b.warp_barrier()
    return seen


def _in_rows(ctx: KernelLowering, op: Tcgen05DotScaledOp) -> Iterator[tuple[SSAValue, int]]:
    """The scales of a product that lie as TMA brings them, with how many rows have some."""
    sides = ((op.lhs_scale, 0, op.lhs_ready), (op.rhs_scale, 1, op.rhs_ready))
    for scales, axis, ready in sides:
        if ready is None and is_in_smem(scales.type) and _lie_in_rows(scales):
            yield ctx.value(scales), scales.type.shape[axis]


def _lie_in_rows(scales: SSAValue) -> bool:
    """Whether scales lie as TMA brings them."""
    return is_in_smem(scales.type) and isinstance(scales.type.encoding, ScaleRowsAttr)


def _is_halved(tile: SSAValue) -> bool:
    """Whether a pair of CTAs shares a tile."""
    return is_in_smem(tile.type) and tile.type.own_shape != tile.type.shape


def _copy_scales(
    ctx: KernelLowering, product: _Issued, tile: SSAValue, scales: SSAValue, count: int, column: int
) -> None:
    """Copies the scales of an operand to the columns from `column` behind `scales` on.

    For a pair of CTAs, from the same place in the stage of each to its own tensor memory.
    """
    source = ctx.b.tcgen05_chunk_descriptor(ctx.value(tile), GROUP_BYTES)
    numbers = range(count)
    ctx.b.tcgen05_cp(
        scales,
        source,
        [number * CHUNK_BYTES for number in numbers],
        [column + number * CHUNK_COLUMNS for number in numbers],
        product.issues,
        product.is_paired,
    )


def _names(op: Tcgen05DotScaledOp, kind: ScaledKind) -> tuple[str, str]:
    """PTX's names of the operands' types."""
    if op.packed is not None:
        return _F4, _F4
    lhs, rhs = (wgmma_operand(element_type(tile.type), False) for tile in (op.lhs, op.rhs))
    if lhs is None or rhs is None:
        raise InternalError(f"no {kind.name} of {op.lhs.type} and {op.rhs.type}", where="tcgen05")
    return lhs, rhs


RULES: LoweringRules = {
    Tcgen05DotScaledOp: lower_tcgen05_dot_scaled,
}
"""Block-scaled products by class."""
