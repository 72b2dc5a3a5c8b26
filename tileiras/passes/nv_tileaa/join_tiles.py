"""The pass `join-tiles`: a persistent kernel computes two neighbouring tiles at once.

Neighbours mostly read the same rows of A or the same columns of B. Which, the kernel finds out
while it runs (`hopper/alike.py`): the operand comes to shared memory once, for both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.join_blocks import BlockJoiner
from tileiras.passes.nv_tileaa.pair_tile_blocks import carries, is_repeatable
from tileiras.passes.nv_tileaa.product_region import STORES
from tileiras.passes.nv_tileaa.two_tiles import TwoTiles, product_loop
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan

TILES = 2


@dataclass(frozen=True)
class JoinTilesPass(IrPass):
    """Lets each tile block of a persistent kernel compute two neighbouring tiles in one loop.

    Before   for %t in [program_id, %n) step num_programs { pre(%t); for %k { body }; post(%t) }
    After    for %t in [2 * program_id, ..) step 2 * num_programs { if %t + 1 is its tile, too {
             pre(%t); pre(%t + 1); for %k { body of %t; body of %t + 1 }; post(%t); post(%t + 1)
             } else { the same as before } }
             so that no tile block has more to do than before: in the last round, if there are no
             more tiles left than tile blocks, each computes one
    Requires nv_tileaa, a target with wgmma and TMA
    Leaves   kernels that are not specialised, that ask for clusters, whose tile blocks may wait for
             each other, whose loops over K depend on the tile or do more than to add products up,
             or whose two tiles would want more registers or slots than there are
    """

    name = "join-tiles"
    title: ClassVar[str] = "Join neighbouring tiles"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Joins the tiles of all functions that gain by it."""
        if os.environ.get("TI_EXP_NOJOIN"):
            return
        target = ctx.require_target()
        for func in list(op.body.ops):
            if isinstance(func, aa.FuncOp) and _is_candidate(func):
                joined = _joined(func, target)
                if joined is not None:
                    op.body.block.insert_op_before(joined, func)
                    func.detach()
                    ctx.remarks.add(_remark(joined))


def _remark(func: aa.FuncOp) -> Remark:
    return Remark(
        RemarkCategory.SCHEDULE,
        RemarkKind.PASSED,
        JoinTilesPass.name,
        "Joined",
        "two tiles at once: an operand that both read is loaded once",
        func.sym_name.data,
        place_of(func),
    )


def _is_candidate(func: aa.FuncOp) -> bool:
    """Whether tile blocks share out tiles, and which of them computes a tile does not matter."""
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.block_order import may_talk
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.token_order import follows_write
    from tileiras.passes.nv_tileaa_to_nv_tileas.kernel_hints import integer_hint

    asked = integer_hint(func, "num_cta_in_cga")
    if func.cluster_size > 1 or asked not in (None, 1):
        return False
    operations = list(func.walk())
    if any(map(may_talk, operations)) or not all(map(is_repeatable, operations)):
        return False
    if _has_one_tile(func):
        return True
    if _tile_loop(func) is None:
        return False
    # A tile must not need what the same tile block has stored before: another one does that tile.
    loads = [op for op in operations if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    return not any(map(follows_write, loads))


def _has_one_tile(func: aa.FuncOp) -> bool:
    """Whether a tile block computes one tile, the one of its number, and stores it at the end."""
    block = func.body.block
    products = product_loop(block)
    operations = list(func.walk())
    if products is None or any(isinstance(op, aa.GetNumProgramsOp) for op in operations):
        return False
    numbers = [op for op in operations if isinstance(op, aa.GetProgramIdOp) and not _axis(op)]
    if not numbers or any(op.parent_op() is not func for op in numbers):
        return False
    returns = [op for op in operations if isinstance(op, aa.ReturnOp)]
    before = operations[: operations.index(products)]
    return len(returns) == 1 and not any(isinstance(op, STORES) for op in before)


def _tile_loop(func: aa.FuncOp) -> aa.ForOp | None:
    """The loop over tiles: the number of the tile block is its start, and nothing else."""
    numbers = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp) and not _axis(op)]
    counts = [op for op in func.walk() if isinstance(op, aa.GetNumProgramsOp) and not _axis(op)]
    starts = [use for op in numbers for use in op.result.uses]
    steps = [use for op in counts for use in op.result.uses]
    if len(starts) != 1 or len(steps) != 1:
        return None
    loop = starts[0].operation
    if not isinstance(loop, aa.ForOp) or steps[0].operation is not loop:
        return None
    if starts[0].index != 0 or steps[0].index != 2 or loop.parent_op() is not func:
        return None
    if (
        carries(loop)
        or product_loop(loop.body.block) is None
        or any(map(_leaves_early, loop.walk()))
    ):
        return None
    return loop


