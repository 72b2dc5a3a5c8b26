"""Makes one loop of two: the inner one runs over parts, the outer one does nothing besides.

for %k in [0, %n) iter(%s) { %r = for %i in [0, 4) iter(%t = %s) { .. }; continue %r }
-> for %j in [0, 4 * %n) iter(%t = %s) { %k = %j >> 2;  %i = %j & 3; .. }

A product that is summed up over both loops then goes on over the end of the inner one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import replace_op
from tileiras.planning.tiling.product_cut import is_pure

_SIGNED = SignednessAttr(Signedness.SIGNED)


def collapse(inner: aa.ForOp) -> aa.ForOp | None:
    """Joins a loop over parts (0 to a power of two) with the loop around it, if that can be."""
    outer, parts = inner.parent_op(), constant_of(inner.upper_bound)
    if not isinstance(outer, aa.ForOp) or parts is None or parts & (parts - 1):
        return None
    if not _is_around_only(outer, inner) or not _counts_few(outer, parts):
        return None
    return _joined(outer, inner, parts)


def constant_of(value: SSAValue) -> int | None:
    """The number that a scalar integer is."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return None
    if not isinstance(value.type, IntegerType):
        return None
    return int.from_bytes(value.op.value.raw.data, "little", signed=True)


# whether it can be


def _is_around_only(outer: aa.ForOp, inner: aa.ForOp) -> bool:
    """Whether the outer loop only computes scalars and addresses, and sums what the inner one does.

    Other values that it carries must be tokens, or stay as they are.
    """
    block = outer.body.block
    last = block.last_op
    for op in block.ops:
        if op is inner or op is last:
            continue
        if op.regions or not (is_pure(op) or isinstance(op, _TOKENS)):
            return False
    if not isinstance(last, aa.ContinueOp) or outer.unsigned_cmp is not None:
        return False
    results = dict.fromkeys(inner.results)
    for argument, end in zip(block.args[1:], last.operands, strict=True):
        if isinstance(argument.type, MemTokenType) or end is argument:
            continue
        if end not in results or not isinstance(end, OpResult):
            return False
        if inner.init_values[end.index] is not argument or len(list(argument.uses)) != 1:
            return False
    for result, initial in zip(inner.results, inner.init_values, strict=True):
        if isinstance(result.type, MemTokenType):
            continue
        is_carried = isinstance(initial, BlockArgument) and initial.owner is block
        uses = [use.operation for use in result.uses]
        if not is_carried or uses != [last]:
            return False
    return True


_TOKENS = (aa.CreateMemTokenOp, aa.JoinMemTokensOp)


def _counts_few(loop: aa.ForOp, parts: int) -> bool:
    """Whether the number of iterations, times the parts, is a number of the loop's type."""
    type = loop.upper_bound.type
    if not isinstance(type, IntegerType):
        return False
    most = _magnitude(loop.upper_bound, type.width.data)
    is_counted = constant_of(loop.lower_bound) == 0 or _is_natural(loop.lower_bound)
    return is_counted and most * parts < 1 << (type.width.data - 1)


def _magnitude(value: SSAValue, width: int) -> int:
    """What a scalar is at most, up or down."""
    number = constant_of(value)
    if number is not None:
        return abs(number)
    if isinstance(value, OpResult) and isinstance(value.op, aa.DivIOp):
        divisor = constant_of(value.op.rhs)
        if divisor is not None and divisor > 0:
            return (1 << width) // divisor + 1
    return 1 << width


def _is_natural(value: SSAValue) -> bool:
    """Whether a scalar is known not to be negative."""
    if isinstance(value, OpResult) and isinstance(value.op, aa.GetProgramIdOp):
        return True
    number = constant_of(value)
    return number is not None and number >= 0


# the loop


