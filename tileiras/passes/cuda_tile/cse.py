"""Common subexpression elimination, in one walk over the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.cuda_tile import (
    LoadPtrTkoOp,
    LoadViewTkoOp,
    MmaFOp,
    MmaFScaledOp,
    MmaIOp,
    ReduceOp,
    ScanOp,
)
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.cuda_tile.effects import is_pure
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import replace_op

LARGEST_RESIDENT_BYTES = 32 << 10
"""Policy: a loaded tile of more is loaded again: kept, it would take more than half of the
registers of 128 threads, or an eighth of all.
"""
_PRODUCTS = (MmaFOp, MmaFScaledOp, MmaIOp)

Key = tuple[object, ...]


@dataclass
class _Scope:
    """The expressions of a block, and those that are known around it."""

    parent: _Scope | None = None
    known: dict[Key, Operation] = field(default_factory=dict[Key, Operation])

    def find(self, key: Key) -> Operation | None:
        """The operation with this key that dominates the place."""
        scope: _Scope | None = self
        while scope is not None:
            op = scope.known.get(key)
            if op is not None:
                return op
            scope = scope.parent
        return None


@dataclass(frozen=True)
class CsePass(IrPass):
    """Computes equal expressions once.

    Before   %a = muli %x, %y;  %b = muli %x, %y;  %c = addi %a, %b
    After    %a = muli %x, %y;  %c = addi %a, %a
    Requires nothing.
    Leaves   operations with effects or regions alone, and equal expressions in sibling regions. Of
             loads, weak ones behind the same token are equal: nothing orders a write between them.
             They stay in kernels with products, whose operands share shared memory, not registers.
    """

    name = "cse"
    title = "CSE"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        eliminate_common_subexpressions(op)


def eliminate_common_subexpressions(root: Operation) -> None:
    """Replaces every pure operation by an equal one that dominates it."""
    merges_loads = not any(isinstance(op, _PRODUCTS) for op in root.walk())
    pending = [(block, _Scope()) for region in root.regions for block in region.blocks]
    while pending:
        block, scope = pending.pop()
        pending.extend(_visit_block(block, scope, merges_loads))


def _visit_block(block: Block, scope: _Scope, merges_loads: bool) -> list[tuple[Block, _Scope]]:
    """Merges the operations of a block; returns the blocks that are nested in it.

    Nested blocks come later, when all of this block is known: only what stands before the operation
    dominates them, so each gets the scope as it was there. The scalar body of a reduction gets
    none: it stays closed, computing from its arguments and its own constants.
    """
    nested: list[tuple[Block, _Scope]] = []
    for op in list(block.ops):
        if op.regions:
            around = None if isinstance(op, ReduceOp | ScanOp) else scope
            nested.extend(
                (inner, _Scope(around)) for region in op.regions for inner in region.blocks
            )
            scope = _Scope(scope)
            continue
        if not op.results or not (is_pure(op) or (merges_loads and _is_repeatable_load(op))):
            continue
        key = _key(op)
        known = scope.find(key)
        if known is None:
            scope.known[key] = op
            continue
        replace_op(op, known.results)
    return nested


def _is_repeatable_load(op: Operation) -> bool:
    """Whether an equal load before this one may stand for it, and its tile is worth keeping."""
    if not isinstance(op, LoadPtrTkoOp | LoadViewTkoOp):
        return False
    tile = op.results[0].type
    if op.memory_ordering_semantics.data != MemoryOrdering.WEAK or not isinstance(tile, TileType):
        return False
    return prod(tile.shape) * storage_bytes(tile.element_type) <= LARGEST_RESIDENT_BYTES


def _key(op: Operation) -> Key:
    operands: tuple[SSAValue, ...] = tuple(op.operands)
    properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
    return (type(op), operands, properties, tuple(result.type for result in op.results))
