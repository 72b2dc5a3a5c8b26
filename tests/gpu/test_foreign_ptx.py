"""PTX of nvcc in the PTX machine, and how a GPU's results are compared with the machine's."""

from __future__ import annotations

import shutil
import subprocess
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ml_dtypes")

from tests.gpu import launch  # noqa: E402
from tests.gpu.foreign_ptx.__main__ import (  # noqa: E402
    Foreign,
    compared,
    cuda_kernels,
    prepare,
    run,
    run_in_machine,
)
from tests.gpu.foreign_ptx.cases import CUDA, TRITON  # noqa: E402
from tileiras.interpreter.ptx import run_ptx  # noqa: E402


@cache
def why_no_nvcc() -> str:
    """Why CUDA C++ cannot be compiled here; empty if it can."""
    if shutil.which("nvcc") is None:
        return "nvcc is not installed"
    probe = ["nvcc", "-E", "-x", "cu", "-include", "cooperative_groups.h", "/dev/null"]
    return "nvcc lacks headers" if subprocess.run(probe, capture_output=True).returncode else ""


def nvcc() -> str:
    """An nvcc with its headers; the test is skipped where there is none."""
    if reason := why_no_nvcc():
        pytest.skip(reason)
    return "nvcc"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Foreign]:
    """Kernels of `kernels.cu` by name and target."""
    folder = tmp_path_factory.mktemp("nvcc")
    found = cuda_kernels(nvcc(), ("sm_90", "sm_120"), folder)
    return {(kernel.entry, kernel.target): kernel for kernel in found}


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
@pytest.mark.parametrize("name", CUDA)
def test_kernels_of_nvcc_are_right(
    compiled: dict[tuple[str, str], Foreign], name: str, target: str
) -> None:
    kernel = compiled[name, target]
    result = run_in_machine(kernel)[kernel.launch.result]
    assert kernel.launch.is_right(result)
    assert not kernel.launch.is_right(kernel.launch.arguments[kernel.launch.result])


def test_kernels_use_what_they_are_there_for(compiled: dict[tuple[str, str], Foreign]) -> None:
    text = compiled["half_product", "sm_90"].ptx
    for word in ("mma.sync", "ldmatrix", "cp.async", "shfl.sync", "atom.shared", "mapa", "cluster"):
        assert word in text


@pytest.mark.parametrize("name", TRITON)
def test_what_triton_shall_compute_is_not_what_is_there(name: str) -> None:
    case = TRITON[name]()
    assert case.is_right(case.wanted) and not case.is_right(case.arguments[case.result])
    assert case.tolerance == 0 or name == "attention"


def test_results_are_compared_by_bits() -> None:
    machine = np.array([1, 2, 0], np.float32)
    assert compared(machine.copy(), machine, 0) == "the same bits"
    near = machine + np.float32(1e-6)
    assert compared(near, machine, 1e-3).startswith("at most")
    assert compared(near, machine, 0).startswith("differs")
    assert compared(np.array([1, 2, -0.0], np.float32), machine, 0).startswith("differs")


def test_what_is_prepared_runs_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Namespace(folder=tmp_path, triton=None, nvcc=nvcc())
    assert prepare(options) == 0

    def in_machine(cubin: bytes, entry: str, arguments: list[Any], *shape: Any) -> None:
        assert cubin.startswith(b"\x7fELF")
        plain = [x if isinstance(x, np.ndarray) else x.item() for x in arguments]
        text = (tmp_path / f"nvcc_{entry}.ptx").read_text()
        run_ptx(text, plain, *shape[:2], kernel=entry, dynamic_shared=shape[2])

    monkeypatch.setattr(launch, "launch_cubin", in_machine)
    assert run(options) == 0
    monkeypatch.setattr(launch, "launch_cubin", lambda *_: None)
    assert run(options) == len(CUDA)
    assert f"0 of {len(CUDA)} as in the machine" in capsys.readouterr().out
