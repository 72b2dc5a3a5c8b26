"""Matrix instructions of the simulator: ldmatrix, and mma.sync by its fragment layouts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from simulated_ops import WARP, Machine, Rule, Value, from_bytes, read, to_bytes, write

from tileiras.codegen.atoms.mma import MmaAtom, get_mma_atom
from tileiras.dialects.layout import LinearLayout

_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def _ldmatrix(machine: Machine, op: Any) -> Value:
    """Lane l of a warp gives the address of row l % 8 of matrix l / 8."""
    addresses = machine.values[op.pointer]
    threads = machine.thread_ids
    lane, first = threads % WARP, threads // WARP * WARP
    columns = []
    for matrix in range(op.count.data):
        if op.transposed is None:
            place = addresses[first + 8 * matrix + lane // 4] + (lane % 4 * 4).astype(np.uint64)
            columns.append(read(machine, threads, place, 4))
            continue
        halves = []
        for half in (0, 1):
            row = addresses[first + 8 * matrix + lane % 4 * 2 + half]
            halves.append(read(machine, threads, row + (lane // 4 * 2).astype(np.uint64), 2))
        columns.append(np.concatenate(halves, axis=1))
    return from_bytes(np.concatenate(columns, axis=1), op.result.type)


def _stmatrix(machine: Machine, op: Any) -> None:
    """The inverse of ldmatrix."""
    addresses = machine.values[op.pointer]
    threads = machine.thread_ids
    lane, first = threads % WARP, threads // WARP * WARP
    data = to_bytes(machine.values[op.value], op.value.type)
    for matrix in range(op.count.data):
        word = np.ascontiguousarray(data[:, 4 * matrix : 4 * matrix + 4])
        if op.transposed is None:
            place = addresses[first + 8 * matrix + lane // 4] + (lane % 4 * 4).astype(np.uint64)
            write(machine, threads, place, word)
            continue
        for half in (0, 1):
            row = addresses[first + 8 * matrix + lane % 4 * 2 + half]
            place = row + (lane // 4 * 2).astype(np.uint64)
            write(machine, threads, place, np.ascontiguousarray(word[:, 2 * half : 2 * half + 2]))


def _elements(machine: Machine, value: Any, type_: str) -> np.ndarray:
    """A fragment as numbers, (threads, elements)."""
    data = np.ascontiguousarray(to_bytes(machine.values[value], value.type))
    return data.view(_DTYPES[type_])


def _coordinates(layout: LinearLayout) -> tuple[np.ndarray, ...]:
    """Row and column of every (lane, register)."""
    registers = range(layout.in_size("register"))
    places = [[layout.apply(register=r, lane=lane) for r in registers] for lane in range(WARP)]
    table = np.array(places)
    return table[..., 0], table[..., 1]


def _matrix(fragment: np.ndarray, layout: LinearLayout, wide: Any) -> np.ndarray:
    """(warps, rows, columns) of the (threads, elements) of one atom."""
    warps = fragment.reshape(-1, WARP, fragment.shape[-1])
    result = np.zeros((len(warps), *layout.shape), wide)
    rows, columns = _coordinates(layout)
    result[:, rows, columns] = warps.astype(wide)
    return result


def _mma(machine: Machine, op: Any, reps: tuple[int, int, int]) -> Value:
    """c[m, n] += a[m, k] * b[n, k] for all repeats."""
    atom: MmaAtom = get_mma_atom(op.atom.data)
    layouts = atom.layouts()
    reps_m, reps_n, reps_k = reps
    wide = np.int64 if atom.accumulator == "s32" else np.float64
    a = _elements(machine, op.a, atom.a_type)
    b = _elements(machine, op.b, atom.b_type)
    c = _elements(machine, op.c, atom.accumulator).copy()
    rows, columns = _coordinates(layouts.c)
    for m in range(reps_m):
        for n in range(reps_n):
            at = (n + reps_n * m) * atom.c_elements
            total = _matrix(c[:, at : at + atom.c_elements], layouts.c, wide)
            for k in range(reps_k):
                at_a = (k + reps_k * m) * atom.a_elements
                at_b = (k + reps_k * n) * atom.b_elements
                left = _matrix(a[:, at_a : at_a + atom.a_elements], layouts.a, wide)
                right = _matrix(b[:, at_b : at_b + atom.b_elements], layouts.b, wide)
                total = total + left @ right
            flat = total[:, rows, columns].reshape(machine.threads, -1)
            c[:, at : at + atom.c_elements] = flat.astype(c.dtype)
    return from_bytes(np.ascontiguousarray(c).view(np.uint8), op.result.type)


MATRIX_RULES: dict[str, Rule] = {
    "nvvm.ldmatrix": _ldmatrix,
    "nvvm.stmatrix": _stmatrix,
    "nvvm.mma_sync": lambda machine, op: _mma(machine, op, (1, 1, 1)),
    "nvvm.mma_tile": lambda machine, op: _mma(
        machine, op, (op.reps_m.data, op.reps_n.data, op.reps_k.data)
    ),
}
"""What each matrix instruction does."""
