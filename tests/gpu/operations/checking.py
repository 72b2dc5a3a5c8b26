"""Runs one row: compile, interpret, launch or simulate, compare."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.kernels.kernel_builder import Kernel
from tileiras.bytecode.writer import write_module
from tileiras.driver import compile_module, with_environment
from tileiras.errors import CompileError
from tileiras.interpreter import run_entry
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.formats import FloatFormat
from tileiras.options import CompileOptions

from .rows import Close, Comparison, Row, as_numbers, compare_closely, compare_exactly, formats_of

How = Literal["launch", "simulate", "compile"]
Status = Literal["passed", "failed", "unsupported", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a row; errors are in ulp of the output where it has a bound."""

    status: Status
    message: str = ""
    error: float = 0.0
    bound: float = 0.0
    compile_seconds: float = 0.0
    seconds: float = 0.0


def run_row(row: Row, how: How, gpu_name: str) -> Outcome:
    """The outcome of a row: `compile` compares nothing, but runs the interpreter."""
    start = time.perf_counter()
    compiled = start
    try:
        kernel = row.finished()
        source = write_module(kernel.module)
        cubin = b""
        if how != "simulate":
            options = with_environment(CompileOptions(gpu_name=gpu_name))
            cubin = compile_module(source, options).output
        compiled = time.perf_counter()
        before = row.arguments()
        wanted, found = _copies(before), _copies(before)
        run_entry(kernel.module, "kernel", wanted, row.grid)
        outcomes = [Comparison(True)]
        if how != "compile":
            _execute(row, kernel, how, gpu_name, cubin, found)
            outcomes += compare_all(row, kernel, before, wanted, found)
    except CompileError as error:
        return Outcome("failed", f"{type(error).__name__}: {error}")
    except UnknownOperationError as error:
        return Outcome("unsupported", str(error))
    except Exception as error:
        text = "".join(traceback.format_exception(error)[-3:])
        return Outcome("failed", f"{type(error).__name__}: {error}\n{text}")
    times = (compiled - start, time.perf_counter() - start)
    bad = [outcome for outcome in outcomes if not outcome.is_ok]
    worst = max(outcomes, key=lambda outcome: outcome.error)
    if bad:
        message = " | ".join(outcome.message for outcome in bad)
        return Outcome("failed", message, worst.error, worst.bound, *times)
    return Outcome("passed", "", worst.error, worst.bound, *times)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in arguments]


def _execute(
    row: Row, kernel: Kernel, how: How, gpu_name: str, cubin: bytes, arguments: list[Any]
) -> None:
    """Runs the compiled kernel on the GPU, or its llvm dialect in the interpreter."""
    if how == "launch":
        from ..launch import launch_cubin

        launch_cubin(cubin, "kernel", arguments, row.grid)
        return
    from tests.kernels.lowered import lower_to_llvm, run_lowered

    run_lowered(lower_to_llvm(kernel.module.clone(), gpu_name), arguments, row.grid)


def compare_all(
    row: Row, kernel: Kernel, before: list[Any], wanted: list[Any], found: list[Any]
) -> list[Comparison]:
    """One comparison for every array argument."""
    bounds: dict[int, Close] = {close.position: close for close in row.close}
    results: list[Comparison] = []
    for position, fmt in enumerate(formats_of(kernel)):
        got, want = found[position], wanted[position]
        if fmt is None:
            continue
        if position in row.unordered:
            got, want = np.sort(got, axis=None), np.sort(want, axis=None)
        close = bounds.get(position)
        if close is None or not isinstance(fmt, FloatFormat):
            results.append(compare_exactly(got, want, fmt))
            continue
        exact = close.reference(before) if close.reference is not None else as_numbers(want, fmt)
        results.append(compare_closely(got, exact, fmt, close, before))
    return results
