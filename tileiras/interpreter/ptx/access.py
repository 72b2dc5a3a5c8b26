"""Loads, stores and atomics (PTX ISA, "ld", "st", "atom", "red")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.floating import Finish, finished, fuse, split
from tileiras.interpreter.ptx.formats import FORMATS, exact_sum, flush
from tileiras.interpreter.ptx.memory import ARENA, LOCAL_WINDOW, OFFSET_MASK, RANK_SHIFT, Bytes
from tileiras.interpreter.ptx.moving import windows
from tileiras.interpreter.ptx.program import Reg, Sink
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.types import B64, PtxType, bits_type

SPACES = (
    "global",
    "const",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "param",
    "param::entry",
    "param::func",
)
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L2::cache_hint")
_ORDER = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
SCOPES = ("cta", "cluster", "gpu", "sys")

ASYNCHRONOUS: dict[str, Callable[[Decoder], Execute]] = {}
"""`st.async` and `red.async`, which belong to the bulk copies (`bulk`) that put them here."""


@dataclass
class Place:
    """Where some of the threads access: offsets into a range of bytes.

    `cta` owns the bytes if they are shared memory. `rows` are positions among the threads.
    """

    bytes: Bytes
    at: np.ndarray
    rows: Any
    cta: Cta | None = None


def locate(
    cta: Cta, threads: np.ndarray, space: str, address: np.ndarray, size: int, line: int
) -> Iterator[Place]:
    """The places of one access of `size` bytes per thread; faults are errors of `line`.

    `threads` and `address` (uint64) have one entry per accessing thread.
    """
    misplaced = address % np.uint64(size) != 0
    if misplaced.any():
        first = int(np.flatnonzero(misplaced)[0])
        message = f"address {int(address[first]):#x} is not a multiple of {size}"
        cta.fault(line, message, int(threads[first]))
    everything = slice(None)
    match space:
        case "shared" | "shared::cta" | "shared::cluster":
            yield from _shared(cta, threads, address, size, line, everything)
        case "local" | "param::func":
            yield _local(cta, threads, address, size, line, everything)
        case "":
            yield from _generic(cta, threads, address, size, line)
        case _:
            yield _global(cta, threads, address, size, line, everything)


def _generic(
    cta: Cta, threads: np.ndarray, address: np.ndarray, size: int, line: int
) -> Iterator[Place]:
    in_shared, in_local = windows(address)
    if not in_shared.any() and not in_local.any():
        yield _global(cta, threads, address, size, line, slice(None))
        return
    rest = ~in_shared & ~in_local
    if in_shared.any():
        rows = np.flatnonzero(in_shared)
        low = address[rows] & np.uint64(0xFFFFFFFF)
        yield from _shared(cta, threads[rows], low, size, line, rows)
    if in_local.any():
        rows = np.flatnonzero(in_local)
        yield _local(cta, threads[rows], address[rows] - np.uint64(LOCAL_WINDOW), size, line, rows)
    if rest.any():
        rows = np.flatnonzero(rest)
        yield _global(cta, threads[rows], address[rows], size, line, rows)


def _global(
    cta: Cta, threads: np.ndarray, address: np.ndarray, size: int, line: int, rows: Any
) -> Place:
    at = address.astype(np.int64) - ARENA
    bad = cta.grid.memory.outside(at, size)
    if bad is not None:
        first = int(np.flatnonzero(bad)[0])
        message = f"address {int(address[first]):#x} is in no allocation ({size} bytes)"
        cta.fault(line, message, int(threads[first]))
    return Place(cta.grid.memory, at, rows)


def _local(
    cta: Cta, threads: np.ndarray, address: np.ndarray, size: int, line: int, rows: Any
) -> Place:
    inside = address.astype(np.int64)
    bad = inside + size > cta.local_size
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        message = f"local address {int(inside[first]):#x} is outside of {cta.local_size} bytes"
        cta.fault(line, message, int(threads[first]))
    return Place(cta.local, inside + threads * cta.local_size, rows)


def _shared(
    cta: Cta, threads: np.ndarray, address: np.ndarray, size: int, line: int, rows: Any
) -> Iterator[Place]:
    rank = (address >> np.uint64(RANK_SHIFT)).astype(np.int64)
    at = (address & np.uint64(OFFSET_MASK)).astype(np.int64)
    bad = (at + size > cta.shared.size) | (rank >= len(cta.cluster.ctas))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        message = (
            f"shared address {int(address[first]):#x} is outside of the CTA's "
            f"{cta.shared.size} bytes"
        )
        cta.fault(line, message, int(threads[first]))
    if (rank == rank[0]).all():
        owner = cta.cluster.ctas[int(rank[0])]
        yield Place(owner.shared, at, rows, owner)
        return
    positions = np.arange(len(at)) if isinstance(rows, slice) else rows
    for number in np.unique(rank):
        chosen = np.flatnonzero(rank == number)
        owner = cta.cluster.ctas[int(number)]
        yield Place(owner.shared, at[chosen], positions[chosen], owner)


# ld, st ---------------------------------------------------------------------------------------


@dataclass
class _Access:
    """What the modifiers of an access say."""

    space: str
    type: PtxType
    vector: int
    is_strong: bool
    acquires: bool = False
    releases: bool = False


def _modifiers(d: Decoder) -> _Access:
    type_ = d.type()
    order = d.choice(*_ORDER)
    d.choice(*SCOPES)
    d.flag("mmio")
    d.choice("unified")
    vector = {"v2": 2, "v4": 4, "v8": 8}.get(d.choice("v2", "v4", "v8") or "", 1)
    space = d.choice(*SPACES) or ""
    while d.choice(*_CACHE) or d.starting("L1::") or d.starting("L2::"):
        pass
    strong = order is not None and order != "weak"
    acquires = order in ("acquire", "acq_rel", "relaxed", "volatile")
    return _Access(space, type_, vector, strong, acquires, order in ("release", "acq_rel"))


def _resolved_space(d: Decoder, space: str, operand: Any) -> str:
    """`param` may mean the caller's local variables; a variable's own space wins."""
    own = d.space_of(operand)
    if space.startswith("param"):
        if own is None:
            return "param"
        return "local" if own == "local" else "param"
    return space


def yields(d: Decoder, run: Execute) -> Execute:
    """After the instruction other threads go first: it may be part of a loop that waits."""
    d.is_control = True

    def then_yield(cta: Cta, on: Active) -> None:
        run(cta, on)
        cta.pc[on.mask] += 1
        cta.yielded[on.mask] = True

    return then_yield


def _word(type_: PtxType) -> tuple[PtxType, int]:
    """Memory words of a type and how many there are: 128 bits are two of 64."""
    return (B64, 2) if type_.bits == 128 else (type_, 1)


@rule("ld", "ldu")
def load(d: Decoder) -> Execute:
    """`ld{.order}{.space}{.cache}{.vec}.type d, [a]`."""
    access = _modifiers(d)
    d.count(2, 3)
    space = _resolved_space(d, access.space, d.operands[1])
    type_, per_item = _word(access.type)
    address, line = d.address(1), d.line
    items = d.items(0)
    if len(items) != access.vector:
        d.error(f"{len(items)} registers for a vector of {access.vector}")
    writes = [d.dst(item, access.type, widens=True) for item in items]
    width, count = type_.bytes, access.vector * per_item
    acquires = access.acquires

    def run(cta: Cta, on: Active) -> None:
        index = on.index
        where = spread(address(cta), cta)[index]
        values = np.empty((len(index), count), type_.held)
        for place in locate(cta, index, space, where, width * count, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.read(cta, index[place.rows], place.at, width * count, line)
            values[place.rows] = place.bytes.gather(place.at, width, count)
        if acquires and cta.shadow is not None:
            cta.shadow.acquire(on, where)
        for i, write in enumerate(writes):
            _write_threads(cta, on, write, values, i, per_item)

    return yields(d, run) if access.is_strong else run


def _write_threads(
    cta: Cta, on: Active, write: Any, values: np.ndarray, column: int, per_item: int
) -> None:
    if per_item == 2:
        wide = np.zeros((cta.threads, 2), np.uint64)
        wide[on.index] = values[:, 2 * column : 2 * column + 2]
        write(cta, on, wide)
        return
    if on.is_full:
        write(cta, on, np.ascontiguousarray(values[:, column]))
        return
    full = np.zeros(cta.threads, values.dtype)
    full[on.index] = values[:, column]
    write(cta, on, full)


@rule("st")
def store(d: Decoder) -> Execute:
    """`st{.order}{.space}{.cache}{.vec}.type [a], b`."""
    if d.flag("async"):
        return ASYNCHRONOUS["st"](d)
    if d.flag("bulk"):
        d.error("not supported")
    access = _modifiers(d)
    d.count(2, 3)
    space = _resolved_space(d, access.space, d.operands[0])
    type_, per_item = _word(access.type)
    address, line = d.address(0), d.line
    items = d.items(1)
    if len(items) != access.vector:
        d.error(f"{len(items)} registers for a vector of {access.vector}")
    reads = [_store_reader(d, item, access.type) for item in items]
    width, count = type_.bytes, access.vector * per_item
    releases = access.releases or access.is_strong

    def run(cta: Cta, on: Active) -> None:
        index = on.index
        where = spread(address(cta), cta)[index]
        values = np.empty((len(index), count), type_.held)
        for i, read in enumerate(reads):
            value = read(cta)
            if per_item == 2:
                values[:, 2 * i : 2 * i + 2] = value[index]
            else:
                values[:, i] = value[index] if value.shape[0] > 1 else value
        if releases and cta.shadow is not None:
            cta.shadow.release(on, where)
        for place in locate(cta, index, space, where, width * count, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.write(cta, index[place.rows], place.at, width * count, line)
            place.bytes.scatter(place.at, values[place.rows])

    return run


def _store_reader(d: Decoder, item: Any, type_: PtxType) -> Callable[[Cta], np.ndarray]:
    if type_.bits == 128:
        if not isinstance(item, Reg):
            d.error("expected a register of 128 bits")
        slot = item.slot
        return lambda cta: cta.regs[slot]
    read = d.src(item, type_, widens=True)
    held = type_.held
    return lambda cta: read(cta).view(held)


# atom, red ------------------------------------------------------------------------------------

Combine = Callable[..., np.ndarray]


def _float_sum(type_: PtxType, ftz: bool) -> Combine:
    fmt = FORMATS[type_.name.removesuffix("x2")]

    def add(old: np.ndarray, value: np.ndarray) -> np.ndarray:
        parts = [
            finished(exact_sum(a, b), fmt, Finish())
            for a, b in zip(split(old, type_), split(value, type_))
        ]
        if ftz:
            parts = [flush(part, fmt) for part in parts]
        return fuse(parts, type_)

    return add


def combination(d: Decoder, name: str, type_: PtxType) -> Combine:
    """The function `new = f(old, b{, c})` of an atomic, on arrays of the type's bits."""
    seen, held = type_.seen, type_.held

    def typed(function: Combine) -> Combine:
        def run(old: np.ndarray, *values: np.ndarray) -> np.ndarray:
            arguments = [np.ascontiguousarray(value).view(seen) for value in (old, *values)]
            return function(*arguments).astype(seen).view(held)

        return run

    match name:
        case "add" if type_.is_integer or type_.name == "f64":
            return typed(np.add)
        case "add":
            return _float_sum(type_, False)
        case "min" | "max":
            if not type_.is_integer:
                return _packed_extreme(type_, name == "max")
            return typed(np.minimum if name == "min" else np.maximum)
        case "inc":
            return typed(lambda a, b: np.where(a >= b, 0, a + seen.type(1)))
        case "dec":
            return typed(lambda a, b: np.where((a == 0) | (a > b), b, a - seen.type(1)))
        case "and":
            return typed(np.bitwise_and)
        case "or":
            return typed(np.bitwise_or)
        case "xor":
            return typed(np.bitwise_xor)
        case "exch":
            return lambda old, value: value
        case "cas":
            return lambda old, wanted, value: np.where(old == wanted, value, old)
    return d.error("expected an operation")


