"""Loops and conditions of the cute dialect: unrolled, or blocks in which paths meet.

Where a path may be taken or not, every register that holds a value becomes an argument of the block
in which paths meet. One that is written in the path only holds nothing after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, SSAValue

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Dynamic
from tileiras.dialects.cute.structure import ForOp, IfOp

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


def _held(kernel: Kernel) -> _Places:
    """The registers that hold values; AlgebraError while products of warpgroups write some."""
    if kernel.products:
        raise AlgebraError("paths meet while products are unfinished, 'warpgroup_wait' comes first")
    return [
        (file.values, number)
        for file in kernel.files
        for number, value in enumerate(file.values)
        if value is not None
    ]


def _values(places: _Places) -> list[SSAValue]:
    """What registers hold."""
    return [value for values, number in places if (value := values[number]) is not None]


def _set(kernel: Kernel, places: _Places, values: Sequence[SSAValue], files: int) -> None:
    """Registers hold these values, others nothing; those made since `files` are forgotten."""
    del kernel.files[files:]
    for file in kernel.files:
        file.values[:] = [None] * len(file.values)
    for (held, number), value in zip(places, values, strict=True):
        held[number] = value


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]


def _number(kernel: Kernel, value: Any) -> SSAValue:
    """A carried value as one of a register."""
    if isinstance(value, SSAValue):
        return value
    if not isinstance(value, int | Dynamic):
        raise AlgebraError("loops that are not unrolled carry numbers")
    return kernel.integer(value)


def _seen(kernel: Kernel, value: SSAValue) -> Any:
    """What a block's argument stands for."""
    return kernel.symbol(value) if value.type == i64 else value


def _keep_loop(kernel: Kernel, op: ForOp, bounds: list[Any], carried: list[Any]) -> None:
    """`head(i, carried, registers): if i < upper: body, head(i + step, ..)`."""
    lower, upper, step = (kernel.integer(bound) for bound in bounds)
    places, files, count = _held(kernel), len(kernel.files), 1 + len(carried)
    first = [lower, *(_number(kernel, value) for value in carried), *_values(places)]
    head, body, after = (kernel.thread.new_block(_types(first)), *_blocks(kernel, 2))
    kernel.thread.br(head, first)
    kernel.enter(head)
    arguments: list[SSAValue] = list(head.args)
    less = kernel.thread.icmp("slt", arguments[0], upper)
    kernel.thread.cond_br(less, body, after)
    kernel.enter(body)
    _set(kernel, places, arguments[count:], files)
    seen = [_seen(kernel, value) for value in arguments[:count]]
    kernel.values.update(zip(op.body.block.args, seen, strict=True))
    given = [_number(kernel, value) for value in kernel.block(op.body.block)]
    _held(kernel)
    following = kernel.thread.add(arguments[0], step)
    kernel.thread.br(head, [following, *given, *_values(places)], no_unroll=True)
    kernel.enter(after)
    _set(kernel, places, arguments[count:], files)
    last = [_seen(kernel, value) for value in arguments[1:count]]
    kernel.values.update(zip(op.results_, last, strict=True))


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
    places, files = _held(kernel), len(kernel.files)
    before = _values(places)
    body, after = (kernel.thread.new_block(), kernel.thread.new_block(_types(before)))
    kernel.thread.cond_br(condition, body, after, (), before)
    kernel.enter(body)
    kernel.block(op.body.block)
    _held(kernel)
    kernel.thread.br(after, _values(places))
    kernel.enter(after)
    _set(kernel, places, list(after.args), files)
