"""ptxas that is started before its input is there: the same results, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.ptx_texts import BAD, GOOD
from tileiras.codegen import ptxas_process
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.ptxas_process import find_ptxas, started_ahead
from tileiras.codegen.target import get_target
from tileiras.errors import CompileError
from tileiras.options import CompileOptions

TARGET = get_target("sm_90")


@pytest.fixture
def options(tmp_path: Path) -> CompileOptions:
    return CompileOptions(gpu_name="sm_90", knobs={"TMPDIR": str(tmp_path)})


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of a command."""
    monkeypatch.setattr(ptxas_process, "is_watched", lambda: True)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_result_is_that_of_an_ordinary_run(tmp_path: Path, options: CompileOptions) -> None:
    ordinary = ptx_to_cubin(GOOD, TARGET, options)
    with started_ahead(TARGET, options):
        (waiting,) = ptxas_process._waiting
        found = ptx_to_cubin(GOOD, TARGET, options)
        assert not ptxas_process._waiting and not is_running(waiting.process)
    assert (found.cubin, found.kernels) == (ordinary.cubin, ordinary.kernels)
    assert list(tmp_path.iterdir()) == []


def test_it_reads_nothing_before_it_is_given(tmp_path: Path, options: CompileOptions) -> None:
    """Who opens the file waits; a reader that does not want to wait is told so."""
    with started_ahead(TARGET, options):
        (waiting,) = ptxas_process._waiting
        source = waiting.folder.files()[0]
        with pytest.raises(BlockingIOError):
            os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_told_as_without_it(tmp_path: Path, options: CompileOptions) -> None:
    with pytest.raises(CompileError) as ordinary:
        ptx_to_cubin(BAD, TARGET, options)
    with started_ahead(TARGET, options), pytest.raises(CompileError) as found:
        ptx_to_cubin(BAD, TARGET, options)
    assert (found.value.message, found.value.location) == (
        ordinary.value.message,
        ordinary.value.location,
    )
    assert list(tmp_path.iterdir()) == []


def test_compilation_that_fails_before_ends_it(tmp_path: Path, options: CompileOptions) -> None:
    with pytest.raises(CompileError, match="no such thing"), started_ahead(TARGET, options):
        (waiting,) = ptxas_process._waiting
        raise CompileError("no such thing")
    assert not is_running(waiting.process)
    assert list(tmp_path.iterdir()) == []


def test_other_options_do_not_use_it(tmp_path: Path, options: CompileOptions) -> None:
    with started_ahead(TARGET, options):
        (waiting,) = ptxas_process._waiting
        ptx_to_cubin(GOOD, TARGET, replace(options, opt_level=1))
        assert ptxas_process._waiting == [waiting]
    assert not is_running(waiting.process)
    assert list(tmp_path.iterdir()) == []


def test_program_that_uses_the_library_has_none(
    options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ptxas_process, "is_watched", lambda: False)
    with started_ahead(TARGET, options):
        assert not ptxas_process._waiting


def test_file_system_without_leases(
    tmp_path: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with started_ahead(TARGET, options):
        assert not ptxas_process._waiting
        assert ptx_to_cubin(GOOD, TARGET, options).cubin
    assert list(tmp_path.iterdir()) == []


def test_lease_that_the_system_may_have_taken_away(
    tmp_path: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = ptx_to_cubin(GOOD, TARGET, options)
    monkeypatch.setattr(ptxas_process, "_SECONDS_OF_LEASE", 0.0)
    with started_ahead(TARGET, options):
        assert ptx_to_cubin(GOOD, TARGET, options).cubin == ordinary.cubin
    assert list(tmp_path.iterdir()) == []


def test_early_run_that_ends_badly_is_made_again(tmp_path: Path, options: CompileOptions) -> None:
    """As one whose file system gives leases and does not hold to them: its input is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ptxas"
    program.write_text(
        f'#!/bin/sh\nif [ -e "{folder}/ran" ]; then exec "{find_ptxas({})}" "$@"; fi\n'
        f'touch "{folder}/ran"; exit 3\n'
    )
    program.chmod(0o755)
    ordinary = ptx_to_cubin(GOOD, TARGET, options)
    home = replace(options, knobs={**options.knobs, "CUDA_HOME": str(tmp_path)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tileiras.codegen.cuda_toolkit.package_folders", list)
        with started_ahead(TARGET, home):
            assert ptxas_process._waiting
            assert ptx_to_cubin(GOOD, TARGET, home).cubin == ordinary.cubin
    assert (folder / "ran").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
