"""Collects every `*.mlir` below this directory as file tests, one item for each case."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ir_case import Case, FileTestFailure, FileTestMistake, read_cases, run_case  # noqa: E402


class CaseItem(pytest.Item):
    """One case of a file as a test."""

    case: Case

    def runtest(self) -> None:
        """Runs the case, blessing exact outputs when asked to."""
        run_case(self.case, bless=bool(self.config.getoption("--bless")))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # pyright: ignore
        """The report of the case, without a traceback where it says all."""
        if isinstance(excinfo.value, FileTestFailure | FileTestMistake):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands."""
        return self.path, self.case.first_line - 1, self.name


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        """The cases, with names that are unique in the file."""
        seen: dict[str, int] = {}
        for case in read_cases(self.path):
            count = seen[case.name] = seen.get(case.name, 0) + 1
            name = case.name if count == 1 else f"{case.name}#{count}"
            item = CaseItem.from_parent(self, name=name)
            item.case = case
            yield item


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """A file of cases for each `.mlir` file."""
    if file_path.suffix == ".mlir":
        return CaseFile.from_parent(parent, path=file_path)
    return None
