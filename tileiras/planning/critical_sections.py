"""Critical sections of kernels: from a loop that takes a lock to the exchange that gives it back.

    loop { %old = atomic_cas %lock, 0, 1 acquire; if %old == 1 {} else { break } }
    ...                                                     the section
    atomic_rmw xchg %lock, 0 release                        nothing follows

What is asked of a section here is that tile blocks could perform it one after another without
giving the lock back in between, in the registers of one of them: it ends the kernel, nothing but
loads comes before it, it reads and writes a few places, each of which it accesses on every path,
and between them computes element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    ComparisonPredicate,
    MemoryOrdering,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.memory import LoadBase, TiledLoadBase
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

Access = aa.LoadOp | aa.StoreOp | aa.TiledLoadOp | aa.TiledStoreOp
Place = tuple[object, ...]
"""What tells the places apart that a section accesses: pointer and mask, or tile of a view."""

ACQUIRES = (MemoryOrdering.ACQUIRE, MemoryOrdering.ACQ_REL)
RELEASES = (MemoryOrdering.RELEASE, MemoryOrdering.ACQ_REL)
WRITES = (aa.StoreOp, aa.TiledStoreOp)
ACCESSES = (*WRITES, aa.LoadOp, aa.TiledLoadOp)
_TOKENS = (aa.CreateMemTokenOp, aa.JoinMemTokensOp)
_COMPUTING = (ElementwiseOp, aa.ConstantOp, aa.SplatOp, aa.BlockTileOp)
_HARMLESS = (aa.ForOp, aa.IfOp, aa.ContinueOp, aa.YieldOp, aa.ProductOp, aa.ReduceOp, aa.ScanOp)


@dataclass(frozen=True)
class Section:
    """A critical section: the loop that takes the lock, what follows, and what gives it back."""

    acquire: aa.LoopOp
    body: tuple[Operation, ...]
    release: aa.AtomicRMWOp

    def accesses(self) -> Iterator[Access]:
        """Reads and writes, in branches too, in program order."""
        for op in self.body:
            yield from (inner for inner in op.walk() if isinstance(inner, Access))

    def outside_operands(self) -> list[SSAValue]:
        """Values made before the section that it uses, the lock among them, tokens aside."""
        members = [self.acquire, *self.body, self.release]
        inside = {inner for op in members for inner in op.walk()}
        found: dict[SSAValue, None] = {}
        for op in inside_order(members):
            for value in op.operands:
                if not isinstance(value.type, MemTokenType) and not _is_made_in(value, inside):
                    found[value] = None
        return list(found)

    def common(self, tiles: Sequence[SSAValue]) -> list[Operation]:
        """Operations of the section whose results depend on nothing but what is outside of it.

        On none of the given tiles either.
        """
        found: dict[Operation, None] = {}
        outside = {value for value in self.outside_operands() if value not in tiles}
        for op in self.body:
            if isinstance(op, ElementwiseOp | aa.ConstantOp | aa.SplatOp) and all(
                value in outside or value.owner in found for value in op.operands
            ):
                found[op] = None
        return list(found)

    def are_places_common(self, tiles: Sequence[SSAValue]) -> bool:
        """Whether what decides where accesses go is common to tile blocks, with masks' others."""
        common = {value for op in self.common(tiles) for value in op.results}
        common |= {value for value in self.outside_operands() if value not in tiles}
        places = (place_of_access(op) for op in self.accesses())
        values = [value for place in places for value in place or ()]
        values += [op.other for op in self.accesses() if isinstance(op, aa.LoadOp)]
        return all(value in common for value in values if isinstance(value, SSAValue))


def inside_order(ops: Sequence[Operation]) -> Iterator[Operation]:
    """Operations and all in their regions, in program order."""
    for op in ops:
        yield from op.walk()


def _is_made_in(value: SSAValue, ops: set[Operation]) -> bool:
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        return parent is not None and parent in ops
    return owner in ops


def find_section(func: aa.FuncOp) -> Section | None:
    """The critical section that a kernel ends with, if it is one as described above."""
    loops = [op for op in func.body.block.ops if isinstance(op, aa.LoopOp)]
    if len(loops) != 1 or (taken := taken_lock(loops[0])) is None:
        return None
    section = _section_from(loops[0], taken)
    if section is None or not all(map(_is_harmless, _before(section.acquire))):
        return None
    if not all(_is_computed(op) for op in section.body) or reads_lock(section, taken):
        return None
    return section if _are_places_sound(section) else None


def _before(place: Operation) -> Iterator[Operation]:
    """All operations before another one of its block, with those in their regions."""
    op = place.prev_op
    while op is not None:
        yield from op.walk()
        op = op.prev_op


