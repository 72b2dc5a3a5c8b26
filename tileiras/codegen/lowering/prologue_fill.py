"""The first tiles of a pipeline, copied by the consumers' threads while tensor maps are made.

A thread copies 16 bytes of a panel's row at once by cp.async, to the place where TMA would put
them; what is out of bounds becomes zero. A thread's `cp.async.mbarrier.arrive` makes the full
barrier expect one arrival more, which comes when its copies have landed; when all threads have done
so, one of them arrives for the producer, who passes over these stages. cp.async writes through the
generic proxy: in the pipeline's first round consumers pass a proxy fence behind the full barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.tma_boxes import CHUNK_BYTES, SWIZZLE_ROWS, thread_rows
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import MOST_UNROLLED_STAGES, Pipeline
from tileiras.codegen.lowering.tma import view_operand
from tileiras.codegen.lowering.types import storage_bytes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError

STAGES_BEFORE_KEPT_MAPS = 3
"""Policy: stages that threads fill before TMA can, where it has its maps after one trip to memory.

Measured on an H200, us for 1, 2, 3 and all stages: split-K 128x128x8192 4.7, 3.7, 3.7, 3.9; 1024^3
in tiles of 64x128 6.4, 5.6, 5.5, 5.5.
"""
BYTES_BEFORE_KEPT_MAPS = 48 * 1024
"""Policy: and no more stages than have these bytes, which pays where all CTAs start at once.

Two tiles at once are for grids of several waves, which gain by more. So would 64x256 with a CTA for
each tile block and one CTA on an SM: 2048^3 takes 3 to 4 % longer by two stages than by three.
Decision 80 has the times.
"""


@dataclass(frozen=True)
class _Rows:
    """How the threads copy a tile: `source` is where this thread's first 16 bytes come from.

    `starts` are the tile's coordinates, by dim, `own` what this thread adds along the row and
    across; `step` is by how much the tile moves on in an iteration: bytes, and elements by dim.
    Rows are `swizzle` bytes.
    """

    type: TiledViewType
    axis: int
    across: int
    rows: int
    size: int
    source: SSAValue
    starts: list[SSAValue]
    own: tuple[SSAValue, SSAValue]
    extents: list[SSAValue]
    stride: SSAValue
    step_bytes: SSAValue
    steps: list[SSAValue | None]
    offset: int
    swizzle: int
    is_whole: bool
    skipped: SSAValue | None


def lower_producer_skip(ctx: KernelLowering, op: pl.ProducerSkipOp) -> None:
    """Sets the producer's position behind the stages that are filled by the prologue."""
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    lower, upper = ctx.value(op.lower), ctx.value(op.upper)
    step = b.int_cast(ctx.value(op.step), i64)
    span = b.sub(b.int_cast(upper, i64), b.int_cast(lower, i64))
    stages = _stages(ctx, op, pipeline)
    total = b.mul(step, b.i64(stages))
    goes_on = b.icmp("sgt", span, total)
    after = b.add(lower, b.trunc(total, i32))
    first = b.select(goes_on, after, upper)
    count = b.i32(0)
    for stage in range(stages):
        is_filled = b.icmp("sgt", span, b.mul(step, b.i64(stage)))
        count = b.add(count, b.zext(is_filled, i32))
    position, parity = pipeline.position(ctx)
    wraps = b.icmp("eq", count, b.i32(pipeline.stages))
    found = [first, b.select(wraps, b.i32(0), count), b.zext(wraps, i32)]
    if op.condition is not None:
        skips = ctx.value(op.condition)
        others = (lower, position.get(b), parity.get(b))
        found = [b.select(skips, new, old) for new, old in zip(found, others, strict=True)]
    ctx.values[op.result] = found[0]
    position.set(b, found[1])
    parity.set(b, found[2])


