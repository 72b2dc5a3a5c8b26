"""What each operation of the llvm and nvvm dialects does to the values of all threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from simulated_shared import SharedMemory
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.llvm.types import bit_width, is_float, lanes_of, scalar_of
from tileiras.interpreter import SimulatedMemory

Value = np.ndarray
POISON = 0xDEADBEEFDEADBEEF
WARP = 32
MULTIPROCESSORS = 5

_FLOATS: dict[type[Attribute], tuple[Any, Any]] = {
    Float16Type: (np.float16, np.uint16),
    BFloat16Type: (ml_dtypes.bfloat16, np.uint16),
    Float32Type: (np.float32, np.uint32),
    Float64Type: (np.float64, np.uint64),
}


@dataclass
class Log:
    """What a kernel tells the host: text, failed assertions (message, file, line, function)."""

    printed: list[str] = field(default_factory=list)
    failures: list[tuple[str, str, int, str]] = field(default_factory=list)
    live_heap: list[int] = field(default_factory=list)


@dataclass
class SentWords:
    """What the threads of a CTA store into the shared memory of CTA `rank`, and at whose count."""

    rank: int
    addresses: np.ndarray
    data: np.ndarray
    barrier: int


@dataclass
class Machine:
    """The state of one thread block."""

    threads: int
    memory: SimulatedMemory
    shared: SharedMemory
    globals: dict[str, int]
    index: tuple[int, ...]
    grid: tuple[int, ...]
    log: Log
    values: dict[SSAValue, Value] = field(default_factory=dict)
    copies: list[list[tuple[Value, Value, int, np.ndarray]]] = field(default_factory=lambda: [[]])
    """Asynchronous copies under way, by group; the last group is still open."""
    sent: list[SentWords] = field(default_factory=list[SentWords])
    """Stores under way between CTAs of the cluster."""
    rank: int = 0
    expected: dict[int, int] = field(default_factory=dict[int, int])
    """Bytes that mbarriers expect, by address."""

    @property
    def thread_ids(self) -> np.ndarray:
        """0, 1, 2, ..."""
        return np.arange(self.threads)


def element_bits(type: Attribute) -> int:
    """Bits of one element of a value."""
    return bit_width(scalar_of(type))


def masked(value: Value, type: Attribute) -> Value:
    """The low bits that the type has."""
    return value & np.uint64((1 << element_bits(type)) - 1)


def as_bits(threads: int, pattern: int, type: Attribute) -> Value:
    """One pattern in every thread and lane."""
    lanes = lanes_of(type)
    shape = (threads,) if lanes is None else (threads, lanes)
    return masked(np.full(shape, pattern & (1 << 64) - 1, np.uint64), type)


def signed(value: Value, width: int) -> np.ndarray:
    """Patterns as two's complement numbers."""
    shift = np.uint64(64 - width)
    return (value << shift).view(np.int64) >> np.int64(64 - width)


def to_float(value: Value, type: Attribute) -> np.ndarray:
    """Patterns as floats."""
    dtype, storage = _FLOATS[scalar_of(type).__class__]
    return np.ascontiguousarray(value.astype(storage)).view(dtype)


def from_float(value: np.ndarray, type: Attribute) -> Value:
    """Floats as patterns, rounded to the type."""
    dtype, storage = _FLOATS[scalar_of(type).__class__]
    return np.ascontiguousarray(np.asarray(value).astype(dtype)).view(storage).astype(np.uint64)


def _operands(machine: Machine, op: Operation) -> list[Value]:
    return [machine.values[operand] for operand in op.operands]


def _integer(compute: Callable[[Value, Value, int], Any]) -> Rule:
    def rule(machine: Machine, op: Operation) -> Value:
        lhs, rhs = _operands(machine, op)
        type = op.results[0].type
        with np.errstate(all="ignore"):
            result = compute(lhs, rhs, element_bits(type))
        return masked(np.asarray(result).astype(np.uint64), type)

    return rule


def _signed_binary(compute: Callable[[np.ndarray, np.ndarray], Any]) -> Rule:
    return _integer(lambda a, b, w: np.asarray(compute(signed(a, w), signed(b, w))).view(np.uint64))


def _shift(compute: Callable[[Value, Value, int], Any]) -> Rule:
    def checked(lhs: Value, rhs: Value, width: int) -> Any:
        if np.any(rhs >= width):
            rhs = np.minimum(rhs, np.uint64(width - 1))
        return compute(lhs, rhs, width)

    return _integer(checked)


