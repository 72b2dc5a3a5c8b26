"""ptxas that is killed, that leaves nothing or something else, and that has no room to work."""

from __future__ import annotations

import resource
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from tests.robustness.processes import (
    COMPILE,
    WITHOUT_PACKAGES,
    environment,
    fake_ptxas,
    path_with,
    run,
)
from tileiras.codegen.check_cubin import check_cubin
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.ptxas_process import find_ptxas
from tileiras.codegen.target import TARGET_NAMES, GpuTarget, get_target
from tileiras.errors import CompileError
from tileiras.options import CompileOptions

CLOSING = "error: failed to compile Tile IR program\n"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_with(script: str) -> subprocess.CompletedProcess[str]:
    """`tileiras` with a ptxas that is a script; `$out` is the file it should make."""
    find_output = 'for word; do [ "$last" = -o ] && out=$word; last=$word; done\n'
    tools = fake_ptxas(Path("bin"), find_output + script)
    Path("tmp").mkdir()
    variables = environment(PATH=path_with(tools.absolute()), TMPDIR=Path("tmp").absolute())
    return run(*COMPILE, "-o", "k.cubin", program=WITHOUT_PACKAGES, env=variables)


def nothing_is_left() -> bool:
    """Whether there is neither an output nor a temporary folder of ptxas."""
    left = [path for path in Path("tmp").iterdir() if "reproducer" not in path.name]
    return not Path("k.cubin").exists() and left == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "it ended without an error and left no code"),
        (': > "$out"', "it ended without an error and left no code"),
        ('echo hello > "$out"', "what it left is no ELF file (6 bytes)"),
        ('cat /bin/sh > "$out"', "what it left is no whole ELF file of CUDA code ("),
    ],
)
def test_no_cubin_is_no_success(script: str, reason: str) -> None:
    """Exit code 5, and no output file."""
    done = compile_with(script)
    assert done.returncode == 5
    assert done.stderr.startswith(f"error: ptxas made no usable cubin: {reason}")
    assert done.stderr.endswith(CLOSING)
    assert nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_signal_that_killed_ptxas_is_named(number: signal.Signals) -> None:
    """It is not said that the code was rejected."""
    done = compile_with(f"kill -{int(number)} $$")
    assert done.returncode == 5
    first, *others = done.stderr.splitlines()
    assert first == f"error: ptxas was killed by {number.name}"
    assert ("note: the system does this when memory runs out" in others) == (
        number == signal.SIGKILL
    )
    assert "rejected" not in done.stderr
    assert nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_crash_of_ptxas_is_an_internal_error(number: signal.Signals) -> None:
    """With a name for the signal."""
    done = compile_with(f"ulimit -c 0; kill -{int(number)} $$")
    assert done.returncode == 5
    expected = f"error: internal error in ptxas: ptxas was killed by {number.name}\n"
    assert done.stderr.startswith(expected)
    assert nothing_is_left()


def test_size_limit_that_ptxas_meets() -> None:
    """`ulimit -f` between the sizes of the PTX and of the cubin: place and reason, exit code 2."""
    done = compile_with("kill -XFSZ $$")
    assert done.returncode == 2
    assert done.stderr.startswith("error: unable to write temporary file '")
    assert done.stderr.endswith("': File too large\n")
    assert nothing_is_left()


def test_size_limit_that_the_ptx_meets() -> None:
    """Place and reason, exit code 2."""
    Path("tmp").mkdir()
    done = run(
        *COMPILE,
        "-o",
        "k.cubin",
        env=environment(TMPDIR=Path("tmp").absolute(), XDG_CACHE_HOME="/dev/null/cache"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: unable to write temporary file '")
    assert done.stderr.endswith("k.ptx': File too large\n")
    assert nothing_is_left()


def test_ptxas_has_no_ignored_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ: a child that inherits this would go on after them."""
    done = compile_with("kill -PIPE $$; exit 0")
    assert done.stderr.startswith("error: ptxas was killed by SIGPIPE\n")


@pytest.mark.parametrize(("kilobytes", "limits"), [(4, "k.ptx"), (16, "")])
def test_full_temporary_folder(kilobytes: int, limits: str) -> None:
    """Where the PTX has no room, and where it has and the cubin has not."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no program unshare")
    Path("tmp").mkdir()
    probe = "mount -t tmpfs -o size=4k none tmp"
    spaces = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*spaces, "sh", "-c", probe], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system in a name space")
    mount = f'mount -t tmpfs -o size={kilobytes}k none tmp && "$@"; code=$?; ls tmp; exit $code'
    if not limits:  # leaves room for the PTX only
        mount = mount.replace('"$@"', f'head -c {(kilobytes - 8) << 10} /dev/zero > tmp/x; "$@"')
    variables = environment(TMPDIR=Path("tmp").absolute(), XDG_CACHE_HOME="/dev/null/cache")
    from tests.robustness.processes import TILEIRAS

    words = [*TILEIRAS, *COMPILE, "-o", "k.cubin"]
    done = run("-c", mount, "sh", *words, program=[*spaces, "sh"], env=variables)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: unable to write temporary file '")
    assert done.stderr.endswith(f"{limits}': No space left on device\n")
    assert done.stdout == ("" if limits else "x\n")


# the check itself

PTX = """.version {version}
.target {target}
.address_size 64
.visible .entry first(.param .u64 p)
{{
  ret;
}}
.visible .entry second()
.reqntid 32
{{
  ret;
}}
"""


def ptx_of(target: GpuTarget) -> str:
    """The kernels' PTX in the version that the target needs."""
    version = f"{target.ptx_version // 10}.{target.ptx_version % 10}"
    return PTX.format(version=version, target=target.ptx_target)


@pytest.fixture(scope="module")
def cubin() -> bytes:
    """Two kernels for sm_90."""
    target = get_target("sm_90")
    return ptx_to_cubin(ptx_of(target), target, CompileOptions()).cubin


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_cubins_of_all_targets_pass(name: str) -> None:
    """Their number is where the check looks for it."""
    target = get_target(name)
    ptx = ptx_of(target)
    assert ptx_to_cubin(ptx, target, CompileOptions()).cubin
    assert find_ptxas({})


def test_other_target_is_named(cubin: bytes) -> None:
    """Code of one GPU does not pass for another's."""
    with pytest.raises(CompileError, match=r"it left code for sm_90, expected sm_100"):
        check_cubin(cubin, get_target("sm_100"), "")


def test_missing_kernel_is_named(cubin: bytes) -> None:
    """Every entry of the PTX must be there."""
    target = get_target("sm_90")
    check_cubin(cubin, target, PTX)
    with pytest.raises(CompileError, match="its code lacks the kernel 'third'"):
        check_cubin(cubin, target, PTX + ".visible .entry third()\n{ ret; }\n")


def test_every_cut_is_found(cubin: bytes) -> None:
    """No beginning of a cubin passes for a whole one, and none raises anything else."""
    target = get_target("sm_90")
    for size in range(0, len(cubin), 7):
        with pytest.raises(CompileError, match="ptxas made no usable cubin"):
            check_cubin(cubin[:size], target, PTX)


def test_damage_never_escapes(cubin: bytes) -> None:
    """Any number in the head or in the table of sections may be wrong."""
    target = get_target("sm_90")
    table = struct.unpack_from("<Q", cubin, 40)[0]
    for place in (*range(64), *range(table, min(table + 512, len(cubin)))):
        for value in (0, 0x7F, 0xFF):
            damaged = bytearray(cubin)
            damaged[place] = value
            try:
                check_cubin(bytes(damaged), target, PTX)
            except CompileError:
                continue
