"""Kernels whose loads are scheduled ahead, and how they are run."""

from __future__ import annotations

import numpy as np

from tests.kernels.row_loops import COLUMNS, ROWS, RowLoop, arrays
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.interpreter import run_entry


def after(text: str, name: str, arch: str = "sm_90", disabled: tuple[str, ...] = ()):
    """The module after a pass."""
    module = parse_module(text)
    for done, _stage in passes(module, disabled, arch, name == "convert-nv-tileas-to-llvm"):
        if done == name:
            return module
    raise AssertionError(f"no pass {name}")


def scheduled(kernel: RowLoop):
    """The kernel after tileas-expand-schedule."""
    return after(kernel.text, "tileas-expand-schedule")


def finished(module) -> list[aa.ReadStageOp]:
    """The pipelined loads of a module."""
    return [op for op in module.walk() if isinstance(op, aa.ReadStageOp)]


def run(module, kernel: RowLoop, bounds: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays after a run at some stage before threads."""
    source, target = arrays(kernel)
    scalars = [np.int32(value) for value in (ROWS, COLUMNS, *bounds)]
    run_entry(module, "k", [source, target, *scalars], (ROWS, 1, 1))
    return source, target
