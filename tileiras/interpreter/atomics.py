"""Atomic operations and the multimem ones, on a memory that one tile block at a time owns.

Elements of one tile that hit the same address act in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import atomics as ct
from tileiras.dialects.cuda_tile.attributes import AtomicRMWMode, MultimemReductionKind
from tileiras.interpreter.formats import Array, Format, IntFormat, format_of, from_bits, to_bits
from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.memory_access import (
    load_tile,
    pointee_format,
    store_tile,
    view_access,
)
from tileiras.interpreter.state import BlockRun, EffectRule

Combine = Callable[[Array, Array], Array]
"""`combine(old, argument)` on the elements' unsigned bits."""


def _on_values(fmt: Format, compute: Combine, signed: bool = True) -> Combine:
    """A combination of elements, lifted to their bits."""

    def combine(old: Array, argument: Array) -> Array:
        a, b = from_bits(old, fmt), from_bits(argument, fmt)
        if isinstance(fmt, IntFormat):
            return to_bits(fmt.wrap(compute(fmt.read(a, signed), fmt.read(b, signed))), fmt)
        return to_bits(np.asarray(compute(a, b), dtype=fmt.dtype), fmt)

    return combine


def combination(mode: AtomicRMWMode, fmt: Format) -> Combine:
    """What a read-modify-write leaves in memory."""
    match mode:
        case AtomicRMWMode.AND:
            return np.bitwise_and
        case AtomicRMWMode.OR:
            return np.bitwise_or
        case AtomicRMWMode.XOR:
            return np.bitwise_xor
        case AtomicRMWMode.ADD | AtomicRMWMode.ADDF:
            return _on_values(fmt, np.add)
        case AtomicRMWMode.MAX:
            return _on_values(fmt, np.maximum)
        case AtomicRMWMode.MIN:
            return _on_values(fmt, np.minimum)
        case AtomicRMWMode.UMAX:
            return _on_values(fmt, np.maximum, signed=False)
        case AtomicRMWMode.UMIN:
            return _on_values(fmt, np.minimum, signed=False)
        case AtomicRMWMode.XCHG:
            return lambda old, argument: argument


def read_modify_write(
    memory: SimulatedMemory, addresses: Array, argument: Array, combine: Combine
) -> Array:
    """Applies `combine` at every address in order; returns the old bits."""
    addresses, argument = np.atleast_1d(addresses), np.atleast_1d(argument)
    if np.unique(addresses).size == addresses.size:
        old = memory.gather(addresses, argument.dtype)
        memory.scatter(addresses, np.asarray(combine(old, argument), dtype=argument.dtype))
        return old
    old = np.empty_like(argument)
    for position in range(addresses.size):
        place = slice(position, position + 1)
        old[place] = memory.gather(addresses[place], argument.dtype)
        changed = np.asarray(combine(old[place], argument[place]), dtype=argument.dtype)
        memory.scatter(addresses[place], changed)
    return old


def _atomic_rmw(run: BlockRun, op: ct.AtomicRMWTkoOp) -> list[Any]:
    """Masked-off elements return 0 (left open by the specification)."""
    fmt = pointee_format(op, op.pointers)
    addresses, bits = run.value(op.pointers), to_bits(run.value(op.arg), fmt)
    mask = _mask(run, op, addresses.shape)
    result = np.zeros(addresses.shape, dtype=fmt.storage)
    result[mask] = read_modify_write(
        run.memory, addresses[mask], bits[mask], combination(op.mode.data, fmt)
    )
    return [from_bits(result, fmt), None]


def _mask(run: BlockRun, op: Any, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, dtype=np.bool_) if op.mask is None else run.value(op.mask)


def _atomic_cas(run: BlockRun, op: ct.AtomicCASTkoOp) -> list[Any]:
    """Compares bits; masked-off elements return `cmp`."""
    fmt = pointee_format(op, op.pointers)
    addresses = run.value(op.pointers)
    expected, new = to_bits(run.value(op.cmp), fmt), to_bits(run.value(op.val), fmt)
    mask = _mask(run, op, addresses.shape)
    result = np.array(expected)
    flat = zip(addresses[mask], expected[mask], new[mask])
    result[mask] = [compare_and_swap(run.memory, *element) for element in flat]
    return [from_bits(result, fmt), None]


def compare_and_swap(memory: SimulatedMemory, address: Array, expected: Any, new: Any) -> Any:
    """Stores `new` where the bits are as expected; returns the old bits."""
    old = memory.gather(np.asarray(address), new.dtype)
    if old == expected:
        memory.scatter(np.asarray(address), np.asarray(new))
    return old


def _reduce_into_view(run: BlockRun, op: Any, tile: Array, mode: AtomicRMWMode) -> None:
    view, access = view_access(run, op)
    fmt = format_of(view.tensor.element_type)
    inside = np.broadcast_to(access.inside, tile.shape)
    offsets = np.broadcast_to(access.offsets, tile.shape)[inside]
    addresses = view.tensor.base + offsets * fmt.storage.itemsize
    bits = to_bits(tile, fmt)[inside]
    read_modify_write(run.memory, addresses, bits, combination(mode, fmt))


def _atomic_red_view(run: BlockRun, op: ct.AtomicRedViewTkoOp) -> list[Any]:
    _reduce_into_view(run, op, run.value(op.value), op.mode.data)
    return [None]


def _multimem_load(run: BlockRun, op: ct.MultimemLoadReduceViewTkoOp) -> list[Any]:
    """A reduction over the only copy there is: the copy itself."""
    return [load_tile(run.memory, *view_access(run, op)), None]


def multimem_mode(kind: MultimemReductionKind, fmt: Format) -> AtomicRMWMode:
    """The read-modify-write that does a reduction of elements of a format."""
    if kind is MultimemReductionKind.ADD:
        return AtomicRMWMode.ADD if isinstance(fmt, IntFormat) else AtomicRMWMode.ADDF
    return AtomicRMWMode(kind.value)


def _multimem_reduce(run: BlockRun, op: ct.MultimemReduceViewTkoOp) -> list[Any]:
    view = run.value(op.view)
    mode = multimem_mode(op.reduction.data, format_of(view.tensor.element_type))
    _reduce_into_view(run, op, run.value(op.tile), mode)
    return [None]


def _multimem_store(run: BlockRun, op: ct.MultimemStoreViewTkoOp) -> list[Any]:
    view, access = view_access(run, op)
    store_tile(run.memory, view, access, run.value(op.tile))
    return [None]


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    ct.AtomicCASTkoOp: _atomic_cas,
    ct.AtomicRMWTkoOp: _atomic_rmw,
    ct.AtomicRedViewTkoOp: _atomic_red_view,
    ct.MultimemLoadReduceViewTkoOp: _multimem_load,
    ct.MultimemReduceViewTkoOp: _multimem_reduce,
    ct.MultimemStoreViewTkoOp: _multimem_store,
}
"""Atomic and multimem operations by class."""
