"""How pipelined loads are placed: the threads copy what they will read themselves.

Or, if products read the copies, everything coalesced: what is read where the stage's layout says.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.assigned import SMEM_LAYOUT
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, encoded
from tileiras.dialects.nv_tileas.memdesc import MemDescType, SharedLinearAttr, ThreadCellsAttr
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer, MaterializeRule
from tileiras.planning.layouts.written import access_of


def _place_buffer(materializer: Materializer, op: aa.CircularBufferOp) -> Sequence[SSAValue]:
    """Shared memory for its tiles, which lie there as those want it who read them."""
    uses = (use.operation for use in op.result.uses)
    read = next((user for user in uses if isinstance(user, aa.ReadStageOp)), None)
    if read is None:
        raise InternalError("a circular buffer that nobody reads")
    layout, encoding = read.attributes.get(SMEM_LAYOUT), SharedLinearAttr
    if not isinstance(layout, LayoutEncodingAttr):
        access = access_of(read, shape_of(read.result), materializer.num_warps)
        layout, encoding = access.layout, ThreadCellsAttr
    element = view_type_of(read.view).memref.element_type
    type = MemDescType(layout.data.shape, element, encoding.new([layout]))
    properties = {name: op.properties[name] for name in ("stages", "ctas") if name in op.properties}
    return materializer.emit(tas.AllocTensorOp, (), [type], properties).results


def _place_meeting(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """As it is."""
    return materializer.emit(type(op), (), (), op.properties).results


def _place_start(materializer: Materializer, op: aa.AsyncCopyOp) -> Sequence[SSAValue]:
    """The copy, in the layout in which the tile will be read."""
    access = access_of(op, view_type_of(op.view).tile_shape, materializer.num_warps)
    properties = dict(op.properties) | {
        "vector": access.vector,
        "axis": access.axis,
        "layout": access.layout,
    }
    operands = [materializer.plain(operand) for operand in op.operands]
    materializer.emit(tas.AsyncCopyOp, operands, (), properties)
    return []


def _place_finish(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """The tile as it was copied, then converted."""
    if not isinstance(op, aa.ReadStageOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of read_stage got another operation")
    access = access_of(op, shape_of(op.result), materializer.num_warps)
    properties = dict(op.properties) | {"vector": access.vector, "axis": access.axis}
    operands = [materializer.plain(operand) for operand in op.operands]
    types = [encoded(op.result.type.element_type, access.layout.data), op.result_token.type]
    built = materializer.emit(tas.ReadStageOp, operands, types, properties)
    return [materializer.settle(op.result, built.results[0]), built.results[1]]


ASYNC_COPY_RULES: dict[type[Operation], MaterializeRule] = {
    aa.CircularBufferOp: _place_buffer,
    aa.AsyncCommitGroupOp: _place_meeting,
    aa.AsyncWaitGroupOp: _place_meeting,
    aa.AsyncCopyOp: _place_start,
    aa.ReadStageOp: _place_finish,
}
