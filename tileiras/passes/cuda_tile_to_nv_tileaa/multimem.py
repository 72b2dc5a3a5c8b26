"""Accesses to multicast memory keep their form."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

MultimemOp = ct.MultimemLoadReduceViewTkoOp | ct.MultimemReduceViewTkoOp | ct.MultimemStoreViewTkoOp


def _properties(op: MultimemOp, values: int) -> dict[str, Attribute]:
    """Ordering, reduction and bounds; `values` tiles come before the view."""
    properties: dict[str, Attribute] = {
        "ordering": op.memory_ordering_semantics,
        "inbounds": op.inbounds,
    }
    if op.memory_scope is not None:
        properties["scope"] = op.memory_scope
    if not isinstance(op, ct.MultimemStoreViewTkoOp):
        properties["reduction"] = op.reduction
    sizes = [*[1] * values, 1, len(op.index), 0 if op.token is None else 1]
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    return properties


def _access(converter: Converter, op: MultimemOp) -> list[SSAValue]:
    """View, indices and token."""
    token = [] if op.token is None else [op.token]
    return converter.mapped([op.view, *op.index, *token])


def _convert_load(converter: Converter, op: ct.MultimemLoadReduceViewTkoOp) -> Sequence[SSAValue]:
    """A load of all copies."""
    types = [convert_type(op.tile.type), MEM_TOKEN]
    return converter.emit(
        aa.MultimemLoadOp, _access(converter, op), types, _properties(op, 0)
    ).results


def _writing(target: type[Operation]) -> Rule:
    """A rule for an operation that writes all copies."""

    def convert(
        converter: Converter, op: ct.MultimemReduceViewTkoOp | ct.MultimemStoreViewTkoOp
    ) -> Sequence[SSAValue]:
        operands = [converter.value(op.tile), *_access(converter, op)]
        return converter.emit(target, operands, [MEM_TOKEN], _properties(op, 1)).results

    return convert


MULTIMEM_RULES: dict[type[Operation], Rule] = {
    ct.MultimemLoadReduceViewTkoOp: _convert_load,
    ct.MultimemReduceViewTkoOp: _writing(aa.MultimemReduceOp),
    ct.MultimemStoreViewTkoOp: _writing(aa.MultimemStoreOp),
}
"""Multicast accesses by class."""
