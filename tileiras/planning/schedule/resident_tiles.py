"""Tiles that one loop has loaded and later ones read again, kept in shared memory.

Loops beside each other with the same bounds that load the same tiles of a row share a circular
buffer. The first one fills it; where it has room for all tiles of the row, which is known when the
kernel runs, the others find them there. Where it has not, they load them again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType, NoneAttr, TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import is_repeatable
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.errors import required
from tileiras.planning.hints import latency_hint
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad
from tileiras.planning.schedule.prefetch_distance import LoadSchedule, stage_bytes

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget

MOST_BYTES = 64 << 10
"""Policy: shared memory for one row: three tile blocks of an SM have as much."""
MOST_ELEMENTS = 16384
"""Policy: of a row: longer ones are rare, and shared memory that shorter ones do not fill is lost.
"""
MOST_STAGES, MOST_NARROW_STAGES = 16, 12
"""Policy: tiles of a row that are kept, and of elements of less than 32 bits: their CTAs have half
the threads, and an SM should hold many. Layer norm, bf16 in tiles of 1024, us on one H200 with 16,
12 and 8, and torch: 65536x4096 427, 353, 316, 393; 16384x2048 70, 56, 48, 61; 16384x12288 296, 252,
310, 349; 8192x16384 273, 200, 287, 240: twelve is the least that is nowhere slower than torch but
in rows of 32 tiles (decision 0082). f32 with 16 and 8: 32768x4096 376 and 299, but 8192x16384 418
and 536 (decision 0078).
"""
MOST_CTAS = 8
"""Policy: tile blocks that an SM holds where they are clusters."""
LEAST_CTAS = 3
"""Policy: tile blocks that share an SM if the rows of as many fit, at the cost of circular buffers
for other loads: layer norm of 65536x16384 and 2048x8192 f32 on an H200, 2 and 3 of them: 2949, 2610
and 64, 53 us.
"""
MOST_DISTANCE = 8
"""Policy: iterations ahead at most: each is written out before the loop."""

WORD_BITS = 32
"""Fixed: of a register."""
LEAST_STAGES = 4
"""Policy: a circular buffer of fewer keeps too little of a row."""

LoopLoads = tuple[aa.ForOp, list[PipelinedLoad]]


@dataclass(frozen=True)
class ResidentBuffer:
    """A circular buffer that loops share: its number in the kernel, and its stages."""

    number: int
    stages: int


@dataclass(frozen=True)
class ResidentTiles:
    """The circular buffers of a kernel, by the loads that go through them.

    `bytes` is the shared memory of all, `ctas` how many tile blocks share an SM then, `distance`
    how many iterations the loads are started before their own.
    """

    buffers: dict[Operation, ResidentBuffer]
    bytes: int
    ctas: int
    distance: int


def plan_resident_tiles(
    early: Sequence[LoopLoads], threads: int, scratch: int, target: GpuTarget
) -> ResidentTiles | None:
    """Circular buffers for what several loops load; None if there is nothing, or no room for it.

    The tile blocks of an SM are as many as leave each its circular buffers and, beyond three of
    them, two stages for every other load of a loop that brings tiles of its own.
    """
    rows = [row for row in find_rows(early) if _are_worth_it(row)]
    stage = sum(stage_bytes(row[0][1], threads) for row in rows)
    if not stage:
        return None
    longest = max(_elements(row[0][1]) for row in rows)
    most = min(_most_stages(row[0][1]) for row in rows)
    stages = min(most, MOST_BYTES // stage, MOST_ELEMENTS // longest)
    rows = [row for row in rows if _step_of(row[0][0], stages) is not None]
    if stages < LEAST_STAGES or not rows:
        return None
    buffers: dict[Operation, ResidentBuffer] = {}
    for number, row in enumerate(rows):
        buffer = ResidentBuffer(number, stages)
        buffers.update((load.op, buffer) for _, load in row)
    others = max(
        sum(2 * stage_bytes(load, threads) for load in _beside(loads, buffers))
        for _, loads in early
    )
    total = stages * stage
    ctas = MOST_CTAS
    while ctas > LEAST_CTAS and target.shared_memory_of_each(ctas) < total + others + scratch:
        ctas -= 1
    while ctas > 1 and target.shared_memory_of_each(ctas) < total + scratch:
        ctas -= 1
    if target.shared_memory_of_each(ctas) < total + scratch:
        return None
    in_flight = target.performance.memory_bytes_in_flight
    distance = max(2, min(MOST_DISTANCE, stages - 1, -(-in_flight // (ctas * stage))))
    return ResidentTiles(buffers, total, ctas, distance)


def _beside(loads: Sequence[PipelinedLoad], buffers: Container[Operation]) -> list[PipelinedLoad]:
    """The loads of a loop that get a circular buffer of their own beside those of resident tiles.

    What all tile blocks load comes from L1 or L2 soon enough: memory for it costs tile blocks.
    Layer norm of bf16, with stages for weights and without, us on one H200: 65536x16384 1195 and
    1111, 65536x8192 690 and 603; with rows of 64 KB, which find no room, 181 and 213 (decision 71).
    """
    return [load for load in loads if load.op not in buffers and not load.shared]


def _most_stages(load: PipelinedLoad) -> int:
    """Tiles of a row that are kept, at most."""
    bits = storage_bits(view_type_of(load.op.view).memref.element_type)
    return MOST_NARROW_STAGES if bits < WORD_BITS else MOST_STAGES


def _elements(load: PipelinedLoad) -> int:
    """Elements of a tile."""
    type = load.op.result.type
    return prod(type.get_shape()) if isinstance(type, TensorType) else 1


def schedule_beside_resident(
    loads: Sequence[PipelinedLoad], resident: ResidentTiles, threads: int, smem: int
) -> LoadSchedule:
    """The loads of a loop with smem-resident tiles; others go as far ahead if there is room, or
    stay.
    """
    beside = _beside(loads, resident.buffers)
    loads = [load for load in loads if load.op in resident.buffers or load in beside]
    others = sum(stage_bytes(load, threads) for load in beside)
    distance = min(resident.distance, smem // others - 1) if others else resident.distance
    if distance < 1:
        loads = [load for load in loads if load.op in resident.buffers]
        distance, others = resident.distance, 0
    return LoadSchedule(tuple(loads), distance, 0, 0, (distance + 1) * others)


def _are_worth_it(row: Sequence[tuple[aa.ForOp, PipelinedLoad]]) -> bool:
    """Whether blocks load different tiles, and no hint says how far ahead they are to be loaded."""
    hints = [latency_hint(load.op) for _, load in row]
    return not row[0][1].shared and all(hint is None or hint <= 0 for hint in hints)


def _step_of(loop: aa.ForOp, stages: int) -> int | None:
    """The loop's step if it is known, and as many steps as there are stages do not overflow."""
    maker, type = loop.step.owner, loop.step.type
    if not isinstance(maker, aa.ConstantOp) or not isinstance(type, IntegerType):
        return None
    step = int.from_bytes(maker.value.raw.data, "little")
    return step if 0 < step * stages < 1 << (type.width.data - 1) else None


