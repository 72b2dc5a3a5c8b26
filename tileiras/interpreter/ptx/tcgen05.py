"""Products of the fifth-generation tensor core (PTX ISA, "tcgen05.mma", "Instruction
descriptor", "Data path layout", "Scale factor layout").

A product is asynchronous: it happens when `tcgen05.commit` is waited for, after everything that
was issued before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.barriers import arrive, owner_of
from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.descriptors import read_matrix, tcgen05_descriptor
from tileiras.interpreter.ptx.elements import (
    BITS,
    element_values,
    integer_words,
    rounded_words,
    split_words,
)
from tileiras.interpreter.ptx.formats import FORMATS, decode
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Address, Immediate, Vector
from tileiras.interpreter.ptx.tmem import LANES, pair_of, tmem_address, tmem_of
from tileiras.interpreter.ptx.types import B32, B64, PRED, TYPES

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_SMALL = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_FORMATS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _SMALL,
    "mxf8f6f4": _SMALL,
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Element types by their codes in the instruction descriptor."""

_DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_WIDE_DEPTH = 96
"""K of mxf4 kinds where bit 31 of the instruction descriptor is set."""


@dataclass(frozen=True)
class Instruction:
    """An instruction descriptor read: sizes, types, layouts."""

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    mn_major: tuple[bool, bool]
    signs: float
    saturates: bool
    scale_type: str
    scale_ids: tuple[int, int]


def read_instruction(word: int, kind: str) -> Instruction:
    """The 32 bits of an instruction descriptor; ValueError for what the kind does not know."""
    formats = _FORMATS[kind]
    is_scaled = kind.startswith("mx")
    a_code = word >> 7 & 7
    b_code = word >> 10 & (3 if kind.startswith("mxf4") else 7)
    if a_code not in formats or b_code not in formats:
        raise ValueError(f"types {a_code} and {b_code} in an instruction descriptor of {kind}")
    if word >> 2 & 1:
        raise ValueError("sparse products are not supported")
    signs = (-1.0) ** (word >> 13 & 1) * (-1.0) ** (word >> 14 & 1)
    mn_major = bool(word >> 15 & 1), bool(word >> 16 & 1)
    n = 8 * (word >> 17 & 63)
    depth = _DEPTH[kind]
    if is_scaled:
        m = 128 * (word >> 27 & 3)
        if kind.startswith("mxf4") and word >> 31 & 1:
            depth = _WIDE_DEPTH
        scale = "ue8m0" if word >> 23 & 1 else "e4m3"
        ids = word >> 29 & 3, word >> 4 & 3
        return Instruction(
            m, n, depth, formats[a_code], formats[b_code], "f32", mn_major, signs, False, scale, ids
        )
    m = 16 * (word >> 24 & 31)
    result = {0: "f16", 1: "f32", 2: "s32"}.get(word >> 4 & 3)
    if result is None or (result == "s32") != (kind == "i8"):
        raise ValueError("the type of d in an instruction descriptor does not fit the kind")
    return Instruction(
        m,
        n,
        depth,
        formats[a_code],
        formats[b_code],
        result,
        mn_major,
        signs,
        bool(word >> 3 & 1),
        "",
        (0, 0),
    )


@dataclass(frozen=True)
class _Issue:
    """One product issued by one thread: all operand values."""

    group: int
    kind: str
    d: int
    a: int
    a_in_tmem: bool
    b: int
    instruction: Instruction
    scales: tuple[int, int] | None
    scale_count: int
    adds: bool
    shift: int
    disabled: tuple[int, ...]
    line: int


_SCALES = {
    "scale_vec::1X": 1,
    "scale_vec::2X": 2,
    "scale_vec::4X": 4,
    "block16": 16,
    "block32": 32,
}


def _collect(cta: Cta, issue: _Issue, usage: str, thread: int) -> None:
    """Whether the collector buffer has A where an instruction takes it from there; what it has now.

    PTX ISA, "tcgen05.mma", `.collector_usage`: what was filled in has to be valid still.
    """
    wanted = (issue.group, issue.kind, issue.a, issue.a_in_tmem, issue.shift)
    if usage in ("a::use", "a::lastuse") and cta.collected != wanted:
        cta.fault(issue.line, "the collector buffer was not filled with this A", thread)
    cta.collected = wanted if usage in ("a::fill", "a::use") else None


