"""Assertions: a line for each element that fails, then the runtime's `__assertfail`.

The line goes to the standard output like any print; `__assertfail` reports an error to the host, as
a failed `assert` of CUDA C++ does. While nothing fails a tile costs one barrier, a scalar a branch.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.print_text import escaped
from tileiras.codegen.lowering.printing import call_printf, text_address
from tileiras.codegen.lowering.rows import visit_rows
from tileiras.codegen.lowering.tensors import block_index
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import lanes_of
from tileiras.dialects.locations import place_of
from tileiras.errors import InternalError

_ANY_THREAD = (
    "{{ .reg .pred p, q; setp.ne.b32 p, $1, 0; "
    "bar.red.or.pred q, {barrier}, p; selp.b32 $0, 1, 0, q; }}"
)


def lower_assert(ctx: KernelLowering, op: aa.AssertOp) -> None:
    """Goes on where the condition holds; else reports, and goes on if the runtime lets it."""
    b = ctx.b
    condition = ctx.value(op.condition)
    failing, after = b.new_block(), b.new_block()
    if not isinstance(op.condition.type, TensorType):
        b.cond_br(condition, after, failing)
        ctx.start_block(failing)
        with ctx.first_thread():
            _report(ctx, op, ())
            _fail(ctx, op)
    else:
        b.cond_br(_somebody_fails(ctx, condition), failing, after)
        ctx.start_block(failing)
        shape = op.condition.type.get_shape()

        def report(start: SSAValue, first: SSAValue, count: int) -> None:
            _report_elements(ctx, op, shape, start, first, count)

        visit_rows(ctx, condition, ctx.layout(op.condition.type), report)
        with ctx.first_thread():
            _fail(ctx, op)
    ctx.b.br(after)
    ctx.start_block(after)


def _somebody_fails(ctx: KernelLowering, condition: SSAValue) -> SSAValue:
    """i1, the same in all threads: whether any element of any thread is false. A barrier."""
    b = ctx.b
    while (lanes := lanes_of(condition.type) or 1) > 1:
        half = lanes // 2
        condition = b.and_(b.slice(condition, 0, half), b.slice(condition, half, half))
    holds = condition if lanes_of(condition.type) is None else b.extract(condition, 0)
    fails = b.select(holds, b.i32(0), b.i32(1))
    barrier = ", ".join(str(part) for part in b.cta_barrier if part is not None)
    template = _ANY_THREAD.format(barrier=barrier)
    anywhere = b.inline_asm(
        template, "=r,r,~{memory}", i32, [fails], side_effects=True, convergent=True
    )
    ctx.scratch.synchronized()
    if anywhere is None:
        raise InternalError("a barrier without a result", where="lowering")
    return b.icmp("ne", anywhere, b.i32(0))


def _report_elements(
    ctx: KernelLowering,
    op: aa.AssertOp,
    shape: Sequence[int],
    start: SSAValue,
    first: SSAValue,
    count: int,
) -> None:
    """A loop of one thread over elements from number `first` on, a byte each at `start`."""
    b = ctx.b
    size = 1
    for dim in shape:
        size *= dim
    head, report, following, done = b.new_block([i32]), b.new_block(), b.new_block(), b.new_block()
    b.br(head, [b.i32(0)])
    b.at(head)
    index = head.args[0]
    holds = b.load(b.gep(start, index), i8, 1, volatile=True)
    b.cond_br(b.icmp("eq", holds, b.const_int(i8, 0)), report, following)
    b.at(report)
    number = b.add(first, index)
    coordinates: list[SSAValue] = []
    stride = size
    for dim in shape:
        stride //= dim
        shifted = b.lshr(number, b.i32(stride.bit_length() - 1))
        coordinates.append(b.and_(shifted, b.i32(dim - 1)))
    _report(ctx, op, coordinates)
    b.br(following)
    b.at(following)
    behind = b.add(index, b.i32(1))
    b.cond_br(b.icmp("eq", behind, b.i32(count)), done, head, (), [behind], no_unroll=True)
    b.at(done)


def _report(ctx: KernelLowering, op: aa.AssertOp, coordinates: Sequence[SSAValue]) -> None:
    """One line about one element."""
    place = place_of(op)
    where = f"{place.filename}:{place.line}: " if place is not None else ""
    message = op.message.data or "assertion failed"
    at = f"element [{', '.join(['%d'] * len(coordinates))}] of " if coordinates else ""
    format = f"{escaped(where + message)} ({at}tile block [%d, %d, %d])\n"
    block = [block_index(ctx, axis) for axis in range(3)]
    call_printf(ctx, text_address(ctx, format), [*coordinates, *block])


def _fail(ctx: KernelLowering, op: aa.AssertOp) -> None:
    """Tells the host."""
    b, place = ctx.b, place_of(op)
    arguments = [
        text_address(ctx, op.message.data or "assertion failed"),
        text_address(ctx, place.filename if place is not None else "<unknown>"),
        b.i32(place.line if place is not None else 0),
        text_address(ctx, ctx.kernel_name),
        b.i64(1),
    ]
    b.call("__assertfail", None, arguments)


RULES: LoweringRules = {
    aa.AssertOp: lower_assert,
}
"""Assertions by class."""