def _leaves_early(op: Operation) -> bool:
    """Whether an iteration or the tile block ends here, not at the end of the loop's body."""
    if isinstance(op, aa.ContinueOp):
        return op.parent_op() is not enclosing(op, aa.ForOp, aa.LoopOp)
    return isinstance(op, aa.ReturnOp)


def _axis(op: aa.GetProgramIdOp | aa.GetNumProgramsOp) -> int:
    return op.axis.value.data


def _joined(func: aa.FuncOp, target: GpuTarget) -> aa.FuncOp | None:
    """The kernel that computes two tiles at once, None if it would not be a good one."""
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import plan_hopper
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.slots import has_spare_slots

    plan = plan_hopper(func, target)
    if plan is None or plan.shape.ctas > 1 or not _only_adds_up(plan):
        return None
    changed = func.clone()
    loop = _tile_loop(changed)
    joiner = BlockJoiner(changed) if loop is None else _Joiner(loop)
    what = "blocks" if loop is None else "rounds"
    if not joiner.join():
        return None
    changed.properties["joined"] = StringAttr(what)
    plan = plan_hopper(changed, target)
    if plan is None or plan.shape.ctas > 1 or not _fits(plan):
        return None
    return changed if has_spare_slots(plan, target) else None


def _only_adds_up(plan: HopperPlan) -> bool:
    """Whether all products run on while the next iteration's are issued."""
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.consumer import is_running

    products = list(plan.dots.values())
    return is_running(products) and all(product.fragments is None for product in products)


def _fits(plan: HopperPlan) -> bool:
    """Whether the sums of both tiles take no more registers than one sum may."""
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.cta_shape import MAX_ACCUMULATORS
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.instructions import accumulator_registers

    sums: dict[Operation | None, int] = {}
    for product in plan.dots.values():
        registers = accumulator_registers(product.dot, product.family, plan.warpgroups)
        loop = product.dot.parent_op()
        sums[loop] = sums.get(loop, 0) + registers
    return max(sums.values()) <= MAX_ACCUMULATORS


@dataclass(frozen=True)
class _Rounds:
    """How tile blocks go through the tiles: two each in every round; in the last one, if there are
    no more tiles than tile blocks, one each.

    `last` is the first tile of the last round, `alone` (i1) whether each has one tile of it, and
    `single` which.
    """

    last: SSAValue
    alone: SSAValue
    single: SSAValue


