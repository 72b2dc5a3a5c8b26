"""Results that are kept from run to run, and whether results of a launch are right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from tileiras.tune.cache import Result, ResultFile  # noqa: E402
from tileiras.tune.verification import _PIECE, ArgumentFile, mistake  # noqa: E402

PARTS = {"sources": "abc", "target": "sm_90", "device": ["sm_90", "a GPU", "13000"]}
GOOD = Result({"tile": 64}, (1.0, 3.0, 2.0), registers=20)
BAD = Result({"tile": 128}, kind="hang", message="it did not end within 2 seconds")


def filled(folder: Path, parts: dict[str, object] = PARTS) -> ResultFile:
    """A file with two results."""
    kept = ResultFile(str(folder), parts)
    kept.keep(GOOD)
    kept.keep(BAD)
    return kept


def test_results_are_found_in_another_run(tmp_path: Path) -> None:
    filled(tmp_path)
    again = ResultFile(str(tmp_path), PARTS)
    assert again.find({"tile": 64}) == GOOD and GOOD.median == 2.0
    assert again.find({"tile": 128}) == BAD and BAD.median is None
    assert again.find({"tile": 256}) is None


@pytest.mark.parametrize("changed", ["sources", "target", "device"])
def test_results_of_something_else_are_not_found(tmp_path: Path, changed: str) -> None:
    filled(tmp_path)
    assert ResultFile(str(tmp_path), {**PARTS, changed: "x"}).find({"tile": 64}) is None


def test_torn_line_is_a_missing_result(tmp_path: Path) -> None:
    """And does not spoil the one that is written behind it."""
    filled(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    again = ResultFile(str(tmp_path), PARTS)
    assert again.find({"tile": 64}) == GOOD and again.find({"tile": 128}) is None
    again.keep(BAD)
    assert ResultFile(str(tmp_path), PARTS).find({"tile": 128}) == BAD


@pytest.mark.parametrize("line", ["[]", "{}", "7", '{"point": 3}', '{"point": {}, "times": ["x"]}'])
def test_damaged_line_is_ignored(tmp_path: Path, line: str) -> None:
    filled(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(f"{line}\n" + path.read_text() + "\xff\n")
    assert ResultFile(str(tmp_path), PARTS).find({"tile": 64}) == GOOD


def test_last_result_of_a_point_counts(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    kept.keep(Result({"tile": 128}, (0.5,)))
    found = ResultFile(str(tmp_path), PARTS).find({"tile": 128})
    assert found is not None and found.median == 0.5


def test_failures_can_be_forgotten(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    kept.forget_failures()
    assert kept.find({"tile": 128}) is None and kept.find({"tile": 64}) == GOOD


def test_nothing_is_kept_without_a_folder_or_where_it_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, str(tmp_path / "file")):
        kept = ResultFile(folder, PARTS)
        kept.keep(GOOD)
        assert kept.find({"tile": 64}) == GOOD
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert json.dumps(PARTS)


def check(
    tmp_path: Path,
    found: Sequence[float],
    expected: Sequence[float],
    dtype: str,
    relative: float | None = None,
    absolute: float | None = None,
) -> str:
    """What is wrong with an array."""
    for name, values in (("found", found), ("expected", expected)):
        np.array(values, dtype).tofile(tmp_path / name)
    argument = ArgumentFile("out", "", dtype, (len(found),), str(tmp_path / "expected"))
    return mistake([argument], {0: str(tmp_path / "found")}, str(tmp_path), relative, absolute)


def test_results_within_the_tolerance_are_right(tmp_path: Path) -> None:
    assert check(tmp_path, [1.0, 100.0], [1.0, 100.0], "float32") == ""
    assert check(tmp_path, [1.0001, 100.0], [1.0, 100.0], "float32") == ""
    assert check(tmp_path, [1.1], [1.0], "float32", relative=0.2) == ""
    assert check(tmp_path, [1.1], [1.0], "float32", absolute=0.2) == ""
    assert check(tmp_path, [float("nan")], [float("nan")], "float64") == ""
    assert check(tmp_path, [float("inf")], [float("inf")], "float16", 0.0, 0.0) == ""


def test_wrong_results_are_told_with_their_place(tmp_path: Path) -> None:
    text = check(tmp_path, [1.0, 2.0, 4.0], [1.0, 2.5, 4.5], "float32")
    assert text == "2 of 3 elements of 'out' are wrong, the first at (1,): 2, expected 2.5"
    assert "nan, expected 1" in check(tmp_path, [float("nan")], [1.0], "float16", 1.0, 1.0)
    assert "1 of 1" in check(tmp_path, [1.0], [float("inf")], "float32")
    assert "1 of 1" in check(tmp_path, [3], [4], "int32")
    assert "1 of 1" in check(tmp_path, [1.001], [1.0], "float64", 0.0, 0.0)


def test_long_arrays_are_compared_in_pieces(tmp_path: Path) -> None:
    """What is wrong is counted over all; the largest element of another piece counts, too."""
    right = np.ones(3 * _PIECE + 5, "float32")
    found = right.copy()
    found[[_PIECE + 7, 3 * _PIECE + 1]] = 2.0
    text = check(tmp_path, found, right, "float32")
    count, place = f"2 of {len(right)}", _PIECE + 7
    assert text == f"{count} elements of 'out' are wrong, the first at ({place},): 2, expected 1"
    found[0] = right[0] = 1e9
    assert check(tmp_path, found, right, "float32") == ""


def test_array_that_must_change_and_did_not_is_wrong(tmp_path: Path) -> None:
    """Its file is that of the argument; one that must not change is not read."""
    for name, value in (("before", 1.0), ("expected", 2.0)):
        np.full(2, value, "float32").tofile(tmp_path / name)
    before, after = str(tmp_path / "before"), str(tmp_path / "expected")
    output = ArgumentFile("out", before, "float32", (2,), after)
    gone = ArgumentFile("a", "gone", "float32", (2,), "gone")
    (tmp_path / "gone").unlink(missing_ok=True)
    text = mistake([output, gone], {0: before, 1: "gone"}, str(tmp_path), None, None)
    assert text == "2 of 2 elements of 'out' are wrong, the first at (0,): 1, expected 2"


def test_first_results_are_expected_where_there_is_no_reference(tmp_path: Path) -> None:
    argument = ArgumentFile("out", "", "float32", (2,))
    for value, right in ((1.0, True), (1.0, True), (2.0, False)):
        np.full(2, value, "float32").tofile(tmp_path / "found")
        text = mistake([argument], {0: str(tmp_path / "found")}, str(tmp_path), None, None)
        assert (text == "") == right
