"""Compiles and interprets random programs for `launches`: cubins of both compilers, what is wanted.

Programs are compiled many at once, as kernels of one module; where that fails, one by one.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region

from tests.gpu.differential.cases import Array, Case, digest, flushed
from tests.gpu.differential.programs import Loose, make_wide_program
from tests.gpu.differential.slices import slices
from tests.kernels.exact_program import EXACT_UP_TO, INPUT_SIZE
from tileiras.bytecode.writer import write_module
from tileiras.dialects import cuda_tile as ct
from tileiras.driver import compile_module, with_environment
from tileiras.errors import TileirasError
from tileiras.interpreter import run_entry
from tileiras.interpreter.formats import format_of
from tileiras.options import CompileOptions

GPU_NAME = "sm_90"
PER_MODULE = 20
VENDOR_SECONDS = 120


@dataclass(frozen=True)
class Group:
    """Programs of consecutive seeds: what they should compute, their modules, their kernels."""

    cases: list[Case]
    modules: list[ModuleOp]
    names: list[str]


def entry_name(seed: int) -> str:
    """What the kernel of a program is called."""
    return f"p{seed}"


def joined(modules: Sequence[ModuleOp]) -> ModuleOp:
    """One module with the kernels and globals of several."""
    block = Block()
    for module in modules:
        container = module.clone().body.block.first_op
        assert isinstance(container, ct.ModuleOp)
        for op in list(container.body.block.ops):
            op.detach()
            block.add_op(op)
    top = ct.ModuleOp.build(
        properties={"sym_name": StringAttr("programs")}, regions=[Region(block)]
    )
    return ModuleOp([top])


def make_case(program: Loose, called: str = "") -> Case:
    """Inputs as they are made again, and digests or elements of the outputs."""
    arguments = program.arguments()
    run_entry(program.kernel.module, "kernel", arguments, program.grid)
    arrays = []
    for number, (element, count) in enumerate(program.inputs):
        limit = INPUT_SIZE if element in EXACT_UP_TO else 0
        arrays.append(Array(format_of(element).name, count, limit))
        _check_format(format_of(element), arguments[number])
    wanted: list[str] = []
    for number, (element, count) in enumerate(program.outputs):
        found = arguments[len(program.inputs) + number]
        name = format_of(element).name
        ulps = program.ulps.get(number, 0.0)
        flushes = number in program.flushed
        found = flushed(found) if flushes else found
        arrays.append(Array(name, count, 0, is_output=True, ulps=ulps, flushes=flushes))
        wanted.append(found.tobytes().hex() if ulps else digest(found, name))
    called = called or entry_name(program.seed)
    return Case(called, program.seed, program.grid, arrays, wanted)


def _check_format(form: Any, array: np.ndarray) -> None:
    """The runner makes arrays from a format's name alone."""
    if array.dtype != form.storage:
        raise TypeError(f"{form.name} is stored as {array.dtype}")


def make_group(first: int, last: int, with_cases: bool = True) -> Group:
    """The programs of these seeds; what they compute only where that is asked for."""
    cases, modules, names = [], [], []
    for seed in range(first, last):
        program = make_wide_program(seed)
        if with_cases:
            cases.append(make_case(program))
        program.kernel.entry.properties["sym_name"] = StringAttr(entry_name(seed))
        modules.append(program.kernel.module)
        names.append(entry_name(seed))
    return Group(cases, modules, names)


def compile_ours(modules: Sequence[ModuleOp]) -> bytes:
    """A cubin by this compiler. Raises TileirasError."""
    options = with_environment(CompileOptions(gpu_name=GPU_NAME))
    return compile_module(write_module(joined(modules)), options).output


class VendorError(Exception):
    """NVIDIA's compiler refused a program, or ended without a cubin."""


