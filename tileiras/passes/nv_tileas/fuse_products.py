"""The pass `tileas-fuse-products`: products that read a tile in common become one instruction.

    %x = wgmma_dot %a, %b, %s                %x, %y = wgmma_dots %a, [%b, %c], [%s, %t]
    %y = wgmma_dot %a, %c, %t         ->

An instruction reads 64 rows of its left operand and all columns of the right one: the wider it is,
the less it reads for what it computes. Where a kernel finds out while it runs whether the tile is
the same (`planning/operands/uniform.py`), it has the loop in both forms, each with its waits:
nothing may be under way where they meet again. Nor may sums meet in the registers of accumulators:
ptxas finds none that suit all loops, and waits for every instruction (C7511).

    %y = wgmma_dot %a, (select_tile %same, %b, %c), %t        if %same: loop of wgmma_dots
                                                       ->     else: the loop as it is
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr, i1
from xdsl.ir import Block, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.op_builder import OpBuilder


@dataclass(frozen=True)
class FuseProductsPass(IrPass):
    """Merges two products of a loop that read a common tile into one of twice the columns.

    The second one may have a condition.

    Before   %x = wgmma_dot %a, %b, %s;  %y = wgmma_dot %a, %c, %t
    After    %x, %y = wgmma_dots %a, [%b, %c], [%s, %t]
    Requires nv_tileas
    Leaves   products that are finished at once, or whose other tiles do not continue each other;
             loops with more products than two
    """

    name = "tileas-fuse-products"
    title: ClassVar[str] = "Fuse products that read a tile in common"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in the consumers' programs of all functions."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    from tileiras.passes.nv_tileas.product_conditions import split_by_conditions

                    fuse_products(switch.consumer.block)
                    split_by_conditions(switch.consumer.block)


def fuse_products(body: Block) -> None:
    """Does so in all loops of the consumers' program."""
    loops = [op for op in body.walk() if isinstance(op, aa.ForOp)]
    for loop in loops:
        found = _find(loop)
        if found is None:
            continue
        if found.same is None:
            _fuse(found)
            _move_sums_of_the_other(loop)
        else:
            _fuse_in_a_copy(loop, found)


@dataclass(frozen=True)
class _Pair:
    """Two products of a loop that read a tile in common: always, or where `same` (an i1) holds.

    `apart`: where this holds, what they do not have in common is the same tile, too, and comes
    only once: then nothing is fused.
    """

    first: wg.WgmmaDotOp
    second: wg.WgmmaDotOp
    tiles: tuple[SSAValue, SSAValue]
    same: SSAValue | None
    apart: SSAValue | None


def _find(loop: aa.ForOp) -> _Pair | None:
    """The two products of a loop that has no others, if they can be one."""
    products = [op for op in loop.walk() if isinstance(op, wg.WgmmaDotOp)]
    if len(products) != 2 or any(op.parent_op() is not loop for op in products):
        return None
    from tileiras.passes.nv_tileas.product_conditions import settings_of

    first, second = products
    if any(not _may_run_on(op) for op in products) or settings_of(first) != settings_of(second):
        return None
    if first.result.type != second.result.type or second.acc is first.result:
        return None
    if first.condition is not None:
        return None
    commons, others = (first.lhs, second.lhs), (first.rhs, second.rhs)
    if _is_transposed(first):
        commons, others = others, commons
    same, its = _selected(commons[0], commons[1])
    apart, other = _selected(others[0], others[1])
    if its is not commons[0] and same is None:
        return None
    if not _is_continued(others[0], other, 0 if _is_transposed(first) else 1):
        return None
    return _Pair(first, second, (others[0], other), same, apart)


def _may_run_on(op: wg.WgmmaDotOp) -> bool:
    """Whether a product of two shared tiles is still unfinished when the next one starts."""
    # What one product reads into registers both do; what threads transpose is another tile.
    is_plain = op.fragments is None or op.fragments.data in ("lhs", "rhs")
    is_shared = is_in_smem(op.lhs.type) and op.two_level is None
    return is_plain and is_shared and op.pending is not None and op.pending.data > 0


def _is_transposed(op: wg.WgmmaDotOp) -> bool:
    """Whether the left operand of the instructions is the right one of the product."""
    by_threads = op.fragments is not None and op.fragments.data == "rhs"
    return op.transposed is not None or by_threads


