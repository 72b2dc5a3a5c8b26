"""Grouped products over lists of arrays on the GPU: exact, ragged, with many short groups."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from tests.kernels.grouped_lists import Sizes, grouped_lists, make_groups  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

TILES = [(128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 64, 64), (64, 128, 32)]
GROUPS: dict[str, tuple[Sizes, ...]] = {
    "ragged": ((1000, 520, 456), (8, 8, 0), (64, 2000, 64), (300, 72, 1032)),
    "short": ((128, 128, 64),) * 40,
    "empty": ((0, 128, 64), (256, 256, 128), (256, 0, 128), (520, 264, 8)),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_all_groups_are_exact(tile: Sizes, name: str) -> None:
    cubin = compile_module(
        grouped_lists(tile).encode(), with_environment(CompileOptions(gpu_name=gpu_name()))
    ).output
    for blocks in (1, 3, 132, 264):
        groups = make_groups(GROUPS[name])
        data, *tables, count, third = groups.arguments()
        arguments = [data, *tables, np.int32(count), np.int32(third)]
        launch_cubin(cubin, "grouped", arguments, (blocks, 1, 1))
        assert groups.wrong() == [], blocks
