"""The pass `make-persistent`: tile blocks that multiply by the same tiles divide the grid.

    %w = load %weights[0]                      %w = load %weights[0]
    %x = load %in[%pid]                        for %t in [%pid, grid) step SMs {
    %y = dot %w, %x                     ->       %x = load %in[%t]; %y = dot %w, %x
    store %y, %out[%pid]                         store %y, %out[%t] }

A Fourier transform of this kind multiplies each row by a few small matrices. They come from memory,
change their layout and wait for barriers, in every tile block anew, and nothing else goes on
meanwhile. Here each SM has them once, and the next tile is on its way while one is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.form_clusters import is_repeatable
from tileiras.planning.hints import integer_hint
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget


@dataclass(frozen=True)
class MakePersistentPass(IrPass):
    """Lets as many tile blocks as SMs do the work of all, where these have much in common.

    Before   %w = load %a[0];  %x = load %b[program_id];  store (dot %w, %x), %c[program_id]
    After    %w = load %a[0]
             for %t in [program_id, grid) step num_programs {
               %x = load %b[%t];  store (dot %w, %x), %c[%t]
             }
    Requires nv_tileaa, with the strategies of kernels
    Leaves   kernels with loops or warp roles, without a product by what all tile blocks load, that
             ask for clusters, or whose tile blocks may wait for each other
    """

    name = "make-persistent"
    title: ClassVar[str] = "Tile blocks that share operands divide the grid"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites all functions of this kind."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or not _is_candidate(func, target):
                continue
            from tileiras.passes.nv_tileaa.static_tile_scheduler import with_shared_work
            from tileiras.planning.strategy import would_specialise

            looped = with_shared_work(func)
            if looped is not None and would_specialise(looped, target) is None:
                op.body.block.insert_op_before(looped, func)
                func.detach()
                ctx.remarks.add(_remark(looped))


def _remark(func: aa.FuncOp) -> Remark:
    return Remark(
        RemarkCategory.SCHEDULE,
        RemarkKind.PASSED,
        MakePersistentPass.name,
        "Persistent",
        "a tile block for each SM goes through the grid: what all multiply by is loaded once",
        func.sym_name.data,
        place_of(func),
    )


def _is_candidate(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether tile blocks multiply by the same tiles, and it does not matter who does which."""
    operations = list(func.walk())
    products = [op for op in operations if isinstance(op, aa.DotOp)]
    if not products or any(op.parent_op() is not func for op in products):
        return False
    from tileiras.planning.memory_order import follows_write
    from tileiras.planning.strategy import strategy_of
    from tileiras.planning.tile_scheduler.communication import may_communicate

    asked = integer_hint(func, "num_cta_in_cga")
    if func.cluster_size > 1 or asked not in (None, 1) or func.static_tile_scheduler is not None:
        return False
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return False
    numbers = [op for op in operations if isinstance(op, aa.GetProgramIdOp)]
    if not any(op.result.first_use for op in numbers):
        return False
    loads = [op for op in operations if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    if any(map(follows_write, loads)) or strategy_of(func, target) is not None:
        return False
    return _multiplies_by_shared(func, products)


def _multiplies_by_shared(func: aa.FuncOp, products: list[aa.DotOp]) -> bool:
    """Whether one operand of a product, and only one, is the same in all tile blocks."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import shared_work

    shared = shared_work(func)

    def is_shared(op: Operation | None) -> bool:
        return op in shared

    return any(
        sum(is_shared(v.op if isinstance(v, OpResult) else None) for v in (dot.lhs, dot.rhs)) == 1
        for dot in products
    )
