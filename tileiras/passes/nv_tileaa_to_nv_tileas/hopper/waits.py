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

Slots = Mapping[Operation, SSAValue]
"""The products to wait for, each with the pipeline that brings what it reads."""


def insert_waits(block: Block, slots: Slots) -> None:
    """Waits for the products of a block, and of all blocks in it."""
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                insert_waits(inner, slots)
    _BlockWaits(block, slots).run()


class _BlockWaits:
    """The walk over one block; `issued` are its products in order, `running` the unfinished."""

    def __init__(self, block: Block, slots: Slots):
        self.block = block
        self.slots = slots
        self.issued: list[pl.WgmmaDotOp] = []
        self.running: dict[pl.WgmmaDotOp, None] = {}

    def run(self) -> None:
        """Inserts the waits of the block."""
        for op in list(self.block.ops):
            for product in list(self.running):
                if op.has_trait(IsTerminator) or self._needs(op, product):
                    self._wait(product, op)
            if isinstance(op, pl.WgmmaDotOp):
                self.issued.append(op)
                if op in self.slots:
                    self.running[op] = None

    def _needs(self, op: Operation, product: pl.WgmmaDotOp) -> bool:
        """Whether the operation must not run before the product is finished."""
        uses = [use for use in product.result.uses if _is_within(use.operation, op)]
        if uses and isinstance(op, pl.WgmmaDotOp):
            # Into the same registers: no wait, as long as nobody else wants the sum so far.
            return op.acc is not product.result or len(list(product.result.uses)) > 1
        return bool(uses) or op is self._overwriter(product)

    def _overwriter(self, product: pl.WgmmaDotOp) -> Operation | None:
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

    def _wait(self, product: pl.WgmmaDotOp, before: Operation) -> None:
        """Waits for a product in front of an operation, then hands its slots back."""
        del self.running[product]
        later = len(self.issued) - 1 - self.issued.index(product)
        in_registers = not isinstance(product.lhs.type, pl.SharedTileType)
        kept = [product.lhs] if in_registers else []
        wait = pl.DotWaitOp.create(
            operands=[product.result, *kept],
            result_types=[product.result.type],
            properties={"pending": IntAttr(later)},
            location=product.location,
        )
        # A sum that another product goes on with is not read: that product's wait is for both.
        if not any(isinstance(use.operation, pl.WgmmaDotOp) for use in product.result.uses):
            product.result.replace_all_uses_with(wait.result)
            wait.operands[0] = product.result
        release = pl.ConsumerReleaseOp.create(
            operands=[self.slots[product]],
            properties={"keep": IntAttr(0)},
            location=product.location,
        )
        self.block.insert_ops_before([wait, release], before)


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
