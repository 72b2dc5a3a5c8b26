"""Matrix products without matrix instructions: fused multiply-adds from shared memory."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IntegerType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.lowering.addressing import register_coordinates, thread_coordinate
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.scratch import aligned
from tileiras.codegen.lowering.staging import store_tile
from tileiras.codegen.lowering.types import element_type, register_type
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import vector_elements
from tileiras.dialects.layout.shared import row_major
from tileiras.dialects.llvm.types import bit_width, lanes_of, vector_type
from tileiras.errors import InternalError


def lower_fma_dot(ctx: KernelLowering, op: Operation) -> None:
    """For each k: every thread multiplies its rows of A with its columns of B.

    The operands lie in shared memory, row-major, in the accumulator's type; the loop over k is a
    loop of the program, so that code size does not depend on K.
    """
    if not isinstance(op, tas.FmaDotOp):
        raise InternalError("the rule of fma_dot got another operation")
    layout = ctx.layout(op.result.type)
    lhs, rhs = (
        _operand(ctx, op, op.lhs, "signedness_lhs"),
        _operand(ctx, op, op.rhs, "signedness_rhs"),
    )
    a_layout, b_layout = ctx.layout(op.lhs.type), ctx.layout(op.rhs.type)
    # One region: asking for a second one may recycle the first.
    a_bytes = aligned(_bytes(lhs, a_layout))
    a_region = ctx.scratch.region(a_bytes + _bytes(rhs, b_layout))
    b_region = ctx.b.gep(a_region, a_bytes)
    _stage(ctx, lhs, a_layout, a_region)
    _stage(ctx, rhs, b_layout, b_region)
    ctx.b.barrier()
    acc = ctx.value(op.acc)
    compute = _compute_type(acc)
    narrow = acc.type
    if compute != narrow:
        acc = ctx.b.fpext(acc, compute)
    result = _k_loop(ctx, a_region, b_region, a_layout.shape, b_layout.shape, layout, acc)
    ctx.values[op.result] = result if compute == narrow else ctx.b.fptrunc(result, narrow)


def _compute_type(acc: SSAValue) -> Attribute:
    """f16 accumulators are kept in f32 over the whole product."""
    type = acc.type
    lanes = lanes_of(type) or 1
    element = getattr(type, "element_type", type)
    if isinstance(element, Float32Type | Float64Type | IntegerType):
        return type
    return vector_type(f32, lanes)


def _operand(ctx: KernelLowering, op: tas.FmaDotOp, value: SSAValue, sign: str) -> SSAValue:
    """An operand in the type that the products are formed in."""
    acc = element_type(op.acc.type)
    wanted = acc if isinstance(acc, Float64Type | IntegerType) else f32
    vector = ctx.value(value)
    element = element_type(value.type)
    lanes = lanes_of(vector.type) or 1
    target = vector_type(wanted, lanes)
    if vector.type == target:
        return vector
    if isinstance(element, IntegerType):
        attr = op.properties.get(sign)
        unsigned = isinstance(attr, SignednessAttr) and attr.data == Signedness.UNSIGNED
        return ctx.b.zext(vector, target) if unsigned else ctx.b.sext(vector, target)
    if bit_width(register_type(element)) == 16:
        return ctx.b.fpext(vector, target)
    raise ctx.unsupported(f"a matrix product of {element} elements on this target")


def _bytes(value: SSAValue, layout: LinearLayout) -> int:
    """Bytes of an operand in shared memory."""
    return layout.size * bit_width(getattr(value.type, "element_type", value.type)) // 8


def _stage(ctx: KernelLowering, value: SSAValue, layout: LinearLayout, region: SSAValue) -> None:
    """Writes an operand to shared memory, row-major."""
    shared = row_major(layout.shape)
    bits = bit_width(getattr(value.type, "element_type", value.type))
    store_tile(ctx, value, region, layout, shared, vector_elements(layout, shared, bits))


def _k_loop(
    ctx: KernelLowering,
    a_region: SSAValue,
    b_region: SSAValue,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    layout: LinearLayout,
    acc: SSAValue,
) -> SSAValue:
    """acc += A[:, k] * B[k, :] for all k."""
    b = ctx.b
    element = getattr(acc.type, "element_type", acc.type)
    size = bit_width(element) // 8
    rows, columns = a_shape[-2], b_shape[-1]
    depth = a_shape[-1]
    a_strides = (rows * depth * size, depth * size, 0)
    b_strides = (depth * columns * size, 0, size)
    a_base, a_offsets = _thread_offsets(ctx, layout, a_strides)
    b_base, b_offsets = _thread_offsets(ctx, layout, b_strides)
    head = b.new_block([i32, acc.type])
    body, done = b.new_block(), b.new_block()
    b.br(head, [b.i32(0), acc])
    ctx.start_block(head)
    k, carried = head.args
    b.cond_br(b.icmp("slt", k, b.i32(depth)), body, done)
    ctx.start_block(body)
    a_pointer = b.gep(b.gep(a_region, a_base), b.mul(k, b.i32(size)))
    b_pointer = b.gep(b.gep(b_region, b_base), b.mul(k, b.i32(columns * size)))
    a = _load_operand(ctx, a_pointer, a_offsets, element)
    c = _load_operand(ctx, b_pointer, b_offsets, element)
    if isinstance(element, IntegerType):
        total = b.add(carried, b.mul(a, c))
    else:
        total = b.unary_intrinsic("llvm.fma", a, c, carried)
    b.br(head, [b.add(k, b.i32(1)), total], no_unroll=depth > 64)
    ctx.start_block(done)
    return carried


def _thread_offsets(
    ctx: KernelLowering, layout: LinearLayout, strides: tuple[int, int, int]
) -> tuple[SSAValue, list[int]]:
    """Byte offset of this thread's element of an operand, and what each register adds to it."""
    rank = layout.rank
    used = strides[-rank:] if rank <= 3 else strides
    base: SSAValue = ctx.b.i32(0)
    offsets = [0] * layout.in_size("register")
    for axis, stride in enumerate(used):
        if stride == 0:
            continue
        thread = thread_coordinate(ctx, layout, axis)
        base = ctx.b.add(base, ctx.b.mul(thread, ctx.b.i32(stride)))
        deltas = register_coordinates(layout, axis)
        offsets = [o + d * stride for o, d in zip(offsets, deltas, strict=True)]
    return base, offsets


def _load_operand(
    ctx: KernelLowering, pointer: SSAValue, offsets: list[int], element: Attribute
) -> SSAValue:
    """The operand of every register; equal offsets are loaded once, neighbours together."""
    size = bit_width(element) // 8
    distinct = sorted(set(offsets))
    loaded: dict[int, tuple[SSAValue, int]] = {}
    index = 0
    while index < len(distinct):
        run = 1
        while (
            run * size < 16
            and index + 2 * run <= len(distinct)
            and distinct[index] % (2 * run * size) == 0
            and distinct[index + 2 * run - 1] - distinct[index] == (2 * run - 1) * size
        ):
            run *= 2
        start = distinct[index]
        piece = ctx.b.load(ctx.b.gep(pointer, start), vector_type(element, run), run * size)
        for position in range(run):
            loaded[start + position * size] = (piece, position)
        index += run
    return ctx.b.build([ctx.b.extract(*loaded[offset]) for offset in offsets])
