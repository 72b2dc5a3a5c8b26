"""Which loads of loops are prefetched, for kernels whose warps all do the same, and how far ahead.

Tiles are copied to shared memory by cp.async some iterations before they are used. (Registers would
not do: handing a loaded register on to the next iteration waits for it.) The shared memory that it
takes is what the tile blocks of an SM leave, half of it: the other half is the L1 cache (persistent
kernels, which read everything once, may take all; so may operands that products read in there).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from xdsl.ir import Operation

from tileiras.analysis.persistent import walks_over_blocks
from tileiras.analysis.register_pressure import block_pressure
from tileiras.codegen.target import GpuTarget
from tileiras.codegen.target.features import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bits, value_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.access import LINE_BYTES, plan_view_access
from tileiras.planning.hints import integer_hint
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.operands.smem import stage_layout
from tileiras.planning.operands.tma import transparent_users, underneath
from tileiras.planning.resources.smem import (
    ROUND_BYTES,
    calls_runtime,
    least_bytes,
    scratch_bytes,
)
from tileiras.planning.resources.warps import adds_up_columns, only_combines_tiles, plan_cta
from tileiras.planning.schedule.costs import TileCosts
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad, find_pipelined_loads
from tileiras.planning.schedule.prefetch_distance import (
    STREAMED_BYTES,
    STREAMED_BYTES_IN_CLUSTERS,
    STREAMED_DISTANCE,
    LoadSchedule,
    SmemEstimate,
    deepened,
    schedule_light_loop,
    schedule_loads,
    stage_bytes,
)
from tileiras.planning.schedule.resident_tiles import (
    ResidentTiles,
    plan_resident_tiles,
    schedule_beside_resident,
)
from tileiras.planning.schedule.smem_operands import schedule_operands
from tileiras.planning.schedule.unrolled_loads import schedule_unrolled, waits_in_registers

WORK_REGISTERS = 40
"""Policy: registers of a thread for addresses, predicates, scalars and intermediate results."""
MOST_CTAS = 8
"""Policy: CTAs of an SM that loads are planned for at most. It holds up to 32 small ones; none of
the benchmark's kernels changes if so many are planned for."""
PERSISTENT_CTAS = 2
"""Policy: tile blocks of a persistent kernel for which an SM has room, unless `occupancy` says it.

Memory has to be kept busy by one of them: often there are no more of them than SMs."""
CTAS_DOWN_COLUMNS = 2
"""Policy: the same for loops that reduce columns: there are as many as tiles of columns."""
BYTES_DOWN_COLUMNS = 48 * 1024
"""Policy: bytes on their way of one of them."""
BYTES_SCANNED, BYTES_SCANNED_NARROW = 32 * 1024, 48 * 1024
"""Policy: the same where columns are scanned, of elements of 32 and of 16 bits. Prefix sums of
8192x8192, us on one H200 with 24, 32, 40, 48, 64 KB: f32 64x64 133.5, 134.4, 142.0, 142.4, 143.2;
64x128 133.4, 133.3, 140.7, 142.8, 142.8; f16 64x64 80.4, 74.8, 71.1, 71.2, 74.4; 32x64 80.8, 75.3,
70.7, 69.2, 69.0; 64x128 80.2, 74.5, 71.1, 70.7, 72.8.
"""
BYTES_OF_SHORT_ROWS = 16 * 1024
"""Policy: the same of rows that are shorter than a line: there are as many more tile blocks. f16
128x32, us with 16, 24, 32, 48 KB: 74.6, 84.3, 88.1, 86.2; 64x32 74.4, 82.5, 86.6, 85.9.
"""
NARROW_BITS = 16
"""Policy: of narrow elements."""
LEAST_DOWN_COLUMNS = 2 * 1024
"""Policy: bytes that a loop loads in an iteration to combine rows: a grid may have so few tile
blocks that each is alone on its SM. Twice as many where the CTAs of a cluster divide the loop. us
on one H200, with as many iterations ahead as for others and as for one alone: sums of the columns
of 8192x8192 f16, in clusters, tiles of 32x64 41.3 and 37.5, 64x32 63 and 46, 16x64 34.2 and 41.4;
f32 16x128 83.7 and 70.1; argmax f16 16x64 65.5 and 45.9 (decision 0085).
"""
LEAST_COPY_BITS = 32
"""Fixed: cp.async copies 4, 8 or 16 bytes."""


