"""Elementwise operations of nv_tileaa and the cuda_tile operations of the same meaning."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.nv_tileaa import arithmetic, conversions, math
from tileiras.dialects.operations import operations_of

_RENAMED = {
    "addptr": "offset",
    "fp_to_fp": "ftof",
    "fp_to_int": "ftoi",
    "int_to_fp": "itof",
}
"""Operations of nv_tileaa that cuda_tile has under another name."""


def _by_name(operations: list[type[Operation]]) -> dict[str, type[Operation]]:
    """Name without the dialect -> operation."""
    return {op.name.partition(".")[2]: op for op in operations}


def _counterparts() -> dict[type[Operation], type[Operation]]:
    known = _by_name(list(ct.CudaTile.operations))
    ours = _by_name(operations_of(arithmetic, math, conversions))
    return {op: known[_RENAMED.get(name, name)] for name, op in ours.items()}


COUNTERPARTS: dict[type[Operation], type[Operation]] = _counterparts()
"""Elementwise operation of nv_tileaa -> that of cuda_tile."""