def _is_harmless(op: Operation) -> bool:
    """Whether nobody notices when an operation is performed, or how often."""
    if isinstance(op, LoadBase | TiledLoadBase):
        return op.ordering.data == MemoryOrdering.WEAK
    return op.has_trait(Pure) or isinstance(op, _HARMLESS)


def taken_lock(loop: aa.LoopOp) -> aa.AtomicCASOp | None:
    """The atomic of a loop that goes on until it has exchanged a constant for another one."""
    ops = [op for op in loop.walk() if op is not loop and not isinstance(op, _TOKENS)]
    found = [op for op in ops if isinstance(op, aa.AtomicCASOp)]
    results = [*loop.results, *loop.body.block.args]
    if len(found) != 1 or not all(isinstance(value.type, MemTokenType) for value in results):
        return None
    [cas] = found
    free = constant_scalar(cas.compare)
    if free is None or constant_scalar(cas.value) is None or cas.ordering.data not in ACQUIRES:
        return None
    rest = [op for op in ops if op is not cas and not isinstance(op, aa.ConstantOp)]
    compares = [op for op in rest if isinstance(op, aa.CmpIOp)]
    branches = [op for op in rest if isinstance(op, aa.IfOp)]
    others = [op for op in rest if op not in compares and op not in branches]
    breaks = [op for op in others if isinstance(op, aa.BreakOp)]
    if not len(compares) == len(branches) == len(breaks) == 1:
        return None
    if not all(isinstance(op, aa.YieldOp | aa.BreakOp | aa.ContinueOp) for op in others):
        return None
    is_left = _ends_when(compares[0], branches[0], cas, free)
    return cas if is_left and branches[0].parent_op() is loop else None


def _ends_when(compare: aa.CmpIOp, branch: aa.IfOp, cas: aa.AtomicCASOp, free: int) -> bool:
    """Whether the loop is left if the old value is what the atomic has compared with."""
    sides = {compare.lhs: compare.rhs, compare.rhs: compare.lhs}
    other = constant_scalar(sides[cas.result]) if cas.result in sides else None
    if other is None or branch.condition is not compare.result:
        return False
    match compare.comparison_predicate.data:
        case ComparisonPredicate.EQUAL:
            holds = other == free
        case ComparisonPredicate.NOT_EQUAL:
            holds = other != free
        case _:
            return False
    block = (branch.then_region if holds else branch.else_region).first_block
    return block is not None and isinstance(block.last_op, aa.BreakOp)


