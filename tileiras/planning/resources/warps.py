"""How many warps a tile block gets."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.register_pressure import block_pressure, held_value
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_count, element_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import CompileError
from tileiras.planning.access import LINE_BYTES, plan_pointer_access, plan_view_access
from tileiras.planning.hints import integer_hint
from tileiras.planning.model.cta import CtaPlan

ELEMENTS_PER_WARP = 256
"""Policy: a warp per so many elements, up to four: 8 a thread, two 16-byte accesses of f32."""
COMBINED_BY_WARP = 1024
"""Policy: a warp gets up to so many if they are combined: then shuffles do, without waiting for
others.
"""
GROUPS_BY_WARP = 512
"""Policy: the same where a loop keeps maxima and sums of groups of columns: 16 elements a
thread. Cross entropy f16, us on one H200 with 2 and 4 warps, tiles of 2048: 4096x128256 339
and 305, 2048x32000 48.3 and 46.5, 16384x4096 45.6 and 47.9 (decision 0078).
"""
EIGHT_WARPS_FROM = 16384
"""Policy: tiles of so many elements get eight warps."""
EIGHT_STREAMING_WARPS_FROM = 8192
"""Policy: the same where loops only load and combine tiles: grids of sums may be so small that an
SM has one tile block, and one warp of a scheduler waits for all that it does. Sums of the columns
of 65536x2048 f16, tiles of 64x128, us on one H200 with 4 and 8: 213 and 170.
"""
EIGHT_WARPS_OF_COLUMNS_FROM = 4096
"""Policy: the same for loops over rows, whose grids are those of columns: us on one H200 with 4 and
8, tiles of 64x64 and 32x128: 65536x2048 f16 134 and 110, 267 and 215; 32768x1024 f32 69.6 and 63.8,
137 and 120; 2048x65536 f32 120.6 and 122.9, 120.2 and 120.3. Along rows, of which there are many:
65536x8192 f16, tiles of 1x4096, 278 and 314; cross entropy of 16384x4096 107 and 112.
"""
EIGHT_WARPS_OF_LINES_FROM = 2048
"""Policy: the same where rows fill lines of the caches. us on one H200 with 4 and 8, tiles of
32x64: argmax of 8192x8192 f16 35.7 and 34.4, f32 66.7 and 64.1, of 2048x65536 70.6 and 65.8, 131
and 126; sums f16 37.5 and 38.8, f32 74.8 and 67.2; argmax f16 64x32, of half lines, 35.8 and 38.2
(decision 0085).
"""
SIXTEEN_WARPS_FROM = 65536
"""Policy: larger tiles get more warps, so that a tile of f32 takes at most 128 registers of a
thread.
"""
MOVED_BY_WARP, MANY_WARPS_FROM = 512, 8192
"""Policy: elements of a warp, in tiles of more than so many, in kernels that only load, compute
element by element and store: 16 a thread; tiles of so many have 32. With more in each of fewer
threads an SM holds too few warps to wait for memory. silu of 2^26 f16 in tiles of 8192, us on one
H200 with 4 and 8 warps: 102 and 79 (decision 0071 has a table).
"""
MOVED_WORDS, MANY_WORDS_FROM = 8, 4096
"""Policy: elements of a thread, in such kernels, where all that is moved is elements of 32 bits:
two accesses of 16 bytes. us on one H200 with 4, 8, 16 and 32 warps, tiles of 4096, 2^26: sin 135.0,
133.7, 131.0; gelu 134.2, 135.8, 131.7; pow 244, 201, 203; transposes of 32x128 147.5, 146.5, 144.6;
of 8192: silu 135.9 (8), 131.1, 131.5. Elements of 16 bits lose in tiles of 4096: gelu 35.9 and 38.1
with 4 and 8 (decision 0078).
"""
SCANNED = 2
"""Policy: times as large as others count tiles that are scanned: prefixes of parts lie beside."""
COMFORTABLE_WORDS = 128
"""Policy: registers of a thread that tiles may take: the other half of 255 is for addresses and
work.
"""
WARPS_FOR_READING_AGAIN = 8
"""Policy: at most, for rows that a tile block reads more than once: fewer tile blocks on an SM
then, whose rows stay in L2. Layer norm of 65536 rows of 32 KB, three loops over each, us on one
H100 with 4, 8 and 16 warps 2187, 1539, 1611; of 1000 rows of 8 KB, where nothing is read again from
far, 7.4, 9.3 and 12.0.
"""
NARROW_ACCESSES = 2
"""Policy: accesses of a thread, there, to elements of less than 32 bits: with more elements to each
thread fewer warps wait for one another. On one H200, us with one and two: softmax in parts of
8192x32768 f16, tiles of 2048, 516 and 465; layer norm of 65536x16384 bf16 1456 and 1294; of f32,
16384x16384, tiles of 1024, 840 and 890.
"""
ACCESS_BYTES, WORD_BYTES = 16, 4
"""Fixed: the widest access of one thread to global memory, and a register."""
STREAMED_ELEMENTS = 4096
"""Policy: smaller tiles are parts of rows, of which there are many tile blocks."""
_OTHER_WORK = (aa.ProductOp, aa.TiledStoreOp, aa.ReduceOp, aa.ScanOp)
MOST_WARPS = 32
"""Fixed: warps of a CTA on every target."""
MAX_ELEMENTS_PER_THREAD = 512
"""Policy: a tile of more, each in a register, takes LLVM and ptxas minutes (a scan of this: 24 s).
"""


def plan_cta(func: aa.FuncOp, target: GpuTarget, num_warps: int = 0) -> CtaPlan:
    """Warps by the largest tile and by what is live at once, or as `num_worker_warps_per_cta` asks,
    but for warps without anything to do.

    `num_warps`: another number, a power of two; 0 leaves it to these. Raises CompileError for a
    tile that would take far more registers than there are.
    """
    asked = num_warps or integer_hint(func, "num_worker_warps_per_cta")
    if asked is not None and 1 <= asked <= 32 and asked & (asked - 1) == 0:
        asked = asked if num_warps else min(asked, _with_work(func))
        _check_registers(func, asked, target)
        return CtaPlan(asked, target)
    pressure = block_pressure(func.body.block)
    warps = max(_for_largest_tile(func), _for_reading_again(func))
    warps = max(warps, _for_moving(func, pressure, target))
    # Beyond, more warps give a tile block no more space.
    most = target.warps_with_all_registers
    words = COMFORTABLE_WORDS * (SCANNED if any(map(_scans_down, func.walk())) else 1)
    while warps < most and pressure > warps * 32 * words:
        warps *= 2
    if func.sharer_ctas is not None:
        warps = min(warps, _without_copies(func))
    _check_registers(func, warps, target)
    return CtaPlan(warps, target)


def _for_largest_tile(func: aa.FuncOp) -> int:
    """Warps that give each thread of the largest tile a fair share of elements.

    A row that is reduced or scanned stays within a warp if it is not too long.
    """
    largest = 1
    operations = list(func.walk())
    for op in operations:
        times = SCANNED if isinstance(op, aa.ScanOp) and not _scans_down(op) else 1
        for result in op.results:
            largest = max(largest, times * element_count(result))
    if largest >= SIXTEEN_WARPS_FROM:
        return 16
    if largest >= EIGHT_WARPS_FROM:
        return 8
    if any(
        only_combines_tiles(op, EIGHT_STREAMING_WARPS_FROM)
        or adds_up_columns(op)
        or _adds_up_lines(op)
        or _scans_rows_in_pairs(op)
        for op in operations
    ):
        return 8
    share = max(ELEMENTS_PER_WARP, min(COMBINED_BY_WARP, _longest_combined(operations)))
    warps = 1
    while warps < 4 and warps * share < largest:
        warps *= 2
    return warps


def _scans_down(op: Operation) -> bool:
    """Whether an operation scans columns in a loop.

    Few warps exchange few totals, and a column's elements become its prefixes one by one. 8192x8192
    f16 in 64x64, us on one H200 with 4 and 8: 70.7 and 96.6.
    """
    if not isinstance(op, aa.ScanOp) or not isinstance(op.parent_op(), aa.ForOp):
        return False
    from tileiras.planning.column_loops import scans_down_columns

    return scans_down_columns(op.parent_op())


def _scans_rows_in_pairs(op: Operation) -> bool:
    """Whether a loop scans two tiles along their rows in each iteration (`join-iterations`): they
    are one of twice the size.
    """
    if not isinstance(op, aa.ForOp):
        return False
    dims = [inner.dim.value.data for inner in op.body.block.ops if isinstance(inner, aa.ScanOp)]
    accesses = (aa.TiledLoadOp, aa.ReadStageOp)
    loads = [inner for inner in op.body.block.ops if isinstance(inner, accesses)]
    if len(dims) < 2 or len(loads) < 2:
        return False
    views = [view_type_of(load.view) for load in loads]
    return all(view.memref.strides[view.dim_map[dims[0]]] == 1 for view in views)


def _for_moving(func: aa.FuncOp, pressure: int, target: GpuTarget) -> int:
    """Warps for a large tile of a kernel that loads, computes element by element, and stores.

    What is live at once has to find room in the registers of an SM, and two tile blocks on it.
    """
    if pressure > target.registers_per_sm:
        return 1
    largest = 1
    for op in func.walk():
        if op.regions and op is not func or isinstance(op, aa.ProductOp):
            return 1
        largest = max(largest, *map(element_count, op.results), 1)
    most = 1 << ((target.max_warps_per_sm // 2).bit_length() - 1)
    if largest >= MANY_WORDS_FROM and _moves_words(func):
        return min(MOST_WARPS, most, largest // (32 * MOVED_WORDS))
    if largest < MANY_WARPS_FROM:
        return 1
    share = MOVED_BY_WARP if largest > MANY_WARPS_FROM else 2 * MOVED_BY_WARP
    return min(MOST_WARPS, most, largest // share)


def _moves_words(func: aa.FuncOp) -> bool:
    """Whether all tiles that a kernel loads and stores have elements of 32 bits."""
    sizes: set[int] = set()
    for op in func.walk():
        match op:
            case aa.TiledLoadOp() | aa.TiledStoreOp():
                sizes.add(storage_bytes(view_type_of(op.view).memref.element_type))
            case aa.LoadOp():
                sizes.add(storage_bytes(element_of(op.result)))
            case aa.StoreOp():
                sizes.add(storage_bytes(element_of(op.value)))
            case _:
                pass
    return sizes == {WORD_BYTES}


def _with_work(func: aa.FuncOp) -> int:
    """The most warps that a tile keeps busy, if each of their threads moves as much as it can.

    The others would hold copies, wait at barriers and keep other tile blocks from the SM. RMS norm
    of 65536 rows through pointers and views, four warps asked for, us on one H200, before and with
    as many as this: f16 1024 in tiles of 512 84.2, 77.6 and 158, 97; tiles of 256 116, 77; bf16
    1024 in tiles of 512 94, 78; f32 1024 in tiles of 256 140, 142 and 249, 164.
    """
    most = 1
    for op in func.walk():
        if isinstance(op, aa.ProductOp):
            return MOST_WARPS
        most = max(most, _accessing_threads(op) // 32)
    return 1 << (min(most, MOST_WARPS).bit_length() - 1)


def _without_copies(func: aa.FuncOp) -> int:
    """The most warps of which none has what another one has of the largest tiles that are loaded.

    Each thread keeps its elements in shared memory, whoever else has them.
    """
    loads = [op for op in func.walk() if isinstance(op, aa.TiledLoadOp | aa.ReadStageOp)]
    largest = max((element_count(load.result) for load in loads), default=1)
    threads = [_accessing_threads(op) for op in loads if element_count(op.result) == largest]
    return 1 << (max(1, min(threads, default=32) // 32).bit_length() - 1)


def _accessing_threads(op: Operation) -> int:
    """Threads that one access each moves a tile; 0 for other operations."""
    match op:
        case aa.TiledLoadOp() | aa.ReadStageOp():
            return element_count(op.result) // plan_view_access(op.view, 1).vector
        case aa.TiledStoreOp() | aa.TiledAtomicRedOp():
            return element_count(op.value) // plan_view_access(op.view, 1).vector
        case aa.LoadOp() | aa.StoreOp():
            access = plan_pointer_access(op, 1)
            return element_count(op.pointers) // access.vector if access is not None else 0
        case aa.AtomicRMWOp() | aa.AtomicCASOp():
            return element_count(op.result)
        case _:
            return 0


def only_combines_tiles(op: Operation, least: int = STREAMED_ELEMENTS) -> bool:
    """Whether this is a loop that loads tiles of so many elements and combines them, no more.

    Such a loop streams, as column sums do. A grid of them may be smaller than the GPU has SMs, so
    one tile block must be able to keep an SM busy: with more warps, more bytes on the way, and
    copies that leave no tile behind in L1, where nobody reads it again. Sums of the columns of
    65536x2048 f32 by 16 tile blocks, tiles of 64x128, us on one H200: with tiles in L1 313,
    without 244.
    """
    if not isinstance(op, aa.ForOp):
        return False
    inside = list(op.body.block.ops)
    if any(isinstance(inner, _OTHER_WORK) or inner.regions for inner in inside):
        return False
    loads = [inner for inner in inside if isinstance(inner, aa.TiledLoadOp | aa.ReadStageOp)]
    carried = any(isinstance(arg.type, TensorType) for arg in op.body.block.args)
    return carried and any(element_count(load.result) >= least for load in loads)


def adds_up_columns(op: Operation, least: int = EIGHT_WARPS_OF_COLUMNS_FROM) -> bool:
    """Whether a loop combines rows of large tiles, so that tile blocks are those of columns.

    What it hands on is reduced along a dim whose elements do not lie side by side in memory.
    """
    if not isinstance(op, aa.ForOp) or not only_combines_tiles(op, least):
        return False
    reduced = [
        use.operation.dim.value.data
        for result in op.results
        for use in result.uses
        if isinstance(use.operation, aa.ReduceOp)
    ]
    loads = [o for o in op.body.block.ops if isinstance(o, aa.TiledLoadOp | aa.ReadStageOp)]
    views = [view_type_of(load.view) for load in loads]
    return bool(reduced) and not any(
        len(view.tile_shape) <= dim or view.memref.strides[view.dim_map[dim]] == 1
        for view in views
        for dim in reduced
    )


def _adds_up_lines(op: Operation) -> bool:
    """Whether a loop combines rows of tiles, all of which fill lines of the caches."""
    if not isinstance(op, aa.ForOp) or not adds_up_columns(op, EIGHT_WARPS_OF_LINES_FROM):
        return False
    loads = [o for o in op.body.block.ops if isinstance(o, aa.TiledLoadOp | aa.ReadStageOp)]
    return all(_row_bytes(load.view) >= LINE_BYTES for load in loads)


def _row_bytes(view: SSAValue) -> int:
    """Bytes that lie side by side in memory of each tile of a view."""
    type = view_type_of(view)
    runs = [n for n, dim in zip(type.tile_shape, type.dim_map) if type.memref.strides[dim] == 1]
    return max(runs, default=1) * storage_bytes(type.memref.element_type)


def _for_reading_again(func: aa.FuncOp) -> int:
    """Warps for a tensor that several loops load: as many as its tiles keep busy.

    The same whether loads have been started early or not.
    """
    loops: dict[Operation, dict[Operation | None, None]] = {}
    warps = 1
    for op in func.walk():
        is_load = isinstance(op, aa.TiledLoadOp | aa.ReadStageOp)
        loop = op.parent_op()
        if not is_load or not isinstance(loop, aa.ForOp) or REMAINDER in loop.attributes:
            continue
        found = loops.setdefault(memref_of(op.view), {})
        found[op.parent_op()] = None
        if len(found) > 1:
            size = storage_bytes(view_type_of(op.view).memref.element_type)
            each = ACCESS_BYTES * (NARROW_ACCESSES if size < WORD_BYTES else 1)
            threads = element_count(op.result) * size // each
            warps = max(warps, min(WARPS_FOR_READING_AGAIN, threads // 32))
    return 1 << (warps.bit_length() - 1)


def _longest_combined(operations: list[Operation]) -> int:
    """Elements of the longest row that a reduction or scan goes along."""
    longest = 1
    for op in operations:
        if isinstance(op, aa.ReduceOp | aa.ScanOp):
            for operand in op.operands:
                if isinstance(operand.type, TensorType):
                    longest = max(longest, operand.type.get_shape()[op.dim.value.data])
        if isinstance(op, aa.ReduceOp) and _keeps_groups(op):
            longest = max(longest, GROUPS_BY_WARP)
    return longest


def _keeps_groups(op: aa.ReduceOp) -> bool:
    """Whether a loop keeps what it combines of groups of columns (`join-iterations`)."""
    loop, made = op.parent_op(), op.operands[0].owner
    if not isinstance(loop, aa.ForOp) or not isinstance(made, aa.ReshapeOp):
        return False
    return any(arg.type == op.results[0].type for arg in loop.body.block.args)


def _check_registers(func: aa.FuncOp, warps: int, target: GpuTarget) -> None:
    """Raises CompileError for a tile that not even memory for spilled registers makes bearable."""
    threads = warps * 32
    limit = threads * MAX_ELEMENTS_PER_THREAD
    for op in func.walk():
        for result in op.results:
            count = element_count(result)
            if count <= limit or held_value(result) is not result:
                continue
            registers = min(target.max_registers_per_thread, target.registers_per_sm // threads)
            raise CompileError(
                f"'{op.name.partition('.')[2]}' op makes a tile of {count} elements that cannot be "
                f"computed in parts: {count // threads} registers in each of {threads} threads, "
                f"{target.name} has {registers}: use tiles of at most {limit} elements",
                place_of(op),
            )
