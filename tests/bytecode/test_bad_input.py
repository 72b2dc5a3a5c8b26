"""Damaged files: whatever the bytes, reading ends quickly with a module or a BytecodeError."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.bytecode.kernels import kernel
from tileiras.bytecode.format import V13_1, V13_5, Section, Version
from tileiras.bytecode.opcodes import OPERATIONS
from tileiras.bytecode.reader import read_layout, read_module
from tileiras.bytecode.writer import write_module
from tileiras.errors import BytecodeError

from .files import File, corpus_files, join, needs_corpus, split, varint

SECONDS = 2.0
"""Far more than any file here may take; reading one takes milliseconds."""


def check(data: bytes) -> bool:
    """Whether data is read; anything but a module or a BytecodeError within the file fails."""
    start = time.perf_counter()
    try:
        read_module(data)
        read_layout(data)
    except BytecodeError as error:
        assert error.offset is None or 0 <= error.offset <= len(data)
        return False
    finally:
        assert time.perf_counter() - start < SECONDS
    return True


def all_operations(version: Version) -> bytes:
    """A file with every operation of a version."""
    rows = [row for row in OPERATIONS if row.since <= version]
    return write_module(kernel(*rows, version=version), version)


def damage(data: bytes, rng: random.Random) -> bytes:
    """One file with a few bytes changed, removed or repeated behind the header."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(12, len(out))
        match rng.randrange(6):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.randrange(256)
            case 2:
                out[at] = rng.choice((0, 0x7F, 0x80, 0xFF))
            case 3:
                del out[at : at + rng.randrange(1, 9)]
            case 4:
                out[at:at] = out[at : at + rng.randrange(1, 9)]
            case _:
                out[at:at] = b"\xff" * rng.randrange(1, 12)
        if len(out) < 16:
            break
    return bytes(out)


@pytest.mark.parametrize("version", [V13_1, V13_5])
def test_file_cut_anywhere_is_refused(version):
    data = all_operations(version)
    step = max(1, len(data) // 500)
    assert check(data)
    assert not any(check(data[:size]) for size in range(0, len(data), step))


@pytest.mark.parametrize("version", [V13_1, V13_5])
def test_fuzz_of_a_file_with_every_operation(version, fuzz_round):
    data = all_operations(version)
    rng = random.Random(f"operations {fuzz_round}")
    refused = sum(not check(damage(data, rng)) for _ in range(500))
    assert refused > 150


@needs_corpus
def test_fuzz_of_corpus_files(fuzz_round):
    rng = random.Random(f"corpus {fuzz_round}")
    paths = [path for path in corpus_files() if path.stat().st_size < 2000]
    refused = sum(not check(damage(rng.choice(paths).read_bytes(), rng)) for _ in range(3000))
    assert refused > 1000


@needs_corpus
def test_corpus_files_cut_anywhere_are_refused():
    paths: list[Path] = corpus_files()[::200]
    for path in paths:
        data = path.read_bytes()
        assert not any(check(data[:size]) for size in range(0, len(data), 3))


@pytest.mark.parametrize("section", [Section.STRING, Section.TYPE, Section.CONSTANT])
@pytest.mark.parametrize("count", [2**20, 2**31, 2**63, 2**64 - 1])
def test_huge_counts_cost_nothing(section, count):
    sections = split(File().build()) | {section: varint(count) + bytes(64)}
    assert not check(join((13, 4), sections))


@pytest.mark.parametrize(
    "body",
    [
        bytes([92]) + varint(2**60),
        bytes([92, 0]) + varint(2**60),
        bytes([38, 0]) + varint(2**60),
        bytes([88, 0, 0]) + varint(2**60),
        bytes([65, 0, 0, 1]) + varint(2**60),
        bytes([65, 0, 0, 1, 1]) + varint(2**60),
        bytes([65, 0, 0, 1, 1, 0]) + varint(2**60),
        bytes([83, 0]) + varint(2**60),
    ],
)
def test_huge_counts_in_records_cost_nothing(body):
    assert not check(File(body=body).build())


def test_large_tile_with_little_data_costs_nothing():
    # A splat of 2^24 bits, and data that would have to be 2^21 bytes.
    tile = b"\x0d\x01\x01" + (2**24).to_bytes(8, "little")
    body = bytes([16, 2, 0, 92, 0, 0])
    assert check(File(body=body, types=[b"\0", tile], constants=[b"\xff"]).build())
    assert not check(File(body=body, types=[b"\0", tile], constants=[b"\xff\xff"]).build())


def test_more_functions_than_bytes_are_refused():
    sections = split(File().build())
    sections[Section.FUNC] = varint(2**40) + sections[Section.FUNC][1:]
    assert not check(join((13, 4), sections))