def _joined(outer: aa.ForOp, inner: aa.ForOp, parts: int) -> aa.ForOp:
    """Puts the one loop in place of the two."""
    block, source = outer.body.block, inner.body.block
    before = ScalarBuilder()
    before.location = outer.location
    type = outer.upper_bound.type
    if not isinstance(type, IntegerType):
        return outer
    count = before.scaled(_count(before, outer), parts)
    bounds = [before.integer(0, type), count, before.integer(1, type)]
    types = [value.type for value in outer.init_values]
    body = Block(arg_types=[type, *types])
    mapped: dict[SSAValue, SSAValue] = dict(zip(block.args[1:], body.args[1:], strict=True))
    writer = ScalarBuilder()
    writer.block, writer.location = body, inner.location
    mapped[block.args[0]] = _number(writer, outer, body.args[0], parts)
    part = writer.emit(aa.AndIOp, [body.args[0], writer.integer(parts - 1, type)], [type])
    counter = source.args[0].type
    if not isinstance(counter, IntegerType):
        return outer
    mapped[source.args[0]] = writer.converted(part.results[0], counter, signed=False)
    for op in block.ops:
        if op is inner:
            _body(writer, inner, mapped)
        elif not isinstance(op, aa.ContinueOp):
            _copy(body, op, mapped)
    last = block.last_op
    ends = [] if last is None else [mapped.get(value, value) for value in last.operands]
    for position, argument in enumerate(body.args[1:]):
        # What one part waits for, all must: the token of the part before is behind its own.
        if isinstance(argument.type, MemTokenType) and ends[position] is not argument:
            joined = writer.emit(aa.JoinMemTokensOp, [argument, ends[position]], [MEM_TOKEN])
            ends[position] = joined.results[0]
    writer.emit(aa.ContinueOp, ends)
    loop = aa.ForOp.create(
        operands=[*bounds, *outer.init_values],
        result_types=types,
        regions=[Region(body)],
        location=outer.location,
    )
    before.block.add_op(loop)
    before.put_before(outer)
    replace_op(outer, loop.results)
    return loop


def _body(writer: ScalarBuilder, inner: aa.ForOp, mapped: dict[SSAValue, SSAValue]) -> None:
    """The body of the inner loop, for one part; its results are what it hands on."""
    source = inner.body.block
    for argument, initial in zip(source.args[1:], inner.init_values, strict=True):
        mapped[argument] = mapped.get(initial, initial)
    for op in source.ops:
        if not isinstance(op, aa.ContinueOp):
            _copy(writer.block, op, mapped)
    last = source.last_op
    if last is not None:
        for result, end in zip(inner.results, last.operands, strict=True):
            mapped[result] = mapped.get(end, end)


def _copy(block: Block, op: Operation, mapped: dict[SSAValue, SSAValue]) -> None:
    block.add_op(op.clone(mapped))


def _count(builder: ScalarBuilder, loop: aa.ForOp) -> SSAValue:
    """How many iterations a loop makes; not positive if it makes none."""
    lower, upper, step = constant_of(loop.lower_bound), loop.upper_bound, loop.step
    type = upper.type
    if lower == 0 and constant_of(step) == 1:
        return upper
    signed = {"signedness": _SIGNED}
    first = builder.emit(aa.MinIOp, [loop.lower_bound, upper], [type], signed).results[0]
    overflow = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
    length = builder.emit(aa.SubIOp, [upper, first], [type], overflow).results[0]
    upwards = {**signed, "rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF)}
    return builder.emit(aa.DivIOp, [length, step], [type], upwards).results[0]


def _number(builder: ScalarBuilder, loop: aa.ForOp, place: SSAValue, parts: int) -> SSAValue:
    """The outer loop's counter in an iteration of the joined one."""
    type = place.type
    if not isinstance(type, IntegerType):
        return place
    shift = builder.integer(parts.bit_length() - 1, type)
    signed = {"signedness": SignednessAttr(Signedness.UNSIGNED)}
    number = builder.emit(aa.ShRIOp, [place, shift], [type], signed).results[0]
    if constant_of(loop.step) != 1:
        number = builder.binary(aa.MulIOp, number, loop.step)
    if constant_of(loop.lower_bound) != 0:
        number = builder.binary(aa.AddIOp, number, loop.lower_bound)
    return number
