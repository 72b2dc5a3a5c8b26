"""ptxas: where it is looked for, what it says, and that nothing is left behind."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.kernels.ptx_texts import BAD, GOOD
from tileiras.codegen import cuda_toolkit
from tileiras.codegen.ptxas_backend import ptx_to_cubin, ptxas_release
from tileiras.codegen.ptxas_log import advisories, first_error, kernel_resources, locate_error
from tileiras.codegen.ptxas_process import find_ptxas
from tileiras.codegen.target import get_target
from tileiras.errors import CompileError, TargetError
from tileiras.options import CompileOptions


def _options(tmp_path: Path, **knobs: str) -> CompileOptions:
    return CompileOptions(knobs={"TMPDIR": str(tmp_path), **knobs})


def _fake_ptxas(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ptxas"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no pip package brought a toolkit."""
    monkeypatch.setattr(cuda_toolkit, "package_folders", list)


def test_good_ptx_becomes_an_elf_and_leaves_no_files(tmp_path: Path) -> None:
    result = ptx_to_cubin(GOOD, get_target("sm_90"), _options(tmp_path))
    assert result.cubin.startswith(b"\x7fELF")
    assert [kernel.name for kernel in result.kernels] == ["k"]
    assert result.spills == 0
    assert list(tmp_path.iterdir()) == []


def test_assembling_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    target = get_target("sm_90")
    first = ptx_to_cubin(GOOD, target, _options(tmp_path)).cubin
    assert ptx_to_cubin(GOOD, target, _options(tmp_path)).cubin == first


def test_rejected_ptx_is_reported_in_ptxas_words_at_its_source_line(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        ptx_to_cubin(BAD, get_target("sm_90"), _options(tmp_path))
    assert re.match(r"ptxas rejected the generated code: .*'add'", caught.value.message)
    assert str(caught.value.location) == 'loc("dir/kernel.py":42:7)'
    assert list(tmp_path.iterdir()) == []


def test_error_without_loc_has_no_location(tmp_path: Path) -> None:
    ptx = "\n".join(line for line in BAD.splitlines() if ".loc" not in line)
    with pytest.raises(CompileError) as caught:
        ptx_to_cubin(ptx, get_target("sm_90"), _options(tmp_path))
    assert caught.value.location is None


@pytest.mark.usefixtures("no_packages")
def test_missing_ptxas_says_how_to_get_it() -> None:
    with pytest.raises(TargetError, match="cannot find ptxas.*nvidia-cuda-nvcc"):
        find_ptxas({"PATH": "/nonexistent"})


@pytest.mark.usefixtures("no_packages")
def test_cuda_home_comes_before_path(tmp_path: Path) -> None:
    home = _fake_ptxas(tmp_path / "cuda" / "bin", "exit 0")
    other = _fake_ptxas(tmp_path / "other", "exit 0")
    knobs = {"PATH": str(other.parent)}
    assert find_ptxas(knobs) == str(other)
    assert find_ptxas({**knobs, "CUDA_HOME": str(tmp_path / "cuda")}) == str(home)
    assert find_ptxas({**knobs, "CUDA_PATH": str(tmp_path / "cuda")}) == str(home)


@pytest.mark.usefixtures("no_packages")
def test_program_that_cannot_be_executed_is_passed_over(tmp_path: Path) -> None:
    _fake_ptxas(tmp_path / "first", "exit 0").chmod(0o644)
    second = _fake_ptxas(tmp_path / "second", "exit 0")
    path = f"{tmp_path / 'first'}{os.pathsep}{second.parent}"
    if os.access(tmp_path / "first" / "ptxas", os.X_OK):
        pytest.skip("this user may execute everything")
    assert find_ptxas({"PATH": path}) == str(second)


@pytest.mark.usefixtures("no_packages")
def test_old_ptxas_is_named_with_its_release(tmp_path: Path) -> None:
    old = _fake_ptxas(
        tmp_path / "old",
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 12.4, V12.4.1"; '
        "exit 0; fi\necho unsupported; exit 1",
    )
    options = _options(tmp_path, PATH=str(old.parent))
    with pytest.raises(TargetError, match=r"release 12\.4, expected 13\.0 or newer"):
        ptx_to_cubin(GOOD, get_target("sm_90"), options)


@pytest.mark.usefixtures("no_packages")
@pytest.mark.parametrize(("release", "too_old"), [("13.4", True), ("13.5", False)])
def test_newer_target_needs_a_newer_ptxas(release: str, too_old: bool, tmp_path: Path) -> None:
    program = _fake_ptxas(
        tmp_path / "old",
        f'if [ "$1" = --version ]; then echo "Cuda compilation tools, release {release}, V1.2.3"; '
        "exit 0; fi\necho unsupported; exit 1",
    )
    options = _options(tmp_path, PATH=str(program.parent))
    error, words = (
        (TargetError, r"release 13\.4, expected 13\.5 or newer for sm_107")
        if too_old
        else (CompileError, "unsupported")
    )
    with pytest.raises(error, match=words):
        ptx_to_cubin(GOOD, get_target("sm_107"), options)


@pytest.mark.usefixtures("no_packages")
def test_killed_ptxas_is_an_error(tmp_path: Path) -> None:
    program = _fake_ptxas(tmp_path / "bad", 'if [ "$1" != --version ]; then kill -9 $$; fi')
    options = _options(tmp_path, PATH=str(program.parent))
    with pytest.raises(CompileError, match="ptxas was killed by SIGKILL"):
        ptx_to_cubin(GOOD, get_target("sm_90"), options)


def test_unusable_temporary_folder_is_an_error(tmp_path: Path) -> None:
    options = CompileOptions(knobs={"TMPDIR": str(tmp_path / "missing")})
    with pytest.raises(TargetError, match="cannot make temporary folder"):
        ptx_to_cubin(GOOD, get_target("sm_90"), options)


def test_installed_ptxas_is_new_enough() -> None:
    release = ptxas_release(find_ptxas({}), {})
    assert release is not None and release >= (13, 0)


# reading the log

_LOG = """ptxas info    : 16 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    64 bytes stack frame, 32 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 64 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""


def test_resources_are_read_per_kernel() -> None:
    first, second = kernel_resources(_LOG)
    assert (first.name, first.registers, first.stack, first.shared) == ("first", 255, 64, 2048)
    assert (first.spill_stores, first.spill_loads) == (32, 48)
    assert (second.name, second.registers, second.shared) == ("second", 8, 0)


def test_serialised_wgmma_is_advice() -> None:
    assert len(advisories(_LOG)) == 1 and "C7510" in advisories(_LOG)[0]
    assert advisories("ptxas info    : Used 8 registers\n") == ()


def test_first_error_is_found_among_several() -> None:
    log = "ptxas a.ptx, line 7; error   : one\nptxas a.ptx, line 9; error   : two\n"
    assert first_error(log) == "one"
    assert first_error("ptxas fatal   : Unknown option") == "Unknown option"


def test_location_does_not_come_from_another_function() -> None:
    ptx = '.file 1 "a.py"\n.loc 1 3 4\n.visible .entry k()\n{\nbad;\n}\n'
    assert locate_error("ptxas a.ptx, line 5; error   : one", ptx) is None