class _Joiner(TwoTiles):
    """Rewrites a loop over tiles for two of them at once."""

    def __init__(self, loop: aa.ForOp):
        is_signed = loop.unsigned_cmp is None
        super().__init__(SignednessAttr(Signedness.SIGNED if is_signed else Signedness.UNSIGNED))
        self.loop = loop

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ."""
        loop, source = self.loop, self.loop.body.block
        builder = self.builder
        builder.location = loop.location
        rounds = self._divide()
        builder.put_before(loop)
        builder.block = body = Block(arg_types=[arg.type for arg in source.args])
        number = body.args[0]
        ends = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, number, rounds.last)
        is_single = builder.emit(aa.AndIOp, [ends, rounds.alone], [i1]).results[0]
        operands = [is_single, rounds.single, number]
        first = builder.emit(aa.SelectOp, operands, [number.type]).results[0]
        second = builder.binary(aa.AddIOp, number, self._integer(1))
        # With one tile the second is the next block's, which is there, too, but for the last one.
        limit = builder.emit(
            aa.SelectOp, [is_single, number, self.loop.upper_bound], [number.type]
        ).results[0]
        both = self._compare(ComparisonPredicate.LESS_THAN, second, limit)
        tokens = list(body.args[1:])
        branches = [self._two_tiles([number, second], tokens), self._one_tile(first, tokens)]
        if branches[0] is None:
            return False
        types = [token.type for token in tokens]
        branch = builder.emit(aa.IfOp, [both], types, {}, [r for r in branches if r is not None])
        builder.emit(aa.ContinueOp, branch.results)
        loop.operands[0], loop.operands[1], loop.operands[2] = self._bounds
        loop.body.detach_block(source)
        source.erase()
        loop.body.add_block(body)
        return True

    def _integer(self, value: int) -> SSAValue:
        """A constant of the type of tile numbers."""
        type = self.loop.lower_bound.type
        if not isinstance(type, IntegerType):
            raise InternalError("a loop does not count in integers", where="join-tiles")
        return self.builder.integer(value, type)

    def _divide(self) -> _Rounds:
        """Who does what, and the new bounds of the loop: in the last round some have nothing."""
        builder, loop = self.builder, self.loop
        block, total, blocks = loop.lower_bound, loop.upper_bound, loop.step
        type, less = total.type, ComparisonPredicate.LESS_THAN
        pair, size = builder.scaled(block, TILES), builder.scaled(blocks, TILES)
        down = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": self.sign}
        whole = builder.emit(aa.DivIOp, [total, size], [type], down).results[0]
        last = builder.binary(aa.MulIOp, whole, size)
        rest = builder.binary(aa.SubIOp, total, last)
        alone = self._compare(ComparisonPredicate.LESS_THAN_OR_EQUAL, rest, blocks)
        first = builder.emit(aa.SelectOp, [alone, block, pair], [type]).results[0]
        has_more = self._compare(less, first, rest)
        after = builder.binary(aa.AddIOp, last, size)
        end = builder.emit(aa.SelectOp, [has_more, after, last], [type]).results[0]
        self._bounds = (pair, end, size)
        return _Rounds(last, alone, builder.binary(aa.AddIOp, last, block))

    def _one_tile(self, number: SSAValue, tokens: Sequence[SSAValue]) -> Region:
        """What the loop did, for a tile."""
        source, block = self.loop.body.block, Block()
        values: dict[SSAValue, SSAValue] = dict(zip(source.args, [number, *tokens], strict=True))
        for op in source.ops:
            if isinstance(op, aa.ContinueOp):
                operands = [values.get(value, value) for value in op.operands]
                block.add_op(aa.YieldOp.create(operands=operands, location=op.location))
            else:
                block.add_op(op.clone(values))
        return Region(block)

    def _two_tiles(self, numbers: Sequence[SSAValue], tokens: Sequence[SSAValue]) -> Region | None:
        """What the loop did, for two tiles; None where their loops over K differ."""
        source, outer = self.loop.body.block, self.builder.block
        products = product_loop(source)
        self.builder.block = block = Block()
        for values, number in zip(self.values, numbers, strict=True):
            values.update(zip(source.args, [number, *tokens], strict=True))
        for op in source.ops:
            self.builder.location = op.location
            if products is not None and op is products:
                if not self._join_products(products):
                    return None
            elif isinstance(op, aa.ContinueOp):
                self._end(op)
            else:
                self._copy(op)
        self.builder.block, self.builder.location = outer, self.loop.location
        return Region(block)

    def _end(self, op: aa.ContinueOp) -> None:
        """What both tiles do comes before what follows the iteration."""
        tokens: list[SSAValue] = []
        for token in op.operands:
            first, second = self._both([token])
            if first is not second:
                first = self.builder.emit(aa.JoinMemTokensOp, [first, second], [MEM_TOKEN]).results[
                    0
                ]
            tokens.append(first)
        self.builder.emit(aa.YieldOp, tokens)
