"""Views, loads, stores, atomics and tokens; the facts that they need become their properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i32, i64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    IntTupleAttr,
    OptimizationHintsAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import DYNAMIC, TensorViewType
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.errors import InternalError
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.hints import hints_for, with_tma
from tileiras.passes.cuda_tile_to_nv_tileaa.splats import integer
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

_SEGMENTS = "operandSegmentSizes"


def _segments(*sizes: int) -> DenseArrayBase:
    """The property that says how many operands each group has."""
    return DenseArrayBase.from_list(i32, sizes)


def _optional(converter: Converter, value: SSAValue | None) -> list[SSAValue]:
    """An optional operand as a list."""
    return [] if value is None else [converter.value(value)]


def _largest_power(value: int) -> int:
    """The largest power of two that divides a size (0: a large one)."""
    return value & -value if value else 1 << 30


def _divisors(
    converter: Converter, sizes: Sequence[int], dynamic: Sequence[SSAValue]
) -> IntTupleAttr:
    """A proven power-of-two divisor of every size or stride."""
    remaining = iter(dynamic)
    divisors = [
        converter.facts[next(remaining)].divisor if size == DYNAMIC else _largest_power(size)
        for size in sizes
    ]
    return IntTupleAttr(divisors)


def _convert_tensor_view(converter: Converter, op: ct.MakeTensorViewOp) -> Sequence[SSAValue]:
    """A memref with what is known of its base, sizes and strides."""
    type = op.result.type
    if not isinstance(type, TensorViewType):
        raise InternalError("make_tensor_view does not make a tensor_view")
    shape, strides = list(op.dynamic_shape), list(op.dynamic_strides)
    alignment = max(converter.facts[op.base].divisor, converter.facts[op.result].divisor)
    properties: dict[str, Attribute] = {
        "base_align": IntegerAttr(alignment, i64),
        "shape_divisor": _divisors(converter, type.shape, shape),
        "stride_divisor": _divisors(converter, type.strides, strides),
        _SEGMENTS: _segments(1, len(shape), len(strides)),
    }
    operands = converter.mapped([op.base, *shape, *strides])
    return [converter.emit_value(aa.MakeMemRefOp, operands, convert_type(type), properties)]


def _convert_view(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """A grid of tiles over a memref."""
    operands = converter.mapped(op.operands)
    return [converter.emit_value(aa.BlockTileOp, operands, convert_type(op.results[0].type))]


def _memref_of(value: SSAValue) -> aa.MakeMemRefOp:
    """The operation that made a memref, directly or under a view."""
    owner = value.op if isinstance(value, OpResult) else None
    if isinstance(owner, aa.BlockTileOp):
        return _memref_of(owner.memref)
    if isinstance(owner, aa.MakeMemRefOp):
        return owner
    raise InternalError("a view does not come from a make_tensor_view operation")


def _size_of(converter: Converter, memref: aa.MakeMemRefOp, dim: int, type: Attribute) -> SSAValue:
    """The size of one dim as a scalar of integer type `type`."""
    memref_type = memref.result.type
    if not isinstance(memref_type, aa.MemRefType) or not isinstance(type, IntegerType):
        raise InternalError("a size has the wrong type")
    if memref_type.shape[dim] != DYNAMIC:
        return integer(converter, memref_type.shape[dim], type)
    position = sum(size == DYNAMIC for size in memref_type.shape[:dim])
    size = memref.dynamic_shape[position]
    return _resize(converter, size, type)


def _resize(converter: Converter, value: SSAValue, type: IntegerType) -> SSAValue:
    """A non-negative integer in another width."""
    if not isinstance(value.type, IntegerType) or value.type == type:
        return value
    if value.type.width.data < type.width.data:
        signed = {"signedness": SignednessAttr(Signedness.SIGNED)}
        return converter.emit_value(aa.ExtIOp, [value], type, signed)
    return converter.emit_value(aa.TruncIOp, [value], type, _no_overflow())


def _no_overflow() -> Mapping[str, Attribute]:
    """Properties of an integer operation that promises nothing."""
    return {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}


def _convert_tensor_shape(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The sizes that the tensor view was made with."""
    memref = _memref_of(converter.value(op.operands[0]))
    types = [convert_type(result.type) for result in op.results]
    return [_size_of(converter, memref, dim, type) for dim, type in enumerate(types)]


