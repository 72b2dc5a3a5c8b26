"""Small tiles for threads that come with the operands of products: statistics of rows, say.

    for { %q = load; %t = load;  %s = dot %k, %q;  %p = exp2(%s - %t);  %d = dot %p, %q }

`%t` comes by TMA to the stage of `%q`, and threads read it there when they need it. Loaded to
registers it would have to be on its way before, for a memory's latency: in registers beside sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.planning.layouts.rematerialization import LAZY_OPS
from tileiras.planning.memory_order import follows_write
from tileiras.planning.operands.tma import (
    TMA_ALIGNMENT,
    contiguous_axis,
    is_by_tma,
    is_for_threads,
    tile_bytes,
)
from tileiras.planning.operands.view_copy import MAX_BOX

MOST_BYTES = 1024
"""Policy: of a tile; what a stage gives it anyway, as its tiles start at such multiples."""

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot


def rows_beside(group: Sequence[PlannedDot]) -> tuple[aa.TiledLoadOp, ...]:
    """The loads that come to the stage of some products of one loop.

    All that threads make of them goes into the last of these products, so that the stage is still
    there. Of several products only: the first one is what the threads wait for.
    """
    last = group[-1].dot
    loop, block = last.parent_op(), last.parent_block()
    if len(group) < 2 or not group[-1].is_asynchronous or group[-1].is_in_tmem:
        return ()
    func = enclosing(last, aa.FuncOp)
    if not isinstance(loop, aa.ForOp) or block is None or not isinstance(func, aa.FuncOp):
        return ()
    if func.cluster_size > 1 or func.two_tiles is not None:
        return ()
    made_from = dict.fromkeys(_makers(last, block))
    return tuple(
        load
        for load in block.ops
        if isinstance(load, aa.TiledLoadOp) and _is_small(load) and _goes_into(load, made_from)
    )


def _is_small(load: aa.TiledLoadOp) -> bool:
    """Whether a tile is one box of TMA for threads."""
    if not isinstance(load.result.type, TensorType) or not is_for_threads(load):
        return False
    size, shape = tile_bytes(load), load.result.type.get_shape()
    axis = contiguous_axis(load)
    if size > MOST_BYTES or axis is None or not is_by_tma(load) or follows_write(load):
        return False
    row = size // prod(shape) * shape[axis]
    return not row % TMA_ALIGNMENT and max(shape) <= MAX_BOX


def _makers(op: Operation, block: Block) -> Iterator[Operation]:
    """The operations of a block that an operation's operands come from, in the same iteration."""
    seen: dict[Operation, None] = {}
    pending = [op]
    while pending:
        for inner in pending.pop().walk():
            for operand in inner.operands:
                maker = _in_block(operand.owner, block)
                if maker is not None and maker not in seen:
                    seen[maker] = None
                    pending.append(maker)
                    yield maker


def _in_block(owner: Operation | Block, block: Block) -> Operation | None:
    """The operation of the block that a value's owner is or stands in."""
    op = owner if isinstance(owner, Operation) else None
    while op is not None and op.parent_block() is not block:
        op = op.parent_op()
    return op


def _goes_into(load: aa.TiledLoadOp, makers: dict[Operation, None]) -> bool:
    """Whether all readers of a tile are among some operations, or in them.

    What is made anew wherever it is needed is not a reader: its users are.
    """
    block = load.parent_block()
    return block is not None and all(_in_block(op, block) in makers for op in _readers(load.result))


def _readers(value: SSAValue) -> Iterator[Operation]:
    """What reads a tile, also reshaped or repeated."""
    for use in value.uses:
        if isinstance(use.operation, LAZY_OPS):
            yield from _readers(use.operation.results[0])
        else:
            yield use.operation
