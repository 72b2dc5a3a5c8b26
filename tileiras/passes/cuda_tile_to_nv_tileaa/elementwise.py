"""Elementwise operations: class for class. What works on splats only is done once, on scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.splats import scalar_of, splat
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

_CLASSES: dict[type[Operation], type[Operation]] = {
    ct.AbsFOp: aa.AbsFOp,
    ct.AbsIOp: aa.AbsIOp,
    ct.AddFOp: aa.AddFOp,
    ct.AddIOp: aa.AddIOp,
    ct.AndIOp: aa.AndIOp,
    ct.Atan2Op: aa.Atan2Op,
    ct.BitcastOp: aa.BitcastOp,
    ct.CeilOp: aa.CeilOp,
    ct.CmpFOp: aa.CmpFOp,
    ct.CmpIOp: aa.CmpIOp,
    ct.CosHOp: aa.CoshOp,
    ct.CosOp: aa.CosOp,
    ct.DivFOp: aa.DivFOp,
    ct.DivIOp: aa.DivIOp,
    ct.Exp2Op: aa.Exp2Op,
    ct.ExpOp: aa.ExpOp,
    ct.ExtIOp: aa.ExtIOp,
    ct.FPowFOp: aa.PowOp,
    ct.FPowIOp: aa.FPowIOp,
    ct.FToFOp: aa.FpToFpOp,
    ct.FToIOp: aa.FpToIntOp,
    ct.FloorOp: aa.FloorOp,
    ct.FmaOp: aa.FmaOp,
    ct.IToFOp: aa.IntToFpOp,
    ct.IntToPtrOp: aa.IntToPtrOp,
    ct.Log2Op: aa.Log2Op,
    ct.LogOp: aa.LogOp,
    ct.MaxFOp: aa.MaxFOp,
    ct.MaxIOp: aa.MaxIOp,
    ct.MinFOp: aa.MinFOp,
    ct.MinIOp: aa.MinIOp,
    ct.MulFOp: aa.MulFOp,
    ct.MulIOp: aa.MulIOp,
    ct.MulhiIOp: aa.MulhiIOp,
    ct.NegFOp: aa.NegFOp,
    ct.NegIOp: aa.NegIOp,
    ct.OffsetOp: aa.AddPtrOp,
    ct.OrIOp: aa.OrIOp,
    ct.PtrToIntOp: aa.PtrToIntOp,
    ct.PtrToPtrOp: aa.PtrToPtrOp,
    ct.RemFOp: aa.RemFOp,
    ct.RemIOp: aa.RemIOp,
    ct.RsqrtOp: aa.RsqrtOp,
    ct.SelectOp: aa.SelectOp,
    ct.ShLIOp: aa.ShLIOp,
    ct.ShRIOp: aa.ShRIOp,
    ct.SinHOp: aa.SinhOp,
    ct.SinOp: aa.SinOp,
    ct.SqrtOp: aa.SqrtOp,
    ct.SubFOp: aa.SubFOp,
    ct.SubIOp: aa.SubIOp,
    ct.TanHOp: aa.TanhOp,
    ct.TanOp: aa.TanOp,
    ct.TruncIOp: aa.TruncIOp,
    ct.XOrIOp: aa.XOrIOp,
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
