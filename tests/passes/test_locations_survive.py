"""What passes make has the place in the source of what it is made for."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation

from tests.kernels.planned import ALIKE, SPECIALISED
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.tma_stores import CreateStorePipelineOp
from tileiras.driver import read_source

KERNELS = {**SPECIALISED, **ALIKE}
OF_THE_KERNEL = (
    ModuleOp,
    pl.CreatePipelineOp,
    CreateStorePipelineOp,
    tc.CreateAccumulatorOp,
    tc.CreateLeftOperandOp,
)
"""What belongs to a kernel as a whole and to no line of it: memory of its pipelines and sums."""


def without_place(module: ModuleOp) -> list[str]:
    """The operations that say nothing about where in the source they come from."""
    ops: list[Operation] = [op for op in module.walk() if isinstance(op.location, UnknownLoc)]
    return [op.name for op in ops if not isinstance(op, OF_THE_KERNEL)]


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_pass_loses_the_place_of_an_operation(name: str, gpu_name: str) -> None:
    """Up to nv_tileas, for kernels with warp roles and without."""
    source = KERNELS[name]()
    module = read_source(source if isinstance(source, bytes) else source.encode(), "k.mlir")
    assert without_place(module) == []
    lost = {step: without_place(module) for step, _ in passes(module, (), gpu_name)}
    assert len(lost) > 30
    assert {step: names for step, names in lost.items() if names} == {}


def test_an_operation_without_a_place_is_found() -> None:
    """The check itself."""
    module = read_source(b"cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n", "k.mlir")
    entry = next(op for op in module.walk() if op.name == "cuda_tile.entry")
    entry.location = UnknownLoc()
    assert without_place(module) == ["cuda_tile.entry"]
