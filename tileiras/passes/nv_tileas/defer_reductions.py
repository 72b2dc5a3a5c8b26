"""The pass `tileas-defer-reductions`: sums that a loop carries are summed over lanes behind it.

The sum of a row takes three steps: each thread adds up its own elements, lanes exchange their
sums, and so do warps. A loop that only adds such sums up, or scales what it has by one number a
row (softmax in one pass), needs the first step in each iteration. The others can wait: the loop
carries the threads' own sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from struct import pack
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntegerAttr, ModuleOp, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.op_builder import OpBuilder
from tileiras.passes.rewriting import erase_op, replace_op

_F32 = Float32Type()


@dataclass(frozen=True)
class DeferReductionsPass(IrPass):
    """Lets loops carry the sums of each thread, and sums them over lanes and warps once, behind.

    Before   %t = for .. (%s = %s0) { %r = reduce (%p) dim 1;  %n = fma %s, %f, %r;  continue %n }
    After    %u = for .. (%s = %s0 / 4) { %q = reduce (%p) of each lane;  %n = fma %s, %f, %q;
             continue %n };  %t = reduce (%u) dim 1
    Requires every tensor in its layout
    Leaves   sums that the loop reads for something else; reductions along a dim that is not the
             last one, and those of other types and functions; rows that threads do not share
    """

    name = "tileas-defer-reductions"
    title: ClassVar[str] = "Defer reductions over lanes"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for loop in [inner for inner in func.walk() if isinstance(inner, aa.ForOp)]:
                    found = [_deferred(loop, number) for number in range(len(loop.results))]
                    if sums := [each for each in found if each is not None]:
                        _rewrite(loop, sums)


@dataclass(frozen=True)
class _Deferred:
    """A sum that a loop carries: its number, how it goes on, and the reduction added to it.

    `shape`: the reduced tensor with its last dim cut into what registers hold and what lanes and
    warps hold; `own`: the dims of registers, the last one first. `layout`: that of the threads'
    own sums, the old shape and one dim more.
    """

    number: int
    update: aa.FmaOp | aa.AddFOp
    factor: SSAValue | None
    reduction: aa.ReduceOp
    shape: tuple[int, ...]
    own: tuple[int, ...]
    layout: LinearLayout
    update_type: Attribute


def _deferred(loop: aa.ForOp, number: int) -> _Deferred | None:
    """What is to know of a carried value, None if it is no such sum."""
    carried, end = loop.body.block.args[number + 1], loop.body.block.last_op
    if not isinstance(end, aa.ContinueOp) or len(list(carried.uses)) != 1:
        return None
    new = end.operands[number]
    if not isinstance(new, OpResult) or new.op.parent_block() is not loop.body.block:
        return None
    if len(list(new.uses)) != 1 or layout_of(new.type) is None:
        return None
    match new.op:
        case aa.FmaOp(first=left, second=right, third=added) as update if carried in (left, right):
            factor = right if left is carried else left
        case aa.AddFOp(lhs=left, rhs=right) as update if carried in (left, right):
            factor, added = None, right if left is carried else left
        case _:
            return None
    reduction = _reduction(added)
    if reduction is None or reduction.parent_block() is not loop.body.block:
        return None
    if update.rounding_mode != RoundingModeAttr(RoundingMode.NEAREST_EVEN):
        return None
    parts = _parts(reduction)
    if parts is None:
        return None
    shape, own, left_over = parts
    layout = left_over.reshape((*_shape(new), left_over.shape[-1]))
    if factor is not None and not _agree(factor, layout):
        return None
    return _Deferred(number, update, factor, reduction, shape, own, layout, new.type)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()


def _reduction(value: SSAValue) -> aa.ReduceOp | None:
    """The sum along the last dim behind a value, which nothing else reads."""
    while isinstance(value, OpResult) and isinstance(value.op, aa.ReshapeOp):
        if len(list(value.uses)) != 1:
            return None
        value = value.op.source
    if not isinstance(value, OpResult) or not isinstance(op := value.op, aa.ReduceOp):
        return None
    if len(op.operands) != 1 or len(list(value.uses)) != 1:
        return None
    if op.dim.value.data != len(_shape(op.operands[0])) - 1:
        return None
    body = list(op.body.block.ops)
    is_sum = len(body) == 2 and isinstance(body[0], aa.AddFOp) and body[0].result.type == _F32
    return op if is_sum and set(body[0].operands) == set(op.body.block.args) else None


def _parts(
    reduction: aa.ReduceOp,
) -> tuple[tuple[int, ...], tuple[int, ...], LinearLayout] | None:
    """The last dim cut into runs of bits of registers and of others, and what is left over.

    None where a thread has no elements of its own, or has all of a row.
    """
    layout = layout_of(reduction.operands[0].type)
    if layout is None:
        return None
    length = layout.shape[-1]
    others = 0
    registers = 0
    for name, vectors in layout.index_bases:
        for vector in vectors:
            along = vector % length
            if along and (along != vector or along & (along - 1)):
                return None
            if name == "register":
                registers |= along
            else:
                others |= along
    if not others or not registers or others & registers or others | registers != length - 1:
        return None
    runs: list[tuple[bool, int]] = []
    for bit in reversed(range(length.bit_length() - 1)):
        is_own = bool(registers >> bit & 1)
        if runs and runs[-1][0] == is_own:
            runs[-1] = is_own, 2 * runs[-1][1]
        else:
            runs.append((is_own, 2))
    rows = layout.shape[:-1]
    shape = (*rows, *(size for _, size in runs))
    own = tuple(len(rows) + n for n in reversed(range(len(runs))) if runs[n][0])
    left = layout.reshape(shape)
    for dim in own:
        left = left.slice(dim).without_register_duplicates()
    lanes = prod(size for is_own, size in runs if not is_own)
    return shape, own, left.reshape((*rows, lanes))


def _rows(layout: LinearLayout) -> LinearLayout:
    """The layout of what is the same for all threads of a row, one element for all of them."""
    return layout.slice(layout.rank - 1, keep_dim=True)


def _agree(value: SSAValue, layout: LinearLayout) -> bool:
    """Whether threads hold the numbers of the rows whose sums they hold."""
    given = layout_of(value.type)
    return given is not None and (
        given.reshape((*given.shape, 1)).without_register_duplicates()
        == _rows(layout).without_register_duplicates()
    )


def _rewrite(loop: aa.ForOp, sums: list[_Deferred]) -> None:
    """A loop that carries the threads' own sums in the place of these."""
    block, body = loop.parent_block(), loop.body.block
    if block is None:
        return
    before = _Builder(loop)
    operands, types = list(loop.operands), [result.type for result in loop.results]
    first = len(operands) - len(types)
    for each in sums:
        type = encoded(_F32, each.layout)
        types[each.number] = type
        initial = before.spread(operands[first + each.number], each.layout)
        share = before.number(1 / each.layout.shape[-1], each.layout)
        operands[first + each.number] = before.emit(
            aa.MulFOp, [initial, share], [type], _NEAREST
        ).results[0]
    before.insert_before(loop)
    for each in sums:
        _rewrite_update(each, body.args[each.number + 1])
    region = loop.detach_region(loop.body)
    new = aa.ForOp.create(
        operands=operands,
        result_types=types,
        properties=dict(loop.properties),
        attributes=dict(loop.attributes),
        regions=[region],
        location=loop.location,
    )
    block.insert_op_before(new, loop)
    behind = _Builder(loop)
    results: list[SSAValue] = list(new.results)
    for each in sums:
        results[each.number] = behind.whole(each, new.results[each.number])
    behind.insert_before(loop)
    replace_op(loop, results)
    for each in sums:
        _erase_unused(each.reduction)


