"""Writes diagnostics and help, in colours where the stream is to have them.

What is imported for colours is imported only then: a compilation that ends well says nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import IO

COLORS = ("auto", "always", "never")
"""The values of `--color`."""

_OPTION = "color"


class _Current:
    """What says whether this process uses colours; nothing in a program that is no command."""

    arguments: Sequence[str] = ()
    environ: Mapping[str, str] = {}  # noqa: RUF012


def use_colors_of(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """From now on `--color` of this command line, which may be wrong elsewhere, and these
    variables say whether there are colours."""
    _Current.arguments = arguments
    _Current.environ = environ


def also_use(choice: str) -> None:
    """A choice that comes after the command line's, if it is one."""
    if choice:
        _Current.arguments = [*_Current.arguments, f"--{_OPTION}={choice}"]


def say(text: str) -> None:
    """Writes rendered diagnostics to standard error."""
    if _has_colors(sys.stderr):
        from tileiras.colors import painted

        text = painted(text)
    print(text, file=sys.stderr)


def say_remarks(text: str) -> None:
    """Writes remarks for reading to standard error."""
    if _has_colors(sys.stderr):
        from tileiras.colors import painted_remarks

        text = painted_remarks(text)
    print(text, file=sys.stderr)


def say_help(text: str) -> None:
    """Writes the text of `--help` to standard output."""
    if _has_colors(sys.stdout):
        from tileiras.colors import painted_help

        text = painted_help(text)
    print(text, end="")


def _has_colors(stream: IO[str] | None) -> bool:
    """Whether a stream, which a process may lack, is to have colours."""
    on_terminal = stream is not None and stream.isatty()
    if not on_terminal and not any(_OPTION in argument for argument in _Current.arguments):
        return False
    from tileiras.colors import are_wanted, choice_in

    return are_wanted(choice_in(_Current.arguments), _Current.environ, on_terminal)
