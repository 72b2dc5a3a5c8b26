"""The pass `split-reductions`: the CTAs of a cluster divide a loop that adds up columns.

    %s = for %i in [0, %n) step 1      ->      %s = for %i in [%rank, %n) step 4
    %r = reduce %s dim 0                       %r = reduce %s dim 0
    store %r                                   %sent = share_tiles %r {reader = 3}
                                               if %rank == 3 {
                                                 await_shared %sent; store (%r_0 + %r_1) + ..
                                               } else { send_shared %sent }

A grid of tiles of columns may have fewer tile blocks than the GPU has SMs, each with a long loop.
What one tile block sums up is then the work of a cluster; one of its CTAs goes on with the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.reduction_loops import DividedLoop

CTAS = 4
"""Policy: CTAs of a cluster. How many tile blocks there are is known at launch only: more CTAs gain
where there are few, and cost where many fill the GPU anyway (decision 0047 has a table)."""
MOST_BYTES = 64 * 1024
"""Policy: shared memory for what the CTAs of a cluster send to one of them."""
THREADS = 256
"""Policy: threads of a tile block that adds up columns, each of which sends whole cells."""


@dataclass(frozen=True)
class SplitReductionsPass(IrPass):
    """Divides a loop that adds up the columns of large tiles among the CTAs of a cluster.

    Before   %s = for %i in [0, %n) step 1 { carried + load };  %r = reduce %s;  store %r
    After    %s = for %i in [%rank, %n) step 4 { carried + load };  %r = reduce %s
             %e = share_tiles %r;  if %rank == 3 { await_shared %e;  store (sum of all %r) }
             else { send_shared %e }
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
            from tileiras.planning.reduction_loops import find_divided_loop
            from tileiras.planning.strategy import drop_strategy

            found = find_divided_loop(func)
            size = _cluster_size(func, found, target) if found is not None else 1
            if found is not None and size > 1:
                _divide(found, size)
                func.properties["cluster"] = IntegerAttr(size, i32)
                drop_strategy(func)
                ctx.remarks.add(_remark(func, size))


def _has_loop(func: aa.FuncOp) -> bool:
    return any(isinstance(op, aa.ForOp) for op in func.body.block.ops)


def _remark(func: aa.FuncOp, size: int) -> Remark:
    return Remark(
        RemarkCategory.SCHEDULE,
        RemarkKind.PASSED,
        SplitReductionsPass.name,
        "SplitReductions",
        f"the {size} CTAs of a cluster divide the iterations of a loop, and add up their sums",
        func.sym_name.data,
        place_of(func),
    )


def _cluster_size(func: aa.FuncOp, found: DividedLoop, target: GpuTarget) -> int:
    """CTAs of a cluster: what the target launches, a hint allows, and shared memory holds."""
    from tileiras.planning.hints import integer_hint

    size = min(CTAS, target.max_cluster)
    most = integer_hint(func, "num_cta_in_cga") or target.max_cluster
    sent = sum(max(value_bytes(each.combined), THREADS * CELL_BYTES) for each in found.sums)
    while size > 1 and (size > most or size * sent > MOST_BYTES):
        size //= 2
    return size


def _divide(found: DividedLoop, size: int) -> None:
    from tileiras.passes.nv_tileaa.divided_loops import divide

    divide(found, size)


__all__ = ["SplitReductionsPass"]