def constant_scalar(value: SSAValue) -> int | None:
    """A constant integer, as unsigned number."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return None
    constant = value.op.value
    if isinstance(value.type, TensorType) or not isinstance(constant, DenseAttr):
        return None
    return int.from_bytes(constant.raw.data, "little")


def _section_from(loop: aa.LoopOp, cas: aa.AtomicCASOp) -> Section | None:
    """What follows the loop up to the exchange that makes the lock what it was, and the end."""
    body: list[Operation] = []
    op = loop.next_op
    while op is not None and not isinstance(op, aa.AtomicRMWOp):
        body.append(op)
        op = op.next_op
    if not isinstance(op, aa.AtomicRMWOp) or not gives_back(op, cas):
        return None
    after = op.next_op
    while isinstance(after, _TOKENS):
        after = after.next_op
    return Section(loop, tuple(body), op) if isinstance(after, aa.ReturnOp) else None


def gives_back(op: aa.AtomicRMWOp, cas: aa.AtomicCASOp) -> bool:
    """Whether an exchange nobody looks at makes the lock free again, with the reach it had."""
    return (
        op.mode.data == AtomicRMWMode.XCHG
        and op.ordering.data in RELEASES
        and op.scope.data == cas.scope.data
        and op.pointers is cas.pointers
        and op.mask is cas.mask
        and constant_scalar(op.value) == constant_scalar(cas.compare)
        and op.result.first_use is None
    )


def _is_computed(op: Operation) -> bool:
    """Whether an operation of a section reads, writes, branches or computes by elements."""
    if isinstance(op, aa.IfOp):
        blocks = [region.first_block for region in op.regions]
        return all(
            block is not None
            and isinstance(block.last_op, aa.YieldOp)
            and all(_is_computed(inner) for inner in block.ops)
            for block in blocks
        )
    if isinstance(op, Access):
        return op.ordering.data == MemoryOrdering.WEAK and place_of_access(op) is not None
    return isinstance(op, (*_COMPUTING, *_TOKENS, aa.YieldOp))


def place_of_access(op: Access) -> Place | None:
    """The place that an access goes to; None where its elements might be the same ones twice."""
    if isinstance(op, aa.LoadOp | aa.StoreOp):
        return None if isinstance(op.pointers.type, TensorType) else (op.pointers, op.mask)
    type = view_type_of(op.view)
    if type.sparse_dim is not None:
        return None
    bounds = tuple(int(flag) for flag in op.inbounds.get_values())
    return (memref_of(op.view), type.tile_shape, type.dim_map, type.steps, bounds, *op.indices)


# places


def reads_lock(section: Section, cas: aa.AtomicCASOp) -> bool:
    """Whether the section may access what it has locked by: it changes from turn to turn."""
    lock = root_pointer(cas.pointers)
    for op in section.accesses():
        is_scalar = isinstance(op, aa.LoadOp | aa.StoreOp)
        pointer = op.pointers if is_scalar else memref_of(op.view).base
        root = root_pointer(pointer)
        if root is lock or not all(isinstance(value, BlockArgument) for value in (root, lock)):
            return True
    return False


def root_pointer(pointer: SSAValue) -> SSAValue:
    """What a pointer is an offset from."""
    while isinstance(pointer, OpResult) and isinstance(pointer.op, aa.AddPtrOp | aa.PtrToPtrOp):
        pointer = pointer.op.operands[0]
    return pointer


def are_kept_in_registers(section: Section) -> bool:
    """Whether sections may follow each other in registers: what one stores the next one loads."""
    return all(map(_is_computed, section.body)) and _are_places_sound(section)


def _are_places_sound(section: Section) -> bool:
    """Whether every place is accessed, or written, on all paths if on any, and no two overlap."""
    for kinds in (ACCESSES, WRITES):
        somewhere = {place_of_access(op) for op in section.accesses() if isinstance(op, kinds)}
        if somewhere != _accessed(section.body, kinds):
            return False
    return not _are_ordered(section) and _is_padding_unseen(section)


def _is_padding_unseen(section: Section) -> bool:
    """Whether what stands for elements out of bounds reaches no other place, if it may differ.

    In registers a tile is changed there, too, and different loads of a place are one.
    """
    accesses = list(section.accesses())
    written = {place_of_access(op) for op in accesses if isinstance(op, WRITES)}
    loads = [op for op in accesses if isinstance(op, aa.TiledLoadOp)]
    for load in loads:
        place = place_of_access(load)
        kinds = {view_type_of(op.view).padding for op in loads if place_of_access(op) == place}
        is_kept = place not in written and len(kinds) == 1
        if is_kept or all(load.inbounds.get_values()):
            continue
        if any(place_of_access(store) != place for store in _stores_of(load.result)):
            return False
    return True


def _stores_of(value: SSAValue) -> Iterator[Access]:
    """The stores that what is made from a value reaches."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        for use in current.uses:
            op = use.operation
            following = op.results
            if isinstance(op, WRITES):
                yield op
                continue
            if isinstance(op, aa.YieldOp) and (parent := op.parent_op()) is not None:
                following = parent.results[use.index : use.index + 1]
            fresh = [result for result in following if result not in seen]
            pending += fresh
            seen.update(fresh)


def _accessed(ops: Sequence[Operation], kinds: tuple[type[Access], ...]) -> set[Place | None]:
    """The places that operations access in some way whatever branches they take."""
    found: set[Place | None] = set()
    for op in ops:
        if isinstance(op, kinds):
            found.add(place_of_access(op))
        elif isinstance(op, aa.IfOp):
            first, second = (_accessed(list(region.block.ops), kinds) for region in op.regions)
            found |= first & second
    return found


def _are_ordered(section: Section) -> bool:
    """Whether token order joins accesses to two places, one of them a write.

    Where it does not, they are not the same memory: the program would have a race with itself.
    """
    behind: dict[SSAValue, frozenset[Access]] = {}
    _follow(list(section.body), behind)
    for op in section.accesses():
        token = op.token
        for earlier in behind.get(token, frozenset()) if token is not None else ():
            is_write = isinstance(op, WRITES) or isinstance(earlier, WRITES)
            if is_write and place_of_access(op) != place_of_access(earlier):
                return True
    return False


def _follow(ops: Sequence[Operation], behind: dict[SSAValue, frozenset[Access]]) -> None:
    """Notes for every token which accesses of the section come before it."""
    for op in ops:
        for region in op.regions:
            if region.first_block is not None:
                _follow(list(region.block.ops), behind)
                end = region.block.last_op
                if isinstance(op, aa.IfOp) and isinstance(end, aa.YieldOp):
                    for result, value in zip(op.results, end.arguments, strict=True):
                        known = behind.get(result, frozenset())
                        behind[result] = known | behind.get(value, frozenset())
        if isinstance(op, aa.IfOp):
            continue
        before = frozenset[Access]().union(
            *(behind.get(value, frozenset()) for value in op.operands)
        )
        mine = before | {op} if isinstance(op, Access) else before
        for result in op.results:
            if isinstance(result.type, MemTokenType):
                behind[result] = mine


__all__ = ["Access", "Place", "Section", "constant_scalar", "find_section", "place_of_access"]
