"""Warps beside the producer's that write operands of wgmma again with K contiguous, for everybody.

They wait for a stage that TMA has filled, write its tile to a stage of another pipeline, and hand
the first one back. Consumers read the other one as if TMA had filled it.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.types import storage_bits
from tileiras.codegen.lowering.wgmma_smem_transpose import Transposition
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.errors import InternalError, required

AT_ONCE = 2
"""Policy: blocks that are loaded before the first is stored: the warps have few registers."""


def lower_transpose_warps(ctx: KernelLowering, op: wg.TransposeWarpsOp) -> None:
    """Its program is written where the warps part."""
    ctx.roles.transposer = op


def lower_transpose_tile(ctx: KernelLowering, op: Operation) -> None:
    """The warps divide the columns; each thread lets the asynchronous proxy see what it wrote."""
    if not isinstance(op, wg.TransposeTileOp) or not is_in_smem(op.tile.type):
        raise InternalError("the rule of transpose_tile got another operation")
    program = required(ctx.roles.transposer, "a tile is transposed in no program", "wgmma")
    b, type, pipeline = ctx.b, op.tile.type, ctx.roles.pipeline(op.pipeline)
    k, columns = type.shape
    operand = SharedOperand("k", columns, k, storage_bits(type.element_type), op.swizzle.data)
    stage, _ = pipeline.position(ctx)
    target = pipeline.stage_address(b, stage.get(b))
    tiles = (ctx.value(op.tile), target, type, operand)
    Transposition(ctx, *tiles, program.warps.data, at_once=AT_ONCE).run()
    b.fence_proxy_async()
