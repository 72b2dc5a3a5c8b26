"""The roles of a specialised kernel as attributes, and back: see `written`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast, get_args

from xdsl.dialects.builtin import ArrayAttr, UnitAttr
from xdsl.ir import Attribute, Operation

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import (
    BY_ROWS,
    BY_TMA,
    MMA,
    PIPELINE,
    PIPELINES,
    PLAN,
    FilledByAttr,
    KernelPlanAttr,
    PipelinePlanAttr,
    StagedMmaSyncAttr,
    Tcgen05Attr,
    WgmmaAttr,
)
from tileiras.errors import InternalError
from tileiras.planning.mma.instructions import find_instruction
from tileiras.planning.mma.mma_sync import MmaSyncDot
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tcgen05_dots import tcgen05_dot
from tileiras.planning.mma.tcgen05_scaled import tcgen05_scaled_dot
from tileiras.planning.mma.wgmma import Fragments, dot_family
from tileiras.planning.model.dots import PlannedDot, WgmmaDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.pipelines import Pipeline, row_bytes
from tileiras.planning.operands.tma import OperandLoad, shared_operand
from tileiras.planning.operands.tma_stores import TmaWrite
from tileiras.planning.operands.uniform import skipped_bytes
from tileiras.planning.resources.cta import CtaConfig
from tileiras.planning.resources.stages import extra_stages


def write_roles(func: aa.FuncOp, roles: RolePlan, num_warps: int, with_stores: bool = True) -> None:
    """Puts the plan of a specialised kernel into attributes; how it stores if that is decided."""
    shape = roles.shape
    stores: dict[str, int] = {}
    if with_stores:
        stores["stores_delayed"] = int(roles.are_stores_delayed)
        stores["store_warp"] = int(roles.has_store_warp)
    func.attributes[PLAN] = KernelPlanAttr.of(
        num_warps=num_warps,
        warpgroups=shape.warpgroups,
        ctas=shape.ctas,
        producer_warps=shape.producer_warps,
        registers=shape.registers,
        producer_registers=shape.producer_registers,
        consumer_registers=shape.consumer_registers,
        smem_transpose=roles.smem_transpose,
        scratch=roles.scratch,
        **stores,
    )
    func.attributes[PIPELINES] = ArrayAttr([_described(described) for described in roles.pipelines])
    for number, described in enumerate(roles.pipelines):
        _write_contents(number, described)
    for planned in roles.dots.values():
        planned.dot.attributes[MMA] = _written_dot(planned)
    for store in roles.stores:
        store.attributes[BY_TMA] = UnitAttr()
    for scattered in roles.row_stores:
        scattered.attributes[BY_ROWS] = UnitAttr()


def read_roles(func: aa.FuncOp, kernel: KernelPlanAttr, target: GpuTarget) -> RolePlan:
    """The plan of a specialised kernel. Raises InternalError where attributes contradict it."""
    shape = CtaConfig(
        kernel.integer("warpgroups"),
        kernel.integer("ctas"),
        kernel.integer("producer_warps"),
        kernel.integer("registers"),
        kernel.integer("producer_registers"),
        kernel.integer("consumer_registers"),
    )
    return RolePlan(
        shape,
        {planned.dot: planned for planned in _read_dots(func, target)},
        _read_pipelines(func),
        tuple(op for op in func.walk() if isinstance(op, TmaWrite) and BY_TMA in op.attributes),
        kernel.optional_integer("stores_delayed") != 0,
        bool(kernel.integer("store_warp")),
        kernel.integer("smem_transpose"),
        kernel.integer("scratch"),
        tuple(op for op in func.walk() if isinstance(op, aa.StoreOp) and BY_ROWS in op.attributes),
    )


def _described(described: Pipeline) -> PipelinePlanAttr:
    """The pipeline itself, without its loads."""
    values = {
        "bytes": described.bytes,
        "least": described.least,
        "may_grow": int(described.may_grow),
    }
    if described.within is not None:
        values["within"] = described.within
    if ahead := extra_stages(described):
        values["prefetch"] = ahead
    if skipped := skipped_bytes(described):
        values["skipped"] = skipped
    if rows := row_bytes(described):
        values["rows"] = rows
    return PipelinePlanAttr.of(**values)


def _write_contents(number: int, described: Pipeline) -> None:
    """Says at the loads of a pipeline where in it their tiles come."""
    for content, loads in enumerate(described.contents):
        for place, load in enumerate(loads):
            if PIPELINE in load.attributes:
                raise InternalError("two pipelines bring the tile of one load", where="planning")
            where = {"pipeline": number, "content": content, "place": place}
            load.attributes[PIPELINE] = FilledByAttr.of(**where)


def _read_pipelines(func: aa.FuncOp) -> tuple[Pipeline, ...]:
    """The pipelines with the loads that name them."""
    pipelines = func.attributes.get(PIPELINES)
    if not isinstance(pipelines, ArrayAttr):
        raise InternalError("a specialised kernel names no pipelines", where="planning")
    places: dict[tuple[int, int, int], OperandLoad] = {}
    for op in func.walk():
        filled = op.attributes.get(PIPELINE)
        if isinstance(filled, FilledByAttr) and isinstance(op, aa.TiledLoadOp | aa.LoadOp):
            pipeline, content, place = map(filled.integer, FilledByAttr.required)
            places[pipeline, content, place] = op
    contents: dict[int, dict[int, list[OperandLoad]]] = {}
    for (pipeline, content, _), load in sorted(places.items(), key=lambda item: item[0]):
        contents.setdefault(pipeline, {}).setdefault(content, []).append(load)
    return tuple(
        _read_pipeline(described, contents.get(number, {}))
        for number, described in enumerate(pipelines)
    )


def _read_pipeline(described: Attribute, contents: dict[int, list[OperandLoad]]) -> Pipeline:
    """A pipeline with its loads."""
    if not isinstance(described, PipelinePlanAttr) or not contents:
        raise InternalError("a planned pipeline has no loads", where="planning")
    return Pipeline(
        tuple(tuple(loads) for loads in contents.values()),
        described.integer("bytes"),
        described.integer("least"),
        bool(described.integer("may_grow")),
        described.integer("within") if described.has("within") else None,
    )


def _written_dot(planned: PlannedDot) -> Attribute:
    """How a product is computed."""
    if isinstance(planned, Tcgen05Dot):
        own = planned.accumulator
        values: dict[str, int | str] = {
            "column": own.column,
            "columns": own.columns,
            "buffers": own.buffers,
            "load": planned.load_shape,
        }
        if planned.scales:
            values["scales"] = planned.scales_column
        if planned.is_in_turn:
            values["in_turn"] = 1
        if planned.lhs is None:
            values["left"] = planned.left_column
        return Tcgen05Attr.of(**values)
    lhs = "registers" if planned.lhs is None else "smem"
    if isinstance(planned, MmaSyncDot):
        return StagedMmaSyncAttr.of(lhs=lhs, by_rows=int(planned.by_rows))
    fragments = planned.fragments or "none"
    columns = {"by_columns": 1} if planned.by_columns else {}
    return WgmmaAttr.of(lhs=lhs, fragments=fragments, transposed=int(planned.transposed), **columns)


def _read_dots(func: aa.FuncOp, target: GpuTarget) -> Iterator[PlannedDot]:
    """The planned products, those of a loop together."""
    loops: dict[Operation | None, list[aa.ProductOp]] = {}
    for op in func.walk():
        if isinstance(op, aa.ProductOp):
            loops.setdefault(op.parent_op(), []).append(op)
    for dots in loops.values():
        for dot in dots:
            yield read_dot(dot, target)


def read_dot(dot: aa.ProductOp, target: GpuTarget) -> PlannedDot:
    """A product with its operands."""
    mma, rhs = dot.attributes.get(MMA), shared_operand(dot.rhs)
    if isinstance(mma, Tcgen05Attr):
        return _read_tcgen05(dot, mma, target)
    if not isinstance(mma, WgmmaAttr | StagedMmaSyncAttr) or rhs is None:
        raise InternalError("a product of a specialised kernel is not planned", where="planning")
    lhs = shared_operand(dot.lhs) if mma.word("lhs") == "smem" else None
    is_planned = (lhs is None) == (mma.word("lhs") == "registers")
    if isinstance(mma, StagedMmaSyncAttr):
        instruction = find_instruction(dot, target)
        if is_planned and instruction is not None:
            return MmaSyncDot(dot, lhs, rhs, instruction, bool(mma.integer("by_rows")))
    elif isinstance(dot, aa.DotOp):
        family, word = dot_family(dot), mma.word("fragments")
        if is_planned and family is not None and word in (*_fragments(), "none"):
            fragments = None if word == "none" else cast(Fragments, word)
            transposed = bool(mma.integer("transposed"))
            by_columns = mma.has("by_columns")
            return WgmmaDot(dot, lhs, rhs, family, fragments, transposed, by_columns)
    raise InternalError("a product cannot be computed as planned", where="planning")


def _read_tcgen05(dot: aa.ProductOp, mma: Tcgen05Attr, target: GpuTarget) -> Tcgen05Dot:
    """A product with its place in tensor memory."""
    has_scales = isinstance(dot, aa.DotScaledOp)
    planned = tcgen05_scaled_dot(dot, target) if has_scales else tcgen05_dot(dot, target)
    if isinstance(planned, str):
        raise InternalError(f"a product cannot be computed as planned: {planned}", where="planning")
    column, columns, buffers = map(mma.integer, ("column", "columns", "buffers"))
    place = replace(planned.accumulator, column=column, columns=columns, buffers=buffers)
    return replace(
        planned,
        accumulator=place,
        load_shape=mma.word("load"),
        scales_column=mma.integer("scales"),
        left_column=mma.integer("left"),
        is_in_turn=mma.has("in_turn"),
    )


def _fragments() -> tuple[str, ...]:
    """The words for operands that threads read into registers."""
    return get_args(get_args(Fragments)[0])
