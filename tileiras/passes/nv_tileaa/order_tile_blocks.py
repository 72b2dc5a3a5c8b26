"""The pass `order-tile-blocks`: tile blocks that start one after another lie side by side.

    %x = get_program_id 0                      %n = %x + get_num_programs 0 * %y
    %y = get_program_id 1             ->       %row = %n / get_num_programs 1
    load %a[%x, %y]                            load %a[%row, %n % get_num_programs 1]

The GPU starts tile blocks along axis 0 first. Many kernels take that axis for rows of a matrix, so
that those that run at the same time read, and write, pieces of many rows, far from each other. In
the order of memory whole pages are read at once. Copies of 8192x8192 f16, us on one H200: tiles of
64x64 75.9 and 67.8, of 32x32 84.6 and 66.8 (decision 0071 has a table).

Tile blocks have no order that a program could rely on, unless they tell each other something.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp, i1, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget

SHORT_BYTES, MOST_BYTES = 128, 1024
"""Policy: of a row of a tile. Short ones always pay; those between where little is computed, see
`MOST_WORK`. Longer ones are read in whole pages by themselves.
"""
MOST_WORK = 0.45
"""Policy: what is computed, as a share of the time for memory. 8192x8192, tiles of 64x128 f16, us
on one H200 with shares of 0.3, 0.48 and 0.83: 69.0 and 65.7, 83.3 and 87.9, 136 and 146.
"""
_LEFT = (aa.ProductOp, aa.ForOp, aa.LoopOp, aa.LoadOp, aa.StoreOp)
"""Products, loops and accesses by pointers have orders of their own, or one that nobody sees."""


@dataclass(frozen=True)
class OrderTileBlocksPass(IrPass):
    """Numbers the tile blocks of a grid in the order of memory.

    Before   %x = get_program_id 0;  %y = get_program_id 1;  load %a[%x, %y]
    After    %n = %x + columns * %y;  load %a[%n / rows, %n % rows], where the product of the sizes
             of the grid fits 31 bits; as before where it does not
    Requires nv_tileaa; loops as they are written; a target
    Leaves   kernels with products, loops, accesses by pointers, or tile blocks that communicate;
             those whose first axis goes along the contiguous dim of any access (transposes), whose
             tiles have long rows, or rows of more than 128 bytes and much to compute, or in which
             both axes count the same dim
    """

    name = "order-tile-blocks"
    title: ClassVar[str] = "Number tile blocks in the order of memory"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all functions."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or func.cluster_size > 1:
                continue
            axes = {each.axis.value.data for each in _program_ids(func)}
            if len(axes) > 1:
                _order(func, min(axes), target)


def _program_ids(func: aa.FuncOp) -> Iterator[aa.GetProgramIdOp]:
    """What asks for a place in the grid, and is used."""
    ids = (op for op in func.walk() if isinstance(op, aa.GetProgramIdOp))
    return (op for op in ids if op.result.first_use is not None)


def _order(func: aa.FuncOp, first: int, target: GpuTarget) -> None:
    """Makes the axis along which memory is contiguous the quickest, in place of `first`."""
    from tileiras.planning.strategy import drop_strategy
    from tileiras.planning.tile_scheduler.communication import may_communicate

    operations = list(func.walk())
    if any(isinstance(op, _LEFT) or may_communicate(op) for op in operations):
        return
    sought = _Axes()
    accesses = [op for op in operations if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp)]
    nearest = {sought.nearest(op) for op in accesses} - {frozenset[int]()}
    if len(nearest) != 1 or len(near := nearest.pop()) != 1 or first in near:
        return
    longest = max(map(_row_bytes, accesses))
    if longest > MOST_BYTES or (longest > SHORT_BYTES and not _is_light(func, accesses, target)):
        return
    [axis] = near
    _renumber(func, first, axis)
    drop_strategy(func)


def _row_bytes(op: aa.TiledLoadOp | aa.TiledStoreOp) -> int:
    """Bytes of a tile along the contiguous dim; 0 where there is none."""
    from tileiras.dialects.nv_tileaa.storage import storage_bits
    from tileiras.dialects.nv_tileaa.views import view_type_of

    type = view_type_of(op.view)
    sizes = zip(type.dim_map, type.tile_shape, strict=True)
    elements = sum(size for dim, size in sizes if type.memref.strides[dim] == 1)
    return elements * storage_bits(type.memref.element_type) // 8


def _is_light(
    func: aa.FuncOp, accesses: list[aa.TiledLoadOp | aa.TiledStoreOp], target: GpuTarget
) -> bool:
    """Whether computing takes far less time than memory."""
    from tileiras.codegen.target import Unit, Work
    from tileiras.dialects.nv_tileaa.storage import value_bytes
    from tileiras.planning.schedule.costs import TileCosts

    costs = TileCosts(target.warp_size, target)
    moved = [op.result if isinstance(op, aa.TiledLoadOp) else op.value for op in accesses]
    bytes = sum(map(value_bytes, moved))
    memory = target.performance.cycles(Work.COPY_FROM_MEMORY, bytes, Unit.MEMORY)
    computed = (op for op in func.walk() if op not in accesses)
    return sum(map(costs.issue_cycles, computed)) <= MOST_WORK * memory


class _Axes:
    """Which axes of the grid a value depends on."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, frozenset[int]] = {}

    def of(self, value: SSAValue) -> frozenset[int]:
        """The axes that an index follows from, through loads as well."""
        if value not in self._known:
            op, found = value.owner, frozenset[int]()
            if isinstance(op, aa.GetProgramIdOp):
                found = frozenset((op.axis.value.data,))
            elif isinstance(op, Operation):
                values = (v for v in op.operands if not isinstance(v.type, aa.MemTokenType))
                found = found.union(*map(self.of, values))
            elif isinstance(op, Block) and isinstance(op.parent_op(), aa.IfOp):
                found = frozenset((-1,))
            self._known[value] = found
        return self._known[value]

    def nearest(self, op: aa.TiledLoadOp | aa.TiledStoreOp) -> frozenset[int]:
        """The axes that count tiles along the dim, of all that are counted by one, whose elements
        lie closest to each other; none where a single axis counts.

        That is the contiguous dim, then the later one: arrays are mostly row-major.
        """
        from tileiras.dialects.nv_tileaa.views import view_type_of

        type = view_type_of(op.view)
        counted: list[tuple[int, frozenset[int]]] = []
        for dim, index in zip(type.dim_map, op.indices, strict=True):
            if axes := self.of(index):
                is_contiguous = type.memref.strides[dim] == 1
                counted.append((len(type.dim_map) if is_contiguous else dim, axes))
        if len(frozenset[int]().union(*(axes for _, axes in counted))) < 2:
            return frozenset()
        return max(counted, key=lambda each: each[0])[1]


