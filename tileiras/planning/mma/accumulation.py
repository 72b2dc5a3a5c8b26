"""Which products may stay unfinished while the next ones are issued."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.model.dots import PlannedDot


def is_running(group: Sequence[PlannedDot]) -> bool:
    """Whether products that share stages may stay unfinished over the end of an iteration.

    One that reads registers must be finished before they are written again, and one that is summed
    up by itself before it is added.
    """
    return all(running_position(planned) is not None for planned in group)


def running_position(planned: PlannedDot) -> int | None:
    """The carried value that the product only adds to: read by nothing else in the loop.

    None where the next iteration writes what the product reads.
    """
    if not planned.is_asynchronous:
        return None
    dot = planned.dot
    loop = dot.parent_op()
    if not isinstance(loop, aa.ForOp) or planned.lhs is None or planned.is_two_level:
        return None
    if planned.is_smem_transposed and not planned.transposes_words:
        return None
    arguments = loop.body.block.args[1:]
    uses = list(dot.result.uses)
    for position, argument in enumerate(arguments):
        if dot.acc is not argument or len(list(argument.uses)) != 1 or len(uses) != 1:
            continue
        use = uses[0]
        is_carried = isinstance(use.operation, aa.ContinueOp) and use.index == position
        if is_carried and use.operation.parent_op() is loop:
            return position
    return None
