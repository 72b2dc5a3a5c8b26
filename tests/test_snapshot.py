"""The native program that starts from a snapshot does what the one that starts Python does."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.resident_home import EXAMPLES
from tileiras.native_launcher import __main__ as builder
from tileiras.native_launcher.__main__ import (
    find_compiler,
    launcher_of,
    main,
    snapshot_of,
)

COMPILER = find_compiler(os.environ)
VECTOR_ADD, MATMUL = EXAMPLES / "vector_add.mlir", EXAMPLES / "matmul.mlir"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

pytestmark = pytest.mark.skipif(
    not COMPILER or (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="needs Linux on x86-64 with a C compiler",
)

ENVIRON = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TILEIRAS_", "LD_"))},
    "TILEIRAS_SNAPSHOT": "1",  # says why it is not used
}
SECRET = "a-value-that-belongs-to-who-builds"

# Where things stand in `struct Snapshot` of snapshot.h, bytes.
FORMAT, MAPPING_COUNT, MAPPINGS, PIECE_COUNT, PIECES, SOURCES, CPU = 0, 24, 32, 40, 48, 64, 312
MAPPING_BYTES, MAPPING_INODE, SOURCE_SECONDS = 64, 40, 16
MAPPING, PIECE = "<QQQIIQQqq", "<QQQII"
LARGE_PAGE, READ_AND_RUN = 2 << 20, 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as it is installed, built by somebody with a secret."""
    place = tmp_path_factory.mktemp("snapshot") / "tileiras"
    os.environ["SECRET"] = SECRET
    try:
        assert main([str(place)], os.environ) == 0
    finally:
        del os.environ["SECRET"]
    assert snapshot_of(place).exists() and launcher_of(place).exists()
    return place


def outcome(place: Path, *arguments: str | Path, **options: object) -> tuple[int, bytes, bytes]:
    """Exit code, output and messages."""
    given = {"env": ENVIRON, "input": b"", **options}
    done = subprocess.run([place, *map(str, arguments)], capture_output=True, **given)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr


def both(place: Path, *arguments: str | Path, **options: object) -> tuple[int, bytes, bytes]:
    """The outcome, which is the same with and without the snapshot."""
    found = outcome(place, *arguments, **options)
    assert found == outcome(launcher_of(place), *arguments, **options)
    assert b"snapshot" not in found[2]
    return found


LINES = [
    ("--version",),
    ("--help",),
    (),
    ("--no-such-option",),
    ("/nonexistent/file", "--gpu-name=sm_90"),
    (VECTOR_ADD, "--gpu-name=sm_91"),
    (VECTOR_ADD, "--gpu-name=sm_90", "--emit=ptx", "-o", "-", "-v"),
    (VECTOR_ADD, "--gpu-name=sm_90", "-o", "/nonexistent/folder/out"),
    (MATMUL, "--gpu-name=sm_90", "--emit=llvm", "-o", "-", "--remarks=all"),
    (VECTOR_ADD, "--gpu-name=sm_90", "--print-after-all", "--emit=ptx", "-o", "-"),
    ("-", "--gpu-name=sm_90", "-o", "-"),
    (VECTOR_ADD, "--gpu-name=sm_90", "--timeout=30", "-o", "-"),
    ("a b", "", "*", "ä"),
    (b"\xff\xfe".decode("utf-8", "surrogateescape"), "--gpu-name=sm_90"),
]


@pytest.mark.parametrize("arguments", LINES)
def test_outcome_is_that_of_the_program_without(
    place: Path, arguments: tuple[str | Path, ...]
) -> None:
    both(place, *arguments)


@pytest.mark.parametrize("source", [VECTOR_ADD, MATMUL], ids=lambda path: path.stem)
@pytest.mark.parametrize("target", TARGETS)
def test_bytes_are_the_same(place: Path, source: Path, target: str) -> None:
    code, output, _ = both(place, source, f"--gpu-name={target}", "-o", "-")
    assert code == 0 and output[:4] == b"\x7fELF"