def _renumber(func: aa.FuncOp, first: int, near: int) -> None:
    """Numbers along two axes of the grid in place of each other's order."""
    from tileiras.dialects.cuda_tile.attributes import (
        ComparisonPredicate,
        RoundingMode,
        RoundingModeAttr,
        Signedness,
        SignednessAttr,
    )
    from tileiras.passes.nv_tileaa.cluster_blocks import compared
    from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

    start = func.body.block.first_op
    if start is None:
        return
    ids = list(_program_ids(func))
    builder = ScalarBuilder()
    builder.location = ids[0].location
    x, y = (builder.place(aa.GetProgramIdOp, axis) for axis in (first, near))
    width, height = (builder.place(aa.GetNumProgramsOp, axis) for axis in (first, near))
    number = builder.binary(aa.AddIOp, x, builder.binary(aa.MulIOp, width, y))
    down = {
        "rounding": RoundingModeAttr(RoundingMode.ZERO),
        "signedness": SignednessAttr(Signedness.SIGNED),  # quick for powers of two
    }
    far = builder.emit(aa.DivIOp, [number, height], [i32], down).results[0]
    close = builder.binary(aa.SubIOp, number, builder.binary(aa.MulIOp, far, height))
    above = builder.emit(aa.MulhiIOp, [width, height], [i32]).results[0]
    below = builder.binary(aa.MulIOp, width, height)
    zero, equal = builder.integer(0, i32), compared(ComparisonPredicate.EQUAL)
    not_less = compared(ComparisonPredicate.GREATER_THAN_OR_EQUAL)
    fits = [
        builder.emit(aa.CmpIOp, [above, zero], [i1], equal).results[0],
        builder.emit(aa.CmpIOp, [below, zero], [i1], not_less).results[0],
    ]
    fits = builder.emit(aa.AndIOp, fits, [i1]).results[0]
    far = builder.emit(aa.SelectOp, [fits, far, x], [i32]).results[0]
    close = builder.emit(aa.SelectOp, [fits, close, y], [i32]).results[0]
    builder.put_before(start)
    for op in ids:
        if op.axis.value.data in (first, near):
            op.result.replace_all_uses_with(far if op.axis.value.data == first else close)
            op.detach()
            op.erase()


__all__ = ["OrderTileBlocksPass"]
