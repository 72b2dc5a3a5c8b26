"""Where the threads of a tile block must wait for each other so that token order holds.

Each thread performs its own part of every tile access. So when access B follows access A in token
order and both may touch one address, a thread could perform its part of B before another thread
has performed its part of A: a barrier between them is needed. This analysis finds few places for
such barriers, on nv_tileaa and nv_tileas.

    A: store                     no barrier between accesses that tokens do not order,
    B: load  token = A   <- barrier right before B, or before the loops around B that A is not in

An access is pending from the moment it is performed until the next barrier. A forward walk carries
the pending accesses and, per token, those that precede it; loops go to a fixpoint, branches join.
All structured control flow is uniform over a tile block, so a barrier is legal anywhere.
Acquire and release are the same question with a wider notion of conflict: everything ordered after
an acquire must wait for it, and a release for everything ordered before it. What one thread does
for all, such as atomics of scalars, it does in program order: none of it waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.async_copy import AsyncCopyBase
from tileiras.dialects.nv_tileaa.memory import (
    LoadBase,
    StoreBase,
    TiledLoadBase,
    TiledStoreBase,
)
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.dialects.nv_tileaa.views import view_type_of

TILED = (TiledLoadBase, AsyncCopyBase, TiledStoreBase, aa.TiledAtomicRedOp)
THROUGH_POINTERS = (LoadBase, StoreBase, aa.AtomicRMWOp, aa.AtomicCASOp)
READS = (TiledLoadBase, AsyncCopyBase, LoadBase)
LOOPS = (aa.ForOp, aa.LoopOp)
ACQUIRES = (MemoryOrdering.ACQUIRE, MemoryOrdering.ACQ_REL)
RELEASES = (MemoryOrdering.RELEASE, MemoryOrdering.ACQ_REL)

SameThreads = Callable[[Operation, Operation], bool]
"""Whether two accesses to the same elements have each element accessed by one and the same thread.

Asked only about accesses for which `same_elements` holds. It must be False where copies of an
element are loaded by several threads."""


@dataclass(frozen=True)
class Hazards:
    """`before`: the operations that need a barrier right before them, in program order.

    An operation here is an access, or a loop whose accesses conflict with earlier ones only.
    """

    before: tuple[Operation, ...]


def find_hazards(func: aa.FuncOp, same_threads: SameThreads | None = None) -> Hazards:
    """The barriers that a function needs; without `same_threads`, threads share no placement."""
    accesses = [op for op in func.walk() if isinstance(op, TILED + THROUGH_POINTERS)]
    barriers: set[Operation] = set()
    if len(accesses) > 1 or any(_loops_around(op) for op in accesses):
        walk = _Walk(accesses, same_threads)
        while needed := walk.run(func, barriers):
            barriers.update(_place(op, culprits) for op, culprits in needed)
        # only around loops can a barrier come to stand between an access and what it waited for
        if any(isinstance(op, LOOPS) or _loops_around(op) for op in barriers):
            for op in [op for op in func.walk() if op in barriers]:
                if not walk.run(func, barriers - {op}):
                    barriers.remove(op)
    return Hazards(tuple(op for op in func.walk() if op in barriers))


def superfluous_barriers(
    func: aa.FuncOp, barriers: Sequence[Operation], same_threads: SameThreads
) -> list[Operation]:
    """Those of a function's barriers that it does without, when threads share placement."""
    accesses = [op for op in func.walk() if isinstance(op, TILED + THROUGH_POINTERS)]
    kept, found = set(barriers), []
    walk = _Walk(accesses, same_threads)
    for op in barriers:
        if not walk.run(func, kept - {op}):
            kept.remove(op)
            found.append(op)
    return found


def same_elements(first: Operation, second: Operation) -> bool:
    """Whether two accesses go to the same elements, if their operands have the same values."""
    if isinstance(first, TILED) and isinstance(second, TILED):
        return _are_equal_views(first.view, second.view) and (
            tuple(first.indices) == tuple(second.indices)
        )
    if isinstance(first, THROUGH_POINTERS) and isinstance(second, THROUGH_POINTERS):
        return first.pointers is second.pointers
    return False


def _are_equal_views(first: SSAValue, second: SSAValue) -> bool:
    """Whether two views have the same tiles; what they say of elements out of bounds aside."""
    if first is second:
        return True
    if not isinstance(first.owner, aa.BlockTileOp) or not isinstance(second.owner, aa.BlockTileOp):
        return False
    if first.owner.memref is not second.owner.memref:
        return False
    mine, its = view_type_of(first), view_type_of(second)
    return (mine.tile_shape, mine.dim_map, mine.steps, mine.sparse_dim) == (
        its.tile_shape,
        its.dim_map,
        its.steps,
        its.sparse_dim,
    )


