"""A warp-specialised f16 GEMM for Hopper, written by hand with the thread builder.

`C[M, N] = A[M, K] @ B[K, N]`, all row-major f16, sums in f32. One tile of 128x256 per CTA: a
producer warp fills a pipeline of stages by TMA, two consumer warpgroups multiply 64 rows each, and
store through the emptied pipeline. M, N and K are multiples of 128, 256 and 64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, f16, f32, i32
from xdsl.ir import Block, SSAValue

from tileiras.codegen.atoms.matrix_tiles import plan_matrix_tiles
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.lowering.thread_map import ThreadMap
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import integer_type, pointer_type, vector_type
from tileiras.dialects.nvvm.tma import TENSOR_MAP_BYTES

TILE_M, TILE_N, TILE_K = 128, 256, 64
ROWS = 64
CONSUMERS = 2
THREADS = 128 * (1 + CONSUMERS)
GROUP = 16
"""Tile rows that are worked on together, for reuse in L2."""
ACCUMULATOR = vector_type(f32, TILE_N // 2)
A_TILE = SharedOperand("k", TILE_M, TILE_K, 16)
B_TILE = SharedOperand("mn", TILE_N, TILE_K, 16)
C_TILE = SharedOperand("k", ROWS, TILE_N, 16)
STAGE_BYTES = A_TILE.bytes + B_TILE.bytes


@dataclass(frozen=True)
class Pipeline:
    """Where stages and barriers are: full barriers first, then the empty ones."""

    stages: int
    buffers: SSAValue
    barriers: SSAValue

    def at(self, b: ThreadBuilder, stage: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """(buffer, full barrier, empty barrier) of a stage."""
        wide = integer_type(64)
        buffer = b.gep(self.buffers, b.zext(b.mul(stage, b.i32(STAGE_BYTES)), wide))
        full = b.gep(self.barriers, b.zext(b.shl(stage, b.i32(3)), wide))
        return buffer, full, b.gep(full, 8 * self.stages)

    def next(
        self, b: ThreadBuilder, stage: SSAValue, parity: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The next stage and its parity."""
        step = b.add(stage, b.i32(1))
        wraps = b.icmp("eq", step, b.i32(self.stages))
        return b.select(wraps, b.i32(0), step), b.xor(parity, b.zext(wraps, i32))


@dataclass(frozen=True)
class Kernel:
    """What all parts of the kernel share."""

    pipeline: Pipeline
    table: TensorMapTable
    map_scratch: SSAValue
    map_pointer: SSAValue
    row: SSAValue
    column: SSAValue
    steps: SSAValue


def wgmma_gemm_module(stages: int = 4) -> ModuleOp:
    """A module with the kernel `gemm(A, B, C, M, N, K)`; the grid has M/128 * N/256 CTAs."""
    table = TensorMapTable.make("gemm_maps", count=3, slots=8)
    buffers = GlobalOp.make("gemm_pipeline", stages * STAGE_BYTES, 3, 1024)
    barriers = GlobalOp.make("gemm_barriers", 16 * stages, 3, 8)
    scratch = GlobalOp.make("gemm_map_scratch", table.slot_bytes, 3, TENSOR_MAP_BYTES)
    pointer = GlobalOp.make("gemm_map_pointer", 8, 3, 8)
    types = [*[pointer_type(1)] * 3, i32, i32, i32]
    func = FuncOp.make_kernel(
        "gemm", types, threads=THREADS, min_ctas=1, cluster_dim=(1, 1, 1), blocks_are_clusters=True
    )
    module = ModuleOp([*table.globals, buffers, barriers, scratch, pointer, func])
    b = ThreadBuilder(func.entry)
    args = func.entry.args
    row, column = _tile_origin(b, args[3], args[4])
    kernel = Kernel(
        Pipeline(stages, b.address_of(buffers), b.address_of(barriers)),
        table,
        b.address_of(scratch),
        b.address_of(pointer),
        row,
        column,
        b.lshr(args[5], b.i32(6)),
    )
    _body(b, kernel, args)
    module.verify()
    return module