def lower_prologue_fill(ctx: KernelLowering, op: pl.PrologueFillOp) -> None:
    """All copies of a stage, stage after stage; then the arrivals that the producer would do.

    Where there is no iteration stages get zeros that nobody reads, unless others have them.
    """
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    loads = _loads(ctx, op)
    step = b.int_cast(ctx.value(op.step), i64)
    lower, upper = (b.int_cast(ctx.value(value), i64) for value in (op.lower, op.upper))
    span = b.sub(upper, lower)
    stages = _stages(ctx, op, pipeline)
    fill = _fill_in_loop if stages > MOST_UNROLLED_STAGES else _fill_unrolled
    fill = partial(fill, ctx, op, pipeline, loads, (span, step), stages)
    if op.at_start is None and op.first_tile is None:
        fill()
    else:
        filled, others, after = b.new_block(), b.new_block(), b.new_block()
        b.cond_br(b.icmp("sgt", span, b.i64(0)), filled, others)
        ctx.start_block(others)
        if op in ctx.roles.first_fills:
            _begin(ctx)
        b.br(after)
        ctx.start_block(filled)
        fill()
        b.br(after)
        ctx.start_block(after)
    if ctx.roles.late_registers:
        b.setmaxnreg(ctx.roles.late_registers, "inc")


def _fill_unrolled(
    ctx: KernelLowering,
    op: pl.PrologueFillOp,
    pipeline: Pipeline,
    loads: list[_Rows],
    bounds: tuple[SSAValue, SSAValue],
    stages: int,
) -> None:
    """A stage after the other; one thread arrives for all. `bounds`: the loop's span and step."""
    b, (span, step) = ctx.b, bounds
    filled: list[SSAValue] = []
    for stage in range(stages):
        wanted = b.icmp("sgt", span, b.mul(step, b.i64(stage)))
        begins = op in ctx.roles.first_fills and stage == 0
        with ctx.where(wanted if stage and op.first_tile is not None else None):
            _fill(ctx, pipeline, loads, b.i32(stage), wanted, begins=begins)
        filled.append(wanted)
    ctx.barrier()
    first = b.icmp("eq", b.thread_id(), b.i32(0))
    for stage, is_filled in enumerate(filled):
        barrier = pipeline.full_barrier(b, b.i32(stage))
        b.mbarrier_arrive(barrier, predicate=b.and_(first, is_filled))


def _fill_in_loop(
    ctx: KernelLowering,
    op: pl.PrologueFillOp,
    pipeline: Pipeline,
    loads: list[_Rows],
    bounds: tuple[SSAValue, SSAValue],
    stages: int,
) -> None:
    """The first stage at once, the others in a loop; a thread for each stage arrives there."""
    b, (span, step) = ctx.b, bounds

    def is_filled(stage: SSAValue) -> SSAValue:
        return b.icmp("sgt", span, b.mul(step, b.int_cast(stage, i64)))

    begins, wanted = op in ctx.roles.first_fills, b.icmp("sgt", span, b.i64(0))
    _fill(ctx, pipeline, loads, b.i32(0), wanted, begins=begins)
    head, body, done = b.new_block([i32]), b.new_block(), b.new_block()
    b.br(head, [b.i32(1)])
    b.at(head)
    stage = head.args[0]
    b.cond_br(b.and_(is_filled(stage), b.icmp("slt", stage, b.i32(stages))), body, done)
    b.at(body)
    _fill(ctx, pipeline, loads, stage, b.i1(True))
    b.br(head, [b.add(stage, b.i32(1))], no_unroll=True)
    ctx.start_block(done)
    ctx.barrier()
    own = b.thread_id()
    arrives = b.and_(b.icmp("ult", own, b.i32(stages)), is_filled(own))
    b.mbarrier_arrive(pipeline.full_barrier(b, own), predicate=arrives)


def _fill(
    ctx: KernelLowering,
    pipeline: Pipeline,
    loads: list[_Rows],
    stage: SSAValue,
    wanted: SSAValue,
    *,
    begins: bool = False,
) -> None:
    """This thread's copies of all tiles into a stage, and its arrival there.

    A kernel `begins` so: there are mbarriers once its first copies are on their way. Where a tile
    is skipped its code is not even fetched: these are the first cycles of the kernel.
    """
    b = ctx.b
    for rows in loads:
        with ctx.where(None if rows.skipped is None else b.not_(rows.skipped)):
            _copy(ctx, pipeline, rows, stage, wanted)
    if begins:
        _begin(ctx)
    b.mbarrier_arrive_copies(pipeline.full_barrier(b, stage), expected=False)


