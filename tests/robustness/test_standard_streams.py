"""Standard streams that are closed, full or gone: place and reason, and success stays success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.robustness.processes import COMPILE, TILEIRAS, in_shell, run

TEXT = [COMPILE[0], "--emit=cuda_tile"]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "redirections", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full"]
)
def test_streams_that_are_not_needed_do_not_matter(redirections: str) -> None:
    """The output is whole and the exit code is 0, whatever is closed or full."""
    done = in_shell(redirections, *COMPILE, "-v", "-o", "k.cubin")
    assert done.returncode == 0, done.stderr
    assert Path("k.cubin").read_bytes()[:4] == b"\x7fELF"
    assert [path.name for path in Path().iterdir()] == ["k.cubin"]


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([*COMPILE, "-o", "-"], "unable to write output file '-'"),
        (TEXT, "unable to write output file '-'"),
        (["--help"], "unable to write to standard output"),
        (["--version"], "unable to write to standard output"),
        (["--list-versions"], "unable to write to standard output"),
    ],
)
def test_output_that_cannot_be_written(
    redirection: str, reason: str, arguments: list[str], place: str
) -> None:
    """Is told with place and reason; exit code 2."""
    done = in_shell(redirection, *arguments)
    assert (done.returncode, done.stderr) == (2, f"error: {place}: {reason}\n")


def test_closed_input() -> None:
    """Is an input that cannot be read, as NVIDIA's tool has it: exit code 1."""
    done = in_shell("<&-", "-", "--gpu-name=sm_90")
    expected = "error: unable to read input file '-': Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_code_of_a_failure_is_kept_when_it_cannot_be_told(redirection: str) -> None:
    """A message that is lost does not change what happened."""
    Path("bad.bc").write_bytes(b"hello")
    assert in_shell(redirection, "bad.bc").returncode == 3


def test_message_does_not_go_into_a_file_of_ours() -> None:
    """A file that is opened while stderr is closed does not become stderr."""
    Path("bad.mlir").write_text("entry @f() { nosuchop }")
    assert in_shell("2>&- <&- >&-", "bad.mlir", "--gpu-name=sm_90").returncode == 3
    assert Path("bad.mlir").read_text() == "entry @f() { nosuchop }"


def test_reader_of_stdout_that_is_gone() -> None:
    """141 as after SIGPIPE, and nothing is said; also after much text."""
    for arguments in ("--help", "--emit=llvm --gpu-name=sm_90 " + COMPILE[0]):
        words = " ".join(f"'{word}'" for word in TILEIRAS)
        script = f"{words} {arguments} 2>err | true; exit ${{PIPESTATUS[0]}}"
        done = run("-c", script, program=["bash"])
        assert done.returncode in (0, 141)  # 0 where all was written before the reader ended
        assert Path("err").read_text() == ""


def test_reader_of_stderr_that_is_gone() -> None:
    """The compilation succeeds without its notes."""
    words = " ".join(f"'{word}'" for word in [*TILEIRAS, *COMPILE, "--time-passes"])
    done = run(
        "-c", f"{{ {words} -o k.cubin 2>&1 >&3 | true; exit ${{PIPESTATUS[0]}}; }} 3>&1",
        program=["bash"],
    )  # fmt: skip
    assert done.returncode == 0
    assert Path("k.cubin").exists()


def test_stream_that_was_closed_by_the_caller_in_python() -> None:
    """`sys.stdout` of None, as in a process without a console."""
    script = "import sys; sys.stdout.close(); sys.stdout = None\n"
    script += "from tileiras_command import main; main()"
    done = run(*COMPILE, "-o", "k.cubin", program=[sys.executable, "-c", script])
    assert (done.returncode, done.stderr) == (0, "")


def test_process_without_descriptors_to_spare() -> None:
    """Whatever is the first to be short of one says so; with a few, all is well."""
    codes = []
    for limit in range(5, 13):
        done = run("-c", f'ulimit -n {limit}; exec "$@"', "sh", *TILEIRAS, *TEXT, program=["sh"])
        codes.append(done.returncode)
        if "tileiras/cli.py" in done.stderr:  # Python itself has not started
            continue
        assert done.returncode == (2 if done.stderr else 0) or "unable to read" in done.stderr
        assert ("Too many open files\n" in done.stderr) == (done.returncode != 0)
        assert "Traceback" not in done.stderr
    assert codes[-1] == 0 and 2 in codes
