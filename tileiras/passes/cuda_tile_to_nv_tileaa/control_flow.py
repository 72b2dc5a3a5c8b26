"""Structured control flow and reductions keep their structure."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type

_RENAMED = {"unsignedCmp": "unsigned_cmp"}


def _with_regions(target: type[Operation]) -> Rule:
    """A rule for an operation with regions: the regions are converted inside."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        operands = converter.mapped(op.operands)
        regions = [converter.convert_region(region) for region in op.regions]
        types = [convert_type(result.type) for result in op.results]
        properties = {_RENAMED.get(key, key): value for key, value in op.properties.items()}
        return converter.emit(target, operands, types, properties, regions).results

    return convert


def _terminator(target: type[Operation]) -> Rule:
    """A rule for the end of a block."""

    def convert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
        converter.emit(target, converter.mapped(op.operands))
        return []

    return convert


def _convert_assert(converter: Converter, op: Operation) -> Sequence[SSAValue]:
    """The same check."""
    converter.emit(aa.AssertOp, converter.mapped(op.operands), (), op.properties)
    return []


CONTROL_FLOW_RULES: dict[type[Operation], Rule] = {
    ct.ForOp: _with_regions(aa.ForOp),
    ct.LoopOp: _with_regions(aa.LoopOp),
    ct.IfOp: _with_regions(aa.IfOp),
    ct.ReduceOp: _with_regions(aa.ReduceOp),
    ct.ScanOp: _with_regions(aa.ScanOp),
    ct.YieldOp: _terminator(aa.YieldOp),
    ct.ContinueOp: _terminator(aa.ContinueOp),
    ct.BreakOp: _terminator(aa.BreakOp),
    ct.ReturnOp: _terminator(aa.ReturnOp),
    ct.AssertOp: _convert_assert,
}
