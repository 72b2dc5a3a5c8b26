"""What a file says about its tuning: the dictionary `TUNE`, checked.

Read in a process of its own, since reading it runs the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tileiras.errors import UsageError
from tileiras.suggestions import did_you_mean

Point = dict[str, Any]
"""A choice of every name in the space: numbers, strings, booleans, or None (a hint left out)."""

HINTS = ("num_ctas", "occupancy", "num_worker_warps", "opt_level")
"""Names that are hints of the client's kernels; all others are constants of the kernel."""

_KEYS = {
    "kernel": "the kernel, of cuTile Python",
    "source": "or a function of a point that returns Tile IR: text, bytecode or a path",
    "space": "names of hints and constants with the values to try",
    "launch": "names that the grid alone needs, with the values to try",
    "defaults": "the point to begin with and to compare with",
    "constants": "constants of the kernel that stay",
    "arguments": "name and argument: (dtype, extents...), an array of numpy, or a number",
    "grid": "a function of a point that returns tile blocks: a number, or up to three",
    "where": "a function of a point: whether to try it",
    "reference": "a function of the arguments that does what the kernel does, in numpy",
    "relative": "how far results may differ, as a part of what is expected",
    "absolute": "how far results may differ",
    "entry": "the entry of the Tile IR, where there are several",
}
"""The keys of `TUNE`."""

MOST_POINTS = 100_000
"""Policy: points of a space; all are listed before the first is tried."""

_AXES = 3


@dataclass(frozen=True)
class Description:
    """A checked `TUNE`."""

    kernel: Any
    source: Callable[[Point], Any] | None
    space: Mapping[str, tuple[Any, ...]]
    launch: tuple[str, ...]
    """The names in the space that are no parameters of the kernel and no hints."""
    defaults: Point
    constants: Mapping[str, Any]
    arguments: Mapping[str, Any]
    grid: Callable[[Point], Any]
    where: Callable[[Point], bool] | None
    reference: Callable[..., object] | None
    relative: float | None
    absolute: float | None
    entry: str

    def points(self) -> Iterator[Point]:
        """The defaults, then all other points of the space that may be tried."""
        yield self.defaults
        for values in product(*self.space.values()):
            point = dict(zip(self.space, values))
            if point != self.defaults and (self.where is None or self.where(self.known(point))):
                yield point

    def known(self, point: Point) -> Point:
        """A point with the constants that stay."""
        return {**self.constants, **point}

    def grid_of(self, point: Point) -> tuple[int, int, int]:
        """The tile blocks of a point; raises UsageError for what is no grid."""
        found = self.grid(self.known(point))
        sizes = (found,) if isinstance(found, int) else tuple(found)
        good = all(isinstance(size, int) and size > 0 for size in sizes)
        if not 1 <= len(sizes) <= _AXES or not good:
            raise UsageError(
                f"the grid of {label_of(point)} is {found!r}, expected up to three positive numbers"
            )
        x, y, z = (*sizes, 1, 1)[:_AXES]
        return x, y, z


def label_of(point: Point) -> str:
    """A point for people: `tm=128 tn=64 occupancy=2`; hints that are left out are `auto`."""
    return " ".join(f"{name}={'auto' if value is None else value}" for name, value in point.items())


def read_description(found: object, variable: str = "TUNE") -> Description:
    """Checks what the file's variable is; raises UsageError."""
    if not isinstance(found, Mapping):
        raise UsageError(f"{variable} is a {type(found).__name__}, expected a dictionary")
    for key in found:
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            label = did_you_mean(str(key), _KEYS)
            raise UsageError(f"{variable} has the key '{key}', expected {known}", label=label)
    if ("kernel" in found) == ("source" in found):
        raise UsageError(f"{variable} has kernel and source or neither, expected one of them")
    for key in ("space", "arguments", "grid"):
        if key not in found:
            raise UsageError(f"{variable} has no '{key}': {_KEYS[key]}")
    for key in ("source", "grid", "where", "reference"):
        if found.get(key) is not None and not callable(found[key]):
            raise UsageError(f"'{key}' of {variable} is no function, expected {_KEYS[key]}")
    for key in ("space", "launch", "defaults", "constants", "arguments"):
        if not isinstance(found.get(key, {}), Mapping):
            raise UsageError(f"'{key}' of {variable} is no dictionary, expected {_KEYS[key]}")
    launch = found.get("launch", {})
    space = _space({**found["space"], **launch})
    return Description(
        kernel=found.get("kernel"),
        source=found.get("source"),
        space=space,
        launch=tuple(map(str, launch)),
        defaults=_defaults(found.get("defaults", {}), space, variable),
        constants=dict(found.get("constants", {})),
        arguments=dict(found["arguments"]),
        grid=found["grid"],
        where=found.get("where"),
        reference=found.get("reference"),
        relative=_tolerance(found, "relative", variable),
        absolute=_tolerance(found, "absolute", variable),
        entry=str(found.get("entry", "")),
    )


def _space(found: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of every name; raises UsageError."""
    if not found:
        raise UsageError(f"the space is empty, expected {_KEYS['space']}")
    space: dict[str, tuple[Any, ...]] = {}
    size = 1
    for name, values in found.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise UsageError(f"'{name}' in the space is {values!r}, expected a list of values")
        for value in values:
            if value is None and name not in HINTS:
                raise UsageError(f"'{name}' in the space has None, which hints only may be")
            if not isinstance(value, bool | int | float | str | None):
                raise UsageError(
                    f"'{name}' in the space has {value!r}, expected numbers, strings or booleans"
                )
        space[str(name)] = tuple(dict.fromkeys(values))
        size *= len(space[str(name)])
    if size > MOST_POINTS:
        raise UsageError(f"the space has {size} points, expected {MOST_POINTS} at most")
    return space


def _defaults(
    found: Mapping[str, Any], space: Mapping[str, tuple[Any, ...]], variable: str
) -> Point:
    """The point to begin with: hints that are not named are left out, others are the first."""
    for name in found:
        if name not in space:
            label = did_you_mean(str(name), space)
            raise UsageError(
                f"'defaults' of {variable} has '{name}', not in the space", None, label
            )
    return {
        name: found[name] if name in found else None if name in HINTS else values[0]
        for name, values in space.items()
    }


def _tolerance(found: Mapping[str, Any], key: str, variable: str) -> float | None:
    """A tolerance; None: it depends on the type."""
    value = found.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise UsageError(f"'{key}' of {variable} is {value!r}, expected a number from 0")
    return float(value)
