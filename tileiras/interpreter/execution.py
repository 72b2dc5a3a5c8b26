"""Runs an entry over its grid: arguments, tile blocks one after another, control flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects.cuda_tile import control_flow as cf
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.cuda_tile.structure import EntryOp, GlobalOp, ModuleOp
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter import (
    atomics,
    conversions,
    float_arithmetic,
    integer_arithmetic,
    math_functions,
    matrix,
    memory_access,
    reductions,
    tiles,
    views,
)
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import (
    Array,
    FloatFormat,
    IntFormat,
    format_of,
    int_format_of,
    to_bits,
)
from tileiras.interpreter.memory import DeviceBuffer, HostArrays, SimulatedMemory
from tileiras.interpreter.rounding import round_to
from tileiras.interpreter.state import BlockRun, EffectRule, Exit, PureRule, RunLog, scalar

Argument = int | float | Array | DeviceBuffer
"""A kernel argument; pointers take arrays (updated in place), buffers or plain addresses."""

DEFAULT_LOOP_LIMIT = 1_000_000
"""Rounds after which a `loop` counts as endless."""

_TERMINATORS = (cf.BreakOp, cf.ContinueOp, cf.ReturnOp, cf.YieldOp)

PURE_RULES: dict[type[Operation], PureRule] = {
    **float_arithmetic.RULES,
    **integer_arithmetic.RULES,
    **math_functions.RULES,
    **conversions.RULES,
    **tiles.RULES,
    **matrix.RULES,
}
"""Operations whose only result depends on their operands alone."""


def run_entry(
    module: builtin.ModuleOp | ModuleOp,
    entry_name: str | None,
    args: Sequence[Argument],
    grid: tuple[int, int, int],
    memory: SimulatedMemory | None = None,
    loop_limit: int = DEFAULT_LOOP_LIMIT,
) -> RunLog:
    """Runs an entry (the only one, if `entry_name` is None) over a grid of tile blocks.

    Scalars take Python or numpy numbers, pointers take numpy arrays, which are updated in place
    (any dtype and strides: only the bytes matter), buffers of `memory`, or addresses in it.
    Returns what was printed and which assertions failed; raises InterpreterError with the op and
    its location for an access out of bounds, an operation that is not known, or a loop that ran
    more than `loop_limit` rounds (a block that waits for a later one would never end).
    """
    container = _find_module(module)
    entry = _find_entry(container, entry_name)
    memory = memory if memory is not None else SimulatedMemory()
    log = RunLog()
    arrays = HostArrays(memory, [arg for arg in args if isinstance(arg, np.ndarray)])
    values = _bind_arguments(entry, args, arrays)
    global_addresses = _allocate_globals(container, memory)
    allocas: dict[Operation, int] = {}
    arrays.copy_in()
    with np.errstate(all="ignore"):
        for z, y, x in np.ndindex(grid[2], grid[1], grid[0]):
            run = TileBlockRun(memory, log, (x, y, z), grid, global_addresses, allocas, loop_limit)
            run.run_region(entry.body, values)
    arrays.copy_out()
    return log


def _find_module(module: builtin.ModuleOp | ModuleOp) -> ModuleOp:
    if isinstance(module, ModuleOp):
        return module
    for op in module.ops:
        if isinstance(op, ModuleOp):
            return op
    raise InterpreterError("the module holds no cuda_tile.module")


def _find_entry(container: ModuleOp, name: str | None) -> EntryOp:
    entries = [op for op in container.body.ops if isinstance(op, EntryOp)]
    names = ", ".join(entry.sym_name.data for entry in entries)
    if name is None:
        if len(entries) == 1:
            return entries[0]
        raise InterpreterError(f"expected one entry or a name, found {len(entries)}: {names}")
    for entry in entries:
        if entry.sym_name.data == name:
            return entry
    raise InterpreterError(f"no entry '{name}', found: {names}")


def _bind_arguments(entry: EntryOp, args: Sequence[Argument], arrays: HostArrays) -> list[Array]:
    """The tiles of the entry's parameters."""
    parameters = entry.body.block.args
    if len(parameters) != len(args):
        raise InterpreterError(
            f"entry '{entry.sym_name.data}' takes {len(parameters)} arguments, got {len(args)}"
        )
    return [
        _bind_argument(position, parameter.type, arg, arrays)
        for position, (parameter, arg) in enumerate(zip(parameters, args))
    ]


def _bind_argument(position: int, type_: Any, arg: Argument, arrays: HostArrays) -> Array:
    element_type = type_.element_type if isinstance(type_, TileType) else type_
    match arg:
        case np.ndarray() if isinstance(element_type, PointerType):
            return np.asarray(arrays.address_of(arg), dtype=np.int64)
        case DeviceBuffer() if isinstance(element_type, PointerType):
            return np.asarray(arg.address, dtype=np.int64)
        case DeviceBuffer() | np.ndarray():
            raise InterpreterError(f"argument {position} is memory, expected a '{element_type}'")
    match format_of(element_type):
        case FloatFormat() as fmt:
            return np.asarray(
                round_to(np.asarray(arg, dtype=np.float64), fmt, RoundingMode.NEAREST_EVEN)
            )
        case IntFormat() as fmt:
            low = int(arg) & 0xFFFFFFFFFFFFFFFF
            return np.asarray(fmt.wrap(np.asarray(low, dtype=np.uint64).view(np.int64)))


