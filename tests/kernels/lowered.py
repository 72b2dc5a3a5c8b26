"""Kernels taken to the last stage of the compiler, where the interpreter runs them by threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target import GpuTarget, get_target
from tileiras.interpreter import RunLog
from tileiras.interpreter.threads import run_kernel
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector


def lower_to_llvm(
    module: ModuleOp,
    target: str | GpuTarget = "sm_90",
    after_placement: Callable[[ModuleOp], None] | None = None,
    without: Sequence[str] = (),
) -> ModuleOp:
    """Takes a cuda_tile module to the llvm dialect, in place.

    `after_placement` may change the module when all tensors have layouts; `without`: features of
    the target that are not used.
    """
    gpu = (get_target(target) if isinstance(target, str) else target).without(without)
    options = CompileOptions(opt_level=3, emit="llvm-dialect", gpu_name=gpu.name)
    context = CompileContext(target=gpu, options=options, remarks=RemarkCollector())
    for step in PIPELINE:
        load_pass(step.pass_name)().apply(context, module)
        if step.pass_name == "convert-tileaa-to-tileas" and after_placement is not None:
            after_placement(module)
    module.verify()
    return module


def run_lowered(
    module: ModuleOp,
    args: Sequence[Any],
    grid: tuple[int, int, int] = (1, 1, 1),
    seed: int = 0,
) -> RunLog:
    """Runs the only kernel of a module of the llvm dialect; arrays are updated in place.

    `seed` decides in which order warp roles run and copies land.
    """
    return run_kernel(module, None, args, grid, seed=seed)
