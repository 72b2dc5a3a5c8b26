"""Tiles that the CTAs of a cluster send to one of them.

    %sent = share_tiles %a, %b {reader = 7}                 every CTA its own, the reader too
    send_shared %sent                                       the others
    await_shared %sent                                      the reader: until all have arrived
    %other = read_shared %sent {number = 0, rank = 3}       the reader: the first tile of CTA 3

Every CTA of the cluster performs `share_tiles` once and goes on when all have reached it: then the
reader is ready to get tiles. All but the reader perform `send_shared` once, and need not stay until
their tiles have arrived. The reader, which may do other things meanwhile, stays until it has
awaited them.

And tiles that a CTA keeps for itself, by number:

    %kept = keep_tiles {count = 16}                         tensor<1x1024xf32>
    write_kept %kept[%i], %tile;  %again = read_kept %kept[%i]

Every thread finds what it has written itself, so nobody waits.
"""

from xdsl.dialects.builtin import IntAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.nv_tileaa.control_flow import FuncOp


@irdl_attr_definition
class ExchangeType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.exchange`: tiles of all CTAs of the cluster, on their way to one of them."""

    name = "nv_tileaa.exchange"


EXCHANGE = ExchangeType()

CELL_BYTES = 16
"""What a thread sends at once."""


def cluster_around(op: Operation) -> int:
    """CTAs of the cluster that performs an operation; 1 outside of functions."""
    parent: Operation | None = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent.cluster_size if parent is not None else 1


@irdl_op_definition
class ShareTilesOp(IRDLOperation):
    """This CTA's tiles, for CTA `reader` of the cluster, which is ready for them from here on.

    With `group` so many CTAs whose ranks follow each other have a reader of their own: ranks are
    those in the group.
    """

    name = "nv_tileaa.share_tiles"
    tiles = var_operand_def(TensorType)
    reader = prop_def(IntAttr)
    group = opt_prop_def(IntAttr)
    result = result_def(ExchangeType)

    @property
    def members(self) -> int:
        """CTAs that have a reader in common."""
        return cluster_around(self) if self.group is None else self.group.data

    def reads(self, number: int) -> "list[ReadSharedOp]":
        """The operations that read tile `number` of any CTA."""
        users = [use.operation for use in self.result.uses]
        return [u for u in users if isinstance(u, ReadSharedOp) and u.number.data == number]

    def verify_(self) -> None:
        """Tiles, and a CTA beside this one."""
        if not self.tiles:
            raise VerifyException(f"{self.name}: no tiles")
        if cluster_around(self) == 1:
            raise VerifyException(f"{self.name}: the cluster has one CTA")
        if self.members < 2 or cluster_around(self) % self.members:
            raise VerifyException(f"{self.name}: a cluster has no groups of {self.members} CTAs")
        _check_rank(self, self.reader.data, self.members)


@irdl_op_definition
class SendSharedOp(IRDLOperation):
    """Sends this CTA's tiles to the reader, which itself does not."""

    name = "nv_tileaa.send_shared"
    exchange = operand_def(ExchangeType)


@irdl_op_definition
class AwaitSharedOp(IRDLOperation):
    """Waits until the tiles of all CTAs are here; only the reader does."""

    name = "nv_tileaa.await_shared"
    exchange = operand_def(ExchangeType)


@irdl_op_definition
class ReadSharedOp(IRDLOperation):
    """Tile `number` of CTA `rank`, as it lies in that CTA; only the reader has it."""

    name = "nv_tileaa.read_shared"
    exchange = operand_def(ExchangeType)
    number = prop_def(IntAttr)
    rank = prop_def(IntAttr)
    result = result_def(TensorType)

    def verify_(self) -> None:
        """A tile that a CTA of the cluster has sent, in its type."""
        sent = self.exchange.owner
        if not isinstance(sent, ShareTilesOp):
            raise VerifyException(f"{self.name}: expected the result of share_tiles")
        if not 0 <= self.number.data < len(sent.tiles):
            raise VerifyException(f"{self.name}: there is no tile {self.number.data}")
        _check_rank(self, self.rank.data, sent.members)
        if sent.tiles[self.number.data].type != self.result.type:
            raise VerifyException(f"{self.name}: the tile has another type")


def _check_rank(op: Operation, rank: int, count: int) -> None:
    """A CTA that there is."""
    if not 0 <= rank < count:
        raise VerifyException(f"{op.name}: there is no CTA {rank} in the cluster")


@irdl_attr_definition
class KeptMemoryType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.kept_memory<tensor>`: memory of a CTA for some tiles of one type."""

    name = "nv_tileaa.kept_memory"
    tile: TensorType = param_def()


@irdl_op_definition
class KeepTilesOp(IRDLOperation):
    """Memory for `count` tiles as long as the kernel runs; nobody knows what is in it."""

    name = "nv_tileaa.keep_tiles"
    count = prop_def(IntAttr)
    result = result_def(KeptMemoryType)

    def accesses(self) -> "list[ReadKeptOp | WriteKeptOp]":
        """The operations that read or write tiles."""
        users = [use.operation for use in self.result.uses]
        return [user for user in users if isinstance(user, ReadKeptOp | WriteKeptOp)]

    def verify_(self) -> None:
        """Tiles, at least one."""
        if self.count.data < 1:
            raise VerifyException(f"{self.name}: no tiles")


@irdl_op_definition
class WriteKeptOp(IRDLOperation):
    """Tile `index` becomes `value`; an index beyond the count is undefined behaviour."""

    name = "nv_tileaa.write_kept"
    tiles = operand_def(KeptMemoryType)
    index = operand_def(i32)
    value = operand_def(TensorType)

    def verify_(self) -> None:
        """A tile of the type that is kept."""
        _check_kept(self, self.tiles.type, self.value.type)


@irdl_op_definition
class ReadKeptOp(IRDLOperation):
    """Tile `index` as it was written last."""

    name = "nv_tileaa.read_kept"
    tiles = operand_def(KeptMemoryType)
    index = operand_def(i32)
    result = result_def(TensorType)

    def verify_(self) -> None:
        """A tile of the type that is kept."""
        _check_kept(self, self.tiles.type, self.result.type)


def _check_kept(op: Operation, kept: Attribute, tile: Attribute) -> None:
    """Tiles have one shape and element type; layouts may have been added since."""
    if not isinstance(kept, KeptMemoryType) or not isinstance(tile, TensorType):
        raise VerifyException(f"{op.name}: expected a tile and the memory for it")
    if (kept.tile.shape, kept.tile.element_type) != (tile.shape, tile.element_type):
        raise VerifyException(f"{op.name}: the tile has another type")


KEPT_OPS = (KeepTilesOp, WriteKeptOp, ReadKeptOp)
EXCHANGE_OPS = (ShareTilesOp, SendSharedOp, AwaitSharedOp, ReadSharedOp)
