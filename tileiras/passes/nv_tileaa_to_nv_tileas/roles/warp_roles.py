"""Puts the warp roles of a specialised kernel together."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.plan import PIPELINES, PLAN
from tileiras.dialects.nv_tileas.warp_roles import KEPT_MAPS, PRODUCER, TILE_ORDER
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.consumer import ConsumerSide
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.early_exit import take_exit
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.producer import ProducerBuilder
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.product_warp import (
    build_product_warp,
    create_in_tensor_memory,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.store_warp import (
    build_store_warp,
    create_store_pipeline,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.stores import make_store_maps
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.sums import SumsInTmem
from tileiras.planning.clusters import Multicast
from tileiras.planning.mma.mma_sync import WARP_THREADS, WARPS_PER_WARPGROUP
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.model.written_warp_roles import read_warp_roles
from tileiras.planning.operands.gather import GATHER_WARPS

PlaceBody = Callable[[ConsumerSide, Block, Block], None]


def specialised(func: aa.FuncOp, plan: RolePlan, place_body: PlaceBody) -> aa.FuncOp:
    """The kernel as pipelines and a warp role switch; `place_body` fills the consumer's block."""
    source = func.body.block
    entry = Block(arg_types=[arg.type for arg in source.args])
    roles = read_warp_roles(func, plan, "convert-tileaa-to-tileas")
    take_exit(roles.exit, source, entry)
    _fill(func, plan, place_body, entry, roles)
    properties = dict(func.properties)
    properties["num_warps"] = IntegerAttr(plan.shape.consumer_warps, i32)
    return aa.FuncOp.create(
        properties=properties,
        attributes={PLAN: func.attributes[PLAN]},
        regions=[Region(entry)],
        location=func.location,
    )


def _fill(
    func: aa.FuncOp,
    plan: RolePlan,
    place_body: PlaceBody,
    entry: Block,
    roles: WarpRoles,
) -> None:
    """The programs of all warp roles into the kernel's new block."""
    source = func.body.block
    pipelines = _create_all(entry, func, plan, roles.multicast)
    store_pipeline = create_store_pipeline(entry, plan) if plan.has_store_warp else None
    store_maps = make_store_maps(plan, source, entry)
    builder = ProducerBuilder(PRODUCER, plan, roles, pipelines)
    body = Block()
    regions = [builder.build(source, list(entry.args)), Region(body)]
    if store_pipeline is not None:
        regions.append(build_store_warp(func, plan, roles, entry, store_pipeline, store_maps))
    properties = _shape_properties(plan, roles)
    switch = pl.AgentSwitchOp.create(properties=properties, regions=regions, location=func.location)
    entry.add_op(switch)
    entry.add_op(aa.ReturnOp.create(location=func.location))
    consumer = ConsumerSide(plan, roles, pipelines)
    consumer.store_maps, consumer.store_pipeline = store_maps, store_pipeline
    if plan.is_in_tmem:
        _place_with_products(
            func, plan, roles, consumer, switch, lambda: place_body(consumer, entry, body)
        )
        return
    place_body(consumer, entry, body)
    if any(isinstance(op, aa.SelectOp) and op.end_of_rows is not None for op in source.ops):
        from tileiras.passes.nv_tileaa_to_nv_tileas.roles.absent_rows import (
            leave_out_absent_rows,
        )

        leave_out_absent_rows(body)


def _place_with_products(
    func: aa.FuncOp,
    plan: RolePlan,
    roles: WarpRoles,
    consumer: ConsumerSide,
    switch: pl.AgentSwitchOp,
    place_body: Callable[[], None],
) -> None:
    """Consumers beside a warp role that issues products, whose program comes before the switch."""
    entry = required(switch.parent_block(), "a warp role switch stands nowhere", "warp roles")
    entry_ops = Block()
    made = create_in_tensor_memory(entry_ops, plan)
    entry_ops.add_op(build_product_warp(func, plan, roles, entry, consumer.pipelines, made))
    for op in list(entry_ops.ops):
        op.detach()
        entry.insert_op_before(op, switch)
    consumer.sums = SumsInTmem(plan, roles, made)
    place_body()
    consumer.sums.load_late()


def _shape_properties(plan: RolePlan, roles: WarpRoles) -> dict[str, Attribute]:
    """Warps and registers of the warp roles, and which tile block they compute."""
    shape = plan.shape
    numbers = {
        "consumer_warps": shape.consumer_warps,
        "producer_warps": shape.producer_warps,
        "working_warps": roles.producer.layouts.warps,
        "producer_registers": shape.producer_registers,
        "consumer_registers": shape.consumer_registers,
        "ctas": shape.ctas,
    }
    properties: dict[str, Attribute] = {n: IntAttr(number) for n, number in numbers.items()}
    if roles.tile_order is not None:
        properties[TILE_ORDER] = IntTupleAttr(roles.tile_order)
    if roles.keeps_maps:
        properties[KEPT_MAPS] = UnitAttr()
    return properties


def _create_all(
    block: Block, func: aa.FuncOp, plan: RolePlan, multicast: Multicast
) -> list[OpResult]:
    """The pipelines, by number; those with memory of their own first.

    Each has beside it what was planned for it, and so does the new function.
    """
    planned = func.attributes[PIPELINES]
    if not isinstance(planned, ArrayAttr):
        raise InternalError("a specialised kernel names no pipelines", where="warp roles")
    made: dict[int, OpResult] = {}
    numbers = sorted(range(len(plan.pipelines)), key=lambda n: plan.pipelines[n].within is not None)
    for number in numbers:
        within = plan.pipelines[number].within
        storage = None if within is None else made[within]
        made[number] = _create(block, func, plan, number, multicast, storage)
        made[number].op.attributes[PLAN] = planned.data[number]
    return [made[number] for number in range(len(made))]


def _releasers(plan: RolePlan, pipeline: Pipeline) -> int:
    """How many arrivals hand a stage back: warpgroups', warps', or the tensor core's one."""
    if plan.is_in_tmem:
        return 1
    return plan.warpgroups * (WARPS_PER_WARPGROUP if plan.is_read_by_warps(pipeline) else 1)


def _create(
    block: Block,
    func: aa.FuncOp,
    plan: RolePlan,
    number: int,
    multicast: Multicast,
    storage: SSAValue | None,
) -> OpResult:
    """A pipeline at the start of the kernel, with the least stages, and what says how many more."""
    pipeline = plan.pipelines[number]
    is_gathered = any(other.gathers for other in plan.pipelines)
    copying = GATHER_WARPS if is_gathered else 1
    copying = copying if pipeline.gathers or pipeline.has_scales else 0
    properties: dict[str, Attribute] = {
        "stages": IntAttr(pipeline.least),
        "stage_bytes": IntAttr(pipeline.bytes),
        "consumers": IntAttr(_releasers(plan, pipeline)),
        "gather_threads": IntAttr(WARP_THREADS * copying),
    }
    if any(load in multicast.loads for load in pipeline.loads):
        properties["shared"] = UnitAttr()
    if func.pair is not None:
        properties["pair"] = UnitAttr()
    operands = () if storage is None else (storage,)
    op = pl.CreatePipelineOp.create(
        operands=operands, result_types=[pl.PIPELINE], properties=properties
    )
    block.add_op(op)
    return op.result
