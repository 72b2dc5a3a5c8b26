"""Loops and conditions of the cute dialect: unrolled, or blocks in which paths meet.

Where a path may be taken or not, every register that holds a value becomes an argument of the block
in which paths meet. One that is written in the path only holds nothing after it. A product of
warpgroups may stay unfinished over a meeting if it is so on both paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, SSAValue

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Dynamic
from tileiras.dialects.cute.operation import value_of_type
from tileiras.dialects.cute.structure import ForOp, IfOp, WhileOp
from tileiras.dialects.cutlass.values import PipelineState

if TYPE_CHECKING:
    from tileiras.codegen.cute.kernel import Kernel

MAX_UNROLLED = 4096
"""Turns of loops that are written out; beyond it a program is longer than instruction caches."""

_Places = list[tuple[list[SSAValue | None], int]]


def lower_loop(kernel: Kernel, op: ForOp) -> None:
    """Turn after turn for static bounds, else a loop."""
    bounds = [kernel.integer_of(value) for value in (op.lower, op.upper, op.step)]
    carried = [kernel.integer_of(value) for value in op.carried]
    if not all(isinstance(bound, int) for bound in bounds):
        _keep_loop(kernel, op, bounds, carried)
        return
    turns = range(*bounds)
    kernel.unrolled += len(turns)
    if kernel.unrolled > MAX_UNROLLED:
        raise AlgebraError(f"loops have {kernel.unrolled} turns, at most {MAX_UNROLLED} compile")
    block = op.body.block
    for counter in turns:
        kernel.values.update(zip(block.args, [counter, *carried], strict=True))
        carried = kernel.block(block)
    kernel.values.update(zip(op.results_, carried, strict=True))


_Products = list[Any]
"""Where unfinished products of warpgroups write: `Kernel.products` without the values."""


def _held(kernel: Kernel) -> tuple[_Places, _Products]:
    """The registers that hold values, and the unfinished products, which hold others."""
    places = [
        (file.values, number)
        for file in kernel.files
        for number, value in enumerate(file.values)
        if value is not None
    ]
    return places, [place for place, _ in kernel.products]


def _values(kernel: Kernel, places: _Places) -> list[SSAValue]:
    """What registers and unfinished products hold."""
    held = [value for values, number in places if (value := values[number]) is not None]
    return [*held, *(value for _, value in kernel.products)]


def _check_same(kernel: Kernel, before: _Products) -> None:
    """AlgebraError unless a path leaves as many products unfinished as there were, on the same."""
    after = _held(kernel)[1]
    same = len(after) == len(before) and all(
        one[0] is other[0] and one[1] == other[1] for one, other in zip(after, before, strict=True)
    )
    if not same:
        raise AlgebraError(
            f"paths meet with {len(before)} and {len(after)} products unfinished or with others, "
            "'warpgroup_wait<0>' finishes them"
        )


def _set(
    kernel: Kernel, held: tuple[_Places, _Products], values: Sequence[SSAValue], files: int
) -> None:
    """Registers hold these values, others nothing; those made since `files` are forgotten."""
    places, products = held
    del kernel.files[files:]
    for file in kernel.files:
        file.values[:] = [None] * len(file.values)
    for (file_values, number), value in zip(places, values, strict=False):
        file_values[number] = value
    kernel.products = list(zip(products, values[len(places) :], strict=True))


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]


def _number(kernel: Kernel, value: Any) -> SSAValue:
    """A carried value as one of a register."""
    if isinstance(value, SSAValue):
        return value
    if isinstance(value, PipelineState):
        value = value.carried
    if isinstance(value, bool):
        return kernel.thread.i1(value)
    if not isinstance(value, int | Dynamic):
        raise AlgebraError("loops that are not unrolled carry numbers and states of pipelines")
    return kernel.integer(value)


def _seen(kernel: Kernel, value: SSAValue, place: SSAValue) -> Any:
    """What a block's argument stands for, where the program has `place`."""
    if value.type != i64:
        return value
    known = value_of_type(place.type)
    found = kernel.symbol(value)
    return known.with_carried(found) if isinstance(known, PipelineState) else found