def _rewrite_update(each: _Deferred, carried: SSAValue) -> None:
    """The update of a sum for the threads' own sums; the carried value gets its new type."""
    update, body = each.update, each.update.parent_block()
    if body is None or carried.owner is not body:
        return
    kind = encoded(_F32, each.layout)
    inside = _Builder(update)
    added = inside.own_sums(each)
    argument = body.insert_arg(kind, each.number + 1)
    operands: list[SSAValue] = [argument, added]
    if each.factor is not None:
        operands.insert(1, inside.spread(each.factor, each.layout))
    new = inside.emit(type(update), operands, [kind], dict(update.properties))
    inside.insert_before(update)
    replace_op(update, [new.results[0]])
    old = body.args[each.number + 2]
    body.erase_arg(old)


def _erase_unused(op: Operation) -> None:
    """Erases a reduction and the changes of shape behind it."""
    for use in list(op.results[0].uses):
        _erase_unused(use.operation)
    erase_op(op)


_NEAREST = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}


class _Builder(OpBuilder):
    """Operations on tensors in their layouts, collected for a place in a block."""

    def __init__(self, place: Operation):
        super().__init__()
        self.block = Block()
        self.location = place.location

    def insert_before(self, place: Operation) -> None:
        """Puts what has been built in front of an operation."""
        block = place.parent_block()
        for op in list(self.block.ops):
            op.detach()
            if block is not None:
                block.insert_op_before(op, place)

    def number(self, value: float, layout: LinearLayout) -> SSAValue:
        """A tensor of one number."""
        constant = DenseAttr(TileType(_F32, layout.shape), pack("<f", value))
        return self.emit(aa.ConstantOp, (), [encoded(_F32, layout)], {"value": constant}).results[0]

    def in_layout(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """The value in a layout."""
        if layout_of(value.type) == layout:
            return value
        return self.emit(tas.ConvertLayoutOp, [value], [encoded(_F32, layout)]).results[0]

    def reshaped(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """The same elements in the same places, in another shape."""
        if layout_of(value.type) == layout:
            return value
        return self.emit(aa.ReshapeOp, [value], [encoded(_F32, layout)]).results[0]

    def spread(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """The numbers of rows, for each thread that has a sum of the row."""
        given = layout_of(value.type)
        if given is None:
            return value
        one = self.reshaped(value, given.reshape((*given.shape, 1)))
        one = self.in_layout(one, _rows(layout))
        return self.emit(aa.BroadcastOp, [one], [encoded(_F32, layout)]).results[0]

    def own_sums(self, each: _Deferred) -> SSAValue:
        """The sums of each thread."""
        source = each.reduction.operands[0]
        given = layout_of(source.type)
        if given is None:
            return source
        layout = given.reshape(each.shape)
        value = self.reshaped(source, layout)
        for dim in each.own:
            layout = layout.slice(dim).without_register_duplicates()
            value = self.reduced(each.reduction, value, dim, layout)
        return self.reshaped(value, each.layout)

    def whole(self, each: _Deferred, value: SSAValue) -> SSAValue:
        """The sums of whole rows, as the loop gave them before."""
        old = layout_of(each.update_type)
        dim = each.layout.rank - 1
        layout = each.layout.slice(dim).without_register_duplicates()
        result = self.reduced(each.reduction, value, dim, layout)
        return result if old is None else self.in_layout(result, old)

    def reduced(
        self, like: aa.ReduceOp, value: SSAValue, dim: int, layout: LinearLayout
    ) -> SSAValue:
        """A sum along a dim."""
        properties = dict(like.properties) | {"dim": IntegerAttr(dim, i32)}
        body = Region()
        like.body.clone_into(body)
        type = encoded(_F32, layout)
        return self.emit(aa.ReduceOp, [value], [type], properties, [body]).results[0]
