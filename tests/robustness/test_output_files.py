"""Output files: whole or absent, with the mode they had, in folders that are not ours."""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from pathlib import Path

import pytest

from tests.robustness.processes import COMPILE, environment, run
from tileiras import file_replacement
from tileiras.errors import TargetError
from tileiras.file_io import write_output

NOBODY = 65534


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mode_of(path: str) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o200])
def test_mode_is_kept(mode: int) -> None:
    """Of a file that is replaced."""
    Path("k").write_bytes(b"old")
    os.chmod("k", mode)
    write_output("k", b"new")
    assert mode_of("k") == mode
    os.chmod("k", 0o600)
    assert Path("k").read_bytes() == b"new"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_file_has_the_mode_of_any_new_file(mask: int) -> None:
    """By the umask."""
    before = os.umask(mask)
    try:
        write_output("k", b"new")
        Path("model").write_bytes(b"")
    finally:
        os.umask(before)
    assert mode_of("k") == mode_of("model")


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o000, 0o555])
def test_file_without_write_permission_is_refused(mode: int) -> None:
    """Also for the superuser; it stays as it is."""
    Path("k").write_bytes(b"old")
    os.chmod("k", mode)
    with pytest.raises(TargetError, match="unable to write output file 'k': Permission denied"):
        write_output("k", b"new")
    assert mode_of("k") == mode
    os.chmod("k", 0o600)
    assert Path("k").read_bytes() == b"old"
    assert os.listdir() == ["k"]


def test_exit_code_of_a_refused_file() -> None:
    """2, with place and reason."""
    Path("k").touch(0o444)
    done = run(*COMPILE, "-o", "k")
    expected = "error: unable to write output file 'k': Permission denied\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_owner_is_kept() -> None:
    """Where the superuser replaces a file of another user."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can give files away")
    Path("k").write_bytes(b"old")
    os.chown("k", NOBODY, NOBODY)
    write_output("k", b"new")
    status = os.stat("k")
    assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY)
    assert Path("k").read_bytes() == b"new"


WRITE = "import sys; from tileiras.file_io import write_output; write_output(sys.argv[1], b'new')"


def as_ordinary_user(script: str, *arguments: str) -> None:
    """Runs a script in a child without the superuser's powers; its exceptions fail the test."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            sys.argv = ["-c", *arguments]
            exec(script, {})
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.fixture
def read_only_folder(tmp_path: Path) -> Path:
    """A folder in which an ordinary user can make no files, with a file that anybody may write."""
    if os.geteuid() == 0:
        for parent in (tmp_path, *tmp_path.parents):
            if not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o001)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "k").write_bytes(b"much older")
    (folder / "k").chmod(0o666)
    folder.chmod(0o555)
    return folder


def test_writable_file_in_a_read_only_folder_is_written_in_place(read_only_folder: Path) -> None:
    """Nothing can be made beside it."""
    number = (read_only_folder / "k").stat().st_ino
    as_ordinary_user(WRITE, str(read_only_folder / "k"))
    assert (read_only_folder / "k").read_bytes() == b"new"
    assert (read_only_folder / "k").stat().st_ino == number


def test_new_file_in_a_read_only_folder_is_refused(read_only_folder: Path) -> None:
    """There is no place for it."""
    script = (
        "import sys; from tileiras.file_io import write_output\n"
        "from tileiras.errors import TargetError\n"
        "try: write_output(sys.argv[1], b'new')\n"
        "except TargetError as e: assert 'Permission denied' in str(e), e\n"
        "else: raise SystemExit('written')"
    )
    as_ordinary_user(script, str(read_only_folder / "other"))
    assert os.listdir(read_only_folder) == ["k"]


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EROFS, errno.EXDEV])
def test_file_that_cannot_be_renamed_over_is_written_in_place(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a single file that a container mounts."""

    def refuse(*_: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.replace", refuse)
    Path("k").write_bytes(b"old")
    write_output("k", b"new")
    assert Path("k").read_bytes() == b"new"
    assert os.listdir() == ["k"]


def test_full_disk_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays: writing in place would destroy it."""

    def refuse(*_: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_replacement, "rename_file", refuse)
    Path("k").write_bytes(b"old")
    with pytest.raises(TargetError, match="'k': No space left on device"):
        write_output("k", b"new")
    assert Path("k").read_bytes() == b"old"
    assert os.listdir() == ["k"]


def test_other_names_of_a_file_see_the_new_content() -> None:
    """A hard link stays one."""
    Path("k").write_bytes(b"old")
    os.link("k", "other")
    write_output("k", b"new")
    assert Path("other").read_bytes() == b"new"


def test_longest_possible_name() -> None:
    """The temporary name is not longer."""
    name = "k" * 255
    write_output(name, b"new")
    assert os.listdir() == [name]


def test_dev_stdout_that_is_a_pipe() -> None:
    """A name that leads to no place in the file system."""
    done = run(COMPILE[0], "--emit=cuda_tile", "-o", "/dev/stdout")
    assert done.returncode == 0, done.stderr
    assert "@vector_add" in done.stdout


def test_full_device() -> None:
    """Is told with place and reason."""
    done = run(*COMPILE, "-o", "/dev/full")
    expected = "error: unable to write output file '/dev/full': No space left on device\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_file_size_limit_on_the_output() -> None:
    """`ulimit -f`: the text is larger than a file may be."""
    done = run(
        COMPILE[0],
        "--emit=cuda_tile",
        "-o",
        "k.mlir",
        env=environment(XDG_CACHE_HOME="/dev/null/cache"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
    )
    assert (done.returncode, done.stderr) == (
        2,
        "error: unable to write output file 'k.mlir': File too large\n",
    )
    assert os.listdir() == []


def test_cache_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Under a file size limit: no temporary file for every run."""
    cache = tmp_path / "cache"
    done = run(
        COMPILE[0],
        "--emit=cuda_tile",
        "-o",
        "k.mlir",
        env=environment(XDG_CACHE_HOME=cache),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert done.returncode == 0, done.stderr
    assert [path for path in cache.rglob("*") if path.is_file()] == []