def _packed_extreme(type_: PtxType, is_max: bool) -> Combine:
    def run(old: np.ndarray, value: np.ndarray) -> np.ndarray:
        choose = np.fmax if is_max else np.fmin
        return fuse([choose(a, b) for a, b in zip(split(old, type_), split(value, type_))], type_)

    return run


_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@rule("atom", "red")
def atomic(d: Decoder) -> Execute:
    """`atom.op.type d, [a], b{, c}`, `red.op.type [a], b`; threads go in order of their number."""
    if d.flag("async"):
        return ASYNCHRONOUS["red"](d)
    type_ = d.type()
    order = d.choice("relaxed", "acquire", "release", "acq_rel")
    d.choice(*SCOPES)
    d.choice("noftz")
    d.flag("L2::cache_hint")
    vector = {"v2": 2, "v4": 4, "v8": 8}.get(d.choice("v2", "v4", "v8") or "", 1)
    space = d.choice("global", "shared", "shared::cta", "shared::cluster") or ""
    name = d.choice(*_OPERATIONS)
    has_result = d.opcode == "atom"
    combine = combination(d, name or "", type_)
    if type_.bits == 128:
        return yields(d, _atomic_wide(d, space, name or "", has_result))
    first = 1 if has_result else 0
    address, line = d.address(first), d.line
    wanted = 2 if name == "cas" else 1
    sources = [d.items(operand) for operand in d.operands[first + 1 : first + 1 + wanted]]
    if len(sources) != wanted or any(len(items) != vector for items in sources):
        d.error("operands do not fit the vector or the operation")
    reads = [[d.src(item, bits_type(type_.bits)) for item in items] for items in sources]
    results = d.items(0) if has_result else ()
    writes = [d.dst(item, bits_type(type_.bits)) for item in results]
    del order

    def run(cta: Cta, on: Active) -> None:
        index = on.index
        where = spread(address(cta), cta)[index]
        values = [np.stack([spread(r(cta), cta)[index] for r in row], axis=1) for row in reads]
        old = np.zeros((len(index), vector), type_.held)
        if cta.shadow is not None:
            cta.shadow.release(on, where)
            cta.shadow.acquire(on, where)
        for place in locate(cta, index, space, where, type_.bytes * vector, line):
            given = [value[place.rows] for value in values]
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.atomic(cta, index[place.rows], place.at, type_.bytes, line)
            old[place.rows] = _apply(place, given, combine, type_.bytes, vector)
        for i, write in enumerate(writes):
            _write_threads(cta, on, write, old, i, 1)

    return yields(d, run) if has_result and not isinstance(d.operands[0], Sink) else run


