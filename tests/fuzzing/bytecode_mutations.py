"""Damages bytecode by its structure: sections, tables, records, numbers; and byte by byte."""

from __future__ import annotations

import random

from tests.bytecode.files import join, split, varint
from tileiras.bytecode.format import VERSIONS, Section
from tileiras.errors import BytecodeError

EXTREMES = (0, 1, 2, 3, 63, 64, 127, 128, 255, 2**16, 2**24, 2**31, 2**32, 2**63, 2**64 - 1)
_OFFSETS = {Section.STRING: 4, Section.TYPE: 4, Section.CONSTANT: 8}
"""Sections that are a table, and the bytes of its offsets."""


def damaged_file(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The file with one to four damages, perhaps with parts of another one."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_DAMAGES)(data, rng, others)
    return data


def _in_section(data: bytes, rng: random.Random, change: object) -> bytes:
    """Changes the payload of one section and puts the file together again."""
    assert callable(change)
    try:
        sections = split(data)
    except BytecodeError:
        return _change_bytes(data, rng, [])
    number = rng.choice(list(sections) or [Section.FUNC])
    sections[number] = change(Section(number), sections.get(number, b""))
    version = (data[8], data[9])
    return join(version, sections)


def _change_bytes(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A byte flipped, set, left out or repeated."""
    out = bytearray(data)
    at = rng.randrange(len(out)) if out else 0
    size = rng.randrange(1, 9)
    match rng.randrange(5):
        case 0 if out:
            out[at] ^= 1 << rng.randrange(8)
        case 1 if out:
            out[at] = rng.choice((rng.randrange(256), 0, 0x7F, 0x80, 0xFF))
        case 2:
            del out[at : at + size]
        case 3:
            out[at:at] = out[at : at + size]
        case _:
            out[at:at] = b"\xff" * size
    return bytes(out)


def _change_number(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A variable-length integer of a section becomes another; what follows it stays whole."""

    def change(section: Section, payload: bytes) -> bytes:
        starts = [0, *(at + 1 for at, byte in enumerate(payload) if byte < 128)]
        at = rng.choice(starts)
        end = next((i + 1 for i in range(at, len(payload)) if payload[i] < 128), len(payload))
        old = sum((byte & 127) << 7 * i for i, byte in enumerate(payload[at:end]))
        near = (max(old - 1, 0), old + 1, old ^ 1, rng.randrange(130))
        new = rng.choice((*near, *near, rng.choice(EXTREMES)))
        return payload[:at] + varint(new & (2**64 - 1)) + payload[end:]

    return _in_section(data, rng, change)


def _change_table(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Items of a table change places, are doubled, lost, cut or changed."""

    def change(section: Section, payload: bytes) -> bytes:
        items = _items(payload, _OFFSETS.get(section, 0))
        if not items:
            return payload
        at, to = rng.randrange(len(items)), rng.randrange(len(items))
        match rng.randrange(5):
            case 0:
                items[at], items[to] = items[to], items[at]
            case 1:
                items.insert(to, items[at])
            case 2:
                del items[at]
            case 3:
                items[at] = items[at][: rng.randrange(len(items[at]) + 1)]
            case _:
                items[at] = _change_bytes(items[at], rng, [])
        return _table(items, _OFFSETS[section])

    return _in_section(data, rng, change)


def _items(payload: bytes, width: int) -> list[bytes]:
    """The items of a section that is a table with fewer than 128 of them; else none."""
    if not width or not payload or payload[0] > 127:
        return []
    first, count = width, payload[0]
    ends = [
        int.from_bytes(payload[first + width * i : first + width * (i + 1)], "little")
        for i in range(count)
    ]
    body = payload[first + width * count :]
    return [body[a:b] for a, b in zip(ends, [*ends[1:], len(body)])]


def _table(items: list[bytes], width: int) -> bytes:
    """The payload of a table of fewer than 128 items; offsets stand at a multiple of their size."""
    out, at = bytearray([min(len(items), 127)]), 0
    out += b"\xcb" * (width - 1)
    for item in items:
        out += at.to_bytes(width, "little")
        at += len(item)
    return bytes(out) + b"".join(items)


def _move_sections(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Sections are lost, emptied, or stand in another order or under another number."""
    try:
        sections = list(split(data).items())
    except BytecodeError:
        return data
    if not sections:
        return data
    rng.shuffle(sections)
    match rng.randrange(4):
        case 0:
            sections.pop()
        case 1:
            sections[0] = (sections[0][0], b"")
        case 2:
            sections[0] = (rng.choice([s for s in Section if s != Section.END]), sections[0][1])
        case _:
            pass
    return join((data[8], data[9]), dict(sections))


def _splice(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A section of another file in the place of this one's."""
    if not others:
        return data
    try:
        mine, theirs = split(data), split(rng.choice(others))
    except BytecodeError:
        return data
    number = rng.choice(list(theirs))
    return join((data[8], data[9]), mine | {number: theirs[number]})


def _change_version(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Another version in the header."""
    version = rng.choice((*VERSIONS, (13, 0), (0, 0), (255, 255)))
    return data[:8] + bytes(version) + data[10:]


def _cut(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


_DAMAGES = (
    *(_change_number, _change_number, _change_number, _change_bytes, _change_bytes),
    *(_change_table, _change_table, _splice, _move_sections, _change_version, _cut),
)
