"""Matrix products without matrix instructions: fused multiply-adds from shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from tileiras.codegen.lowering.staging import Window, store_tile
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

    The operands lie in shared memory, K slowest, in the accumulator's type, as many parts of K at a
    time as fit; the loop over k is a loop of the program, so that code size does not depend on K.
    """
    if not isinstance(op, tas.FmaDotOp):
        raise InternalError("the rule of fma_dot got another operation")
    layout = ctx.layout(op.result.type)
    lhs, rhs = (
        _operand(ctx, op, op.lhs, "signedness_lhs"),
        _operand(ctx, op, op.rhs, "signedness_rhs"),
    )
    a = _Operand(lhs, ctx.layout(op.lhs.type), 1)
    b = _Operand(rhs, ctx.layout(op.rhs.type), 2)
    parts = _parts(ctx, a, b)
    acc = ctx.value(op.acc)
    compute = _compute_type(acc)
    narrow = acc.type
    if compute != narrow:
        acc = ctx.b.fpext(acc, compute)
    for part in range(parts):
        # One region: asking for a second one may recycle the first.
        a_bytes = aligned(a.bytes // parts)
        region = ctx.scratch.region(a_bytes + b.bytes // parts)
        regions = (region, ctx.b.gep(region, a_bytes))
        for operand, place in zip((a, b), regions, strict=True):
            operand.stage(ctx, place, parts, part)
        ctx.b.barrier()
        acc = _k_loop(ctx, regions, (a, b), a.layout.shape[-1] // parts, layout, acc)
    ctx.values[op.result] = acc if compute == narrow else ctx.b.fptrunc(acc, narrow)


@dataclass(frozen=True)
class _Operand:
    """An operand as a vector in its layout; K is dim `-k_position`: 1 for A, 2 for B."""

    value: SSAValue
    layout: LinearLayout
    k_position: int

    @property
    def k_dim(self) -> int:
        """The dim of K."""
        return self.layout.rank - self.k_position

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return bit_width(getattr(self.value.type, "element_type", self.value.type)) // 8

    @property
    def bytes(self) -> int:
        """Bytes of the operand in shared memory."""
        return self.layout.size * self.element_bytes

    @property
    def order(self) -> tuple[int, ...]:
        """Dims fastest first: K last, so that a step along K reads neighbours."""
        others = [dim for dim in reversed(range(self.layout.rank)) if dim != self.k_dim]
        return (*others, self.k_dim)

    @property
    def strides(self) -> list[int]:
        """Bytes between neighbours along each dim."""
        strides, step = [0] * self.layout.rank, self.element_bytes
        for dim in self.order:
            strides[dim] = step
            step *= self.layout.shape[dim]
        return strides

    def stage(self, ctx: KernelLowering, region: SSAValue, parts: int, part: int) -> None:
        """Writes one of the parts along K."""
        shared = row_major(self.layout.shape, self.order)
        vector = vector_elements(self.layout, shared, 8 * self.element_bytes)
        window = Window(self.layout.size // parts, part) if parts > 1 else None
        store_tile(ctx, self.value, region, self.layout, shared, vector, window=window)


def _parts(ctx: KernelLowering, a: _Operand, b: _Operand) -> int:
    """Into how many parts of K the product falls so that the operands fit."""
    limit, parts = ctx.scratch.limit, 1
    while aligned(a.bytes // parts) + b.bytes // parts > limit:
        parts *= 2
        if parts > a.layout.shape[a.k_dim]:
            raise ctx.too_large((a.bytes + b.bytes) * 2 // parts, limit)
    return parts


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


def _k_loop(
    ctx: KernelLowering,
    regions: tuple[SSAValue, SSAValue],
    operands: tuple[_Operand, _Operand],
    depth: int,
    layout: LinearLayout,
    acc: SSAValue,
) -> SSAValue:
    """acc += A[:, k] * B[k, :] for the `depth` values of k that are staged."""
    b = ctx.b
    element = getattr(acc.type, "element_type", acc.type)
    places = []
    for region, operand in zip(regions, operands, strict=True):
        strides = operand.strides
        step = strides[operand.k_dim]
        strides[operand.k_dim] = 0
        # A is not indexed by columns, B not by rows: K's dim stands where the other's would.
        base, offsets = _thread_offsets(ctx, layout, strides)
        places.append((b.gep(region, base), offsets, step))
    head = b.new_block([i32, acc.type])
    body, done = b.new_block(), b.new_block()
    b.br(head, [b.i32(0), acc])
    ctx.start_block(head)
    k, carried = head.args
    b.cond_br(b.icmp("slt", k, b.i32(depth)), body, done)
    ctx.start_block(body)
    left, right = (
        _load_operand(ctx, b.gep(pointer, b.mul(k, b.i32(step))), offsets, element)
        for pointer, offsets, step in places
    )
    if isinstance(element, IntegerType):
        total = b.add(carried, b.mul(left, right))
    else:
        total = b.unary_intrinsic("llvm.fma", left, right, carried)
    b.br(head, [b.add(k, b.i32(1)), total], no_unroll=depth > 64)
    ctx.start_block(done)
    return carried


def _thread_offsets(
    ctx: KernelLowering, layout: LinearLayout, strides: Sequence[int]
) -> tuple[SSAValue, list[int]]:
    """Byte offset of this thread's element of an operand, and what each register adds to it."""
    base: SSAValue = ctx.b.i32(0)
    offsets = [0] * layout.in_size("register")
    for axis, stride in enumerate(strides):
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