def _is_by_one_thread(op: Operation) -> bool:
    """Whether the first thread of the tile block performs an access for all.

    So it does with scalars, unless all threads read one for themselves.
    """
    if not isinstance(op, THROUGH_POINTERS) or isinstance(op.pointers.type, TensorType):
        return False
    return not isinstance(op, LoadBase) or op.ordering.data != MemoryOrdering.WEAK


def _address_operands(op: Operation) -> list[SSAValue]:
    """What decides which elements an access touches."""
    if isinstance(op, TILED):
        return [op.view, *op.indices]
    return [op.pointers] if isinstance(op, THROUGH_POINTERS) else []


def _loops_around(inner: Operation | Block) -> list[Operation]:
    """The loops that contain an operation or block, innermost first."""
    loops: list[Operation] = []
    parent = inner.parent_op()
    while parent is not None:
        if isinstance(parent, LOOPS):
            loops.append(parent)
        parent = parent.parent_op()
    return loops


def _is_varying(value: SSAValue) -> bool:
    """Whether a value may change between iterations of some loop."""
    owner = value.owner
    return bool(_loops_around(owner))


def _place(op: Operation, culprits: list[Operation]) -> Operation:
    """Where the barrier before `op` goes: before the outermost loop around it without culprits."""
    place = op
    for loop in _loops_around(op):
        if any(loop in _loops_around(culprit) for culprit in culprits):
            break
        place = loop
    return place


@dataclass
class _Frame:
    """A loop or if being walked.

    `state` and `tokens` are what the region is left with (yield, break); `next_state` and
    `next_tokens` what the next iteration of a loop starts with (continue). State None: never.
    """

    op: Operation
    tokens: list[int] = field(default_factory=list)
    state: int | None = None
    next_tokens: list[int] = field(default_factory=list)
    next_state: int | None = None


