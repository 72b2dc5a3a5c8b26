"""Conversions through less shared memory than there is none of."""

from __future__ import annotations

import pytest

from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.plans import SharedMemory
from tileiras.dialects.layout.rounds import plan_rounds


@pytest.mark.parametrize("limit", [-4096, 0, 64])
def test_too_little_memory_is_an_error(limit: int) -> None:
    """Also where others have taken more than there is."""
    source, target = blocked((64, 64), (1, 0), 4, 4), blocked((64, 64), (0, 1), 4, 4)
    plan = plan_conversion(source, target, 32)
    assert isinstance(plan, SharedMemory)
    with pytest.raises(LayoutError, match=f"{limit} bytes do not hold one access of a warp"):
        plan_rounds(source, target, plan, 32, limit)
