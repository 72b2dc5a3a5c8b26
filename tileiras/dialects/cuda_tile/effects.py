"""Which operations have no effects: what passes may remove, merge or move rests on this.

An operation says it by its traits, in its class: `Pure` has no effect and may run anywhere,
`NoMemoryEffect` has none but is undefined for some operands, so that it must not be moved to where
it did not run. All others touch memory, order memory, print, or end a block.
"""

from xdsl.ir import Operation
from xdsl.traits import ConditionallySpeculatable, NoMemoryEffect

_NO_EFFECT: dict[type[Operation], bool] = {}
_OWN_TERMINATOR = {"cuda_tile.if": "cuda_tile.yield", "cuda_tile.for": "cuda_tile.continue"}
"""Structured operations, and how their regions must end for them to be without effect."""


def is_pure(op: Operation) -> bool:
    """Whether the operation has no effect, nested operations included.

    It can be removed if unused, and replaced by an equal one that dominates it. A `loop` counts as
    an effect: it may not end.
    """
    kind = type(op)
    known = _NO_EFFECT.get(kind)
    if known is None:
        known = _NO_EFFECT[kind] = op.has_trait(NoMemoryEffect)
    if known:
        return True
    terminator = _OWN_TERMINATOR.get(op.name)
    return terminator is not None and all(
        inner.name == terminator if inner.next_op is None else is_pure(inner)
        for region in op.regions
        for block in region.blocks
        for inner in block.ops
    )


def is_speculatable(op: Operation) -> bool:
    """Whether the operation may be moved to where it did not run before."""
    trait = op.get_trait(ConditionallySpeculatable)
    return trait is not None and trait.is_speculatable(op)