def _convert_index_space(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """Number of tiles along each dim: the size over the step, rounded up."""
    view = converter.value(op.operands[0])
    if not isinstance(view.type, aa.TiledViewType):
        raise InternalError("get_index_space_shape of something that is no view")
    memref = _memref_of(view)
    counts: list[SSAValue] = []
    for dim, step, result in zip(view.type.dim_map, view.type.steps, op.results, strict=True):
        type = convert_type(result.type)
        size = _size_of(converter, memref, dim, type)
        properties = {
            "signedness": SignednessAttr(Signedness.UNSIGNED),
            "rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF),
        }
        divisor = integer(converter, step, type)
        counts.append(converter.emit_value(aa.DivIOp, [size, divisor], type, properties))
    return counts


def _access(converter: Converter, op: Operation) -> dict[str, Attribute]:
    """Properties that all memory accesses share: ordering, scope, hints."""
    properties = {"ordering": op.properties["memory_ordering_semantics"]}
    if (scope := op.properties.get("memory_scope")) is not None:
        properties["scope"] = scope
    if (mode := op.properties.get("mode")) is not None:
        properties["mode"] = mode
    hints = op.properties.get("optimization_hints")
    chosen = None
    if isinstance(hints, OptimizationHintsAttr):
        chosen = hints_for(hints, converter.gpu_name)
    prefers = converter.prefers_tma
    if prefers is not None and isinstance(op, ct.LoadViewTkoOp | ct.StoreViewTkoOp):
        chosen = with_tma(chosen, prefers)
    if chosen is not None:
        properties["hints"] = chosen
    return properties


def _convert_load_view(converter: Converter, op: ct.LoadViewTkoOp) -> Sequence[SSAValue]:
    """Loads a tile through a view."""
    indices, token = converter.mapped(op.index), _optional(converter, op.token)
    properties = _access(converter, op)
    properties["inbounds"] = op.inbounds
    properties[_SEGMENTS] = _segments(1, len(indices), len(token))
    operands = [converter.value(op.view), *indices, *token]
    types = [convert_type(op.tile.type), MEM_TOKEN]
    return converter.emit(aa.TiledLoadOp, operands, types, properties).results


def _convert_store_view(converter: Converter, op: ct.StoreViewTkoOp) -> Sequence[SSAValue]:
    """Stores a tile through a view."""
    indices, token = converter.mapped(op.index), _optional(converter, op.token)
    properties = _access(converter, op)
    properties["inbounds"] = op.inbounds
    properties[_SEGMENTS] = _segments(1, 1, len(indices), len(token))
    operands = [converter.value(op.tile), converter.value(op.view), *indices, *token]
    return converter.emit(aa.TiledStoreOp, operands, [MEM_TOKEN], properties).results


def _convert_atomic_red(converter: Converter, op: ct.AtomicRedViewTkoOp) -> Sequence[SSAValue]:
    """Atomically combines a tile into memory through a view."""
    indices, token = converter.mapped(op.index), _optional(converter, op.token)
    properties = _access(converter, op)
    properties["inbounds"] = op.inbounds
    properties[_SEGMENTS] = _segments(1, 1, len(indices), len(token))
    operands = [converter.value(op.value), converter.value(op.view), *indices, *token]
    return converter.emit(aa.TiledAtomicRedOp, operands, [MEM_TOKEN], properties).results


def _pointer_facts(
    converter: Converter, pointers: SSAValue, mask: SSAValue | None
) -> dict[str, Attribute]:
    """Runs of consecutive pointers, their alignment in bytes, runs of equal mask elements."""
    facts = converter.facts[pointers]
    properties: dict[str, Attribute] = {
        "contiguity": IntTupleAttr(facts.contiguity),
        "alignment": IntTupleAttr((facts.divisor,)),
    }
    if mask is not None:
        properties["mask_constancy"] = IntTupleAttr(converter.facts[mask].constancy)
    return properties


def _convert_load_ptr(converter: Converter, op: ct.LoadPtrTkoOp) -> Sequence[SSAValue]:
    """Gathers through pointers."""
    mask, other = _optional(converter, op.mask), _optional(converter, op.padding_value)
    token = _optional(converter, op.token)
    properties = _access(converter, op) | _pointer_facts(converter, op.source, op.mask)
    properties[_SEGMENTS] = _segments(1, len(mask), len(other), len(token))
    operands = [converter.value(op.source), *mask, *other, *token]
    types = [convert_type(op.result.type), MEM_TOKEN]
    return converter.emit(aa.LoadOp, operands, types, properties).results


def _convert_store_ptr(converter: Converter, op: ct.StorePtrTkoOp) -> Sequence[SSAValue]:
    """Scatters through pointers."""
    mask, token = _optional(converter, op.mask), _optional(converter, op.token)
    properties = _access(converter, op) | _pointer_facts(converter, op.destination, op.mask)
    properties[_SEGMENTS] = _segments(1, 1, len(mask), len(token))
    operands = [*converter.mapped([op.destination, op.value]), *mask, *token]
    return converter.emit(aa.StoreOp, operands, [MEM_TOKEN], properties).results


def _atomic(target: type[Operation]) -> Rule:
    """A rule for read-modify-write operations through pointers."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        properties = _access(converter, op)
        properties[_SEGMENTS] = op.properties[_SEGMENTS]
        types = [convert_type(result.type) for result in op.results]
        return converter.emit(target, converter.mapped(op.operands), types, properties).results

    return convert


def _token(target: type[Operation], **strings: str) -> Rule:
    """A rule for an operation on tokens alone."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        properties = {key: StringAttr(value) for key, value in strings.items()}
        operands = converter.mapped(op.operands)
        return [converter.emit_value(target, operands, MEM_TOKEN, properties)]

    return convert


def _convert_get_global(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The address of a global."""
    properties = {"symbol": op.properties["name"]}
    return [converter.emit_value(aa.GetGlobalOp, [], convert_type(op.results[0].type), properties)]


def _convert_alloca(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """Memory of the tile block."""
    properties = dict(op.properties)
    return [converter.emit_value(aa.AllocaOp, [], convert_type(op.results[0].type), properties)]


MEMORY_RULES: dict[type[Operation], Rule] = {
    ct.MakeTensorViewOp: _convert_tensor_view,
    ct.MakePartitionViewOp: _convert_view,
    ct.MakeStridedViewOp: _convert_view,
    ct.MakeGatherScatterViewOp: _convert_view,
    ct.GetTensorShapeOp: _convert_tensor_shape,
    ct.GetIndexSpaceShapeOp: _convert_index_space,
    ct.LoadViewTkoOp: _convert_load_view,
    ct.StoreViewTkoOp: _convert_store_view,
    ct.AtomicRedViewTkoOp: _convert_atomic_red,
    ct.LoadPtrTkoOp: _convert_load_ptr,
    ct.StorePtrTkoOp: _convert_store_ptr,
    ct.AtomicRMWTkoOp: _atomic(aa.AtomicRMWOp),
    ct.AtomicCASTkoOp: _atomic(aa.AtomicCASOp),
    ct.MakeTokenOp: _token(aa.CreateMemTokenOp),
    ct.JoinTokensOp: _token(aa.JoinMemTokensOp),
    ct.MemoryFenceAliasTkoOp: _token(aa.FenceAliasOp),
    ct.GdcWaitTkoOp: _token(aa.GridDependencyOp, kind="wait"),
    ct.GdcLaunchDependentsTkoOp: _token(aa.GridDependencyOp, kind="launch"),
    ct.GetGlobalOp: _convert_get_global,
    ct.AllocaOp: _convert_alloca,
}
