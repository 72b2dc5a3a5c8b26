"""Elementwise operations: class for class. What works on splats only is done once, on scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nv_tileaa.counterparts import COUNTERPARTS
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.splats import scalar_of, splat
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

_CLASSES: dict[type[Operation], type[Operation]] = {
    source: target for target, source in COUNTERPARTS.items()
}


def _convert_elementwise(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The operation of the same meaning; on scalars when every operand is a splat."""
    target_class = _CLASSES[type(op)]
    operands = converter.mapped(op.operands)
    result_type = convert_type(op.results[0].type)
    if isinstance(result_type, TensorType):
        scalars = [scalar_of(converter, operand) for operand in operands]
        if all(scalar is not None for scalar in scalars):
            known = [scalar for scalar in scalars if scalar is not None]
            element = result_type.element_type
            value = converter.emit_value(target_class, known, element, op.properties)
            return [splat(converter, value, result_type)]
    return [converter.emit_value(target_class, operands, result_type, op.properties)]


ELEMENTWISE_RULES: dict[type[Operation], Rule] = dict.fromkeys(_CLASSES, _convert_elementwise)
