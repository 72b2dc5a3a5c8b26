"""Products of warpgroups (wgmma), whose operands lie in shared memory by descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP, get_wgmma_atom
from tileiras.dialects.layout.mma import M16N8K8_TF32, M16N8K16_F16, M16N8K32_S8, wgmma_accumulator
from tileiras.dialects.nvvm import wgmma
from tileiras.interpreter.errors import InterpreterError, UnknownOperationError
from tileiras.interpreter.threads.matrix import DTYPES, coordinates, elements
from tileiras.interpreter.threads.state import WARP, Lockstep, Rule
from tileiras.interpreter.threads.swizzles import swizzled
from tileiras.interpreter.threads.values import Value, from_bytes

_FRAGMENTS = {8: M16N8K32_S8, 16: M16N8K16_F16, 32: M16N8K8_TF32}
_SWIZZLES = {1: 128, 2: 64, 3: 32}
"""Bytes by the layout type of a descriptor (PTX ISA, "Matrix Descriptor Format")."""


@dataclass(frozen=True)
class _Step:
    """What an instruction reads of an operand: 32 bytes of K of `rows` rows or columns."""

    rows: int
    type: str
    is_transposed: bool = False


def _operand(run: Lockstep, descriptor: int, offset: int, step: _Step) -> np.ndarray:
    """A step of an operand as numbers, (rows, K), by the address rule of descriptors.

    PTX ISA, "Strides" and "Swizzling modes": eight lines of the swizzle's bytes, then the stride
    offset further on. Lines of a K-major operand are its rows. Those of an MN-major one are its K:
    they go on the leading offset further.
    """
    span = _SWIZZLES.get(descriptor >> 62)
    leading, stride = ((descriptor >> bit & 0x3FFF) << 4 for bit in (16, 32))
    start = ((descriptor & 0x3FFF) << 4) + offset
    if span is None or stride != 8 * span:
        raise UnknownOperationError("the interpreter knows swizzled lines one behind the other")
    if not step.is_transposed:
        line, byte = np.arange(step.rows)[:, None], np.arange(32)[None, :]
        address = start + line // 8 * stride + line % 8 * span + byte
        return _numbers(run.shared.operand(swizzled(address, span)), step.type)
    line, byte = np.arange(16)[:, None], np.arange(2 * step.rows)[None, :]
    address = start + line // 8 * stride + line % 8 * span + byte // span * leading + byte % span
    return _numbers(run.shared.operand(swizzled(address, span)), step.type).T


def _numbers(data: np.ndarray, type_: str) -> np.ndarray:
    held = np.ascontiguousarray(data).view(DTYPES[type_])
    if type_ == "tf32":
        held = (held.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)
    return held.astype(np.int64 if type_ in ("s8", "u8") else np.float64)


@cache
def _places(n: int) -> np.ndarray:
    """Row and column of every thread and accumulator, (128, n / 2, 2)."""
    layout = wgmma_accumulator((ROWS, n), 1)
    return np.array(
        [
            [layout.apply(register=r, lane=t % WARP, warp=t // WARP) for r in range(n // 2)]
            for t in range(WARPGROUP)
        ]
    )


def _multiply(run: Lockstep, op: wgmma.WgmmaOp) -> Value:
    """All K steps and blocks of rows of every warpgroup, at once."""
    if run.count % WARPGROUP or (run.ids[::WARPGROUP] % WARPGROUP).any():
        raise InterpreterError("only some threads of a warpgroup come here")
    atom = get_wgmma_atom(op.atom.data)
    family, steps, blocks = atom.family, len(op.b_offsets.data), op.reps_m.data
    wide = np.int64 if family.is_integer else np.float64
    places = _places(atom.n)
    size = atom.accumulator_elements
    dtype = DTYPES[family.accumulator]
    result = np.zeros((run.count, blocks * size), dtype)
    if op.accumulator is not None and (op.scale_d is None or run.values[op.scale_d].any()):
        result = elements(run, op.accumulator, family.accumulator).copy()
    for first in range(0, run.count, WARPGROUP):
        threads = slice(first, first + WARPGROUP)
        right = int(run.values[op.b][first])
        read = _Step(atom.n, family.b_type, op.b_transposed is not None)
        operands = [_operand(run, right, offset, read) for offset in op.b_offsets.data]
        for block in range(blocks):
            total = np.zeros((ROWS, atom.n), wide)
            held = result[threads, block * size : (block + 1) * size]
            total[places[..., 0], places[..., 1]] = held
            for step in range(steps):
                total += _left(run, op, threads, block, step) @ operands[step].T
            held[...] = total[places[..., 0], places[..., 1]].astype(dtype)
    return from_bytes(np.ascontiguousarray(result).view(np.uint8), op.result.type)


def _left(run: Lockstep, op: wgmma.WgmmaOp, threads: slice, block: int, step: int) -> np.ndarray:
    """64 rows of the left operand, (64, K)."""
    family = get_wgmma_atom(op.atom.data).family
    if not op.a_in_registers:
        offset = op.a_offsets.data[step] + block * op.m_stride.data
        descriptor = int(run.values[op.a][threads.start])
        read = _Step(ROWS, family.a_type, op.a_transposed is not None)
        return _operand(run, descriptor, offset, read)
    layout = _FRAGMENTS[family.operand_bits].a
    count = layout.in_size("register")
    held = elements(run, op.a, family.a_type)[threads]
    at = (block * len(op.b_offsets.data) + step) * count
    values = _numbers(np.ascontiguousarray(held[:, at : at + count]).view(np.uint8), family.a_type)
    rows, columns = coordinates(layout)
    result = np.zeros((4, *layout.shape), values.dtype)
    result[:, rows, columns] = values.reshape(4, WARP, count)
    return result.reshape(ROWS, -1)


def _passed(run: Lockstep, op: Any) -> None:
    """A fence or wait hands its values on."""
    for value, result in zip(op.operands, op.results, strict=True):
        run.values[result] = run.values[value]


def _nothing(run: Lockstep, op: Operation) -> None:
    """Products are over when they are issued."""


RULES: dict[type[Operation], Rule] = {
    wgmma.WgmmaOp: _multiply,
    wgmma.WgmmaFenceOp: _passed,
    wgmma.WgmmaWaitOp: _passed,
    wgmma.WgmmaCommitOp: _nothing,
}
"""Operations of warpgroups."""
