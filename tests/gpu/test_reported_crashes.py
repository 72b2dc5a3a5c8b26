"""Kernels of public crash reports: they compile at every level and are right."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ml_dtypes")

from tests.kernels.lowered import lower_to_llvm, run_lowered  # noqa: E402
from tileiras.bytecode.writer import write_module  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.interpreter import run_entry  # noqa: E402
from tileiras.interpreter.ptx import run_ptx  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .reported_crashes import REPORTS, Report, finished  # noqa: E402
from .reported_scaled_products import SCALED_REPORTS  # noqa: E402

ALL = (*REPORTS, *SCALED_REPORTS)
by_name = pytest.mark.parametrize("report", ALL, ids=lambda report: report.name)


def cubin(report: Report, gpu_name: str, level: int) -> bytes:
    """What the kernel is compiled to."""
    source = write_module(finished(report, gpu_name).module)
    options = with_environment(CompileOptions(gpu_name=gpu_name, opt_level=level))
    return compile_module(source, options).output


@by_name
def test_interpreter_computes_it(report: Report) -> None:
    arguments = report.arguments()
    wanted = report.wanted(arguments)
    run_entry(finished(report, report.usual).module, "kernel", arguments, report.grid)
    np.testing.assert_array_equal(arguments[-1], wanted)


@pytest.mark.parametrize(
    ("report", "gpu_name"),
    [
        pytest.param(report, gpu_name, id=f"{report.name}, {gpu_name}")
        for report in ALL
        for gpu_name in report.gpu_names
    ],
)
def test_compiles(report: Report, gpu_name: str) -> None:
    assert cubin(report, gpu_name, 3)[:4] == b"\x7fELF"


@pytest.mark.parametrize("level", [0, 2])
@by_name
def test_compiles_at_other_levels(report: Report, level: int) -> None:
    assert cubin(report, report.usual, level)[:4] == b"\x7fELF"


@pytest.mark.parametrize("gpu_name", ["usual", "sm_103"])
@by_name
def test_threads_compute_it_without_misaligned_accesses(report: Report, gpu_name: str) -> None:
    name = report.usual if gpu_name == "usual" else gpu_name
    arguments = report.arguments()
    wanted = report.wanted(arguments)
    module = finished(report, name).module
    ptx = compile_module(write_module(module), CompileOptions(name, emit="ptx")).output.decode()
    if "tcgen05." in ptx:  # tensor memory is the PTX machine's
        run_ptx(ptx, arguments, report.grid)
    else:
        run_lowered(lower_to_llvm(module, name), arguments, report.grid)
    np.testing.assert_array_equal(arguments[-1], wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@by_name
def test_gpu_computes_it(report: Report, level: int) -> None:
    from .launch import gpu_name, launch_cubin

    name = gpu_name()
    if name not in report.gpu_names:
        pytest.skip(f"{name} is not among the targets of this kernel")
    arguments = report.arguments()
    wanted = report.wanted(arguments)
    launch_cubin(cubin(report, name, level), "kernel", arguments, report.grid)
    np.testing.assert_array_equal(arguments[-1], wanted)
