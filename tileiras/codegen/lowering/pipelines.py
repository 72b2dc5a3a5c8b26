"""Pipelines of stages in shared memory: positions of the warp roles, waiting, filling, handing
back.

Each warp role keeps its position in local variables, which LLVM turns into registers (SROA): a
stage number and the parity of the pass through the pipeline. The consumer also remembers the newest
stage that it has waited for and one older that it has not handed back yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.tcgen05 import allocated_columns
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.lowering.thread_map import ThreadMap
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.errors import InternalError

_I32 = integer_type(32)
BARRIER_BYTES = 8
START_BARRIER = 8
"""Named barrier at which the producer waits until there are mbarriers; consumers do not stop."""
NONE = -1
"""No stage."""

MOST_UNROLLED_STAGES = 4
"""Policy: more stages than these are filled, and waited for at the end, in a loop.

They are many where tiles are small, and there the copies of all stages are most of the code:
`examples/matmul.mlir` (8 stages, twice) takes a quarter less of compile time so. Measured on an
H100, us for unrolled and loop: that example at 512^3 5.10 and 5.04, at 4096^3 392 and 392; 1024^3
in tiles of 64x128 5.7 and 5.7; split-K 256x256x4096 4.3 and 4.2. With 3 or 4 stages a loop is
slower: 1024^3 in tiles of 128x128 7.9 and 8.1, 8192^3 1631 and 1651.
"""


class ThreadCode(Protocol):
    """What pipelines need of the lowering of a kernel: where code goes, and who runs it."""

    prologue: ThreadBuilder
    b: ThreadBuilder
    threads: ThreadMap
    roles: RoleState


class Variable:
    """An i32 of this thread."""

    def __init__(self, ctx: ThreadCode, initial: int):
        self.pointer = ctx.prologue.alloca(4, 4)
        ctx.prologue.store(ctx.prologue.i32(initial), self.pointer, 4)

    def get(self, b: ThreadBuilder) -> SSAValue:
        """Its value."""
        return b.load(self.pointer, _I32, 4)

    def set(self, b: ThreadBuilder, value: SSAValue) -> None:
        """Changes it."""
        b.store(value, self.pointer, 4)


@dataclass
class Pipeline:
    """A pipeline: `stages` stages, then per stage a full and an empty mbarrier."""

    storage: SSAValue
    barriers: SSAValue
    stages: int
    stage_bytes: int
    consumers: int
    gather_threads: int = 0
    is_shared: bool = False
    """Whether the CTAs of the cluster fill each other's stages."""
    is_paired: bool = False
    """Whether products read the stages of two CTAs at once, and the first of them hands back
    both."""
    has_prologue_fill: bool = False
    """Whether consumers copy the first tiles, and so pass a proxy fence in the first round."""
    fills_two_tiles: bool = False
    """Whether these are operands of two tiles at once, some of which may be the same."""
    stage: Variable | None = None
    parity: Variable | None = None
    newest: Variable | None = None
    older: Variable | None = None
    is_first_round: Variable | None = None

    def full_barrier(self, b: ThreadBuilder, stage: SSAValue) -> SSAValue:
        """The barrier that completes when a stage has been filled."""
        return b.gep(self.barriers, b.mul(stage, b.i32(BARRIER_BYTES)))

    def empty_barrier(self, b: ThreadBuilder, stage: SSAValue) -> SSAValue:
        """The barrier that completes when all consumers have handed a stage back."""
        return b.gep(self.full_barrier(b, stage), self.stages * BARRIER_BYTES)

    def stage_address(self, b: ThreadBuilder, stage: SSAValue) -> SSAValue:
        """Where a stage starts."""
        return b.gep(self.storage, b.mul(stage, b.i32(self.stage_bytes)))

    def position(self, ctx: ThreadCode) -> tuple[Variable, Variable]:
        """Stage and parity. Producer and consumer are different threads: one pair serves both."""
        if self.stage is None or self.parity is None:
            self.stage, self.parity = Variable(ctx, 0), Variable(ctx, 0)
        return self.stage, self.parity

    def held(self, ctx: ThreadCode) -> tuple[Variable, Variable]:
        """The newest stage waited for, and an older one; -1 if there is none."""
        if self.newest is None or self.older is None:
            self.newest, self.older = Variable(ctx, NONE), Variable(ctx, NONE)
        return self.newest, self.older

    def advance(self, ctx: ThreadCode) -> None:
        """On to the next stage; the parity changes after the last."""
        b = ctx.b
        stage, parity = self.position(ctx)
        following = b.add(stage.get(b), b.i32(1))
        wraps = b.icmp("eq", following, b.i32(self.stages))
        stage.set(b, b.select(wraps, b.i32(0), following))
        parity.set(b, b.xor(parity.get(b), b.zext(wraps, _I32)))
        if self.has_prologue_fill and not ctx.roles.is_producer:
            fresh = self.first_round(ctx)
            fresh.set(b, b.select(wraps, b.i32(0), fresh.get(b)))

    def first_round(self, ctx: ThreadCode) -> Variable:
        """1 until the consumer has been through the pipeline once, then 0."""
        if self.is_first_round is None:
            self.is_first_round = Variable(ctx, 1)
        return self.is_first_round


