"""What consumers do not need any more, since others load the tiles of products."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering


def erase_unused(body: Block) -> None:
    """Erases what nobody reads: pointers and masks of tiles that pipelines bring, and their loads.

    LLVM would erase most of it, but no shuffles, and only after it has been lowered and printed.
    """
    for op in reversed(list(body.walk())):
        if _has_no_effect(op) and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()


def _has_no_effect(op: Operation) -> bool:
    """Whether only the results of an operation count."""
    if isinstance(op, tas.LoadOp | tas.TiledLoadOp):
        return op.ordering.data == MemoryOrdering.WEAK
    return bool(op.results) and not op.regions and op.has_trait(Pure)
