"""Runs a kernel's PTX in the PTX machine and compares memory with the tile interpreter's.

The two share nothing but the kernel: one reads cuda_tile, the other the text that comes out of the
whole compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels.stage_arguments import make_arguments
from tests.kernels.stage_comparison import (
    GRID,
    ORDER_MATTERS,
    Outcome,
    beyond_reordering,
    first_difference,
    interpret,
    is_entry,
)
from tileiras.bytecode.reader import read_module
from tileiras.dialects.cuda_tile.types import PointerType
from tileiras.driver import compile_module
from tileiras.errors import CompileError
from tileiras.interpreter import InterpreterError
from tileiras.interpreter.formats import FloatFormat, format_of, from_bits, to_bits
from tileiras.interpreter.ptx import Limits, PtxError, PtxSyntaxError, run_ptx
from tileiras.options import CompileOptions

BUDGET = 3_000_000
"""Instructions (of groups of threads) after which a kernel is given up."""


APPROXIMATE = tuple(
    f"cuda_tile.{name}"
    for name in [
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "atan2",
        "pow",
        "rsqrt",
        "sqrt",
        "divf",
    ]
)
"""Operations that are computed to within a few units in the last place."""


def compare_ptx_file(path: Path, arch: str) -> list[Outcome]:
    """Every entry of a bytecode file: its PTX for a target against its meaning."""
    source = path.read_bytes()
    names = [op.sym_name.data for op in read_module(source).walk() if is_entry(op)]  # type: ignore[attr-defined]
    try:
        options = CompileOptions(gpu_name=arch, emit="ptx", opt_level=3)
        text = compile_module(source, options).output.decode()
    except CompileError as error:
        return [Outcome(f"{path.name}:{name}", "refused", str(error)) for name in names]
    return [compare_ptx(source, text, path.name, name) for name in names]


def compare_ptx(source: bytes, text: str, origin: str, name: str) -> Outcome:
    """One entry: the machine's arrays against the tile interpreter's, on made-up arguments."""
    label = f"{origin}:{name}"
    module = read_module(source)
    entry: Any = next(
        op
        for op in module.walk()
        if is_entry(op) and op.sym_name.data == name  # type: ignore[attr-defined]
    )
    try:
        arguments = make_arguments(entry)
        types = [arg.type.element_type for arg in entry.body.block.args]
        is_reordered = any(isinstance(op, ORDER_MATTERS) for op in entry.walk())
        wanted = interpret(module, name, arguments)
    except (InterpreterError, ValueError) as error:
        return Outcome(label, "unusable", str(error))
    pointees = [type_.pointee for type_ in types if isinstance(type_, PointerType)]
    try:
        found = run_arrays(text, name, arguments, types)
    except PtxSyntaxError as error:
        return Outcome(label, "unsimulated", error.render())
    except PtxError as error:
        if error.message.startswith("trap") and any(
            op.name == "cuda_tile.assert" for op in entry.walk()
        ):
            return Outcome(label, "unusable", "an assertion of the kernel fails")
        return Outcome(label, "different", error.render())
    wanted, found = (canonical(arrays, pointees) for arrays in (wanted, found))
    is_reordered |= "approx" in text or any(op.name in APPROXIMATE for op in entry.walk())
    difference = beyond_reordering(wanted, found, pointees, is_reordered)
    if difference:
        return Outcome(label, "different", difference)
    before = [arg for arg in arguments if isinstance(arg, np.ndarray)]
    return Outcome(label, "same" if first_difference(before, wanted) else "idle")


def run_arrays(
    text: str, name: str, arguments: Sequence[Any], types: Sequence[Any]
) -> list[np.ndarray]:
    """The arrays after a run of the PTX."""
    values = [
        arg.copy() if isinstance(arg, np.ndarray) else _bits(arg, type_)
        for arg, type_ in zip(arguments, types, strict=True)
    ]
    limits = Limits(BUDGET, resident=1)  # kernels whose blocks race follow the interpreter's order
    run_ptx(text, values, GRID, kernel=name, limits=limits, filename=name)
    return [value for value in values if isinstance(value, np.ndarray)]


def canonical(arrays: Sequence[np.ndarray], pointees: Sequence[Any]) -> list[np.ndarray]:
    """Arrays of bits with one NaN: which one an operation makes is not said."""
    result = []
    for array, pointee in zip(arrays, pointees, strict=True):
        fmt = format_of(pointee)
        if isinstance(fmt, FloatFormat) and fmt.has_nan:
            is_nan = np.isnan(from_bits(array, fmt).astype(np.float64))
            array = np.where(is_nan, to_bits(np.array([np.nan], fmt.dtype), fmt)[0], array)
        result.append(array)
    return result


def _bits(number: float, type_: Any) -> int:
    fmt = format_of(type_)
    return int(to_bits(np.asarray(number).astype(fmt.dtype), fmt))
