"""Prints: the first thread of the tile block calls the device's printf with everybody's elements.

Tiles go through scratch memory in row-major order. What fits into one call is printed by one call;
a longer print holds a lock while it makes several, so that tile blocks do not mix their text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.print_text import MAX_ARGUMENTS, Brackets, split_format
from tileiras.codegen.lowering.rows import store_rows, visit_rows
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import GENERIC, GLOBAL, bit_width, pointer_type, vector_type
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.errors import InternalError

_GENERIC = pointer_type(GENERIC)
_SLOT = 8
"""Bytes of the largest argument."""
_LOCK = (
    "{ .reg .pred p; .reg .b32 t; "
    "WAIT: atom.acquire.gpu.global.cas.b32 t, [$0], 0, 1; setp.ne.b32 p, t, 0; @p bra WAIT; }"
)
_UNLOCK = "st.release.gpu.global.b32 [$0], 0;"


@dataclass
class _Call:
    """A call that is being put together."""

    format: str = ""
    arguments: list[SSAValue] = field(default_factory=list)


def lower_print(ctx: KernelLowering, op: aa.PrintOp) -> None:
    """Prints the format; scalars once, tiles as nested lists."""
    locked = needs_lock(ctx, op)
    if locked:
        with ctx.first_thread():
            _lock_asm(ctx, _LOCK)
    _Printer(ctx).print(op)
    if locked:
        with ctx.first_thread():
            _lock_asm(ctx, _UNLOCK)


def _arguments_of(op: aa.PrintOp) -> int:
    """Number of elements that a print prints."""
    total = 0
    for value in op.arguments:
        total += Brackets(shape_of(value)).size
    return total


def needs_lock(ctx: KernelLowering, op: aa.PrintOp) -> bool:
    """Whether some print of the kernel takes several calls, so that all must wait for it."""
    if ctx.has_long_prints is None:
        func: Operation = op
        while (parent := func.parent_op()) is not None and not isinstance(func, aa.FuncOp):
            func = parent
        prints = [inner for inner in func.walk() if isinstance(inner, aa.PrintOp)]
        ctx.has_long_prints = any(_arguments_of(inner) > MAX_ARGUMENTS for inner in prints)
    return ctx.has_long_prints


def _lock_asm(ctx: KernelLowering, template: str) -> None:
    """Takes or gives back the module's lock."""
    lock = ctx.b.address_of(ctx.print_lock())
    ctx.b.inline_asm(template, "l,~{memory}", None, [lock], side_effects=True)


def text_address(ctx: KernelLowering, text: str) -> SSAValue:
    """Generic pointer to a C string."""
    data = text.encode("utf-8", "surrogateescape") + b"\0"
    variable = ctx.constant_global(data, 1, GLOBAL)
    return ctx.b.addrspacecast(ctx.b.address_of(variable), _GENERIC)


