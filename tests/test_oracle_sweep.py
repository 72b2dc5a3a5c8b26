"""What benchmarks/oracle_sweep.py makes of two compilers' answers; NVIDIA's is a script here."""

from __future__ import annotations

import json
import random
import stat
import sys
from io import StringIO
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import oracle_sweep  # noqa: E402
from corpus_sweep import Outcome  # noqa: E402
from oracle_sweep import (  # noqa: E402
    Question,
    Verdict,
    ask_ours,
    ask_vendor,
    compare,
    print_tables,
    read_cache,
    spread,
    sweep,
    vendor_version,
)
from rich.console import Console  # noqa: E402

GOOD = "entry @k() {\n  return\n}\n"
ONLY_SINCE_SM_89 = "entry @k() {\n  %c = constant <f8E5M2: 1.0> : tile<4xf8E5M2>\n  return\n}\n"
LIMIT = 60.0


def script(folder: Path, body: str) -> str:
    """A command whose work is `body`."""
    path = folder / "vendor"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def source(folder: Path, text: str, name: str = "kernel.bc") -> Path:
    """A file to compile; text is taken as well as bytecode."""
    path = folder / name
    path.write_text(text)
    return path


def verdict(ours: bool | None, vendors: bool | None, file: str = "a.bc") -> Verdict:
    """A verdict with messages that say who rejected."""
    mine = "" if ours else "ours says no"
    theirs = "" if vendors else "theirs says no"
    return Verdict(file, "sm_90", ours, vendors, mine, theirs)


@pytest.mark.parametrize(
    ("ours", "vendors", "agrees", "answered"),
    [
        (True, True, True, True),
        (False, False, True, True),
        (True, False, False, True),
        (False, True, False, True),
        (None, False, True, False),
        (True, None, True, False),
    ],
)
def test_only_two_answers_can_disagree(
    ours: bool | None, vendors: bool | None, agrees: bool, answered: bool
):
    found = verdict(ours, vendors)
    assert (found.agrees, found.answered) == (agrees, answered)


def test_the_vendor_is_asked_for_the_target_and_its_error_kept(tmp_path: Path):
    path = source(tmp_path, GOOD)
    command = script(tmp_path, 'echo "loc: error: no $5" >&2; [ "$5" = sm_90 ] && exit 0\nexit 5')
    assert ask_vendor(command, path, "sm_90", LIMIT) == (True, "")
    assert ask_vendor(command, path, "sm_80", LIMIT) == (False, "no sm_80")


def test_a_vendor_without_an_answer_is_no_rejection(tmp_path: Path):
    command = script(tmp_path, "exec sleep 20")
    assert ask_vendor(command, source(tmp_path, GOOD), "sm_90", 0.2) == (None, "over 0.2 s")


def test_ours_accepts_rejects_and_is_given_up(tmp_path: Path):
    path = source(tmp_path, ONLY_SINCE_SM_89)
    assert ask_ours(path, "sm_89", "nv_tileaa", LIMIT) == (True, "")
    accepted, message = ask_ours(path, "sm_80", "nv_tileaa", LIMIT)
    assert accepted is False and "unsupported type 'f8E5M2'" in message
    assert ask_ours(path, "sm_89", "nv_tileaa", 0.001) == (None, "over 0.001 s")


def test_a_crash_of_ours_is_a_rejection_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    crashed = Outcome("kernel.bc", "crashed", -11, 0.1, "internal error: oh")
    monkeypatch.setattr(oracle_sweep, "compile_file", lambda *_: crashed)
    answer = ask_ours(tmp_path / "kernel.bc", "sm_90", "cubin", LIMIT)
    assert answer == (False, "crash: internal error: oh")


def test_a_known_answer_is_not_asked_for_again(tmp_path: Path):
    path = source(tmp_path, GOOD)
    known = Question(path, "sm_90", "/no/such/compiler", "nv_tileaa", LIMIT, (False, "old"))
    assert compare(known) == Verdict("kernel.bc", "sm_90", True, False, "", "old")


def test_sweep_keeps_the_order_and_stops_in_time(tmp_path: Path):
    paths = [source(tmp_path, GOOD, f"{name}.bc") for name in "abc"]
    asked = [Question(path, "sm_90", "", "cuda_tile", LIMIT, (True, "")) for path in paths]
    assert [found.file for found in sweep(asked, 2, 0.0)] == ["a.bc", "b.bc", "c.bc"]
    assert [found.file for found in sweep(asked, 1, 1e-9)] == ["a.bc"]


def test_version_is_one_line(tmp_path: Path):
    assert vendor_version(script(tmp_path, "echo tileiras; echo '  V1.2 '")) == "tileiras V1.2"


def test_cache_holds_answers(tmp_path: Path):
    path = tmp_path / "cache.json"
    assert read_cache(path) == {}
    path.write_text(json.dumps({"key": [False, "no"]}))
    assert read_cache(path) == {"key": (False, "no")}


def test_sample_takes_origins_in_turn():
    paths = [Path(f"many.{n}.bc") for n in range(20)] + [Path("one.0.bc"), Path("two.0.bc")]
    chosen = spread(paths, 4, random.Random(1))
    assert {path.name.partition(".")[0] for path in chosen[:3]} == {"many", "one", "two"}
    assert len(chosen) == len(set(chosen)) == 4
    assert chosen == spread(paths, 4, random.Random(1))
    assert sorted(spread(paths, 100, random.Random(2))) == sorted(paths)


def test_table_counts_and_groups_disagreements():
    verdicts = [
        verdict(True, True),
        verdict(True, False, "b.bc"),
        verdict(True, False, "c.bc"),
        verdict(None, True),
    ]
    text = StringIO()
    print_tables(verdicts, Console(file=text, width=160))
    (row,) = [
        line for line in text.getvalue().splitlines() if "sm_90" in line and "theirs" not in line
    ]
    assert [int(word) for word in row.replace("│", " ").split()[1:]] == [4, 1, 0, 2, 0, 1]
    (group,) = [line for line in text.getvalue().splitlines() if "theirs says no" in line]
    assert "b.bc" in group and " 2 " in group


def test_agreement_prints_no_second_table():
    text = StringIO()
    print_tables([verdict(True, True)], Console(file=text, width=160))
    assert "disagreements" not in text.getvalue()
