"""Loads and stores, through views and through pointers; tokens, globals, allocas, printing.

Memory orderings and scopes mean nothing when blocks run one after another. What the specification
leaves unspecified (an element that is masked off or out of bounds, without a padding value) is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import control_flow as cf
from tileiras.dialects.cuda_tile import memory as ct
from tileiras.dialects.cuda_tile import structure
from tileiras.dialects.cuda_tile.attributes import PaddingValue
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import (
    Array,
    Format,
    format_of,
    from_bits,
    storage_bytes,
    to_bits,
)
from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.printing import format_message
from tileiras.interpreter.state import AssertionFailure, BlockRun, EffectRule, TileView
from tileiras.interpreter.tensor_views import TiledTensor
from tileiras.interpreter.views import TileAccess, tile_access

_PADDING: dict[PaddingValue, float] = {
    PaddingValue.ZERO: 0.0,
    PaddingValue.NEG_ZERO: -0.0,
    PaddingValue.NAN: np.nan,
    PaddingValue.POS_INF: np.inf,
    PaddingValue.NEG_INF: -np.inf,
}


def read_elements(memory: SimulatedMemory, base: int, offsets: Array, fmt: Format) -> Array:
    """Elements at offsets (in elements) from a base address; 4-bit elements lie two in a byte."""
    if fmt.bits == 4:
        pairs = memory.gather(base + (offsets >> 1), fmt.storage)
        shift = ((offsets & 1) * 4).astype(np.uint8)
        return from_bits(pairs >> shift, fmt)
    return from_bits(memory.gather(base + offsets * fmt.storage.itemsize, fmt.storage), fmt)


def write_elements(
    memory: SimulatedMemory, base: int, offsets: Array, values: Array, fmt: Format
) -> None:
    """Writes elements at offsets (in elements) from a base address."""
    bits = to_bits(values, fmt)
    if fmt.bits != 4:
        memory.scatter(base + offsets * fmt.storage.itemsize, bits)
        return
    for parity in (0, 1):
        chosen = (offsets & 1) == parity
        addresses = base + (offsets[chosen] >> 1)
        kept = memory.gather(addresses, fmt.storage) & np.uint8(0xF0 >> (4 * parity))
        memory.scatter(addresses, kept | bits[chosen] << np.uint8(4 * parity))


def padding_tile(padding: PaddingValue | None, shape: Sequence[int], fmt: Format) -> Array:
    """A tile full of a view's padding value."""
    value = _PADDING[padding] if padding is not None else 0.0
    if fmt.name == "f8E8M0FNU" and value == 0.0:
        return from_bits(np.zeros(shape, dtype=fmt.storage), fmt)
    return np.full(shape, value).astype(fmt.dtype)


def load_tile(memory: SimulatedMemory, view: TileView | TiledTensor, access: TileAccess) -> Array:
    """The tile that an access reads, padded where it is out of bounds."""
    fmt = format_of(view.tensor.element_type)
    shape = view.type.tile_shape
    if access.is_full:
        offsets = np.broadcast_to(access.offsets, shape)
        return read_elements(memory, view.tensor.base, offsets, fmt)
    tile = padding_tile(view.type.padding_value, shape, fmt)
    inside = np.broadcast_to(access.inside, shape)
    offsets = np.broadcast_to(access.offsets, shape)[inside]
    tile[inside] = read_elements(memory, view.tensor.base, offsets, fmt)
    return tile


def store_tile(
    memory: SimulatedMemory, view: TileView | TiledTensor, access: TileAccess, tile: Array
) -> None:
    """Writes what lies in bounds of a tile."""
    fmt = format_of(view.tensor.element_type)
    inside = np.broadcast_to(access.inside, tile.shape)
    offsets = np.broadcast_to(access.offsets, tile.shape)[inside]
    write_elements(memory, view.tensor.base, offsets, tile[inside], fmt)


def view_access(run: BlockRun, op: Any) -> tuple[TileView, TileAccess]:
    """The view of an access operation and the elements it touches."""
    view: TileView = run.value(op.view)
    promised = op.inbounds.get_values() if op.inbounds is not None else ()
    return view, tile_access(view, run.values(op.index), promised)


def _load_view(run: BlockRun, op: ct.LoadViewTkoOp) -> list[Any]:
    return [load_tile(run.memory, *view_access(run, op)), None]