def _allocate_globals(container: ModuleOp, memory: SimulatedMemory) -> dict[str, int]:
    """Addresses of the module's globals, freshly initialised."""
    addresses = {}
    for op in container.body.ops:
        if not isinstance(op, GlobalOp):
            continue
        fmt = format_of(op.value.type.element_type)
        bits = to_bits(tiles.constant_value(op.value), fmt)
        addresses[op.sym_name.data] = memory.upload(bits, max(op.alignment.value.data, 1)).address
    return addresses


@dataclass
class TileBlockRun(BlockRun):
    """One tile block: its environment of SSA values and where it is in the grid."""

    memory: SimulatedMemory
    log: RunLog
    block_id: tuple[int, int, int]
    grid: tuple[int, int, int]
    globals: dict[str, int]
    allocas: dict[Operation, int]
    loop_limit: int = DEFAULT_LOOP_LIMIT
    _env: dict[SSAValue, Any] = field(default_factory=dict)

    def value(self, ssa: SSAValue) -> Any:
        """The value of an SSA value that was computed before."""
        return self._env[ssa]

    def values(self, ssa: Sequence[SSAValue]) -> list[Any]:
        """The values of several SSA values."""
        return [self._env[item] for item in ssa]

    def run_region(self, region: Region, arguments: Sequence[Any]) -> Exit:
        """Runs a region's only block on arguments, up to the terminator that ends it."""
        env = self._env
        env.update(zip(region.block.args, arguments))
        for op in region.block.ops:
            rule = PURE_RULES.get(type(op))
            try:
                if rule is not None:
                    result = rule(op, *[env[operand] for operand in op.operands])
                    env[op.results[0]] = np.asarray(result) if op.results else result
                    continue
                if isinstance(op, _TERMINATORS):
                    return Exit(op, tuple(env[operand] for operand in op.operands))
                exit_ = self._run_structured(op)
            except InterpreterError as error:
                raise _located(error, op) from error
            if exit_ is not None:
                return exit_
        raise InterpreterError("a region does not end in a terminator", region.parent)

    def _run_structured(self, op: Operation) -> Exit | None:
        """Runs control flow or an op with effects; an Exit leaves the enclosing region too."""
        match op:
            case cf.IfOp():
                return self._run_if(op)
            case cf.ForOp():
                return self._run_for(op)
            case cf.LoopOp():
                return self._run_loop(op)
        rule = EFFECT_RULES.get(type(op))
        if rule is None:
            raise InterpreterError("the interpreter does not know this operation", op)
        self._env.update(zip(op.results, rule(self, op)))
        return None

    def _run_if(self, op: cf.IfOp) -> Exit | None:
        region = op.then_region if bool(self.value(op.condition)) else op.else_region
        if not region.blocks:
            return None
        exit_ = self.run_region(region, ())
        if not isinstance(exit_.terminator, cf.YieldOp):
            return exit_
        self._env.update(zip(op.results, exit_.values))
        return None

    def _run_for(self, op: cf.ForOp) -> Exit | None:
        fmt = int_format_of(op.lower_bound.type.element_type)  # pyright: ignore
        is_signed = op.unsigned_cmp is None
        bounds = self.values((op.lower_bound, op.upper_bound, op.step))
        lower, upper, step = (scalar(fmt.read(bound, is_signed)) for bound in bounds)
        if step <= 0:
            raise InterpreterError(f"step is {step}, expected a positive one", op)
        carried: Sequence[Any] = self.values(op.init_values)
        for index in range(lower, upper, step):
            iv = np.asarray(fmt.wrap(np.asarray(index & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)))
            exit_ = self.run_region(op.body, (iv, *carried))
            if not isinstance(exit_.terminator, cf.ContinueOp):
                return exit_
            carried = exit_.values
        self._env.update(zip(op.results, carried))
        return None

    def _run_loop(self, op: cf.LoopOp) -> Exit | None:
        carried: Sequence[Any] = self.values(op.init_values)
        for _ in range(self.loop_limit):
            exit_ = self.run_region(op.body, carried)
            match exit_.terminator:
                case cf.ContinueOp():
                    carried = exit_.values
                case cf.BreakOp():
                    self._env.update(zip(op.results, exit_.values))
                    return None
                case _:
                    return exit_
        raise InterpreterError(f"the loop did not end within {self.loop_limit} rounds", op)


def _located(error: InterpreterError, op: Operation) -> InterpreterError:
    """The error with the op's name and location, unless an inner op gave its own."""
    if error.is_located:
        return error
    return InterpreterError(error.message, op)


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    **tiles.EFFECT_RULES,
    **views.EFFECT_RULES,
    **memory_access.EFFECT_RULES,
    **atomics.EFFECT_RULES,
    **reductions.EFFECT_RULES,
}
"""Operations that touch memory, own regions or ask about the running block."""