@dataclass
class StorePipeline:
    """A store pipeline: per warpgroup `stages` stages of `pieces`; then full and empty mbarriers.

    Where every tile goes round the circular buffer a whole number of times (`stage` is None), it is
    known when the kernel is compiled which stage is next.
    """

    memory: SSAValue
    barriers: SSAValue
    stages: int
    pieces: int
    piece_bytes: int
    warpgroups: int
    parity: Variable
    stage: Variable | None

    @property
    def all_stages(self) -> int:
        """Stages of all warpgroups together."""
        return self.stages * self.warpgroups

    def next_stage(self, b: ThreadBuilder, content: int) -> SSAValue:
        """The stage that number `content` of a tile's contents goes to."""
        return b.i32(content % self.stages) if self.stage is None else self.stage.get(b)

    def number(self, b: ThreadBuilder, stage: SSAValue, group: SSAValue | int) -> SSAValue:
        """The number of a warpgroup's stage."""
        if isinstance(group, int):
            return b.add(stage, b.i32(group * self.stages))
        return b.add(stage, b.mul(group, b.i32(self.stages)))

    def stage_address(self, b: ThreadBuilder, number: SSAValue) -> SSAValue:
        """Where a stage starts."""
        return b.gep(self.memory, b.mul(number, b.i32(self.pieces * self.piece_bytes)))

    def full_barrier(self, b: ThreadBuilder, number: SSAValue) -> SSAValue:
        """The barrier that completes when a warpgroup has filled its stage."""
        return b.gep(self.barriers, b.mul(number, b.i32(BARRIER_BYTES)))

    def empty_barrier(self, b: ThreadBuilder, number: SSAValue) -> SSAValue:
        """The barrier that completes when TMA has read a stage."""
        return b.gep(self.full_barrier(b, number), self.all_stages * BARRIER_BYTES)

    def advance(self, b: ThreadBuilder, content: int) -> None:
        """On to the stage after that of one stage's contents; the parity changes after the last
        stage.
        """
        if self.stage is None:
            if content % self.stages == self.stages - 1:
                self.parity.set(b, b.xor(self.parity.get(b), b.i32(1)))
            return
        following = b.add(self.stage.get(b), b.i32(1))
        wraps = b.icmp("eq", following, b.i32(self.stages))
        self.stage.set(b, b.select(wraps, b.i32(0), following))
        self.parity.set(b, b.xor(self.parity.get(b), b.zext(wraps, _I32)))


@dataclass
class SumPipeline:
    """An accumulator: `stages` in tensor memory from `column` on, full and empty mbarriers.

    Or a left operand: consumers fill it, and the tensor core hands it back.
    """

    barriers: SSAValue
    stages: int
    column: int
    columns: int
    readers: int
    stage: Variable
    parity: Variable
    adds: Variable
    """1 once a product has been issued for the stage of the warp role."""
    is_filled: bool = False
    """Whether consumers store what the sum starts from: they hand the stage back by that."""
    is_scaled: bool = False
    """Whether consumers scale the sum where it lies. The warp role goes on to the next parity when
    it acquires, they when they have waited.
    """
    writers: int = 1
    """Arrivals that fill a stage: the tensor core's, or warps' that store a left operand."""
    is_paired: bool = False
    """Whether two CTAs make and read the sums together: each hands its part back to both."""
    blocks: int = 1
    """Blocks of rows with barriers of their own; arrivals are for each of them."""
    row_stride: int | None = None
    """Columns from a block of 128 rows to the next, where they do not lie side by side."""

    def full_barrier(
        self, b: ThreadBuilder, stage: SSAValue, block: int | SSAValue = 0
    ) -> SSAValue:
        """The barrier that completes when the products of a stage are done for a block of rows."""
        number = stage
        if isinstance(block, SSAValue):
            number = b.add(stage, b.mul(block, b.i32(2 * self.stages)))
        elif block:
            number = b.add(stage, b.i32(2 * self.stages * block))
        return b.gep(self.barriers, b.mul(number, b.i32(BARRIER_BYTES)))

    def empty_barrier(
        self, b: ThreadBuilder, stage: SSAValue, block: int | SSAValue = 0
    ) -> SSAValue:
        """The barrier that completes when all consumers have loaded a stage."""
        return b.gep(self.full_barrier(b, stage, block), self.stages * BARRIER_BYTES)

    def offset(self, b: ThreadBuilder) -> SSAValue:
        """The first column of the stage, from the first one of the CTA on."""
        within = b.mul(self.stage.get(b), b.i32(self.columns))
        return b.add(within, b.i32(self.column))

    def advance(self, b: ThreadBuilder) -> None:
        """On to the next stage; the parity changes after the last."""
        following = b.add(self.stage.get(b), b.i32(1))
        wraps = b.icmp("eq", following, b.i32(self.stages))
        self.stage.set(b, b.select(wraps, b.i32(0), following))
        self.parity.set(b, b.xor(self.parity.get(b), b.zext(wraps, integer_type(32))))


