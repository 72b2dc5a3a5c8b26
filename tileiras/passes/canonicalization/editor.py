"""The worklist that canonicalization runs on, and the edits that rewrites make through it.

Every operation is visited once, then again only when an operand, a user or an operation near it has
changed, so that the time is linear in the size of the program and the number of rewrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects.cuda_tile import ConstantOp
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.effects import is_pure


class Editor:
    """A worklist of operations, and edits that keep it up to date."""

    def __init__(self, roots: Iterable[Operation]):
        self._stack: list[Operation] = list(roots)
        self._stack.reverse()
        self._queued: set[Operation] = set(self._stack)
        self._erased: set[Operation] = set()

    def next(self) -> Operation | None:
        """The next operation to look at; None when all are done."""
        while self._stack:
            op = self._stack.pop()
            self._queued.discard(op)
            if op not in self._erased:
                return op
        return None

    def revisit(self, op: Operation | None) -> None:
        """Looks at an operation again."""
        if op is not None and op not in self._queued and op not in self._erased:
            self._queued.add(op)
            self._stack.append(op)

    def revisit_users(self, value: SSAValue) -> None:
        """Looks again at all operations that use a value."""
        for use in list(value.uses):
            self.revisit(use.operation)

    def insert_before(self, anchor: Operation, op: Operation) -> Operation:
        """Puts a new operation in front of another, with its location."""
        op.location = anchor.location
        block = anchor.parent
        assert block is not None  # anchors are inside an entry
        block.insert_op_before(op, anchor)
        self.revisit(op)
        return op

    def constant(self, anchor: Operation, value: DenseAttr) -> SSAValue:
        """A new constant in front of an operation."""
        op = ConstantOp.create(result_types=[value.type], properties={"value": value})
        return self.insert_before(anchor, op).results[0]

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Replaces the results of an operation and erases it."""
        for old, new in zip(op.results, values):
            if old is not new:
                self.revisit_users(old)
                old.replace_all_uses_with(new)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Erases an operation without uses, and looks again at what made its operands."""
        makers = [operand.op for operand in op.operands if isinstance(operand, OpResult)]
        parent = op.parent_op()
        for region in op.regions:
            for inner in region.walk():
                makers.extend(
                    operand.op for operand in inner.operands if isinstance(operand, OpResult)
                )
                self._erased.add(inner)
        self._erased.add(op)
        op.detach()
        op.erase(safe_erase=False)
        for maker in makers:
            self.revisit(maker)
        self.revisit(parent)

    def erase_if_dead(self, op: Operation) -> bool:
        """Erases an operation that has no effect and no uses."""
        if not op.results and not op.regions:
            return False
        if any(result.first_use is not None for result in op.results) or not is_pure(op):
            return False
        self.erase(op)
        return True

    def inline_before(
        self, anchor: Operation, region: Region, arguments: Sequence[SSAValue]
    ) -> Operation:
        """Moves the operations of a one-block region in front of another operation.

        Block arguments become `arguments`. Returns the terminator, which is moved too.
        """
        block = region.blocks[0]
        for argument, value in zip(block.args, arguments):
            self.revisit_users(argument)
            argument.replace_all_uses_with(value)
        target = anchor.parent
        assert target is not None  # anchors are inside an entry
        moved = list(block.ops)
        for op in moved:
            op.detach()
            target.insert_op_before(op, anchor)
            self.revisit(op)
        return moved[-1]

    def erase_after(self, op: Operation) -> None:
        """Erases all operations that follow another in its block."""
        block = op.parent
        assert isinstance(block, Block)  # operations to fold are inside an entry
        following = []
        current = op.next_op
        while current is not None:
            following.append(current)
            current = current.next_op
        for dead in reversed(following):
            self.erase(dead)