def _truncating_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    safe = np.where(b == 0, 1, b)
    sizes = (np.abs(x.astype(np.int64)).view(np.uint64) for x in (a, safe))
    size = np.floor_divide(*sizes).view(np.int64)
    return np.where((a < 0) != (safe < 0), -size, size).astype(a.dtype)


def _floats(compute: Callable[..., Any]) -> Rule:
    def rule(machine: Machine, op: Operation) -> Value:
        type = op.results[0].type
        args = [to_float(value, type) for value in _operands(machine, op)]
        with np.errstate(all="ignore"):
            return from_float(compute(*args), type)

    return rule


def _cast(machine: Machine, op: Operation) -> Value:
    value, source, target = _operands(machine, op)[0], op.operands[0].type, op.results[0].type
    with np.errstate(all="ignore"):
        match op.name.removeprefix("llvm."):
            case "sext":
                return masked(signed(value, element_bits(source)).view(np.uint64), target)
            case "fptrunc" | "fpext":
                return from_float(to_float(value, source), target)
            case "sitofp":
                return from_float(signed(value, element_bits(source)), target)
            case "uitofp":
                return from_float(value, target)
            case "fptosi" | "fptoui":
                number = np.trunc(to_float(value, source).astype(np.float64))
                return masked(number.astype(np.int64).view(np.uint64), target)
            case _:
                return masked(value, target)


def _bitcast(machine: Machine, op: Operation) -> Value:
    value, source, target = _operands(machine, op)[0], op.operands[0].type, op.results[0].type
    return from_bytes(to_bytes(value, source), target)


def to_bytes(value: Value, type: Attribute) -> np.ndarray:
    """The bytes of a value, (threads, size)."""
    size = element_bits(type) // 8
    rows = value.reshape(len(value), -1)
    raw = np.ascontiguousarray(rows)[..., None].view(np.uint8)
    return raw[..., :size].reshape(len(value), -1)


def from_bytes(data: np.ndarray, type: Attribute) -> Value:
    """The inverse of `to_bytes`."""
    size, lanes = element_bits(type) // 8, lanes_of(type)
    wide = np.zeros((len(data), lanes or 1, 8), np.uint8)
    wide[..., :size] = data.reshape(len(data), lanes or 1, size)
    value = wide.view(np.uint64)[..., 0]
    return value[:, 0].copy() if lanes is None else value


