"""Which buffers in shared memory are in use at the same time.

A buffer is in use from the first to the last operation of its block that has to do with it: what it
holds does not outlive an iteration if it is made in the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation

from tileiras.dialects.nv_tileaa.control_flow import IfOp


def are_live_together(one: Operation, other: Operation) -> bool:
    """Whether there is a time at which the buffers that two operations make are both in use."""
    above = list(_blocks_around(one))
    block = next(block for block in _blocks_around(other) if block in above)
    places = [block.find_ancestor_op_in_block(op) for op in (one, other)]
    if places[0] is places[1]:
        # In different regions of an operation: those of a branch are not both run.
        return not isinstance(places[0], IfOp)
    (first, last), (start, end) = (_life(op, block) for op in (one, other))
    return first <= end and start <= last


def _blocks_around(op: Operation) -> Iterator[Block]:
    """The blocks that an operation is in, from the inside."""
    block = op.parent_block()
    while block is not None:
        yield block
        block = block.parent_block()


def _life(op: Operation, block: Block) -> tuple[int, int]:
    """The first and last operation of a block that have to do with a buffer, by number."""
    users = [op]
    if op.parent_block() is block:
        users = [use.operation for result in op.results for use in result.uses]
    places = [block.find_ancestor_op_in_block(user) for user in users]
    numbers = [number for number, each in enumerate(block.ops) if each in places]
    return min(numbers, default=0), max(numbers, default=-1)
