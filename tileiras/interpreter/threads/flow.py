"""The control flow of a function: where paths meet again, and which jumps go round a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block

from tileiras.dialects.llvm.control import BrOp, CondBrOp, FuncOp


def successors(block: Block) -> tuple[Block, ...]:
    """The blocks that may come next."""
    match block.last_op:
        case BrOp() as op:
            return (op.target,)
        case CondBrOp() as op:
            return (op.then_block, op.else_block)
        case _:
            return ()


class ControlFlow:
    """Dominators and postdominators of a function's blocks."""

    def __init__(self, func: FuncOp):
        blocks = list(func.body.blocks)
        self._numbers = {block: number for number, block in enumerate(blocks)}
        self._blocks = blocks
        after = {block: successors(block) for block in blocks}
        before: dict[Block, list[Block]] = {block: [] for block in blocks}
        for block in blocks:
            for other in after[block]:
                before[other].append(block)
        self._dominators = self._solve(blocks, before)
        self._postdominators = self._solve(list(reversed(blocks)), after)

    def _solve(
        self, order: list[Block], sources: Mapping[Block, Sequence[Block]]
    ) -> dict[Block, int]:
        """The blocks, as bits, that every way from a block without sources goes through."""
        every = (1 << len(order)) - 1
        found = {block: every if sources[block] else self._bit(block) for block in order}
        changed = True
        while changed:
            changed = False
            for block in order:
                if not sources[block]:
                    continue
                common = every
                for source in sources[block]:
                    common &= found[source]
                common |= self._bit(block)
                changed |= common != found[block]
                found[block] = common
        return found

    def _bit(self, block: Block) -> int:
        return 1 << self._numbers[block]

    def goes_round(self, source: Block, target: Block) -> bool:
        """Whether a jump goes back to the header of a loop that it is in."""
        return bool(self._dominators[source] & self._bit(target))

    def meeting_block(self, block: Block) -> Block | None:
        """The first block that every way from the end of `block` comes to; None if there is none.

        Where the ways end in returns of their own, threads part for good.
        """
        others = self._postdominators[block] & ~self._bit(block)
        nearest, most = None, 0
        for number, other in enumerate(self._blocks):
            if others >> number & 1:
                count = self._postdominators[other].bit_count()
                nearest, most = (other, count) if count > most else (nearest, most)
        return nearest
