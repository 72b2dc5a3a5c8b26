"""Whether two neighbouring tile blocks of few rows can be one of twice the rows.

    %p = program_id 0                            attention: a block of queries
    %q = load %Q[%p, 0] of 64 rows               differs
    for { %k = load %K[%j]; %v = load %V[%j]     the same for both: loaded once
          %s = dot %q, %k; ..; dot .., %v }
    store %o, %O[%p, 0]                          of 64 rows

Nothing but the places of rows depends on the number of the tile block, so that all that rows are
made of has twice as many, and all else is the same. The second warpgroup computes the rows of the
second tile block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.hints import integer_hint
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.operands.tma import place_bytes
from tileiras.planning.resources.cta import FIXED_BYTES, MAX_REGISTERS, ROWS_PER_WARPGROUP
from tileiras.planning.schedule.starts import loads_operands_alone, wgmma_dots
from tileiras.planning.tile_scheduler.joinable import TILES, product_loop
from tileiras.planning.tiling.product_cut import CannotCutError, ProductCut

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan

LEAST_BYTES = 256
"""Policy: of a key. Of shorter ones L2 sends an SM enough for two CTAs of 64 queries.

H200, f16, full attention, 64x128 and 128x128, us: heads of 128 852, 788; of 96 974, 770; of 192 and
128 1485, 1064; of 256, 64 keys, 1846, 1524; of 64 1112, 1118; of 32 964, 1003.
"""
MOST_KEYS = 128
"""Policy: of a tile, where more tile blocks are asked for on an SM than are computed as one. Larger
ones take so long that a tile block alone on an SM, which has nothing beside it, loses.