def _selected(first: SSAValue, value: SSAValue) -> tuple[SSAValue | None, SSAValue]:
    """A tile in its own place, with the condition under which the first one is read instead."""
    select = value.op if isinstance(value, OpResult) else None
    if isinstance(select, pl.SelectTileOp) and select.first is first:
        return select.condition, select.second
    return None, value


def _is_continued(first: SSAValue, second: SSAValue, axis: int) -> bool:
    """Whether a tile lies behind another and continues it along `axis`."""
    type = first.type
    if not is_in_smem(type) or not wg.is_behind(first, second):
        return False
    from tileiras.planning.operands.swap_ab import continues_behind

    return continues_behind(type.shape, type.element_type, axis, type.major, type.swizzle)


def _fuse(pair: _Pair) -> None:
    """One operation in place of both; nothing reads the first one's sum between them."""
    first, second = pair.first, pair.second
    transposed = _is_transposed(first)
    kept = ("signedness_lhs", "signedness_rhs")
    flags = {"transposed": transposed, "fragments": first.fragments is not None}
    made = wg.WgmmaDotsOp.build(
        operands=[
            first.rhs if transposed else first.lhs,
            pair.tiles,
            [first.acc, second.acc],
            [] if second.condition is None else [second.condition],
        ],
        result_types=[[first.result.type, second.result.type]],
        properties={
            "pending": IntAttr(1),
            **{key: UnitAttr() for key, is_set in flags.items() if is_set},
            **{key: first.properties[key] for key in kept if key in first.properties},
        },
    )
    made.location = first.location
    block = second.parent_block()
    if block is None:
        return
    block.insert_op_after(made, second)
    for op, result in zip((first, second), made.sums, strict=True):
        op.result.replace_all_uses_with(result)
    selects = [v.op for v in second.operands if isinstance(v, OpResult)]
    for op in (second, first, *selects):
        if isinstance(op, pl.SelectTileOp) and any(result.uses for result in op.results):
            continue
        if isinstance(op, pl.SelectTileOp | wg.WgmmaDotOp):
            op.detach()
            op.erase()


def _move_sums_of_the_other(loop: aa.ForOp) -> None:
    """Where the kernel has asked whether the tile is the same, sums of two other loops meet."""
    branch = loop.parent_op()
    if not isinstance(branch, aa.IfOp) or branch.else_region.first_block is None:
        return
    other = branch.else_region.block
    if branch.then_region.block is loop.parent_block() and _products_of_loops(other) > 1:
        _move_sums(other)


def _move_sums(block: Block) -> None:
    """The sums of loops in a block leave their waits in other registers than they were in."""
    for wait in block.ops:
        if isinstance(wait, wg.DotWaitOp):
            wait.properties["moved"] = UnitAttr()


def _products_of_loops(block: Block) -> int:
    """How many tiles the loops over K of a block compute."""
    bodies = [op.body.block for op in block.ops if isinstance(op, aa.ForOp)]
    return sum(isinstance(op, wg.WgmmaDotOp) for body in bodies for op in body.ops)


def _fuse_in_a_copy(loop: aa.ForOp, pair: _Pair) -> None:
    """A branch with a loop of fused products, and one with the loop as it is."""
    outer = loop.parent_block()
    if outer is None or pair.same is None:
        return
    from tileiras.passes.nv_tileas.product_conditions import (
        copy_of,
        ending_of,
        put_in_branches,
        without_condition,
    )

    moved = [loop, *ending_of(loop)]
    branches = [copy_of(moved), copy_of(moved)]
    for branch in branches:
        # Beside fragments there are no registers for sums of both; those of one side suffice.
        if branch is not branches[0] or pair.first.fragments is None:
            _move_sums(branch)
    copied = branches[0].first_op
    found = _find(copied) if isinstance(copied, aa.ForOp) else None
    if found is None:
        return
    builder = OpBuilder()
    builder.location = loop.location
    condition = pair.same
    if pair.apart is not None:
        differ = builder.emit(aa.XOrIOp, [condition, pair.apart], [i1]).results[0]
        condition = builder.emit(aa.AndIOp, [condition, differ], [i1]).results[0]
        # Without a second tile both operands are those of the first: then this loop is not taken.
        if found.second.condition is not None:
            without_condition(found.second)
    _fuse(found)
    made = list(builder.block.ops)
    for op in made:
        op.detach()
    put_in_branches(moved, condition, branches, made)
