"""The order in which points are tried, and when a search stops."""

from __future__ import annotations

from itertools import product

from tileiras.tune.search import Limits, Search, key_of

SPACE = {"tm": (64, 128, 256), "tn": (32, 64, 128), "occupancy": (None, 1, 2)}
DEFAULTS = {"tm": 128, "tn": 64, "occupancy": None}
NO_LIMITS = Limits(most=1000, patience=1000, seconds=0)


def all_points() -> list[dict[str, int | None]]:
    """The space, the defaults first."""
    others = [dict(zip(SPACE, values)) for values in product(*SPACE.values())]
    return [DEFAULTS, *(point for point in others if point != DEFAULTS)]


def cost(point: dict[str, int | None]) -> float:
    """Milliseconds: each choice makes the kernel so many times as long."""
    factors = {
        "tm": {64: 1.5, 128: 1.0, 256: 0.8},
        "tn": {32: 1.2, 64: 1.0, 128: 0.7},
        "occupancy": {None: 1.0, 1: 1.3, 2: 0.9},
    }
    time = 1.0
    for name, value in point.items():
        time *= factors[name][value]
    return time


def run(search: Search, limits: Limits = NO_LIMITS) -> list[dict[str, int | None]]:
    """Tries points until there is a reason to stop; those that were tried."""
    tried: list[dict[str, int | None]] = []
    while points := search.next_points():
        for point in points:
            if search.reason_to_stop(limits, 0):
                return tried
            search.record(point, cost(point))
            tried.append(point)
    return tried


def test_defaults_come_first_then_all_single_changes() -> None:
    first = Search(all_points()).next_points()
    assert first[0] == DEFAULTS and len(first) == 7
    assert all(sum(point[n] != DEFAULTS[n] for n in SPACE) == 1 for point in first[1:])


def test_best_combination_is_tried_right_after_the_single_changes() -> None:
    """None of them has it; the model adds up what each change gave."""
    search = Search(all_points())
    for point in search.next_points():
        search.record(point, cost(point))
    assert search.next_points()[0] == {"tm": 256, "tn": 128, "occupancy": 2}


def test_everything_is_tried_once_in_the_same_order() -> None:
    first, second = run(Search(all_points())), run(Search(all_points()))
    assert first == second
    assert sorted(map(key_of, first)) == sorted(map(key_of, all_points()))


def test_points_that_fail_are_avoided_but_not_forever() -> None:
    search = Search(all_points())
    tried = []
    while points := search.next_points():
        for point in points:
            search.record(point, None if point["tn"] == 128 else cost(point))
            tried.append(point)
    combinations = tried[7:]
    failing = [place for place, point in enumerate(combinations) if point["tn"] == 128]
    assert len(tried) == 27 and search.best == {"tm": 256, "tn": 64, "occupancy": 2}
    assert sum(failing) / len(failing) > len(combinations) / 2


def test_search_goes_on_where_the_defaults_fail() -> None:
    search = Search(all_points())
    for point in search.next_points():
        search.record(point, None if point == DEFAULTS else cost(point))
    assert search.best is not None and search.next_points()


def test_gain_below_the_noise_is_no_new_best() -> None:
    search = Search(all_points())
    one, other, third = all_points()[:3]
    search.record(one, 1.0)
    search.record(other, 0.995)
    assert search.best == one and search.since_best == 1
    search.record(third, 0.98)
    assert search.best == third and search.since_best == 0


def test_search_stops_for_each_of_its_reasons() -> None:
    assert len(run(Search(all_points()), Limits(5, 1000, 0))) == 5
    search = Search(all_points())
    run(search, Limits(1000, 6, 0))
    assert search.reason_to_stop(Limits(1000, 6, 0), 0) == "6 points in a row were no better"
    assert search.reason_to_stop(Limits(1000, 1000, 9), 9.5) == "9 seconds are over"
    assert search.reason_to_stop(NO_LIMITS, 1e9) == ""
    assert Search(all_points()).reason_to_stop(Limits(1, 1, 1), 99) == ""
    whole = Search(all_points())
    run(whole)
    assert whole.reason_to_stop(NO_LIMITS, 0) == "every point was tried"
