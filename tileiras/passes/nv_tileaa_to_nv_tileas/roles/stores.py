"""The operations that make tiles leave by TMA, planned in `planning/operands/tma_stores`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.planning.operands.tma import has_renewed_map
from tileiras.planning.operands.tma_stores import TmaWrite, pieces_of

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan


def make_store_maps(plan: RolePlan, source: Block, entry: Block) -> dict[Operation, SSAValue]:
    """The tensor maps of the stores, at the start of the kernel; `entry` has its new arguments.

    Not those of views that are made in loops: the store warp makes them where it comes by.
    """
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, entry.args, strict=True))
    maps: dict[SSAValue, SSAValue] = {}
    early = [store for store in plan.stores if not has_renewed_map(store)]
    for store in early:
        view = _copied(store.view, values, entry)
        if view not in maps:
            made = store_map(store, view, plan)
            entry.add_op(made)
            maps[view] = made.result
    return {store: maps[values[store.view]] for store in early}


def store_map(store: TmaWrite, view: SSAValue, plan: RolePlan) -> pl.MakeTensorMapOp:
    """The tensor map of a store, whose boxes are pieces of a warpgroup."""
    type = view_type_of(store.view)
    box = [1] * len(type.dim_map)
    form = required(pieces_of(store, plan), "a tile that leaves by TMA has no pieces", "warp roles")
    box[type.dim_map[-1]] = form.span
    box[type.dim_map[-2]] = form.rows
    properties: dict[str, Attribute] = {"box": IntTupleAttr(box), "swizzle": IntAttr(form.swizzle)}
    if has_renewed_map(store):
        properties["renewed"] = UnitAttr()
    return pl.MakeTensorMapOp.create(
        operands=[view],
        result_types=[pl.TENSOR_MAP],
        properties=properties,
        location=store.location,
    )


def _copied(value: SSAValue, values: dict[SSAValue, SSAValue], entry: Block) -> SSAValue:
    """A value made once more, with all that it is made of."""
    if value not in values:
        if not isinstance(value, OpResult):
            raise InternalError("a view depends on more than arguments", where="warp roles")
        op = value.op
        copy = type(op).create(
            operands=[_copied(operand, values, entry) for operand in op.operands],
            result_types=[result.type for result in op.results],
            properties=op.properties,
            location=op.location,
        )
        entry.add_op(copy)
        values.update(zip(op.results, copy.results, strict=True))
    return values[value]


def place_tma_store(
    materializer: Materializer, op: TmaWrite, map: SSAValue, plan: RolePlan
) -> Sequence[SSAValue]:
    """The store from the registers that a product leaves its result in."""
    (layout,) = materializer.operand_layouts(op, [op.value])
    operands = [materializer.in_layout(op.value, layout), map, materializer.plain(op.view)]
    operands += [materializer.plain(index) for index in op.indices]
    properties: dict[str, Attribute] = {
        "delayed": IntAttr(int(plan.are_stores_delayed)),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, 1, len(op.indices), 0]),
    }
    if isinstance(op, aa.TiledAtomicRedOp):
        properties["reduction"] = op.mode
    materializer.emit(ts.TmaStoreOp, operands, (), properties)
    return materializer.emit(aa.CreateMemTokenOp, (), [op.result_token.type]).results
