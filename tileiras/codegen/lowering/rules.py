"""Which function lowers which operation of the nv_tileas stage."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation

from tileiras.codegen.lowering import control_flow, pointers, tensors, views
from tileiras.codegen.lowering.agents import AGENT_RULES, lower_agent_switch
from tileiras.codegen.lowering.assertions import ASSERTION_RULES
from tileiras.codegen.lowering.atomics import ATOMIC_RULES
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import lower_convert_layout
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.fma_dot import lower_fma_dot
from tileiras.codegen.lowering.load_rings import LOAD_RING_RULES
from tileiras.codegen.lowering.mma_dot import lower_mma_dot
from tileiras.codegen.lowering.multimem import MULTIMEM_RULES
from tileiras.codegen.lowering.packing import PACKING_RULES
from tileiras.codegen.lowering.printing import PRINTING_RULES
from tileiras.codegen.lowering.rearrange import REARRANGE_RULES
from tileiras.codegen.lowering.reduce import REDUCTION_RULES
from tileiras.codegen.lowering.scan import SCAN_RULES
from tileiras.codegen.lowering.variables import VARIABLE_RULES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileas.pipeline import AgentSwitchOp
from tileiras.errors import CompileError

LoweringRule = Callable[[KernelLowering, Operation], None]

_CONTROL_FLOW = {
    aa.IfOp: control_flow.lower_if,
    aa.ForOp: control_flow.lower_for,
    aa.LoopOp: control_flow.lower_loop,
    AgentSwitchOp: lower_agent_switch,
}

RULES: dict[type[Operation], LoweringRule] = {
    **AGENT_RULES,
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
    aa.GetNumProgramsOp: tensors.lower_num_programs,
    aa.MakeMemRefOp: tensors.lower_nothing,
    aa.BlockTileOp: tensors.lower_nothing,
    aa.CreateMemTokenOp: tensors.lower_nothing,
    aa.JoinMemTokensOp: tensors.lower_nothing,
    tas.BarrierOp: tensors.lower_barrier,
    tas.ConvertLayoutOp: lower_convert_layout,
    tas.TiledLoadOp: views.lower_tiled_load,
    tas.TiledStoreOp: views.lower_tiled_store,
    tas.LoadOp: pointers.lower_load,
    tas.StoreOp: pointers.lower_store,
    tas.MmaDotOp: lower_mma_dot,
    tas.FmaDotOp: lower_fma_dot,
    **LOAD_RING_RULES,
    **REDUCTION_RULES,
    **SCAN_RULES,
    **REARRANGE_RULES,
    **PACKING_RULES,
    **ATOMIC_RULES,
    **VARIABLE_RULES,
    **MULTIMEM_RULES,
    **PRINTING_RULES,
    **ASSERTION_RULES,
}


def lower_block(ctx: KernelLowering, block: Block) -> None:
    """Lowers the operations of a block at the current place."""
    for op in block.ops:
        ctx.op = op
        ctx.b.location = op.location
        if isinstance(op, ElementwiseOp):
            operands = [ctx.value(operand) for operand in op.operands]
            result = lower_elementwise(ctx.b, op, operands, ctx.target)
            ctx.values[op.results[0]] = result
        elif (structured := _CONTROL_FLOW.get(type(op))) is not None:
            structured(ctx, op, lower_block)
        elif (rule := RULES.get(type(op))) is not None:
            rule(ctx, op)
        else:
            name = op.name.partition(".")[2]
            raise CompileError(f"'{name}' op is not supported yet", place_of(op))
