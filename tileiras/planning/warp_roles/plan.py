"""Whether and how a kernel is specialised: a producer that copies, warpgroups computing.

Asked of a kernel: a matrix product inside a loop whose right operand (and left, or one in
registers) can come by TMA or be gathered by cp.async; rows for whole warpgroups; registers for the
accumulators; and addresses that the producer can compute by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.planning.memory_order import follows_write, precedes_write
from tileiras.planning.mma.strategy import MmaStrategy, pipelined_strategies
from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.operands.rows import rows_beside
from tileiras.planning.operands.tma import OperandLoad, place_bytes, tile_uses
from tileiras.planning.resources.cta import choose_cta_config
from tileiras.planning.resources.requirements import requirements_of
from tileiras.planning.resources.smem import calls_runtime, scratch_bytes
from tileiras.planning.resources.stage_groups import stage_groups, stage_operands
from tileiras.planning.warp_roles.producer_layouts import producer_layouts
from tileiras.planning.warp_roles.producer_slice import SlicedAccess, producer_slice

NO_STRATEGY = "none"
"""In place of a strategy's name."""
MAX_SCRATCH_BYTES = 32 * 1024
"""Policy: shared memory that a single operation may want at once."""


@dataclass(frozen=True)
class Choice:
    """The first strategy that can compute a kernel, or none; why those before it cannot."""

    name: str
    plan: RolePlan | None
    refusals: Mapping[str, str]


def plan_roles(func: aa.FuncOp, target: GpuTarget) -> Choice:
    """How a kernel would be specialised; by none where another way is better or the only one.

    Only `planning.strategy` asks: everybody else reads what it has written on the kernel.
    """
    refusals: dict[str, str] = {}
    if not target.has(Feature.TMA) or _is_for_all_warps(func):
        return Choice(NO_STRATEGY, None, refusals)
    for strategy in pipelined_strategies(target):
        plan = _plan_by(strategy, func, target)
        if not isinstance(plan, str):
            return Choice(strategy.name, plan, refusals)
        refusals[strategy.name] = plan
    return Choice(NO_STRATEGY, None, refusals)


def _is_for_all_warps(func: aa.FuncOp) -> bool:
    """Whether operations of the kernel rule warp roles out, whatever computes its products."""
    if any(calls_runtime(op) or scratch_bytes(op) > MAX_SCRATCH_BYTES for op in func.walk()):
        return True
    # Pipelined loads would be left operands in registers, beside the pipelines.
    return any(isinstance(op, aa.CircularBufferOp) for op in func.walk())


def _plan_by(strategy: MmaStrategy, func: aa.FuncOp, target: GpuTarget) -> RolePlan | str:
    """The plan with one strategy for all products, or why it cannot be."""
    if strategy.has_product_warp and func.cluster_axis is not None:
        return "CTAs of a cluster exchange results"
    if strategy.has_product_warp and func.two_tiles is not None:
        return "tiles that are computed at once may turn out to be the same"
    dots = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    chosen = strategy.plan(dots, target)
    if not chosen:
        return "there are no products"
    if isinstance(chosen, str):
        return chosen
    loops: dict[Operation | None, list[PlannedDot]] = {}
    for planned in chosen:
        loops.setdefault(planned.dot.parent_op(), []).append(planned)
    loops = strategy.oriented(func, loops)
    chosen = [planned for dots in loops.values() for planned in dots]
    if not _resident_for_products_only(chosen) or any(
        map(_transposes_what_others_read, loops.values())
    ):
        return "a tile in a stage is read by others than products"
    # The memory for tiles transposed through shared memory is divided among warpgroups, or by tiles
    # that follow each other.
    if len({planned.operand_bits for planned in chosen if planned.is_smem_transposed}) > 1:
        return "operands of different sizes are transposed"
    pipelines = _pipelines(
        list(loops.values()), func.two_tiles.data if func.two_tiles is not None else ""
    )
    requirements = requirements_of(func, loops, pipelines)
    shape = choose_cta_config(requirements, target)
    if shape is None:
        return "no CTA has the registers and the shared memory"
    gathers = any(pipeline.gathers for pipeline in pipelines)
    shape = strategy.shaped(shape, target, gathers, chosen)
    allotted = strategy.allotted(chosen, shape, target)
    if isinstance(allotted, str):
        return allotted
    if gathers and not target.has(Feature.CP_ASYNC):
        return "an operand would be gathered, and there is no cp.async"
    products: dict[Operation, PlannedDot] = {planned.dot: planned for planned in allotted}
    loads = [load for pipeline in pipelines for load in pipeline.loads]
    refusal = _why_not_by_others(func, loads)
    if not refusal and strategy.has_product_warp:
        refusal = _why_not_by_others(func, [planned.dot for planned in allotted])
    if refusal:
        return refusal
    smem_transpose = requirements.smem_transpose[shape.warpgroups]
    return RolePlan(
        shape, products, pipelines, smem_transpose=smem_transpose, scratch=requirements.scratch
    )


