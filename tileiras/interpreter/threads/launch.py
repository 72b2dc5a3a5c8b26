"""Runs a kernel of the llvm dialect over its grid: clusters one after another, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED, PointerType, bit_width, is_float
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.memory import DeviceBuffer, HostArrays, SimulatedMemory
from tileiras.interpreter.state import RunLog
from tileiras.interpreter.threads.clocks import Clock
from tileiras.interpreter.threads.control import Program
from tileiras.interpreter.threads.flow import ControlFlow
from tileiras.interpreter.threads.meeting import MeetingPoint
from tileiras.interpreter.threads.schedule import Schedule
from tileiras.interpreter.threads.shared import SharedMemory, lay_out
from tileiras.interpreter.threads.state import (
    Cluster,
    Cta,
    Index,
    Launch,
    Lockstep,
    ProgramState,
)
from tileiras.interpreter.threads.values import (
    Value,
    element_bits,
    from_float,
    same_everywhere,
)

LOOP_LIMIT = 1_000_000
"""Rounds after which a loop counts as endless."""
ADDRESS_BITS = 64


def kernels_of(module: ModuleOp) -> list[FuncOp]:
    """The kernels of a module of the last stage; empty for earlier stages."""
    return [op for op in module.ops if isinstance(op, FuncOp) and op.kernel is not None]


def run_kernel(
    module: ModuleOp,
    name: str | None,
    args: Sequence[Any],
    grid: Index,
    memory: SimulatedMemory | None = None,
    loop_limit: int = LOOP_LIMIT,
    seed: int = 0,
) -> RunLog:
    """Runs a kernel (the only one, if `name` is None) over a grid of tile blocks.

    Arguments are those of `run_entry`: numbers for scalars, for pointers numpy arrays, which are
    updated in place, buffers of `memory` or addresses in it. `seed` decides in which order warp
    roles run and copies land. Raises InterpreterError with the operation and its location for what
    a program may not do: a race, a read of what nobody wrote, a misaligned or wild access, warp
    roles that all wait, a loop of more than `loop_limit` rounds; UnknownOperationError for what the
    interpreter does not know.
    """
    func = _find(module, name)
    if func.reqntid is None:
        raise InterpreterError("the kernel does not say how many threads it has", func)
    memory = memory if memory is not None else SimulatedMemory()
    arrays = HostArrays(memory, [arg for arg in args if isinstance(arg, np.ndarray)])
    values = _bind(func, args, arrays)
    launch = _launch(module, func, grid, memory)
    arrays.copy_in()
    flow, threads = ControlFlow(func), int(np.prod(func.reqntid.data))
    with np.errstate(all="ignore"):
        for origin in _cluster_origins(launch):
            schedule = Schedule(f"{seed} {origin}")
            for cta in _cluster(launch, schedule, threads, origin).ctas:
                _start(cta, func, flow, values, loop_limit)
            schedule.run()
    arrays.copy_out()
    _check_heap(func, launch)
    return launch.log


def _find(module: ModuleOp, name: str | None) -> FuncOp:
    kernels = kernels_of(module)
    names = ", ".join(kernel.sym_name.data for kernel in kernels)
    if name is None:
        if len(kernels) == 1:
            return kernels[0]
        raise InterpreterError(f"expected one entry or a name, found {len(kernels)}: {names}")
    for kernel in kernels:
        if kernel.sym_name.data == name:
            return kernel
    raise InterpreterError(f"no entry '{name}', found: {names}")


def _bind(func: FuncOp, args: Sequence[Any], arrays: HostArrays) -> list[int]:
    """The bits of the parameters."""
    parameters = func.entry.args
    if len(parameters) != len(args):
        raise InterpreterError(
            f"entry '{func.sym_name.data}' takes {len(parameters)} arguments, got {len(args)}"
        )
    return [
        _bits(position, parameter.type, arg, arrays)
        for position, (parameter, arg) in enumerate(zip(parameters, args))
    ]


def _bits(position: int, type_: Attribute, arg: Any, arrays: HostArrays) -> int:
    """One argument; pointers of earlier stages are integers of 64 bits by now."""
    is_address = isinstance(type_, PointerType) or bit_width(type_) == ADDRESS_BITS
    match arg:
        case np.ndarray() if is_address:
            return arrays.address_of(arg)
        case DeviceBuffer() if is_address:
            return arg.address
        case np.ndarray() | DeviceBuffer():
            raise InterpreterError(f"argument {position} is memory, expected a '{type_}'")
    if is_float(type_):
        return int(from_float(np.array([arg], np.float64), type_)[0])
    if isinstance(arg, np.generic) and not isinstance(arg, np.integer | np.bool_):
        return _bits_of_generic(position, type_, arg)
    if isinstance(arg, float):
        raise InterpreterError(f"argument {position} is {arg}, expected the bits of a '{type_}'")
    return int(arg) & (1 << element_bits(type_)) - 1


def _bits_of_generic(position: int, type_: Attribute, arg: np.generic) -> int:
    """Numbers of formats that LLVM has no type for are passed as their bits."""
    if arg.itemsize * 8 != element_bits(type_):
        raise InterpreterError(f"argument {position} has {arg.itemsize} bytes, expected '{type_}'")
    return int.from_bytes(arg.tobytes(), "little")


def _launch(module: ModuleOp, func: FuncOp, grid: Index, memory: SimulatedMemory) -> Launch:
    """Places the module's variables, and counts CTAs where the grid counts clusters."""
    variables = [op for op in module.ops if isinstance(op, GlobalOp)]
    shared = lay_out({op.sym_name.data: op.size.data for op in variables if _is_shared(op)})
    places = {name: span.start for name, span in shared.items()}
    for op in variables:
        if not _is_shared(op):
            data = bytes(op.size.data) if op.initializer is None else op.initializer.data
            bits = np.frombuffer(data, np.uint8)
            places[op.sym_name.data] = memory.upload(bits, op.align.data).address
    shape = _cluster_shape(func)
    if func.blocks_are_clusters is not None:
        grid = (grid[0] * shape[0], grid[1] * shape[1], grid[2] * shape[2])
    if any(count % size for count, size in zip(grid, shape)):
        raise InterpreterError(f"a grid of {grid} CTAs is not made of clusters of {shape}", func)
    return Launch(memory, RunLog(), grid, shape, places, shared)


