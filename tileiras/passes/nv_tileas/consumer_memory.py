"""Shared memory and stages that the consumers' program needs, as it is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.errors import CompileError
from tileiras.planning.resources.cta import LEAST_SCRATCH
from tileiras.planning.resources.smem import least_bytes, sent_bytes
from tileiras.planning.resources.stages import MOST_SCRATCH

WARPS_PER_WARPGROUP = 4
PASS_NAME = "tileas-optimize-alloc-tensor"


def sent_beside(func: aa.FuncOp, switch: pl.AgentSwitchOp, largest: int) -> int:
    """Bytes for tiles that a cluster sends to one CTA, if they do not fit its largest pipeline."""
    warps = switch.consumer_warps.data
    sent = [
        sent_bytes(op, warps, func.cluster_size)
        for op in switch.consumer.block.walk()
        if isinstance(op, aa.ShareTilesOp)
    ]
    return sum(size for size in sent if size + MOST_SCRATCH > largest)


def row_bytes(body: Block, warps: int) -> int:
    """Bytes for the tiles that leave row by row, which share them."""
    stores = [op for op in body.walk() if isinstance(op, tas.StoreRowsOp)]
    if not stores:
        return 0
    from tileiras.codegen.atoms.row_stages import stage_of_layout

    sizes: list[int] = []
    for op in stores:
        layout, bits = layout_of(op.value.type), storage_bits(element_of(op.value))
        stage = stage_of_layout(layout, warps // WARPS_PER_WARPGROUP, bits) if layout else None
        sizes += [stage.bytes] if stage is not None else []
    return max(sizes, default=0)


def wanted_scratch_bytes(body: Block) -> int:
    """Shared memory that the consumers want beside the pipelines, before these are free."""
    return max(map(_wanted, _beside_pipelines(body)), default=0)


def least_scratch_bytes(body: Block) -> int:
    """Shared memory that one of these operations needs at once.

    Where operands have been placed, reshapes and permutations need none, nor do accesses through
    views, which happen as tiles lie.
    """
    return max(map(_needed, _beside_pipelines(body)), default=0)


def _beside_pipelines(body: Block) -> Iterator[Operation]:
    """The consumers' operations while the stages are in use."""
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
        case aa.ReshapeOp() | aa.PermuteOp() | tas.TiledLoadOp() | tas.TiledStoreOp():
            return 0
        case tas.StoreRowsOp():
            return 0
        case tas.LoadOp() if isinstance(op.result.type, TensorType):
            return 0
        case _:
            return least_bytes(op)


def _wanted(op: Operation) -> int:
    """What one operation wants; little is enough, by rounds."""
    match op:
        case tas.ConvertLayoutOp():
            if op.by is None:
                said = f"has no way: {PASS_NAME} comes after tileas-materialize-convert-layout"
                raise CompileError(f"'convert_layout' op {said}", place_of(op))
            return op.smem_bytes
        case aa.ReduceOp():
            return 0 if all(_in_one_warp(value, op) for value in op.operands) else LEAST_SCRATCH
        case _:
            return 0


def _in_one_warp(value: SSAValue, op: aa.ReduceOp) -> bool:
    """Whether each row that is reduced lies within one warp."""
    layout = layout_of(value.type)
    if layout is None:
        return True
    axis = op.dim.value.data
    return all(vector[axis] == 0 for vector in layout.basis("warp"))


@dataclass
class _Held:
    """Stages that the consumers hold now, by pipeline, and the most there were."""

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
    """The most stages of each pipeline that the consumers hold at once: a pipeline needs as
    many.
    """
    held = _Held()
    held.follow(body)
    return held.most
