"""Where long lines are broken."""

from __future__ import annotations

import pytest

from tileiras.dialects.assembly.wrapping import WIDTH, wrapped


def test_short_line_stays() -> None:
    """With its indentation."""
    assert wrapped("a : b", "  ") == ["  a : b"]


def test_type_goes_to_the_next_line() -> None:
    """Rather than breaking a list before it."""
    left = "op %a, %b, " + "%c" * 50
    assert wrapped(f"{left} : {'t' * 60}", "  ") == [f"  {left}", f"      : {'t' * 60}"]


def test_list_is_broken_behind_a_comma() -> None:
    """All lines fit, and nothing is lost."""
    line = "op " + ", ".join(f"%value{number}" for number in range(60))
    lines = wrapped(line, "    ")
    assert len(lines) > 1
    assert all(len(text) <= WIDTH for text in lines)
    assert all(text.endswith(",") for text in lines[:-1])
    assert " ".join(text.strip() for text in lines) == line


@pytest.mark.parametrize("text", ["x y " * 60, 'a \\" b ' * 40])
def test_string_stays_whole(text: str) -> None:
    """However long it is, spaces in it are no places to break at."""
    lines = wrapped(f'op "{text}" : i32', "")
    assert f'"{text}"' in [line.strip() for line in lines] or any(text in line for line in lines)


def test_brackets_of_earlier_lines_are_still_open() -> None:
    """The type of a number in a dictionary is not the type of the operation."""
    numbers = ", ".join(f"number{place} = {place} : i32" for place in range(12))
    lines = wrapped(f"op {{{numbers}}} : {'t' * 40}", "")
    assert len(lines) > 2
    assert all(line.endswith(",") for line in lines[:-2])
    assert lines[-1].strip() == ": " + "t" * 40
