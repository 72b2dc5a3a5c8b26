"""Matrix instructions of warps: ldmatrix, stmatrix, and mma.sync by its fragment layouts."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.mma import MmaAtom, Scaling, get_mma_atom
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.scales import ScaleWords, Selector
from tileiras.dialects.nvvm import matrix
from tileiras.errors import InternalError
from tileiras.interpreter.threads.access import read, write
from tileiras.interpreter.threads.state import WARP, Lockstep, Rule
from tileiras.interpreter.threads.values import Bytes, Value, from_bytes, to_bytes
from tileiras.interpreter.threads.warps import by_warps

DTYPES: dict[str, Any] = {
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
"""How elements are held in numpy, by PTX's names."""


def _row_addresses(run: Lockstep, addresses: Value, matrix_: int, row: np.ndarray) -> Value:
    """What the lane that gives a row's address gives: lane l, that of row l % 8 of matrix l / 8."""
    return addresses[run.rows - run.lanes + 8 * matrix_ + row]


def _load_matrices(run: Lockstep, op: matrix.LdMatrixOp) -> Value:
    addresses, lane = run.values[op.pointer], run.lanes
    by_warps(run, addresses)
    columns: list[Bytes] = []
    for number in range(op.count.data):
        if op.transposed is None:
            place = _row_addresses(run, addresses, number, lane // 4)
            columns.append(read(run, run.ids, place + (lane % 4 * 4).astype(np.uint64), 4))
            continue
        for half in (0, 1):
            place = _row_addresses(run, addresses, number, lane % 4 * 2 + half)
            columns.append(read(run, run.ids, place + (lane // 4 * 2).astype(np.uint64), 2))
    return from_bytes(np.concatenate(columns, axis=1), op.result.type)


def _store_matrices(run: Lockstep, op: matrix.StMatrixOp) -> None:
    """The inverse of ldmatrix."""
    addresses, lane = run.values[op.pointer], run.lanes
    by_warps(run, addresses)
    data = to_bytes(run.values[op.value], op.value.type)
    for number in range(op.count.data):
        word = np.ascontiguousarray(data[:, 4 * number : 4 * number + 4])
        if op.transposed is None:
            place = _row_addresses(run, addresses, number, lane // 4)
            write(run, run.ids, place + (lane % 4 * 4).astype(np.uint64), word)
            continue
        for half in (0, 1):
            place = _row_addresses(run, addresses, number, lane % 4 * 2 + half)
            piece = np.ascontiguousarray(word[:, 2 * half : 2 * half + 2])
            write(run, run.ids, place + (lane // 4 * 2).astype(np.uint64), piece)


def elements(run: Lockstep, value: SSAValue, type_: str) -> np.ndarray:
    """A fragment as numbers, (threads, elements)."""
    data = np.ascontiguousarray(to_bytes(run.values[value], value.type))
    return data.view(DTYPES[type_])


@cache
def coordinates(layout: LinearLayout) -> tuple[np.ndarray, ...]:
    """Row and column of every (lane, register)."""
    registers = range(layout.in_size("register"))
    places = [[layout.apply(register=r, lane=lane) for r in registers] for lane in range(WARP)]
    table = np.array(places)
    return table[..., 0], table[..., 1]


def _whole(fragment: np.ndarray, layout: LinearLayout, wide: Any) -> np.ndarray:
    """(warps, rows, columns) of the (threads, elements) of one atom."""
    warps = fragment.reshape(-1, WARP, fragment.shape[-1])
    result = np.zeros((len(warps), *layout.shape), wide)
    rows, columns = coordinates(layout)
    result[:, rows, columns] = warps.astype(wide)
    return result


def _multiply(run: Lockstep, op: Any, reps: tuple[int, int, int]) -> Value:
    """c[m, n] += a[m, k] * b[n, k] for all repeats."""
    atom: MmaAtom = get_mma_atom(op.atom.data)
    layouts = atom.layouts()
    reps_m, reps_n, reps_k = reps
    wide = np.int64 if atom.accumulator == "s32" else np.float64
    a = elements(run, op.a, atom.a_type)
    b = elements(run, op.b, atom.b_type)
    c = elements(run, op.c, atom.accumulator).copy()
    by_warps(run, c)
    rows, columns = coordinates(layouts.c)
    for m in range(reps_m):
        for n in range(reps_n):
            at = (n + reps_n * m) * atom.c_elements
            total = _whole(c[:, at : at + atom.c_elements], layouts.c, wide)
            for k in range(reps_k):
                at_a = (k + reps_k * m) * atom.a_elements
                at_b = (k + reps_k * n) * atom.b_elements
                left = _whole(a[:, at_a : at_a + atom.a_elements], layouts.a, wide)
                right = _whole(b[:, at_b : at_b + atom.b_elements], layouts.b, wide)
                total = total + left @ right
            flat = total[:, rows, columns].reshape(run.count, -1)
            c[:, at : at + atom.c_elements] = flat.astype(c.dtype)
    return from_bytes(np.ascontiguousarray(c).view(np.uint8), op.result.type)


def _multiply_scaled(run: Lockstep, op: matrix.MmaScaledTileOp) -> Value:
    """c[m, n] += (a[m, k] * scales) * (b[n, k] * scales) for all repeats of a block-scaled atom."""
    atom = get_mma_atom(op.atom.data)
    layouts, scaling = atom.layouts(), atom.scaling
    if scaling is None:
        raise InternalError(f"{atom.name} has no scales", where="threads")
    reps_m, reps_n, reps_k = op.reps_m.data, op.reps_n.data, op.reps_k.data
    a, b = (_bytes(run, value) for value in (op.a, op.b))
    scales = [_bytes(run, value) for value in (op.scale_a, op.scale_b)]
    words = ScaleWords("A", op.blocks.data), ScaleWords("B", op.blocks.data)
    c = elements(run, op.c, atom.accumulator).copy()
    by_warps(run, c)
    rows, columns = coordinates(layouts.c)
    for m in range(reps_m):
        for n in range(reps_n):
            at = (n + reps_n * m) * atom.c_elements
            total = _whole(c[:, at : at + atom.c_elements], layouts.c, np.float64)
            for k in range(reps_k):
                left = _blocks(a, k + reps_k * m, atom.a_elements, layouts.a, atom, 1)
                right = _blocks(b, k + reps_k * n, atom.b_elements, layouts.b, atom, 0)
                first = (op.step.data + k) * scaling.vector
                scale_a = _scales(scales[0], words[0].select(m, first), 16, scaling)
                scale_b = _scales(scales[1], words[1].select(n, first), 8, scaling)
                width = atom.k // scaling.vector
                left = left * np.repeat(scale_a, width, axis=2)
                right = right * np.repeat(scale_b, width, axis=2).swapaxes(1, 2)
                total = total + left @ right
            flat = total[:, rows, columns].reshape(run.count, -1)
            c[:, at : at + atom.c_elements] = flat.astype(c.dtype)
    return from_bytes(np.ascontiguousarray(c).view(np.uint8), op.result.type)


def _bytes(run: Lockstep, value: SSAValue) -> np.ndarray:
    """A fragment as bytes, (threads, bytes)."""
    return np.ascontiguousarray(to_bytes(run.values[value], value.type)).view(np.uint8)


def _blocks(
    data: np.ndarray, number: int, count: int, layout: LinearLayout, atom: MmaAtom, k_axis: int
) -> np.ndarray:
    """Numbers (warps, rows, columns) of fragment `number` of an operand; two of a packed byte."""
    codes = _whole(data[:, number * count : (number + 1) * count], layout, np.uint8)
    if atom.depth == atom.k:
        dtype = DTYPES[atom.a_type if k_axis == 1 else atom.b_type]
        return codes.view(dtype).astype(np.float64)
    halves = np.stack([codes & 15, codes >> 4], axis=k_axis + 2)
    shape = list(codes.shape)
    shape[k_axis + 1] *= 2
    nibbles = np.ascontiguousarray(halves.reshape(shape))
    return nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float64)


def _scales(data: np.ndarray, place: Selector, rows: int, scaling: Scaling) -> np.ndarray:
    """Scales (warps, rows or columns, blocks) of one instruction, from the lanes that it reads."""
    row = np.arange(rows)
    lane = row % 8 * 4 + (2 * place.thread + row // 8 if rows == 16 else place.thread)
    at = 4 * place.word + place.byte
    by_warp = data.reshape(-1, WARP, data.shape[-1])
    codes = np.ascontiguousarray(by_warp[:, lane, at : at + scaling.vector])
    if scaling.type == "ue4m3":
        return (codes & np.uint8(0x7F)).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)


def _multiply_once(run: Lockstep, op: matrix.MmaSyncOp) -> Value:
    return _multiply(run, op, (1, 1, 1))


def _multiply_tile(run: Lockstep, op: matrix.MmaTileOp) -> Value:
    return _multiply(run, op, (op.reps_m.data, op.reps_n.data, op.reps_k.data))


RULES: dict[type[Operation], Rule] = {
    matrix.LdMatrixOp: _load_matrices,
    matrix.StMatrixOp: _store_matrices,
    matrix.MmaSyncOp: _multiply_once,
    matrix.MmaTileOp: _multiply_tile,
    matrix.MmaScaledTileOp: _multiply_scaled,
}
"""Matrix instructions of warps."""