def test_input_folder_environment_and_umask_are_those_of_the_command(
    place: Path, tmp_path: Path
) -> None:
    for name, program in (("with", place), ("without", launcher_of(place))):
        (tmp_path / name).mkdir()
        done = subprocess.run(
            [program, "-", "--gpu-name=sm_90", "-o", "out.cubin"],
            input=VECTOR_ADD.read_bytes(),
            env={**ENVIRON, "TILEIRAS_FLAGS": "-v"},
            cwd=tmp_path / name,
            umask=0o137,
            capture_output=True,
        )
        assert done.returncode == 0 and done.stderr
    out = tmp_path / "with" / "out.cubin"
    assert out.stat().st_mode & 0o777 == 0o640
    assert out.read_bytes() == (tmp_path / "without" / "out.cubin").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        {"LANG": "xx_YY.UTF-8"},
        {"LC_ALL": "", "LANG": ""},
        {"LD_LIBRARY_PATH": "/nonexistent"},
    ],
)
def test_texts_are_read_and_written_as_without(place: Path, changes: dict[str, str]) -> None:
    words = [b"\xff\xfe", b"--gpu-name=sm_90", b"-o", b"\x80"]
    found = [
        subprocess.run([program, *words], env={**ENVIRON, **changes}, capture_output=True)
        for program in (place, launcher_of(place))
    ]
    assert found[0].stderr == found[1].stderr
    assert found[0].returncode == found[1].returncode != 0


# --- memory --------------------------------------------------------------------------------------


def table_at(path: Path, count: int, place: int, entry: str) -> list[tuple[int, ...]]:
    """The entries of a table, by where the header has their number and their place."""
    size = struct.calcsize(entry)
    contents = path.read_bytes()[: 1 << 20]
    first = number_at(path, place)
    return [
        struct.unpack_from(entry, contents, first + index * size)
        for index in range(number_at(path, count))
    ]


def test_memory_of_a_small_compilation_is_bounded(place: Path) -> None:
    """Linux 6.18 maps a file by whole large folios: with all of LLVM's it would be 130 MB."""
    line = [str(place), str(VECTOR_ADD), "--gpu-name=sm_90", "--lineinfo", "-o", os.devnull]
    # A process of its own starts it: memory of who starts a program counts as that program's.
    text = f"import os; os.spawnv(0, {line[0]!r}, {line!r})\n"
    text += "import resource; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text], env=ENVIRON, capture_output=True, check=True
    )
    assert not found.stderr
    assert 30 << 10 < int(found.stdout) < 100 << 10


def test_pages_of_llvm_that_a_compilation_reads_are_kept(place: Path) -> None:
    """And most others are not."""
    snapshot = snapshot_of(place)
    mappings = table_at(snapshot, MAPPING_COUNT, MAPPINGS, MAPPING)
    start, end = max(
        ((entry[0], entry[1]) for entry in mappings if entry[3] == READ_AND_RUN),
        key=lambda mapping: mapping[1] - mapping[0],
    )
    pieces = table_at(snapshot, PIECE_COUNT, PIECES, PIECE)
    kept = sum(size for first, size, *_ in pieces if start <= first < end)
    assert 8 << 20 < kept < (end - start) / 2


def test_memory_that_is_written_everywhere_is_read_into_large_pages(place: Path) -> None:
    """They are whole and of anonymous memory; the rest of each piece is mapped."""
    snapshot = snapshot_of(place)
    anonymous = [
        (entry[0], entry[1])
        for entry in table_at(snapshot, MAPPING_COUNT, MAPPINGS, MAPPING)
        if entry[6] == 0
    ]
    read = [entry for entry in table_at(snapshot, PIECE_COUNT, PIECES, PIECE) if entry[4]]
    assert sum(size for _, size, *_ in read) > 8 << 20
    for first, size, *_ in read:
        assert first % LARGE_PAGE == size % LARGE_PAGE == 0
        assert any(start <= first and first + size <= end for start, end in anonymous)


# --- where it does not fit -----------------------------------------------------------------------


@pytest.fixture
def altered(place: Path, tmp_path: Path) -> Path:
    """A file in the place of the snapshot that a test may damage; given back afterwards."""
    kept = place.with_name("kept")
    os.rename(snapshot_of(place), kept)
    shutil.copy(kept, snapshot_of(place))
    yield snapshot_of(place)  # type: ignore[misc]
    os.replace(kept, snapshot_of(place))


