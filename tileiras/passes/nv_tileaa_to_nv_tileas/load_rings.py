"""How loads that are started early are placed: the threads copy what they will read themselves.

Or, if products read the copies, everything coalesced: what is read where the slot's layout says.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, encoded
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.placer import Placer, PlaceRule
from tileiras.planning.access import AccessPlan, plan_view_access
from tileiras.planning.operands.smem import slot_layout


def _finishing(op: aa.StartLoadOp) -> aa.FinishLoadOp:
    """The operation that reads what this one loads."""
    for use in op.ring.uses:
        if isinstance(use.operation, aa.FinishLoadOp):
            return use.operation
    raise InternalError("a load is started and never finished")


def _access(placer: Placer, op: aa.FinishLoadOp) -> tuple[AccessPlan, LinearLayout]:
    """In the layout of the result's class if that reads as well, else coalesced.

    What several loops read, threads must find where they have copied it: coalesced in all.
    """
    access = plan_view_access(op.view, placer.plan.num_warps)
    if sum(isinstance(use.operation, aa.FinishLoadOp) for use in op.ring.uses) > 1:
        return access, access.layout
    wanted = access.towards(placer.layout(op.result), storage_bits(element_of(op.result)))
    # A slot has room for each element once; copies in more threads would take more of it.
    if wanted.layout.in_size("register") > access.layout.in_size("register"):
        return access, access.layout
    return wanted, wanted.layout


def _slot(
    placer: Placer, ring: SSAValue, op: aa.FinishLoadOp
) -> tuple[AccessPlan, LinearLayout, dict[str, Attribute]]:
    """How a tile is copied, and where it lies if all threads read it."""
    owner = ring.owner
    if not isinstance(owner, aa.LoadRingOp) or owner.shared is None:
        return (*_access(placer, op), {})
    access, shared = plan_view_access(op.view, placer.plan.num_warps), slot_layout(op, placer.plan)
    if shared is None:
        raise InternalError("a slot that all threads read, of a tile that no product wants so")
    return access, access.layout, {"shared": LayoutEncodingAttr(shared)}


def _place_ring(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """As it is."""
    types = [result.type for result in op.results]
    return placer.emit(type(op), (), types, op.properties).results


def _place_start(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The copy, in the layout in which the tile will be read."""
    if not isinstance(op, aa.StartLoadOp):
        raise InternalError("the rule of start_load got another operation")
    access, layout, shared = _slot(placer, op.ring, _finishing(op))
    properties = dict(op.properties) | {
        "vector": IntAttr(access.vector),
        "axis": IntAttr(access.axis),
        "layout": LayoutEncodingAttr(layout),
        **shared,
    }
    operands = [placer.plain(operand) for operand in op.operands]
    placer.emit(tas.StartLoadOp, operands, (), properties)
    return []


def _place_finish(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The tile as it was copied, then converted."""
    if not isinstance(op, aa.FinishLoadOp) or not isinstance(op.result.type, TensorType):
        raise InternalError("the rule of finish_load got another operation")
    access, layout, shared = _slot(placer, op.ring, op)
    properties = dict(op.properties) | {
        "vector": IntAttr(access.vector),
        "axis": IntAttr(access.axis),
        **shared,
    }
    operands = [placer.plain(operand) for operand in op.operands]
    types = [encoded(op.result.type.element_type, layout), op.result_token.type]
    built = placer.emit(tas.FinishLoadOp, operands, types, properties)
    return [placer.settle(op.result, built.results[0]), built.results[1]]


LOAD_RING_RULES: dict[type[Operation], PlaceRule] = {
    aa.LoadRingOp: _place_ring,
    aa.CommitLoadsOp: _place_ring,
    aa.WaitLoadsOp: _place_ring,
    aa.StartLoadOp: _place_start,
    aa.FinishLoadOp: _place_finish,
}
