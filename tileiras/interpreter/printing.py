"""What `print_tko` prints: C's printf for scalars, nested brackets for tiles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, FloatFormat, Format, IntFormat

_CONVERSION = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>\.\d+)?"
    r"(?:hh|h|ll|l|j|z|t|L)?(?P<kind>[diuoxXeEfFgGaAcsSpn]))"
)


def format_message(template: str, values: Sequence[Array], formats: Sequence[Format]) -> str:
    """The text of a printf template with a tile for every conversion."""
    remaining = iter(zip(values, formats, strict=True))

    def expand(match: re.Match[str]) -> str:
        if match.group(0) == "%%":
            return "%"
        pair = next(remaining, None)
        if pair is None:
            raise InterpreterError(f"format '{template}' has more conversions than operands")
        return _tile_text(np.asarray(pair[0]), pair[1], match)

    return _CONVERSION.sub(expand, template)


def _tile_text(values: Array, fmt: Format, match: re.Match[str]) -> str:
    if values.ndim == 0:
        return _element_text(values, fmt, match)
    return "[" + ", ".join(_tile_text(part, fmt, match) for part in values) + "]"


def _element_text(value: Array, fmt: Format, match: re.Match[str]) -> str:
    """One element in the conversion's form; a conversion of the other kind converts the value."""
    kind = match["kind"]
    number: Any
    if kind in "uoxXp":
        number = int(fmt.unsigned(value)) if isinstance(fmt, IntFormat) else int(float(value))
    elif kind in "dic":
        number = int(value) if isinstance(fmt, IntFormat) else int(float(value))
    elif kind in "aA":
        return float(value).hex().upper() if kind == "A" else float(value).hex()
    elif kind in "sSn":
        return str(value.item() if not isinstance(fmt, FloatFormat) else float(value))
    else:
        number = float(value)
    flags, width, precision = match["flags"], match["width"], match["precision"] or ""
    prefix = "0x" if kind == "p" else ""
    conversion = {"i": "d", "u": "d", "p": "x"}.get(kind, kind)
    return prefix + f"%{flags}{width}{precision}{conversion}" % number
