"""Sums that tile blocks with one lock add to: when a CTA may add up what several of them add first.

    take %lock; %c = load %out[%i]; store %c + %x, %out[%i]; give %lock back

Whoever comes to a lock first is nobody's promise, so neither is how such a sum is rounded. A CTA
that runs several of the tile blocks adds up their `%x` in shared memory, tile by tile of a row, and
takes the lock once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.dialects.nv_tileaa.types import MemTokenType, element_count, element_of
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.critical_sections import (
    Place,
    constant_scalar,
    place_of_access,
    root_pointer,
)

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.lock_sharers import LockSharers

MOST_KEPT_BYTES = 32 << 10
"""Policy: shared memory for the sums of a CTA, four tiles of 1024 with two each: the L1 cache has
what is left. Decision 0082 has a table.
"""
LEAST_KEPT_BYTES = 16 << 10
"""Policy: less of it is not worth a program of its own."""
MOST_ROWS = 32
"""Policy: tile blocks of a CTA of which single elements are kept between parts of their rows."""
CTAS_OF_SM = 2
"""Policy: CTAs of an SM that tile blocks are shared out among."""

LEAST_ELEMENTS = 256
"""Fixed: of a tile of which no two lanes of a warp have the same, 8 of 16 bits each."""
_NUMBERS = (IntegerType, AnyFloat)
Update = aa.AddFOp | aa.AddIOp | aa.FmaOp


@dataclass(frozen=True)
class LockSum:
    """A place of a section: what is loaded there, what is added, and what stores the sum."""

    load: aa.TiledLoadOp
    update: Update
    store: aa.TiledStoreOp


@dataclass(frozen=True)
class RowValues:
    """What the loop needs of the operations before it: single elements that are `kept`, and what is
    computed `again` from them and from the number of the tile block.
    """

    kept: tuple[SSAValue, ...]
    again: tuple[Operation, ...]


@dataclass(frozen=True)
class LockSums:
    """The sums of a section by place, `count` tiles of each in a CTA, of `ctas` CTAs."""

    places: dict[Place, LockSum]
    count: int
    ctas_of_sm: int
    multiprocessors: int
    rows: RowValues

    @property
    def ctas(self) -> int:
        """CTAs that find room on the GPU."""
        return self.ctas_of_sm * self.multiprocessors


def find_lock_sums(found: LockSharers, target: GpuTarget) -> LockSums | None:
    """The sums of a kernel whose tile blocks may be added up, None if its sections do more.

    Rows are gone through from their first tile on, one after another; how many tiles there are is
    known before anything is loaded.
    """
    loop = found.loop
    if constant_scalar(loop.lower_bound) != 0 or constant_scalar(loop.step) != 1:
        return None
    end = loop.upper_bound
    if end.type != i32 or not (isinstance(end, BlockArgument) or end.owner in found.shared):
        return None
    places: dict[Place, LockSum] = {}
    for load in found.section.body:
        if not isinstance(load, aa.TiledLoadOp):
            continue
        place, updated = place_of_access(load), _sum_at(load)
        if place is None or updated is None or place in places:
            return None
        places[place] = updated
    stores = [op for op in found.section.body if isinstance(op, aa.TiledStoreOp)]
    if not places or len(stores) != len(places):
        return None
    if not all(_is_known(value, found) for value in _placing(found, places)):
        return None
    if not _may_start_again(found):
        return None
    if any(element_count(each.load.result) < LEAST_ELEMENTS for each in places.values()):
        return None
    size = sum(value_bytes(each.load.result) for each in places.values())
    room = min(MOST_KEPT_BYTES, target.shared_memory_of_each(CTAS_OF_SM) * 5 // 8)
    if room < LEAST_KEPT_BYTES or room // size < 2:
        return None
    rows = _row_values(found)
    if rows is None:
        return None
    multiprocessors = target.performance.multiprocessors
    return LockSums(places, room // size, CTAS_OF_SM, multiprocessors, rows)


def _row_values(found: LockSharers) -> RowValues | None:
    """What is kept of a row between parts of it, None where that is more than single elements."""
    kept: dict[SSAValue, None] = {}
    again: dict[Operation, None] = {}
    inside = dict.fromkeys(found.loop.walk())
    pending = [v for op in inside for v in op.operands if not isinstance(v.type, MemTokenType)]
    while pending:
        value = pending.pop()
        owner = value.owner
        if not isinstance(owner, Operation) or owner in inside or owner in again:
            continue
        if value in kept or _is_free(value, found):
            continue
        is_single = element_count(value) == 1 and isinstance(element_of(value), _NUMBERS)
        if is_single and not _is_made(value, found):
            kept[value] = None
            continue
        if owner.regions or not owner.has_trait(Pure):
            return None
        again[owner] = None
        pending += owner.operands
    func = found.loop.parent_op()
    order = [op for op in func.walk() if op in again] if func is not None else []
    return RowValues(tuple(kept), tuple(order))


def _is_free(value: SSAValue, found: LockSharers) -> bool:
    """Whether a value is there for all tile blocks, or is the number of one."""
    from tileiras.planning.lock_sharers import is_number

    owner = value.owner
    return not isinstance(owner, Operation) or owner in found.shared or is_number(owner, found.axis)


def _is_made(value: SSAValue, found: LockSharers) -> bool:
    """Whether a value follows from the number of the tile block, without memory."""
    owner = value.owner
    if _is_free(value, found) or not isinstance(owner, Operation):
        return True
    if owner.regions or not owner.has_trait(Pure):
        return False
    return all(_is_made(operand, found) for operand in owner.operands)


def _may_start_again(found: LockSharers) -> bool:
    """Whether what comes before the loop may be done again behind what an iteration has stored.

    It only loads, and the first iteration's stores follow none of its loads: so the two are of
    different arrays, or the program has a race with itself.
    """
    func, stores = found.loop.parent_op(), [op for op in found.before if _is_store(op)]
    outside = [op for op in func.walk() if not found.loop.is_ancestor(op)] if func else []
    if any(map(_is_store, outside)):
        return False
    loads = [op for op in outside if isinstance(op, aa.TiledLoadOp)]
    written = {root_pointer(memref_of(op.view).base) for op in stores}
    read = {root_pointer(memref_of(op.view).base) for op in loads}
    if written & read or not all(isinstance(root, BlockArgument) for root in written | read):
        return False
    return not any(_follows_loads(op.token, found.loop) for op in stores)


def _is_store(op: Operation) -> TypeGuard[aa.TiledStoreOp]:
    return isinstance(op, aa.TiledStoreOp)


def _follows_loads(token: SSAValue | None, loop: aa.ForOp) -> bool:
    """Whether a token of the loop's first iteration comes from more than nothing before it."""
    pending: list[SSAValue] = [token] if token is not None else []
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(value, BlockArgument) and owner is loop.body.block:
            pending.append(loop.init_values[value.index - 1])
        elif isinstance(owner, Operation) and owner.parent is loop.body.block:
            pending += [v for v in owner.operands if isinstance(v.type, MemTokenType)]
        elif isinstance(owner, aa.JoinMemTokensOp):
            pending += owner.operands
        elif not isinstance(owner, aa.CreateMemTokenOp):
            return True
    return False