class _Walk:
    """Forward walks, each with the barriers placed so far.

    Sets of accesses are bit masks. Access i has two bits: 2i, performed with the present values
    of all operands, and 2i + 1, performed in an earlier iteration of some loop.
    """

    def __init__(self, accesses: Sequence[Operation], same: SameThreads | None):
        self.accesses = accesses
        self.index = {op: number for number, op in enumerate(accesses)}
        self.same = same
        self.barriers: set[Operation] = set()
        self.before: dict[SSAValue, int] = {}
        self.needed: dict[Operation, int] = {}
        self.frames: list[_Frame] = []
        self.inside: dict[Operation, int] = {}
        self.conflicts = {op: self._conflicts_of(op) for op in accesses}

    def run(
        self, func: aa.FuncOp, barriers: set[Operation]
    ) -> list[tuple[Operation, list[Operation]]]:
        """The accesses that the barriers do not cover, each with what they must wait for."""
        self.barriers, self.before, self.needed, self.frames = barriers, {}, {}, []
        self._region(func.body, 0)
        return [(op, list(self._members(mask))) for op, mask in self.needed.items()]

    def _members(self, mask: int) -> Iterator[Operation]:
        for number, op in enumerate(self.accesses):
            if mask >> 2 * number & 3:
                yield op

    def _conflicts_of(self, op: Operation) -> int:
        """The accesses that an access ordered after them has to wait for."""
        mask = 0
        is_single = _is_by_one_thread(op)
        for number, earlier in enumerate(self.accesses):
            if is_single and _is_by_one_thread(earlier):
                continue
            if _ordering(earlier) in ACQUIRES or _ordering(op) in RELEASES:
                mask |= 3 << 2 * number
            elif not (isinstance(earlier, READS) and isinstance(op, READS)):
                mask |= (3 & ~self._exempt(earlier, op)) << 2 * number
        return mask

    def _exempt(self, earlier: Operation, op: Operation) -> int:
        """Which of the two bits of `earlier` are harmless: the same thread touches the same."""
        if self.same is None or not same_elements(earlier, op) or not self.same(earlier, op):
            return 0
        return 1 if any(map(_is_varying, _address_operands(op))) else 3

    def _aged(self, mask: int, inside: int) -> int:
        """The same accesses, seen from the next iteration of the loop that those `inside` are in.

        What is outside has been performed with values that this loop does not change.
        """
        return (mask & inside) << 1 | mask & ~inside

    def _inside(self, loop: Operation) -> int:
        """The bits of present accesses of a loop."""
        if loop not in self.inside:
            numbers = (self.index[op] for op in loop.walk() if op in self.index)
            self.inside[loop] = sum(1 << 2 * number for number in numbers)
        return self.inside[loop]

    def _region(self, region: Region, state: int | None) -> int | None:
        """Walks a region; returns what is pending at its end, None if that is not reached."""
        for block in region.blocks:
            for op in block.ops:
                if state is None:
                    return None
                state = self._operation(op, state)
        return state

    def _operation(self, op: Operation, state: int) -> int | None:
        """What is pending after one operation."""
        if op in self.barriers:
            state = 0
        if op in self.index:
            return self._access(op, state)
        match op:
            case aa.IfOp():
                return self._if(op, state)
            case aa.ForOp() | aa.LoopOp():
                return self._loop(op, state)
            case aa.YieldOp():
                self._leave(op, state, (aa.IfOp,), is_next=False)
                return None
            case aa.BreakOp():
                self._leave(op, state, (aa.LoopOp,), is_next=False)
                return None
            case aa.ContinueOp():
                self._leave(op, state, LOOPS, is_next=True)
                return None
            case aa.ReturnOp():
                return None
            case _:
                self._pass_tokens(op)
                return state

    def _access(self, op: Operation, state: int) -> int:
        """Finds out what an access must wait for; afterwards it is pending itself."""
        preceding = self._preceding(op)
        culprits = preceding & state & self.conflicts[op]
        if culprits or op in self.needed:
            self.needed[op] = self.needed.get(op, 0) | culprits
            state = 0
        bit = 1 << 2 * self.index[op]
        for result in op.results:
            if isinstance(result.type, MemTokenType):
                self.before[result] = preceding | bit
        return state | bit

    def _preceding(self, op: Operation) -> int:
        """Accesses ordered before an operation by its token operands."""
        mask = 0
        for operand in op.operands:
            mask |= self.before.get(operand, 0)
        return mask

    def _pass_tokens(self, op: Operation) -> None:
        """Tokens of joins, fences, prints: behind everything that their operands are behind."""
        for result in op.results:
            if isinstance(result.type, MemTokenType):
                self.before[result] = self._preceding(op)

    def _leave(
        self, op: Operation, state: int, kinds: tuple[type[Operation], ...], is_next: bool
    ) -> None:
        """Joins state and operands of a terminator into the loop or if that it leaves."""
        frame = next((f for f in reversed(self.frames) if isinstance(f.op, kinds)), None)
        if frame is None:
            return
        tokens = [self.before.get(operand, 0) for operand in op.operands]
        if is_next:
            frame.next_state = state | (frame.next_state or 0)
            frame.next_tokens = _union(frame.next_tokens, tokens)
        else:
            frame.state = state | (frame.state or 0)
            frame.tokens = _union(frame.tokens, tokens)

    def _if(self, op: aa.IfOp, state: int) -> int | None:
        """Either branch may have run; one without an end does not count."""
        frame = _Frame(op)
        self.frames.append(frame)
        for region in (op.then_region, op.else_region):
            end = self._region(region, state)
            if end is not None:
                frame.state = end | (frame.state or 0)
        self.frames.pop()
        self._set(op.results_, frame.tokens)
        return frame.state

    def _loop(self, op: aa.ForOp | aa.LoopOp, state: int) -> int | None:
        """Walks the body until its start state no longer grows."""
        block = op.body.blocks[0]
        carried = block.args[1:] if isinstance(op, aa.ForOp) else block.args
        start = state
        inside = self._inside(op)
        tokens = [self.before.get(value, 0) for value in op.init_values]
        while True:
            self._set(carried, tokens)
            frame = _Frame(op)
            self.frames.append(frame)
            self._region(op.body, start)
            self.frames.pop()
            next_start = start | self._aged(frame.next_state or 0, inside)
            next_tokens = _union(tokens, [self._aged(mask, inside) for mask in frame.next_tokens])
            if next_start == start and next_tokens == tokens:
                break
            start, tokens = next_start, next_tokens
        if isinstance(op, aa.ForOp):
            self._set(op.results_, tokens)
            return start
        self._set(op.results_, frame.tokens)
        return frame.state

    def _set(self, values: Sequence[SSAValue], masks: list[int]) -> None:
        """Gives tokens what precedes them; other values are left out."""
        for value, mask in zip(values, masks):
            if isinstance(value.type, MemTokenType):
                self.before[value] = mask


def _ordering(op: Operation) -> MemoryOrdering:
    """Memory ordering of an access."""
    if isinstance(op, TILED + THROUGH_POINTERS):
        return op.ordering.data
    return MemoryOrdering.WEAK


def _union(left: list[int], right: list[int]) -> list[int]:
    """Element by element; an empty list stands for nothing yet."""
    if not left or not right:
        return left or right
    return [a | b for a, b in zip(left, right)]