@dataclass
class TensorMemory:
    """What a kernel has of it: the cell in shared memory with its address, its variable, and the
    sums there.
    """

    cell: SSAValue
    variable: llvm_memory.GlobalOp
    pipelines: dict[SSAValue, SumPipeline]
    product_warp: tc.ProductWarpOp | None = None
    scales_end: int = 0
    """The column behind the scales of block-scaled products."""
    base: SSAValue | None = None
    """The address, for the warp role whose program is being written."""
    leader: SSAValue | None = None
    """i1: whether this lane of the warp role's warp issues."""
    second: SSAValue | None = None
    """i1: whether this lane tells the first CTA of its pair that a stage is full."""

    @property
    def is_paired(self) -> bool:
        """Whether two CTAs multiply together."""
        return any(pipeline.is_paired for pipeline in self.pipelines.values())

    @property
    def columns(self) -> int:
        """Columns to allocate."""
        ends = (
            pipeline.column + pipeline.stages * pipeline.columns
            for pipeline in self.pipelines.values()
        )
        return allocated_columns(max([*ends, self.scales_end]))

    def pipeline(self, accumulator: SSAValue) -> SumPipeline:
        """The stages of an accumulator."""
        known = self.pipelines.get(accumulator)
        if known is None:
            raise InternalError("an accumulator has not been created", where="tcgen05")
        return known

    def address(self) -> SSAValue:
        """The address of the columns of the CTA."""
        if self.base is None:
            raise InternalError("tensor memory is used before it is there", where="tcgen05")
        return self.base


@dataclass
class TakenBlocks:
    """Answers about tile blocks that the CTA takes over: slots of shared memory, their mbarriers.

    A warp role's `place` is their address, and in its low bits how many answers it has read: one
    register, which no role has before it starts.
    """

    memory: llvm_memory.GlobalOp
    readers: int
    """Warps of a CTA that read an answer."""
    place: Variable
    queue: TileQueue | None = None
    """Where the producer draws numbers itself, where no hardware answers."""


@dataclass
class TileQueue:
    """What the producer knows of the queue of its launch.

    `table` is global memory for the queues of all launches; `state` is 0 as long as the producer
    does not know which one is its own; `own` is the number that it has.
    """

    table: llvm_memory.GlobalOp
    state: Variable
    own: Variable


