"""Accesses to multicast memory: `multimem` of PTX, in words of 32 or 64 bits.

16-bit floats go in pairs, so a pair must lie in one word: the dim of unit stride has to be known to
be aligned, and no bound may split a pair. PTX ISA, "multimem.ld_reduce", "multimem.st",
"multimem.red".
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.access_order import memory_order
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.padding import padding_bits
from tileiras.codegen.lowering.views import TileAccess, ViewAddressing, gather_order
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MultimemReductionKind
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of, vector_type
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.errors import InternalError

_LETTERS = {32: "r", 64: "l"}
_UNSIGNED = {MultimemReductionKind.UMIN: "min", MultimemReductionKind.UMAX: "max"}
_BITWISE = (MultimemReductionKind.AND, MultimemReductionKind.OR, MultimemReductionKind.XOR)
_SIGNED = (MultimemReductionKind.MIN, MultimemReductionKind.MAX)

MultimemOp = aa.MultimemLoadOp | aa.MultimemStoreOp | aa.MultimemReduceOp


def _reduction(kind: MultimemReductionKind, element: Attribute) -> str:
    """The end of the opcode: operation and type."""
    match element:
        case Float16Type():
            return f"{kind.value}.f16x2"
        case BFloat16Type():
            return f"{kind.value}.bf16x2"
        case Float32Type() | Float64Type():
            return f"{kind.value}.f{bit_width(element)}"
        case _:
            letter = "b" if kind in _BITWISE else "s" if kind in _SIGNED else "u"
            return f"{_UNSIGNED.get(kind, kind.value)}.{letter}{bit_width(element)}"


def _access(
    ctx: KernelLowering, op: MultimemOp, tile: SSAValue
) -> tuple[ViewAddressing, TileAccess]:
    """Where this thread's words lie."""
    layout = ctx.layout(tile.type)
    inbounds = [int(flag) for flag in op.inbounds.get_values()] or [0] * len(op.indices)
    view = ViewAddressing(ctx, op.view, op.indices, inbounds, layout)
    per_word = 2 if view.size == 2 else 1
    axis = op.axis.data if op.axis is not None else 0
    access = view.access(per_word, axis)
    if access.vector != per_word or (per_word == 2 and not _pairs_whole(view, axis)):
        raise ctx.unsupported(f"a view of {view.element} elements not known to come in pairs")
    return view, access


def _pairs_whole(view: ViewAddressing, axis: int) -> bool:
    """Whether no pair is split by a bound or starts in the middle of a word."""
    dim = view.type.dim_map[axis]
    strides, shape = view.memref.stride_divisor, view.memref.shape_divisor
    align = view.memref.base_align
    if strides is None or shape is None or align is None or view.type.memref.strides[dim] != 1:
        return False
    others = [value for other, value in enumerate(strides.data) if other != dim]
    amounts = [align.value.data // 2, shape.data[dim], view.type.steps[axis], *others]
    return all(amount % 2 == 0 for amount in amounts) and view.type.sparse_dim is None


def _words(ctx: KernelLowering, value: SSAValue) -> SSAValue:
    """The bits of a vector as words."""
    bits = bit_width(value.type)
    width = 64 if bits == 64 * (lanes_of(value.type) or 1) else 32
    return ctx.b.bitcast(value, vector_type(integer_type(width), bits // width))


def _spread(ctx: KernelLowering, guard: SSAValue, count: int) -> SSAValue:
    """A guard for every word."""
    return guard if lanes_of(guard.type) == count else ctx.b.splat(guard, count)


def _order(ctx: KernelLowering, op: MultimemOp) -> str:
    """PTX's semantics and scope."""
    order = memory_order(ctx, op)
    return order.order if order.order == "weak" else f"{order.order}.{order.scope}"


def lower_multimem_load(ctx: KernelLowering, op: aa.MultimemLoadOp) -> None:
    """`multimem.ld_reduce` of every word; out of bounds the padding value."""
    b = ctx.b
    view, access = _access(ctx, op, op.result)
    element = vector_type(view.element, len(access.registers))
    words = _words(ctx, b.const_bits(element, padding_bits(view.element, view.type.padding_value)))
    letter = _LETTERS[bit_width(words.type) // access.groups]
    opcode = f"multimem.ld_reduce.{_order(ctx, op)}.global." + _reduction(
        op.reduction.data, view.element
    )
    if access.guard is None:
        template, constraints = f"{opcode} $0, [$1];", f"={letter},l,~{{memory}}"
        arguments = [access.pointers]
    else:
        template, constraints = f"@$1 {opcode} $0, [$2];", f"={letter},b,l,0,~{{memory}}"
        arguments = [_spread(ctx, access.guard, access.groups), access.pointers, words]
    loaded = b.inline_asm(
        template, constraints, words.type, arguments, side_effects=True, elementwise=True
    )
    if loaded is None:
        raise InternalError("a load without a result", where="lowering")
    order = gather_order(view.layout, access.registers)
    ctx.values[op.result] = b.shuffle(b.bitcast(loaded, element), None, order)


def _write(ctx: KernelLowering, op: MultimemOp, value: SSAValue, operation: str, end: str) -> None:
    """One instruction for every word that this thread owns."""
    b = ctx.b
    view, access = _access(ctx, op, value)
    words = _words(ctx, b.shuffle(ctx.value(value), None, access.registers))
    width = bit_width(words.type) // access.groups
    guard = ctx.both(access.guard, ctx.owner(view.layout))
    opcode = f"multimem.{operation}.{_order(ctx, op)}.global.{end or f'b{width}'}"
    guards = [] if guard is None else [_spread(ctx, guard, access.groups)]
    first = len(guards)
    template = f"{'@$0 ' if guards else ''}{opcode} [${first}], ${first + 1};"
    constraints = ",".join([*["b"] * first, "l", _LETTERS[width], "~{memory}"])
    for index in range(access.groups):
        lanes = [b.extract(part, index) for part in (*guards, access.pointers, words)]
        b.inline_asm(template, constraints, None, lanes, side_effects=True)


def lower_multimem_store(ctx: KernelLowering, op: aa.MultimemStoreOp) -> None:
    """`multimem.st` of every word."""
    _write(ctx, op, op.value, "st", "")


def lower_multimem_reduce(ctx: KernelLowering, op: aa.MultimemReduceOp) -> None:
    """`multimem.red` of every word."""
    element = view_type_of(op.view).memref.element_type
    _write(ctx, op, op.value, "red", _reduction(op.reduction.data, element))


RULES: LoweringRules = {
    aa.MultimemLoadOp: lower_multimem_load,
    aa.MultimemStoreOp: lower_multimem_store,
    aa.MultimemReduceOp: lower_multimem_reduce,
}
"""Multicast accesses by class."""
