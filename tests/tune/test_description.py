"""What the file says: the dictionary TUNE, its points, and every mistake in it."""

from __future__ import annotations

from typing import Any

import pytest

from tileiras.errors import UsageError
from tileiras.tune.description import label_of, read_description

GOOD: dict[str, Any] = {
    "source": lambda point: "",
    "space": {"tile": [64, 128, 256], "occupancy": [None, 2]},
    "arguments": {"a": ("float32", 16)},
    "grid": lambda point: 16 // point["tile"] + 1,
}


def read(**changes: Any) -> Any:
    """The good one with changes; a key that becomes ... is left out."""
    merged = {**GOOD, **changes}
    return read_description({key: value for key, value in merged.items() if value is not ...})


def test_defaults_are_the_first_values_and_no_hints() -> None:
    found = read()
    assert found.defaults == {"tile": 64, "occupancy": None}
    assert read(defaults={"tile": 100}).defaults == {"tile": 100, "occupancy": None}
    assert label_of(found.defaults) == "tile=64 occupancy=auto"


def test_points_are_the_defaults_and_those_that_may_be_tried() -> None:
    points = list(read().points())
    assert len(points) == 6 and points[0] == {"tile": 64, "occupancy": None}
    assert len(list(read(defaults={"tile": 100}).points())) == 7
    some = list(read(where=lambda p: p["tile"] * p["k"] > 100, constants={"k": 1}).points())
    assert [point["tile"] for point in some] == [64, 128, 128, 256, 256]


def test_names_of_the_launch_are_in_points() -> None:
    found = read(launch={"blocks": [7, 8]}, grid=lambda point: (point["blocks"], 2))
    assert len(list(found.points())) == 12 and found.launch == ("blocks",)
    assert found.grid_of(found.defaults) == (7, 2, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spaces": {}}, "TUNE has the key 'spaces', expected kernel, source"),
        ({"kernel": object()}, "TUNE has kernel and source or neither"),
        ({"source": ...}, "TUNE has kernel and source or neither"),
        ({"grid": ...}, "TUNE has no 'grid': a function of a point"),
        ({"grid": 7}, "'grid' of TUNE is no function"),
        ({"arguments": [1]}, "'arguments' of TUNE is no dictionary"),
        ({"space": {}}, "the space is empty"),
        ({"space": {"tile": 64}}, "'tile' in the space is 64, expected a list of values"),
        ({"space": {"tile": "64"}}, "'tile' in the space is '64', expected a list"),
        ({"space": {"tile": []}}, r"'tile' in the space is \[\], expected a list"),
        ({"space": {"tile": [None]}}, "'tile' in the space has None, which hints only may be"),
        ({"space": {"tile": [[1]]}}, r"'tile' in the space has \[1\], expected numbers"),
        ({"defaults": {"tiles": 1}}, "'defaults' of TUNE has 'tiles', not in the space"),
        ({"relative": -1}, "'relative' of TUNE is -1, expected a number from 0"),
        ({"absolute": "x"}, "'absolute' of TUNE is 'x', expected a number"),
        (
            {"space": {name: list(range(100)) for name in "abc"}},
            "the space has 1000000 points, expected 100000 at most",
        ),
    ],
)
def test_mistakes_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(**changes)


def test_mistyped_names_have_a_suggestion() -> None:
    for changes, label in (({"spaces": {}}, "space"), ({"defaults": {"tiles": 1}}, "tile")):
        with pytest.raises(UsageError) as caught:
            read(**changes)
        assert caught.value.label == f"did you mean '{label}'?"


def test_what_is_no_dictionary_is_told() -> None:
    with pytest.raises(UsageError, match="TUNE is a list, expected a dictionary"):
        read_description([])


@pytest.mark.parametrize("grid", [0, (1, -1), (1, 1, 1, 1), (), (1.5,)])
def test_grid_must_be_positive_numbers(grid: Any) -> None:
    found = read(grid=lambda point: grid)
    with pytest.raises(UsageError, match="the grid of tile=64 occupancy=auto is"):
        found.grid_of(found.defaults)
