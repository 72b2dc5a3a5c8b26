"""Kernels of CUDA Tile C++ through nvcc: cubins, their entries, and what the kernels compute.

Without a GPU the interpreter runs the bytecode that nvcc made; with one the cubins are launched.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import gpu_name, launch_cubin
from tileiras.driver import read_source
from tileiras.interpreter import run_entry

from .cases import CASES, EXAMPLES, SOURCES, KernelCase, Launch
from .nvcc import Nvcc, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@dataclass(frozen=True)
class CompiledFile:
    """What came out of one call of nvcc."""

    name: str
    bytecode: bytes
    cubin: bytes
    launches: list[dict[str, Any]]

    @property
    def cases(self) -> list[KernelCase]:
        """The cases of this file's kernels."""
        return [case for case in CASES if case.file == self.name]

    @property
    def entries(self) -> list[str]:
        """The names of the kernels."""
        return [launch["name"] for launch in self.launches]


def compile_file(name: str, folder: Path, arch: str) -> CompiledFile:
    """Compiles a file once for all: bytecode, cubin and launch information."""
    nvcc, output, info = Nvcc.prepare(folder), folder / "cubin", folder / "launches.json"
    nvcc.cubin(SOURCES[name], output, "-Xtileiras", f"--emit-launch-info={info}", arch=arch)
    launches = json.loads(info.read_text())["kernels"]
    return CompiledFile(name, nvcc.bytecode, output.read_bytes(), launches)


@pytest.fixture(scope="module", params=SOURCES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Every file of kernels in turn."""
    return compile_file(request.param, tmp_path_factory.mktemp(request.param), "sm_90")


def test_cubin_has_every_kernel_of_the_file(compiled: CompiledFile) -> None:
    """One thread a tile block is what `<<<blocks, 1>>>` asks for."""
    assert compiled.cubin[:4] == b"\x7fELF"
    source = SOURCES[compiled.name].read_text()
    names = re.findall(r"__tile_global__\s+void\s+(\w+)", source)
    assert len(compiled.launches) == len(compiled.cases) > 0
    for name in names:
        assert any(name in entry for entry in compiled.entries)
    for launch in compiled.launches:
        assert f".text.{launch['name']}".encode() in compiled.cubin
        assert launch["block"] == [1, 1, 1]


def test_results_in_the_interpreter(compiled: CompiledFile) -> None:
    """The bytecode that nvcc made computes what the sources say."""
    module = read_source(compiled.bytecode)
    faults = {}
    for case in compiled.cases:
        launch = case.launch()
        before = copy.deepcopy(launch.arguments)
        run_entry(module, case.entry(compiled.entries), launch.arguments, launch.grid)
        faults[case.name] = launch.fault(before)
    assert not any(faults.values()), faults


def test_every_file_of_kernels_is_compiled() -> None:
    """None is left out of the table."""
    folders = (EXAMPLES, SOURCES["memory"].parent)
    found = {path.stem for folder in folders for path in folder.glob("*.cu")}
    assert found == set(SOURCES)
    assert {case.file for case in CASES} == found
    assert len({case.name for case in CASES}) == len(CASES)


def test_wrong_results_are_seen() -> None:
    """In an array that is written, and in one that is not."""
    values, kept = np.arange(8.0), np.ones(3, np.int32)
    launch = Launch([values.copy(), kept.copy()], (1, 1, 1), {0: values}, 1e-3)
    before = [np.zeros(8), kept]
    assert launch.fault(before) == ""
    launch.arguments[0][3] = np.nan
    assert launch.fault(before).startswith("argument 0: error nan")
    launch.arguments[0][3], launch.arguments[1][2] = 3, 2
    assert launch.fault(before).startswith("argument 1")


def test_an_entry_must_be_the_only_one_with_its_name() -> None:
    """Else a case could run another kernel."""
    case = CASES[0]
    assert case.entry(["_Z5scaleIfLi512E", "gelu"]) == "_Z5scaleIfLi512E"
    for entries in (["gelu"], ["_Z5scaleIfLi512E", "_Z5scaleIfLi256E"]):
        with pytest.raises(ValueError, match="expected one"):
            case.entry(entries)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOURCES)
def test_results_on_the_gpu(name: str, tmp_path: Path) -> None:
    """Launched with one thread a tile block; nothing else may be written."""
    compiled = compile_file(name, tmp_path, gpu_name())
    faults = {}
    for case in compiled.cases:
        launch = case.launch(size=3)
        before = copy.deepcopy(launch.arguments)
        launch_cubin(compiled.cubin, case.entry(compiled.entries), launch.arguments, launch.grid)
        faults[case.name] = launch.fault(before)
    assert not any(faults.values()), faults


@pytest.mark.gpu
@pytest.mark.parametrize("name", [path.stem for path in sorted(EXAMPLES.glob("*.cu"))])
def test_example_program(name: str, tmp_path: Path) -> None:
    """Host and device code in one program, as nvcc links it."""
    Nvcc.prepare(tmp_path).run(EXAMPLES / f"{name}.cu", tmp_path / name, arch=gpu_name())
    done = subprocess.run([tmp_path / name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("ok"), done.stdout + done.stderr