@dataclass
class RoleState:
    """What the lowering of warp roles keeps: pipelines by pipeline value, and the tensor maps."""

    @dataclass
    class Maps:
        """The tensor maps of the producer, in groups that are made together.

        The first warp claims a slot of `table` and leaves its address at `place`; the producer
        reads it (`pointer`) when it meets the others, at the maker `meets_at` or at once; `tried`
        is what the producer's own first try to claim one gave. Maps of
        stores are number `store_maps` of the stage, to use after waiting at `ready`: for consumers,
        or for the store warp, which gives the stage back when the producer is `done`, too. Maps of
        views that are made in loops the store warp makes itself, at `store_scratch`.
        """

        table: TensorMapTable
        scratch: SSAValue
        place: SSAValue
        groups: Sequence[Sequence[pl.MakeTensorMapOp]]
        meets_at: Operation | None
        pointer: SSAValue | None = None
        tried: tuple[SSAValue, SSAValue] | None = None
        store_pointer: SSAValue | None = None
        store_scratch: SSAValue | None = None
        ready: SSAValue | None = None
        done: SSAValue | None = None
        store_maps: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
        stale: dict[Operation, Variable] = field(default_factory=dict[Operation, Variable])
        """1 while the maps of a group (by its last maker) have to be made before their next use."""

    pipelines: dict[SSAValue, Pipeline] = field(default_factory=dict[SSAValue, Pipeline])
    store_pipelines: dict[SSAValue, StorePipeline] = field(
        default_factory=dict[SSAValue, StorePipeline]
    )
    maps: RoleState.Maps | None = None
    own_store_maps: RoleState.Maps | None = None
    """Those that the store warp makes for itself, in a slot of its own."""
    row_buffer: llvm_memory.GlobalOp | None = None
    """Where tiles lie whose rows are on their way out."""
    store_loop: aa.ForOp | None = None
    """The loop in front of which it makes them, None if it has to at its start."""
    store_makers: list[pl.MakeTensorMapOp] = field(default_factory=list[pl.MakeTensorMapOp])
    freed: bool = False
    """Whether stages are free memory now."""
    is_producer: bool = False
    is_store_warp: bool = False
    threads: int = 0
    """Threads of a CTA, all warp roles together."""
    launched_registers: int = 0
    """Registers of a thread when the kernel starts."""
    trades_registers: bool = False
    """Whether it starts with exactly these."""
    tile_order: tuple[int, ...] | None = None
    """`AgentSwitchOp.longest_tile_first`: which tile block a CTA computes."""
    blocks: tuple[SSAValue, ...] | None = None
    """The tile block of this CTA, axis by axis, where that is said."""
    hurries: bool = False
    """Whether consumers fill a whole pipeline before the first product, so that cycles count there.

    Attention starts with one stage a pipeline, and lives on its warpgroups being out of step: where
    they begin together, causal D = 64 takes 663 us, not 630 (H200).
    """
    late_registers: int = 0
    """How many registers consumers get once they have asked for the first tiles, if not before."""
    first_fills: frozenset[Operation] = frozenset()
    """Prologue fills with which consumers begin: mbarriers are there behind their first copies."""
    begin: Callable[[], None] | None = None
    """Builds the code behind which consumers have mbarriers."""
    idle_makers: int = 0
    """How many warps with nothing else to do make mbarriers for the consumers."""
    working_warps: int = 1
    smem_transpose: SSAValue | None = None
    """Memory of the warpgroups for operands that they transpose."""
    tensor_memory: TensorMemory | None = None
    taken: TakenBlocks | None = None
    is_product_warp: bool = False
    """Whether what is written is the program of the warp that issues products."""
    transposer: wg.TransposeWarpsOp | None = None
    """The program of the warps that transpose."""
    is_transposer: bool = False
    """Whether what is written is that program."""
    next_copy: Variable | None = None
    """Where in it the next operand of 32-bit words goes."""

    @property
    def has_prologue_fill(self) -> bool:
        """Whether consumers begin before tensor maps are there."""
        return any(pipeline.has_prologue_fill for pipeline in self.pipelines.values())

    def meet(self, ctx: ThreadCode) -> None:
        """All threads of the CTA meet; of the cluster, if its CTAs use each other's mbarriers.

        What orders these is the fence after they are made: the barrier of the cluster is relaxed.
        """
        if self.has_prologue_fill:
            ctx.b.barrier(START_BARRIER, self.threads)
            return
        ctx.b.barrier()
        if any(pipeline.is_shared or pipeline.is_paired for pipeline in self.pipelines.values()):
            ctx.b.cluster_arrive(relaxed=True)
            ctx.b.cluster_wait()

    def pipeline(self, pipeline: SSAValue) -> Pipeline:
        """The pipeline of a pipeline value."""
        known = self.pipelines.get(pipeline)
        if known is None:
            raise InternalError("a pipeline has not been created", where="pipelines")
        return known

    def store_pipeline(self, pipeline: SSAValue) -> StorePipeline:
        """The buffers of a store pipeline."""
        known = self.store_pipelines.get(pipeline)
        if known is None:
            raise InternalError("a store pipeline has not been created", where="pipelines")
        return known

    def elected(self, ctx: ThreadCode) -> SSAValue:
        """i1: whether this is the first thread of the producer."""
        elected = ctx.threads.all_zero(31, self.working_warps - 1)
        if elected is None:
            raise InternalError("a warp has more than one lane", where="pipelines")
        return elected

    def enter_first_producer_warp(self, ctx: ThreadCode) -> Block | None:
        """What is built next the producer's first warp does; the block after, None if it is alone.

        Nothing that is built inside may be used after `leave_first_producer_warp`.
        """
        is_first = ctx.threads.all_zero(0, self.working_warps - 1)
        if is_first is None:
            return None
        inside, after = ctx.b.new_block(), ctx.b.new_block()
        ctx.b.cond_br(is_first, inside, after)
        ctx.b.at(inside)
        return after

    def leave_first_producer_warp(self, ctx: ThreadCode, after: Block | None) -> None:
        """All warps of the producer again."""
        if after is not None:
            ctx.b.br(after)
            ctx.b.at(after)
