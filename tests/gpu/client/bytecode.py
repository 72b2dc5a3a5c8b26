"""The client's bytecode for a case without a GPU, and its run in the interpreter."""

from __future__ import annotations

import io
from typing import Any

import cuda.tile as ct
import numpy as np
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)

from tileiras.bytecode.reader import read_module
from tileiras.interpreter import RunLog, run_entry

from .cases import KernelCase

DTYPES = {
    "float32": ct.float32,
    "float16": ct.float16,
    "bfloat16": ct.bfloat16,
    "float64": ct.float64,
    "int8": ct.int8,
    "int32": ct.int32,
    "int64": ct.int64,
}


def array_constraint(array: np.ndarray) -> ArrayConstraint:
    """What the client would assume of a row-major array in 16-byte aligned memory."""
    strides = [stride // array.itemsize for stride in array.strides]
    factor = 16 // array.itemsize
    return ArrayConstraint(
        DTYPES[array.dtype.name],
        array.ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[*[None] * (array.ndim - 1), 1],
        stride_divisible_by=[factor if stride % factor == 0 else 1 for stride in strides],
        shape_divisible_by=[16 if size % 16 == 0 else 1 for size in array.shape],
        base_addr_divisible_by=16,
    )


def _constraint(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return array_constraint(argument)
    return ScalarConstraint(ct.int32 if isinstance(argument, int) else ct.float32)


def export(case: KernelCase, output_format: str, version: str | None = None) -> bytes:
    """What the client makes of a case's kernel for sm_90: "tileir_bytecode" or "cubin".

    Without a version the client asks the compiler on PATH which versions it takes.
    """
    parameters = [*map(_constraint, case.arguments), *case.constants]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1())
    buffer = io.BytesIO()
    export_kernel(
        case.kernel,
        [signature],
        buffer,
        gpu_code="sm_90",
        output_format=output_format,
        bytecode_version=version,
    )
    return buffer.getvalue()


def entry_arguments(case: KernelCase) -> list[Any]:
    """The entry's arguments: an array is a pointer, its sizes and its strides in elements."""
    flat: list[Any] = []
    for argument in case.arguments:
        flat.append(argument)
        if isinstance(argument, np.ndarray):
            flat += argument.shape
            flat += [stride // argument.itemsize for stride in argument.strides]
    return flat


def interpret(case: KernelCase, bytecode: bytes) -> RunLog:
    """Runs the bytecode in the interpreter; the case's arrays are updated in place."""
    return run_entry(read_module(bytecode), None, entry_arguments(case), case.grid)