@rule("tcgen05.mma")
def multiply(d: Decoder) -> Execute:
    """`tcgen05.mma.cta_group.kind{.block_scale}` with A in shared or tensor memory."""
    if d.flag("ws") or d.flag("sp") or d.flag("ashift"):
        d.error("not supported")
    group = int((d.choice("cta_group::1", "cta_group::2") or d.error("expected .cta_group"))[-1])
    kind = d.starting("kind::")
    if kind not in _KINDS:
        d.error("unknown kind")
    is_scaled = d.flag("block_scale")
    scale = d.choice(*_SCALES)
    usage = ""
    while found := d.starting("collector::"):
        usage = found
    if is_scaled != kind.startswith("mx"):
        d.error("the kind and .block_scale do not fit")
    scale_count = _scale_count(kind, scale)
    to = tmem_address(d, d.operands[0])
    a_in_tmem = isinstance(d.operands[1], Address)
    read_a = d.address(1) if a_in_tmem else d.src(1, B64)
    read_b, read_instruction_word = d.src(2, B64), d.src(3, B32)
    rest = d.operands[4:]
    scale_reads = [tmem_address(d, item) for item in (rest[:2] if is_scaled else ())]
    rest = rest[2:] if is_scaled else rest
    masks = [d.src(item, B32) for item in rest[0].items] if isinstance(rest[0], Vector) else []
    rest = rest[1:] if masks else rest
    enable = d.src(rest[0], PRED)
    shift = rest[1].value if len(rest) > 1 and isinstance(rest[1], Immediate) else 0
    line, text = d.line, d.text

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:

            def value(read: Any, thread: Any = thread) -> int:
                return int(spread(read(cta), cta)[thread])

            try:
                instruction = read_instruction(value(read_instruction_word), kind)
            except ValueError as error:
                cta.fault(line, str(error), int(thread))
            issue = _Issue(
                group,
                kind,
                value(to),
                value(read_a),
                a_in_tmem,
                value(read_b),
                instruction,
                (value(scale_reads[0]), value(scale_reads[1])) if is_scaled else None,
                scale_count(instruction.k) if scale_count else 0,
                bool(value(enable)),
                int(shift),
                tuple(value(mask) for mask in masks),
                line,
            )
            _collect(cta, issue, usage, int(thread))
            starts = None if cta.shadow is None else cta.shadow.issue(int(thread))

            def finish(issue: _Issue = issue, starts: Any = starts) -> None:
                _perform(cta, issue, starts)

            cta.cluster.later(finish, line, text)

    return run


def _scale_count(kind: str, scale: str | None) -> Any:
    """How many scale factors a row of K elements has, by K."""
    if not kind.startswith("mx"):
        return None
    if scale is None:
        scale = {"mxf8f6f4": "block32", "mxf4": "block32"}.get(kind, "block16")
    if scale.startswith("block"):
        return lambda k: k // _SCALES[scale]
    return lambda k: _SCALES[scale]


def _perform(cta: Cta, issue: _Issue, starts: Any) -> None:
    """Computes a product: rows of A and columns of B come from each CTA of the group."""
    ctas, instruction = pair_of(cta, issue.group), issue.instruction
    count = len(ctas)
    rows, columns = instruction.m // count, instruction.n // count
    try:
        b_parts = [_b_operand(owner, issue, columns, starts) for owner in ctas]
        b = np.concatenate(b_parts)
        for owner in ctas:
            a = _a_operand(owner, issue, rows, starts)
            scaled_b = b
            if issue.scales is not None:
                block = instruction.k // issue.scale_count
                ids = instruction.scale_ids
                scale_a = _scales(owner, issue, issue.scales[0], rows, ids[0])
                scale_b = _scales(owner, issue, issue.scales[1], instruction.n, ids[1])
                a = a * np.repeat(scale_a, block, axis=1)
                scaled_b = b * np.repeat(scale_b, block, axis=1)
            _accumulate(owner, issue, rows, (a @ scaled_b.T) * instruction.signs)
    except ValueError as error:
        cta.fault(issue.line, str(error))
    except IndexError:
        cta.fault(issue.line, "an operand lies outside of shared or tensor memory")


def _b_operand(cta: Cta, issue: _Issue, columns: int, starts: Any) -> np.ndarray:
    instruction = issue.instruction
    values, at = read_matrix(
        cta.shared,
        tcgen05_descriptor(issue.b),
        columns,
        instruction.k,
        instruction.b,
        instruction.mn_major[1],
        issue.kind.startswith("mxf4"),
    )
    if cta.shadow is not None:
        cta.shadow.async_read(cta, starts, at, issue.line)
    return values