def call_printf(ctx: KernelLowering, format: SSAValue, arguments: list[SSAValue]) -> None:
    """`vprintf` with the arguments laid out as C lays out a struct of them."""
    b = ctx.b
    if not arguments:
        b.call("vprintf", i32, [format, b.inttoptr(b.i64(0), _GENERIC)])
        return
    buffer = ctx.print_buffer(MAX_ARGUMENTS * _SLOT)
    offset = 0
    for argument in arguments:
        size = bit_width(argument.type) // 8
        offset = -(-offset // size) * size
        b.store(argument, b.gep(buffer, offset), size)
        offset += size
    b.call("vprintf", i32, [format, buffer])


class _Printer:
    """Writes one print, call by call."""

    def __init__(self, ctx: KernelLowering):
        self.ctx = ctx
        self.call = _Call()

    def print(self, op: aa.PrintOp) -> None:
        """All pieces of the format."""
        values = iter(op.arguments)
        for text, conversion in split_format(op.format.data):
            self.call.format += text
            if conversion is None:
                break
            self._print_value(next(values), conversion)
        self._flush()

    def _print_value(self, value: SSAValue, conversion: str) -> None:
        if not isinstance(value.type, TensorType):
            self._add(conversion, [self.ctx.value(value)])
            return
        brackets = Brackets(value.type.get_shape())
        if brackets.size > MAX_ARGUMENTS:
            self._print_chunks(value, conversion, brackets)
            return
        region = store_rows(self.ctx, self.ctx.value(value), self.ctx.layout(value.type))
        elements = self._read(value, region, brackets.size)
        row = brackets.row(conversion, brackets.size)
        self._add(brackets.opening + row + brackets.closing, elements)

    def _add(self, format: str, arguments: list[SSAValue]) -> None:
        """More for the current call, or for a new one if that is full."""
        if len(self.call.arguments) + len(arguments) > MAX_ARGUMENTS:
            self._flush()
        self.call.format += format
        self.call.arguments += arguments

    def _flush(self) -> None:
        """Makes the current call."""
        call, self.call = self.call, _Call()
        if not call.format:
            return
        with self.ctx.first_thread():
            call_printf(self.ctx, text_address(self.ctx, call.format), call.arguments)

    def _read(self, value: SSAValue, start: SSAValue, count: int) -> list[SSAValue]:
        """Elements in a row, as scalars."""
        b, element = self.ctx.b, self._element(value)
        size = bit_width(element) // 8
        if count == 1:
            return [b.load(start, element, size, volatile=True)]
        row = b.load(start, vector_type(element, count), size, volatile=True)
        return [b.extract(row, index) for index in range(count)]

    def _element(self, value: SSAValue) -> Attribute:
        if not isinstance(value.type, TensorType):
            raise InternalError("a printed tile is no tensor", where="lowering")
        return value.type.element_type

    def _print_chunks(self, value: SSAValue, conversion: str, brackets: Brackets) -> None:
        """Loops of the first thread over chunks of as many elements as a call takes."""
        ctx, b, count = self.ctx, self.ctx.b, MAX_ARGUMENTS
        self.call.format += brackets.opening
        if self.call.arguments:
            self._flush()
        first, self.call.format = self.call.format, ""
        row = brackets.row(conversion, count)
        chunk_bytes = count * bit_width(self._element(value)) // 8

        def print_run(start: SSAValue, number: SSAValue, elements: int) -> None:
            head, done = b.new_block([i32]), b.new_block()
            first_chunk = b.lshr(number, b.i32(count.bit_length() - 1))
            b.br(head, [b.i32(0)])
            b.at(head)
            index = head.args[0]
            format = self._chunk_format(b.add(first_chunk, index), first, row, brackets)
            place = b.gep(start, b.mul(index, b.i32(chunk_bytes)))
            call_printf(ctx, format, self._read(value, place, count))
            following = b.add(index, b.i32(1))
            last = b.icmp("eq", following, b.i32(elements // count))
            b.cond_br(last, done, head, (), [following], no_unroll=True)
            b.at(done)

        visit_rows(ctx, ctx.value(value), ctx.layout(value.type), print_run)
        self.call.format = brackets.closing

    def _chunk_format(self, chunk: SSAValue, first: str, row: str, brackets: Brackets) -> SSAValue:
        """The format of chunk number `chunk`."""
        b = self.ctx.b
        format: SSAValue | None = None
        for divisor, text in brackets.chunk_starts(MAX_ARGUMENTS):
            candidate = text_address(self.ctx, text + row)
            if format is None:
                format = candidate
                continue
            remainder = b.and_(chunk, b.i32(divisor - 1))
            format = b.select(b.icmp("eq", remainder, b.i32(0)), candidate, format)
        if format is None:
            raise InternalError("a tile without chunks", where="lowering")
        opening = text_address(self.ctx, first + row)
        return b.select(b.icmp("eq", chunk, b.i32(0)), opening, format)


RULES: LoweringRules = {
    aa.PrintOp: lower_print,
}
"""Prints by class."""