H200, f16, one query, tiles of 64x256, us, as one and not: 256 tile blocks 36.4, 34.9; with four
heads a key head 22.1, 18.5; 32 tile blocks 11.0, 11.3. Full attention of 64x128 795, 844.
"""
CTAS = 2
"""Fixed: that share an SM, and pipelines of keys and of values."""
_WIDENED = (
    ElementwiseOp,
    aa.BroadcastOp,
    aa.ConstantOp,
    aa.DotOp,
    aa.ForOp,
    aa.PermuteOp,
    aa.ReduceOp,
    aa.ReshapeOp,
    aa.SplatOp,
    aa.TiledLoadOp,
    aa.TiledStoreOp,
)
"""Operations that can be done on twice the rows."""


@dataclass(frozen=True)
class MoreRows:
    """What of a kernel has rows, and could have more."""

    cut: ProductCut
    """What has rows, and along which dim these are."""
    accesses: tuple[aa.TiledLoadOp | aa.TiledStoreOp, ...]
    """Loads and stores of rows."""


@dataclass(frozen=True)
class RowsOfBlocks(MoreRows):
    """A kernel whose neighbours along the first axis of the grid can be one."""

    number: OpResult
    """Of the tile block along that axis."""


def do_rows_of_blocks_pay(func: aa.FuncOp, plan: RolePlan) -> bool:
    """Whether a kernel of one warpgroup a tile block loads so much for its rows that two of them
    should share it.
    """
    if not _is_plain_attention(func, plan, ROWS_PER_WARPGROUP, ROWS_PER_WARPGROUP):
        return False
    if (integer_hint(func, "occupancy") or 0) > TILES and _most_columns(plan) > MOST_KEYS:
        return False
    keys = (
        shape_of(planned.dot.lhs)[-1] * planned.operand_bits
        for planned in wgmma_dots(plan)
        if planned.lhs
    )
    return max(keys, default=0) >= 8 * LEAST_BYTES and rows_of_blocks(func) is not None


def _most_columns(plan: RolePlan) -> int:
    """Of the scores of a tile of keys."""
    columns = (planned.columns for planned in wgmma_dots(plan) if planned.starts_at_zero)
    return max(columns, default=0)


def do_whole_rows_pay(func: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> bool:
    """Whether a tile of few rows, of which warps have copies, should have all of an instruction's:
    where their queries would come to shared memory then, and leave registers for two CTAs.
    """
    if plan.shape.ctas > 1 or not _is_plain_attention(func, plan, 1, ROWS_PER_WARPGROUP - 1):
        return False
    dots = wgmma_dots(plan)
    words = sum(planned.accumulator_registers(1) for planned in dots)
    # Probabilities are half as large as their scores.
    words += sum(
        planned.accumulator_registers(1) // 2 for planned in dots if planned.starts_at_zero
    )
    if words > MAX_REGISTERS:
        return False
    found = more_rows(func)
    queries = [load for load in found.accesses if isinstance(load, aa.TiledLoadOp)] if found else []
    if len(queries) != 1:
        return False
    # Two CTAs have as much under way as one has, that takes no more for a key and a value.
    factor = ROWS_PER_WARPGROUP // min(planned.rows for planned in dots)
    room = target.shared_memory_of_each(CTAS) - FIXED_BYTES - place_bytes(queries[0]) * factor
    bytes = [pipeline.bytes for pipeline in plan.pipelines]
    return len(bytes) == CTAS and room >= sum(bytes) + max(bytes)


def _is_plain_attention(func: aa.FuncOp, plan: RolePlan, least: int, most: int) -> bool:
    """Whether one warpgroup multiplies tiles of so many rows, among them computed ones, by tiles
    that TMA brings.
    """
    if plan.warpgroups > 1 or plan.stores or any(pipeline.gathers for pipeline in plan.pipelines):
        return False
    if func.cluster_size > 1 or func.in_rows is not None:
        return False
    if not loads_operands_alone(plan):
        return False
    dots = list(plan.dots.values())
    if not any(planned.lhs is None for planned in dots):
        return False
    for planned in dots:
        if not isinstance(planned, WgmmaDot) or not least <= planned.rows <= most:
            return False
        if planned.fragments is not None or planned.transposed or planned.is_smem_transposed:
            return False
    return True


def rows_of_blocks(func: aa.FuncOp) -> RowsOfBlocks | None:
    """What is of the rows of a kernel; None where more depends on the number of the tile block."""
    found = more_rows(func)
    numbers = [
        op.result
        for op in func.walk()
        if isinstance(op, aa.GetProgramIdOp) and not op.axis.value.data and op.result.first_use
    ]
    if found is None or len(numbers) != 1:
        return None
    [number] = numbers
    if any(op.indices[found.cut.dims_of(op)[0]] is not number for op in found.accesses):
        return None
    users = [use.operation for use in number.uses]
    if len(users) != len(found.accesses) or set(users) != set(found.accesses):
        return None
    return RowsOfBlocks(found.cut, found.accesses, number)


def more_rows(func: aa.FuncOp) -> MoreRows | None:
    """What has rows in a kernel with one loop of products; None where more depends on their number
    than how many there are.
    """
    block = func.body.block
    loop = product_loop(block)
    if loop is None:
        return None
    cut = ProductCut(block, TILES, lambda _: False)
    try:
        dots = [op for op in loop.body.block.ops if isinstance(op, aa.DotOp)]
        cut.cut([(dot.result, 0) for dot in dots])
    except CannotCutError:
        return None
    if any(len(dims) != 1 for dims in cut.dims.values()):
        return None
    wide = [op for op in func.walk() if _is_wide(op, cut)]
    if any(not isinstance(op, _WIDENED) or cut.is_used_whole(op) for op in wide):
        return None
    accesses = tuple(op for op in wide if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp))
    if any(op.parent_op() is not func or not _may_have_more(op, cut) for op in accesses):
        return None
    is_stored = any(isinstance(op, aa.TiledStoreOp) for op in accesses)
    return MoreRows(cut, accesses) if is_stored else None


def _is_wide(op: Operation, cut: ProductCut) -> bool:
    """Whether an operation makes, or stores, anything of twice the rows."""
    return op in cut.sinks or any(result in cut.dims for result in op.results)


def _may_have_more(op: aa.TiledLoadOp | aa.TiledStoreOp, cut: ProductCut) -> bool:
    """Whether tiles of rows come one behind the other, and the memory that is stored to has a size
    that is known when the kernel runs.
    """
    [dim] = cut.dims_of(op)
    view = view_type_of(op.view)
    if view.sparse_dim is not None or view.steps[dim] != view.tile_shape[dim]:
        return False
    if isinstance(op, aa.TiledLoadOp):
        return isinstance(op.result.type, TensorType)
    return size_operand(op, view.dim_map[dim]) is not None


def size_operand(op: aa.TiledStoreOp, axis: int) -> int | None:
    """Which operand of the memref says how large it is along an axis; None if its type does."""
    sizes = view_type_of(op.view).memref.shape
    if sizes[axis] != DYNAMIC:
        return None
    return 1 + sizes[:axis].count(DYNAMIC)
