"""Block-scaled products by tcgen05 at nv_tileas: the program's sums, and mistakes are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas.pipeline import CreatePipelineOp
from tileiras.dialects.nv_tileas.tcgen05 import (
    AccumulatorAcquireOp,
    ScalesLoadOp,
    Tcgen05DotScaledOp,
)
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.errors import InterpreterError
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

KERNELS = (
    ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (128, 64, 128), (128, 128, 256)),
    ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (128, 64, 128), (160, 100, 320)),
    ScaledGemm("f8E5M2", "f8E8M0FNU", 32, (128, 64, 64), (128, 64, 128), rows=True),
    ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (128, 64, 128), (128, 64, 256)),
    # By a pair of CTAs.
    ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (256, 256, 128), (256, 200, 256)),
)
OPTIONS = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name="sm_100")


def placed(kernel: ScaledGemm) -> ModuleOp:
    """The kernel at nv_tileas."""
    module, target = read_source(gemm(kernel).encode()), get_target("sm_100")
    context = CompileContext(target=target, options=OPTIONS, remarks=RemarkCollector())
    for step in select_steps(OPTIONS, target):
        load_pass(step.pass_name)().apply(context, module)
    return module


def run(kernel: ScaledGemm, module: ModuleOp) -> tuple[np.ndarray, np.ndarray]:
    """What a module leaves in C, and what it should."""
    given, wanted = gemm_arguments(kernel)
    run_entry(module, None, given, kernel.grid)
    return given[-1], wanted


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_scaled_sums_in_tensor_memory_are_those_of_the_program(kernel: ScaledGemm) -> None:
    module = placed(kernel)
    kinds = [type(op) for op in module.walk() if isinstance(op, ScalesLoadOp | Tcgen05DotScaledOp)]
    assert sorted(kind.__name__ for kind in kinds) == [
        "ScalesLoadOp",
        "ScalesLoadOp",
        "Tcgen05DotScaledOp",
    ]
    found, wanted = run(kernel, module)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_one_warp_copies_scales_beside_tma() -> None:
    made = [op for op in placed(KERNELS[0]).walk() if isinstance(op, CreatePipelineOp)]
    assert [op.gather_threads.data for op in made] == [32]


def test_text_of_it_is_read_again() -> None:
    text = compile_module(gemm(KERNELS[3]).encode(), OPTIONS).output
    assert b"nv_tileas.tcgen05_dot_scaled" in text and b"nv_tileas.async.scales_load" in text
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    again = compile_module(text, options).output
    assert again == compile_module(gemm(KERNELS[3]).encode(), options).output


def _erase_acquire(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, AccumulatorAcquireOp)]:
        op.detach()


def _misplace(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, ScalesLoadOp)]:
        op.properties["offset"] = IntAttr(op.offset.data + 512)


def _misalign(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, ScalesLoadOp)]:
        op.properties["vector"] = IntAttr(4)


@pytest.mark.parametrize(
    ("kernel", "change", "message"),
    [
        (KERNELS[0], _erase_acquire, "a product is issued into a sum that nobody has begun"),
        (KERNELS[0], _misplace, "nothing was copied to byte"),
        (KERNELS[1], _misalign, "a word of scales is not aligned"),
    ],
)
def test_mistakes_are_found(
    kernel: ScaledGemm, change: Callable[[ModuleOp], None], message: str
) -> None:
    module = placed(kernel)
    change(module)
    with pytest.raises(InterpreterError, match=message):
        run(kernel, module)
