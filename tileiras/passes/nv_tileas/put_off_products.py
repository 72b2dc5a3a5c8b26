"""The pass `tileas-put-off-products`: the last product of an iteration runs beside the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, TensorType, i1
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.op_builder import OpBuilder


@dataclass(frozen=True)
class PutOffProductsPass(IrPass):
    """Issues the last product of a loop an iteration late, behind the first products of the next.

    Before   for %i iter(%s = 0) { %t = consumer_wait %p;  %x = wgmma_dot %k, %t;  %h = exp2 %x
               %y = wgmma_dot %h, %t, %s;  consumer_release %p }
    After    if lower < upper { for %i iter(%s = 0, %g = 0) {
                 %t = consumer_wait %p;  %x = wgmma_dot %k, %t
                 %o = held_tile %p {age = 1};  %y = wgmma_dot %g, %o, %s adds_if = (%i != second)
                 consumer_release %p {keep = 1};  %h = exp2 %x }
               %o = held_tile %p;  wgmma_dot %h, %o, %y;  consumer_release %p }
    Requires nv_tileas; products that are marked `put_off`, whose waits are not put off yet
    Leaves   no product marked. What the first iteration adds up is nobody's: the second one does
             not add to it
    """

    name = "tileas-put-off-products"
    title: ClassVar[str] = "Issue the last product of a loop an iteration late"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in the consumers' programs of all functions."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    for inner in list(switch.consumer.walk()):
                        if isinstance(inner, aa.ForOp) and (late := _late(inner)) is not None:
                            _put_off(inner, late)


@dataclass(frozen=True)
class _Late:
    """A product with what belongs to it; `position` of its sum among the carried values."""

    dot: wg.WgmmaDotOp
    wait: wg.DotWaitOp
    release: pl.ConsumerReleaseOp
    slot: pl.ConsumerWaitOp
    position: int
    before: Operation
    """The first operation that reads a sum, so that all products before it are at work."""


def _late(loop: aa.ForOp) -> _Late | None:
    """The product of a loop that may come late."""
    block = loop.body.block
    products = [op for op in block.ops if isinstance(op, wg.WgmmaDotOp)]
    if len(products) < 2 or products[-1].put_off is None:
        return None
    dot = products[-1]
    uses = list(dot.result.uses)
    wait = uses[0].operation if len(uses) == 1 else None
    if not isinstance(wait, wg.DotWaitOp) or wait.pending.data or wait.parent_block() is not block:
        return None
    release, last = wait.next_op, block.last_op
    if not isinstance(release, pl.ConsumerReleaseOp) or not isinstance(last, aa.ContinueOp):
        return None
    slot, acc, after = dot.rhs.owner, dot.acc, list(wait.result.uses)
    if not isinstance(slot, pl.ConsumerWaitOp) or slot.parent_block() is not block:
        return None
    if slot.pipeline is not release.pipeline or not isinstance(dot.lhs.type, TensorType):
        return None
    if not isinstance(dot.lhs, OpResult) or dot.lhs.op.parent_block() is not block:
        return None
    if not isinstance(acc, BlockArgument) or acc.owner is not block or len(list(acc.uses)) != 1:
        return None
    position = acc.index - 1
    if not is_zero(loop.init_values[position]) or len(after) != 1:
        return None
    if after[0].operation is not last or after[0].index != position:
        return None
    before = next((op for op in block.ops if _reads_sum(op)), None)
    if before is None or not slot.is_before_in_block(before):
        return None
    return _Late(dot, wait, release, slot, position, before)


def _reads_sum(op: Operation) -> bool:
    """Whether an operation reads what a product has given."""
    return any(isinstance(operand.owner, wg.DotWaitOp) for operand in op.operands)


def _put_off(loop: aa.ForOp, late: _Late) -> None:
    """Rebuilds a loop around its late product."""
    around = OpBuilder()
    around.location = loop.location
    signedness = Signedness.UNSIGNED if loop.unsigned_cmp is not None else Signedness.SIGNED

    def compared(builder: OpBuilder, which: ComparisonPredicate, *values: SSAValue) -> SSAValue:
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(which),
            "signedness": SignednessAttr(signedness),
        }
        return builder.emit(aa.CmpIOp, values, [i1], properties).results[0]

    runs = compared(around, ComparisonPredicate.LESS_THAN, loop.lower_bound, loop.upper_bound)
    then = OpBuilder()
    then.location = loop.location
    type = loop.lower_bound.type
    no_wrap = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
    second = then.emit(aa.AddIOp, [loop.lower_bound, loop.step], [type], no_wrap).results[0]
    nothing = _zeros(then, late.dot.lhs.type)
    block, last = loop.body.block, loop.body.block.last_op
    argument = block.insert_arg(late.dot.lhs.type, len(block.args))
    own = OpBuilder()
    own.location = late.dot.location
    adds = compared(own, ComparisonPredicate.NOT_EQUAL, block.args[0], second)
    for op in (late.dot, late.wait, late.release):
        op.detach()
    computed = late.dot.lhs
    tile = _held(own, late, 1)
    issued = _issue(own, late, argument, tile, late.dot.acc, adds, 1)
    late.wait.result.replace_all_uses_with(issued)
    built = _taken(own)
    block.insert_ops_before(built, late.before)
    _wait_before_next_operand(late.before, built, argument)
    if last is not None:
        last.operands = [*last.operands, computed]
    results = [*(result.type for result in loop.results), computed.type]
    body = loop.detach_region(loop.body)
    operands = [*loop.operands, nothing]
    rotated = then.emit(aa.ForOp, operands, results, loop.properties, [body])
    fragments = rotated.results[-1]
    sums: list[SSAValue] = list(rotated.results[:-1])
    is_added = compared(then, ComparisonPredicate.LESS_THAN, second, loop.upper_bound)
    then.location = late.dot.location
    tile = _held(then, late, 0)
    acc = sums[late.position]
    sums[late.position] = _issue(then, late, fragments, tile, acc, is_added, 0)
    then.emit(aa.YieldOp, sums)
    other = OpBuilder()
    other.emit(aa.YieldOp, list(loop.init_values))
    types = [result.type for result in loop.results]
    regions = [Region(then.block), Region(other.block)]
    branch = around.emit(aa.IfOp, [runs], types, {}, regions)
    for old, new in zip(loop.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
    outer = loop.parent_block()
    if outer is not None:
        outer.insert_ops_before(_taken(around), loop)
    for op in (late.release, late.wait, late.dot):
        op.drop_all_references()
    loop.detach()
    loop.erase()


def _wait_before_next_operand(
    first: Operation, built: Sequence[Operation], argument: SSAValue
) -> None:
    """Moves the wait for the late product to where the next computed left operand is made.

    Only behind another product that has been issued: its registers are free then, and it would be
    waited for there before long. Else ptxas, which knows of one wait for both, serialises all
    products (C7514).
    """
    *_, wait, release = built
    issued, op = 0, first
    while not isinstance(op, wg.WgmmaDotOp) or not isinstance(op.lhs.type, TensorType):
        issued += isinstance(op, wg.WgmmaDotOp)
        if op.next_op is None:
            return
        op = op.next_op
    maker = op.lhs.owner
    if not issued or not isinstance(maker, Operation) or maker.parent is not first.parent:
        return
    behind = maker.next_op
    while behind is not None and behind is not op:
        issued -= isinstance(behind, wg.WgmmaDotOp)
        behind = behind.next_op
    if issued <= 0 or first.parent is None or not first.is_before_in_block(maker):
        return
    wait.properties["pending"] = IntAttr(issued)
    wait.operands = [*wait.operands, argument]
    for moved in (wait, release):
        moved.detach()
    first.parent.insert_ops_before([wait, release], maker)


def _taken(builder: OpBuilder) -> list[Operation]:
    """The operations that have been built, free to be put elsewhere."""
    ops = list(builder.block.ops)
    for op in ops:
        op.detach()
    return ops


def _zeros(builder: OpBuilder, type: Attribute) -> SSAValue:
    """A tile of zeros."""
    if not isinstance(type, TensorType):
        raise InternalError("an operand in registers is no tile", where="put off products")
    element = type.element_type
    value = DenseAttr(TileType(element, type.get_shape()), bytes(storage_bytes(element)))
    return builder.emit(aa.ConstantOp, (), [type], {"value": value}).results[0]


def _held(builder: OpBuilder, late: _Late, age: int) -> SSAValue:
    """The tile that the late product reads, in the newest stage or in the one before."""
    offset = pl.stage_offset(late.dot.rhs)
    properties = {"age": IntAttr(age), "offset": IntAttr(offset or 0)}
    pipeline = late.slot.pipeline
    return builder.emit(pl.HeldTileOp, [pipeline], [late.dot.rhs.type], properties).results[0]


def _issue(
    builder: OpBuilder,
    late: _Late,
    fragments: SSAValue,
    tile: SSAValue,
    acc: SSAValue,
    adds: SSAValue,
    keep: int,
) -> SSAValue:
    """The product, its wait, and its stage handed back."""
    type = late.dot.result.type
    properties = {key: value for key, value in late.dot.properties.items() if key != "put_off"}
    properties |= wg.dot_segments(adds_if=True)
    made = builder.emit(wg.WgmmaDotOp, [fragments, tile, acc, adds], [type], properties)
    wait = builder.emit(wg.DotWaitOp, [made.results[0]], [type], {"pending": IntAttr(0)})
    builder.emit(pl.ConsumerReleaseOp, [late.slot.pipeline], (), {"keep": IntAttr(keep)})
    return wait.results[0]
