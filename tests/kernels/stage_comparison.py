"""Runs one kernel at every stage of the compiler on the same small arguments and compares memory.

Every stage is interpreted: what a conversion breaks shows without a GPU. Up to nv_tileas the
interpreter combines elements in one order, so memory must agree bit for bit; the last stage runs
thread by thread, where sums of floats may come out in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tests.kernels.stage_arguments import make_arguments
from tests.kernels.unchanged import changing
from tileiras.bytecode.reader import read_module
from tileiras.codegen.target import get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType
from tileiras.errors import CompileError
from tileiras.interpreter import InterpreterError, run_entry
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.formats import FloatFormat, format_of, from_bits
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

LOOP_LIMIT = 200
"""Rounds of a loop, to give up early on kernels that wait for something."""
THREAD_LOOP_LIMIT = 10_000
"""At the last stage all loops count, `for` loops and those that lowerings make, too."""

GRID = (2, 2, 1)


@dataclass(frozen=True)
class Outcome:
    """How the comparison of one kernel ended.

    `kind`: "same"; "idle" (the same, but nothing was written); "different" (a miscompile);
    "refused" (the compiler does not support it); "unsimulated" (an operation that the interpreter
    of the last stage lacks); "unusable" (the made-up arguments do not suit the kernel).
    """

    name: str
    kind: str
    detail: str = ""


def compare_file(
    path: Path, disabled: Sequence[str] = (), arch: str = "sm_90", by_threads: bool = False
) -> list[Outcome]:
    """Every entry of a bytecode file at every stage; `by_threads` adds the last one."""
    names = [op.sym_name.data for op in read_module(path.read_bytes()).walk() if is_entry(op)]
    read = partial(read_module, path.read_bytes())
    return [compare_entry(read(), path.name, name, disabled, arch, by_threads) for name in names]


def is_entry(op: Operation) -> bool:
    """Whether an operation is a kernel of cuda_tile."""
    return isinstance(op, ct.EntryOp)


def compare_entry(
    module: ModuleOp,
    origin: str,
    name: str,
    disabled: Sequence[str] = (),
    arch: str = "sm_90",
    by_threads: bool = False,
) -> Outcome:
    """One entry of a cuda_tile module, which is converted in place: before and after every pass."""
    label = f"{origin}:{name}"
    entry = next(op for op in module.walk() if is_entry(op) and op.sym_name.data == name)  # type: ignore[attr-defined]
    try:
        arguments = make_arguments(entry)  # type: ignore[arg-type]
        types = [arg.type.element_type for arg in entry.body.block.args]  # type: ignore[attr-defined]
        pointees = [type_.pointee for type_ in types if isinstance(type_, PointerType)]
        is_reordered = any(isinstance(op, ORDER_MATTERS) for op in entry.walk())
        wanted = interpret(module, name, arguments)
    except (InterpreterError, ValueError) as error:
        return Outcome(label, "unusable", str(error))
    step = "nothing"
    try:
        for step, stage in changing(module, passes(module, disabled, arch, by_threads)):
            if stage == "llvm-dialect":
                found = interpret(module, name, arguments, THREAD_LOOP_LIMIT)
                difference = beyond_reordering(wanted, found, pointees, is_reordered)
            else:
                difference = first_difference(wanted, interpret(module, name, arguments))
            if difference:
                return Outcome(label, "different", f"after {step}: {difference}")
    except CompileError as error:
        return Outcome(label, "refused", str(error))
    except UnknownOperationError as error:
        return Outcome(label, "unsimulated", str(error))
    except InterpreterError as error:
        return Outcome(label, "different", f"after {step}: {error}")
    before = [arg for arg in arguments if isinstance(arg, np.ndarray)]
    return Outcome(label, "same" if first_difference(before, wanted) else "idle")


def passes(
    module: ModuleOp,
    disabled: Sequence[str],
    arch: str,
    to_threads: bool = False,
    exact: bool = False,
    left_out: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """Applies the passes in place, up to nv_tileas or all; yields each one's name and stage.

    `exact`: without those after which sums of floats are rounded in another order; `left_out`:
    without passes of these names.
    """
    target = get_target(arch).without(disabled)
    options = CompileOptions(opt_level=3, emit="llvm-dialect", gpu_name=arch)
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for step in PIPELINE:
        if step.stage == "llvm-dialect" and not to_threads:
            return
        if step.pass_name in left_out or exact and step.pass_name in REORDERING:
            continue
        load_pass(step.pass_name)().apply(context, module)
        yield step.pass_name, step.stage


def interpret(
    module: ModuleOp, name: str, arguments: Sequence[Any], loop_limit: int = LOOP_LIMIT
) -> list[np.ndarray]:
    """The arrays after a run; the arguments stay as they are."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in arguments]
    run_entry(module, name, copies, GRID, loop_limit=loop_limit)
    return [copy for copy in copies if isinstance(copy, np.ndarray)]


REORDERING = ("tileas-defer-reductions",)
"""Passes after which sums of floats are rounded in another order."""

ORDER_MATTERS = (ct.ReduceOp, ct.ScanOp, ct.MmaFOp, ct.AtomicRMWTkoOp, ct.AtomicRedViewTkoOp)
"""Operations whose float results depend on the order in which elements are combined."""

ROUNDINGS = 16
"""Units in the last place, of the larger of 1 and the result, that another order may change."""


def beyond_reordering(
    wanted: Sequence[np.ndarray],
    found: Sequence[np.ndarray],
    pointees: Sequence[Any],
    is_reordered: bool,
) -> str:
    """Where memory differs by more than the order of float operations explains.

    Integers, and everything in kernels that combine nothing, must agree exactly.
    """
    for one, other, pointee in zip(wanted, found, pointees, strict=True):
        fmt = format_of(pointee)
        if np.array_equal(one, other):
            continue
        if is_reordered and isinstance(fmt, FloatFormat):
            expected, actual = (from_bits(bits, fmt).astype(np.float64) for bits in (one, other))
            bound = ROUNDINGS * 2.0**-fmt.precision
            if np.allclose(actual, expected, rtol=bound, atol=bound, equal_nan=True):
                continue
        return first_difference(wanted, found)
    return ""


def first_difference(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> str:
    """Where memory differs, empty if nowhere."""
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if not np.array_equal(one, other):
            places = np.flatnonzero(one != other)
            first = int(places[0])
            return (
                f"array {number} differs in {places.size} of {one.size} elements, first at "
                f"{first}: {one[first]:#x} became {other[first]:#x}"
            )
    return ""
