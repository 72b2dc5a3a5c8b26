"""The store warp: its part of the kernel, and the buffers between it and the consumers.

Consumers write tiles to shared memory and go on to the next ones; a warp beside the producer's has
TMA store them. It walks its own copy of the loops over tiles, for the indices of each store.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.codegen.atoms.store_pieces import BUFFERS
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import op_block
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.warp_roles import STORE
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.producer import (
    ProducerBuilder,
    moved_to_its_memref,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.stores import store_map
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.operands.tma import has_renewed_map
from tileiras.planning.operands.tma_stores import TmaWrite


class StoreWarpBuilder(ProducerBuilder):
    """Clones the slice, with stores of staged tiles in place of the stores of `maps`."""

    def __init__(
        self,
        plan: RolePlan,
        roles: WarpRoles,
        pipeline: SSAValue,
        store_maps: dict[Operation, SSAValue],
    ):
        super().__init__(STORE, plan, roles, ())
        self.pipeline = pipeline
        self.store_maps = store_maps
        self.own_maps: dict[SSAValue, SSAValue] = {}
        """Descriptors that this warp makes, by view."""

    def copy_op(self, op: Operation) -> None:
        """Stores and the end are the warp role's own; the rest is as for the producer."""
        match op:
            case aa.TiledStoreOp() | aa.TiledAtomicRedOp():
                self._store(op)
            case aa.ReturnOp():
                self.emit(ts.StoreTailOp, [self.pipeline])
                self.emit(aa.ReturnOp)
            case _:
                super().copy_op(op)

    def _store(self, op: TmaWrite) -> None:
        operands = [self.pipeline, self._store_map(op), self.values[op.view]]
        operands += [self.values[index] for index in op.indices]
        properties: dict[str, Attribute] = {}
        if isinstance(op, aa.TiledAtomicRedOp):
            properties["reduction"] = op.mode
        if self.plan.is_transposed:
            properties["transposed"] = UnitAttr()
        if self.plan.is_in_tmem:
            properties["lanes"] = UnitAttr()
        self.emit(ts.StoreStageOp, operands, (), properties)

    def _store_map(self, op: TmaWrite) -> SSAValue:
        """The tensor map of a store; that of a view of a loop is made again where it is new."""
        if not has_renewed_map(op):
            return self.store_maps[op]
        view = self.values[op.view]
        if view not in self.own_maps:
            owner = moved_to_its_memref(view)
            made = store_map(op, view, self.plan)
            op_block(owner).insert_op_after(made, owner)
            self.own_maps[view] = made.result
        self.renew([self.own_maps[view]])
        return self.own_maps[view]


def build_store_warp(
    func: aa.FuncOp,
    plan: RolePlan,
    roles: WarpRoles,
    entry: Block,
    pipeline: SSAValue,
    store_maps: dict[Operation, SSAValue],
) -> Region:
    """The warp role's program; `entry` has the kernel's arguments."""
    builder = StoreWarpBuilder(plan, roles, pipeline, store_maps)
    return builder.build(func.body.block, list(entry.args))


def create_store_pipeline(entry: Block, plan: RolePlan) -> SSAValue:
    """The buffers at the start of the kernel; `tileas-optimize-alloc-tensor` says how large."""
    properties = {"stages": IntAttr(BUFFERS), "pieces": IntAttr(1)}
    if plan.is_in_tmem:
        properties["rows"] = IntAttr(plan.piece_rows)
    op = ts.CreateStorePipelineOp.create(result_types=[pl.PIPELINE], properties=properties)
    entry.add_op(op)
    return op.result


def place_staged(
    materializer: Materializer, op: TmaWrite, pipeline: SSAValue
) -> Sequence[SSAValue]:
    """The tile on its way to the warp role, from the registers that a product leaves its result
    in.
    """
    (layout,) = materializer.operand_layouts(op, [op.value])
    materializer.emit(ts.StageForTmaStoreOp, [materializer.in_layout(op.value, layout), pipeline])
    return materializer.emit(aa.CreateMemTokenOp, (), [op.result_token.type]).results
