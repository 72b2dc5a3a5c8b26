"""Moves, comparisons, selections and address conversions (PTX ISA, "Data Movement and Conversion
Instructions", "Comparison and Selection Instructions")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.floating import split
from tileiras.interpreter.ptx.formats import FORMATS, flush
from tileiras.interpreter.ptx.memory import (
    LOCAL_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
)
from tileiras.interpreter.ptx.program import Reg, Sink
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.syntax import Vector
from tileiras.interpreter.ptx.types import B32, PRED, U64, PtxType, bits_type

_WINDOW = 1 << 32
"""Bytes of the windows of shared and local memory."""


@rule("mov")
def move(d: Decoder) -> Execute:
    """Copies a register, constant or address; packs and unpacks `{a, b}`."""
    type_ = d.type()
    d.count(2)
    if isinstance(d.operands[0], Vector):
        return _unpack(d, type_, d.operands[0].items)
    if isinstance(d.operands[1], Vector):
        return _pack(d, type_, d.operands[1].items)
    if type_.bits == 128:
        return _move_wide(d, type_)
    read, write = d.src(1, type_), d.dst(0, type_)
    return lambda cta, on: write(cta, on, read(cta))


def _move_wide(d: Decoder, type_: PtxType) -> Execute:
    source = d.operands[1]
    if not isinstance(source, Reg) or source.type.bits != 128:
        d.error("expected a register of 128 bits")
    slot, write = source.slot, d.dst(0, type_)
    return lambda cta, on: write(cta, on, cta.regs[slot])


def _part(d: Decoder, type_: PtxType, count: int) -> PtxType:
    if type_.bits % count or type_.bits // count not in (8, 16, 32, 64):
        d.error(f"a vector of {count} does not make {type_.bits} bits")
    return bits_type(type_.bits // count)


def _unpack(d: Decoder, type_: PtxType, items: tuple[Any, ...]) -> Execute:
    part = _part(d, type_, len(items))
    writes = [None if isinstance(item, Sink) else d.dst(item, part) for item in items]
    source = d.operands[1]
    if type_.bits == 128 and isinstance(source, Reg):
        slot = source.slot
        words: Callable[[Any], np.ndarray] = lambda cta: cta.regs[slot]  # noqa: E731
    else:
        words = d.src(1, bits_type(type_.bits))

    def run(cta: Any, on: Any) -> None:
        value = np.ascontiguousarray(words(cta))
        parts = value.view(part.held).reshape(-1, len(items)).copy()
        for i, write in enumerate(writes):
            if write is not None:
                write(cta, on, parts[:, i])

    return run


def _pack(d: Decoder, type_: PtxType, items: tuple[Any, ...]) -> Execute:
    part = _part(d, type_, len(items))
    reads = [d.src(item, part) for item in items]
    write = d.dst(0, type_)

    def run(cta: Any, on: Any) -> None:
        parts = np.stack([spread(read(cta), cta) for read in reads], axis=1)
        if type_.bits == 128:
            write(cta, on, np.ascontiguousarray(parts).view(np.uint64))
            return
        write(cta, on, np.ascontiguousarray(parts).view(type_.held)[:, 0])

    return run


# Addresses ------------------------------------------------------------------------------------


_SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
)
"""State spaces that generic addresses have windows of."""


@rule("cvta")
def convert_address(d: Decoder) -> Execute:
    """Between an address in a state space and the generic one."""
    is_to = d.flag("to")
    type_ = d.type()
    space = d.choice(*_SPACES)
    d.count(2)
    if space is None:
        d.error("expected a state space")
    window = {"s": SHARED_WINDOW, "l": LOCAL_WINDOW}.get(space[0], 0)
    step = type_.held.type((-window if is_to else window) % (1 << type_.bits))
    source = d.operands[1]
    read, write = d.src(source, bits_type(type_.bits)), d.dst(0, type_)
    return lambda cta, on: write(cta, on, read(cta) + step)


def windows(address: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which generic addresses are in the shared and which in the local window."""
    in_shared = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + _WINDOW)
    in_local = (address >= LOCAL_WINDOW) & (address < LOCAL_WINDOW + _WINDOW)
    return in_shared, in_local


@rule("isspacep")
def is_in_space(d: Decoder) -> Execute:
    """Whether a generic address lies in a window."""
    space = d.choice(*_SPACES)
    read, write = d.src(1, U64), d.dst(0, PRED)

    def run(cta: Any, on: Any) -> None:
        address = read(cta)
        in_shared, in_local = windows(address)
        match space:
            case "shared" | "shared::cta":
                rank = (address >> np.uint64(RANK_SHIFT)) & np.uint64(255)
                write(cta, on, in_shared & (rank == cta.rank))
            case "shared::cluster":
                write(cta, on, in_shared)
            case "local":
                write(cta, on, in_local)
            case _:
                write(cta, on, ~in_shared & ~in_local)

    return run


