"""Block-scaled products by tcgen05: scales go to tensor memory, then instructions read them there.

One lane issues both, and the tensor core does them in order (PTX ISA, "tcgen05 memory consistency
model", implicitly pipelined instructions): no one waits between a copy and the products that read
it, nor between these and the next copy to the same columns.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.element_names import wgmma_operand
from tileiras.codegen.atoms.tcgen05 import MOST_N
from tileiras.codegen.atoms.tcgen05_scaled import SCALED_ROWS, ScaledKind, get_scaled_kind
from tileiras.codegen.llvmir.tcgen05_builder import ScaledStep
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.scale_rows import put_in_chunks
from tileiras.codegen.lowering.scale_signs import SignedOperand, apply_signs
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


def lower_tcgen05_dot_scaled(ctx: KernelLowering, op: Operation) -> None:
    """Copies the scales, then issues instructions for all blocks of rows and columns, along K."""
    if not isinstance(op, Tcgen05DotScaledOp):
        raise InternalError("the rule of tcgen05_dot_scaled got another operation")
    b, memory = ctx.b, tensor_memory(ctx)
    pipeline, kind = memory.pipeline(op.accumulator), get_scaled_kind(op.kind.data)
    lhs, rhs = operand_in_stage(op.lhs, 1), operand_in_stage(op.rhs, 0)
    blocks = scale_blocks(op.lhs_scale)
    sides = (
        (op.lhs, lhs, op.lhs_scale, op.lhs_ready is not None),
        (op.rhs, rhs, op.rhs_scale, op.rhs_ready is not None),
    )
    seen = _put_in_chunks(ctx, op)
    if not kind.has_signs:
        signed = (
            SignedOperand(
                ctx.value(tile),
                operand,
                ctx.value(scale),
                blocks,
                _is_halved(tile),
                not _lie_in_rows(scale),
            )
            for tile, operand, scale, is_ready in sides
            if not is_ready
        )
        apply_signs(ctx, tuple(signed), seen)
    ctas = 1 if op.pair is None else 2
    columns = rhs.extent * ctas
    behind = scale_columns(lhs.extent, blocks)
    scales = b.add(memory.address(), b.i32(op.column.data))
    pair = op.pair is not None
    _copy_scales(ctx, op.lhs_scale, scales, chunks(lhs.extent, blocks), 0, pair)
    _copy_scales(ctx, op.rhs_scale, scales, chunks(columns, blocks), behind, pair)
    n = min(columns, MOST_N)
    a = b.tcgen05_descriptor(ctx.value(op.lhs), lhs)
    right = b.tcgen05_descriptor(ctx.value(op.rhs), rhs)
    first = b.add(memory.address(), pipeline.offset(b))
    adds = b.trunc(pipeline.adds.get(b), i1)
    transposed = (lhs.major == "mn", rhs.major == "mn")
    for row in range(0, lhs.extent, SCALED_ROWS):
        for column in range(0, columns, n):
            to = row // SCALED_ROWS * columns + column
            steps: list[ScaledStep] = []
            for step, (to_a, to_b) in enumerate(zip(lhs.k_offsets, rhs.k_offsets, strict=True)):
                word, byte = kind.scale_place(step)
                block = word * WORD_BLOCKS
                steps.append(
                    ScaledStep(
                        kind.descriptor(
                            *_names(op, kind),
                            SCALED_ROWS * ctas,
                            n,
                            byte,
                            transposed=transposed,
                            ctas=ctas,
                        ),
                        lhs.extent_offset(row) + to_a,
                        rhs.extent_offset(column // ctas) + to_b,
                        chunk_number(row, block, lhs.extent) * CHUNK_COLUMNS,
                        behind + chunk_number(column, block, columns) * CHUNK_COLUMNS,
                    )
                )
            b.tcgen05_mma_scaled(
                kind.name,
                kind.vector,
                b.add(first, b.i32(to)) if to else first,
                a,
                right,
                scales,
                adds,
                steps,
                predicate=memory.leader,
                pair=pair,
            )
    pipeline.adds.set(b, b.i32(1))


def _put_in_chunks(ctx: KernelLowering, op: Tcgen05DotScaledOp) -> SSAValue | None:
    """Scales that lie in rows are put in chunks. i32: theirs, or-ed; None where there are none."""
    operands = [
        (ctx.value(scales), scales.type.shape[axis])
        for scales, axis, ready in (
            (op.lhs_scale, 0, op.lhs_ready),
            (op.rhs_scale, 1, op.rhs_ready),
        )
        if ready is None and is_in_smem(scales.type) and _lie_in_rows(scales)
    ]
    if not operands:
        return None
    seen = put_in_chunks(ctx, operands)
    ctx.b.fence_proxy_async()
    ctx.b.warp_barrier()
    return seen


def _lie_in_rows(scales: SSAValue) -> bool:
    """Whether scales lie as TMA brings them."""
    return is_in_smem(scales.type) and isinstance(scales.type.encoding, ScaleRowsAttr)


def _is_halved(tile: SSAValue) -> bool:
    """Whether a pair of CTAs shares a tile."""
    return is_in_smem(tile.type) and tile.type.own_shape != tile.type.shape


def _copy_scales(
    ctx: KernelLowering, tile: SSAValue, scales: SSAValue, count: int, column: int, pair: bool
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
        tensor_memory(ctx).leader,
        pair,
    )


def _names(op: Tcgen05DotScaledOp, kind: ScaledKind) -> tuple[str, str]:
    """PTX's names of the operands' types."""
    if op.packed is not None:
        return _F4, _F4
    lhs, rhs = (wgmma_operand(element_type(tile.type), False) for tile in (op.lhs, op.rhs))
    if lhs is None or rhs is None:
        raise InternalError(f"no {kind.name} of {op.lhs.type} and {op.rhs.type}", where="tcgen05")
    return lhs, rhs


RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    Tcgen05DotScaledOp: lower_tcgen05_dot_scaled,
}
"""Block-scaled products by class."""
