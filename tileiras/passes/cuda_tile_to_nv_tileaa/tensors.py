"""Constants, shape changes, slices, matrix products, program ids."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.splats import integer, scalar_of, splat
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type


def _convert_assume(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The value itself: the facts were read before the conversion."""
    return [converter.value(op.operands[0])]


def _convert_constant(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The same data."""
    properties = {"value": op.properties["value"]}
    return [converter.emit_value(aa.ConstantOp, [], convert_type(op.results[0].type), properties)]


def _convert_iota(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """A range; of one element it is a zero."""
    type = convert_type(op.results[0].type)
    if isinstance(type, TensorType) and type.get_shape() == (1,):
        return [splat(converter, integer(converter, 0, type.element_type), type)]
    return [converter.emit_value(aa.MakeRangeOp, [], type)]


def _reshape(converter: Converter, source: SSAValue, type: Attribute) -> SSAValue:
    """Reshapes between scalars and tensors of any shape."""
    if source.type == type:
        return source
    if not isinstance(type, TensorType):
        known = scalar_of(converter, source)
        if known is not None:
            return known
        return converter.emit_value(aa.UnsplatOp, [source], type)
    scalar = scalar_of(converter, source)
    if scalar is not None:
        return splat(converter, scalar, type)
    if isinstance(source, OpResult) and isinstance(source.op, aa.ReshapeOp):
        source = source.op.source
    return converter.emit_value(aa.ReshapeOp, [source], type)


def _convert_reshape(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """Reshape, splat of a scalar, or the scalar of a tensor of one element."""
    source = converter.value(op.operands[0])
    return [_reshape(converter, source, convert_type(op.results[0].type))]


def _convert_broadcast(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """Broadcast, or a splat when there is one element to repeat."""
    source = converter.value(op.operands[0])
    type = convert_type(op.results[0].type)
    if source.type == type or not isinstance(type, TensorType):
        return [source]
    scalar = scalar_of(converter, source)
    if scalar is not None:
        return [splat(converter, scalar, type)]
    if isinstance(source.type, TensorType) and all(d == 1 for d in source.type.get_shape()):
        scalar = converter.emit_value(aa.UnsplatOp, [source], type.element_type)
        return [splat(converter, scalar, type)]
    return [converter.emit_value(aa.BroadcastOp, [source], type)]


def _convert_permute(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """Permute; a splat stays one."""
    source = converter.value(op.operands[0])
    type = convert_type(op.results[0].type)
    scalar = scalar_of(converter, source)
    if scalar is not None and isinstance(type, TensorType):
        return [splat(converter, scalar, type)]
    return [converter.emit_value(aa.PermuteOp, [source], type, op.properties)]


def _same(target: type[Operation]) -> Rule:
    """A rule for an operation that only changes its class."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        operands = converter.mapped(op.operands)
        type = convert_type(op.results[0].type)
        return [converter.emit_value(target, operands, type, op.properties)]

    return convert


def _convert_extract(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """A slice of a tensor; a slice of a splat is a splat."""
    source, *indices = converter.mapped(op.operands)
    type = convert_type(op.results[0].type)
    if source.type == type:
        return [source]
    scalar = scalar_of(converter, source)
    if scalar is not None and isinstance(type, TensorType):
        return [splat(converter, scalar, type)]
    return [converter.emit_value(aa.ExtractOp, [source, *indices], type)]


def _program_ids(target: type[Operation]) -> Rule:
    """A rule for the operations with one result per grid axis."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        return [
            converter.emit_value(target, [], i32, {"axis": IntegerAttr(axis, i32)})
            for axis in range(3)
        ]

    return convert


TENSOR_RULES: dict[type[Operation], Rule] = {
    ct.AssumeOp: _convert_assume,
    ct.ConstantOp: _convert_constant,
    ct.IotaOp: _convert_iota,
    ct.ReshapeOp: _convert_reshape,
    ct.BroadcastOp: _convert_broadcast,
    ct.PermuteOp: _convert_permute,
    ct.CatOp: _same(aa.CatOp),
    ct.ExtractOp: _convert_extract,
    ct.InsertOp: _same(aa.InsertOp),
    ct.PackOp: _same(aa.PackOp),
    ct.UnpackOp: _same(aa.UnpackOp),
    ct.MmaFOp: _same(aa.DotOp),
    ct.MmaIOp: _same(aa.DotOp),
    ct.MmaFScaledOp: _same(aa.DotScaledOp),
    ct.GetTileBlockIdOp: _program_ids(aa.GetProgramIdOp),
    ct.GetNumTileBlocksOp: _program_ids(aa.GetNumProgramsOp),
}