_ICMP: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _icmp(machine: Machine, op: Any) -> Value:
    lhs, rhs = _operands(machine, op)
    predicate = op.predicate.data
    if predicate[0] == "s":
        width = element_bits(op.operands[0].type)
        lhs, rhs = signed(lhs, width), signed(rhs, width)
    compare = _ICMP[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return compare(lhs, rhs).astype(np.uint64)


def _fcmp(machine: Machine, op: Any) -> Value:
    lhs, rhs = (to_float(v, op.operands[0].type) for v in _operands(machine, op))
    predicate = op.predicate.data
    unordered = np.isnan(lhs) | np.isnan(rhs)
    if predicate in ("ord", "uno"):
        return (unordered if predicate == "uno" else ~unordered).astype(np.uint64)
    with np.errstate(invalid="ignore"):
        answer = _ICMP[predicate[1:]](lhs, rhs)
    result = answer | unordered if predicate[0] == "u" else answer & ~unordered
    return result.astype(np.uint64)


def _select(machine: Machine, op: Operation) -> Value:
    condition, lhs, rhs = _operands(machine, op)
    if condition.ndim < lhs.ndim:
        condition = condition[:, None]
    return np.where(condition != 0, lhs, rhs)


def _constant(machine: Machine, op: Any) -> Value:
    type = op.result.type
    result = as_bits(machine.threads, 0, type)
    result[...] = np.array(op.bits.data, np.uint64) if len(op.bits.data) > 1 else op.bits.data[0]
    return result


def _extract(machine: Machine, op: Any) -> Value:
    vector, index = _operands(machine, op)
    return vector[np.arange(machine.threads), index.astype(np.int64)]


def _insert(machine: Machine, op: Any) -> Value:
    vector, value, index = _operands(machine, op)
    result = vector.copy()
    result[np.arange(machine.threads), index.astype(np.int64)] = value
    return result


def _shuffle(machine: Machine, op: Any) -> Value:
    both = np.concatenate(_operands(machine, op), axis=1)
    indices = np.array(op.indices.data)
    result = both[:, np.maximum(indices, 0)]
    result[:, indices < 0] = masked(np.uint64(POISON), op.result.type)
    return result


def _gep(machine: Machine, op: Any) -> Value:
    base, offset = _operands(machine, op)
    moved = signed(offset, element_bits(op.offset.type)).view(np.uint64)
    if base.ndim < moved.ndim:
        base = base[:, None]
    if moved.ndim < base.ndim:
        moved = moved[:, None]
    with np.errstate(over="ignore"):
        return base + moved


# memory


def read(machine: Machine, threads: np.ndarray, addresses: Value, size: int) -> np.ndarray:
    """Bytes at an address per thread, of whichever memory."""
    if np.any(addresses % np.uint64(min(size, 16))):
        raise RuntimeError(f"misaligned read of {size} bytes")
    if not len(addresses):
        return np.zeros((0, size), np.uint8)
    if machine.shared.holds(addresses):
        return machine.shared.load(threads, addresses, size)
    places = addresses.astype(np.int64)[:, None] + np.arange(size)
    return machine.memory.gather(places, np.dtype(np.uint8))


def write(machine: Machine, threads: np.ndarray, addresses: Value, data: np.ndarray) -> None:
    """The inverse of `read`."""
    size = data.shape[1]
    if np.any(addresses % np.uint64(min(size, 16))):
        raise RuntimeError(f"misaligned write of {size} bytes")
    if not len(addresses):
        return
    if machine.shared.holds(addresses):
        machine.shared.store(threads, addresses, data)
        return
    places = addresses.astype(np.int64)[:, None] + np.arange(size)
    machine.memory.scatter(places, np.ascontiguousarray(data))


def _load(machine: Machine, op: Any) -> Value:
    size = bit_width(op.result.type) // 8
    step = min(size, op.align.data)
    addresses = machine.values[op.pointer]
    parts = [
        read(machine, machine.thread_ids, addresses + np.uint64(start), step)
        for start in range(0, size, step)
    ]
    return from_bytes(np.concatenate(parts, axis=1), op.result.type)


def _store(machine: Machine, op: Any) -> None:
    data = to_bytes(machine.values[op.value], op.value.type)
    step = min(data.shape[1], op.align.data)
    for start in range(0, data.shape[1], step):
        place = machine.values[op.pointer] + np.uint64(start)
        if not machine.shared.holds(place):
            write(machine, machine.thread_ids, place, data[:, start : start + step])
            continue
        _store_equal(machine, place, data[:, start : start + step])


def _store_equal(machine: Machine, place: Value, data: np.ndarray) -> None:
    """A store by all threads; those that write the same bytes to one place count as one."""
    _, first = np.unique(place, return_index=True)
    write(machine, machine.thread_ids[first], place[first], data[first])


def _guards(machine: Machine, op: Any, groups: int) -> np.ndarray:
    if op.predicate is None:
        return np.ones((machine.threads, groups), bool)
    guard = machine.values[op.predicate] != 0
    guard = guard if guard.ndim == 2 else guard[:, None]
    return np.broadcast_to(guard, (machine.threads, groups))


def _guarded_load(machine: Machine, op: Any) -> Value:
    pointers = machine.values[op.pointers].reshape(machine.threads, -1)
    groups = pointers.shape[1]
    size = bit_width(op.result.type) // 8 // groups
    step = min(size, op.align.data)
    if op.passthru is None:
        result = np.full((machine.threads, groups * size), 0xDB, np.uint8)
    else:
        result = to_bytes(machine.values[op.passthru], op.passthru.type).copy()
    guards = _guards(machine, op, groups)
    for group in range(groups):
        chosen = machine.thread_ids[guards[:, group]]
        for start in range(0, size, step):
            place = pointers[chosen, group] + np.uint64(start)
            columns = slice(group * size + start, group * size + start + step)
            result[chosen, columns] = read(machine, chosen, place, step)
    return from_bytes(result, op.result.type)


def _guarded_store(machine: Machine, op: Any) -> None:
    pointers = machine.values[op.pointers].reshape(machine.threads, -1)
    groups = pointers.shape[1]
    data = to_bytes(machine.values[op.value], op.value.type)
    size = data.shape[1] // groups
    step = min(size, op.align.data)
    guards = _guards(machine, op, groups)
    for group in range(groups):
        chosen = machine.thread_ids[guards[:, group]]
        for start in range(0, size, step):
            place = pointers[chosen, group] + np.uint64(start)
            columns = slice(group * size + start, group * size + start + step)
            write(machine, chosen, place, data[chosen, columns])


# threads


def _sreg(machine: Machine, op: Any) -> Value:
    name, _, axis = op.register.data.rpartition(".")
    number = "xyz".find(axis)
    match name or axis:
        case "smid":
            return as_bits(machine.threads, 0, op.result.type)
        case "nsmid":
            return as_bits(machine.threads, MULTIPROCESSORS, op.result.type)
        case "tid":
            return machine.thread_ids.astype(np.uint64)
        case "ctaid" | "clusterid":
            return as_bits(machine.threads, machine.index[number], op.result.type)
        case "nctaid" | "nclusterid":
            return as_bits(machine.threads, machine.grid[number], op.result.type)
        case _:
            raise NotImplementedError(f"the simulator has no register {op.register.data}")


def _shfl(machine: Machine, op: Any) -> Value:
    value, offset = _operands(machine, op)
    lane = machine.thread_ids % WARP
    moved = offset.astype(np.int64)
    match op.mode.data:
        case "idx":
            source = moved % WARP
        case "bfly":
            source = lane ^ moved
        case "up":
            source = np.where(lane >= moved, lane - moved, lane)
        case _:
            source = np.where(lane + moved < WARP, lane + moved, lane)
    return value[machine.thread_ids - lane + source]


def _redux(machine: Machine, op: Any) -> Value:
    value = machine.values[op.value]
    warps = value.reshape(-1, WARP, *value.shape[1:])
    numbers = signed(warps, 32)
    match op.kind.data:
        case "add":
            result = warps.sum(axis=1)
        case "and":
            result = np.bitwise_and.reduce(warps, axis=1)
        case "or":
            result = np.bitwise_or.reduce(warps, axis=1)
        case "xor":
            result = np.bitwise_xor.reduce(warps, axis=1)
        case "umin":
            result = warps.min(axis=1)
        case "umax":
            result = warps.max(axis=1)
        case "min":
            result = numbers.min(axis=1).view(np.uint64)
        case _:
            result = numbers.max(axis=1).view(np.uint64)
    return masked(np.repeat(result, WARP, axis=0), op.result.type)


def _vote(machine: Machine, op: Any) -> Value:
    warps = machine.values[op.predicate].reshape(-1, WARP) != 0
    match op.mode.data:
        case "all":
            result = warps.all(axis=1)
        case "any":
            result = warps.any(axis=1)
        case "uni":
            result = warps.all(axis=1) | ~warps.any(axis=1)
        case _:
            result = (warps.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1)
    return np.repeat(result.astype(np.uint64), WARP)


def _barrier(machine: Machine, op: Operation) -> None:
    machine.shared.barrier()


def _intrinsic(machine: Machine, op: Any) -> Value | None:
    rule = INTRINSICS.get(op.callee.data.removeprefix("llvm."))
    if rule is None:
        raise NotImplementedError(f"the simulator has no intrinsic {op.callee.data}")
    return rule(machine, op)


def _fmax(nan: bool, pick: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The maximum or minimum; -0 is less than +0, which numpy leaves open."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        picked = pick(a, b)
        is_negative = pick(~np.signbit(a), ~np.signbit(b)) == 0
        zero = np.where(is_negative, -0.0, 0.0).astype(picked.dtype)
        picked = np.where((a == 0) & (b == 0), zero, picked)
        if nan:
            return picked
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, picked))

    return compute