@dataclass(frozen=True)
class PrefetchPlan:
    """The loops whose loads are prefetched, outer ones first, each with its schedule.

    `num_warps`: of the kernel. `resident`: circular buffers that loops share. `candidates`: how
    many loads could be prefetched, if there were room and gain. `frees_stages`: what follows the
    last loop finds room in the memory of its tiles.
    """

    num_warps: int
    loops: tuple[tuple[aa.ForOp, LoadSchedule], ...]
    resident: ResidentTiles | None
    candidates: int
    frees_stages: bool


def plan_prefetch(func: aa.FuncOp, target: GpuTarget) -> PrefetchPlan | None:
    """The loads of a kernel that start in earlier iterations; None if no load could.

    CTAs that keep sums for their tile blocks (`sharer_ctas`) read each row twice: they get no
    stages, and L1 has the memory (decision 0082).
    """
    if not target.has(Feature.CP_ASYNC) or func.sharer_ctas is not None:
        return None
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    early = [(loop, find_pipelined_loads(loop)) for loop in loops]
    if not any(loads for _, loads in early) or any(calls_runtime(op) for op in func.walk()):
        return None
    target = _beside_sent_tiles(func, target)
    plan = plan_cta(func, target)
    early = [(loop, [load for load in loads if _can_copy(load, plan)]) for loop, loads in early]
    in_stages = _read_in_stages((load for _, loads in early for load in loads), plan)
    least = max((least_bytes(op) for op in func.walk()), default=0)
    resident = plan_resident_tiles(early, 32 * plan.num_warps, least, target)
    others = [op for op in func.walk() if op not in in_stages]
    smem = _SharedMemory(
        func,
        plan,
        in_stages,
        resident,
        max(map(scratch_bytes, others), default=0),
        least,
        _scratch_in_loops([loop for loop, _ in early], func, in_stages),
    )
    taken: dict[Operation, int] = {}
    found: list[tuple[aa.ForOp, LoadSchedule]] = []
    for loop, loads in early:
        schedule = smem.schedule(loop, loads, _taken_around(loop, taken)) if loads else None
        if schedule is not None:
            taken[loop] = schedule.bytes
            found.append((loop, schedule))
    candidates, are_freed = sum(len(loads) for _, loads in early), _are_stages_freed(func, found)
    return PrefetchPlan(plan.num_warps, tuple(found), resident, candidates, are_freed)


@dataclass(frozen=True)
class _SharedMemory:
    """What a kernel leaves for stages: beside `scratch`, or only what operations need at `least`.

    Loads `in_stages` are read there by products; then what follows the last loop needs nothing
    beside the stages, and `scratch_in_loops` counts.
    """

    func: aa.FuncOp
    plan: CtaPlan
    in_stages: Mapping[Operation, None]
    resident: ResidentTiles | None
    scratch: int
    least: int
    scratch_in_loops: int

    def schedule(
        self, loop: aa.ForOp, loads: list[PipelinedLoad], taken: int
    ) -> LoadSchedule | None:
        """How far ahead the loads of a loop start; loops around it have `taken` some memory."""
        resident, func, plan = self.resident, self.func, self.plan
        costs = TileCosts(32 * plan.num_warps, plan.target)
        if resident is not None:
            taken += resident.bytes
            if any(load.op in resident.buffers for load in loads):
                smem = self._each(taken + self.least, resident.ctas)
                return schedule_beside_resident(loads, resident, costs.threads, smem)
        shared = [load for load in loads if load.op in self.in_stages]
        if shared:
            ctas, beside = _ctas(func, loop, plan, self.in_stages), taken + self.scratch_in_loops
            found = schedule_operands(
                loads, shared, costs.threads, ctas, partial(self._each, beside)
            )
            if found is not None:
                return found
        most = _ctas(func, loop, plan)
        counts = range(most if _is_asked_for(func) else 1, most + 1)
        each = partial(self._each, taken + self.least)
        each_time = sum(stage_bytes(load, costs.threads) for load in loads)
        least = LEAST_DOWN_COLUMNS * (2 if func.cluster_size > 1 else 1)
        is_alone = adds_up_columns(loop, 1) and each_time >= least
        streams = only_combines_tiles(loop) or is_alone
        if streams and not waits_in_registers(loop, loads, costs):
            is_divided = func.cluster_size > 1 and func.clustered is None
            streamed = STREAMED_BYTES_IN_CLUSTERS if is_divided else STREAMED_BYTES
            found = schedule_light_loop(loop, loads, costs, counts, each, streamed, is_alone)
            if found is not None:
                return found
        if not _is_asked_for(func) and _scans_down_columns(loop):
            alone = self._each(taken + self.scratch, CTAS_DOWN_COLUMNS)
            found = schedule_loads(loop, loads, costs, SmemEstimate(alone, 1))
            if found is not None:
                wanted = max(map(_bytes_scanned, loads))
                return deepened(found, wanted, alone, costs.threads, STREAMED_DISTANCE)
        smem = _smem_estimate(func, loop, plan, taken + self.scratch)
        found = schedule_loads(loop, loads, costs, smem)
        if found is not None and _has_warps_beside(loop, plan):
            return deepened(found, BYTES_DOWN_COLUMNS, smem.bytes, costs.threads)
        if found is not None:
            return found
        if waits_in_registers(loop, loads, costs):
            return schedule_unrolled(loads, costs)
        found = schedule_light_loop(loop, loads, costs, counts, each)
        if found is not None or _is_asked_for(func) or not _may_be_alone(loop):
            return found
        alone = self._each(taken + self.scratch, CTAS_DOWN_COLUMNS)
        found = schedule_loads(loop, loads, costs, SmemEstimate(alone, 1))
        return found and deepened(found, BYTES_DOWN_COLUMNS, alone, costs.threads)

    def _each(self, taken: int, ctas: int) -> int:
        """Shared memory of each of so many tile blocks of an SM."""
        return self.plan.target.shared_memory_of_each(ctas) - taken


