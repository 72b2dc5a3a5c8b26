"""Tiles that the CTAs of a cluster send to one of them.

CTAs run one after another, by rank: the reader finds what those before it have sent. Who would wait
for a later one would hang here, which is an error; so is what is read before it was waited for.
Tiles that a CTA keeps are those it has written: reading others is an error as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array
from tileiras.interpreter.state import BlockRun, scalar


@dataclass
class Exchange:
    """An exchange as one CTA sees it: its own tiles, and what all have sent so far, by rank."""

    own: list[Array]
    sent: dict[tuple[Operation, int], list[Array]]
    source: aa.ShareTilesOp
    is_here: bool = False

    def rank(self, run: BlockRun, member: int) -> int:
        """The rank in the cluster of a member of this CTA's group."""
        members = self.source.members
        return run.cluster_rank // members * members + member

    def is_reader(self, run: BlockRun) -> bool:
        """Whether this CTA gets the tiles."""
        return run.cluster_rank == self.rank(run, self.source.reader.data)


def share(run: BlockRun, op: aa.ShareTilesOp) -> list[Any]:
    """The tiles as they are now; those of the reader are where they belong."""
    exchange = Exchange([tile.copy() for tile in run.values(op.tiles)], run.sent, op)
    if exchange.is_reader(run):
        _arrive(run, exchange, op)
    return [exchange]


def send(run: BlockRun, op: aa.SendSharedOp) -> list[Any]:
    """Keeps the tiles for the reader."""
    exchange: Exchange = run.value(op.exchange)
    if exchange.is_reader(run):
        raise InterpreterError("the reader sends tiles to itself", op)
    _arrive(run, exchange, op)
    return []


def _arrive(run: BlockRun, exchange: Exchange, op: Operation) -> None:
    """The tiles of one CTA are with the reader."""
    key = (exchange.source, run.cluster_rank)
    if key in run.sent:
        raise InterpreterError("a CTA sends tiles twice", op)
    run.sent[key] = exchange.own


def await_all(run: BlockRun, op: aa.AwaitSharedOp) -> list[Any]:
    """The reader goes on if all CTAs have sent their tiles."""
    exchange: Exchange = run.value(op.exchange)
    _check_reader(run, exchange, op)
    for member in range(exchange.source.members):
        rank = exchange.rank(run, member)
        if (exchange.source, rank) not in exchange.sent:
            raise InterpreterError(f"the tiles of CTA {rank} never arrive", op)
    exchange.is_here = True
    return []


def read(run: BlockRun, op: aa.ReadSharedOp) -> list[Any]:
    """A tile of a CTA, once it is there."""
    exchange: Exchange = run.value(op.exchange)
    _check_reader(run, exchange, op)
    if not exchange.is_here:
        raise InterpreterError("a tile is read before it has arrived", op)
    rank = exchange.rank(run, op.rank.data)
    return [exchange.sent[exchange.source, rank][op.number.data]]


def _check_reader(run: BlockRun, exchange: Exchange, op: Operation) -> None:
    """Only one CTA gets the tiles."""
    if not exchange.is_reader(run):
        raise InterpreterError(f"CTA {run.cluster_rank} gets no tiles", op)


def keep(run: BlockRun, op: aa.KeepTilesOp) -> list[Any]:
    """Memory in which nothing has been written yet."""
    kept: dict[int, Array] = {}
    return [kept]


def write_kept(run: BlockRun, op: aa.WriteKeptOp) -> list[Any]:
    """Keeps a tile."""
    number, kept = _kept_number(run, op)
    kept[number] = run.value(op.value).copy()
    return []


def read_kept(run: BlockRun, op: aa.ReadKeptOp) -> list[Any]:
    """The tile that was written last."""
    number, kept = _kept_number(run, op)
    if number not in kept:
        raise InterpreterError(f"tile {number} is read before it is written", op)
    return [kept[number]]


def _kept_number(run: BlockRun, op: aa.WriteKeptOp | aa.ReadKeptOp) -> tuple[int, dict[int, Array]]:
    """The number of a tile, and all that are kept."""
    number, made = scalar(run.value(op.index)), op.tiles.owner
    if isinstance(made, aa.KeepTilesOp) and not 0 <= number < made.count.data:
        raise InterpreterError(f"there is no tile {number}", op)
    return number, run.value(op.tiles)
