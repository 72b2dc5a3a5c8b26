"""The pass `tileas-move-transposes`: idle warps transpose tiles in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.wgmma import WARPGROUP
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileaa.nesting import op_block
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import WARP_THREADS, MemDescType, is_in_smem
from tileiras.dialects.nv_tileas.plan import PLAN, KernelPlanAttr, PipelinePlanAttr
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import erase_op

WARPS = 2
"""Policy: warps that transpose; the producer's warpgroup has one that copies, one may store."""
WARPS_PER_WARPGROUP = WARPGROUP // WARP_THREADS
FEWEST_STAGES = 2
"""Policy: one tile is transposed while products read the one before."""
_COPIES = (pl.TmaLoadOp, pl.GatherLoadOp, pl.CopyLoadOp)
_OF_PRODUCER = (
    *_COPIES,
    pl.MakeTensorMapOp,
    pl.RenewTensorMapsOp,
    pl.ProducerTailOp,
    pl.ProducerAcquireOp,
    pl.ProducerCommitOp,
)
"""What the producer does and nobody else."""


@dataclass(frozen=True)
class Moved:
    """A pipeline whose tiles are transposed, with what consumers do with it."""

    pipeline: SSAValue
    reads: tuple[tuple[pl.ConsumerWaitOp, wg.SmemTransposeOp, pl.ConsumerReleaseOp], ...]


@dataclass(frozen=True)
class MoveTransposesPass(IrPass):
    """Lets warps of the producer's warpgroup transpose tiles, once for all consumers.

    Each consumer warpgroup makes a copy of its own else, and waits for it. The copies are stages of
    a pipeline of their own, in the memory that the warpgroups' copies would have had.

    Before   producer { for { acquire %v; tiled_tma_load into %v; commit %v } }
             consumer { for { %t = consumer_wait %v; %u = smem_transpose %t; consumer_release %v
                              %d = wgmma_dot %p, %u, %acc } }
    After    transpose_warps { for { %t = consumer_wait %v; acquire %w
                                     transpose_tile %t into %w; commit %w; consumer_release %v } }
             consumer { for { %u = consumer_wait %w; %d = wgmma_dot %p, %u, %acc
                              consumer_release %w } }
    Requires nv_tileas; transposes beside the products that read them, waits beside the products
    Leaves   tiles of other than 8 bits; kernels without two idle warps or with one consumer
             warpgroup; stages that something else reads, too, or that CTAs share
    """

    name = "tileas-move-transposes"
    title: ClassVar[str] = "Give transposes to idle warps"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions whose warps have roles."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    moved = _find(switch)
                    if moved is not None:
                        _move(func, switch, moved)


def _find(switch: pl.AgentSwitchOp) -> Moved | None:
    """The one pipeline whose tiles idle warps can transpose, None if there is none."""
    busy = switch.working_warps.data + (switch.store is not None)
    consumers = switch.consumer_warps.data // WARPS_PER_WARPGROUP
    if busy + WARPS > switch.producer_warps.data or consumers < FEWEST_STAGES:
        return None
    transposes = [op for op in switch.consumer.walk() if isinstance(op, wg.SmemTransposeOp)]
    reads = [_read(transpose) for transpose in transposes]
    found = [read for read in reads if read is not None]
    if not found or len(found) < len(reads):
        return None
    pipeline = found[0][0].pipeline
    users = [use.operation for use in pipeline.uses]
    in_consumer = [op for op in users if isinstance(op, pl.ConsumerWaitOp | pl.ConsumerReleaseOp)]
    known = {op for wait, _, release in found for op in (wait, release)}
    if any(wait.pipeline is not pipeline for wait, *_ in found) or set(in_consumer) != known:
        return None
    return Moved(pipeline, tuple(found)) if all(map(_is_plain, users)) else None


def _read(
    transpose: wg.SmemTransposeOp,
) -> tuple[pl.ConsumerWaitOp, wg.SmemTransposeOp, pl.ConsumerReleaseOp] | None:
    """The transpose between the wait for its stage and the release; None if it is used elsewhere.

    The transposed tile is read by one product of the same block.
    """
    wait, release = transpose.tile.owner, transpose.next_op
    if not isinstance(wait, pl.ConsumerWaitOp) or not isinstance(release, pl.ConsumerReleaseOp):
        return None
    if not is_in_smem(transpose.tile.type) or storage_bits(transpose.tile.type.element_type) != 8:
        return None
    if len(wait.tiles) != 1 or len(list(transpose.tile.uses)) != 1:
        return None
    if wait.pipeline is not release.pipeline or len(list(transpose.result.uses)) != 1:
        return None
    product = _product(transpose)
    is_beside = product is not None and product.parent is transpose.parent is wait.parent
    return (wait, transpose, release) if is_beside else None


def _product(transpose: wg.SmemTransposeOp) -> wg.WgmmaDotOp | None:
    """The product that reads a transposed tile."""
    (use,) = transpose.result.uses
    return use.operation if isinstance(use.operation, wg.WgmmaDotOp) else None


def _is_plain(op: Operation) -> bool:
    """Whether what is done with the pipeline is known: copies that come whole, one after another.

    A first tile that consumers fetch outside of a loop would come without the producer.
    """
    match op:
        case pl.TmaLoadOp():
            return op.multicast_if is None and op.skip_if is None
        case pl.PrologueFillOp():
            return any(op.follows.data)
        case _:
            return True