def _a_operand(cta: Cta, issue: _Issue, rows: int, starts: Any) -> np.ndarray:
    instruction = issue.instruction
    if not issue.a_in_tmem:
        values, at = read_matrix(
            cta.shared,
            tcgen05_descriptor(issue.a),
            rows,
            instruction.k,
            instruction.a,
            instruction.mn_major[0],
            issue.kind.startswith("mxf4"),
        )
        if cta.shadow is not None:
            cta.shadow.async_read(cta, starts, at, issue.line)
        return values
    bits = BITS[instruction.a] if issue.kind.startswith("mxf4") else max(BITS[instruction.a], 8)
    first = issue.a & 0xFFFF
    cells = first + np.arange(instruction.k * bits // 32)
    memory = tmem_of(cta)
    memory.check_owned(cta, cells, issue.line)
    words = memory.cells[_lanes(rows, issue.a >> 16)][:, cells]
    return element_values(split_words(words, bits), instruction.a)


def _lanes(rows: int, first: int = 0) -> np.ndarray:
    """The lane of every row: 64 rows take the lower half of each quarter."""
    row = np.arange(rows)
    if rows == 64:
        return row // 16 * 32 + row % 16 + first
    return row + first


def _scales(cta: Cta, issue: _Issue, address: int, rows: int, identifier: int) -> np.ndarray:
    """Scale factors: row r in lane r % 32, column r / 32, from byte `identifier` on; every
    quarter of the lanes holds the same (PTX ISA, "Scale factor layout")."""
    memory, first = tmem_of(cta), address & 0xFFFF
    count = issue.scale_count
    cells = first + np.arange(-(-rows // 32) * max(1, -(-count // 4)))
    memory.check_owned(cta, cells, issue.line)
    quarters = memory.cells[:, cells].reshape(4, 32, len(cells))
    if (quarters != quarters[0]).any():
        cta.fault(issue.line, "scale factors differ between the quarters of tensor memory")
    row = np.arange(rows)
    words = quarters[0][row % 32, row // 32]
    parts = np.ascontiguousarray(words).view(np.uint8).reshape(rows, 4)
    chosen = np.ascontiguousarray(parts[:, identifier : identifier + count])
    if chosen.shape[1] != count:
        raise ValueError(f"{count} scale factors from byte {identifier} on")
    if issue.instruction.scale_type == "ue8m0":
        return decode(chosen, FORMATS["ue8m0"])
    # ue4m3 has 7 bits.
    return decode(chosen & np.uint8(0x7F), FORMATS["e4m3"])


def _accumulate(cta: Cta, issue: _Issue, rows: int, total: np.ndarray) -> None:
    """Adds to, or writes, the accumulator in tensor memory."""
    instruction, memory = issue.instruction, tmem_of(cta)
    lane, column = issue.d >> 16, issue.d & 0xFFFF
    n = np.arange(instruction.n)
    if issue.group == 2 and instruction.m == 128:
        half = instruction.n // 2
        lanes = np.arange(rows)[:, None] + 64 * (n >= half) + lane
        columns = np.broadcast_to(column + n % half, lanes.shape)
    else:
        lanes = np.broadcast_to(_lanes(rows, lane)[:, None], total.shape)
        columns = np.broadcast_to(column + n, total.shape)
    memory.check_owned(cta, columns, issue.line)
    if lanes.max() >= LANES:
        cta.fault(issue.line, f"the accumulator ends in lane {int(lanes.max())}")
    value = total
    if issue.adds:
        before = memory.cells[lanes, columns]
        match instruction.d:
            case "s32":
                old = before.view(np.int32).astype(np.float64)
            case "f16":
                old = element_values(before & np.uint32(0xFFFF), "f16")
            case _:
                old = before.view(np.float32).astype(np.float64)
        value = total + np.ldexp(old, -issue.shift)
    if instruction.d == "s32":
        words = integer_words(value, instruction.saturates)
    else:
        words = rounded_words(value, instruction.d).astype(np.uint32)
    if issue.disabled:
        number = cta.rank & 1 if issue.group == 2 else 0
        masks = np.array(issue.disabled, np.uint64)[4 * number : 4 * number + 4]
        off = masks[lanes // 32] >> (lanes % 32).astype(np.uint64) & np.uint64(1)
        words = np.where(off != 0, memory.cells[lanes, columns], words)
    memory.cells[lanes, columns] = words


@rule("tcgen05.commit")
def commit(d: Decoder) -> Execute:
    """`tcgen05.commit [mbarrier]`: an arrival when everything issued before is done."""
    group = int((d.choice("cta_group::1", "cta_group::2") or d.error("expected .cta_group"))[-1])
    if not d.flag("mbarrier::arrive::one"):
        d.error("expected .mbarrier::arrive::one")
    d.choice("shared::cluster", "shared::cta")
    is_multicast = d.flag("multicast::cluster")
    if not d.flag("b64"):
        d.error("expected .b64")
    address, line, text = d.address(0), d.line, d.text
    mask = d.src(1, TYPES["u16"], widens=True) if is_multicast else None
    del group

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:
            owner, offset = owner_of(cta, int(spread(address(cta), cta)[thread]), line)
            ranks = [owner.rank]
            if mask is not None:
                bits = int(spread(mask(cta), cta)[thread])
                ranks = [rank for rank in range(len(cta.cluster.ctas)) if bits >> rank & 1]
            clock = None if cta.shadow is None else cta.shadow.issue(int(thread))
            for rank in ranks:

                def finish(rank: int = rank, offset: int = offset, clock: Any = clock) -> None:
                    barrier = cta.cluster.ctas[rank].mbarriers.get(offset)
                    if barrier is None:
                        cta.fault(line, f"no mbarrier at shared address {offset:#x}")
                    arrive(cta, barrier, 1, line, clock)

                cta.cluster.later(finish, line, text)

    return run
