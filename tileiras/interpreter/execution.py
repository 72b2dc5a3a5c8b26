"""Runs an entry over its grid: arguments, tile blocks one after another, control flow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile import control_flow as cf
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.cuda_tile.structure import EntryOp, GlobalOp, ModuleOp
from tileiras.dialects.cuda_tile.types import PointerType
from tileiras.interpreter.atomics import EFFECT_RULES as ATOMICS_EFFECT_RULES
from tileiras.interpreter.conversions import RULES as CONVERSIONS_RULES
from tileiras.interpreter.equivalent_ops import EquivalentOps, tile_type
from tileiras.interpreter.errors import InterpreterError, UnknownOperationError
from tileiras.interpreter.float_arithmetic import RULES as FLOAT_ARITHMETIC_RULES
from tileiras.interpreter.formats import (
    Array,
    FloatFormat,
    IntFormat,
    format_of,
    int_format_of,
    to_bits,
)
from tileiras.interpreter.integer_arithmetic import RULES as INTEGER_ARITHMETIC_RULES
from tileiras.interpreter.math_functions import RULES as MATH_FUNCTIONS_RULES
from tileiras.interpreter.matrix import RULES as MATRIX_RULES
from tileiras.interpreter.memory import DeviceBuffer, HostArrays, SimulatedMemory
from tileiras.interpreter.memory_access import EFFECT_RULES as MEMORY_ACCESS_EFFECT_RULES
from tileiras.interpreter.pipelines import effect_rules as pipelines_effect_rules
from tileiras.interpreter.races import RaceDetector
from tileiras.interpreter.reductions import EFFECT_RULES as REDUCTIONS_EFFECT_RULES
from tileiras.interpreter.rounding import round_to
from tileiras.interpreter.state import (
    BlockRun,
    EffectRule,
    Exit,
    LoadGroups,
    PureRule,
    RunLog,
    scalar,
)
from tileiras.interpreter.tensor_rules import EFFECT_RULES as TENSOR_RULES_EFFECT_RULES
from tileiras.interpreter.tensor_rules import pure_rules as tensor_rules_pure_rules
from tileiras.interpreter.thread_rules import effect_rules as thread_rules_effect_rules
from tileiras.interpreter.thread_rules import pure_rules as thread_rules_pure_rules
from tileiras.interpreter.threads import kernels_of, run_kernel
from tileiras.interpreter.tiles import EFFECT_RULES as TILES_EFFECT_RULES
from tileiras.interpreter.tiles import RULES as TILES_RULES
from tileiras.interpreter.tiles import constant_value
from tileiras.interpreter.views import EFFECT_RULES as VIEWS_EFFECT_RULES

Argument = int | float | Array | DeviceBuffer
"""A kernel argument; pointers take arrays (updated in place), buffers or plain addresses."""

Watch = Callable[[Operation, tuple[int, int, int], dict[SSAValue, Any]], None]
"""Sees an operation, its tile block and the values computed so far, before it runs."""

DEFAULT_LOOP_LIMIT = 1_000_000
"""Rounds after which a `loop` counts as endless."""
MULTIPROCESSORS = 5
"""SMs of the simulated GPU: few, so that tile blocks that divide work have several tiles."""

_YIELDS = (cf.YieldOp, aa.YieldOp)
_CONTINUES = (cf.ContinueOp, aa.ContinueOp)
_BREAKS = (cf.BreakOp, aa.BreakOp)
_TERMINATORS = (*_YIELDS, *_CONTINUES, *_BREAKS, cf.ReturnOp, aa.ReturnOp)

Entry = EntryOp | aa.FuncOp
Container = ModuleOp | builtin.ModuleOp

PURE_RULES: dict[type[Operation], PureRule] = {
    **FLOAT_ARITHMETIC_RULES,
    **INTEGER_ARITHMETIC_RULES,
    **MATH_FUNCTIONS_RULES,
    **CONVERSIONS_RULES,
    **TILES_RULES,
    **MATRIX_RULES,
}
"""Operations whose only result depends on their operands alone."""


def run_entry(
    module: builtin.ModuleOp | ModuleOp,
    entry_name: str | None,
    args: Sequence[Argument],
    grid: tuple[int, int, int],
    memory: SimulatedMemory | None = None,
    loop_limit: int = DEFAULT_LOOP_LIMIT,
    watch: Watch | None = None,
) -> RunLog:
    """Runs an entry (the only one, if `entry_name` is None) over a grid of tile blocks.

    Scalars take Python or numpy numbers, pointers take numpy arrays, which are updated in place
    (any dtype and strides: only the bytes matter), buffers of `memory`, or addresses in it.
    Returns what was printed and which assertions failed; raises InterpreterError with the op and
    its location for an access out of bounds, an operation that is not known, or a loop that ran
    more than `loop_limit` rounds (a block that waits for a later one would never end). `watch` is
    called before every operation, but in kernels of the llvm dialect.
    """
    if isinstance(module, builtin.ModuleOp) and kernels_of(module):
        return run_kernel(module, entry_name, args, grid, memory, loop_limit)
    container = _find_module(module)
    entry = _find_entry(container, entry_name)
    rules = _rules_for(entry)
    memory = memory if memory is not None else SimulatedMemory()
    log = RunLog()
    arrays = HostArrays(memory, [arg for arg in args if isinstance(arg, np.ndarray)])
    values = _bind_arguments(entry, args, arrays)
    global_addresses = _allocate_globals(container, memory)
    allocas: dict[Operation, int] = {}
    arrays.copy_in()
    sent: dict[tuple[Operation, int], list[Any]] = {}
    with np.errstate(all="ignore"):
        numbered = _numbered(entry, grid)
        for block, rank in _programs(entry, numbered):
            if rank == 0:
                sent = {}
            run = TileBlockRun(
                memory, log, block, numbered, rank, global_addresses, allocas, rules, loop_limit
            )
            run.sent, run.launched, run.watch = sent, grid, watch
            run.run_region(entry.body, values)
            rules.end_block()
    arrays.copy_out()
    return log


def _numbered(entry: Entry, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The tile blocks that there are for a program: one for each SM where they share the work.

    Where they take over others, they are numbered along one axis; here all of them start.
    """
    if isinstance(entry, aa.FuncOp) and entry.dynamic_tile_scheduler is not None:
        return math.prod(grid), 1, 1
    if isinstance(entry, aa.FuncOp) and entry.static_tile_scheduler is not None:
        size = entry.cluster_size if entry.clustered is None else 1
        return min(math.prod(grid), MULTIPROCESSORS // size), 1, 1
    return grid


def _programs(
    entry: Entry, grid: tuple[int, int, int]
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Every run of the program: the id of the tile block or cluster, and the rank in the cluster.

    The CTAs of a cluster run one after another; what TMA brings to all of them each has at once. So
    a CTA may read the tiles that those before it have sent.
    """
    size = entry.cluster_size if isinstance(entry, aa.FuncOp) else 1
    axis = entry.shared_axis if isinstance(entry, aa.FuncOp) else None
    counts = [-(-n // size) if number == axis else n for number, n in enumerate(grid)]
    for z, y, x, rank in np.ndindex(counts[2], counts[1], counts[0], size):
        yield (x, y, z), rank


def _find_module(module: builtin.ModuleOp | ModuleOp) -> Container:
    """The module with the entries: that of cuda_tile, or the outermost in later stages."""
    if isinstance(module, ModuleOp):
        return module
    for op in module.ops:
        if isinstance(op, ModuleOp):
            return op
        if isinstance(op, aa.FuncOp):
            return module
    raise InterpreterError("the module holds no cuda_tile.module and no nv_tileaa.func")


def _find_entry(container: Container, name: str | None) -> Entry:
    entries = [op for op in container.body.block.ops if isinstance(op, Entry)]
    names = ", ".join(entry.sym_name.data for entry in entries)
    if name is None:
        if len(entries) == 1:
            return entries[0]
        raise InterpreterError(f"expected one entry or a name, found {len(entries)}: {names}")
    for entry in entries:
        if entry.sym_name.data == name:
            return entry
    raise InterpreterError(f"no entry '{name}', found: {names}")


@dataclass(frozen=True)
class StageRules:
    """How the operations of one stage act; `end_block` is called after every tile block."""

    pure: Mapping[type[Operation], PureRule]
    effects: Mapping[type[Operation], EffectRule]
    end_block: Callable[[], None] = lambda: None


def _rules_for(entry: Entry) -> StageRules:
    """The rules of the stage that a function belongs to: warps are counted from nv_tileas on."""
    if isinstance(entry, EntryOp):
        return StageRules(PURE_RULES, EFFECT_RULES)
    equivalents = EquivalentOps()
    if entry.num_warps is None:
        return StageRules(tensor_rules_pure_rules(equivalents), TENSOR_RULES_EFFECT_RULES)
    races = RaceDetector()
    effects = {
        **thread_rules_effect_rules(equivalents, races),
        **pipelines_effect_rules(equivalents, races),
    }
    return StageRules(thread_rules_pure_rules(equivalents), effects, races.end_block)


def _bind_arguments(entry: Entry, args: Sequence[Argument], arrays: HostArrays) -> list[Array]:
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
    element_type = tile_type(type_).element_type
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


def _allocate_globals(container: Container, memory: SimulatedMemory) -> dict[str, int]:
    """Addresses of the module's globals, freshly initialised."""
    addresses = {}
    for op in container.body.block.ops:
        if not isinstance(op, GlobalOp | aa.GlobalOp):
            continue
        fmt = format_of(op.value.type.element_type)
        bits = to_bits(constant_value(op.value), fmt)
        addresses[op.sym_name.data] = memory.upload(bits, max(op.alignment.value.data, 1)).address
    return addresses


@dataclass
class TileBlockRun(BlockRun):
    """One tile block: its environment of SSA values and where it is in the grid."""

    memory: SimulatedMemory
    log: RunLog
    block_id: tuple[int, int, int]
    grid: tuple[int, int, int]
    cluster_rank: int
    globals: dict[str, int]
    allocas: dict[Operation, int]
    rules: StageRules
    loop_limit: int = DEFAULT_LOOP_LIMIT
    loads: LoadGroups = field(default_factory=LoadGroups)
    sent: dict[tuple[Operation, int], list[Any]] = field(default_factory=dict[Any, Any])
    launched: tuple[int, int, int] = (1, 1, 1)
    watch: Watch | None = None
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
        watch = self.watch
        for op in region.block.ops:
            if watch is not None:
                watch(op, self.block_id, env)
            rule = self.rules.pure.get(type(op))
            try:
                if rule is not None:
                    result = rule(op, *[env[operand] for operand in op.operands])
                    env[op.results[0]] = np.asarray(result) if op.results else result
                    continue
                if isinstance(op, _TERMINATORS):
                    return Exit(op, tuple(env[operand] for operand in op.operands))
                exit_ = self._run_structured(op)
            except InterpreterError as error:
                raise error.located(op) from error
            if exit_ is not None:
                return exit_
        raise InterpreterError("a region does not end in a terminator", region.parent)

    def _run_structured(self, op: Operation) -> Exit | None:
        """Runs control flow or an op with effects; an Exit leaves the enclosing region too."""
        match op:
            case cf.IfOp() | aa.IfOp():
                return self._run_if(op)
            case cf.ForOp() | aa.ForOp():
                return self._run_for(op)
            case cf.LoopOp() | aa.LoopOp():
                return self._run_loop(op)
        rule = self.rules.effects.get(type(op))
        if rule is None:
            raise UnknownOperationError("the interpreter does not know this operation", op)
        self._env.update(zip(op.results, rule(self, op)))
        return None

    def _run_if(self, op: cf.IfOp | aa.IfOp) -> Exit | None:
        region = op.then_region if bool(self.value(op.condition)) else op.else_region
        if not region.blocks:
            return None
        exit_ = self.run_region(region, ())
        if not isinstance(exit_.terminator, _YIELDS):
            return exit_
        self._env.update(zip(op.results, exit_.values))
        return None

    def _run_for(self, op: cf.ForOp | aa.ForOp) -> Exit | None:
        fmt = int_format_of(tile_type(op.lower_bound.type).element_type)
        is_signed = op.unsigned_cmp is None
        bounds = self.values((op.lower_bound, op.upper_bound, op.step))
        lower, upper, step = (scalar(fmt.read(bound, is_signed)) for bound in bounds)
        if step <= 0:
            raise InterpreterError(f"step is {step}, expected a positive one", op)
        carried: Sequence[Any] = self.values(op.init_values)
        for index in range(lower, upper, step):
            iv = np.asarray(fmt.wrap(np.asarray(index & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)))
            exit_ = self.run_region(op.body, (iv, *carried))
            if not isinstance(exit_.terminator, _CONTINUES):
                return exit_
            carried = exit_.values
        self._env.update(zip(op.results, carried))
        return None

    def _run_loop(self, op: cf.LoopOp | aa.LoopOp) -> Exit | None:
        carried: Sequence[Any] = self.values(op.init_values)
        for _ in range(self.loop_limit):
            exit_ = self.run_region(op.body, carried)
            if isinstance(exit_.terminator, _BREAKS):
                self._env.update(zip(op.results, exit_.values))
                return None
            if not isinstance(exit_.terminator, _CONTINUES):
                return exit_
            carried = exit_.values
        raise InterpreterError(f"the loop did not end within {self.loop_limit} rounds", op)


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    **TILES_EFFECT_RULES,
    **VIEWS_EFFECT_RULES,
    **MEMORY_ACCESS_EFFECT_RULES,
    **ATOMICS_EFFECT_RULES,
    **REDUCTIONS_EFFECT_RULES,
}
"""Operations that touch memory, own regions or ask about the running block."""