def _beside_sent_tiles(func: aa.FuncOp, target: GpuTarget) -> GpuTarget:
    """The target without the shared memory that tiles of a cluster's CTAs take in one of them."""
    shared = (op for op in func.walk() if isinstance(op, aa.ShareTilesOp))
    sent = func.cluster_size * sum(value_bytes(tile) for op in shared for tile in op.tiles)
    return replace(target, static_shared_limit=target.static_shared_limit - sent)


def _taken_around(loop: aa.ForOp, taken: dict[Operation, int]) -> int:
    """Shared memory that loops around this one have taken; loops side by side use the same."""
    total, parent = 0, loop.parent_op()
    while parent is not None:
        total += taken.get(parent, 0)
        parent = parent.parent_op()
    return total


def _can_copy(load: PipelinedLoad, plan: CtaPlan) -> bool:
    """Whether the tile can be copied in pieces that cp.async takes."""
    bits = storage_bits(view_type_of(load.op.view).memref.element_type)
    access = plan_view_access(load.op.view, plan.num_warps)
    return bits >= 8 and access.vector * bits >= LEAST_COPY_BITS


def _read_in_stages(loads: Iterable[PipelinedLoad], plan: CtaPlan) -> dict[Operation, None]:
    """The loads of whose tiles products read the copies, and what stands between."""
    found: dict[Operation, None] = {}
    for load in loads:
        if stage_layout(load.op, plan) is not None:
            found[load.op] = None
            found.update(dict.fromkeys(transparent_users(load.op)))
    return found


def _are_stages_freed(func: aa.FuncOp, found: Sequence[tuple[aa.ForOp, LoadSchedule]]) -> bool:
    """Whether what follows the last loop may have the memory of its tiles, and that is enough.

    Only where threads meet behind loops: they do if products read tiles in shared memory.
    """
    if not any(schedule.shared for _, schedule in found):
        return False
    loop, last = found[-1]
    if loop.parent_op() is not func:
        return False
    following: list[Operation] = []
    op = loop.next_op
    while op is not None:
        following += op.walk()
        op = op.next_op
    size = (last.distance + 1) * sum(value_bytes(load.op.result) for load in last.loads)
    return _find_room(following, size)


def _find_room(following: Sequence[Operation], size: int) -> bool:
    """Whether operations find room in so many bytes; products may want any number of them."""
    if any(isinstance(op, aa.ProductOp) for op in following):
        return False
    return max(map(least_bytes, following), default=0) <= size


def _scratch_in_loops(
    loops: Sequence[aa.ForOp], func: aa.FuncOp, in_stages: Mapping[Operation, None]
) -> int:
    """Memory that operations want up to the end of the last loop, beside loads that stay in stages.

    What follows has the memory of the stages, if it finds room in two of each.
    """
    inside, ops = list(func.walk()), list(func.body.block.ops)
    if loops and all(loop.parent_op() is func for loop in loops):
        end = max(number for number, op in enumerate(ops) if op in loops) + 1
        following = [op for outer in ops[end:] for op in outer.walk()]
        last = [op for op in ops[end - 1].walk() if op in in_stages]
        tiles = [op.result for op in last if isinstance(op, aa.TiledLoadOp)]
        if _find_room(following, 2 * sum(map(value_bytes, tiles))):
            inside = [op for outer in ops[:end] for op in outer.walk()]
    staged = [_staged_bytes(op, in_stages) for op in inside if isinstance(op, aa.ProductOp)]
    others = [scratch_bytes(op) for op in inside if op not in in_stages]
    return max([*staged, *others], default=0)


