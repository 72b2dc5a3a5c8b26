"""Which function lowers which operation of the nv_tileas stage."""

from __future__ import annotations

from importlib import import_module

from xdsl.ir import Block, Operation

from tileiras.codegen.lowering.async_copy import ASYNC_COPY_RULES
from tileiras.codegen.lowering.context import KernelLowering, LoweringRule, LoweringRules
from tileiras.codegen.lowering.control_flow import (
    lower_break,
    lower_continue,
    lower_for,
    lower_if,
    lower_loop,
    lower_return,
)
from tileiras.codegen.lowering.convert_layout import lower_convert_layout
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.pointers import lower_load, lower_store
from tileiras.codegen.lowering.tensors import (
    lower_barrier,
    lower_cluster_place,
    lower_cluster_rank,
    lower_constant,
    lower_grid_size,
    lower_in_place,
    lower_make_range,
    lower_nothing,
    lower_num_programs,
    lower_program_id,
    lower_splat,
    lower_unsplat,
)
from tileiras.codegen.lowering.variables import VARIABLE_RULES
from tileiras.codegen.lowering.views import lower_tiled_load, lower_tiled_store
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE_OPS, KEPT_OPS
from tileiras.dialects.nv_tileas.pipeline import AgentSwitchOp
from tileiras.errors import CompileError, note_origin

_CONTROL_FLOW = {
    aa.IfOp: lower_if,
    aa.ForOp: lower_for,
    aa.LoopOp: lower_loop,
}

RULES: LoweringRules = {
    aa.ContinueOp: lower_continue,
    aa.BreakOp: lower_break,
    aa.ReturnOp: lower_return,
    aa.YieldOp: lower_nothing,
    aa.ConstantOp: lower_constant,
    aa.MakeRangeOp: lower_make_range,
    aa.SplatOp: lower_splat,
    aa.BroadcastOp: lower_in_place,
    aa.ReshapeOp: lower_in_place,
    aa.PermuteOp: lower_in_place,
    aa.UnsplatOp: lower_unsplat,
    aa.GetProgramIdOp: lower_program_id,
    aa.GetClusterPlaceOp: lower_cluster_place,
    aa.GetClusterRankOp: lower_cluster_rank,
    aa.GetGridSizeOp: lower_grid_size,
    aa.GetNumProgramsOp: lower_num_programs,
    aa.MakeMemRefOp: lower_nothing,
    aa.BlockTileOp: lower_nothing,
    aa.BarrierOp: lower_barrier,
    aa.CreateMemTokenOp: lower_nothing,
    aa.JoinMemTokensOp: lower_nothing,
    tas.ConvertLayoutOp: lower_convert_layout,
    tas.TiledLoadOp: lower_tiled_load,
    tas.TiledStoreOp: lower_tiled_store,
    tas.LoadOp: lower_load,
    tas.StoreOp: lower_store,
    **ASYNC_COPY_RULES,
    **VARIABLE_RULES,
}

_ELSEWHERE: dict[str, tuple[type[Operation], ...]] = {
    "warp_roles": tas.WARP_ROLE_OPS,
    "assertions": (aa.AssertOp,),
    "atomics": (
        aa.AtomicRMWOp,
        aa.AtomicCASOp,
        aa.TiledAtomicRedOp,
        aa.FenceAliasOp,
        aa.GridDependencyOp,
    ),
    "debug_values": (aa.DebugValueOp,),
    "exchange": EXCHANGE_OPS,
    "kept_memory": KEPT_OPS,
    "fma_dot": (tas.FmaDotOp,),
    "mma_dot": (tas.MmaDotOp, tas.MmaScaledDotOp),
    "row_stores": (tas.StoreRowsOp,),
    "multimem": (aa.MultimemLoadOp, aa.MultimemStoreOp, aa.MultimemReduceOp),
    "packing": (aa.PackOp, aa.UnpackOp),
    "printing": (aa.PrintOp,),
    "rearrange": (aa.ExtractOp, aa.InsertOp, aa.CatOp),
    "reduce": (aa.ReduceOp,),
    "scan": (aa.ScanOp, tas.ScanTotalOp),
    "scale_copies": (tas.ScalesLoadOp,),
    "tcgen05_dot": tas.TCGEN05_OPS,
    "tcgen05_scaled": (tas.Tcgen05DotScaledOp,),
}
"""Operations that many kernels do without, by the module whose `RULES` lower them."""
_MODULES = {op: name for name, operations in _ELSEWHERE.items() for op in operations}


def rule_of(op_class: type[Operation]) -> LoweringRule | None:
    """What lowers operations of a class; its module is imported for the first of them."""
    rule = RULES.get(op_class)
    if rule is not None:
        return rule
    name = _MODULES.get(op_class)
    if name is None:
        return None
    RULES.update(import_module(f"{__package__}.{name}").RULES)
    return RULES.get(op_class)


def lower_block(ctx: KernelLowering, block: Block) -> None:
    """Lowers the operations of a block at the current place."""
    try:
        _lower_operations(ctx, block)
    except Exception as error:
        note_origin(error, ctx.op)
        raise


def _lower_operations(ctx: KernelLowering, block: Block) -> None:
    for op in block.ops:
        ctx.op = op
        ctx.b.location = op.location
        if isinstance(op, ElementwiseOp):
            operands = [ctx.value(operand) for operand in op.operands]
            result = lower_elementwise(ctx.b, op, operands, ctx.target)
            ctx.values[op.results[0]] = result
        elif (structured := _CONTROL_FLOW.get(type(op))) is not None:
            structured(ctx, op, lower_block)
        elif isinstance(op, AgentSwitchOp):
            from tileiras.codegen.lowering.warp_roles import lower_agent_switch

            lower_agent_switch(ctx, op, lower_block)
        elif (rule := rule_of(type(op))) is not None:
            rule(ctx, op)
        else:
            name = op.name.partition(".")[2]
            raise CompileError(f"'{name}' op is not supported yet", place_of(op))
