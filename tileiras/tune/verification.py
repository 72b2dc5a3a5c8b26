"""Whether a candidate computes what it should."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

_ROUNDINGS = 16
"""Policy: how many roundings of its type an element may be away where nothing else is said."""
_PIECE = 1 << 18
"""Policy: elements that a thread compares at once; they and what is made of them fit its cache."""


@dataclass(frozen=True)
class ArgumentFile:
    """An array: its bytes before a launch and, where there is a reference, after it."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    expected: str = ""


def mistake(
    arguments: Sequence[ArgumentFile | int | float],
    found: Mapping[int, str],
    folder: str,
    relative: float | None,
    absolute: float | None,
) -> str:
    """What is wrong with the results in `found`, files by the arguments' places; empty: nothing.

    Elements may differ by `absolute + relative * |expected|`. By default those of floats may differ
    by 16 roundings of their type and of the largest element; others are equal. Without a
    reference the first results of a folder are kept there and are what is expected.
    """
    for place, path in found.items():
        argument = arguments[place]
        assert isinstance(argument, ArgumentFile)
        expected = argument.expected or os.path.join(folder, f"first{place}")
        if path == expected:
            continue
        if not os.path.exists(expected):
            shutil.copyfile(path, expected)
            continue
        if text := _difference(argument, path, expected, relative, absolute):
            return text
    return ""


def _difference(
    argument: ArgumentFile, path: str, expected: str, relative: float | None, absolute: float | None
) -> str:
    """What is wrong with one array."""
    import numpy as np

    mine, theirs = (np.fromfile(name, np.uint8) for name in (path, expected))
    if np.array_equal(mine, theirs):
        return ""
    kind = _dtype(argument.dtype)
    wide = np.float32 if kind.itemsize <= 2 else np.float64
    found, known = mine.view(kind), theirs.view(kind)
    pieces = [slice(start, start + _PIECE) for start in range(0, len(known), _PIECE)]

    def largest(piece: slice) -> float:
        second = known[piece].astype(wide)
        return float(np.where(np.isfinite(second), np.abs(second), 0).max())

    def wrong_places(piece: slice) -> Any:
        first, second = found[piece].astype(wide), known[piece].astype(wide)
        with np.errstate(invalid="ignore"):
            same = (first == second) | (np.isnan(first) & np.isnan(second))
            distance = np.where(same, 0, np.abs(first - second))
            size = np.where(np.isfinite(second), np.abs(second), 0)
            places = np.flatnonzero(~(distance <= small + part * size))
        return places + piece.start

    rounding = _ROUNDINGS * _rounding(kind)
    part = rounding if relative is None else relative
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        small = rounding * max(pool.map(largest, pieces)) if absolute is None else absolute
        wrong = np.concatenate(list(pool.map(wrong_places, pieces)))
    if not len(wrong):
        return ""
    place = int(wrong[0])
    index = tuple(int(one) for one in np.unravel_index(place, argument.shape))
    return (
        f"{len(wrong)} of {len(known)} elements of '{argument.name}' are wrong, the first at "
        f"{index}: {float(found[place]):g}, expected {float(known[place]):g}"
    )


def _dtype(name: str) -> Any:
    """numpy's type of this name, or that of ml_dtypes."""
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _rounding(kind: Any) -> float:
    """The distance from 1 to the next number of a type; 0 for integers."""
    if kind.kind in "iub":
        return 0.0
    import numpy as np

    if kind.kind == "f":
        return float(np.finfo(kind).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(kind).eps)
