"""Which loads of a loop body may be started in an earlier iteration than their own.

Such a load is weak, goes through a view, its indices follow from the loop's counter and from values
outside of the loop; and no token puts it behind anything in the loop but loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.schedule import is_repeatable


@dataclass(frozen=True)
class PipelinedLoad:
    """A load that may be started early.

    `tokens` come from outside of the loop and are all that it has to follow. What is `shared`, all
    tile blocks load alike.
    """

    op: aa.TiledLoadOp
    tokens: tuple[SSAValue, ...]
    shared: bool


def find_pipelined_loads(loop: aa.ForOp) -> list[PipelinedLoad]:
    """The loads at the top level of the body that may be started early, in the order written.

    Loads of the same elements in every iteration are left out: caches bring them soon enough.
    """
    if not isinstance(loop.lower_bound.type, IntegerType):
        return []
    if not any(isinstance(op, aa.TiledLoadOp) for op in loop.body.block.ops):
        return []
    if any(isinstance(op, aa.ReturnOp | aa.AssertOp) for op in loop.walk()):
        return []
    return _Search(loop).run()


class _Search:
    """One walk over a body; `varies` says of its values whether they change with the counter.

    Values that have to be made in their own iteration are not in it.
    """

    def __init__(self, loop: aa.ForOp):
        self.loop = loop
        self.block = loop.body.block
        self.varies: dict[SSAValue, bool] = {self.block.args[0]: True}
        self.skips = any(isinstance(op, aa.IfOp) and _ends_iteration(op) for op in self.block.ops)

    def run(self) -> list[PipelinedLoad]:
        """All but those behind a branch that may end the iteration: they may be illegal then."""
        found: list[PipelinedLoad] = []
        for op in self.block.ops:
            if isinstance(op, aa.IfOp) and self.skips and _ends_iteration(op):
                break
            if isinstance(op, aa.TiledLoadOp):
                load = self._early(op)
                if load is not None:
                    found.append(load)
            elif is_repeatable(op) and all(self._is_early(value) for value in op.operands):
                varies = any(self.varies.get(value, False) for value in op.operands)
                self.varies.update(dict.fromkeys(op.results, varies))
        return found

    def _is_early(self, value: SSAValue) -> bool:
        return value in self.varies or not self._is_of_body(value)

    def _is_of_body(self, value: SSAValue) -> bool:
        owner = value.owner
        return (owner.parent if isinstance(owner, Operation) else owner) is self.block

    def _early(self, op: aa.TiledLoadOp) -> PipelinedLoad | None:
        address = [op.view, *op.indices]
        if op.ordering.data != MemoryOrdering.WEAK:
            return None
        if any(isinstance(index.type, TensorType) for index in op.indices):
            return None
        if not all(self._is_early(value) for value in address):
            return None
        if not any(self.varies.get(value, False) for value in address):
            return None
        tokens = self._outer_tokens(op.token)
        return None if tokens is None else PipelinedLoad(op, tokens, not _depends_on_block(address))

    def _outer_tokens(self, token: SSAValue | None) -> tuple[SSAValue, ...] | None:
        """The tokens from outside that a load follows; None if it follows more than loads."""
        outer: dict[SSAValue, None] = {}
        seen: dict[SSAValue, None] = {}
        pending = [token] if token is not None else []
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen[value] = None
            if not self._is_of_body(value):
                outer[value] = None
                continue
            before = self._tokens_before(value)
            if before is None:
                return None
            pending += before
        return tuple(outer)

    def _tokens_before(self, value: SSAValue) -> Sequence[SSAValue] | None:
        """The tokens that a token of the body is behind; None if more than loads is."""
        if isinstance(value, BlockArgument):
            last = self.block.last_op
            if self.skips or not value.index or not isinstance(last, aa.ContinueOp):
                return None
            position = value.index - 1
            return [self.loop.init_values[position], last.operands[position]]
        match value.owner:
            case aa.TiledLoadOp() | aa.LoadOp() as load:
                if load.ordering.data != MemoryOrdering.WEAK:
                    return None
                return [] if load.token is None else [load.token]
            case aa.CreateMemTokenOp() | aa.JoinMemTokensOp() as op:
                return op.operands
            case _:
                return None


def _ends_iteration(branch: aa.IfOp) -> bool:
    """Whether what stands behind the branch may be passed over."""
    return any(isinstance(inner, aa.ContinueOp | aa.BreakOp) for inner in branch.walk())


def _depends_on_block(values: Sequence[SSAValue]) -> bool:
    """Whether a value may differ between tile blocks."""
    seen: dict[SSAValue, None] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen[value] = None
        if isinstance(value, OpResult):
            if isinstance(value.op, aa.GetProgramIdOp) or value.op.regions:
                return True
            pending += value.op.operands
        elif isinstance(value, BlockArgument):
            parent = value.owner.parent_op()
            if isinstance(parent, aa.ForOp) and not value.index:
                pending += [parent.lower_bound, parent.step]
            elif not isinstance(parent, aa.FuncOp):
                return True
    return False
