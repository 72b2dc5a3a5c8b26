"""Runs one kernel at every stage of the compiler on the same small arguments and compares memory.

Every stage is interpreted: what a conversion breaks shows without a GPU. Up to nv_tileas the
interpreter combines elements in one order, so memory must agree bit for bit; the last stage is
simulated thread by thread as it would run, where sums of floats may come out in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from interpreter.stage_arguments import make_arguments
from tileiras.bytecode.reader import read_module
from tileiras.codegen.target import get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.errors import CompileError
from tileiras.interpreter import InterpreterError, run_entry
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

LOOP_LIMIT = 200
"""Rounds of a loop, to give up early on kernels that wait for something."""

GRID = (2, 2, 1)


@dataclass(frozen=True)
class Outcome:
    """How the comparison of one kernel ended.

    `kind`: "same", "different" (a miscompile), "refused" (the compiler does not support it), or
    "unusable" (the made-up arguments do not suit the kernel).
    """

    name: str
    kind: str
    detail: str = ""


def compare_file(path: Path, disabled: Sequence[str] = (), arch: str = "sm_90") -> list[Outcome]:
    """Every entry of a bytecode file at every stage."""
    names = [op.sym_name.data for op in read_module(path.read_bytes()).walk() if is_entry(op)]
    return [compare_entry(path, name, disabled, arch) for name in names]


def is_entry(op: Operation) -> bool:
    """Whether an operation is a kernel of cuda_tile."""
    return isinstance(op, ct.EntryOp)


def compare_entry(path: Path, name: str, disabled: Sequence[str], arch: str) -> Outcome:
    """One entry: interprets it as read, then after every pass up to nv_tileas."""
    label = f"{path.name}:{name}"
    module = read_module(path.read_bytes())
    entry = next(op for op in module.walk() if is_entry(op) and op.sym_name.data == name)  # type: ignore[attr-defined]
    try:
        arguments = make_arguments(entry)  # type: ignore[arg-type]
        wanted = interpret(module, name, arguments)
    except (InterpreterError, ValueError) as error:
        return Outcome(label, "unusable", str(error))
    try:
        for step, _ in passes(module, disabled, arch):
            found = interpret(module, name, arguments)
            difference = first_difference(wanted, found)
            if difference:
                return Outcome(label, "different", f"after {step}: {difference}")
    except CompileError as error:
        return Outcome(label, "refused", str(error))
    except InterpreterError as error:
        return Outcome(label, "different", f"after {step}: {error}")
    return Outcome(label, "same")


def passes(module: ModuleOp, disabled: Sequence[str], arch: str) -> Any:
    """Applies the passes up to nv_tileas in place, yielding after each its name and stage."""
    target = get_target(arch).without(disabled)
    options = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name=arch)
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for step in PIPELINE:
        if step.stage == "llvm-dialect":
            return
        load_pass(step.pass_name)().apply(context, module)
        yield step.pass_name, step.stage


def interpret(module: ModuleOp, name: str, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The arrays after a run; the arguments stay as they are."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in arguments]
    run_entry(module, name, copies, GRID, loop_limit=LOOP_LIMIT)
    return [copy for copy in copies if isinstance(copy, np.ndarray)]


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
