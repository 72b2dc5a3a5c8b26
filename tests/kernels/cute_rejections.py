"""What tests of bad programs with CuTe's operations share."""

from __future__ import annotations

import pytest

from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text
from tileiras.stages import print_stage


def check_rejected(text: str, operation: str, message: str) -> None:
    """The error says this, names the operation, and stands at its line."""
    with pytest.raises(BytecodeError) as raised:
        parse_text(text, "bad.mlir")
    assert message in raised.value.message
    assert f"'{operation}' op" in raised.value.message
    place = raised.value.location
    assert place is not None
    assert operation in text.splitlines()[place.line - 1]


def check_accepted(text: str, operation: str) -> None:
    """The program's text says the same again."""
    printed = print_stage(parse_text(text))
    assert operation in printed
    assert print_stage(parse_text(printed)) == printed


def identity(case: tuple[str, ...]) -> str:
    """The operation and what is said."""
    return "-".join((case[0].partition(".")[2], *case[4:]))
