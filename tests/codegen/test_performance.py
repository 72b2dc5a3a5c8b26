"""How fast targets are: what every row must have, and what follows from it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tileiras.codegen.target import TARGET_NAMES, Performance, Unit, Work, get_target
from tileiras.codegen.target.performance import Throughput

TEXT = ("source", "reservations", "throughput")
NUMBERS = tuple(field.name for field in fields(Performance) if field.name not in TEXT)


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_every_target_has_a_whole_row(name: str) -> None:
    """Positive numbers, a source, and for each kind of work units that do something."""
    speed = get_target(name).performance
    assert speed.source
    assert all(getattr(speed, field) > 0 for field in NUMBERS)
    assert all(getattr(speed.throughput, field.name) > 0 for field in fields(Throughput))
    assert set(speed.reservations) == set(Work)
    assert all(hold.per_cycle > 0 for holds in speed.reservations.values() for hold in holds)


def test_only_copies_and_asynchronous_products_leave_the_issue_stages_alone() -> None:
    """What warps wait for holds them as long as the unit that does the work, and no longer."""
    speed = get_target("sm_90").performance
    alone = {Work.WGMMA, Work.COPY_FROM_MEMORY, Work.COPY_FROM_L2}
    for work in Work:
        held = dict(speed.uses(work, 1 << 20))
        assert (Unit.ISSUE not in held) == (work in alone)
        assert len(set(held.values())) == 1


def test_work_holds_a_unit_for_its_amount() -> None:
    """Whole cycles; a unit that the work does not hold is free."""
    speed = get_target("sm_90").performance
    assert speed.cycles(Work.SPECIAL, 128 * 64, Unit.MUFU) == 512
    assert speed.cycles(Work.SPECIAL, 128 * 64, Unit.FMA) == 0
    assert speed.uses(Work.WGMMA, 2047) == ((Unit.TENSOR_CORE, 0),)


def test_registers_of_an_sm_are_those_of_eight_warps() -> None:
    """Of 255 registers each, handed out in eights."""
    assert {get_target(name).warps_with_all_registers for name in TARGET_NAMES} == {8}
