"""Puts the two agents of a specialised kernel together."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntAttr, IntegerAttr, i32
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.consumer import ConsumerSide
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.gathered import (
    GATHER_WARPS,
    gather_registers,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.producer import ProducerBuilder
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.producer_layouts import producer_layouts
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.producer_slice import (
    ProducerSlice,
    producer_slice,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.waits import insert_waits

PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = {1: 240, 2: 232}
"""By number of warpgroups; with the producer's warpgroup they fill the 64 K registers of an SM."""

PlaceBody = Callable[[ConsumerSide, Block, Block], None]


def specialised(func: aa.FuncOp, plan: HopperPlan, place_body: PlaceBody) -> aa.FuncOp:
    """The kernel as pipelines and an agent switch; `place_body` fills the consumer's block."""
    source = func.body.block
    entry = Block(arg_types=[arg.type for arg in source.args])
    pipelines = [_create(entry, plan, number) for number in range(len(plan.pipelines))]
    loads = [load for pipeline in plan.pipelines for load in pipeline.loads]
    kept = producer_slice(func, loads)
    layouts = producer_layouts(kept) if kept is not None else None
    if kept is None or layouts is None:
        raise InternalError("a planned kernel has no producer")
    producer = ProducerBuilder(kept, layouts, plan, pipelines).build(source, list(entry.args))
    producer_registers, consumer_registers = agent_registers(kept, plan.warpgroups)
    body = Block()
    switch = pl.AgentSwitchOp.create(
        properties={
            "consumer_warps": IntAttr(4 * plan.warpgroups),
            "working_warps": IntAttr(layouts.warps),
            "producer_registers": IntAttr(producer_registers),
            "consumer_registers": IntAttr(consumer_registers),
        },
        regions=[producer, Region(body)],
        location=func.location,
    )
    entry.add_op(switch)
    entry.add_op(aa.ReturnOp.create(location=func.location))
    source_to_entry = ConsumerSide(plan, pipelines)
    place_body(source_to_entry, entry, body)
    insert_waits(body, source_to_entry.unfinished)
    properties = dict(func.properties)
    properties["num_warps"] = IntegerAttr(4 * plan.warpgroups, i32)
    return aa.FuncOp.create(properties=properties, regions=[Region(entry)], location=func.location)


def agent_registers(kept: ProducerSlice, warpgroups: int) -> tuple[int, int]:
    """Registers of a thread of the producer and of the consumers, who give up what it takes more.

    Both are multiples of 8; one warpgroup of consumers leaves registers over anyway.
    """
    most = CONSUMER_REGISTERS[warpgroups]
    if warpgroups == 1:
        return PRODUCER_REGISTERS + gather_registers(kept.gathers), most
    steps = -(-gather_registers(kept.gathers) // (8 * warpgroups))
    return PRODUCER_REGISTERS + 8 * steps * warpgroups, most - 8 * steps


def _create(block: Block, plan: HopperPlan, number: int) -> SSAValue:
    """A pipeline at the start of the kernel."""
    pipeline = plan.pipelines[number]
    op = pl.CreatePipelineOp.create(
        result_types=[pl.PIPELINE],
        properties={
            "stages": IntAttr(pipeline.stages),
            "slot_bytes": IntAttr(pipeline.bytes),
            "consumers": IntAttr(plan.warpgroups * (4 if plan.is_read_by_warps(pipeline) else 1)),
            "gather_threads": IntAttr(32 * GATHER_WARPS if pipeline.gathers else 0),
        },
    )
    block.add_op(op)
    return op.result
