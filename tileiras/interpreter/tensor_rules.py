"""The operations of nv_tileaa on whole tensors, by the rules of their equivalent operations in
cuda_tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float4E2M1FNType, IntegerType, TensorType
from xdsl.ir import Operation

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import AtomicRMWMode
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.interpreter.async_copy import commit, finish, make_buffer, start, wait
from tileiras.interpreter.atomics import (
    combination,
    compare_and_swap,
    multimem_mode,
    read_modify_write,
)
from tileiras.interpreter.conversions import RULES as CONVERSIONS_RULES
from tileiras.interpreter.equivalent_ops import (
    ELEMENTWISE,
    REARRANGING,
    EquivalentOps,
    operand_type,
    pointee_format,
    tile_type,
    value_format,
)
from tileiras.interpreter.exchange import (
    await_all,
    keep,
    read,
    read_kept,
    send,
    share,
    write_kept,
)
from tileiras.interpreter.float_arithmetic import RULES as FLOAT_ARITHMETIC_RULES
from tileiras.interpreter.formats import Array, format_of, from_bits, to_bits
from tileiras.interpreter.integer_arithmetic import RULES as INTEGER_ARITHMETIC_RULES
from tileiras.interpreter.math_functions import RULES as MATH_FUNCTIONS_RULES
from tileiras.interpreter.matrix import RULES as MATRIX_RULES
from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.memory_access import (
    check_assertion,
    global_address,
    load_tile,
    padding_tile,
    store_tile,
    zeroed_alloca,
)
from tileiras.interpreter.printing import format_message
from tileiras.interpreter.reductions import reduce_rule, scan_rule
from tileiras.interpreter.state import BlockRun, EffectRule, PureRule
from tileiras.interpreter.tensor_views import TiledTensor, block_tile, make_memref, view_access
from tileiras.interpreter.tiles import RULES as TILES_RULES
from tileiras.interpreter.views import TileAccess

EQUIVALENT_RULES: dict[type[Operation], PureRule] = {
    **FLOAT_ARITHMETIC_RULES,
    **INTEGER_ARITHMETIC_RULES,
    **MATH_FUNCTIONS_RULES,
    **CONVERSIONS_RULES,
    **TILES_RULES,
    **MATRIX_RULES,
}
"""Rules of cuda_tile that equivalent operations are given to."""


def equivalent_rule(equivalents: EquivalentOps, equivalent_class: type[Operation]) -> PureRule:
    """The rule of a class of operations, by way of their equivalent operations."""
    rule = EQUIVALENT_RULES[equivalent_class]

    def compute(op: Operation, *operands: Array) -> Array:
        return rule(equivalents.of(op, equivalent_class), *operands)

    return compute


def _dot_rule(equivalents: EquivalentOps) -> PureRule:
    """Integer and float products have different equivalent operations."""

    def compute(
        op: Any, lhs: Array, rhs: Array, acc: Array, condition: Array | None = None
    ) -> Array:
        if condition is not None and not condition:
            return acc
        is_integer = isinstance(tile_type(op.lhs.type).element_type, IntegerType)
        equivalent_class = ct.MmaIOp if is_integer else ct.MmaFOp
        equivalent = equivalents.of(op, equivalent_class, operands=(op.lhs, op.rhs, op.acc))
        return EQUIVALENT_RULES[equivalent_class](equivalent, lhs, rhs, acc)

    return compute


def scaled_dot_rule(equivalents: EquivalentOps) -> PureRule:
    """A block-scaled product; packed operands are taken apart first."""
    rule = EQUIVALENT_RULES[ct.MmaFScaledOp]

    def compute(
        op: Any,
        lhs: Array,
        rhs: Array,
        acc: Array,
        lhs_scale: Array,
        rhs_scale: Array,
        condition: Array | None = None,
    ) -> Array:
        if condition is not None and not condition:
            return acc
        if operand_type(op.lhs.type).element_type == IntegerType(8):
            lhs, rhs = _unpacked(lhs, -1), _unpacked(rhs, -2)
        operands, results = list(op.operands[:5]), list(op.results)
        if isinstance(op, Tcgen05DotScaledOp):
            operands = [op.lhs, op.rhs, op.accumulator, op.lhs_scale, op.rhs_scale]
            results = [op.accumulator]
        equivalent = equivalents.of(op, ct.MmaFScaledOp, {}, operands, results)
        return rule(equivalent, lhs, rhs, acc, lhs_scale, rhs_scale)

    return compute


def _unpacked(codes: Array, axis: int) -> Array:
    """The f4 of bytes, that of the even K in the low half."""
    bits = codes.astype(np.uint8)
    halves = np.stack([bits & 15, bits >> 4], axis=axis)
    shape = list(bits.shape)
    shape[axis] *= 2
    return from_bits(np.ascontiguousarray(halves.reshape(shape)), format_of(Float4E2M1FNType()))


def splat(op: aa.SplatOp, source: Array) -> Array:
    """The scalar everywhere."""
    shape = op.result.type.get_shape() if isinstance(op.result.type, TensorType) else ()
    return np.broadcast_to(source, shape)


def pure_rules(equivalents: EquivalentOps) -> dict[type[Operation], PureRule]:
    """Rules of all operations without effects, on whole tensors."""
    rules = {
        cls: equivalent_rule(equivalents, equivalent)
        for cls, equivalent in (ELEMENTWISE | REARRANGING).items()
    }
    return {
        **rules,
        aa.DotOp: _dot_rule(equivalents),
        aa.DotScaledOp: scaled_dot_rule(equivalents),
        aa.SplatOp: splat,
        aa.UnsplatOp: lambda op, source: np.reshape(source, ()),
    }


def _tiled_load(run: BlockRun, op: aa.TiledLoadOp | aa.MultimemLoadOp) -> list[Any]:
    view, access = view_access(run, op)
    return [load_tile(run.memory, view, access), None]


def _tiled_store(run: BlockRun, op: aa.TiledStoreOp | aa.MultimemStoreOp) -> list[Any]:
    view, access = view_access(run, op)
    store_tile(run.memory, view, access, run.value(op.value))
    return [None]


def _tiled_atomic_red(run: BlockRun, op: aa.TiledAtomicRedOp) -> list[Any]:
    _reduce_into_view(run, op, op.mode.data)
    return [None]


def _multimem_reduce(run: BlockRun, op: aa.MultimemReduceOp) -> list[Any]:
    fmt = run.value(op.view).format
    _reduce_into_view(run, op, multimem_mode(op.reduction.data, fmt))
    return [None]


def _reduce_into_view(run: BlockRun, op: Any, mode: AtomicRMWMode) -> None:
    """Combines a tile into memory, element after element."""
    view, access = view_access(run, op)
    reduce_tile(run.memory, view, access, run.value(op.value), mode)


def reduce_tile(
    memory: SimulatedMemory,
    view: TiledTensor,
    access: TileAccess,
    tile: Array,
    mode: AtomicRMWMode,
) -> None:
    """Combines what lies in bounds of a tile with what is in memory."""
    fmt = view.format
    inside = np.broadcast_to(access.inside, tile.shape)
    offsets = np.broadcast_to(access.offsets, tile.shape)[inside]
    addresses = view.tensor.base + offsets * fmt.storage.itemsize
    bits = to_bits(tile, fmt)[inside]
    read_modify_write(memory, addresses, bits, combination(mode, fmt))


def mask_of(run: BlockRun, op: Any, shape: Sequence[int]) -> Array:
    """The mask of an access through pointers: all true where it has none."""
    return np.ones(shape, np.bool_) if op.mask is None else np.asarray(run.value(op.mask))


def _load(run: BlockRun, op: aa.LoadOp) -> list[Any]:
    fmt = pointee_format(op.pointers.type)
    addresses = run.value(op.pointers)
    mask = mask_of(run, op, addresses.shape)
    if op.other is not None:
        result = np.array(run.value(op.other))
    else:
        result = padding_tile(None, mask.shape, fmt)
    result[mask] = from_bits(run.memory.gather(addresses[mask], fmt.storage), fmt)
    return [result, None]


def _store(run: BlockRun, op: aa.StoreOp) -> list[Any]:
    fmt = pointee_format(op.pointers.type)
    addresses, bits = run.value(op.pointers), to_bits(run.value(op.value), fmt)
    mask = mask_of(run, op, addresses.shape)
    run.memory.scatter(addresses[mask], bits[mask])
    return [None]


def _atomic_rmw(run: BlockRun, op: aa.AtomicRMWOp) -> list[Any]:
    fmt = pointee_format(op.pointers.type)
    addresses, bits = run.value(op.pointers), to_bits(run.value(op.value), fmt)
    mask = mask_of(run, op, addresses.shape)
    result = np.zeros(addresses.shape, dtype=fmt.storage)
    result[mask] = read_modify_write(
        run.memory, addresses[mask], bits[mask], combination(op.mode.data, fmt)
    )
    return [from_bits(result, fmt), None]


def _atomic_cas(run: BlockRun, op: aa.AtomicCASOp) -> list[Any]:
    fmt = pointee_format(op.pointers.type)
    addresses = run.value(op.pointers)
    expected, new = to_bits(run.value(op.compare), fmt), to_bits(run.value(op.value), fmt)
    mask = mask_of(run, op, addresses.shape)
    result = np.array(expected)
    flat = zip(addresses[mask], expected[mask], new[mask])
    result[mask] = [compare_and_swap(run.memory, *element) for element in flat]
    return [from_bits(result, fmt), None]


def _program_id(run: BlockRun, op: aa.GetProgramIdOp) -> list[Array]:
    return [np.asarray(run.block_id[op.axis.value.data], dtype=np.int32)]


def _cluster_rank(run: BlockRun, op: aa.GetClusterRankOp) -> list[Array]:
    rank = run.cluster_rank
    if op.stride is not None and op.count is not None:
        rank = rank // op.stride.data % op.count.data
    return [np.asarray(rank, dtype=np.int32)]


def _cluster_place(run: BlockRun, op: aa.GetClusterPlaceOp) -> list[Array]:
    row, column = divmod(run.cluster_rank, int(run.value(op.size)))
    return [np.asarray(number, dtype=np.int32) for number in (row, column)]


def _num_programs(run: BlockRun, op: aa.GetNumProgramsOp) -> list[Array]:
    return [np.asarray(run.grid[op.axis.value.data], dtype=np.int32)]


def _grid_size(run: BlockRun, op: aa.GetGridSizeOp) -> list[Array]:
    return [np.asarray(run.launched[op.axis.value.data], dtype=np.int32)]


def _alloca(run: BlockRun, op: aa.AllocaOp) -> list[Array]:
    element = pointee_format(op.result.type)
    return [zeroed_alloca(run, op, element.storage.itemsize)]


def _get_global(run: BlockRun, op: aa.GetGlobalOp) -> list[Array]:
    return [global_address(run, op, op.symbol.string_value())]


def _print(run: BlockRun, op: aa.PrintOp) -> list[None]:
    formats = [value_format(argument.type) for argument in op.arguments]
    text = format_message(op.format.data, run.values(op.arguments), formats)
    run.log.printed.append(text)
    return [None]


def _token(run: BlockRun, op: Operation) -> list[None]:
    return [None] * len(op.results)


def _assert(run: BlockRun, op: aa.AssertOp) -> list[None]:
    check_assertion(run, op, run.value(op.condition), op.message.data)
    return []


EFFECT_RULES: dict[type[Operation], Callable[..., Sequence[Any]]] = {
    aa.AllocaOp: _alloca,
    aa.AssertOp: _assert,
    aa.AtomicCASOp: _atomic_cas,
    aa.AtomicRMWOp: _atomic_rmw,
    aa.AwaitSharedOp: await_all,
    aa.BarrierOp: _token,
    aa.BlockTileOp: block_tile,
    aa.AsyncCommitGroupOp: commit,
    aa.CreateMemTokenOp: _token,
    aa.DebugValueOp: _token,
    aa.FenceAliasOp: _token,
    aa.ReadStageOp: finish,
    aa.GetGlobalOp: _get_global,
    aa.GetGridSizeOp: _grid_size,
    aa.GetNumProgramsOp: _num_programs,
    aa.GetProgramIdOp: _program_id,
    aa.GetClusterPlaceOp: _cluster_place,
    aa.GetClusterRankOp: _cluster_rank,
    aa.GridDependencyOp: _token,
    aa.JoinMemTokensOp: _token,
    aa.KeepTilesOp: keep,
    aa.LoadOp: _load,
    aa.CircularBufferOp: make_buffer,
    aa.MakeMemRefOp: make_memref,
    aa.MultimemLoadOp: _tiled_load,
    aa.MultimemReduceOp: _multimem_reduce,
    aa.MultimemStoreOp: _tiled_store,
    aa.PrintOp: _print,
    aa.ReadKeptOp: read_kept,
    aa.ReadSharedOp: read,
    aa.ReduceOp: reduce_rule,
    aa.ScanOp: scan_rule,
    aa.SendSharedOp: send,
    aa.ShareTilesOp: share,
    aa.AsyncCopyOp: start,
    aa.StoreOp: _store,
    aa.TiledAtomicRedOp: _tiled_atomic_red,
    aa.TiledLoadOp: _tiled_load,
    aa.TiledStoreOp: _tiled_store,
    aa.AsyncWaitGroupOp: wait,
    aa.WriteKeptOp: write_kept,
}
"""Operations of nv_tileaa with effects, with regions, or on memrefs."""


def effect_rules() -> dict[type[Operation], EffectRule]:
    """A copy of the table, to be changed for another stage."""
    return dict(EFFECT_RULES)