def _placing(found: LockSharers, places: dict[Place, LockSum]) -> list[SSAValue]:
    """What says where the lock and the sums lie."""
    section = found.section
    values = [value for inner in section.acquire.walk() for value in inner.operands]
    values += [section.release.pointers, section.release.value]
    for each in places.values():
        values += [each.load.view, *each.load.indices, each.store.view, *each.store.indices]
    return [value for value in values if not isinstance(value.type, MemTokenType)]


def _is_known(value: SSAValue, found: LockSharers) -> bool:
    """Whether a value is known before all tile blocks, or computed from the loop's counter."""
    owner, acquire = value.owner, found.section.acquire
    if not isinstance(owner, Operation):
        return value is found.loop.body.block.args[0] or isinstance(owner.parent_op(), aa.FuncOp)
    if owner in found.shared or (owner is not acquire and acquire.is_ancestor(owner)):
        return True
    if owner.parent is not found.loop.body.block or not owner.has_trait(Pure):
        return False
    return all(_is_known(operand, found) for operand in owner.operands)


def _sum_at(load: aa.TiledLoadOp) -> LockSum | None:
    """The sum that a load of a section begins: one addition, stored where it was loaded."""
    update, type = _only_user(load.result), load.result.type
    if not isinstance(update, Update) or not isinstance(type, TensorType):
        return None
    if isinstance(update, aa.FmaOp) and update.operands[2] is not load.result:
        return None
    if not isinstance(type.element_type, Float32Type | Float64Type | IntegerType):
        return None
    if not isinstance(update, aa.AddIOp) and not _is_plain_sum(update):
        return None
    store = _only_user(update.results[0])
    if not isinstance(store, aa.TiledStoreOp) or store.value is not update.results[0]:
        return None
    if place_of_access(store) != place_of_access(load) or store.parent is not load.parent:
        return None
    return LockSum(load, update, store)


def _is_plain_sum(update: aa.AddFOp | aa.FmaOp) -> bool:
    """Whether numbers are rounded to the nearest, and small ones stay."""
    is_nearest = update.rounding_mode.data is RoundingMode.NEAREST_EVEN
    return is_nearest and update.flush_to_zero is None


def _only_user(value: SSAValue) -> object:
    """The one operation that uses a value, and uses it once."""
    uses = list(value.uses)
    return uses[0].operation if isinstance(value, OpResult) and len(uses) == 1 else None
