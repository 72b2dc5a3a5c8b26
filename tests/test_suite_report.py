"""benchmarks/suite_report.py on small JUnit files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import suite_report  # noqa: E402

OURS = """<testsuites><testsuite>
<testcase classname="test.test_a" name="one"/>
<testcase classname="test.test_a" name="two[8]">
  <failure message="E   Boom 17">loc("k.py":3:4): error: op of 8 bytes is not supported</failure>
</testcase>
<testcase classname="test.test_a" name="two[16]">
  <failure message="E   Boom 18">loc("k.py":9:4): error: op of 16 bytes is not supported</failure>
</testcase>
<testcase classname="test.test_b" name="three"><skipped message="no blackwell"/></testcase>
<testcase classname="test.test_b" name="four"/>
<testcase classname="test.test_b" name="four"><error message="at teardown"/></testcase>
</testsuite></testsuites>"""
VENDOR = """<testsuites><testsuite>
<testcase classname="test.test_a" name="one"/>
<testcase classname="test.test_a" name="two[8]"/>
<testcase classname="test.test_a" name="two[16]"><failure message="x"/></testcase>
<testcase classname="test.test_b" name="five"/>
</testsuite></testsuites>"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Our file and the baseline."""
    for name, text in (("ours.xml", OURS), ("vendor.xml", VENDOR)):
        (tmp_path / name).write_text(text)
    return str(tmp_path / "ours.xml"), str(tmp_path / "vendor.xml")


def test_counts_and_groups(files: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    assert suite_report.main(files[:1]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == ["test.test_a", "1", "2", "0", "0"]
    assert shown[3].split() == ["all", "1", "2", "1", "1"]
    assert "     2  op of N bytes is not supported" in shown


def test_only_what_passes_in_the_baseline_counts_as_lost(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
):
    assert suite_report.main([files[0], "--baseline", files[1]]) == 1
    shown = capsys.readouterr().out
    assert "2 tests pass in the baseline only" in shown
    assert "test.test_a::two[8]: failed: op of 8 bytes is not supported" in shown
    assert "test.test_b::five: missing" in shown
    assert "two[16]: failed" not in shown


def test_nothing_lost(files: tuple[str, str]):
    assert suite_report.main([files[0], "--baseline", files[0]]) == 0
