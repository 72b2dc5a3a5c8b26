"""Which names PTX has for entries and globals."""

from __future__ import annotations

import re

from tileiras.excerpts import shown_input

_NAME = re.compile(r"(?:[A-Za-z][\w$]*|[_$][\w$]+)\Z", re.ASCII)
"""An identifier (PTX ISA, "Identifiers"), less those with a percent sign, which LLVM refuses."""


def name_mistake(what: str, name: str) -> str:
    """What is wrong with the name of an entry or a global that the host looks up; empty if fine."""
    if _NAME.match(name):
        return ""
    return (
        f"{what} has the name '{shown_input(name)}', expected a PTX identifier: letters, digits, "
        "'_' and '$', beginning with a letter, or with '_' or '$' and one more"
    )