def _keep_loop(kernel: Kernel, op: ForOp, bounds: list[Any], carried: list[Any]) -> None:
    """`head(i, carried, registers): if i < upper: body, head(i + step, ..)`."""
    lower, upper, step = (kernel.integer(bound) for bound in bounds)
    held, files, count = _held(kernel), len(kernel.files), 1 + len(carried)
    first = [lower, *(_number(kernel, value) for value in carried), *_values(kernel, held[0])]
    head, body, after = (kernel.thread.new_block(_types(first)), *_blocks(kernel, 2))
    kernel.thread.br(head, first)
    kernel.enter(head)
    arguments: list[SSAValue] = list(head.args)
    less = kernel.thread.icmp("slt", arguments[0], upper)
    kernel.thread.cond_br(less, body, after)
    kernel.enter(body)
    _set(kernel, held, arguments[count:], files)
    for value, place in zip(arguments[:count], op.body.block.args, strict=True):
        kernel.values[place] = _seen(kernel, value, place)
    given = [_number(kernel, value) for value in kernel.block(op.body.block)]
    _check_same(kernel, held[1])
    following = kernel.thread.add(arguments[0], step)
    turned = [following, *given, *_values(kernel, held[0])]
    kernel.thread.br(head, turned, no_unroll=True)
    kernel.enter(after)
    _set(kernel, held, arguments[count:], files)
    for value, place in zip(arguments[1:count], op.results_, strict=True):
        kernel.values[place] = _seen(kernel, value, place)


def lower_while(kernel: Kernel, op: WhileOp) -> None:
    """`head(c, carried, registers): if c: body, head(c', ..)`."""
    carried = [kernel.integer_of(value) for value in op.carried]
    held, files, count = _held(kernel), len(kernel.files), len(carried)
    first = [*(_number(kernel, value) for value in carried), *_values(kernel, held[0])]
    head, body, after = (kernel.thread.new_block(_types(first)), *_blocks(kernel, 2))
    kernel.thread.br(head, first)
    kernel.enter(head)
    arguments: list[SSAValue] = list(head.args)
    kernel.thread.cond_br(arguments[0], body, after)
    kernel.enter(body)
    _set(kernel, held, arguments[count:], files)
    for value, place in zip(arguments[:count], op.body.block.args, strict=True):
        kernel.values[place] = _seen(kernel, value, place)
    given = [_number(kernel, value) for value in kernel.block(op.body.block)]
    _check_same(kernel, held[1])
    kernel.thread.br(head, [*given, *_values(kernel, held[0])], no_unroll=True)
    kernel.enter(after)
    _set(kernel, held, arguments[count:], files)
    for value, place in zip(arguments[:count], op.results_, strict=True):
        kernel.values[place] = _seen(kernel, value, place)


def _blocks(kernel: Kernel, count: int) -> list[Block]:
    return [kernel.thread.new_block() for _ in range(count)]


def lower_if(kernel: Kernel, op: IfOp) -> None:
    """`if c: body`, unless the condition is known."""
    condition = kernel.values[op.condition]
    if isinstance(condition, bool):
        if condition:
            kernel.block(op.body.block)
        return
    if not isinstance(condition, SSAValue):
        raise AlgebraError("the condition is not known at run time")
    held, files = _held(kernel), len(kernel.files)
    before = _values(kernel, held[0])
    body, after = (kernel.thread.new_block(), kernel.thread.new_block(_types(before)))
    kernel.thread.cond_br(condition, body, after, (), before)
    kernel.enter(body)
    kernel.block(op.body.block)
    _check_same(kernel, held[1])
    kernel.thread.br(after, _values(kernel, held[0]))
    kernel.enter(after)
    _set(kernel, held, list(after.args), files)
