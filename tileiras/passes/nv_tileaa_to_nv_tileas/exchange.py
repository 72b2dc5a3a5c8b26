"""How tiles that CTAs of a cluster send to one of them are placed: as they will be read."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer, MaterializeRule


def _place_share(materializer: Materializer, op: aa.ShareTilesOp) -> Sequence[SSAValue]:
    """Each tile in the layout in which it is read."""
    return materializer.emit(
        aa.ShareTilesOp, materializer.taken(op), [op.result.type], op.properties
    ).results


def _place_read(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """The tile as it was sent."""
    sent = op.operands[0].owner
    if not isinstance(op, aa.ReadSharedOp) or not isinstance(sent, aa.ShareTilesOp):
        raise InternalError("the rule of read_shared got another operation")
    placed = materializer.plain(op.exchange)
    if not isinstance(placed.owner, aa.ShareTilesOp):
        raise InternalError("an exchange was placed as something else")
    type = placed.owner.tiles[op.number.data].type
    built = materializer.emit(aa.ReadSharedOp, [placed], [type], op.properties).results[0]
    return [materializer.settle(op.result, built)]


def _place_plain(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """As it is."""
    materializer.emit(
        type(op), [materializer.plain(value) for value in op.operands], (), op.properties
    )
    return []


def _place_write_kept(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """The tile in the layout in which it is read again."""
    materializer.emit(aa.WriteKeptOp, materializer.taken(op), (), op.properties)
    return []


def _place_read_kept(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """The tile as it was written."""
    types = [materializer.placed_type(result) for result in op.results]
    operands = [materializer.plain(value) for value in op.operands]
    return materializer.emit(aa.ReadKeptOp, operands, types, op.properties).results


EXCHANGE_RULES: dict[type[Operation], MaterializeRule] = {
    aa.ShareTilesOp: _place_share,
    aa.ReadSharedOp: _place_read,
    aa.SendSharedOp: _place_plain,
    aa.AwaitSharedOp: _place_plain,
    aa.WriteKeptOp: _place_write_kept,
    aa.ReadKeptOp: _place_read_kept,
}
"""Rules of the materializer."""