def _tile_origin(b: ThreadBuilder, m: SSAValue, n: SSAValue) -> tuple[SSAValue, SSAValue]:
    """First row and column of this CTA's tile; `GROUP` tile rows are walked column by column."""
    tile = b.sreg("clusterid.x")
    rows, columns = b.lshr(m, b.i32(7)), b.lshr(n, b.i32(8))
    group_size = b.mul(columns, b.i32(GROUP))
    first = b.mul(b.udiv(tile, group_size), b.i32(GROUP))
    left = b.sub(rows, first)
    height = b.select(b.icmp("ult", left, b.i32(GROUP)), left, b.i32(GROUP))
    inside = b.urem(tile, group_size)
    row, column = b.add(first, b.urem(inside, height)), b.udiv(inside, height)
    return b.mul(row, b.i32(TILE_M)), b.mul(column, b.i32(TILE_N))


def _when(b: ThreadBuilder, condition: SSAValue, build: Callable[[], None]) -> None:
    """Builds a block that runs where the condition holds, and goes on behind it."""
    inside, behind = b.new_block(), b.new_block()
    b.cond_br(condition, inside, behind)
    b.at(inside)
    build()
    b.br(behind)
    b.at(behind)


def _body(b: ThreadBuilder, kernel: Kernel, args: Sequence[SSAValue]) -> None:
    warp = b.shfl("idx", b.warp_id(), 0)
    _when(b, b.icmp("eq", warp, b.i32(0)), lambda: _setup(b, kernel, args))
    b.barrier()
    maps = b.load(kernel.map_pointer, pointer_type(1), 8)
    producer, consumer, done = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(b.icmp("ult", warp, b.i32(4)), producer, consumer)
    b.at(producer)
    b.setmaxnreg(40, "dec")
    lead = b.new_block()
    b.cond_br(b.icmp("eq", b.thread_id(), b.i32(0)), lead, done)
    b.at(lead)
    _produce(b, kernel, maps, done)
    b.at(consumer)
    b.setmaxnreg(232, "inc")
    _consume(b, kernel, maps, b.sub(b.lshr(warp, b.i32(2)), b.i32(1)), done)
    b.at(done)
    b.ret()


def _setup(b: ThreadBuilder, kernel: Kernel, args: Sequence[SSAValue]) -> None:
    """Warp 0: tensor maps and barriers."""
    a, b_matrix, c, m, n, k = args
    maps = b.claim_tensor_maps(kernel.table)
    for index, (base, inner, outer, box) in enumerate(
        ((a, k, m, A_TILE.box), (b_matrix, n, k, B_TILE.box), (c, n, m, C_TILE.box))
    ):
        address = b.ptrtoint(base, integer_type(64))
        pitch = b.zext(b.shl(inner, b.i32(1)), integer_type(64))
        scratch = b.gep(kernel.map_scratch, index * TENSOR_MAP_BYTES)
        extents = [b.i32(extent) for extent in box]
        b.fill_tensor_maps(scratch, 1, address, [inner, outer], [pitch], extents, "f16", 128)
    b.publish_tensor_maps(kernel.map_scratch, maps, kernel.table.count)

    def first_lane() -> None:
        for stage in range(kernel.pipeline.stages):
            full = b.gep(kernel.pipeline.barriers, 8 * stage)
            b.mbarrier_init(full, 1)
            b.mbarrier_init(b.gep(full, 8 * kernel.pipeline.stages), CONSUMERS)
        b.fence_mbarrier_init()
        b.store(maps, kernel.map_pointer, 8)

    _when(b, b.elect(), first_lane)


def _loop(
    b: ThreadBuilder,
    steps: SSAValue,
    initial: Sequence[SSAValue],
    build: Callable[..., Sequence[SSAValue]],
    after: Block,
) -> None:
    """Runs `build(index, *values)` at least once and `steps` times; `after` gets the values."""
    loop = b.new_block([i32, *(value.type for value in initial)])
    b.br(loop, [b.i32(0), *initial])
    b.at(loop)
    index, *values = loop.args
    results = build(index, *values)
    following = b.add(index, b.i32(1))
    more = b.icmp("ult", following, steps)
    b.cond_br(
        more, loop, after, [following, *results], list(results)[: len(after.args)], no_unroll=True
    )


