"""The pass `tileaa-legalize-scaled-dot`: products with scales as the target computes them.

Where there is a block-scaled instruction the product stays, and f4 operands become bytes of two
along K, as the instruction reads them. Elsewhere the scales are multiplied into the operands:

    dot_scaled %a by %sa, %b by %sb, %c   ->   dot (bf16(a * sa)), (bf16(b * sb)), %c

An f8 or f4 number has at most 4 significant bits and a scale at most 4 with it, so their product is
exact in bf16 (8 bits) unless it is smaller than bf16's least normal number, 2**-126.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    ModuleOp,
    TensorType,
    UnitAttr,
    bf16,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op, put_in_place
from tileiras.planning.mma.block_scaled import find_scaled_atom
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

_NEAREST = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}


@dataclass(frozen=True)
class LegalizeScaledDotPass(IrPass):
    """Keeps products with scales that the target has instructions for, expands the others.

    Before   %d = dot_scaled %a by %sa, %b by %sb, %c
    After    the same; of f4: %d = dot_scaled %bytes_a by %sa, %bytes_b by %sb, %c {packed}
             where there is no instruction: %d = dot (bf16(a * sa)), (bf16(b * sb)), %c
    Requires nv_tileaa and a target; tcgen05 has all products of a kernel or none, and what is too
             large for one CTA is divided for it
    Leaves   products of operands that are packed already
    """

    name = "tileaa-legalize-scaled-dot"
    title: ClassVar[str] = "Legalize products with scales"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Goes through all products of all functions."""
        target = ctx.require_target()
        for func in [inner for inner in op.body.ops if isinstance(inner, aa.FuncOp)]:
            dots = [inner for inner in func.walk() if isinstance(inner, aa.DotScaledOp)]
            refusal = _by_tcgen05(func, ctx) if dots and ctx.options.opt_level else None
            if refusal == "":
                continue
            for dot in dots:
                remark = _legalize(dot, func, target, refusal)
                if remark is not None:
                    ctx.remarks.add(remark)


def _by_tcgen05(func: aa.FuncOp, ctx: CompileContext) -> str | None:
    """Puts a kernel in place as tcgen05 computes it; else says why it does not, None if there is
    none.

    Operands of f4 are bytes then, and tiles that are too large for one CTA are divided among those
    of a cluster, as `tileas-slicing` divides others. `tileaa-expand-scaled-dot` tells what came of
    the products.
    """
    target = ctx.require_target()
    if not target.has(Feature.TCGEN05_SCALED) or not target.has(Feature.TMA):
        return None
    from tileiras.passes.nv_tileaa.split_products import (
        asked_ctas,
        has_large_product,
        split_products,
        tiling_remark,
    )
    from tileiras.planning.mma.strategy import Tcgen05Strategy

    copy, done = func.clone(), list[str]()
    for dot in [inner for inner in copy.walk() if isinstance(inner, aa.DotScaledOp)]:
        if _is_of_f4(dot):
            _pack(dot)
    if (ctas := asked_ctas(copy, target)) > 1 and has_large_product(copy):
        done = split_products(copy, ctas)
    planned = Tcgen05Strategy().plan(_products(copy), target)
    if isinstance(planned, str):
        return planned
    put_in_place(copy, func)
    for text in done:
        ctx.remarks.add(tiling_remark(copy, text))
    return ""


def _products(func: aa.FuncOp) -> list[aa.ProductOp]:
    return [inner for inner in func.walk() if isinstance(inner, aa.ProductOp)]


def _is_of_f4(dot: aa.DotScaledOp) -> bool:
    """Whether the operands of a product are f4 that are not bytes yet."""
    return isinstance(element_of(dot.lhs), Float4E2M1FNType)


def _legalize(
    dot: aa.DotScaledOp, func: aa.FuncOp, target: GpuTarget, refusal: str | None
) -> Remark | None:
    """One product as the target computes it; the remark says which way that is.

    `refusal`: why tcgen05 does not, None on targets without it.
    """
    if dot.packed is not None:
        return None
    found = find_scaled_atom(dot, target) if refusal is None else refusal
    if isinstance(found, str):
        remark = scaled_remark(
            func, dot, RemarkKind.MISSED, f"scales are multiplied in bf16: {found}"
        )
        builder = ScalarBuilder()
        builder.location = dot.location
        replace_product(builder, dot, expanded_product(builder, dot, dot.lhs, dot.rhs))
        return remark
    remark = scaled_remark(func, dot, RemarkKind.PASSED, f"scaled by {found.mnemonic}")
    if found.depth != found.k:
        _pack(dot)
    return remark