def _begin(ctx: KernelLowering) -> None:
    """Mbarriers are there behind this."""
    if ctx.roles.begin is None:
        raise InternalError("nobody makes mbarriers", where="prologue fill")
    ctx.roles.begin()


def _stages(
    ctx: KernelLowering, op: pl.PrologueFillOp | pl.ProducerSkipOp, pipeline: Pipeline
) -> int:
    """How many stages are filled by the prologue: all that were asked for, few if maps are found
    made.
    """
    most = pipeline.stages if op.stages is None else op.stages.data
    if ctx.roles.maps is not None and ctx.roles.maps.table.keeps:
        most = min(most, STAGES_BEFORE_KEPT_MAPS)
        if not pipeline.fills_two_tiles:
            most = min(most, -(-BYTES_BEFORE_KEPT_MAPS // pipeline.stage_bytes))
    return min(most, pipeline.stages)


def _loads(ctx: KernelLowering, op: pl.PrologueFillOp) -> list[_Rows]:
    """The loads of the op, with their own indices."""
    loads: list[_Rows] = []
    position = 0
    conditions = iter(op.conditions)
    for number, view in enumerate(op.views):
        rank = len(view_type_of(view).tile_shape)
        indices = [ctx.value(index) for index in op.indices[position : position + rank]]
        follows = op.follows.data[position : position + rank]
        position += rank
        steps = [ctx.value(op.step) if follow else None for follow in follows]
        place = (op.axes.data[number], op.offsets.data[number], op.swizzles.data[number])
        skipped = ctx.value(next(conditions)) if op.skipped.data[number] else None
        by_bytes = op.by_bytes is not None
        loads.append(_rows(ctx, view, indices, steps, place, skipped, by_bytes=by_bytes))
    return loads


def _rows(
    ctx: KernelLowering,
    view: SSAValue,
    indices: list[SSAValue],
    steps: list[SSAValue | None],
    place: tuple[int, int, int],
    skipped: SSAValue | None,
    *,
    by_bytes: bool,
) -> _Rows:
    """Where a thread's copies of a tile start."""
    b, type, memref = ctx.b, view_type_of(view), memref_of(view)
    axis, offset, swizzle = place
    found = thread_rows(type, axis, 32 * ctx.num_warps)
    if found is None:
        raise InternalError("threads cannot copy the tile by rows", where="prologue fill")
    across, rows = found
    size = storage_bytes(type.memref.element_type)
    starts = [
        b.mul(b.int_cast(index, i32), b.i32(step))
        for index, step in zip(indices, type.steps, strict=True)
    ]
    extents = [
        b.int_cast(view_operand(ctx, type.memref.shape, memref.dynamic_shape, dim), i32)
        for dim in type.dim_map
    ]
    strides = [
        b.int_cast(view_operand(ctx, type.memref.strides, memref.dynamic_strides, dim), i64)
        for dim in type.dim_map
    ]
    own = _own_place(ctx, swizzle, size)
    elements, moved = b.i64(0), b.i64(0)
    moves: list[SSAValue | None] = []
    for dim, (start, stride) in enumerate(zip(starts, strides, strict=True)):
        at = b.add(start, own[0 if dim == axis else 1]) if dim in (axis, across) else start
        elements = b.add(elements, b.mul(b.int_cast(at, i64), stride))
        step = steps[dim]
        if step is None:
            moves.append(None)
            continue
        moves.append(b.mul(b.int_cast(step, i32), b.i32(type.steps[dim])))
        moved = b.add(moved, b.mul(b.int_cast(step, i64), b.mul(stride, b.i64(type.steps[dim]))))
    base = b.inttoptr(ctx.value(memref.base), ctx.pointer)
    return _Rows(
        type=type,
        axis=axis,
        across=across,
        rows=rows,
        size=size,
        source=b.gep(base, b.mul(elements, b.i64(size))),
        starts=starts,
        own=own,
        extents=extents,
        stride=b.mul(strides[across], b.i64(size)),
        step_bytes=b.mul(moved, b.i64(size)),
        steps=moves,
        offset=offset,
        swizzle=swizzle,
        is_whole=not by_bytes and _ends_with_chunk(type, memref, axis),
        skipped=skipped,
    )


def _own_place(ctx: KernelLowering, swizzle: int, size: int) -> tuple[SSAValue, SSAValue]:
    """What a thread adds to a tile's coordinates: elements along a row, and rows."""
    b, chunks = ctx.b, swizzle // CHUNK_BYTES
    chunk, row = b.and_(b.thread_id(), b.i32(chunks - 1)), b.i32(chunks.bit_length() - 1)
    return b.mul(chunk, b.i32(CHUNK_BYTES // size)), b.lshr(b.thread_id(), row)


def _ends_with_chunk(type: TiledViewType, memref: aa.MakeMemRefOp, axis: int) -> bool:
    """Whether 16 bytes of a row lie in the tensor or out of it, never in part."""
    chunk, dim = CHUNK_BYTES // storage_bytes(type.memref.element_type), type.dim_map[axis]
    size, divisors = type.memref.shape[dim], memref.shape_divisor
    known = size if size != DYNAMIC else (divisors.data[dim] if divisors is not None else 1)
    return known % chunk == 0 and type.steps[axis] % chunk == 0


def _copy(
    ctx: KernelLowering, pipeline: Pipeline, rows: _Rows, stage: SSAValue, is_filled: SSAValue
) -> None:
    """This thread's copies of one tile into a stage."""
    b = ctx.b
    chunks = rows.swizzle // CHUNK_BYTES
    at_once = 32 * ctx.num_warps // chunks
    span = rows.swizzle // rows.size
    panels = rows.type.tile_shape[rows.axis] // span
    starts = [
        start if move is None else b.add(start, b.mul(move, stage))
        for start, move in zip(rows.starts, rows.steps, strict=True)
    ]
    inside = is_filled
    for dim, (start, extent) in enumerate(zip(starts, rows.extents, strict=True)):
        if dim not in (rows.axis, rows.across):
            inside = b.and_(inside, b.icmp("ult", start, extent))
    # Rows of 64 or 32 bytes share the lines of 128 bytes that the pattern counts.
    line = rows.own[1]
    if chunks < SWIZZLE_ROWS:
        line = b.lshr(line, b.i32((SWIZZLE_ROWS // chunks).bit_length() - 1))
    last = b.i32(chunks - 1)
    swizzled = b.xor(b.and_(b.thread_id(), last), b.and_(line, last))
    place = b.add(b.mul(rows.own[1], b.i32(rows.swizzle)), b.mul(swizzled, b.i32(CHUNK_BYTES)))
    address = b.gep(pipeline.stage_address(b, stage), rows.offset)
    target = b.gep(address, b.int_cast(place, i64))
    source = b.gep(rows.source, b.mul(rows.step_bytes, b.int_cast(stage, i64)))
    column, row = (b.add(starts[rows.axis], rows.own[0]), b.add(starts[rows.across], rows.own[1]))
    for panel in range(panels):
        start = b.add(column, b.i32(panel * span))
        size, height = None, rows.extents[rows.across]
        if rows.is_whole:
            exists = b.and_(inside, b.icmp("ult", start, rows.extents[rows.axis]))
            height = b.select(exists, height, b.i32(0))
        else:
            size = _bytes_inside(ctx, start, rows)
        for first in range(0, rows.rows, at_once):
            at = b.add(row, b.i32(first))
            delta = b.add(b.mul(rows.stride, b.i64(first)), b.i64(panel * rows.swizzle))
            cell = b.gep(target, (panel * rows.rows + first) * rows.swizzle)
            piece = b.gep(source, delta)
            if size is None:
                b.cp_async(cell, piece, CHUNK_BYTES, "cg", ignore=b.icmp("uge", at, height))
            else:
                exists = b.and_(inside, b.icmp("ult", at, height))
                b.cp_async(cell, piece, CHUNK_BYTES, "cg", b.select(exists, size, b.i32(0)))


def _bytes_inside(ctx: KernelLowering, column: SSAValue, rows: _Rows) -> SSAValue:
    """Bytes of 16 from a column on that lie in the tensor."""
    b, extent = ctx.b, rows.extents[rows.axis]
    left = b.sub(extent, column)
    most = b.i32(CHUNK_BYTES // rows.size)
    count = b.select(b.icmp("ult", left, most), left, most)
    return b.select(b.icmp("ult", column, extent), b.mul(count, b.i32(rows.size)), b.i32(0))
