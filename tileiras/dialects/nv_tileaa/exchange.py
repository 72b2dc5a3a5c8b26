"""Tiles that the CTAs of a cluster show each other.

    %shown = share_tiles %a, %b             every CTA its own; goes on when all have done so
    %other = read_shared %shown {number = 0, rank = 3}      the first tile of CTA 3
    end_exchange %shown                     this CTA reads no more
    leave_exchange %shown                   waits until no CTA does

Every CTA of the cluster performs each of them once (`read_shared` aside), in this order, and ends
after the last: its memory is gone then. The tiles are valid until `leave_exchange`.
"""

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.nv_tileaa.control_flow import FuncOp


@irdl_attr_definition
class ExchangeType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.exchange`: tiles of all CTAs of the cluster, in their shared memory."""

    name = "nv_tileaa.exchange"


EXCHANGE = ExchangeType()


def cluster_around(op: Operation) -> int:
    """CTAs of the cluster that performs an operation; 1 outside of functions."""
    parent: Operation | None = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent.cluster_size if parent is not None else 1


@irdl_op_definition
class ShareTilesOp(IRDLOperation):
    """Shows this CTA's tiles to the others of the cluster, and waits until all have done so."""

    name = "nv_tileaa.share_tiles"
    tiles = var_operand_def(TensorType)
    result = result_def(ExchangeType)

    def reads(self, number: int) -> "list[ReadSharedOp]":
        """The operations that read tile `number` of any CTA."""
        users = [use.operation for use in self.result.uses]
        return [u for u in users if isinstance(u, ReadSharedOp) and u.number.data == number]

    def verify_(self) -> None:
        """Tiles, and somebody to see them."""
        if not self.tiles:
            raise VerifyException(f"{self.name}: no tiles")
        if cluster_around(self) == 1:
            raise VerifyException(f"{self.name}: the cluster has one CTA")


@irdl_op_definition
class ReadSharedOp(IRDLOperation):
    """Tile `number` of CTA `rank`, which lies as this CTA's own one does."""

    name = "nv_tileaa.read_shared"
    exchange = operand_def(ExchangeType)
    number = prop_def(IntAttr)
    rank = prop_def(IntAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        """A tile that a CTA of the cluster has shown, in its type."""
        shown = self.exchange.owner
        if not isinstance(shown, ShareTilesOp):
            raise VerifyException(f"{self.name}: expected the result of share_tiles")
        if not 0 <= self.number.data < len(shown.tiles):
            raise VerifyException(f"{self.name}: there is no tile {self.number.data}")
        if not 0 <= self.rank.data < cluster_around(self):
            raise VerifyException(f"{self.name}: there is no CTA {self.rank.data} in the cluster")
        if shown.tiles[self.number.data].type != self.result.type:
            raise VerifyException(f"{self.name}: the tile has another type")


@irdl_op_definition
class EndExchangeOp(IRDLOperation):
    """This CTA has read all that it will read."""

    name = "nv_tileaa.end_exchange"
    exchange = operand_def(ExchangeType)


@irdl_op_definition
class LeaveExchangeOp(IRDLOperation):
    """Waits until all CTAs of the cluster have read what they will read."""

    name = "nv_tileaa.leave_exchange"
    exchange = operand_def(ExchangeType)


EXCHANGE_OPS = (ShareTilesOp, ReadSharedOp, EndExchangeOp, LeaveExchangeOp)