def compile_theirs(vendor: str, modules: Sequence[ModuleOp]) -> bytes:
    """A cubin by NVIDIA's compiler. Raises VendorError."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "k.tileirbc"), Path(folder, "k.cubin")
        source.write_bytes(write_module(joined(modules)))
        command = [vendor, str(source), "-o", str(cubin), f"--gpu-name={GPU_NAME}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=VENDOR_SECONDS)
        except subprocess.TimeoutExpired:
            raise VendorError(f"no end within {VENDOR_SECONDS} s") from None
        if done.returncode or not cubin.exists():
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise VendorError((lines or [f"status {done.returncode}"])[0])
        return cubin.read_bytes()


def cubins(group: Group, compiler: Any, name: str, folder: Path) -> dict[str, str]:
    """Compiles a group, one by one if it must; writes cubins, returns what was refused and why."""
    try:
        (folder / f"{name}.cubin").write_bytes(compiler(group.modules))
        return {}
    except (TileirasError, VendorError):
        refused = {}
    for entry, module in zip(group.names, group.modules):
        try:
            (folder / f"{name}.{entry}.cubin").write_bytes(compiler([module]))
        except (TileirasError, VendorError) as error:
            refused[entry] = str(error)[:300]
    return refused


def _with_ours(group: Group, name: str, folder: Path) -> dict[str, str]:
    """Writes the cases of a group and this compiler's cubin."""
    refused = cubins(group, compile_ours, f"{name}.ours", folder)
    content = {"cases": [case.to_json() for case in group.cases], "refused": refused}
    (folder / f"{name}.json").write_text(json.dumps(content))
    return refused


@dataclass(frozen=True)
class _Task:
    """What a process does: programs of some seeds, by this compiler or by `vendor`."""

    first: int
    last: int
    folder: Path
    vendor: str

    def run(self) -> tuple[str, dict[str, str]]:
        """The name of the group, and what was refused why."""
        name = f"g{self.first:05}"
        done = self.folder / (f"{name}.theirs.json" if self.vendor else f"{name}.json")
        if done.exists():
            return name, json.loads(done.read_text())["refused"]
        group = make_group(self.first, self.last, with_cases=not self.vendor)
        if not self.vendor:
            return name, _with_ours(group, name, self.folder)

        def compiler(modules: Sequence[ModuleOp]) -> bytes:
            return compile_theirs(self.vendor, modules)

        refused = cubins(group, compiler, f"{name}.theirs", self.folder)
        done.write_text(json.dumps({"refused": refused}))
        return name, refused


def prepare(folder: Path, first: int, count: int, jobs: int, vendor: str) -> int:
    """Writes groups of cases with this compiler's cubins, or (`vendor`) NVIDIA's cubins of them.

    What is there already stays. The number of programs that were refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [
        _Task(start, min(start + PER_MODULE, first + count), folder, vendor)
        for start in range(first, first + count, PER_MODULE)
    ]
    total = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for name, refused in pool.imap(_Task.run, tasks):
            total += len(refused)
            for case, message in refused.items():
                print(f"{name} {case}: {message}", flush=True)
    print(f"{count} programs, {total} refused")
    return total


def prepare_slices(folder: Path, outputs: Sequence[str], vendor: str) -> int:
    """Writes parts of programs (`slices`) for outputs such as `870:3`, each with cubins of its own.

    The number that a compiler refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for number, output in enumerate(outputs):
        found = list(slices(*map(int, output.split(":"))))
        cases = [make_case(program, name) for name, program in found]
        for name, program in found:
            program.kernel.entry.properties["sym_name"] = StringAttr(name)
        group = Group(cases, [p.kernel.module for _, p in found], [name for name, _ in found])
        compilers = {"ours": compile_ours, "theirs": lambda one: compile_theirs(vendor, one)}
        for compiler, run in compilers.items():
            for name, module in zip(group.names, group.modules):
                try:
                    path = folder / f"g{number:05}.{compiler}.{name}.cubin"
                    path.write_bytes(run([module]))
                except (TileirasError, VendorError) as error:
                    total += 1
                    print(f"{compiler} {name}: {str(error)[:300]}", flush=True)
        content = {"cases": [case.to_json() for case in cases], "refused": {}}
        (folder / f"g{number:05}.json").write_text(json.dumps(content))
    return total
