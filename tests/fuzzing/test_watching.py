"""The watch over fuzzing: what is a finding, and that a number makes an input again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.bytecode.files import split
from tests.fuzzing import seeds, subjects, workers
from tests.fuzzing.bytecode_mutations import damaged_file
from tests.fuzzing.subjects import SUBJECTS, Finding, Input, Subject, judge
from tileiras.errors import BytecodeError, InternalError
from tileiras.options import CompileOptions

NOTHING = Input(b"", CompileOptions())


def raising(error: Exception) -> Subject:
    """A subject that ends so."""

    def feed(_: Input) -> bool:
        raise error

    return Subject(lambda rng: NOTHING, feed)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InternalError("no plan", where="a pass"), "internal error in a pass: no plan"),
        (KeyError("x"), "KeyError: 'x'"),
        (MemoryError(), "out of memory"),
        (BytecodeError("x" * 700), "message of 700 characters"),
    ],
)
def test_what_is_a_finding(error: Exception, said: str) -> None:
    with pytest.raises(Finding, match=said):
        judge(raising(error), NOTHING)


def test_error_of_the_user_is_no_finding() -> None:
    assert judge(raising(BytecodeError("found 1, expected 2")), NOTHING)


def test_time_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "MAX_SECONDS", 0.01)

    def slow(_: Input) -> bool:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        return True

    with pytest.raises(Finding, match=" s$"):
        judge(Subject(lambda rng: NOTHING, slow), NOTHING)


def fuzzed(
    monkeypatch: pytest.MonkeyPatch, feed: Callable[[Input], bool], count: int = 300
) -> workers.Tally:
    """What fuzzing finds of inputs that are their numbers."""

    def make(rng: random.Random) -> Input:
        return Input(str(rng.randrange(100)).encode(), CompileOptions())

    monkeypatch.setitem(SUBJECTS, "test", Subject(make, feed))
    fuzzing = workers.Fuzzing("test", 0, 2, lambda number, what: None)
    return fuzzing.run(20.0, count)


def test_inputs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = fuzzed(monkeypatch, lambda given: int(given.source) < 50)
    assert tally.tried >= 300
    assert 0 < tally.refused < tally.tried
    assert tally.findings == []


def test_process_that_dies_is_a_finding_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(given: Input) -> bool:
        if given.source == b"7":
            os.abort()
        return True

    tally = fuzzed(monkeypatch, feed)
    numbers = [number for number, _ in tally.findings]
    assert numbers
    assert all(SUBJECTS["test"].input("test", n).source == b"7" for n in numbers)
    assert {what for _, what in tally.findings} == {"the process ended with status -6"}


def test_hanging_process_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1.0)

    def feed(given: Input) -> bool:
        if given.source == b"7":
            time.sleep(60)
        return True

    tally = fuzzed(monkeypatch, feed, 150)
    assert {what for _, what in tally.findings} == {"hangs"}


def test_many_slow_inputs_are_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is heard of after many inputs; what counts is the time at one of them."""
    monkeypatch.setattr(workers, "PATIENCE", 1.0)

    def feed(_: Input) -> bool:
        time.sleep(0.06)
        return True

    tally = fuzzed(monkeypatch, feed, 2 * workers.BATCH)
    assert tally.findings == []


@pytest.mark.parametrize("name", SUBJECTS)
def test_number_makes_the_same_input_again(name: str) -> None:
    first, again = (SUBJECTS[name].input(name, 5) for _ in range(2))
    assert first == again
    assert first.source != SUBJECTS[name].input(name, 6).source


def test_damage_keeps_the_structure_of_many_files() -> None:
    """So that what is behind the container is reached, too."""
    rng, files = random.Random(3), seeds.bytecodes()
    whole = 0
    for _ in range(200):
        try:
            split(damaged_file(rng.choice(files), rng, files))
        except BytecodeError:
            continue
        whole += 1
    assert 80 < whole < 200
