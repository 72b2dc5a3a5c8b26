"""Random programs on the GPU against the interpreter: every output bit for bit.

Two of four programs are compiled for the features of other targets.

More of them: `RANDOM_PROGRAMS=1000:3000 pytest -m gpu tests/gpu/test_random_programs.py`.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.exact_program import differences  # noqa: E402
from tests.kernels.random_programs import make_program  # noqa: E402
from tileiras.bytecode.writer import write_module  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.errors import TileirasError  # noqa: E402
from tileiras.interpreter import run_entry  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin  # noqa: E402
from .restrictions import IMITATED, missing_features  # noqa: E402

FIRST, LAST = map(int, os.environ.get("RANDOM_PROGRAMS", "0:200").split(":"))
WORKERS = 12


@dataclass(frozen=True)
class Prepared:
    """A compiled program with the interpreter's answer, or why there is none."""

    cubin: bytes = b""
    wanted: tuple[Any, ...] = ()
    message: str = ""


def prepare(seed: int, arch: str) -> Prepared:
    """Compiles and interprets a program, in a worker process."""
    program = make_program(seed)
    source = write_module(program.kernel.module)
    try:
        imitated = (arch, arch, *IMITATED)[seed % 4]
        disabled = missing_features(arch, imitated)
        options = with_environment(CompileOptions(gpu_name=arch, disabled_features=disabled))
        cubin = compile_module(source, options).output
    except TileirasError as error:
        return Prepared(message=error.render())
    wanted = program.arguments()
    run_entry(program.kernel.module, "kernel", wanted, program.grid)
    return Prepared(cubin, tuple(wanted))


@pytest.fixture(scope="module")
def prepared() -> Iterator[dict[int, Any]]:
    """The future of every program; the pool works ahead of the launches."""
    arch, context = gpu_name(), multiprocessing.get_context("spawn")
    workers = min(WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield {seed: pool.submit(prepare, seed, arch) for seed in range(FIRST, LAST)}
        pool.shutdown(cancel_futures=True)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_program_computes_what_the_interpreter_computes(seed: int, prepared: dict[int, Any]):
    try:
        made = prepared[seed].result(timeout=120)
    except BrokenProcessPool:
        pytest.fail("a compiler process died: of this program or of one beside it")
    assert not made.message
    program = make_program(seed)
    found = program.arguments()
    launch_cubin(made.cubin, "kernel", found, program.grid)
    assert differences(program, found, made.wanted) == []


@pytest.mark.parametrize("seed", range(0, 200, 25))
def test_sampled_program_compiles(seed: int):
    made = prepare(seed, "sm_90")
    assert made.cubin[:4] == b"\x7fELF", made.message