def _produce(b: ThreadBuilder, kernel: Kernel, maps: SSAValue, done: Block) -> None:
    """One thread fills the pipeline."""
    map_a, map_b = b.tensor_map(maps, 0), b.tensor_map(maps, 1)
    b.acquire_tensor_map(map_a)
    b.acquire_tensor_map(map_b)

    def step(index: SSAValue, stage: SSAValue, parity: SSAValue) -> Sequence[SSAValue]:
        buffer, full, empty = kernel.pipeline.at(b, stage)
        b.mbarrier_wait(empty, b.xor(parity, b.i32(1)))
        b.mbarrier_expect_tx(full, STAGE_BYTES)
        depth = b.mul(index, b.i32(TILE_K))
        b.tma_load(buffer, map_a, [depth, kernel.row], full)
        for panel in range(B_TILE.panels):
            target = b.gep(buffer, A_TILE.bytes + panel * B_TILE.panel_bytes)
            column = b.add(kernel.column, b.i32(panel * B_TILE.span))
            b.tma_load(target, map_b, [column, depth], full)
        return kernel.pipeline.next(b, stage, parity)

    _loop(b, kernel.steps, [b.i32(0), b.i32(0)], step, done)


def _consume(
    b: ThreadBuilder, kernel: Kernel, maps: SSAValue, group: SSAValue, done: Block
) -> None:
    """A warpgroup multiplies its 64 rows and stores them."""
    leader = b.icmp("eq", b.and_(b.thread_id(), b.i32(127)), b.i32(0))
    wide = integer_type(64)
    rows = b.zext(b.mul(group, b.i32(A_TILE.extent_offset(ROWS))), wide)

    def step(
        index: SSAValue, acc: SSAValue, stage: SSAValue, parity: SSAValue, previous: SSAValue
    ) -> Sequence[SSAValue]:
        buffer, full, empty = kernel.pipeline.at(b, stage)
        b.mbarrier_wait(full, parity)
        acc = b.wgmma(
            f"m64n{TILE_N}k16_f32_f16",
            b.operand_descriptor(b.gep(buffer, rows), A_TILE),
            b.operand_descriptor(b.gep(buffer, A_TILE.bytes), B_TILE),
            acc,
            a_offsets=A_TILE.k_offsets,
            b_offsets=B_TILE.k_offsets,
            b_major="mn",
            fence=True,
            commit=True,
            wait=1,
        )
        released = b.and_(leader, b.icmp("ne", index, b.i32(0)))
        b.mbarrier_arrive(previous, predicate=released)
        return (acc, *kernel.pipeline.next(b, stage, parity), empty)

    after = b.new_block([ACCUMULATOR])
    initial = [b.zero(ACCUMULATOR), b.i32(0), b.i32(0), kernel.pipeline.barriers]
    _loop(b, kernel.steps, initial, step, after)
    b.at(after)
    (acc,) = b.wgmma_wait(0, after.args[0])
    _store(b, kernel, maps, group, acc, leader)
    b.br(done)


def _store(
    b: ThreadBuilder,
    kernel: Kernel,
    maps: SSAValue,
    group: SSAValue,
    acc: SSAValue,
    leader: SSAValue,
) -> None:
    """Through the pipeline, which nobody reads any more, by stmatrix and TMA."""
    tiles = plan_matrix_tiles(wgmma_accumulator((ROWS, TILE_N), 1), C_TILE.layout(), 16)
    assert tiles is not None
    b.barrier(1, 128 * CONSUMERS)
    offset = ThreadMap(b, 4).linear(tiles.lane, tiles.warp)
    base = b.gep(
        kernel.pipeline.buffers, b.zext(b.mul(group, b.i32(C_TILE.bytes)), integer_type(64))
    )
    b.store_matrices(b.fptrunc(acc, f16), base, offset, tiles)
    b.fence_proxy_async()
    b.barrier(2, 128 * CONSUMERS)
    target = b.tensor_map(maps, 2)
    row = b.add(kernel.row, b.mul(group, b.i32(ROWS)))

    def store_panels() -> None:
        b.acquire_tensor_map(target)
        for panel in range(C_TILE.panels):
            column = b.add(kernel.column, b.i32(panel * C_TILE.span))
            b.tma_store(target, [column, row], b.gep(base, panel * C_TILE.panel_bytes))
        b.tma_store_commit()
        b.tma_store_wait(0)

    _when(b, leader, store_panels)
    b.barrier(3, 128 * CONSUMERS)
    last = b.and_(leader, b.icmp("eq", group, b.i32(0)))
    b.release_tensor_maps(kernel.table, maps, last)