def _unary(compute: Callable[[Value, int], Any]) -> Rule:
    def rule(machine: Machine, op: Operation) -> Value:
        type = op.results[0].type
        result = compute(_operands(machine, op)[0], element_bits(type))
        return masked(np.asarray(result).astype(np.uint64), type)

    return rule


INTRINSICS: dict[str, Rule] = {
    "fma": _floats(lambda a, b, c: a.astype(np.longdouble) * b + c),
    "sqrt": _floats(np.sqrt),
    "fabs": _floats(np.abs),
    "floor": _floats(np.floor),
    "ceil": _floats(np.ceil),
    "minnum": _floats(_fmax(False, np.minimum)),
    "maxnum": _floats(_fmax(False, np.maximum)),
    "minimum": _floats(_fmax(True, np.minimum)),
    "maximum": _floats(_fmax(True, np.maximum)),
    "exp2": _floats(np.exp2),
    "smin": _signed_binary(np.minimum),
    "smax": _signed_binary(np.maximum),
    "umin": _integer(lambda a, b, w: np.minimum(a, b)),
    "umax": _integer(lambda a, b, w: np.maximum(a, b)),
    "ctlz": _unary(lambda a, w: w - np.frompyfunc(lambda x: int(x).bit_length(), 1, 1)(a)),
    "abs": _unary(lambda a, w: np.abs(signed(a, w)).view(np.uint64)),
}


