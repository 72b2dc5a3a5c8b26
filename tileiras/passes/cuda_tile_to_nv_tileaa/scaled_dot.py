"""Block-scaled matrix products: the scales are multiplied into the operands.

    mmaf_scaled %a, %b, %c, %sa, %sb   ->   dot (bf16(a * sa)), (bf16(b * sb)), c

An f8 or f4 number has at most 4 significant bits and a scale at most 4 with it, so their product is
exact in bf16 (8 bits) unless it is smaller than bf16's least normal number, 2**-126.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, bf16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.errors import InternalError
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

_NEAREST = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}


def _as(converter: Converter, value: SSAValue, element: Attribute) -> SSAValue:
    """The numbers in another float type."""
    type = TensorType(element, shape_of(value))
    return converter.emit_value(aa.FpToFpOp, [value], type, _NEAREST)


def _spread(converter: Converter, scale: SSAValue, shape: Sequence[int], axis: int) -> SSAValue:
    """A scale for every element: each repeats along `axis` up to the operand's shape."""
    blocks = shape_of(scale)[axis]
    before, after = tuple(shape[:axis]), tuple(shape[axis + 1 :])
    value = scale
    for op, wanted in (
        (aa.ReshapeOp, (*before, blocks, 1, *after)),
        (aa.BroadcastOp, (*before, blocks, shape[axis] // blocks, *after)),
        (aa.ReshapeOp, tuple(shape)),
    ):
        value = converter.emit_value(op, [value], TensorType(f32, wanted))
    return value


def _scaled(converter: Converter, operand: SSAValue, scale: SSAValue, axis: int) -> SSAValue:
    """The operand times its scales, in bf16; `axis` is that of K, from the end."""
    shape = shape_of(operand)
    numbers = _as(converter, operand, f32)
    scales = _spread(converter, _as(converter, scale, f32), shape, len(shape) + axis)
    product = converter.emit_value(aa.MulFOp, [numbers, scales], TensorType(f32, shape), _NEAREST)
    return _as(converter, product, bf16)


def _convert_scaled_dot(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """A product of bf16 operands, which accumulates in f32."""
    if not isinstance(op, ct.MmaFScaledOp):
        raise InternalError("the rule of mmaf_scaled got another operation")
    lhs, rhs, acc, lhs_scale, rhs_scale = converter.mapped(
        [op.lhs, op.rhs, op.acc, op.lhs_scale, op.rhs_scale]
    )
    operands = [
        _scaled(converter, lhs, lhs_scale, -1),
        _scaled(converter, rhs, rhs_scale, -2),
        acc,
    ]
    return [converter.emit_value(aa.DotOp, operands, convert_type(op.result.type))]


SCALED_DOT_RULES: dict[type[Operation], Rule] = {ct.MmaFScaledOp: _convert_scaled_dot}
"""Block-scaled products by class."""
