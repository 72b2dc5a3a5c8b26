"""The pass `tileas-optimize-dot-accumulation`: products are waited for as late as they may be.

That is before the first operation that needs one finished. Needing it are: what reads its result,
except a product that goes on accumulating into it; what writes the registers that its left operand
is read from, which the next iteration's operand shares with it; and the end of the block. Products
finish in the order in which they were issued, so a wait leaves those unfinished that were issued
later. The stages that a product reads are handed back after its wait.

A product whose accumulator is a constant of zeros takes none (`from_zero`), if threads do not read
its operand from shared memory and a warpgroup has one block of rows: ptxas writes the zeros to
registers otherwise, and waits for the product before where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.ir_pass import CompileContext, IrPass

Stages = Mapping[Operation, tuple[SSAValue, int] | None]
"""The products to wait for, the last one of a stage with the pipeline that the stage goes back to,
and how many of its newer stages do not.
"""


@dataclass(frozen=True)
class OptimizeDotAccumulationPass(IrPass):
    """Lets wgmma run beside what follows it: waits move down to the first reader of the sum.

    Before   %d = wgmma_dot %a, %b, %s;  %x = dot_wait %d {pending = 0};  consumer_release %p
             %e = exp %y;  %z = addf %x, %e
    After    %d = wgmma_dot %a, %b, %s;  %e = exp %y
             %x = dot_wait %d {pending = 0};  consumer_release %p;  %z = addf %x, %e
    Before   %d = wgmma_dot %fragments, %b, %zeros
    After    %d = wgmma_dot %fragments, %b, %zeros {from_zero}
    Requires nv_tileas in which a wait for a product is also one for all products before it
    Leaves   products that say themselves how many stay unfinished (`pending`): some of them still
             run at the end of an iteration
    """

    name = "tileas-optimize-dot-accumulation"
    title: ClassVar[str] = "Wait for products as late as possible"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in the consumers' programs of all functions."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    body = switch.consumer.block
                    insert_waits(body, take_waits(body))
                    _start_from_zero(body, switch.consumer_warps.data)


def _start_from_zero(body: Block, warps: int) -> None:
    """Marks the products that need no accumulator."""
    for product in [op for op in body.walk() if isinstance(op, wg.WgmmaDotOp)]:
        rows = shape_of(product.result)[1 if product.is_transposed else 0]
        if product.may_start_from_zero and rows <= warps * wg.ROWS_PER_WARP:
            product.from_zero = UnitAttr()


def take_waits(body: Block) -> Stages:
    """Takes away the waits for single products, each with the release right behind it."""
    taken: dict[Operation, tuple[SSAValue, int] | None] = {}
    for product in [op for op in body.walk() if isinstance(op, wg.WgmmaDotOp)]:
        wait = _own_wait(product)
        if wait is None:
            continue
        release = wait.next_op
        taken[product] = None
        if isinstance(release, pl.ConsumerReleaseOp):
            taken[product] = release.pipeline, release.keep.data
            release.detach()
            release.erase()
        wait.result.replace_all_uses_with(product.result)
        wait.detach()
        wait.erase()
    return taken


def _own_wait(product: wg.WgmmaDotOp) -> wg.DotWaitOp | None:
    """The wait that finishes a product which does not say itself how many stay unfinished."""
    uses = list(product.result.uses)
    if product.pending is not None or len(uses) != 1:
        return None
    wait = uses[0].operation
    if not isinstance(wait, wg.DotWaitOp) or wait.pending.data:
        return None
    if wait.parent_block() is not product.parent_block():
        return None
    behind = wait.next_op.next_op if wait.next_op is not None else None
    is_of_several = isinstance(behind, pl.ConsumerReleaseOp) and isinstance(
        wait.next_op, pl.ConsumerReleaseOp
    )
    return None if is_of_several else wait


def insert_waits(block: Block, stages: Stages) -> None:
    """Waits for the products of a block, and of all blocks in it."""
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                insert_waits(inner, stages)
    _BlockWaits(block, stages).run()


class _BlockWaits:
    """The walk over one block; `issued` are its products in order.

    `running` are the unfinished ones, each with the products before it that went into its sum.
    """

    def __init__(self, block: Block, stages: Stages):
        self.block = block
        self.stages = stages
        self.issued: list[wg.WgmmaDotOp] = []
        self.running: dict[wg.WgmmaDotOp, list[wg.WgmmaDotOp]] = {}

    def run(self) -> None:
        """Inserts the waits of the block."""
        for op in list(self.block.ops):
            before: list[wg.WgmmaDotOp] = []
            for product in list(self.running):
                if _goes_on_with(op, product):
                    before = self.running.pop(product)
                elif op.has_trait(IsTerminator) or self._needs(op, product):
                    self._wait(product, op)
            if isinstance(op, wg.WgmmaDotOp):
                self.issued.append(op)
                if op in self.stages:
                    self.running[op] = [*before, op]

    def _needs(self, op: Operation, product: wg.WgmmaDotOp) -> bool:
        """Whether the operation must not run before the product is finished."""
        if any(op.is_ancestor(use.operation) for use in product.result.uses):
            return True
        if isinstance(op, wg.SmemTransposeOp) and _reads_transposed(self.running[product]):
            return True
        return any(op is self._overwriter(summand) for summand in self.running[product])

    def _overwriter(self, product: wg.WgmmaDotOp) -> Operation | None:
        """What computes the value that takes the left operand's registers in the next iteration."""
        lhs = _unconverted(product.lhs)
        last = self.block.last_op
        if not isinstance(lhs, BlockArgument) or not isinstance(last, aa.ContinueOp):
            return None
        loop = self.block.parent_op()
        index = lhs.index - (1 if isinstance(loop, aa.ForOp) else 0)
        if lhs.owner is not self.block or index < 0:
            return None
        following = _unconverted(last.operands[index])
        return following.op if isinstance(following, OpResult) else None

    def _wait(self, product: wg.WgmmaDotOp, before: Operation) -> None:
        """Waits for a product in front of an operation, then hands its stages back."""
        summands = self.running.pop(product)
        later = len(self.issued) - 1 - self.issued.index(product)
        kept = {summand.lhs: None for summand in summands if not is_in_smem(summand.lhs.type)}
        wait = wg.DotWaitOp.create(
            operands=[product.result, *kept],
            result_types=[product.result.type],
            properties={"pending": IntAttr(later)},
            location=product.location,
        )
        product.result.replace_all_uses_with(wait.result)
        wait.operands[0] = product.result
        releases = [
            pl.ConsumerReleaseOp.create(
                operands=[stage[0]],
                properties={"keep": IntAttr(stage[1])},
                location=product.location,
            )
            for stage in dict.fromkeys(self.stages[summand] for summand in summands)
            if stage is not None
        ]
        self.block.insert_ops_before([wait, *releases], _with_tiles(before))