def _why_not_by_others(func: aa.FuncOp, accesses: Sequence[SlicedAccess]) -> str:
    """Why other warps than the consumers cannot walk the loops around copies or products."""
    kept = producer_slice(func, accesses)
    if kept is None or producer_layouts(kept) is None:
        return "the way to an operand depends on what only all warps together compute"
    if any(follows_write(op) for op in (*kept.own_loads, *_loads(accesses))):
        return "a load comes after a write"
    if any(precedes_write(load) for load in kept.own_loads):
        return "a write comes after a load that leads to an operand"
    return ""


def _is_for_producer(load: aa.TiledLoadOp) -> bool:
    """Whether a warp of its own can walk the loops around a load."""
    func = enclosing(load, aa.FuncOp)
    return isinstance(func, aa.FuncOp) and not _why_not_by_others(func, [load])


def _loads(accesses: Sequence[SlicedAccess]) -> list[OperandLoad]:
    return [op for op in accesses if isinstance(op, aa.TiledLoadOp | aa.LoadOp)]


def _transposes_what_others_read(dots: list[PlannedDot]) -> bool:
    """Whether a stage is handed back when its tile is transposed, though another product reads
    it.
    """
    groups = [group for group in stage_groups(dots) if len(group) > 1]
    return any(planned.is_smem_transposed for group in groups for planned in group)


def _uses(load: OperandLoad) -> int:
    """How many operations read the loaded tile, those that a product sees through aside."""
    return len(list(tile_uses(load)))


def _resident_for_products_only(dots: list[PlannedDot]) -> bool:
    """Whether the left operands that stay in their stages are read by planned products alone."""
    readers: dict[OperandLoad, int] = {}
    for planned in dots:
        if planned.lhs is not None and planned.is_lhs_resident:
            readers[planned.lhs.load] = readers.get(planned.lhs.load, 0) + 1
    return all(_uses(load) <= count for load, count in readers.items())


def _pipelines(loops: list[list[PlannedDot]], two_tiles: str) -> tuple[Pipeline, ...]:
    """A pipeline per product of a loop, or per several that share tiles; kept operands have one
    stage.

    Loops share pipelines. A product that is still running keeps its stage while the next one waits
    for another. In a kernel whose tiles are `two_tiles` in rounds a loop with one tile has the
    pipeline of one with two; where a CTA computes two tiles, it has a pipeline of its own in the
    same memory. So does a loop behind rounds whose tiles are rows of one. What is left of a loop
    with joined iterations has the loop's pipelines.
    """

    def are_shared(planned: PlannedDot) -> bool:
        loop = planned.dot.parent_op()
        is_in_rounds = loop is not None and not isinstance(loop.parent_op(), aa.FuncOp)
        return two_tiles == "rounds" or (two_tiles == "rows" and is_in_rounds)

    pipelines: dict[tuple[int, int], list[tuple[OperandLoad, ...]]] = {}
    least: dict[tuple[int, int], int] = {}
    sizes: dict[tuple[int, int], int] = {}
    kept: dict[OperandLoad, Pipeline] = {}
    taken: dict[OperandLoad, None] = {}
    for dots in loops:
        for planned in dots:
            if planned.lhs is not None and planned.is_lhs_resident:
                load = planned.lhs.load
                kept[load] = Pipeline(((load,),), planned.lhs.bytes, 1, False)
        for position, group in enumerate(stage_groups(dots)):
            operands = stage_operands(group)
            free = (load for load in rows_beside(group) if load not in taken)
            beside = list(filter(_is_for_producer, free))
            taken.update(dict.fromkeys(beside))
            loads = (*operands, *beside)
            size = sum(map(place_bytes, loads))
            key = (position, 0 if are_shared(dots[0]) else size)
            if _is_remainder(dots[0]):
                key = next((known for known in pipelines if known[0] == position), key)
            pipelines.setdefault(key, []).append(loads)
            sizes[key] = max(size, sizes.get(key, 0))
            may_run = all(
                planned.lhs is not None and isinstance(planned.dot.acc, BlockArgument)
                for planned in group
            )
            stages = 2 if may_run else 1
            least[key] = max(stages, least.get(key, 1))
    is_within = two_tiles in ("blocks", "rows")
    places = _places_within(pipelines, sizes) if is_within else [None] * len(pipelines)
    shared = [
        Pipeline(tuple(of), sizes[key], least[key], True, within)
        for (key, of), within in zip(pipelines.items(), places, strict=True)
    ]
    return (*shared, *kept.values())


def _is_remainder(planned: PlannedDot) -> bool:
    """Whether a product is one of what two iterations at a time have left."""
    loop = planned.dot.parent_op()
    return loop is not None and REMAINDER in loop.attributes


def _places_within(
    pipelines: Iterable[tuple[int, int]], sizes: Mapping[tuple[int, int], int]
) -> list[int | None]:
    """For pipelines by position: the largest of the position, if that is another one."""
    keys = list(pipelines)
    by_size = sorted(enumerate(keys), key=lambda pipeline: sizes[pipeline[1]])
    largest = {position: number for number, (position, _) in by_size}
    found = [largest[position] for position, _ in keys]
    return [None if first == number else first for number, first in enumerate(found)]