def expect_reason(place: Path, words: str, **options: object) -> None:
    """The command says why it does without, and does the same."""
    code, output, messages = outcome(place, VECTOR_ADD, "--gpu-name=sm_90", "-o", "-", **options)
    assert (code, messages.decode()) == (0, f"note: the snapshot is not used: {words}\n")
    assert output == outcome(launcher_of(place), VECTOR_ADD, "--gpu-name=sm_90", "-o", "-")[1]


def change(path: Path, offset: int, size: int = 8) -> None:
    """Other bytes at a place of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        here = file.read(size)
        file.seek(offset)
        file.write(bytes(byte ^ 0x11 for byte in here))


def number_at(path: Path, offset: int) -> int:
    """A number of eight bytes."""
    with path.open("rb") as file:
        file.seek(offset)
        return int.from_bytes(file.read(8), "little")


def test_snapshot_of_another_build(place: Path, altered: Path) -> None:
    change(altered, FORMAT)
    expect_reason(place, "it is of another build")


def test_snapshot_that_was_not_written_whole(place: Path, altered: Path) -> None:
    os.truncate(altered, altered.stat().st_size - 4096)
    expect_reason(place, "it is damaged")
    os.truncate(altered, 100)
    expect_reason(place, "it is damaged")


def test_snapshot_that_others_may_write(place: Path, altered: Path) -> None:
    altered.chmod(0o666)
    expect_reason(place, "others may write it")


def test_snapshot_that_is_gone(place: Path, altered: Path) -> None:
    altered.unlink()
    expect_reason(place, "there is none")


def test_snapshot_of_another_processor(place: Path, altered: Path) -> None:
    change(altered, CPU + 8, 4)
    expect_reason(place, "the processor is another one")


def test_source_that_has_changed(place: Path, altered: Path) -> None:
    change(altered, number_at(altered, SOURCES) + SOURCE_SECONDS)
    expect_reason(place, "a source has changed")


def test_library_that_has_changed(place: Path, altered: Path) -> None:
    first = number_at(altered, MAPPINGS)
    count = number_at(altered, MAPPING_COUNT)
    of_files = (
        first + index * MAPPING_BYTES
        for index in range(count)
        if number_at(altered, first + index * MAPPING_BYTES + MAPPING_INODE)
    )
    change(altered, next(of_files) + MAPPING_INODE)
    expect_reason(place, "a library has changed")


def test_address_that_is_taken(place: Path, altered: Path) -> None:
    """By the program itself, which is linked there."""
    first = number_at(altered, MAPPINGS)
    with altered.open("r+b") as file:
        file.seek(first)
        size = number_at(altered, first + 8) - number_at(altered, first)
        start = 0x6000_0000_0000
        file.write(start.to_bytes(8, "little") + (start + size).to_bytes(8, "little"))
    expect_reason(place, "an address is taken")


STARTS = "TILEIRAS_SNAPSHOT_STARTS"


def executions(*command: str | Path, fault: str = "") -> tuple[int, str]:
    """How often the process becomes another program, the first time included; what is said."""
    line = ["strace", "-qq", "-e", "trace=execve,mmap"]
    line += ["-e", f"inject={fault}"] if fault else []
    done = subprocess.run([*line, *map(str, command)], env=ENVIRON, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    said = [line for line in lines if not line.startswith(("execve(", "mmap("))]
    return sum(line.startswith("execve(") for line in lines), "".join(said)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not on PATH")
def test_address_that_is_taken_is_tried_again(place: Path, altered: Path) -> None:
    """Four times, with other addresses; then it becomes the ordinary program, then Python."""
    before = executions(place, "--version")
    test_address_that_is_taken(place, altered)
    assert before == (1, "")
    assert executions(place, "--version")[0] == 4 + 2


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not on PATH")
def test_address_that_is_taken_once_does_not_matter(place: Path) -> None:
    assert executions(place, "--version", fault="mmap:error=EEXIST:when=5") == (2, "")


@pytest.mark.parametrize("starts", ["1", "4", "x"])
def test_later_start_is_like_the_first(place: Path, starts: str) -> None:
    """Its own variable is gone, and signals that waited since the first start still do."""
    blocked = {signal.SIGUSR1, signal.SIGINT}
    mask = sum(1 << (number - 1) for number in blocked)
    text = starts + f"{mask:016x}".translate(str.maketrans("0123456789abcdef", "abcdefghijklmnop"))
    process = subprocess.Popen(
        [place, "-", "--gpu-name=sm_90"],
        env={**ENVIRON, STARTS: text},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [*blocked, signal.SIGTERM]),
    )
    time.sleep(0.3)
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    assert b"snapshot" not in process.communicate(b"")[1]
    found = next(line for line in lines if line.startswith("SigBlk:"))
    assert int(found.split()[1], 16) == mask


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PYTHONHASHSEED": "1"}, "a variable changes Python"),
        ({"LD_BIND_NOW": "1"}, "a variable changes how programs start"),
        ({"GLIBC_TUNABLES": "glibc.malloc.check=0"}, "a variable changes how programs start"),
        ({"LC_ALL": "de_DE.ISO-8859-1"}, "the locale is not one of UTF-8"),
    ],
)
def test_variables_that_change_the_process(
    place: Path, changes: dict[str, str], words: str
) -> None:
    expect_reason(place, words, env={**ENVIRON, **changes})


def test_reasons_are_said_only_where_they_are_asked_for(place: Path, altered: Path) -> None:
    altered.unlink()
    for changes in ({"TILEIRAS_SNAPSHOT": ""}, {"TILEIRAS_SNAPSHOT": "0"}):
        _, _, messages = outcome(place, "--version", env={**ENVIRON, **changes})
        assert messages == b""


def test_switched_off(place: Path) -> None:
    found = outcome(place, "--version", env={**ENVIRON, "TILEIRAS_SNAPSHOT": "0"})
    assert found == both(place, "--version")


def test_closed_stream(place: Path) -> None:
    line = f"exec {place} --version <&-"
    done = subprocess.run(["sh", "-c", line], env=ENVIRON, capture_output=True)
    assert done.stderr == b"note: the snapshot is not used: a standard stream is closed\n"
    assert done.stdout == both(place, "--version")[1]


def test_too_little_memory_for_it(place: Path) -> None:
    """Whatever becomes of the command then, it is what becomes of the one without."""
    line = f"ulimit -v 100000; exec {place} --version"
    done = subprocess.run(["sh", "-c", line], env=ENVIRON, capture_output=True)
    without = subprocess.run(
        ["sh", "-c", line], env={**ENVIRON, "TILEIRAS_SNAPSHOT": "0"}, capture_output=True
    )
    assert done.stderr.startswith(b"note: the snapshot is not used: ")
    assert done.stderr.split(b"\n", 1)[1] == without.stderr
    assert (done.returncode, done.stdout) == (without.returncode, without.stdout)


def test_program_that_was_moved_finds_the_one_beside_it(place: Path, tmp_path: Path) -> None:
    shutil.copy(place, tmp_path / "tileiras")
    launcher = shutil.copy(launcher_of(place), tmp_path / "tileiras.launcher")
    kept = launcher_of(place).rename(tmp_path / "kept")
    try:
        moved = {**ENVIRON, "TILEIRAS_SNAPSHOT": "0"}
        found = outcome(tmp_path / "tileiras", "--version", env=moved)
        assert found == outcome(Path(launcher), "--version", env=moved)
        Path(launcher).unlink()
        code, _, messages = outcome(tmp_path / "tileiras", "--version", env=moved)
        assert code == 127 and messages.startswith(b"error: unable to start ")
    finally:
        kept.rename(launcher_of(place))


# --- signals, users, many at once ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, b"error: interrupted\n"),
        (signal.SIGTERM, 143, b"error: terminated\n"),
        (signal.SIGHUP, 129, b"error: hung up\n"),
    ],
)
def test_signal_at_any_time_ends_it_with_one_line(
    place: Path, tmp_path: Path, number: signal.Signals, code: int, words: bytes
) -> None:
    output = tmp_path / "out.cubin"
    ended = 0
    for step in range(24):
        process = subprocess.Popen(
            [place, MATMUL, "--gpu-name=sm_90", "-o", output], env=ENVIRON, stderr=subprocess.PIPE
        )
        time.sleep(0.002 + 0.002 * step)
        process.send_signal(number)
        _, messages = process.communicate(timeout=60)
        if process.returncode == 0:
            output.unlink()
        elif process.returncode != -number:  # before the program's first instruction
            assert (process.returncode, messages) == (code, words)
            ended += 1
        assert not output.exists()
    assert ended > 0


def test_signals_that_the_caller_ignores_stay_ignored(place: Path) -> None:
    line = f"trap '' INT HUP; exec {place} - --gpu-name=sm_90 -o -"
    process = subprocess.Popen(
        ["sh", "-c", line], env=ENVIRON, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(VECTOR_ADD.read_bytes(), timeout=60)
    assert process.returncode == 0 and output[:4] == b"\x7fELF"


@pytest.mark.parametrize("blocked", [[], [signal.SIGINT], [signal.SIGHUP, signal.SIGUSR1]])
def test_signals_that_the_caller_blocks_stay_blocked(
    place: Path, blocked: list[signal.Signals]
) -> None:
    process = subprocess.Popen(
        [place, "-", "--gpu-name=sm_90"],
        env=ENVIRON,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked),
    )
    time.sleep(0.3)
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    process.communicate(b"")
    mask = next(line for line in lines if line.startswith("SigBlk:"))
    assert int(mask.split()[1], 16) == sum(1 << (number - 1) for number in blocked)


def test_many_at_once_do_not_disturb_each_other(place: Path, tmp_path: Path) -> None:
    expected = both(place, VECTOR_ADD, "--gpu-name=sm_90", "-o", "-")[1]
    outputs = [tmp_path / f"{number}.cubin" for number in range(24)]
    processes = [
        subprocess.Popen([place, VECTOR_ADD, "--gpu-name=sm_90", "-o", output], env=ENVIRON)
        for output in outputs
    ]
    assert [process.wait() for process in processes] == [0] * len(processes)
    assert all(output.read_bytes() == expected for output in outputs)


def test_nothing_of_the_builder_is_kept(place: Path) -> None:
    contents = snapshot_of(place).read_bytes()
    assert SECRET.encode() not in contents
    assert snapshot_of(place).stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_another_user_may_use_it() -> None:
    try:
        subprocess.run([sys.executable, "-c", ""], user=65534, group=65534, cwd="/", check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nobody may not run this Python")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place = Path(folder, "tileiras")
        assert main([str(place)], os.environ) == 0
        found = outcome(place, "--version", user=65534, group=65534, extra_groups=[])
        assert found == both(place, "--version")


def test_program_without_a_snapshot_on_demand(tmp_path: Path) -> None:
    place = tmp_path / "tileiras"
    assert main(["--no-snapshot", str(place)], os.environ) == 0
    assert os.listdir(tmp_path) == ["tileiras"]


def test_deep_recursion_has_room(place: Path, tmp_path: Path) -> None:
    """The stack that comes back grows as another one does."""
    text = VECTOR_ADD.read_text()
    deep = tmp_path / "deep.mlir"
    deep.write_text(text.replace("{", "{ " + "(" * 3000, 1))
    assert both(place, deep, "--gpu-name=sm_90")[0] != 0


def test_snapshot_that_does_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program is tried before it is put in its place."""
    other = tmp_path / "starter.c"
    other.write_text('void _start(void) { __asm__("mov $60, %eax; mov $3, %edi; syscall"); }\n')
    monkeypatch.setattr(builder, "STARTER", other)
    place = tmp_path / "bin" / "tileiras"
    place.parent.mkdir()
    assert main([str(place)], os.environ) == 0
    assert os.listdir(place.parent) == ["tileiras"]
    words = "note: no snapshot: what it does is not the same: exit code 3, ''\n"
    assert capsys.readouterr().out.endswith(words)
    assert outcome(place, "--version")[0] == 0
