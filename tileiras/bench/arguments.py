"""Arguments for a kernel from `--shape`: random arrays for pointers, numbers for scalars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.errors import UsageError
from tileiras.launch_info import KernelLaunch

if TYPE_CHECKING:
    import numpy as np

_FLOATS = {"f16": "float16", "f32": "float32", "tf32": "float32", "f64": "float64"}
_INTEGERS = {"i1": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
_OTHERS = {
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E8M0FNU": "float8_e8m0fnu",
}
"""By the names of Tile IR, those of numpy and of ml_dtypes."""
_EXTENTS = re.compile(r"\d+(?:x\d+)*")
MOST_BYTES = 1 << 36
"""Policy: of one array: more is a mistake in the shape."""
LEAST, MOST = -4, 5
"""Policy: integers of random arrays are from the first to below the second: products stay exact."""


def parse_shape(text: str, kernel: KernelLaunch) -> list[str]:
    """One word for each parameter of a kernel; UsageError where there are more or fewer."""
    words = [word.strip() for word in text.split(",")] if text else []
    kinds = [parameter.type for parameter in kernel.parameters]
    if len(words) != len(kinds):
        raise UsageError(
            f"kernel '{kernel.name}' takes {len(kinds)} arguments ({', '.join(kinds)}), "
            f"--shape has {len(words)}"
        )
    return words


def make_arguments(words: Sequence[str], kernel: KernelLaunch) -> list[Any]:
    """The arguments, the same ones each time.

    A pointer's word is the extents of its array, such as 128x64, a scalar's its value. Raises
    UsageError for words that do not fit the parameters, and where numpy is not installed.
    """
    found: list[Any] = []
    for place, (word, parameter) in enumerate(zip(words, kernel.parameters, strict=True)):
        where = f"argument {place} of '{kernel.name}'"
        if parameter.type.startswith("ptr<"):
            found.append(_array(word, parameter.type[4:-1], place, where))
        else:
            found.append(_number(word, parameter.type, where))
    return found


def scalars_of(arguments: Sequence[Any]) -> dict[int, int]:
    """The integers among the arguments, by their place."""
    return {place: value for place, value in enumerate(arguments) if isinstance(value, int)}


def _number(word: str, kind: str, where: str) -> int | float:
    """A scalar argument."""
    try:
        return int(word, 0) if kind.startswith("i") else float(word)
    except ValueError:
        raise UsageError(f"{where} is '{word}', expected a number for {kind}") from None


def _array(word: str, kind: str, place: int, where: str) -> np.ndarray:
    """An array of random values: normal ones of floats, small ones of integers."""
    if not _EXTENTS.fullmatch(word) or "0" in word.split("x"):
        raise UsageError(f"{where} is '{word}', expected extents such as 128x64 for ptr<{kind}>")
    extents = tuple(map(int, word.split("x")))
    return random_array(_numpy_type(kind, where), extents, place, where, truth=kind == "i1")


def random_array(
    type: np.dtype[Any], extents: tuple[int, ...], seed: int, where: str, truth: bool = False
) -> np.ndarray:
    """An array of random values: normal ones of floats, small ones of integers, or 0 and 1.

    Raises UsageError for one that is too large; `where` says which it is.
    """
    import numpy as np

    size = type.itemsize
    for extent in extents:
        size *= extent
    if size > MOST_BYTES:
        raise UsageError(f"{where} has {size} bytes, expected {MOST_BYTES} at most")
    random = np.random.default_rng(seed)
    if type.kind in "iu":
        least, most = (0, 2) if truth else (LEAST, MOST)
        return random.integers(least, most, extents).astype(type)
    return random.standard_normal(extents, dtype=np.float32).astype(type)


def _numpy_type(kind: str, where: str) -> np.dtype:
    """numpy's type of an element; raises UsageError for one that has none."""
    try:
        import numpy as np
    except ImportError as error:
        raise UsageError("arrays need numpy: install tileiras[gpu]") from error
    if kind in _FLOATS or kind in _INTEGERS:
        return np.dtype({**_FLOATS, **_INTEGERS}[kind])
    if kind in _OTHERS:
        try:
            import ml_dtypes
        except ImportError as error:
            found = f"{where} is an array of {kind}, which needs ml_dtypes: install tileiras[gpu]"
            raise UsageError(found) from error
        return np.dtype(getattr(ml_dtypes, _OTHERS[kind]))
    known = ", ".join((*_FLOATS, *_INTEGERS, *_OTHERS))
    raise UsageError(f"{where} is an array of {kind}, expected one of {known}")
