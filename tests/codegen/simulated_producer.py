"""Producers of specialised kernels in the simulator: threads that copy into empty rings.

The consumers do not run: no slot is handed back, so there may not be more iterations than slots,
and waits at mbarriers do nothing. Copies land when the threads arrive for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import patch

import numpy as np
from simulate import _Block
from simulated_arguments import UploadedArguments
from simulated_ops import RULES, WARP, Log, Machine, Rule, Value
from simulated_shared import FIRST_ADDRESS
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from tileiras.dialects.llvm.control import CondBrOp, FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.interpreter import SimulatedMemory


@dataclass
class _LastThreads(Machine):
    """The threads of a block from `first` on."""

    first: int = 0


class _Producer(_Block):
    """A block whose threads part ways at the switch between agents: the last ones go on."""

    may_be_alone = (1, WARP)
    runs_agents = True

    def _part_ways(self, machine: Machine, branch: CondBrOp, taken: Value) -> Block | None:
        if taken[0] or isinstance(machine, _LastThreads):
            return super()._part_ways(machine, branch, taken)
        first = int(np.argmax(taken))
        held = {field.name: getattr(machine, field.name) for field in fields(Machine)}
        held |= {"threads": machine.threads - first}
        held["values"] = {value: bits[first:] for value, bits in machine.values.items()}
        self.machine = _LastThreads(**held, first=first)
        return self._enter(self.machine, branch.then_block, branch.then_arguments)

    def run(self, args: Sequence[int]) -> None:
        """As any block; from the switch on with the producer's threads."""
        machine, block = self.machine, self.func.entry
        values = machine.values
        for parameter, arg in zip(block.args, args, strict=True):
            values[parameter] = np.full(machine.threads, arg & (1 << 64) - 1, np.uint64)
        following: Block | None = block
        while following is not None:
            following = self._run_block(self.machine, following)


def filled_rings(
    module: ModuleOp,
    args: Sequence[Any],
    index: Sequence[int],
    grid: tuple[int, int, int] = (1, 1, 1),
) -> list[np.ndarray]:
    """What the producer of one tile block leaves in every ring; 0xCC where nothing was copied."""
    memory = SimulatedMemory()
    uploaded = UploadedArguments(memory, args)
    (func,) = [op for op in module.body.ops if isinstance(op, FuncOp)]
    block = _Producer(module, func, memory, index, grid, Log())
    with patch.dict(RULES, _PRODUCER_RULES):
        block.run(uploaded.values)
    shared, found = block.machine.shared, []
    for op in module.body.ops:
        if isinstance(op, GlobalOp) and "ring" in op.sym_name.data:
            place = block.machine.globals[op.sym_name.data] - FIRST_ADDRESS
            span = slice(place, place + op.size.data)
            found.append(np.where(shared.written[span], shared.data[span], np.uint8(0xCC)))
    return found


def _read_sreg(machine: Machine, op: Any) -> Value | None:
    """Threads are numbered from the first of the block on."""
    if isinstance(machine, _LastThreads) and op.register.data.startswith("tid"):
        return np.arange(machine.first, machine.first + machine.threads).astype(np.uint64)
    return _SREG(machine, op)


_SREG = RULES["nvvm.read_sreg"]
_IGNORED = (
    *("nvvm.mbarrier_arrive", "nvvm.mbarrier_wait", "nvvm.mbarrier_expect_tx"),
    *("nvvm.setmaxnreg", "nvvm.barrier"),
)
_PRODUCER_RULES: dict[str, Rule] = {
    "nvvm.read_sreg": _read_sreg,
    **dict.fromkeys(_IGNORED, lambda machine, op: None),
}
"""What holds while a producer runs alone."""