def _pack(dot: aa.DotScaledOp) -> None:
    """Puts a product of bytes of two f4 in the place of one."""
    builder = ScalarBuilder()
    builder.location = dot.location
    replace_product(builder, dot, _packed(builder, dot))


def replace_product(builder: ScalarBuilder, dot: aa.DotScaledOp, result: SSAValue) -> None:
    """Puts what was built in the place of a product, and takes away what led to it alone."""
    from tileiras.passes.nv_tileaa.pack_operands import erase_unused

    builder.put_before(dot)
    dot.result.replace_all_uses_with(result)
    operands = [dot.lhs, dot.rhs]
    erase_op(dot)
    for operand in operands:
        erase_unused(operand)


def scaled_remark(func: aa.FuncOp, dot: aa.DotScaledOp, kind: RemarkKind, text: str) -> Remark:
    """What became of a product."""
    place, name = place_of(dot), func.sym_name.data
    arguments = (("Shape", str(list(shape_of(dot.result)))),)
    category, pass_name = RemarkCategory.TENSOR_CORE, LegalizeScaledDotPass.name
    return Remark(category, kind, pass_name, "BlockScaled", text, name, place, arguments)


def _packed(builder: ScalarBuilder, dot: aa.DotScaledOp) -> SSAValue:
    """The product of bytes of two f4."""
    from tileiras.passes.nv_tileaa.pack_operands import packed_operand

    rank = len(shape_of(dot.lhs))
    sides = ((dot.lhs, rank - 1), (dot.rhs, rank - 2))
    operands = [packed_operand(builder, value, axis) for value, axis in sides]
    operands += [dot.acc, dot.lhs_scale, dot.rhs_scale]
    properties: dict[str, Attribute] = {"packed": UnitAttr()}
    return builder.emit(aa.DotScaledOp, operands, [dot.result.type], properties).results[0]


def expanded_product(
    builder: ScalarBuilder, dot: aa.DotScaledOp, lhs: SSAValue, rhs: SSAValue
) -> SSAValue:
    """A product of bf16 operands made of the numbers `lhs` and `rhs`; it accumulates in f32."""
    operands = [
        _scaled(builder, lhs, dot.lhs_scale, -1),
        _scaled(builder, rhs, dot.rhs_scale, -2),
        dot.acc,
    ]
    return _value(builder, aa.DotOp, operands, dot.result.type)


def _value(
    builder: ScalarBuilder,
    op_class: type,
    operands: Sequence[SSAValue],
    type: Attribute,
    properties: Mapping[str, Attribute] | None = None,
) -> SSAValue:
    return builder.emit(op_class, operands, [type], properties).results[0]


def _as(builder: ScalarBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """The numbers in another float type."""
    return _value(builder, aa.FpToFpOp, [value], TensorType(element, shape_of(value)), _NEAREST)


def _spread(builder: ScalarBuilder, scale: SSAValue, shape: Sequence[int], axis: int) -> SSAValue:
    """A scale for every element: each repeats along `axis` up to the operand's shape."""
    blocks = shape_of(scale)[axis]
    before, after = tuple(shape[:axis]), tuple(shape[axis + 1 :])
    value = scale
    for op, wanted in (
        (aa.ReshapeOp, (*before, blocks, 1, *after)),
        (aa.BroadcastOp, (*before, blocks, shape[axis] // blocks, *after)),
        (aa.ReshapeOp, tuple(shape)),
    ):
        value = _value(builder, op, [value], TensorType(f32, wanted))
    return value


def _scaled(builder: ScalarBuilder, operand: SSAValue, scale: SSAValue, axis: int) -> SSAValue:
    """The operand times its scales, in bf16; `axis` is that of K, from the end."""
    shape = shape_of(operand)
    numbers = _as(builder, operand, f32)
    scales = _spread(builder, _as(builder, scale, f32), shape, len(shape) + axis)
    type = TensorType(f32, shape)
    return _as(builder, _value(builder, aa.MulFOp, [numbers, scales], type, _NEAREST), bf16)
