"""Limits: time, size of the input, memory. Each is told, and none is reached by real programs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.robustness.processes import COMPILE, TILEIRAS, run
from tileiras import cli, driver, limits
from tileiras.bytecode.format import VERSIONS, Section
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.sections import put_header, put_section
from tileiras.bytecode.streams import put_offset_table, put_varint
from tileiras.bytecode.writer import write_module
from tileiras.errors import CompileError

BASE_MEMORY = 120 << 20
"""What the process takes for a small input, in bytes, with room to spare."""

CLOSING = "error: failed to compile Tile IR program\n"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# time


def test_time_limit_ends_the_process() -> None:
    """Exit code 5; says the limit and what was being done; nothing is left."""
    script = (
        "import tileiras_command, time; from tileiras import driver\n"
        "driver.verify_input = lambda *a, **k: time.sleep(60)\n"
        "tileiras_command.main()"
    )
    started = time.monotonic()
    done = run(*COMPILE, "--timeout=1.5", program=[sys.executable, "-c", script])
    assert time.monotonic() - started < 20
    assert done.returncode == 5
    first = "error: not compiled within 1.5 seconds, stopped at 'verify input'\n"
    assert done.stderr == first + CLOSING
    assert os.listdir() == []


def test_time_limit_ends_native_code() -> None:
    """Which no exception could."""
    script = (
        "import tileiras_command, ctypes; from tileiras import driver\n"
        "def forever(*_, **__):\n"
        "    while True: ctypes.CDLL(None).usleep(60_000_000)\n"
        "driver.verify_input = forever\n"
        "tileiras_command.main()"
    )
    done = run(*COMPILE, "--timeout", "1", program=[sys.executable, "-c", script])
    assert (done.returncode, done.stderr[-len(CLOSING) :]) == (5, CLOSING)


def test_time_that_is_not_needed_does_not_matter() -> None:
    """A limit that is not reached."""
    done = run(*COMPILE, "--timeout=50", "-o", "k.cubin")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf", "1e9"])
def test_time_limits_that_make_no_sense(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Are usage errors."""
    assert cli.run([*COMPILE, f"--timeout={text}"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: for the --timeout option: found '{text}', expected seconds")


# size


def program(operations: int) -> str:
    """A kernel of so many additions."""
    lines = (f"%v{i} = addi %x, %x : tile<i32>\n" for i in range(operations))
    return f"cuda_tile.module @m {{ entry @f(%x: tile<i32>) {{\n{''.join(lines)} return }} }}"


def entries(count: int) -> str:
    """A program of so many empty kernels."""
    names = "".join(f"entry @f{i}() {{ return }}\n" for i in range(count))
    return f"cuda_tile.module @m {{\n{names}}}"


def test_program_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """From text, with the place of the operation that is one too many; from bytecode."""
    module = driver.read_source(program(30).encode())
    data = write_module(module)
    for where in ("tileiras.limits", "tileiras.driver", "tileiras.bytecode.records"):
        monkeypatch.setattr(f"{where}.MAX_PROGRAM_SIZE", 100)
    with pytest.raises(CompileError, match="program is too large, expected at most 100 ") as text:
        driver.read_source(program(30).encode(), "k.mlir")
    assert str(text.value.location).startswith('loc("k.mlir":2')
    with pytest.raises(CompileError, match="program is too large, expected at most 100 "):
        read_module(data)
    assert driver.read_source(program(20).encode())
    assert read_module(write_module(driver.read_source(program(20).encode())))


def test_too_many_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """In text and in bytecode."""
    data = write_module(driver.read_source(entries(12).encode()))
    monkeypatch.setattr(limits, "MAX_ENTRIES", 11)
    message = "program has 12 entries, expected at most 11"
    with pytest.raises(CompileError, match=message):
        driver.read_source(entries(12).encode())
    with pytest.raises(CompileError, match=message):
        read_module(data)
    assert driver.read_source(entries(11).encode())


def test_too_many_items_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told before they are read."""
    data = write_module(driver.read_source(program(30).encode()))
    monkeypatch.setattr(limits, "MAX_TABLE_ITEMS", 20)
    with pytest.raises(CompileError, match=r"program has \d+ locations in one table"):
        read_module(data)


def test_text_that_is_too_large(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 5: it may be a good program. What is no IR is still told first."""
    size = limits.MAX_TEXT_BYTES + 1
    Path("k.mlir").write_bytes(b"entry".ljust(size))
    assert cli.run(["k.mlir", "--gpu-name=sm_90"]) == 5
    limit = limits.MAX_TEXT_BYTES
    message = f"error: text of {size} bytes is too large, expected at most {limit}\n"
    assert capsys.readouterr().err == message + CLOSING
    Path("k.mlir").write_bytes(b"hello".ljust(size))
    assert cli.run(["k.mlir", "--gpu-name=sm_90"]) == 3


def test_file_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one without an end."""
    monkeypatch.setattr("tileiras.file_io.MAX_INPUT_BYTES", 1 << 20)
    Path("large").write_bytes(bytes((1 << 20) + 1))
    for name in ("large", "/dev/zero"):
        assert cli.run([name, "--gpu-name=sm_90"]) == 1
        expected = f"error: unable to read input file '{name}': larger than 1048576 bytes\n"
        assert capsys.readouterr().err == expected
    Path("large").write_bytes(bytes(1 << 20))
    assert cli.run(["large", "--gpu-name=sm_90"]) == 3


def test_out_of_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Is not a bug of ours."""

    def read(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tileiras.driver.read_source", read)
    assert cli.run([*COMPILE]) == 5
    assert capsys.readouterr().err == "error: out of memory\n" + CLOSING


# sizes of tiles


def tile_program(type_: str) -> str:
    """A kernel with one reshape from and to a tile of this type."""
    return (
        f"cuda_tile.module @m {{\n  entry @k(%x: tile<i8>) {{\n"
        f"    %0 = reshape %x : tile<i8> -> tile<1xi8>\n"
        f"    %1 = broadcast %0 : tile<1xi8> -> tile<{type_}>\n    return\n  }}\n}}\n"
    )


@pytest.mark.parametrize(
    ("type_", "elements"),
    [
        ("33554432xi8", 1 << 25),
        ("4294967296xi8", 1 << 32),
        ("18446744073709551616xi8", 1 << 64),
    ],
)
def test_tile_with_too_many_elements(
    type_: str, elements: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the type, before anything of that size is made; also where 64 bits do not hold it."""
    Path("k.mlir").write_text(tile_program(type_))
    assert cli.run(["k.mlir", "--gpu-name=sm_90"]) == 3
    first, line, carets, last = capsys.readouterr().err.splitlines()
    message = f"error: tile has {elements} elements, expected at most 16777216"
    assert first == f'loc("k.mlir":4:39): {message}'
    assert line == f"  4 |     %1 = broadcast %0 : tile<1xi8> -> tile<{type_}>"
    assert carets.index("^") - line.index("tile<", line.index("->")) == 0
    assert last == "error: input is not valid Tile IR text: 1 mistake"


def test_sizes_of_dims_count_together(capsys: pytest.CaptureFixture[str]) -> None:
    source = tile_program("1xi8").replace("tile<1xi8>", "tile<8192x4096xi8>")
    Path("k.mlir").write_text(source)
    assert cli.run(["k.mlir", "--gpu-name=sm_90"]) == 3
    message = "error: tile has 33554432 elements, expected at most 16777216"
    assert message in capsys.readouterr().err


def test_largest_tile_is_accepted() -> None:
    """One element of it more in any dim would be too many."""
    Path("k.mlir").write_text(tile_program("16777216xi8"))
    assert cli.run(["k.mlir", "--emit=cuda_tile", "--gpu-name=sm_90", "-o", "-"]) == 0


def test_tile_with_too_many_elements_in_bytecode(capsys: pytest.CaptureFixture[str]) -> None:
    """The same limit; a size in the file's table of types is made larger."""
    good = write_module(driver.read_source(tile_program("16777216xi8").encode()))
    size = (1 << 24).to_bytes(8, "little")
    assert good.count(size) == 1
    Path("k.tileirbc").write_bytes(good.replace(size, (1 << 25).to_bytes(8, "little")))
    assert cli.run(["k.tileirbc", "--gpu-name=sm_90"]) == 3
    assert "33554432 elements, expected at most 16777216" in capsys.readouterr().err


# memory


MEASURE = (
    "import os, sys\n"
    "child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
    "_, status, usage = os.wait4(child, 0)\n"
    "print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)"
)
"""Run by a small process: a child's memory counts from what its parent had."""


def peak_memory(path: Path) -> tuple[int, int]:
    """The exit code of `tileiras` for an input, and the most memory that it had, in bytes."""
    arguments = [*TILEIRAS, str(path), "--emit=cuda_tile", "--timeout=60", "-o", os.devnull]
    done = run(*arguments, program=[sys.executable, "-c", MEASURE])
    code, kilobytes = done.stdout.split()
    return int(code), int(kilobytes) << 10


def bytecode_with_constant(size: int) -> bytes:
    """A program with one constant of so many bytes that nothing uses."""
    constants, functions, strings = bytearray(), bytearray(), bytearray()
    blob = bytearray()
    put_varint(blob, size)
    put_offset_table(constants, [bytes(blob) + bytes(size)], 8)
    put_varint(functions, 0)
    put_offset_table(strings, [], 4)
    out = bytearray()
    put_header(out, VERSIONS[0])
    for section, payload in (
        (Section.STRING, strings),
        (Section.FUNC, functions),
        (Section.CONSTANT, constants),
    ):
        put_section(out, section, bytes(payload), 0)
    return bytes(out) + bytes([Section.END])


SIZE = 200_000_000


def write_large(path: Path, kind: str) -> None:
    """Writes a file of this size piece by piece."""
    with path.open("wb") as stream:
        if kind == "constant":
            stream.write(bytecode_with_constant(SIZE))
            return
        pieces = {"zeros": bytes(10), "letters": b"aaaaaaaaaa", "comments": b"entry\n// \n"}
        for _ in range(SIZE // (10 << 10)):
            stream.write(pieces[kind] * 1024)


@pytest.mark.parametrize(
    ("kind", "code"), [("zeros", 3), ("letters", 3), ("comments", 5), ("constant", 0)]
)
def test_memory_for_a_file_of_200_megabytes(kind: str, code: int, tmp_path: Path) -> None:
    """At most twice the file and what any process takes; `-rP` shows how much."""
    path = tmp_path / "large"
    write_large(path, kind)
    found, memory = peak_memory(path)
    path.unlink()
    print(f"{kind}: {memory / 1e6:.0f} MB for {SIZE / 1e6:.0f} MB")
    assert found == code
    assert memory <= 2 * SIZE + BASE_MEMORY
