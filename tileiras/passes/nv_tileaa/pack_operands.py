"""f4 operands of products as bytes of two elements that follow each other along K.

What has been such bytes before it became f4 is taken as it was: bytes that were unpacked, and tiles
of views along whose contiguous dim K runs, which are loaded as bytes. So TMA and ldmatrix see
bytes. Anything else is packed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float4E2M1FNType,
    IntegerType,
    TensorType,
    i8,
    i32,
)
from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntTupleAttr,
    PaddingValue,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op


def packed_operand(builder: ScalarBuilder, value: SSAValue, axis: int) -> SSAValue:
    """The bytes (i8) of an f4 tile with pairs along `axis`, whose extent is halved."""
    known = _as_loaded(builder, value, axis)
    if known is not None:
        return known
    shape = shape_of(value)
    order = [*(dim for dim in range(len(shape)) if dim != axis), axis]
    value = _permuted(builder, value, order)
    flat = _reshaped(builder, value, (_size(shape),))
    packed = builder.emit(aa.PackOp, [flat], [TensorType(i8, (_size(shape) // 2,))]).results[0]
    halved = [shape[dim] for dim in order]
    halved[-1] //= 2
    back = [order.index(dim) for dim in range(len(shape))]
    return _permuted(builder, _reshaped(builder, packed, halved), back)


def unpacked_operand(builder: ScalarBuilder, value: SSAValue, axis: int) -> SSAValue:
    """The f4 tile of bytes (i8) of pairs along `axis`, whose extent is doubled."""
    shape = shape_of(value)
    order = [*(dim for dim in range(len(shape)) if dim != axis), axis]
    value = _permuted(builder, value, order)
    flat = _reshaped(builder, value, (_size(shape),))
    type = TensorType(Float4E2M1FNType(), (2 * _size(shape),))
    pairs = builder.emit(aa.UnpackOp, [flat], [type]).results[0]
    doubled = [shape[dim] for dim in order]
    doubled[-1] *= 2
    back = [order.index(dim) for dim in range(len(shape))]
    return _permuted(builder, _reshaped(builder, pairs, doubled), back)


def _as_loaded(builder: ScalarBuilder, value: SSAValue, axis: int) -> SSAValue | None:
    """The bytes that a tile was made of, None if its pairs do not lie along `axis`."""
    if not isinstance(value, OpResult):
        return None
    match value.op:
        case aa.PermuteOp() as op if value.has_one_use():
            order = list(op.permutation.get_values())
            source = _as_loaded(builder, op.source, order[axis])
            return None if source is None else _permuted(builder, source, order)
        case aa.ReshapeOp() as op if axis == len(shape_of(value)) - 1:
            shape = shape_of(value)
            halved = (*shape[:-1], shape[-1] // 2)
            if isinstance(op.source, OpResult) and isinstance(op.source.op, aa.UnpackOp):
                return _reshaped(builder, op.source.op.source, halved)
            before = shape_of(op.source)
            if before and before[-1] == shape[-1] and value.has_one_use():
                source = _as_loaded(builder, op.source, len(before) - 1)
                return None if source is None else _reshaped(builder, source, halved)
            return None
        case aa.TiledLoadOp() as load:
            return _loaded_as_bytes(load, axis)
        case _:
            return None


def erase_unused(value: SSAValue) -> None:
    """Erases what has made an operand, if nothing uses it any more."""
    made = (aa.PermuteOp, aa.ReshapeOp, aa.UnpackOp, aa.TiledLoadOp, aa.BlockTileOp)
    if not isinstance(value, OpResult) or not isinstance(value.op, (*made, aa.MakeMemRefOp)):
        return
    op = value.op
    if any(result.first_use is not None for result in op.results):
        return
    operands = list(op.operands)
    erase_op(op)
    for operand in operands:
        erase_unused(operand)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _permuted(builder: ScalarBuilder, value: SSAValue, order: Sequence[int]) -> SSAValue:
    """The tile with its dims in another order."""
    if list(order) == list(range(len(order))):
        return value
    shape = shape_of(value)
    type = TensorType(element_of(value), [shape[dim] for dim in order])
    properties: dict[str, Attribute] = {"permutation": DenseArrayBase.from_list(i32, list(order))}
    return builder.emit(aa.PermuteOp, [value], [type], properties).results[0]


def _reshaped(builder: ScalarBuilder, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """The tile in another shape, with as few reshapes as can be."""
    while isinstance(value, OpResult) and isinstance(value.op, aa.ReshapeOp):
        value = value.op.source
    if shape_of(value) == tuple(shape):
        return value
    type = TensorType(element_of(value), shape)
    return builder.emit(aa.ReshapeOp, [value], [type]).results[0]


def _loaded_as_bytes(load: aa.TiledLoadOp, axis: int) -> SSAValue | None:
    """The load of an f4 tile as one of bytes in its place; None if it cannot be.

    Nothing else may read it, and K must be contiguous. What lies outside must be zeros, of which
    two make a byte of zeros.
    """
    type, memref = view_type_of(load.view), memref_of(load.view)
    dim = type.dim_map[axis]
    size = type.memref.shape[dim]
    divisors = memref.shape_divisor.data if memref.shape_divisor is not None else ()
    is_even = size % 2 == 0 if size != DYNAMIC else bool(divisors) and divisors[dim] % 2 == 0
    is_along = type.memref.strides[dim] == 1 and type.sparse_dim is None
    has_zeros = type.padding_value in (None, PaddingValue.ZERO)
    if not load.result.has_one_use() or not (is_along and is_even and has_zeros):
        return None
    if not isinstance(type.memref.element_type, Float4E2M1FNType) or type.steps[axis] % 2:
        return None
    viewed = _byte_view(memref, type, axis)
    shape = [extent // (2 if at == axis else 1) for at, extent in enumerate(shape_of(load.result))]
    operands = [viewed, *load.indices, *([load.token] if load.token is not None else [])]
    bytes_load = aa.TiledLoadOp.create(
        operands=operands,
        result_types=[TensorType(i8, shape), load.result_token.type],
        properties=dict(load.properties),
        attributes=dict(load.attributes),
        location=load.location,
    )
    block = load.parent_block()
    if block is not None:
        block.insert_op_before(bytes_load, load)
    load.result_token.replace_all_uses_with(bytes_load.result_token)
    return bytes_load.result


def _byte_view(memref: aa.MakeMemRefOp, type: aa.TiledViewType, axis: int) -> SSAValue:
    """The same view of the same memory with bytes as elements, made beside the memref."""
    builder = ScalarBuilder()
    builder.location = memref.location
    base = builder.emit(aa.PtrToPtrOp, [memref.base], [aa.PointerType(i8)]).results[0]
    dim, old = type.dim_map[axis], type.memref
    shape = [_half(size) if at == dim else size for at, size in enumerate(old.shape)]
    strides = [stride if at == dim else _half(stride) for at, stride in enumerate(old.strides)]
    sizes = _halved(builder, memref.dynamic_shape, old.shape, lambda at: at == dim)
    steps = _halved(builder, memref.dynamic_strides, old.strides, lambda at: at != dim)
    properties = dict(memref.properties)
    if memref.shape_divisor is not None:
        properties["shape_divisor"] = _divisors(memref.shape_divisor, lambda at: at == dim)
    if memref.stride_divisor is not None:
        properties["stride_divisor"] = _divisors(memref.stride_divisor, lambda at: at != dim)
    byte_memref = aa.MemRefType(i8, shape, strides)
    made = builder.emit(aa.MakeMemRefOp, [base, *sizes, *steps], [byte_memref], properties)
    tile = [extent // (2 if at == axis else 1) for at, extent in enumerate(type.tile_shape)]
    step = [extent // (2 if at == axis else 1) for at, extent in enumerate(type.steps)]
    viewed = aa.TiledViewType(
        byte_memref,
        IntTupleAttr(tile),
        type.dim_map_dims,
        IntTupleAttr(step),
        type.padding,
        type.sparse,
    )
    result = builder.emit(aa.BlockTileOp, made.results, [viewed]).results[0]
    builder.put_before(memref)
    return result


def _half(extent: int) -> int:
    """Half of a size or stride; one known at run time stays so."""
    return extent if extent == DYNAMIC else extent // 2


def _divisors(divisors: IntTupleAttr, is_halved: Callable[[int], bool]) -> IntTupleAttr:
    """What sizes or strides are multiples of, once some of them are halved."""
    return IntTupleAttr(
        [max(1, known // 2) if is_halved(at) else known for at, known in enumerate(divisors.data)]
    )


def _halved(
    builder: ScalarBuilder,
    values: Sequence[SSAValue],
    extents: Sequence[int],
    is_halved: Callable[[int], bool],
) -> list[SSAValue]:
    """The sizes or strides known at run time, some of them halved."""
    dims = [at for at, extent in enumerate(extents) if extent == DYNAMIC]
    return [
        _divided(builder, value) if is_halved(at) else value
        for at, value in zip(dims, values, strict=True)
    ]


def _divided(builder: ScalarBuilder, value: SSAValue) -> SSAValue:
    """Half of an even number."""
    if not isinstance(value.type, IntegerType):
        return value
    properties: dict[str, Attribute] = {
        "signedness": SignednessAttr(Signedness.UNSIGNED),
        "rounding": RoundingModeAttr(RoundingMode.ZERO),
    }
    two = builder.integer(2, value.type)
    return builder.emit(aa.DivIOp, [value, two], [value.type], properties).results[0]
