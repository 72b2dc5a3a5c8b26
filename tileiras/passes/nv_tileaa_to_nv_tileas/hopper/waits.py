"""Waits for products, as late as they may be: before the first operation that needs one finished.

A product is issued without waiting. Needing it are: what reads its result, except a product that
goes on accumulating into it; what writes the registers that its left operand is read from, which
the next iteration's operand shares with it; and the end of the block. Products finish in the order
in which they were issued, so a wait leaves those unfinished that were issued later. The slots
that a product reads are handed back after its wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg

Slots = Mapping[Operation, SSAValue | None]
"""The products to wait for, the last one of a slot with the pipeline that the slot goes back to."""


def insert_waits(block: Block, slots: Slots) -> None:
    """Waits for the products of a block, and of all blocks in it."""
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                insert_waits(inner, slots)
    _BlockWaits(block, slots).run()


class _BlockWaits:
    """The walk over one block; `issued` are its products in order.

    `running` are the unfinished ones, each with the products before it that went into its sum.
    """

    def __init__(self, block: Block, slots: Slots):
        self.block = block
        self.slots = slots
        self.issued: list[wg.WgmmaDotOp] = []
        self.running: dict[wg.WgmmaDotOp, list[wg.WgmmaDotOp]] = {}

    def run(self) -> None:
        """Inserts the waits of the block."""
        for op in list(self.block.ops):
            before: list[wg.WgmmaDotOp] = []
            for product in list(self.running):
                if _goes_on_with(op, product):
                    before = self.running.pop(product)
                elif op.has_trait(IsTerminator) or self._needs(op, product):
                    self._wait(product, op)
            if isinstance(op, wg.WgmmaDotOp):
                self.issued.append(op)
                if op in self.slots:
                    self.running[op] = [*before, op]

    def _needs(self, op: Operation, product: wg.WgmmaDotOp) -> bool:
        """Whether the operation must not run before the product is finished."""
        if any(_is_within(use.operation, op) for use in product.result.uses):
            return True
        return any(op is self._overwriter(summand) for summand in self.running[product])

    def _overwriter(self, product: wg.WgmmaDotOp) -> Operation | None:
        """What computes the value that takes the left operand's registers in the next iteration."""
        lhs = _unconverted(product.lhs)
        last = self.block.last_op
        if not isinstance(lhs, BlockArgument) or not isinstance(last, aa.ContinueOp):
            return None
        loop = self.block.parent_op()
        index = lhs.index - (1 if isinstance(loop, aa.ForOp) else 0)
        if lhs.owner is not self.block or index < 0:
            return None
        following = _unconverted(last.operands[index])
        return following.op if isinstance(following, OpResult) else None

    def _wait(self, product: wg.WgmmaDotOp, before: Operation) -> None:
        """Waits for a product in front of an operation, then hands its slots back."""
        summands = self.running.pop(product)
        later = len(self.issued) - 1 - self.issued.index(product)
        kept = {
            summand.lhs: None
            for summand in summands
            if not isinstance(summand.lhs.type, pl.SharedTileType)
        }
        wait = wg.DotWaitOp.create(
            operands=[product.result, *kept],
            result_types=[product.result.type],
            properties={"pending": IntAttr(later)},
            location=product.location,
        )
        product.result.replace_all_uses_with(wait.result)
        wait.operands[0] = product.result
        releases = [
            pl.ConsumerReleaseOp.create(
                operands=[pipeline],
                properties={"keep": IntAttr(0)},
                location=product.location,
            )
            for pipeline in dict.fromkeys(self.slots[summand] for summand in summands)
            if pipeline is not None
        ]
        self.block.insert_ops_before([wait, *releases], before)


def _goes_on_with(op: Operation, product: wg.WgmmaDotOp) -> bool:
    """Whether the operation is a product into the same registers, and the sum so far is not read.

    It needs no wait, and the wait for it is one for both.
    """
    return (
        isinstance(op, wg.WgmmaDotOp)
        and op.acc is product.result
        and op.pending is None
        and len(list(product.result.uses)) == 1
    )


def _unconverted(value: SSAValue) -> SSAValue:
    """The value under changes of layout."""
    while isinstance(value, OpResult) and isinstance(value.op, tas.ConvertLayoutOp):
        value = value.op.operands[0]
    return value


def _is_within(op: Operation, outer: Operation) -> bool:
    """Whether an operation is another one or stands in its regions."""
    current: Operation | None = op
    while current is not None and current is not outer:
        current = current.parent_op()
    return current is outer
