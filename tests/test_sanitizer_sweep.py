"""What benchmarks/sanitizer_sweep.py makes of a sanitizer's output; the sanitizer is a script."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from sanitizer_sweep import attribute, run_tool  # noqa: E402

LOG = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at k_second+0x120 in second:3
=========     Address 0x7f00 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
JOBS = [(name, f"k_{name}", b"", (), (1, 1, 1)) for name in ("first", "second", "second_too")]


def sanitizer(folder: Path, noted: list[str], log: str) -> str:
    """A command that notes kernels as begun ("" is the end) and prints a log."""
    names = " ".join(f"'\"{name}\"'" for name in noted)
    (folder / "log").write_text(log)
    command = folder / "sanitizer"
    command.write_text(
        '#!/bin/sh\nfor work; do :; done\ndone_file="${work%.pickle}.done"\n'
        f'printf "%s\\n" {names} > "$done_file"\ncat {folder}/log\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return str(command)


def test_report_belongs_to_the_entry_that_it_names():
    assert [f.status for f in attribute(JOBS, LOG)] == ["clean", "reported", "clean"]


def test_kernels_without_reports_are_clean(tmp_path: Path):
    noted = ["first", "second", "second_too", ""]
    for summary in ("ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed"):
        command = sanitizer(tmp_path, noted, f"========= {summary}\n")
        findings = run_tool("memcheck", command, JOBS, tmp_path, 60)
        assert [(f.name, f.status) for f in findings] == [(name, "clean") for name, *_ in JOBS]


def test_report_that_names_no_kernel_is_not_lost(tmp_path: Path):
    command = sanitizer(tmp_path, ["first", ""], "========= ERROR SUMMARY: 1 error\n")
    findings = run_tool("memcheck", command, JOBS[:1], tmp_path, 60)
    assert [f.status for f in findings] == ["clean", "reported"]


def test_kernel_that_ends_the_process_fails(tmp_path: Path):
    command = sanitizer(tmp_path, ["first"], "LaunchError: cuCtxSynchronize")
    findings = run_tool("memcheck", command, JOBS, tmp_path, 60)
    assert [f.status for f in findings] == ["failed"] * 3


def test_kernel_that_does_not_end_fails_and_the_rest_goes_on(tmp_path: Path):
    command = sanitizer(tmp_path, ["first"], "")
    with (tmp_path / "sanitizer").open("a") as stream:
        stream.write("sleep 600\n")
    findings = run_tool("racecheck", command, JOBS[:2], tmp_path, 0.5)
    assert [f.status for f in findings] == ["failed"] * 2
    assert findings[0].message.startswith("did not end in 0.5 seconds")


def test_tool_that_does_not_start_is_an_error(tmp_path: Path):
    command = sanitizer(tmp_path, [], "no such option")
    (tmp_path / "sanitizer").write_text("#!/bin/sh\necho no such option\n")
    with pytest.raises(SystemExit, match="did not start: no such option"):
        run_tool("memcheck", command, JOBS, tmp_path, 60)
