"""Where the buffers of pipelined loads lie in the shared memory that they have together.

Those of loops that are not nested lie in the same place; not with a buffer that several loops read,
which comes before all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.errors import InternalError

PASS_NAME = "tileas-optimize-alloc-tensor"


def place_buffers(buffers: Sequence[tas.AllocTensorOp]) -> None:
    """Gives the buffers of a function their places, in the order in which they are made."""
    ends: dict[Operation, int] = {}
    kept = 0
    own: list[tuple[tas.AllocTensorOp, Operation]] = []
    for buffer in buffers:
        loops = [read.parent_op() for read in _reads(buffer)]
        if len(loops) > 1:
            buffer.properties["offset"] = IntAttr(kept)
            kept += buffer.bytes
        elif loops and loops[0] is not None:
            own.append((buffer, loops[0]))
        else:
            raise InternalError("a load is finished in no loop", place_of(buffer), PASS_NAME)
    for buffer, loop in own:
        start = ends[loop] if loop in ends else _end_around(loop, ends, kept)
        buffer.properties["offset"] = IntAttr(start)
        ends[loop] = start + buffer.bytes


def _reads(buffer: tas.AllocTensorOp) -> list[tas.ReadStageOp]:
    """The operations that read a buffer."""
    uses = (use.operation for use in buffer.result.uses)
    return [user for user in uses if isinstance(user, tas.ReadStageOp)]


def _end_around(loop: Operation, ends: dict[Operation, int], kept: int) -> int:
    """Where the buffers of the loops around end, or those that loops share."""
    parent = loop.parent_op()
    while parent is not None:
        if parent in ends:
            return ends[parent]
        parent = parent.parent_op()
    return kept