def _move(func: aa.FuncOp, switch: pl.AgentSwitchOp, moved: Moved) -> None:
    """Makes the new pipeline and the program that fills it; consumers read from there."""
    made, block = moved.pipeline.owner, switch.parent_block()
    if not isinstance(made, pl.CreatePipelineOp) or block is None:
        return
    copies = pl.CreatePipelineOp.create(
        result_types=[pl.PIPELINE],
        properties={
            "stages": IntAttr(FEWEST_STAGES),
            "stage_bytes": made.stage_bytes,
            "consumers": IntAttr(switch.consumer_warps.data // WARPS_PER_WARPGROUP),
            "gather_threads": IntAttr(WARPS * WARP_THREADS),
        },
    )
    _plan(func, made, copies)
    made.properties["consumers"] = IntAttr(WARPS)
    type = moved.reads[0][1].result.type
    program = wg.TransposeWarpsOp.create(
        properties={"warps": IntAttr(WARPS)},
        regions=[switch.producer.clone()],
        location=switch.location,
    )
    _rewrite(program.body.block, moved, copies.result, type)
    block.insert_op_after(copies, made)
    block.insert_op_before(program, switch)
    for wait, transpose, release in moved.reads:
        _read_copy(wait, transpose, release, copies.result)


def _plan(func: aa.FuncOp, made: pl.CreatePipelineOp, copies: pl.CreatePipelineOp) -> None:
    """The new pipeline has the memory that was planned for the copies of the warpgroups."""
    plan, of_kernel = made.attributes.get(PLAN), func.attributes.get(PLAN)
    if isinstance(plan, PipelinePlanAttr):
        copies.attributes[PLAN] = PipelinePlanAttr.of(
            bytes=made.stage_bytes.data, least=FEWEST_STAGES, may_grow=0
        )
    if isinstance(of_kernel, KernelPlanAttr):
        func.attributes[PLAN] = KernelPlanAttr.of(**(dict(of_kernel.data) | {"smem_transpose": 0}))


def _rewrite(block: Block, moved: Moved, copies: SSAValue, type: MemDescType) -> None:
    """Makes the producer's program that of the warps that transpose."""
    source = moved.reads[0][0].tiles[0].type
    tiles: list[SSAValue] = []
    for op in list(_inside(block)):
        match op:
            case pl.ProducerSkipOp():
                op.result.replace_all_uses_with(op.lower)
            case pl.ProducerAcquireOp() if op.pipeline is moved.pipeline:
                wait = pl.ConsumerWaitOp.create(
                    operands=[moved.pipeline],
                    result_types=[source],
                    properties={"offsets": IntTupleAttr([0])},
                    location=op.location,
                )
                acquire = pl.ProducerAcquireOp.create(
                    operands=[copies], properties={"bytes": IntAttr(0)}, location=op.location
                )
                op_block(op).insert_ops_before([wait, acquire], op)
                tiles.append(wait.tiles[0])
            case pl.ProducerCommitOp() if op.pipeline is moved.pipeline:
                op_block(op).insert_ops_before(_transposed(op, tiles.pop(), copies, type), op)
            case _:
                pass
    for op in reversed(list(_inside(block))):
        is_new = any(operand is copies for operand in op.operands)
        is_fixed = isinstance(op, pl.ProducerSkipOp) or (
            isinstance(op, _OF_PRODUCER) and not is_new
        )
        if is_fixed:
            erase_op(op)


def _transposed(
    op: pl.ProducerCommitOp, tile: SSAValue, copies: SSAValue, type: MemDescType
) -> list[Operation]:
    """One tile into the stage that has been waited for; its own stage goes back."""
    by_warps = {"keep": IntAttr(0), "by_warps": UnitAttr()}
    return [
        wg.TransposeTileOp.create(
            operands=[tile, copies],
            properties={"swizzle": IntAttr(type.swizzle)},
            location=op.location,
        ),
        pl.ProducerCommitOp.create(operands=[copies], location=op.location),
        pl.ConsumerReleaseOp.create(
            operands=[op.pipeline], properties=by_warps, location=op.location
        ),
    ]


def _inside(block: Block) -> Iterator[Operation]:
    """All operations of a block, in the order of the program."""
    for op in block.ops:
        yield from op.walk()


def _read_copy(
    wait: pl.ConsumerWaitOp,
    transpose: wg.SmemTransposeOp,
    release: pl.ConsumerReleaseOp,
    copies: SSAValue,
) -> None:
    """A product waits for a stage with a transposed tile, and hands it back when it is over."""
    product = _product(transpose)
    block = transpose.parent_block()
    assert product is not None and block is not None
    new = pl.ConsumerWaitOp.create(
        operands=[copies],
        result_types=[transpose.result.type],
        properties={"offsets": IntTupleAttr([0])},
        location=wait.location,
    )
    block.insert_op_before(new, product)
    transpose.result.replace_all_uses_with(new.tiles[0])
    for op in (release, transpose, wait):
        erase_op(op)
    last = product
    if product.pending is None:
        (use,) = product.result.uses
        last = use.operation
    back = pl.ConsumerReleaseOp.create(
        operands=[copies], properties={"keep": IntAttr(0)}, location=product.location
    )
    block.insert_op_after(back, last)