def has_span(loop: aa.ForOp, stages: int) -> bool:
    """Whether `span_of_stages` is known."""
    return _step_of(loop, stages) is not None


def span_of_stages(loop: aa.ForOp, stages: int) -> int:
    """By how much the counter of a loop grows in as many iterations as there are stages."""
    step = required(_step_of(loop, stages), "tiles of a loop with an unknown step are kept")
    return step * stages


def find_rows(early: Sequence[LoopLoads]) -> list[list[tuple[aa.ForOp, PipelinedLoad]]]:
    """Loads of the same tiles in loops beside each other: of each, two or more in program order."""
    rows: list[list[tuple[aa.ForOp, PipelinedLoad]]] = []
    for loop, loads in early:
        for load in loads:
            row = next((row for row in rows if _continues(row, loop, load)), None)
            if row is None:
                rows.append([(loop, load)])
            else:
                row.append((loop, load))
    return [row for row in rows if len(row) > 1]


def _continues(
    row: Sequence[tuple[aa.ForOp, PipelinedLoad]], loop: aa.ForOp, load: PipelinedLoad
) -> bool:
    """Whether a load of a loop reads what the loads of other loops before it have read."""
    first_loop, first = row[0]
    if any(other is loop for other, _ in row) or first_loop.parent is not loop.parent:
        return False
    if loop.unsigned_cmp != first_loop.unsigned_cmp:
        return False
    if list(loop.operands[:3]) != list(first_loop.operands[:3]):
        return False
    # What the later load must follow, the earlier one does, or it is nothing.
    tokens = [t for t in load.tokens if not isinstance(t.owner, aa.CreateMemTokenOp)]
    if any(token not in first.tokens for token in tokens):
        return False
    if first.op.properties.get("inbounds") != load.op.properties.get("inbounds"):
        return False
    if not _are_same_tiles(first.op.view, load.op.view):
        return False
    bodies = first_loop.body.block, loop.body.block
    return len(first.op.indices) == len(load.op.indices) and all(
        _are_equal(one, other, bodies)
        for one, other in zip(first.op.indices, load.op.indices, strict=True)
    )


def _are_same_tiles(first: SSAValue, second: SSAValue) -> bool:
    """Whether views have the same tiles; beyond the bounds any padding will do if none is asked."""
    if first is second:
        return True
    one, other = first.owner, second.owner
    if not isinstance(one, aa.BlockTileOp) or not isinstance(other, aa.BlockTileOp):
        return False
    pairs = zip(view_type_of(first).parameters, view_type_of(second).parameters, strict=True)
    is_padded = not isinstance(view_type_of(second).padding, NoneAttr)
    differ = [theirs for mine, theirs in pairs if mine != theirs]
    if one.memref is not other.memref:
        return False
    return not differ or (not is_padded and all(isinstance(other, NoneAttr) for other in differ))


def _are_equal(first: SSAValue, second: SSAValue, bodies: tuple[Block, Block]) -> bool:
    """Whether values of two bodies are the same in the same iteration."""
    if first is second:
        return True
    if first is bodies[0].args[0]:
        return second is bodies[1].args[0]
    if not isinstance(first, OpResult) or not isinstance(second, OpResult):
        return False
    one, other = first.op, second.op
    if type(one) is not type(other) or one.properties != other.properties or one.regions:
        return False
    if first.type != second.type or first.index != second.index or not is_repeatable(one):
        return False
    if one.parent is not bodies[0] or other.parent is not bodies[1]:
        return False
    return len(one.operands) == len(other.operands) and all(
        _are_equal(a, b, bodies) for a, b in zip(one.operands, other.operands, strict=True)
    )