def _staged_bytes(dot: aa.ProductOp, in_stages: Mapping[Operation, None]) -> int:
    """Memory for the operands of a product that are not read in stages, in a few parts of K."""
    operands = [v for v in (dot.lhs, dot.rhs) if underneath(v).owner not in in_stages]
    return min(ROUND_BYTES, sum(map(value_bytes, operands)))


def _ctas(func: aa.FuncOp, loop: aa.ForOp, plan: CtaPlan, ignored: Iterable[Operation] = ()) -> int:
    """Tile blocks on an SM, as far as registers go and `occupancy` asks; `ignored` takes none."""
    target, threads = plan.target, 32 * plan.num_warps
    free = [result for op in ignored for result in op.results]
    registers = block_pressure(loop.body.block, free) // threads + WORK_REGISTERS
    ctas = min(MOST_CTAS, 32 * target.max_warps_per_sm // threads)
    ctas = max(1, min(ctas, target.registers_per_sm // (threads * registers)))
    if func.apart is not None:
        return 1
    occupancy = integer_hint(func, "occupancy")
    if occupancy is not None and occupancy > 0:
        return min(ctas, occupancy)
    if _has_warps_beside(loop, plan):
        return min(ctas, CTAS_DOWN_COLUMNS)
    return min(ctas, PERSISTENT_CTAS) if walks_over_blocks(loop) else ctas


def _has_warps_beside(loop: aa.ForOp, plan: CtaPlan) -> bool:
    """Whether a loop reduces columns without going through shared memory (`warps_beside`)."""
    from tileiras.planning.column_loops import column_dim, large_loads
    from tileiras.planning.layouts.combining import warps_beside

    dim = column_dim(loop)
    if dim is None:
        return False
    for load in large_loads(loop):
        layout = plan_view_access(load.view, plan.num_warps).layout
        bits = storage_bits(view_type_of(load.view).memref.element_type)
        if warps_beside(layout, dim, bits) == layout:
            return False
    return True


def _scans_down_columns(loop: aa.ForOp) -> bool:
    """Whether a loop scans columns, of which there are as many tile blocks as tiles beside."""
    if not any(isinstance(op, aa.ScanOp) for op in loop.body.block.ops):
        return False
    from tileiras.planning.column_loops import scans_down_columns

    return scans_down_columns(loop)


def _bytes_scanned(load: PipelinedLoad) -> int:
    """Bytes on their way of tiles that are scanned down columns."""
    view = view_type_of(load.op.view)
    bits, row = storage_bits(view.memref.element_type), view.tile_shape[-1]
    if row * bits < 8 * LINE_BYTES:
        return BYTES_OF_SHORT_ROWS
    return BYTES_SCANNED_NARROW if bits <= NARROW_BITS else BYTES_SCANNED


def _may_be_alone(loop: aa.ForOp) -> bool:
    """Whether a loop scans tiles so large that an SM may have one tile block."""
    if not any(isinstance(op, aa.ScanOp) for op in loop.body.block.ops):
        return False
    from tileiras.planning.column_loops import scans_large_tiles

    return scans_large_tiles(loop)


def _is_asked_for(func: aa.FuncOp) -> bool:
    """Whether the kernel says how many tile blocks an SM shall have."""
    return (integer_hint(func, "occupancy") or 0) > 0


def _smem_estimate(func: aa.FuncOp, loop: aa.ForOp, plan: CtaPlan, taken: int) -> SmemEstimate:
    """Shared memory that loads may take, and how many tile blocks share an SM."""
    target, ctas = plan.target, _ctas(func, loop, plan)
    if not _is_asked_for(func) and (walks_over_blocks(loop) or _has_warps_beside(loop, plan)):
        return SmemEstimate(target.shared_memory_of_each(ctas) - taken, 1)
    half = target.shared_memory_per_sm // (2 * ctas)
    return SmemEstimate(min(half, target.shared_memory_of_each(ctas)) - taken, ctas)
