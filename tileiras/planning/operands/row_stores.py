"""Which tiles are stored row by row: those of products whose rows are scattered, in loops over
tiles.

Consumers write the tile to shared memory as the product leaves it, and store whole rows from there.
Where a row goes one thread knows, and says so in shared memory.

Of two tiles at once: f16 experts take 2 to 3 % less time. Of one it is no faster: fp8 experts of
128x128 570.6 us, 573.8 (H200).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.codegen.atoms.row_stages import ACCESS_BYTES, RowStage, row_stage, rows_layout
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.layouts.rematerialization import is_tensor

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan

ELEMENT_BITS = 16
"""Fixed: elements that `stmatrix` moves."""


def row_stores(func: aa.FuncOp, plan: RolePlan) -> tuple[aa.StoreOp, ...]:
    """The stores to do so: all that the kernel writes, or none."""
    from tileiras.analysis.memory_hazards import find_hazards
    from tileiras.planning.memory_order import WRITES, follows_write, precedes_write

    if not plan.is_asynchronous or plan.is_in_tmem or func.cluster_size > 1:
        return ()
    writes = [op for op in func.walk() if isinstance(op, WRITES)]
    stores = tuple(op for op in writes if isinstance(op, aa.StoreOp) and _suits(op, plan))
    if not stores or len(stores) != len(writes) or find_hazards(func).before:
        return ()
    loads = [op for op in func.walk() if isinstance(op, aa.TiledLoadOp | aa.LoadOp)]
    own = [op for op in loads if plan.pipeline_of(op) is None]
    return () if any(follows_write(op) or precedes_write(op) for op in own) else stores


def stage_of(op: aa.StoreOp, plan: RolePlan) -> RowStage | None:
    """The shared memory that a tile leaves through."""
    bits = storage_bits(element_of(op.value))
    return row_stage(shape_of(op.value), plan.warpgroups, bits, transposed=plan.is_transposed)


def chunk_of(op: aa.StoreOp) -> int:
    """Elements of a row that are stored together or not at all."""
    columns = shape_of(op.value)[1]
    if op.mask is None:
        return columns
    constancy = op.mask_constancy.data if op.mask_constancy is not None else ()
    together = min(constancy[1] if len(constancy) > 1 else 1, columns)
    return together & -together


def pointers_layout(op: aa.StoreOp, warps: int) -> LinearLayout | None:
    """Where the consumers' threads hold the pointers of a store, and its mask."""
    return rows_layout(shape_of(op.value), chunk_of(op), warps)


def staged_bytes(plan: RolePlan) -> int:
    """Shared memory for tiles on their way out."""
    stages = (stage_of(op, plan) for op in plan.row_stores)
    return max((stage.bytes for stage in stages if stage is not None), default=0)


def _suits(op: aa.StoreOp, plan: RolePlan) -> bool:
    """Whether a product's registers hold the tile, and its rows are contiguous and aligned."""
    from tileiras.planning.operands.tma_stores import is_from_product, is_in_loop

    if not is_tensor(op.value) or op.ordering.data != MemoryOrdering.WEAK or not is_in_loop(op):
        return False
    shape, element = shape_of(op.value), element_of(op.value)
    if len(shape) != 2 or storage_bits(element) != ELEMENT_BITS:
        return False
    runs = op.contiguity.data if op.contiguity is not None else ()
    alignment = min(op.alignment.data, default=1) if op.alignment is not None else 1
    if len(runs) < 2 or runs[1] < shape[1] or alignment % ACCESS_BYTES:
        return False
    if chunk_of(op) * ELEMENT_BITS // 8 % ACCESS_BYTES:
        return False
    if len({planned.transposed for planned in plan.dots.values()}) > 1:
        return False
    if any(planned.fragments for planned in plan.dots.values()):
        return False
    if not is_from_product(op.value, (shape[0], shape[1])) or stage_of(op, plan) is None:
        return False
    return pointers_layout(op, plan.shape.consumer_warps) is not None
