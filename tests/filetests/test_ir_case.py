"""The file-test harness itself: it must be able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from ir_case import (
    Case,
    FileTestFailure,
    FileTestMistake,
    expected_errors,
    match_checks,
    match_error,
    match_exactly,
    read_cases,
    run_case,
)

from tileiras.errors import CompileError, SourceLocation


def case_of(text: str, **fields: object) -> Case:
    """A case with this text."""
    return Case(Path("case.mlir"), "", text, 1, **fields)  # pyright: ignore[reportArgumentType]


def test_cases_are_split_and_keep_their_lines(tmp_path: Path) -> None:
    """Each piece knows the line of the file at which it starts."""
    path = tmp_path / "a.mlir"
    path.write_text("// RUN: p\nentry @one() {}\n// -----\n\nentry @two() {}\n")
    first, second = read_cases(path)
    assert (first.name, first.first_line, first.run_line) == ("one", 1, "p")
    assert (second.name, second.first_line) == ("two", 4)


def test_file_without_run_line_is_a_mistake(tmp_path: Path) -> None:
    """A file that says nothing to run would pass for nothing."""
    path = tmp_path / "a.mlir"
    path.write_text("entry @one() {}\n")
    with pytest.raises(FileTestMistake):
        read_cases(path)


def test_several_run_lines_are_cases_by_target(tmp_path: Path) -> None:
    """Each has its own name and its own expected file; two for one target would share it."""
    path = tmp_path / "a.mlir"
    path.write_text("// RUN: --gpu-name=sm_80\n// RUN: -O0\n// EXACT\nentry @one() {}\n")
    old, new = read_cases(path)
    assert (old.name, new.name) == ("one-sm_80", "one-sm_90")
    assert [case.expected_file.name for case in (old, new)] == [
        "a.sm_80.expected",
        "a.sm_90.expected",
    ]
    path.write_text("// RUN: --gpu-name=sm_90\n// RUN: -O0\nentry @one() {}\n")
    with pytest.raises(FileTestMistake, match="two RUN lines"):
        read_cases(path)


def test_case_that_expects_nothing_is_a_mistake() -> None:
    """A case must have checks or an expected error."""
    with pytest.raises(FileTestMistake):
        run_case(case_of("entry @one() {}\n"))


def test_check_lines_accept_and_reject() -> None:
    """CHECK, CHECK-NEXT and CHECK-NOT work on the output."""
    case = case_of("// CHECK: one\n// CHECK-NEXT: two\n// CHECK-NOT: four\n")
    match_checks(case, "one\ntwo\nthree\n")
    with pytest.raises(FileTestFailure):
        match_checks(case, "one\nthree\ntwo\n")
    with pytest.raises(FileTestFailure):
        match_checks(case, "one\ntwo\nfour\n")


def test_expected_errors_name_line_and_message() -> None:
    """On the line itself or by offset."""
    case = case_of("a // expected-error {{x}}\n// expected-error@+1 {{y}}\nb\n")
    assert expected_errors(case) == [(1, "x"), (3, "y")]


@pytest.mark.parametrize(("line", "message"), [(2, "bad tile"), (1, "other")])
def test_wrong_error_is_a_failure(line: int, message: str) -> None:
    """The message and the line must both agree."""
    error = CompileError("bad tile shape", SourceLocation("case.mlir", 1, 3))
    match_error(case_of(""), error, [(1, "bad tile")])
    with pytest.raises(FileTestFailure):
        match_error(case_of(""), error, [(line, message)])


def test_exact_output_is_compared_and_blessed(tmp_path: Path) -> None:
    """Blessing writes the file that is compared with later."""
    case = Case(tmp_path / "a.mlir", "", "", 1, is_exact=True)
    with pytest.raises(FileTestMistake):
        match_exactly(case, "text\n", bless=False)
    match_exactly(case, "text\n", bless=True)
    match_exactly(case, "text\n", bless=False)
    with pytest.raises(FileTestFailure):
        match_exactly(case, "other\n", bless=False)
