"""What consumers do not need any more, since others load the tiles of products."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.nesting import enclosing, op_block


def erase_unused(body: Block) -> None:
    """Erases what nobody reads: pointers and masks of tiles that pipelines bring, and their loads.

    LLVM would erase most of it, but no shuffles, and only after it has been lowered and printed.
    """
    for op in reversed(list(body.ops)):
        for region in op.regions:
            for block in region.blocks:
                erase_unused(block)
        if isinstance(op, aa.ForOp):
            _hand_on_less(op)
        elif _has_no_effect(op) and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()


def _has_no_effect(op: Operation) -> bool:
    """Whether only the results of an operation count."""
    if isinstance(op, tas.LoadOp | tas.TiledLoadOp):
        return op.ordering.data == MemoryOrdering.WEAK
    return bool(op.results) and not op.regions and op.has_trait(Pure)


def _hand_on_less(loop: aa.ForOp) -> None:
    """Takes away what no iteration reads of what is handed on to it."""
    source = loop.body.block
    unread = [
        number
        for number, (argument, result) in enumerate(zip(source.args[1:], loop.results, strict=True))
        if not argument.first_use and not result.first_use
    ]
    if not unread:
        return
    bounds = [loop.lower_bound, loop.upper_bound, loop.step]
    kept = [number for number in range(len(loop.results)) if number not in unread]
    for op in list(loop.walk()):
        if isinstance(op, aa.ContinueOp) and enclosing(op, aa.ForOp, aa.LoopOp) is loop:
            op.operands = [op.operands[number] for number in kept]
    for number in reversed(unread):
        source.erase_arg(source.args[1 + number])
    made = aa.ForOp.create(
        operands=[*bounds, *(loop.init_values[number] for number in kept)],
        result_types=[loop.results[number].type for number in kept],
        properties=dict(loop.properties),
        attributes=dict(loop.attributes),
        regions=[loop.detach_region(loop.body)],
        location=loop.location,
    )
    op_block(loop).insert_op_before(made, loop)
    for number, result in zip(kept, made.results, strict=True):
        loop.results[number].replace_all_uses_with(result)
    loop.detach()
    loop.erase()
    erase_unused(source)
