"""The pass `split-reductions`: the CTAs of a cluster divide a loop that adds up columns.

    %s = for %i in [0, %n) step 1      ->      %s = for %i in [%rank, %n) step 4
    %r = reduce %s dim 0                       %r = reduce %s dim 0
    store %r                                   %sent = share_tiles %r {reader = 3}
                                               if %rank == 3 {
                                                 await_shared %sent; store (%r_0 + %r_1) + ..
                                               } else { send_shared %sent }

A grid of tiles of columns may have fewer tile blocks than the GPU has SMs, each with a long loop.
What one tile block sums up is then the work of a cluster; one of its CTAs goes on with the sum.

    for %part in [0, 4) { for %i { .. }; store }   ->   for %part in [%rank, 4) step 4 { .. }

Where the tile was too large for registers, its parts are divided instead: they need no sum.

Kernels that go down columns tile after tile, and need what an iteration has for the next one, have
their columns divided:

    for %i { scan %x[%i, %pid] of 64x128 }   ->   for %i { scan %x[%i, 2 * %pid + %rank] of 64x64 }

A grid that fills the GPU needs no help, and would pay for it. So the kernel asks how many tile
blocks there are. If they are many, each CTA of every fourth cluster (of columns: of every second)
has one, and the other clusters end at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.divided_columns import DividedColumns
    from tileiras.planning.part_loops import PartLoop
    from tileiras.planning.reduction_loops import DividedLoop

    Divided = DividedLoop | PartLoop | DividedColumns

CTAS = 4
"""Policy: CTAs of a cluster. How many tile blocks there are is known at launch only: more CTAs gain
where there are few, and cost where many fill the GPU anyway (decision 0047 has a table)."""
MANY = 7
"""Policy: half as many times as many tile blocks as a GPU has SMs fill it: an SM holds two of these
CTAs, and a last round of half of them would be no gain. Then each tile block is left to one CTA
(decision 0071 has a table).
"""
HALVED = (60, 98)
"""Policy: tile blocks in percent of the number of SMs, of which not all clusters find room at once,
but half as many do: then half of a cluster has a tile block (decision 0082 has a table).
"""
MANY_OF_COLUMNS = 2
"""Policy: so many quarters of the number of SMs are enough tile blocks, where columns are divided:
128 of them keep memory busy (decision 0078 has a table).
"""
CTAS_OF_COLUMNS = 2
"""Policy: CTAs that divide columns: four of a cluster share an SM if they find room. Scans and
argmax of 8192x8192 f16 in tiles of 64x256, us on one H200, with four: 119 and 133; in tiles of
64x128 with two: 78 and 47.
"""
MOST_BYTES = 64 * 1024
"""Policy: shared memory for what the CTAs of a cluster send to one of them."""
THREADS = 256
"""Policy: threads of a tile block that adds up columns, each of which sends whole cells."""


@dataclass(frozen=True)
class SplitReductionsPass(IrPass):
    """Divides a loop that adds up the columns of large tiles among the CTAs of a cluster; or one
    over the parts of tiles that are too large for registers; or the columns of a kernel that scans
    or reduces tiles one after another.

    Before   %s = for %i in [0, %n) step 1 { carried + load };  %r = reduce %s;  store %r
    After    %s = for %i in [%rank, %n) step 4 { carried + load };  %r = reduce %s
             %e = share_tiles %r;  if %rank == 3 { await_shared %e;  store (sum of all %r) }
             else { send_shared %e }
             (of many tile blocks each CTA of every fourth cluster runs one, as it was written)
    Requires nv_tileaa, with the strategies of kernels; a target with clusters
    Leaves   kernels with another loop, or with effects before it; sums that the loop reads
             otherwise, or whose order the program fixes; those along contiguous dims, of which
             there are many tile blocks
    """

    name = "split-reductions"
    title: ClassVar[str] = "Divide reductions among the CTAs of a cluster"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or func.cluster_size > 1 or not _has_loop(func):
                continue
            from tileiras.planning.divided_columns import find_divided_columns
            from tileiras.planning.part_loops import find_part_loop
            from tileiras.planning.reduction_loops import find_divided_loop
            from tileiras.planning.strategy import drop_strategy

            found = find_divided_loop(func) or find_part_loop(func) or find_divided_columns(func)
            size = _cluster_size(func, found, target) if found is not None else 1
            if found is not None and size > 1:
                _divide(func, found, size, target.performance.multiprocessors)
                func.properties["cluster"] = IntegerAttr(size, i32)
                if _stay_apart(found):
                    func.properties["apart"] = UnitAttr()
                drop_strategy(func)
                ctx.remarks.add(_remark(func, found, size))


def _has_loop(func: aa.FuncOp) -> bool:
    return any(isinstance(op, aa.ForOp) for op in func.body.block.ops)


def _remark(func: aa.FuncOp, found: Divided, size: int) -> Remark:
    from tileiras.planning.divided_columns import DividedColumns
    from tileiras.planning.part_loops import PartLoop

    what = "the iterations of a loop, and add up their sums"
    if isinstance(found, PartLoop):
        what = f"the {found.parts} parts of a tile"
    if isinstance(found, DividedColumns):
        what = "the columns of a tile"
    return remark_about(
        func,
        SplitReductionsPass.name,
        "SplitReductions",
        f"the {size} CTAs of a cluster divide {what}",
    )


def _cluster_size(func: aa.FuncOp, found: Divided, target: GpuTarget) -> int:
    """CTAs of a cluster: what the target launches, a hint allows, and shared memory holds."""
    from tileiras.planning.divided_columns import DividedColumns
    from tileiras.planning.hints import integer_hint
    from tileiras.planning.part_loops import PartLoop

    size = min(CTAS, target.max_cluster)
    most = integer_hint(func, "num_cta_in_cga") or target.max_cluster
    if isinstance(found, DividedColumns):
        return min(CTAS_OF_COLUMNS, size, most & -most, found.parts)
    if isinstance(found, PartLoop):
        return min(size, most & -most, found.parts & -found.parts)
    sent = sum(max(value_bytes(each.combined), THREADS * CELL_BYTES) for each in found.sums)
    while size > 1 and (size > most or size * sent > MOST_BYTES):
        size //= 2
    return size


def _stay_apart(found: Divided) -> bool:
    """Whether CTAs of a cluster must not share an SM, though they would find room there."""
    from tileiras.planning.divided_columns import DividedColumns

    return isinstance(found, DividedColumns)


def _divide(func: aa.FuncOp, found: Divided, size: int, multiprocessors: int) -> None:
    from tileiras.passes.nv_tileaa.divided_loops import divide, divide_parts
    from tileiras.planning.divided_columns import DividedColumns
    from tileiras.planning.part_loops import PartLoop

    if isinstance(found, DividedColumns):
        from tileiras.passes.nv_tileaa.column_parts import divide_columns

        divide_columns(func, found, size, MANY_OF_COLUMNS * multiprocessors // 4)
    elif isinstance(found, PartLoop):
        divide_parts(found, size)
    else:
        halves = range(*(share * multiprocessors // 100 for share in HALVED))
        divide(found, size, MANY * multiprocessors // 2, halves)


__all__ = ["SplitReductionsPass"]
