"""Loops that take the same lock in every iteration, and how many iterations may have it together.

    for %i { P(%i); loop { atomic_cas %lock .. acquire }; S(%i); atomic_rmw xchg %lock .. release }

An iteration is work before the lock is taken (P), and a critical section (S). That a tile block
takes the lock right after it has given it back is one of the ways in which things can happen; then
nobody notices if it keeps the lock meanwhile, as long as it waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.critical_sections import (
    Section,
    constant_scalar,
    gives_back,
    reads_lock,
    taken_lock,
)

MOST_ITERATIONS = 4
"""Policy: iterations that have the lock together."""
MOST_WORDS = 32768
"""Policy: registers of a tile block for the tiles that so many iterations load."""
TILED = (aa.TiledLoadOp, aa.TiledStoreOp)
_DONE = (aa.JoinMemTokensOp, aa.CreateMemTokenOp)


@dataclass(frozen=True)
class LockedLoop:
    """A loop over critical sections: what an iteration does before it takes the lock, and then.

    `together`: the iterations that may have the lock together. `free_loads`: loads of the section
    that need not wait for what earlier ones of these iterations write.
    """

    loop: aa.ForOp
    before: tuple[Operation, ...]
    section: Section
    together: int
    free_loads: frozenset[Operation]

    def half(self) -> LockedLoop | None:
        """The same for half as many iterations, None if that is one."""
        together = self.together // 2
        return replace(self, together=together) if together > 1 else None


def find_locked_loop(loop: aa.ForOp) -> LockedLoop | None:
    """The loop as one over critical sections, None if iterations must not be put together."""
    ops = list(loop.body.block.ops)
    waits = [op for op in ops if isinstance(op, aa.LoopOp)]
    if len(waits) != 1 or constant_scalar(loop.step) != 1:
        return None
    [wait] = waits
    if (cas := taken_lock(wait)) is None or not _is_outside(loop, (cas.pointers, cas.mask)):
        return None
    start = ops.index(wait)
    releases = [op for op in ops[start:] if isinstance(op, aa.AtomicRMWOp)]
    if len(releases) != 1 or not gives_back(releases[0], cas):
        return None
    end = ops.index(releases[0])
    before, after = tuple(ops[:start]), ops[end + 1 : -1]
    section = Section(wait, tuple(ops[start + 1 : end]), releases[0])
    plain = all(_is_plain(op) for op in (*before, *section.body))
    if not plain or not all(isinstance(op, _DONE) for op in after):
        return None
    first = Section(wait, before, releases[0])
    if reads_lock(section, cas) or reads_lock(first, cas) or not _carries_tokens(loop):
        return None
    loads = [op for op in (*before, *section.body) if isinstance(op, aa.TiledLoadOp)]
    words = sum(tensor_words(op.result.type) for op in loads)
    together = MOST_ITERATIONS
    while together > 1 and together * words > MOST_WORDS:
        together //= 2
    if together == 1:
        return None
    free = frozenset(op for op in loads if op in section.body and _is_free(op, loop))
    return LockedLoop(loop, before, section, together, free)


def _is_outside(loop: aa.ForOp, values: Sequence[SSAValue | None]) -> bool:
    """Whether values are the same in all iterations."""
    inside = set(loop.body.block.ops) | set(loop.body.block.args)
    owners = [v if isinstance(v, BlockArgument) else v.owner for v in values if v is not None]
    return not any(owner in inside for owner in owners)


def _is_plain(op: Operation) -> bool:
    """Whether an operation waits for nobody, and may be put behind others that tokens allow."""
    if isinstance(op, TILED):
        return op.ordering.data == MemoryOrdering.WEAK and view_type_of(op.view).sparse_dim is None
    return not op.regions and (op.has_trait(Pure) or isinstance(op, _DONE))


def _carries_tokens(loop: aa.ForOp) -> bool:
    """Whether iterations hand on nothing but memory order, and know their numbers."""
    return all(isinstance(arg.type, MemTokenType) for arg in loop.body.block.args[1:])


# Loads that need not wait


def _is_free(load: aa.TiledLoadOp, loop: aa.ForOp) -> bool:
    """Whether what earlier iterations write before a load, as tokens say, are other elements."""
    writes = _writes_before(load, loop)
    return all(_are_apart(load, write, loop) for write in writes)


def _writes_before(load: aa.TiledLoadOp, loop: aa.ForOp) -> list[aa.TiledStoreOp]:
    """The stores of the loop that tokens put before a load, in this iteration or earlier ones."""
    pending = [load.token] if load.token is not None else []
    seen: set[SSAValue] = set(pending)
    found: dict[aa.TiledStoreOp, None] = {}
    while pending:
        value = pending.pop()
        for source in _sources(value, loop):
            if source not in seen:
                seen.add(source)
                pending.append(source)
        op = value.owner
        if isinstance(op, aa.TiledStoreOp) and op.parent is loop.body.block:
            found[op] = None
    return list(found)


def _sources(value: SSAValue, loop: aa.ForOp) -> Iterator[SSAValue]:
    """The tokens that a token of the loop follows. What an acquire or release follows is done."""
    block = loop.body.block
    if isinstance(value, BlockArgument):
        if value.owner is block and isinstance(last := block.last_op, aa.ContinueOp):
            yield last.arguments[value.index - 1]
        return
    if isinstance(value, OpResult) and value.op.parent is block:
        if isinstance(value.op, aa.LoopOp | aa.AtomicRMWOp):
            return
        yield from (v for v in value.op.operands if isinstance(v.type, MemTokenType))


def _are_apart(load: aa.TiledLoadOp, store: aa.TiledStoreOp, loop: aa.ForOp) -> bool:
    """Whether a load and a store of another iteration are of different elements of one memory.

    They are rows of it, side by side: the index that differs goes along elements next to each
    other, the others are the same, and the tiles do not lie in each other's way.
    """
    first, second = view_type_of(load.view), view_type_of(store.view)
    memref = memref_of(load.view)
    if memref is not memref_of(store.view) or first.dim_map != second.dim_map:
        return False
    if first.tile_shape != second.tile_shape or first.steps != second.steps:
        return False
    counter = loop.body.block.args[0]
    for axis, (mine, other) in enumerate(zip(load.indices, store.indices, strict=True)):
        if mine is not other:
            return False
        if mine is counter:
            stride = first.memref.strides[first.dim_map[axis]]
            if stride != 1 or first.steps[axis] < first.tile_shape[axis]:
                return False
        elif first.tile_shape[axis] != 1 or not _is_outside(loop, (mine,)):
            return False
    return counter in load.indices


def loaded_tiles(ops: Sequence[Operation]) -> list[aa.TiledLoadOp]:
    """The loads among operations, those of tensors."""
    return [
        op for op in ops if isinstance(op, aa.TiledLoadOp) and isinstance(op.result.type, TensorType)
    ]


__all__ = ["Block", "LockedLoop", "find_locked_loop", "loaded_tiles"]