@rule("mapa")
def map_to_cta(d: Decoder) -> Execute:
    """The address of the same shared variable in the CTA of another rank."""
    type_ = d.type()
    d.flag("shared::cluster")
    read, rank = d.src(1, bits_type(type_.bits)), d.src(2, B32)
    write = d.dst(0, type_)
    kind = type_.held.type

    def run(cta: Any, on: Any) -> None:
        cleared = read(cta) & ~kind(255 << RANK_SHIFT)
        write(cta, on, cleared | (rank(cta).astype(kind) << kind(RANK_SHIFT)))

    return run


@rule("getctarank")
def rank_of_address(d: Decoder) -> Execute:
    """The rank of the CTA that a shared address belongs to."""
    type_ = d.type()
    d.flag("shared::cluster")
    read, write = d.src(1, bits_type(type_.bits)), d.dst(0, B32)

    def run(cta: Any, on: Any) -> None:
        value = read(cta).astype(np.uint64) >> np.uint64(RANK_SHIFT)
        write(cta, on, (value & np.uint64(255)).astype(np.uint32))

    return run


# Comparison -----------------------------------------------------------------------------------

Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]

_COMPARISONS: dict[str, Compare] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_BOOLEAN: dict[str, Compare] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _comparison(d: Decoder, type_: PtxType) -> Callable[[Any], list[np.ndarray]]:
    """Reads operands 1 and 2; one result, or one per half of a packed type."""
    name = d.choice(*_COMPARISONS)
    if name is None:
        d.error("expected a comparison")
    compare = _COMPARISONS[name]
    ftz = d.flag("ftz")
    read_a, read_b = d.src(1, type_), d.src(2, type_)
    if type_.is_integer or type_.name[0] == "b" and type_.name[1:].isdigit():
        if name == "ne":
            compare = np.not_equal
        if name in ("lo", "ls", "hi", "hs"):
            held = type_.held
            return lambda cta: [compare(read_a(cta).view(held), read_b(cta).view(held))]
        return lambda cta: [compare(read_a(cta), read_b(cta))]
    if type_.name == "f64" or (type_.name == "f32" and not ftz):
        return lambda cta: [compare(read_a(cta), read_b(cta))]
    fmt = FORMATS[type_.name.removesuffix("x2")]

    def by_value(cta: Any) -> list[np.ndarray]:
        pairs = zip(split(read_a(cta), type_), split(read_b(cta), type_))
        if ftz:
            return [compare(flush(a, fmt), flush(b, fmt)) for a, b in pairs]
        return [compare(a, b) for a, b in pairs]

    return by_value


@rule("setp")
def set_predicate(d: Decoder) -> Execute:
    """`setp.cmp{.bool}.type p|q, a, b{, c}`: q is the opposite, or the second half's result."""
    type_ = d.type()
    combine = d.choice(*_BOOLEAN)
    compare = _comparison(d, type_)
    first, second = d.pair(0)
    write, write_second = d.dst(first, PRED), d.dst(second, PRED)
    boolean = _BOOLEAN[combine] if combine else None
    read_c = d.src(3, PRED) if combine else None
    d.count(4 if combine else 3)

    def run(cta: Any, on: Any) -> None:
        results = compare(cta)
        if len(results) == 1:
            results.append(~results[0])
        if boolean and read_c:
            flag = read_c(cta)
            results = [boolean(result, flag) for result in results]
        write(cta, on, results[0])
        write_second(cta, on, results[1])

    return run


@rule("set")
def set_value(d: Decoder) -> Execute:
    """Like `setp`, as all ones or 1.0."""
    type_ = d.type()
    result = d.type()
    combine = d.choice(*_BOOLEAN)
    compare = _comparison(d, type_)
    write = d.dst(0, result)
    read_c = d.src(3, PRED) if combine else None
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    true = ones.get(result.name.removesuffix("x2"), (1 << (result.bits // 1)) - 1)
    if result.is_packed and result.name.removesuffix("x2") not in ones:
        true = 0xFFFF

    def run(cta: Any, on: Any) -> None:
        flags = compare(cta)
        if combine and read_c:
            flags = [_BOOLEAN[combine](flag, read_c(cta)) for flag in flags]
        held = result.held.type
        value = np.where(flags[0], held(true), held(0))
        if len(flags) == 2:
            if result.is_packed:
                value = value | np.where(flags[1], held(true << 16), held(0))
            else:
                low, high = held(0xFFFF), held(0xFFFF0000)
                value = np.where(flags[0], low, held(0)) | np.where(flags[1], high, held(0))
        write(cta, on, value)

    return run


@rule("selp")
def select_by_predicate(d: Decoder) -> Execute:
    """`a` where the predicate holds, else `b`."""
    type_ = d.type()
    d.count(4)
    read_a, read_b, flag = d.src(1, type_), d.src(2, type_), d.src(3, PRED)
    write = d.dst(0, type_)
    return lambda cta, on: write(cta, on, np.where(flag(cta), read_a(cta), read_b(cta)))


@rule("slct")
def select_by_sign(d: Decoder) -> Execute:
    """`a` where `c >= 0`, else `b`."""
    sign_type, type_ = d.type(), d.type()
    d.flag("ftz")
    read_a, read_b, read_c = d.src(1, type_), d.src(2, type_), d.src(3, sign_type)
    write = d.dst(0, type_)
    return lambda cta, on: write(cta, on, np.where(read_c(cta) >= 0, read_a(cta), read_b(cta)))