def _apply(
    place: Place, values: list[np.ndarray], combine: Combine, width: int, vector: int
) -> np.ndarray:
    """Performs the operations: at once where no two meet, else one after the other in rounds."""
    old = np.zeros((len(place.at), vector), place.bytes.views[width].dtype)
    left = np.arange(len(place.at))
    while len(left):
        _, first = np.unique(place.at[left], return_index=True)
        now = left[np.sort(first)]
        before = place.bytes.gather(place.at[now], width, vector)
        old[now] = before
        columns = [
            combine(before[:, i].copy(), *(value[now, i].copy() for value in values))
            for i in range(vector)
        ]
        place.bytes.scatter(place.at[now], np.stack(columns, axis=1))
        left = np.setdiff1d(left, now, assume_unique=True)
    return old


def _atomic_wide(d: Decoder, space: str, name: str, has_result: bool) -> Execute:
    """`atom.{exch,cas}.b128`."""
    if name not in ("exch", "cas"):
        d.error("128 bits have exch and cas only")
    first = 1 if has_result else 0
    address, line = d.address(first), d.line
    slots = [operand.slot for operand in d.operands[first + 1 :]]
    write = d.dst(0, d.operands[0].type) if has_result else None

    def run(cta: Cta, on: Active) -> None:
        index = on.index
        where = spread(address(cta), cta)[index]
        old = np.zeros((cta.threads, 2), np.uint64)
        for row, thread in enumerate(index):
            one = np.array([thread])
            for place in locate(cta, one, space, where[row : row + 1], 16, line):
                before = place.bytes.gather(place.at, 8, 2)
                old[thread] = before[0]
                if name == "exch" or (before[0] == cta.regs[slots[0]][thread]).all():
                    place.bytes.scatter(place.at, cta.regs[slots[-1]][thread][None])
        if write:
            write(cta, on, old)

    return run
