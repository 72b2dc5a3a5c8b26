"""Loops that take the same lock in every iteration, and how many iterations may have it together.

    for %i { P(%i); loop { atomic_cas %lock .. acquire }; S(%i); atomic_rmw xchg %lock .. release }

An iteration is work before the lock is taken (P), and a critical section (S). That a tile block
takes the lock right after it has given it back is one of the ways in which things can happen; then
nobody notices if it keeps the lock meanwhile, as long as it waits for nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue
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
    root_pointer,
    taken_lock,
)

MOST_ITERATIONS = 4
"""Policy: iterations that have the lock together. Layer norm backward, 2048x8192 f32, us on one
H200 with 1, 2, 4 and 8: 324, 222, 162, 255 (decision 0033).
"""
MOST_WORDS = 32768
"""Policy: registers of a tile block for the tiles that so many iterations load: half an SM's."""
MOST_WORDS_SIDE_BY_SIDE = 49152
"""Policy: the same for tile blocks side by side, of which an SM has one CTA: three quarters."""
MOST_WORDS_BESIDE_SUMS = 24576
"""Policy: the same for all CTAs of an SM that keep sums: they seldom take the lock there."""
Access = aa.TiledLoadOp | aa.TiledStoreOp
_DONE = (aa.JoinMemTokensOp, aa.CreateMemTokenOp)


@dataclass(frozen=True)
class LockedLoop:
    """A loop over critical sections: what an iteration does before it takes the lock, and then.

    `together`: the iterations that may have the lock together. `free`: accesses that need not wait
    for those of earlier iterations.
    """

    loop: aa.ForOp
    before: tuple[Operation, ...]
    section: Section
    together: int
    free: frozenset[Access]

    def half(self) -> LockedLoop | None:
        """The same for half as many iterations, None if that is one."""
        together = self.together // 2
        return replace(self, together=together) if together > 1 else None


def find_locked_loop(loop: aa.ForOp) -> LockedLoop | None:
    """The loop as one over critical sections, None if iterations must not be put together."""
    parsed = locked_section(loop) if constant_scalar(loop.step) == 1 else None
    if parsed is None or not carries_tokens(loop):
        return None
    before, section = parsed
    accesses = [op for op in (*before, *section.body) if isinstance(op, Access)]
    loaded = [op.result.type for op in accesses if isinstance(op, aa.TiledLoadOp)]
    words = sum(tensor_words(type) for type in loaded if isinstance(type, TensorType))
    together = MOST_ITERATIONS
    around = loop.parent_op()
    while around is not None and not isinstance(around, aa.FuncOp):
        around = around.parent_op()
    is_joined = around is not None and around.lock_sharers is not None
    most = MOST_WORDS_SIDE_BY_SIDE if is_joined else MOST_WORDS
    if around is not None and isinstance(around.sharer_ctas, IntegerAttr):
        most = MOST_WORDS_BESIDE_SUMS // around.sharer_ctas.value.data
    while together > 1 and together * words > most:
        together //= 2
    if together == 1:
        return None
    return LockedLoop(loop, before, section, together, free_accesses(loop, accesses))


def locked_section(loop: aa.ForOp) -> tuple[tuple[Operation, ...], Section] | None:
    """What an iteration does before it takes the lock, and then; None for other loops."""
    ops = list(loop.body.block.ops)
    waits = [op for op in ops if isinstance(op, aa.LoopOp)]
    if len(waits) != 1:
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
    plain = all(is_plain(op) for op in (*before, *section.body))
    if not plain or not all(isinstance(op, _DONE) for op in after):
        return None
    first = Section(wait, before, releases[0])
    return None if reads_lock(section, cas) or reads_lock(first, cas) else (before, section)


def _is_outside(loop: aa.ForOp, values: Sequence[SSAValue | None]) -> bool:
    """Whether values are the same in all iterations."""
    inside = set(loop.body.block.ops) | set(loop.body.block.args)
    owners = [v if isinstance(v, BlockArgument) else v.owner for v in values if v is not None]
    return not any(owner in inside for owner in owners)


def is_plain(op: Operation) -> bool:
    """Whether an operation waits for nobody, and may be put behind others that tokens allow."""
    if isinstance(op, Access):
        return op.ordering.data == MemoryOrdering.WEAK and view_type_of(op.view).sparse_dim is None
    return not op.regions and (op.has_trait(Pure) or isinstance(op, (*_DONE, aa.ReadKeptOp)))


def carries_tokens(loop: aa.ForOp) -> bool:
    """Whether iterations hand on nothing but memory order, and know their numbers."""
    return all(isinstance(arg.type, MemTokenType) for arg in loop.body.block.args[1:])


# Accesses that need not wait for earlier iterations


def free_accesses(loop: aa.ForOp, accesses: Sequence[Access]) -> frozenset[Access]:
    """The accesses that share no element with one of another iteration if either is a write."""
    return frozenset(
        op
        for op in accesses
        if all(
            _are_apart(op, other, loop) for other in accesses if _is_write(op) or _is_write(other)
        )
    )


def _is_write(op: Access) -> bool:
    return isinstance(op, aa.TiledStoreOp)


def _are_apart(one: Access, other: Access, loop: aa.ForOp) -> bool:
    """Whether two accesses, in different iterations, are of different elements."""
    tile_blocks = (one.tile_block, other.tile_block)
    if None not in tile_blocks and tile_blocks[0] != tile_blocks[1]:
        return True
    first, second = memref_of(one.view), memref_of(other.view)
    if first is second:
        return _are_side_by_side(one, other, loop)
    roots = root_pointer(first.base), root_pointer(second.base)
    if roots[0] is roots[1] or not all(isinstance(root, BlockArgument) for root in roots):
        return False
    return not _follows(one, other) and not _follows(other, one)


def _are_side_by_side(one: Access, other: Access, loop: aa.ForOp) -> bool:
    """Whether accesses to one memory are, in different iterations, parts of a row side by side.

    The index that differs goes along elements next to each other, the others are the same, and the
    tiles do not lie in each other's way.
    """
    first, second = view_type_of(one.view), view_type_of(other.view)
    if (first.dim_map, first.tile_shape, first.steps) != (
        second.dim_map,
        second.tile_shape,
        second.steps,
    ):
        return False
    counter = loop.body.block.args[0]
    for axis, (mine, its) in enumerate(zip(one.indices, other.indices, strict=True)):
        if mine is not its:
            return False
        if mine is counter:
            stride = first.memref.strides[first.dim_map[axis]]
            if stride != 1 or first.steps[axis] < first.tile_shape[axis]:
                return False
        elif first.tile_shape[axis] != 1 or not _is_outside(loop, (mine,)):
            return False
    return counter in one.indices


def _follows(later: Access, earlier: Access) -> bool:
    """Whether token order puts an access of an iteration behind another one of the same."""
    pending: list[Operation] = [later]
    seen: set[Operation] = set(pending)
    while pending:
        for value in pending.pop().operands:
            owner = value.owner
            if not isinstance(value.type, MemTokenType) or not isinstance(owner, Operation):
                continue
            if owner is earlier:
                return True
            if owner.parent is earlier.parent and owner not in seen:
                seen.add(owner)
                pending.append(owner)
    return False
