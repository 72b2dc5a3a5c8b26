"""Occupancy: which resource keeps more CTAs out of an SM."""

from __future__ import annotations

import pytest

from tileiras.codegen.occupancy import occupancy
from tileiras.codegen.target import TARGET_NAMES, get_target

H100 = get_target("sm_90")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "ctas", "limit"),
    [
        (128, 32, 0, 16, "warps"),
        (128, 33, 0, 12, "registers"),  # 40 a thread: 12 warps of a part, 12 CTAs
        (128, 255, 0, 2, "registers"),
        (128, 32, 100 * 1024, 2, "shared memory"),
        (128, 32, 227 * 1024, 1, "shared memory"),
        (32, 8, 0, 32, "CTAs of an SM"),
        (384, 168, 0, 1, "registers"),
    ],
)
def test_scarcest_resource_limits(
    threads: int, registers: int, shared: int, ctas: int, limit: str
) -> None:
    """The numbers are those of CUDA's occupancy calculator."""
    found = occupancy(H100, threads, registers, shared)
    assert (found.ctas, found.limit) == (ctas, limit)
    assert found.warps == ctas * threads // 32 and found.most == 64


def test_tensor_memory_limits_where_it_is_used() -> None:
    target = get_target("sm_100")
    assert occupancy(target, 128, 32, 0, columns=256).ctas == 2
    assert occupancy(target, 128, 32, 0, columns=256).limit == "tensor memory"
    assert "tensor memory" not in dict(occupancy(target, 128, 32, 0).allowed)


def test_too_much_fits_in_no_way() -> None:
    assert occupancy(H100, 1024, 128, 0).ctas == 0


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_small_cta_fits_every_target(name: str) -> None:
    target = get_target(name)
    found = occupancy(target, 32, 16, 0)
    assert found.ctas == target.max_ctas_per_sm and 0 < found.percent <= 100