def _store_view(run: BlockRun, op: ct.StoreViewTkoOp) -> list[Any]:
    view, access = view_access(run, op)
    store_tile(run.memory, view, access, run.value(op.tile))
    return [None]


def pointee_format(op: Operation, pointers: Any) -> Format:
    """The element format that a tile of pointers points to."""
    type_ = pointers.type
    if isinstance(type_, TileType) and isinstance(type_.element_type, PointerType):
        return format_of(type_.element_type.pointee)
    raise InterpreterError(f"operand is a '{type_}', expected a tile of pointers", op)


def _load_ptr(run: BlockRun, op: ct.LoadPtrTkoOp) -> list[Any]:
    fmt = pointee_format(op, op.source)
    addresses = run.value(op.source)
    if op.mask is None:
        return [from_bits(run.memory.gather(addresses, fmt.storage), fmt), None]
    mask = run.value(op.mask)
    if op.padding_value is not None:
        tile = np.array(run.value(op.padding_value))
    else:
        tile = padding_tile(None, mask.shape, fmt)
    tile[mask] = from_bits(run.memory.gather(addresses[mask], fmt.storage), fmt)
    return [tile, None]


def _store_ptr(run: BlockRun, op: ct.StorePtrTkoOp) -> list[Any]:
    fmt = pointee_format(op, op.destination)
    addresses, bits = run.value(op.destination), to_bits(run.value(op.value), fmt)
    if op.mask is not None:
        mask = run.value(op.mask)
        addresses, bits = addresses[mask], bits[mask]
    run.memory.scatter(addresses, bits)
    return [None]


def _token(run: BlockRun, op: Any) -> list[None]:
    return [None]


def _alloca(run: BlockRun, op: ct.AllocaOp) -> list[Array]:
    pointee = op.result.type.element_type.pointee  # pyright: ignore
    return [zeroed_alloca(run, op, storage_bytes(pointee))]


def zeroed_alloca(run: BlockRun, op: Any, element_bytes: int) -> Array:
    """One zeroed allocation per alloca, reused by every tile block that comes after."""
    size = op.num_elem.value.data * element_bytes
    if op not in run.allocas:
        run.allocas[op] = run.memory.allocate(size, max(op.alignment.value.data, 1)).address
    address = run.allocas[op]
    run.memory.write_bytes(address, np.zeros(size, dtype=np.uint8))
    return np.asarray(address, dtype=np.int64)


def _get_global(run: BlockRun, op: structure.GetGlobalOp) -> list[Array]:
    return [global_address(run, op, op.symbol.string_value())]


def global_address(run: BlockRun, op: Operation, name: str) -> Array:
    """The address of a global; InterpreterError if there is none."""
    if name not in run.globals:
        raise InterpreterError(f"no global '{name}'", op)
    return np.asarray(run.globals[name], dtype=np.int64)


def _print(run: BlockRun, op: ct.PrintTkoOp) -> list[None]:
    formats = [format_of(arg.type.element_type) for arg in op.args]  # pyright: ignore
    run.log.printed.append(format_message(op.format.data, run.values(op.args), formats))
    return [None] * len(op.results)


def _assert(run: BlockRun, op: cf.AssertOp) -> list[None]:
    check_assertion(run, op, run.value(op.condition), op.message.data)
    return []


def check_assertion(run: BlockRun, op: Operation, condition: Array, message: str) -> None:
    """Logs the elements of a condition that are false."""
    condition = np.asarray(condition)
    if np.all(condition):
        return
    failed = tuple(tuple(map(int, place)) for place in np.argwhere(~condition))
    place = source_location(op.location)
    run.log.failures.append(AssertionFailure(message, run.block_id, failed, place))


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    cf.AssertOp: _assert,
    ct.AllocaOp: _alloca,
    ct.GdcLaunchDependentsTkoOp: _token,
    ct.GdcWaitTkoOp: _token,
    ct.JoinTokensOp: _token,
    ct.LoadPtrTkoOp: _load_ptr,
    ct.LoadViewTkoOp: _load_view,
    ct.MakeTokenOp: _token,
    ct.MemoryFenceAliasTkoOp: _token,
    ct.PrintTkoOp: _print,
    ct.StorePtrTkoOp: _store_ptr,
    ct.StoreViewTkoOp: _store_view,
    structure.GetGlobalOp: _get_global,
}
"""Operations with effects on memory or the log, by class."""
