"""Random damage is refused with an error that says where, or compiled; never anything else."""

from __future__ import annotations

import pytest

from tests.fuzzing import seeds
from tests.fuzzing.subjects import SUBJECTS, Finding, judge
from tests.kernels.damaged_text import tokens_of


def refused(name: str, count: int, fuzz_round: int) -> int:
    """How many inputs of a subject are refused; fails with the number of one that breaks it."""
    total, subject = 0, SUBJECTS[name]
    for number in range(fuzz_round * count, (fuzz_round + 1) * count):
        try:
            total += judge(subject, subject.input(name, number))
        except Finding as finding:
            pytest.fail(f"python -m tests.fuzzing {name} --only {number}: {finding}")
    return total


def test_fuzz_of_files(fuzz_round: int) -> None:
    """Read and verified."""
    assert refused("reader", 600, fuzz_round) > 200


def test_fuzz_of_cuda_tile_text(fuzz_round: int) -> None:
    """Read and verified."""
    assert refused("text", 300, fuzz_round) > 80


def test_fuzz_of_text_of_later_stages(fuzz_round: int) -> None:
    """Compiled to the end where it can be."""
    assert refused("lower", 30, fuzz_round) > 5


def test_fuzz_of_whole_compiles(fuzz_round: int) -> None:
    """Any target, stage and options."""
    assert 5 < refused("compile", 30, fuzz_round) < 30


@pytest.mark.parametrize("index", range(0, 40, 8))
def test_damage_is_made_of_whole_tokens(index: int) -> None:
    """Cutting a text into tokens loses nothing."""
    text = seeds.texts()[index]
    assert "".join(tokens_of(text)) == text
