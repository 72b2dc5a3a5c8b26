"""Consumers of specialised kernels in the simulator: wgmma, and rings that are full beforehand.

The producer does not run: the tiles are put into the slots as TMA leaves them, one slot per round
of the loop, so there may not be more rounds than slots, and waits at mbarriers do nothing. Slots
that the consumers fill themselves they fill over again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from simulate import _Block
from simulated_arguments import UploadedArguments
from simulated_matrix import _DTYPES, _coordinates, _elements
from simulated_ops import (
    INTRINSICS,
    RULES,
    WARP,
    Log,
    Machine,
    Rule,
    Value,
    as_bits,
    from_bytes,
)
from simulated_shared import FIRST_ADDRESS
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from tileiras.codegen.atoms.wgmma import ROWS, WARPGROUP, get_wgmma_atom
from tileiras.dialects.layout.mma import M16N8K8_TF32, M16N8K16_F16, M16N8K32_S8, wgmma_accumulator
from tileiras.dialects.llvm.control import CondBrOp, FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.interpreter import SimulatedMemory

_FRAGMENTS = {8: M16N8K32_S8, 16: M16N8K16_F16, 32: M16N8K8_TF32}
_LINE = 128
_PATTERN = 8 * _LINE
_SWIZZLES = {1: 128, 2: 64, 3: 32}
"""Bytes by the layout type of a descriptor (PTX ISA, "Matrix Descriptor Format")."""


@dataclass(frozen=True)
class Tile:
    """A 2-d tile of a slot as it lies in memory: lines whose elements are contiguous."""

    lines: np.ndarray

    def panels(self) -> np.ndarray:
        """The bytes as TMA writes boxes of at most 128 bytes per line, swizzled by as many.

        PTX ISA, "Swizzling modes": chunk c (16 bytes) of 128 bytes number l goes to chunk
        c ^ l % 8, as far as it stays within its line. What follows starts where a pattern does.
        """
        data = np.ascontiguousarray(self.lines).view(np.uint8)
        count, span = len(data), min(_LINE, data.shape[1])
        flat = data.reshape(count, -1, span).transpose(1, 0, 2).reshape(-1)
        result = np.zeros(-(-len(flat) // _PATTERN) * _PATTERN, np.uint8)
        result[_swizzled(np.arange(len(flat)), span)] = flat
        return result


def _swizzled(address: np.ndarray, span: int) -> np.ndarray:
    """Where the byte of an address lies."""
    return address ^ (address >> 7 & span // 16 - 1) << 4


def run_consumers(
    module: ModuleOp, args: Sequence[Any], slots: Sequence[Sequence[Tile]], index: Sequence[int]
) -> None:
    """Runs the consumers of one tile block; `slots` are the tiles of the only ring."""
    run_on_rings(module, args, [slots], index)


def run_on_rings(
    module: ModuleOp,
    args: Sequence[Any],
    contents: Sequence[Sequence[Sequence[Tile]]],
    index: Sequence[int],
    grid: tuple[int, int, int] = (1, 1, 1),
) -> None:
    """Runs the consumers of one tile block; `contents` are the slots of every ring."""
    memory = SimulatedMemory()
    uploaded = UploadedArguments(memory, args)
    (func,) = [op for op in module.body.ops if isinstance(op, FuncOp)]
    block = _Consumers(module, func, memory, index, grid, Log())
    shared = block.machine.shared
    rings = [
        op for op in module.body.ops if isinstance(op, GlobalOp) and "ring" in op.sym_name.data
    ]
    for ring, slots in zip(rings, contents, strict=True):
        place = block.machine.globals[ring.sym_name.data] - FIRST_ADDRESS
        for tiles in slots:
            data = np.concatenate([tile.panels() for tile in tiles])
            shared.data[place : place + len(data)] = data
            shared.written[place : place + len(data)] = True
            place += len(data)
    with patch.dict(RULES, _CONSUMER_RULES), patch.dict(INTRINSICS, {"nvvm.prmt": _prmt}):
        block.run(uploaded.values)
    uploaded.download()


class _Consumers(_Block):
    """A block whose threads part ways at the switch between agents: the first ones go on.

    The first warp claims a slot alone. A single thread makes the barriers, which do nothing here.
    """

    may_be_alone = (1, WARP)
    runs_agents = True

    def _part_ways(self, machine: Machine, branch: CondBrOp, taken: Value) -> Block | None:
        if taken[0]:
            return super()._part_ways(machine, branch, taken)
        if int(taken.sum()) == 1:
            return self._enter(machine, branch.then_block, branch.then_arguments)
        machine.threads = int(np.argmax(taken))
        for value, held in machine.values.items():
            machine.values[value] = held[: machine.threads]
        return branch.else_block


@dataclass(frozen=True)
class _Step:
    """What an instruction reads of an operand: 32 bytes of K of `rows` rows or columns."""

    rows: int
    type: str
    is_transposed: bool = False


def _operand(machine: Machine, descriptor: int, offset: int, step: _Step) -> np.ndarray:
    """A step of an operand as numbers, (rows, K), by the address rule of descriptors.

    PTX ISA, "Strides" and "Swizzling modes": eight lines of the swizzle's bytes, then the stride
    offset further on. Lines of a K-major operand are its rows. Those of an MN-major one are its K:
    they go on the leading offset further.
    """
    span = _SWIZZLES[descriptor >> 62]
    leading, stride = ((descriptor >> bit & 0x3FFF) << 4 for bit in (16, 32))
    start = ((descriptor & 0x3FFF) << 4) + offset
    if stride != 8 * span:
        raise NotImplementedError("the simulator knows lines that lie one behind the other")
    if not step.is_transposed:
        line, byte = np.arange(step.rows)[:, None], np.arange(32)[None, :]
        address = start + line // 8 * stride + line % 8 * span + byte
        return _numbers(machine.shared.data[_swizzled(address, span)], step.type)
    line, byte = np.arange(16)[:, None], np.arange(2 * step.rows)[None, :]
    address = start + line // 8 * stride + line % 8 * span + byte // span * leading + byte % span
    return _numbers(machine.shared.data[_swizzled(address, span)], step.type).T


def _numbers(data: np.ndarray, type_: str) -> np.ndarray:
    held = np.ascontiguousarray(data).view(_DTYPES[type_])
    if type_ == "tf32":
        held = (held.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)
    return held.astype(np.int64 if type_ in ("s8", "u8") else np.float64)


def _wgmma(machine: Machine, op: Any) -> Value:
    """All K steps and blocks of rows of every warpgroup, at once."""
    atom = get_wgmma_atom(op.atom.data)
    family, steps, blocks = atom.family, len(op.b_offsets.data), op.reps_m.data
    wide = np.int64 if family.is_integer else np.float64
    layout = wgmma_accumulator((ROWS, atom.n), 1)
    places = np.array(
        [
            [layout.apply(register=r, lane=t % WARP, warp=t // WARP) for r in range(atom.n // 2)]
            for t in range(WARPGROUP)
        ]
    )
    size = atom.accumulator_elements
    dtype = _DTYPES[family.accumulator] if family.accumulator != "s32" else np.int32
    result = np.zeros((machine.threads, blocks * size), dtype)
    if op.accumulator is not None and (op.scale_d is None or machine.values[op.scale_d].any()):
        result = _elements(machine, op.accumulator, family.accumulator).copy()
    for first in range(0, machine.threads, WARPGROUP):
        threads = slice(first, first + WARPGROUP)
        right = int(machine.values[op.b][first])
        for block in range(blocks):
            total = np.zeros((ROWS, atom.n), wide)
            held = result[threads, block * size : (block + 1) * size]
            total[places[..., 0], places[..., 1]] = held
            for step in range(steps):
                read = _Step(atom.n, family.b_type, op.b_transposed is not None)
                rhs = _operand(machine, right, op.b_offsets.data[step], read)
                total += _left(machine, op, threads, block, step) @ rhs.T
            with np.errstate(over="ignore"):
                held[...] = total[places[..., 0], places[..., 1]].astype(dtype)
    return from_bytes(np.ascontiguousarray(result).view(np.uint8), op.result.type)


def _left(machine: Machine, op: Any, threads: slice, block: int, step: int) -> np.ndarray:
    """64 rows of the left operand, (64, K)."""
    atom = get_wgmma_atom(op.atom.data)
    family = atom.family
    if not op.a_in_registers:
        offset = op.a_offsets.data[step] + block * op.m_stride.data
        descriptor = int(machine.values[op.a][threads.start])
        read = _Step(ROWS, family.a_type, op.a_transposed is not None)
        return _operand(machine, descriptor, offset, read)
    layout = _FRAGMENTS[family.operand_bits].a
    count = layout.in_size("register")
    held = _elements(machine, op.a, family.a_type)[threads]
    at = (block * len(op.b_offsets.data) + step) * count
    values = _numbers(np.ascontiguousarray(held[:, at : at + count]).view(np.uint8), family.a_type)
    rows, columns = _coordinates(layout)
    result = np.zeros((4, *layout.shape), values.dtype)
    result[:, rows, columns] = values.reshape(4, WARP, count)
    return result.reshape(ROWS, -1)


def _prmt(machine: Machine, op: Any) -> Value:
    """Bytes of two words, picked by the nibbles of a third."""
    low, high, selector = (machine.values[value] for value in op.operands)
    both = low | high << np.uint64(32)
    result = np.zeros_like(both)
    for byte in range(4):
        pick = selector >> np.uint64(4 * byte) & np.uint64(7)
        result |= (both >> pick * np.uint64(8) & np.uint64(255)) << np.uint64(8 * byte)
    return result


def _passed(machine: Machine, op: Any) -> Value | None:
    """A fence or wait hands its values on."""
    for value, result in zip(op.operands, op.results, strict=True):
        machine.values[result] = machine.values[value]
    return machine.values[op.results[0]] if op.results else None


_STORE = RULES["llvm.store"]


def _store(machine: Machine, op: Any) -> Value | None:
    """A warp that is on its own may write one value to one place: one of its threads does."""
    operands = [machine.values[operand] for operand in op.operands]
    if machine.threads == WARP and all((held == held[:1]).all() for held in operands):
        values = {value: held[:1] for value, held in machine.values.items()}
        machine = replace(machine, threads=1, values=values)
    return _STORE(machine, op)


def _try_claim(machine: Machine, op: Any) -> Any:
    """Slot 0, which nobody had before."""
    nothing = as_bits(machine.threads, 0, op.results[0].type)
    machine.values[op.results[1]] = nothing
    return nothing


_CLAIMS: dict[str, Rule] = {
    "nvvm.try_claim_slot": _try_claim,
    "nvvm.claim_slot": lambda machine, op: as_bits(machine.threads, 0, op.results[0].type),
}
"""A kernel runs alone, so that the first slot for tensor maps is free."""

_IGNORED = (
    *("nvvm.wgmma_commit", "nvvm.mbarrier_init", "nvvm.mbarrier_arrive", "nvvm.mbarrier_wait"),
    *("nvvm.fence_mbarrier_init", "nvvm.fence_proxy_async", "nvvm.setmaxnreg"),
    "nvvm.barrier_arrive",
)
_CONSUMER_RULES: dict[str, Rule] = {
    "llvm.store": _store,
    **_CLAIMS,
    "nvvm.wgmma": _wgmma,
    "nvvm.wgmma_fence": _passed,
    "nvvm.wgmma_wait": _passed,
    **dict.fromkeys(_IGNORED, lambda machine, op: None),
}
"""What holds while consumers run alone."""
