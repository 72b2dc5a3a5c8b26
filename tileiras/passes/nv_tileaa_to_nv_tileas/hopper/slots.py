"""How many slots the rings get: what is left beside the consumers' other shared memory.

Decided when the consumers' program is placed, so that what it needs is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.codegen.atoms.store_pieces import store_bytes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.plans import SharedMemory
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.errors import InternalError
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.operands.uniform import spared_bytes
from tileiras.planning.resources.cta import (
    FIXED_BYTES,
    LEAST_SCRATCH,
    SLOT_BARRIER_BYTES,
    RingDemand,
    most_slots,
    ring_stages,
)
from tileiras.planning.resources.smem import least_bytes, sent_bytes
from tileiras.planning.resources.stages import slots_ahead

BARRIER_BYTES = 384
"""Shared memory of a CTA for mbarriers, a pointer to the tensor maps, and gaps."""
STORE_BARRIER_BYTES = 128
"""Shared memory for the mbarriers of a store agent's first buffers and tensor maps."""
GAP_BYTES = 128
"""For other mbarriers, a pointer to the tensor maps, and gaps."""
MAP_BYTES = 128
MOST_SCRATCH = 16 * 1024
"""Larger layout changes are done in rounds, for the rings' sake."""


class RingsDoNotFitError(Exception):
    """The placed consumers hold more slots at once than the shape of the CTA has room for."""

    def __init__(self, held: tuple[int, ...]):
        super().__init__(f"slots held at once: {held}")
        self.held = held


def choose_stages(
    pipelines: Sequence[SSAValue],
    plan: HopperPlan,
    body: Block,
    maps: int,
    available: int,
    cluster_size: int,
) -> int:
    """Gives every pipeline its slots; `body` is the consumers' program. Returns the bytes left.

    `maps` tensor maps are made in shared memory, `cluster_size` CTAs may send tiles. Raises
    RingsDoNotFitError where the plan knew too little of that program.
    """
    rings = _demands(pipelines, plan, body)
    available -= _bytes_beside(plan, body, maps, rings)
    wanted = min(MOST_SCRATCH, placed_scratch_bytes(body))
    needed = min(plan.scratch, placed_least_bytes(body))
    numbers = [number for number, ring in enumerate(plan.pipelines) if ring.within is None]
    own = [rings[number] for number in numbers]
    stages = _stages(own, available, plan.scratch, wanted)
    if stages is None or _is_tight(own, stages):
        stages = _stages(own, available, needed, wanted)
    if stages is None:
        raise RingsDoNotFitError(tuple(ring.least for ring in rings))
    sizes = [ring.slot_bytes * count for ring, count in zip(own, stages, strict=True)]
    if beside := _sent_beside(body, plan.shape.consumer_warps, cluster_size, max(sizes, default=0)):
        available -= beside
        stages = _stages(own, available, min(plan.scratch, wanted), wanted)
        if stages is None:
            raise RingsDoNotFitError(tuple(ring.least for ring in rings))
    chosen = dict(zip(numbers, stages, strict=True))
    chosen |= _stages_within(plan, rings, chosen)
    for number, value in enumerate(pipelines):
        if isinstance(value.owner, Operation):
            value.owner.properties["stages"] = IntAttr(chosen[number])
    taken = sum(chosen[number] * plan.pipelines[number].bytes for number in numbers)
    return available - taken - max(wanted, needed, LEAST_SCRATCH)


def _demands(pipelines: Sequence[SSAValue], plan: HopperPlan, body: Block) -> list[RingDemand]:
    """What each ring needs for the consumers' program."""
    held = most_held(body)
    return [
        RingDemand(
            ring.bytes,
            max(ring.least, held.get(value, 1)),
            ring.may_grow,
            plan.is_read_by_warps(ring),
            _is_shared(value),
            slots_ahead(ring),
            spared_bytes(ring),
        )
        for ring, value in zip(plan.pipelines, pipelines, strict=True)
    ]


def _bytes_beside(plan: HopperPlan, body: Block, maps: int, rings: Sequence[RingDemand]) -> int:
    """Bytes for other things than rings and scratch memory: barriers, tiles on their way out."""
    pieces = store_bytes(plan.warpgroups)
    are_short = max(ring.slot_bytes * ring.least for ring in rings) < pieces
    in_slots = bool(plan.stores) and not are_short and not _stores_before_the_end(body)
    have_own = plan.has_store_agent or (plan.stores and not in_slots)
    barriers = max(BARRIER_BYTES, GAP_BYTES + SLOT_BARRIER_BYTES * sum(map(most_slots, rings)))
    barriers += STORE_BARRIER_BYTES if plan.has_store_agent else 0
    fixed = max(FIXED_BYTES, barriers + maps * MAP_BYTES)
    return fixed + plan.turned + (pieces if have_own else 0)


def _stages_within(
    plan: HopperPlan, rings: Sequence[RingDemand], chosen: Mapping[int, int]
) -> dict[int, int]:
    """The slots of rings that lie in the memory of other ones."""
    found: dict[int, int] = {}
    for number, ring in enumerate(plan.pipelines):
        if ring.within is None:
            continue
        room = chosen[ring.within] * plan.pipelines[ring.within].bytes
        within = ring_stages([rings[number]], room)
        if within is None:
            raise RingsDoNotFitError(tuple(other.least for other in rings))
        found[number] = within[0]
    return found