def _with_tiles(op: Operation) -> Operation:
    """An operation, or the first of those right before it that read a tile from a stage for it.

    Such a tile need not be in registers while its reader waits.
    """
    first, current = op, op.prev_op
    while isinstance(current, pl.ReadTileOp | aa.ReshapeOp | aa.BroadcastOp):
        if isinstance(current, pl.ReadTileOp):
            first = current
        current = current.prev_op
    return first


def _goes_on_with(op: Operation, product: wg.WgmmaDotOp) -> bool:
    """Whether the operation is a product into the same registers, and the sum so far is not read.

    It needs no wait, and the wait for it is one for both.
    """
    return (
        isinstance(op, wg.WgmmaDotOp)
        and op.acc is product.result
        and op.pending is None
        and len(list(product.result.uses)) == 1
    )


def _unconverted(value: SSAValue) -> SSAValue:
    """The value under changes of layout."""
    while isinstance(value, OpResult) and isinstance(value.op, tas.ConvertLayoutOp):
        value = value.op.operands[0]
    return value


def _reads_transposed(products: list[wg.WgmmaDotOp]) -> bool:
    """Whether one of the products reads what threads have transposed: the next writes there."""
    return any(
        isinstance(operand, OpResult) and isinstance(operand.op, wg.SmemTransposeOp)
        for product in products
        for operand in (product.lhs, product.rhs)
    )
