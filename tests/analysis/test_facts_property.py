"""Every fact claimed about a random program holds for the values it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import aimed_entry, random_arguments, random_entry
from tile_programs import Array, Machine, Undefined

from tileiras.analysis.facts import analyze_entry
from tileiras.analysis.lattice import ValueFacts
from tileiras.dialects.cuda_tile import EntryOp

RUNS = 4
"""Argument lists that each program runs on."""


def check(facts: ValueFacts, values: Array) -> None:
    """Fails where one of the claims is wrong."""
    assert facts.shape == values.shape
    modulus = 1 << facts.width
    assert not np.any(values % modulus % facts.element_divisor), "element_divisor"
    low, high = facts.range()
    assert np.all(values >= low) and np.all(values <= high), "bounds"
    if facts.constant is not None:
        assert np.all(values == facts.constant), "constant"
    for dim, size in enumerate(facts.shape):
        along = np.moveaxis(values, dim, 0)
        run, same = facts.contiguity[dim], facts.constancy[dim]
        assert size % run == 0 and size % same == 0
        for i in range(size):
            if i % run:
                assert not np.any((along[i] - along[i - 1] - facts.step) % modulus), "contiguity"
            if i % same:
                assert not np.any(along[i] != along[i - 1]), "constancy"
        part = 1
        while part <= size:
            divisor = facts.run_divisor(dim, part)
            assert not np.any(along[::part] % modulus % divisor), f"divisor of runs of {part}"
            part *= 2
    starts = values[tuple(slice(None, None, run) for run in facts.contiguity)]
    assert not np.any(starts % modulus % facts.divisor), "divisor"


def check_program(
    seed: int, steps: int, make: Callable[[Random, int], EntryOp] = random_entry
) -> int:
    """Builds, analyses and runs one program; returns how many values were checked."""
    random = Random(seed)
    entry = make(random, steps)
    facts = analyze_entry(entry)
    checked = 0
    for _ in range(RUNS):
        machine = Machine()
        with contextlib.suppress(Undefined):
            machine.run_entry(entry, random_arguments(random, entry))
        for value, arrays in machine.seen.items():
            for array in arrays:
                try:
                    check(facts[value], array)
                except AssertionError as wrong:
                    wrong.add_note(f"{value.owner}\n{facts[value]}\n{array}")
                    raise
                checked += 1
    return checked


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48), st.integers(4, 24))
def test_claimed_facts_hold_property(seed: int, steps: int) -> None:
    assert check_program(seed, steps) > 0


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48))
def test_rules_hold_next_to_the_place_where_integers_wrap_property(seed: int) -> None:
    assert check_program(seed, 12, aimed_entry) > 0
