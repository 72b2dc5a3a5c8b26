"""Bytecode files put together by hand, and found in the corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdsl.ir import Block, Operation

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.format import PADDING_BYTE, V13_4, V13_5, Section, Version
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.sections import put_header, put_section, read_sections
from tileiras.bytecode.streams import put_offset_table

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}")


def corpus_files() -> list[Path]:
    """All bytecode files of the corpus, none if it is not there."""
    return sorted(CORPUS.glob("*.tileirbc"))


def table(items: list[bytes], width: int) -> bytes:
    """The payload of a section that is one offset table."""
    out = bytearray()
    put_offset_table(out, items, width)
    return bytes(out)


def join(version: Version, sections: dict[int, bytes]) -> bytes:
    """A file of these sections, in this order."""
    out = bytearray()
    put_header(out, version)
    for number, payload in sections.items():
        put_section(out, Section(number), payload, PADDING_BYTE)
    out.append(Section.END)
    return bytes(out)


def split(data: bytes) -> dict[int, bytes]:
    """The section payloads of a file, in its order."""
    return {number: data[cursor.pos : cursor.end] for number, cursor in read_sections(data).items()}


@dataclass
class File:
    """A file with one entry `k`: type 0 is the entry's, `() -> ()` unless said otherwise."""

    body: bytes = bytes([92, 0, 0])
    """Records; by default a lone `return`."""
    version: Version = V13_4
    types: list[bytes] = field(default_factory=list)
    """Encoded types from id 1 on."""
    arguments: list[int] = field(default_factory=list)
    """Type ids of the entry's arguments, all below 128."""
    constants: list[bytes] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    """Strings from id 1 on."""
    location: int = 0
    sections: dict[int, bytes] = field(default_factory=dict)
    """Sections to add or replace."""

    def build(self) -> bytes:
        """The file's bytes."""
        signature = bytes([16, len(self.arguments), *self.arguments, 0])
        head = bytes([1, 0, 0, 2, self.location])
        if self.version >= V13_5:
            head += bytes([11, 0, 6, 0])
        sections = {
            Section.FUNC: head + varint(len(self.body)) + self.body,
            Section.CONSTANT: table([varint(len(c)) + c for c in self.constants], 8),
            Section.TYPE: table([signature, *self.types], 4),
            Section.STRING: table([b"k", *self.strings], 4),
        }
        return join(self.version, sections | self.sections)

    def read(self) -> Block:
        """The entry's block, as the reader sees it."""
        (kernels,) = read_module(self.build()).body.ops
        assert isinstance(kernels, ct.ModuleOp)
        entry = kernels.body.block.last_op
        assert isinstance(entry, ct.EntryOp)
        return entry.body.block

    def read_op(self) -> Operation:
        """The first operation of the entry."""
        op = self.read().first_op
        assert op is not None
        return op


def varint(value: int) -> bytes:
    """An unsigned LEB128."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def i32s(*values: int) -> bytes:
    """A counted array of 32-bit integers."""
    return bytes([len(values)]) + b"".join(v.to_bytes(4, "little", signed=True) for v in values)


def i64s(*values: int) -> bytes:
    """A counted array of 64-bit integers."""
    return bytes([len(values)]) + b"".join(v.to_bytes(8, "little", signed=True) for v in values)
