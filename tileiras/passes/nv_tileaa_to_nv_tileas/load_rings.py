"""How loads that are started early are placed: the threads copy what they will read themselves.

Or, if products read the copies, everything coalesced: what is read where the slot's layout says.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.assigned import SMEM_LAYOUT
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.placer import Placer, PlaceRule
from tileiras.planning.layouts.written import access_of


def _in_shared_memory(op: Operation) -> dict[str, Attribute]:
    """Where the elements of a tile lie, if all threads read it."""
    layout = op.attributes.get(SMEM_LAYOUT)
    return {} if layout is None else {"shared": layout}


def _place_ring(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """As it is."""
    types = [result.type for result in op.results]
    return placer.emit(type(op), (), types, op.properties).results


def _place_start(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The copy, in the layout in which the tile will be read."""
    if not isinstance(op, aa.StartLoadOp):
        raise InternalError("the rule of start_load got another operation")
    access = access_of(op, view_type_of(op.view).tile_shape, placer.num_warps)
    properties = dict(op.properties) | {
        "vector": access.vector,
        "axis": access.axis,
        "layout": access.layout,
        **_in_shared_memory(op),
    }
    operands = [placer.plain(operand) for operand in op.operands]
    placer.emit(tas.StartLoadOp, operands, (), properties)
    return []


def _place_finish(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The tile as it was copied, then converted."""
    if not isinstance(op, aa.FinishLoadOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of finish_load got another operation")
    access = access_of(op, shape_of(op.result), placer.num_warps)
    properties = dict(op.properties) | {
        "vector": access.vector,
        "axis": access.axis,
        **_in_shared_memory(op),
    }
    operands = [placer.plain(operand) for operand in op.operands]
    types = [encoded(op.result.type.element_type, access.layout.data), op.result_token.type]
    built = placer.emit(tas.FinishLoadOp, operands, types, properties)
    return [placer.settle(op.result, built.results[0]), built.results[1]]


LOAD_RING_RULES: dict[type[Operation], PlaceRule] = {
    aa.LoadRingOp: _place_ring,
    aa.CommitLoadsOp: _place_ring,
    aa.WaitLoadsOp: _place_ring,
    aa.StartLoadOp: _place_start,
    aa.FinishLoadOp: _place_finish,
}
