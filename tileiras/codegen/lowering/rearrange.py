"""Slices and concatenations: elements change tiles, mostly without changing threads.

Where the bits that tell slices apart are register bits, a slice is a choice of registers; else the
tile is read back from shared memory at an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.llvmir.folding import constant_int
from tileiras.codegen.lowering.addressing import coordinates
from tileiras.codegen.lowering.axis_bits import is_unit, without_register_bit
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import convert
from tileiras.codegen.lowering.staging import load_tile, memory_element, store_tile
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import storage_bytes, vector_elements
from tileiras.dialects.llvm.types import bit_width, scalar_of
from tileiras.errors import InternalError

Shape = tuple[int, ...]


def _shape(type: Attribute) -> Shape:
    """Shape of a tensor type."""
    if not isinstance(type, TensorType):
        raise InternalError("slices are of tensors only", where="lowering")
    return type.get_shape()


def row_major(shape: Sequence[int]) -> LinearLayout:
    """The shared layout of a tile without gaps or swizzle, last dim fastest."""
    size = 1
    for dim in shape:
        size *= dim
    return LinearLayout.identity("offset", size).reshape(shape)


def _bytes(value: SSAValue) -> int:
    """Bytes that one element takes in shared memory."""
    return storage_bytes(bit_width(memory_element(scalar_of(value.type))))


def store_rows(ctx: KernelLowering, value: SSAValue, layout: LinearLayout) -> SSAValue:
    """Writes a tile row-major to shared memory, where all threads may read it; its address."""
    shared = row_major(layout.shape)
    size = _bytes(value)
    region = ctx.scratch.region(layout.size * size)
    store_tile(ctx, value, region, layout, shared, vector_elements(layout, shared, 8 * size))
    ctx.b.barrier()
    return region


def load_rows(
    ctx: KernelLowering, region: SSAValue, element: Attribute, layout: LinearLayout
) -> SSAValue:
    """Reads what `store_rows` wrote, at the coordinates of `layout`."""
    shared = row_major(layout.shape)
    bits = bit_width(memory_element(element))
    return load_tile(ctx, element, region, layout, shared, vector_elements(layout, shared, bits))


# extract


def lower_extract(ctx: KernelLowering, op: Operation) -> None:
    """One slice of a tile that is a grid of slices."""
    if not isinstance(op, aa.ExtractOp):
        raise InternalError("the rule of extract got another operation")
    value, source = ctx.value(op.source), ctx.layout(op.source.type)
    wanted = ctx.layout(op.result.type)
    indices = [ctx.value(index) for index in op.indices]
    known = [constant_int(index) for index in indices]
    fixed = [index for index in known if index is not None]
    if len(fixed) == len(known) and _is_in_registers(source, wanted.shape):
        layout, registers = _register_slice(source, wanted.shape, fixed)
        chosen = ctx.b.shuffle(value, None, registers)
        ctx.values[op.result] = convert(ctx, chosen, layout, wanted)
        return
    region = store_rows(ctx, value, source)
    start = _offset(ctx, indices, source.shape, wanted.shape)
    first = ctx.b.gep(region, ctx.b.mul(start, ctx.b.i32(_bytes(value))))
    inside = LinearLayout(dict(wanted.bases), source.shape)
    ctx.values[op.result] = load_rows(ctx, first, scalar_of(value.type), inside)


def _is_in_registers(layout: LinearLayout, shape: Shape) -> bool:
    """Whether each thread holds its part of every slice of `shape`."""

    def leaves_slice(vector: Sequence[int]) -> bool:
        return any(c >= size for c, size in zip(vector, shape, strict=True))

    threads = (*layout.basis("lane"), *layout.basis("warp"))
    return is_unit(layout) and not any(leaves_slice(vector) for vector in threads)


def _register_slice(
    layout: LinearLayout, shape: Shape, indices: Sequence[int]
) -> tuple[LinearLayout, list[int]]:
    """The layout of one slice, and which registers hold it."""
    choosing, wanted = 0, 0
    for bit, vector in enumerate(layout.basis("register")):
        for coordinate, size, index in zip(vector, shape, indices, strict=True):
            if coordinate >= size:
                choosing |= 1 << bit
                wanted |= (1 << bit) if index & (coordinate // size) else 0
    registers = [r for r in range(layout.in_size("register")) if r & choosing == wanted]
    for bit in reversed(range(layout.in_bits("register"))):
        if choosing >> bit & 1:
            layout = without_register_bit(layout, bit)
    return LinearLayout(dict(layout.bases), shape), registers


def _offset(
    ctx: KernelLowering, indices: Sequence[SSAValue], whole: Shape, part: Shape
) -> SSAValue:
    """Elements from the start of the whole tile to the slice with these indices, i32."""
    b = ctx.b
    total: SSAValue = b.i32(0)
    stride = 1
    for index, size, slice_size in reversed(list(zip(indices, whole, part, strict=True))):
        number = b.int_cast(index, i32, signed=False)
        total = b.add(total, b.mul(number, b.i32(stride * slice_size)))
        stride *= size
    return total


# insert


def lower_insert(ctx: KernelLowering, op: Operation) -> None:
    """A tile with one slice replaced: threads choose per element between two tiles."""
    if not isinstance(op, aa.InsertOp):
        raise InternalError("the rule of insert got another operation")
    source, wanted = ctx.layout(op.source.type), ctx.layout(op.result.type)
    old = convert(ctx, ctx.value(op.destination), ctx.layout(op.destination.type), wanted)
    value = ctx.value(op.source)
    region = store_rows(ctx, value, source)
    new = load_rows(ctx, region, scalar_of(value.type), _within_slice(wanted, source.shape))
    inside: SSAValue | None = None
    for axis, size in enumerate(source.shape):
        if size != wanted.shape[axis]:
            index = ctx.b.int_cast(ctx.value(op.indices[axis]), i32, signed=False)
            inside = ctx.both(inside, _is_in_slice(ctx, wanted, axis, size, index))
    ctx.values[op.result] = new if inside is None else ctx.b.select(inside, new, old)


def _within_slice(layout: LinearLayout, shape: Shape) -> LinearLayout:
    """Coordinates relative to the slice of `shape` in which an element lies."""
    bases = {
        unit: [tuple(c % size for c, size in zip(vector, shape, strict=True)) for vector in vectors]
        for unit, vectors in layout.bases
    }
    return LinearLayout(bases, shape)


def _is_in_slice(
    ctx: KernelLowering, layout: LinearLayout, axis: int, size: int, index: SSAValue
) -> SSAValue:
    """For each register, whether it is in slice number `index` along an axis."""
    b, count = ctx.b, layout.in_size("register")
    shift = b.splat(b.i32(size.bit_length() - 1), count)
    number = b.lshr(coordinates(ctx, layout, axis), shift)
    return b.icmp("eq", number, b.splat(index, count))


# cat


def lower_cat(ctx: KernelLowering, op: Operation) -> None:
    """Two tiles of one shape behind each other: one register bit tells them apart."""
    if not isinstance(op, aa.CatOp) or not isinstance(op.dim, IntegerAttr):
        raise InternalError("the rule of cat got another operation")
    axis = op.dim.value.data
    left, right = ctx.layout(op.lhs.type), ctx.layout(op.rhs.type)
    wanted = ctx.layout(op.result.type)
    shape = _shape(op.lhs.type)
    if shape != _shape(op.rhs.type):
        raise InternalError("tiles that are joined have one shape", where="lowering")
    top = tuple(shape[axis] if dim == axis else 0 for dim in range(len(shape)))
    bit = _splitting_bit(wanted, axis, top)
    if bit is None:
        half = left.without_register_duplicates()
        bit = half.in_bits("register")
        bases = dict(half.bases)
        bases["register"] = (*bases["register"], top)
        whole = LinearLayout(bases, wanted.shape)
    else:
        whole = wanted
        half = LinearLayout(dict(without_register_bit(wanted, bit).bases), shape)
    parts = (
        convert(ctx, ctx.value(op.lhs), left, half),
        convert(ctx, ctx.value(op.rhs), right, half),
    )
    count = half.in_size("register")
    low = (1 << bit) - 1
    order = [
        (r & low) | (r >> bit + 1 << bit) | (count if r >> bit & 1 else 0) for r in range(2 * count)
    ]
    joined = ctx.b.shuffle(*parts, order)
    ctx.values[op.result] = convert(ctx, joined, whole, wanted)


def _splitting_bit(layout: LinearLayout, axis: int, top: Shape) -> int | None:
    """The register bit that alone moves from the first half along the axis to the second."""
    moving = [
        (unit, bit, vector)
        for unit, vectors in layout.bases
        for bit, vector in enumerate(vectors)
        if vector[axis] & top[axis]
    ]
    match moving:
        case [("register", bit, vector)] if vector == top:
            return bit
        case _:
            return None


REARRANGE_RULES: dict[type[Operation], Callable[[KernelLowering, Operation], None]] = {
    aa.ExtractOp: lower_extract,
    aa.InsertOp: lower_insert,
    aa.CatOp: lower_cat,
}
"""Slices and concatenations by class."""