def _sent_beside(body: Block, warps: int, cluster_size: int, largest: int) -> int:
    """Bytes for tiles that a cluster sends to one CTA, if they do not fit its largest ring."""
    sent = [
        sent_bytes(op, warps, cluster_size) for op in body.walk() if isinstance(op, aa.ShareTilesOp)
    ]
    return sum(size for size in sent if size + MOST_SCRATCH > largest)


def _is_shared(pipeline: SSAValue) -> bool:
    """Whether the CTAs of a cluster fill a ring together."""
    maker = pipeline.owner
    return isinstance(maker, pl.CreatePipelineOp) and maker.shared is not None


def _stages(
    rings: Sequence[RingDemand], available: int, least: int, wanted: int
) -> tuple[int, ...] | None:
    """The slots beside scratch memory: as much of it as is wanted, or half, down to the least."""
    scratch = max(least, wanted)
    while True:
        stages = ring_stages(rings, available - scratch)
        if stages is not None or scratch <= max(LEAST_SCRATCH, least):
            return stages
        scratch = max(least, scratch // 2)


def _is_tight(rings: Sequence[RingDemand], stages: Sequence[int]) -> bool:
    """Whether a ring has no slot to spare: then it waits for each of its loads.

    Or but one, where part of each slot is not used.
    """
    pairs = zip(rings, stages, strict=True)
    return any(ring.may_grow and count <= ring.least + bool(ring.spared) for ring, count in pairs)


def _stores_before_the_end(body: Block) -> bool:
    """Whether tiles leave by TMA before the slots are free memory."""
    for op in body.ops:
        if isinstance(op, pl.FreePipelinesOp):
            break
        if any(isinstance(inner, ts.TmaStoreOp) for inner in op.walk()):
            return True
    return False


def placed_scratch_bytes(body: Block) -> int:
    """Shared memory that the consumers want beside the rings, before these are free."""
    return max(map(_wanted, _beside_rings(body)), default=0)


def placed_least_bytes(body: Block) -> int:
    """Shared memory that one of these operations needs at once.

    Where operands have been placed, reshapes and permutations need none.
    """
    return max(map(_needed, _beside_rings(body)), default=0)


def _beside_rings(body: Block) -> Iterator[Operation]:
    """The consumers' operations while the slots are in use."""
    for op in body.ops:
        if isinstance(op, pl.FreePipelinesOp):
            break
        yield from op.walk()


def _needed(op: Operation) -> int:
    match op:
        case tas.ConvertLayoutOp():
            return min(LEAST_SCRATCH, _wanted(op))
        case aa.ReduceOp() if not _wanted(op):
            return 0
        case aa.ReshapeOp() | aa.PermuteOp():
            return 0
        case _:
            return least_bytes(op)


def _wanted(op: Operation) -> int:
    """What one operation wants; little is enough, by rounds."""
    match op:
        case tas.ConvertLayoutOp():
            source, target = layout_of(op.source.type), layout_of(op.result.type)
            if source is None or target is None:
                raise InternalError("a conversion without layouts", where="hopper")
            conversion = plan_conversion(source, target, _element_bits(op.source.type))
            return conversion.bytes if isinstance(conversion, SharedMemory) else 0
        case aa.ReduceOp():
            return 0 if all(_in_one_warp(value, op) for value in op.operands) else LEAST_SCRATCH
        case _:
            return 0


def _element_bits(type: Attribute) -> int:
    """Bits of an element in a register."""
    element = type.element_type if isinstance(type, TensorType) else type
    if isinstance(element, IntegerType):
        return element.width.data
    return 64 if isinstance(element, aa.PointerType) else storage_bits(element)


def _in_one_warp(value: SSAValue, op: aa.ReduceOp) -> bool:
    """Whether each row that is reduced lies within one warp."""
    layout = layout_of(value.type)
    if layout is None:
        return True
    axis = op.dim.value.data
    return all(vector[axis] == 0 for vector in layout.basis("warp"))


@dataclass
class _Held:
    """Slots that the consumers hold now, by pipeline, and the most there were."""

    now: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    most: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def follow(self, block: Block) -> None:
        """The operations of a block, the bodies of loops twice."""
        for op in block.ops:
            match op:
                case pl.ConsumerWaitOp():
                    self.now[op.pipeline] = self.now.get(op.pipeline, 0) + 1
                    most = max(self.most.get(op.pipeline, 0), self.now[op.pipeline])
                    self.most[op.pipeline] = most
                case pl.ConsumerReleaseOp():
                    held = self.now.get(op.pipeline, 0)
                    self.now[op.pipeline] = min(held, op.keep.data)
                case _:
                    self._follow_regions(op)

    def _follow_regions(self, op: Operation) -> None:
        """Loop bodies twice; of branches the one that holds more."""
        if isinstance(op, aa.ForOp | aa.LoopOp):
            for _ in range(2):
                self.follow(op.regions[0].block)
            return
        before, after = dict(self.now), dict(self.now)
        for region in op.regions:
            self.now = dict(before)
            for block in region.blocks:
                self.follow(block)
            for pipeline, count in self.now.items():
                after[pipeline] = max(count, after.get(pipeline, 0))
        self.now = after if op.regions else self.now


def most_held(body: Block) -> dict[SSAValue, int]:
    """The most slots of each pipeline that the consumers hold at once: a ring needs as many."""
    held = _Held()
    held.follow(body)
    return held.most
