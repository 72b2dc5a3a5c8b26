"""NVIDIA's disassembler as a black box: it accepts what we write, and refuses what we refuse."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bytecode.modules import entry_op, global_op, module_of
from tileiras.bytecode.format import VERSIONS, Section
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.sections import put_section
from tileiras.bytecode.writer import write_module
from tileiras.errors import BytecodeError

from .files import File, corpus_files, join, needs_corpus, split

pytestmark = pytest.mark.oracle

STRICTER = (
    "is not valid UTF-8",
    "is out of order or beyond",
    "unknown flags",
    "does not end within ten bytes",
)
"""Where the reader refuses what the disassembler does not look at; see docs/bytecode.md."""


def disassembler() -> str:
    """The program beside $VENDOR_TILEIRAS."""
    compiler = os.environ.get("VENDOR_TILEIRAS") or shutil.which("nvidia-tileiras")
    assert compiler is not None
    return str(Path(compiler).with_name("tileirdisasm"))


def vendor_accepts(data: bytes, path: Path) -> bool:
    """Whether the disassembler reads a file."""
    path.write_bytes(data)
    result = subprocess.run([disassembler(), str(path)], capture_output=True, timeout=30)
    assert result.returncode in (0, 3), result.stderr
    return result.returncode == 0


def we_accept(data: bytes) -> str:
    """Empty if we read a file, else the message."""
    try:
        read_module(data)
    except BytecodeError as error:
        return error.message
    return ""


@pytest.mark.parametrize("version", VERSIONS)
def test_vendor_reads_what_we_write(version, tmp_path):
    module = module_of(global_op(), entry_op(name="a"), entry_op(name="b"))
    assert vendor_accepts(write_module(module, version), tmp_path / "a.bc")
    assert vendor_accepts(write_module(module_of(), version), tmp_path / "b.bc")


@needs_corpus
def test_vendor_reads_corpus_files_numbered_anew(tmp_path):
    for path in corpus_files()[::40]:
        data = path.read_bytes()
        written = write_module(read_module(data), (data[8], data[9]))
        assert vendor_accepts(written, tmp_path / "a.bc"), path.name


@needs_corpus
def test_vendor_refuses_no_damaged_file_that_we_refuse_less(tmp_path):
    """We refuse what it refuses while reading; what it refuses later is for the verifiers."""
    rng = random.Random(3)
    paths = [path for path in corpus_files() if path.stat().st_size < 1500]
    for _ in range(150):
        data = bytearray(rng.choice(paths).read_bytes())
        data[rng.randrange(12, len(data))] ^= 1 << rng.randrange(8)
        message = we_accept(bytes(data))
        if message and not any(known in message for known in STRICTER):
            assert not vendor_accepts(bytes(data), tmp_path / "a.bc"), message


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flags", [0, 1, 2, 3, 4, 8, 10, 0x82])
def test_same_verdict_on_function_flags(version, flags, tmp_path):
    data = File(version=version).build()
    sections = split(data)
    function = bytearray(sections[Section.FUNC])
    function[3] = flags
    sections[Section.FUNC] = bytes(function)
    data = join(version, sections)
    assert vendor_accepts(data, tmp_path / "a.bc") == (not we_accept(data))


@pytest.mark.parametrize(
    ("number", "alignment"),
    [(1, 1), (1, 3), (1, 8), (2, 4), (2, 16), (3, 4), (4, 4), (5, 2), (6, 4), (7, 2)],
)
def test_same_verdict_on_alignments(number, alignment, tmp_path):
    out = bytearray(File().build()[:-1])
    out += bytes([number | 0x80, 1, alignment])
    out += bytes(-len(out) % alignment) + b"\0\0"
    data = bytes(out)
    assert vendor_accepts(data, tmp_path / "a.bc") == (not we_accept(data))


@pytest.mark.parametrize("payload", [b"\0", b"\1", b"", b"\x81", b"\0\0"])
def test_same_verdict_on_producers(payload, tmp_path):
    out = bytearray(File().build()[:-1])
    put_section(out, Section.PRODUCER, payload, 0)
    data = bytes([*out, 0])
    assert vendor_accepts(data, tmp_path / "a.bc") == (not we_accept(data))
