"""Which function lowers which operation of the nv_tileas stage."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Block, Operation

from tileiras.codegen.lowering import control_flow, pointers, tensors, views
from tileiras.codegen.lowering.async_copy import ASYNC_COPY_RULES
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import lower_convert_layout
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.variables import VARIABLE_RULES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE_OPS
from tileiras.dialects.nv_tileas.pipeline import AgentSwitchOp
from tileiras.errors import CompileError, note_origin

LoweringRule = Callable[[KernelLowering, Operation], None]

_CONTROL_FLOW = {
    aa.IfOp: control_flow.lower_if,
    aa.ForOp: control_flow.lower_for,
    aa.LoopOp: control_flow.lower_loop,
}

RULES: dict[type[Operation], LoweringRule] = {
    aa.ContinueOp: control_flow.lower_continue,
    aa.BreakOp: control_flow.lower_break,
    aa.ReturnOp: control_flow.lower_return,
    aa.YieldOp: tensors.lower_nothing,
    aa.ConstantOp: tensors.lower_constant,
    aa.MakeRangeOp: tensors.lower_make_range,
    aa.SplatOp: tensors.lower_splat,
    aa.BroadcastOp: tensors.lower_in_place,
    aa.ReshapeOp: tensors.lower_in_place,
    aa.PermuteOp: tensors.lower_in_place,
    aa.UnsplatOp: tensors.lower_unsplat,
    aa.GetProgramIdOp: tensors.lower_program_id,
    aa.GetClusterRankOp: tensors.lower_cluster_rank,
    aa.GetGridSizeOp: tensors.lower_grid_size,
    aa.GetNumProgramsOp: tensors.lower_num_programs,
    aa.MakeMemRefOp: tensors.lower_nothing,
    aa.BlockTileOp: tensors.lower_nothing,
    aa.BarrierOp: tensors.lower_barrier,
    aa.CreateMemTokenOp: tensors.lower_nothing,
    aa.JoinMemTokensOp: tensors.lower_nothing,
    tas.ConvertLayoutOp: lower_convert_layout,
    tas.TiledLoadOp: views.lower_tiled_load,
    tas.TiledStoreOp: views.lower_tiled_store,
    tas.LoadOp: pointers.lower_load,
    tas.StoreOp: pointers.lower_store,
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
    "fma_dot": (tas.FmaDotOp,),
    "mma_dot": (tas.MmaDotOp, tas.MmaScaledDotOp),
    "multimem": (aa.MultimemLoadOp, aa.MultimemStoreOp, aa.MultimemReduceOp),
    "packing": (aa.PackOp, aa.UnpackOp),
    "printing": (aa.PrintOp,),
    "rearrange": (aa.ExtractOp, aa.InsertOp, aa.CatOp),
    "reduce": (aa.ReduceOp,),
    "scan": (aa.ScanOp,),
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