def _is_shared(op: GlobalOp) -> bool:
    return op.space.data == SHARED


def _cluster_shape(func: FuncOp) -> Index:
    dims = (*(func.cluster_dim.data if func.cluster_dim is not None else ()), 1, 1, 1)
    return dims[0], dims[1], dims[2]


def _cluster_origins(launch: Launch) -> Iterator[Index]:
    """The first CTA of every cluster, x fastest."""
    shape = launch.cluster_shape
    counts = [count // size for count, size in zip(launch.grid, shape)]
    for z, y, x in np.ndindex(counts[2], counts[1], counts[0]):
        yield x * shape[0], y * shape[1], z * shape[2]


def _cluster(launch: Launch, schedule: Schedule, threads: int, origin: Index) -> Cluster:
    cluster = Cluster(launch, schedule, threads, MeetingPoint())
    shape = launch.cluster_shape
    for rank, (z, y, x) in enumerate(np.ndindex(shape[2], shape[1], shape[0])):
        index = (origin[0] + x, origin[1] + y, origin[2] + z)
        shared = SharedMemory(launch.shared_variables)
        cluster.ctas.append(Cta(cluster, index, rank, shared, threads))
    return cluster


def _start(
    cta: Cta, func: FuncOp, flow: ControlFlow, values: Sequence[int], loop_limit: int
) -> None:
    """Puts all threads of a CTA on the schedule, as one program."""
    cluster, entry = cta.cluster, func.entry
    state = ProgramState(Clock(cluster.number_program(), cluster.most_programs))
    run = Lockstep(cta, np.arange(cluster.threads), state, {})
    arguments: list[Value] = [
        same_everywhere(run.count, value, parameter.type)
        for parameter, value in zip(entry.args, values, strict=True)
    ]
    Program(flow, run, loop_limit).start(entry, arguments)


def _check_heap(func: FuncOp, launch: Launch) -> None:
    if launch.heap:
        raise InterpreterError(f"{len(launch.heap)} allocations of the heap are not freed", func)
