"""Tiles that the CTAs of a cluster show each other.

CTAs run one after another, by rank: one can read what those before it have shown. Who would read a
tile of a later one would wait for it here for ever, which is an error; so is what is read before it
is shown, or after its owner may have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array
from tileiras.interpreter.state import BlockRun


@dataclass
class Exchange:
    """One exchange of a CTA: what all have shown so far, by rank, and how far this one is."""

    shown: dict[tuple[Operation, int], list[Array]]
    source: Operation
    has_ended: bool = False


def share(run: BlockRun, op: aa.ShareTilesOp) -> list[Any]:
    """Keeps copies of the tiles for the CTAs that come later."""
    key = (op, run.cluster_rank)
    if key in run.shown:
        raise InterpreterError("a CTA shows tiles twice", op)
    run.shown[key] = [tile.copy() for tile in run.values(op.tiles)]
    return [Exchange(run.shown, op)]


def read(run: BlockRun, op: aa.ReadSharedOp) -> list[Any]:
    """A tile of a CTA that has shown it."""
    exchange: Exchange = run.value(op.exchange)
    if exchange.has_ended:
        raise InterpreterError("a tile is read after the end of the exchange", op)
    tiles = exchange.shown.get((exchange.source, op.rank.data))
    if tiles is None:
        raise InterpreterError(f"CTA {op.rank.data} has not shown its tiles", op)
    return [tiles[op.number.data]]


def end(run: BlockRun, op: aa.EndExchangeOp) -> list[Any]:
    """From here on this CTA reads nothing."""
    exchange: Exchange = run.value(op.exchange)
    if exchange.has_ended:
        raise InterpreterError("an exchange ends twice", op)
    exchange.has_ended = True
    return []


def leave(run: BlockRun, op: aa.LeaveExchangeOp) -> list[Any]:
    """Who has not said that it reads no more would wait for itself."""
    exchange: Exchange = run.value(op.exchange)
    if not exchange.has_ended:
        raise InterpreterError("an exchange is left before its end", op)
    return []