def _float_binary(name: str) -> Rule:
    return {
        "fadd": _floats(np.add),
        "fsub": _floats(np.subtract),
        "fmul": _floats(np.multiply),
        "fdiv": _floats(np.divide),
        "frem": _floats(np.fmod),
    }[name]


def _fneg(machine: Machine, op: Operation) -> Value:
    width = element_bits(op.results[0].type)
    return _operands(machine, op)[0] ^ np.uint64(1 << (width - 1))


def _pattern(pattern: int) -> Rule:
    return lambda machine, op: as_bits(machine.threads, pattern, op.results[0].type)


def _call(machine: Machine, op: Any) -> Value | None:
    from simulated_runtime import call_runtime

    return call_runtime(machine, op)


def _alloca(machine: Machine, op: Any) -> Value:
    size = op.size.data
    places = [machine.memory.allocate(size).address for _ in range(machine.threads)]
    return np.array(places, np.uint64)


def _inline_asm(machine: Machine, op: Any) -> Value | None:
    from simulated_asm import run_asm

    return run_asm(machine, op)


Rule = Callable[[Machine, Operation], Value | None]

RULES: dict[str, Rule] = {
    "llvm.add": _integer(lambda a, b, w: a + b),
    "llvm.sub": _integer(lambda a, b, w: a - b),
    "llvm.mul": _integer(lambda a, b, w: a * b),
    "llvm.and": _integer(lambda a, b, w: a & b),
    "llvm.or": _integer(lambda a, b, w: a | b),
    "llvm.xor": _integer(lambda a, b, w: a ^ b),
    "llvm.udiv": _integer(lambda a, b, w: a // np.maximum(b, np.uint64(1))),
    "llvm.urem": _integer(lambda a, b, w: a % np.maximum(b, np.uint64(1))),
    "llvm.sdiv": _signed_binary(_truncating_divide),
    "llvm.srem": _signed_binary(lambda a, b: a - _truncating_divide(a, b) * b),
    "llvm.shl": _shift(lambda a, b, w: a << b),
    "llvm.lshr": _shift(lambda a, b, w: a >> b),
    "llvm.ashr": _shift(lambda a, b, w: (signed(a, w) >> b.astype(np.int64)).view(np.uint64)),
    **{f"llvm.{name}": _float_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv", "frem")},
    "llvm.fneg": _fneg,
    **{
        f"llvm.{name}": _cast
        for name in (
            *("trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp"),
            *("inttoptr", "ptrtoint", "addrspacecast"),
        )
    },
    "llvm.bitcast": _bitcast,
    "llvm.icmp": _icmp,
    "llvm.fcmp": _fcmp,
    "llvm.select": _select,
    "llvm.constant": _constant,
    "llvm.poison": _pattern(POISON),
    "llvm.undef": _pattern(POISON),
    "llvm.zero": _pattern(0),
    "llvm.addressof": lambda machine, op: as_bits(
        machine.threads,
        machine.globals[op.global_name.data],  # type: ignore[attr-defined]
        op.results[0].type,
    ),
    "llvm.extractelement": _extract,
    "llvm.insertelement": _insert,
    "llvm.shufflevector": _shuffle,
    "llvm.getelementptr": _gep,
    "llvm.load": _load,
    "llvm.store": _store,
    "llvm.fence": lambda machine, op: None,
    "llvm.call_intrinsic": _intrinsic,
    "llvm.call": _call,
    "llvm.alloca": _alloca,
    "llvm.inline_asm": _inline_asm,
    "nvvm.guarded_load": _guarded_load,
    "nvvm.guarded_store": _guarded_store,
    "nvvm.read_sreg": _sreg,
    "nvvm.shfl": _shfl,
    "nvvm.redux": _redux,
    "nvvm.vote": _vote,
    "nvvm.barrier": _barrier,
    "nvvm.griddepcontrol": lambda machine, op: None,
}
"""Rules by operation; a rule returns the value of the result, if there is one."""

__all__ = ["RULES", "Log", "Machine", "Value", "as_bits", "is_float"]
