"""Runs kernels of the llvm and nvvm dialects on all threads of a block in lockstep, with numpy.

It tells whether a lowering computes the right thing without a GPU, and more than a GPU would: bytes
of shared memory that two threads touch without a barrier in between are an error, and so are
misaligned accesses, reads of bytes that nobody wrote, and branches that threads disagree about.

A value is an array of unsigned 64-bit patterns, one row per thread: (threads,) for a scalar,
(threads, lanes) for a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from simulated_arguments import UploadedArguments
from simulated_clusters import CLUSTER_RULES
from simulated_copies import COPY_RULES
from simulated_matrix import MATRIX_RULES
from simulated_ops import RULES, Log, Machine, SentWords, Value, as_bits
from simulated_shared import SharedMemory
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.control import BrOp, CondBrOp, FuncOp, ReturnOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.interpreter import SimulatedMemory
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

OTHER_RULES = MATRIX_RULES | COPY_RULES | CLUSTER_RULES

WARP_THREADS = 32
MAX_STEPS = 200_000
"""Blocks executed before a kernel counts as hanging."""


def lower_to_llvm(
    module: ModuleOp,
    arch: str = "sm_90",
    after_placement: Callable[[ModuleOp], None] | None = None,
    without: Sequence[str] = (),
) -> ModuleOp:
    """Takes a cuda_tile module to the llvm dialect, in place.

    `after_placement` may change the module when all tensors have layouts; `without`: features of
    the target that are not used.
    """
    target = get_target(arch).without(without)
    options = CompileOptions(opt_level=3, emit="llvm-dialect", gpu_name=arch)
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for step in PIPELINE:
        load_pass(step.pass_name)().apply(context, module)
        if step.stage == "nv_tileas" and after_placement is not None:
            after_placement(module)
    module.verify()
    return module


def run_kernel(
    module: ModuleOp,
    args: Sequence[int | np.ndarray],
    grid: tuple[int, int, int] = (1, 1, 1),
) -> Log:
    """Runs the only kernel of a module of the llvm dialect; arrays are updated in place.

    Scalars are given as bit patterns. Blocks run one after another, those of a cluster by rank, so
    that one may wait for what those before it send. Returns what was printed and
    which assertions failed.
    """
    log = Log()
    memory = SimulatedMemory()
    uploaded = UploadedArguments(memory, args)
    (func,) = [op for op in module.body.ops if isinstance(op, FuncOp)]
    size = func.cluster_dim.data[0] if func.cluster_dim is not None else 1
    launched = (grid[0] * size, *grid[1:])
    for x, y, z in np.ndindex(*grid):
        sent: list[SentWords] = []
        for rank in range(size):
            index = (x * size + rank, y, z)
            block = _Block(module, func, memory, index, launched, log)
            block.machine.sent, block.machine.rank = sent, rank
            block.run(uploaded.values)
    uploaded.download()
    return log


AGENTS_MEET_AT = "nvvm.mbarrier_init"
CLUSTERS_SEND_BY = "nvvm.store_async"


class _Block:
    """One thread block: its machine, and control through the blocks of the function."""

    may_be_alone: tuple[int, ...] = (1,)
    """How many of the first threads may do something that the others do not."""
    runs_agents = False
    """Whether warps may have programs of their own that meet at mbarriers."""

    def __init__(
        self,
        module: ModuleOp,
        func: FuncOp,
        memory: SimulatedMemory,
        index: Sequence[int],
        grid: Sequence[int],
        log: Log,
    ):
        if func.reqntid is None:
            raise ValueError("the kernel does not say how many threads it has")
        threads = func.reqntid.data[0]
        shared = SharedMemory(threads)
        globals_: dict[str, int] = {}
        for op in module.body.ops:
            if isinstance(op, GlobalOp):
                globals_[op.sym_name.data] = _place(op, memory, shared)
        self.func = func
        self.machine = Machine(threads, memory, shared, globals_, tuple(index), tuple(grid), log)

    def run(self, args: Sequence[int]) -> None:
        """From the entry to the return."""
        machine, block = self.machine, self.func.entry
        names = {op.name for op in self.func.walk()}
        if not self.runs_agents and AGENTS_MEET_AT in names and CLUSTERS_SEND_BY not in names:
            raise NotImplementedError(f"the simulator has no rule for {AGENTS_MEET_AT}")
        for parameter, arg in zip(block.args, args, strict=True):
            machine.values[parameter] = as_bits(machine.threads, arg, parameter.type)
        for _ in range(MAX_STEPS):
            following = self._run_block(machine, block)
            if following is None:
                return
            block = following
        raise RuntimeError(f"no return after {MAX_STEPS} blocks")

    def _run_block(self, machine: Machine, block: Block) -> Block | None:
        values = machine.values
        for op in block.ops:
            match op:
                case ReturnOp():
                    return None
                case BrOp():
                    return self._enter(machine, op.target, op.arguments)
                case CondBrOp():
                    taken = values[op.condition]
                    if taken.min() != taken.max():
                        return self._part_ways(machine, op, taken)
                    if taken[0]:
                        return self._enter(machine, op.then_block, op.then_arguments)
                    return self._enter(machine, op.else_block, op.else_arguments)
                case _:
                    rule = RULES.get(op.name) or OTHER_RULES.get(op.name)
                    if rule is None:
                        raise NotImplementedError(f"the simulator has no rule for {op.name}")
                    result = rule(machine, op)
                    if result is not None:
                        values[op.results[0]] = result
        raise RuntimeError("a block without a terminator")

    def _part_ways(self, machine: Machine, branch: CondBrOp, taken: Value) -> Block | None:
        """What some threads do alone, up to the block where all meet again.

        They are the first ones, or the first of each warp: such threads do not need the others.
        """
        who = np.flatnonzero(taken)
        count = who.size
        leads_warps = not (who % WARP_THREADS).any()
        is_known = leads_warps or (count in self.may_be_alone and who[-1] == count - 1)
        if not is_known or branch.else_block.args:
            raise RuntimeError("threads go different ways at a branch")
        values = {value: held[who] for value, held in machine.values.items()}
        alone = replace(machine, threads=count, values=values)
        block = self._enter(alone, branch.then_block, branch.then_arguments)
        for _ in range(MAX_STEPS):
            following = self._run_block(alone, block)
            if following is branch.else_block:
                return following
            if following is None:
                raise RuntimeError("the first threads return alone")
            block = following
        raise RuntimeError(f"the first threads are not back after {MAX_STEPS} blocks")

    def _enter(self, machine: Machine, block: Block, arguments: Sequence[SSAValue]) -> Block:
        values = machine.values
        passed: list[Value] = [values[argument] for argument in arguments]
        values.update(zip(block.args, passed, strict=True))
        return block


def _place(op: GlobalOp, memory: SimulatedMemory, shared: SharedMemory) -> int:
    """The address of a module's variable."""
    if op.space.data == 3:
        return shared.allocate(op.size.data)
    data = op.initializer.data if op.initializer is not None else bytes(op.size.data)
    return memory.upload(np.frombuffer(data, dtype=np.uint8)).address
