"""How far mathematical functions may be from the exact result, and what they are in cuda_tile."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.nv_tileaa import math

ULP_F32 = {
    math.ExpOp: 2,
    math.Exp2Op: 2,
    math.LogOp: 1,
    math.Log2Op: 1,
    math.PowOp: 4,
    math.FPowIOp: 4,
    math.RsqrtOp: 2,
    math.SinOp: 2,
    math.CosOp: 2,
    math.TanOp: 4,
    math.SinhOp: 3,
    math.CoshOp: 2,
    math.TanhOp: 2,
    math.Atan2Op: 3,
}
"""Units in the last place of f32 (docs/elementwise.md)."""

ULP_F64 = {
    math.ExpOp: 1,
    math.Exp2Op: 1,
    math.LogOp: 1,
    math.Log2Op: 2,
    math.PowOp: 2,
    math.FPowIOp: 2,
    math.RsqrtOp: 1,
    math.SinOp: 2,
    math.CosOp: 2,
    math.TanOp: 2,
    math.SinhOp: 2,
    math.CoshOp: 2,
    math.TanhOp: 1,
    math.Atan2Op: 2,
}
"""... and of f64."""

_RENAMED = {"fp_to_fp": "ftof", "fp_to_int": "ftoi", "int_to_fp": "itof"}
_BY_NAME = {op.name.rpartition(".")[2]: op for op in ct.CudaTile.operations}


def source_operation(op: type[Operation]) -> type[Operation]:
    """The class of cuda_tile that becomes an elementwise class of nv_tileaa."""
    name = op.name.rpartition(".")[2]
    return _BY_NAME[_RENAMED.get(name, name)]
