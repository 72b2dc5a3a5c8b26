"""Ordered sequences: groups of threads pass a place one after the other (OrderedSequenceBarrier).

There are `depth` places, each with an order of its own. Group g waits until group g - 1 has passed
the place, group 0 passes at once the first time. Each has a consumer's state of as many stages,
which it advances when it has arrived: the next place.
"""

from __future__ import annotations

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor
from tileiras.dialects.cutlass.rows import check_storage, effect
from tileiras.dialects.cutlass.values import PipelineState, SequenceBarrier


def _make(written: SequenceBarrier, storage: Tensor) -> SequenceBarrier:
    check_storage(storage, written.barriers)
    return written


def _passes(sequence: SequenceBarrier, group: Leaf, state: PipelineState) -> None:
    """AlgebraError for a group that is none, or a state of another depth."""
    if isinstance(group, int) and not 0 <= group < sequence.length:
        raise AlgebraError(f"there is no group {group} among {sequence.length}")
    if (state.stages, state.role) != (sequence.depth, "consumer"):
        raise AlgebraError(
            f"expected a consumer's state of {sequence.depth} stages, found '{state}'"
        )


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "make_sequence_barrier",
        "tensor -> sequence",
        _make,
        "A sequence; one thread makes its barriers: `b_(d,g) := n arrivals`.",
        given=True,
    ),
    effect(
        "sequence_wait",
        "sequence, int, state",
        _passes,
        "Waits until it is the group's turn: `b_(d,g)` of stage d.",
    ),
    effect(
        "sequence_arrive",
        "sequence, int, state",
        _passes,
        "Lets the next group pass: `b_(d,g + 1) := b_(d,g + 1) + 1`, group 0 after the last.",
    ),
)
"""The operations of this chapter."""
