"""Atomic operations: one thread acts for each element, others learn the old value from it.

PTX ISA, "atom", "red", "fence.proxy", "griddepcontrol".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.lowering.access_order import ordering_of, scope_name
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.pointers import broadcast_first, pointee_of
from tileiras.codegen.lowering.rows import load_rows, store_rows
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.lowering.views import ViewAddressing
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import AtomicRMWMode, MemoryOrdering
from tileiras.dialects.layout.offsets import register_representatives
from tileiras.dialects.llvm.types import (
    bit_width,
    integer_type,
    lanes_of,
    scalar_of,
    vector_type,
    with_scalar,
)
from tileiras.errors import InternalError

_I32 = integer_type(32)
_LETTERS = {16: "h", 32: "r", 64: "l"}
_RED_ORDERS = (MemoryOrdering.RELAXED, MemoryOrdering.RELEASE)
"""PTX's red has these, atom has acquire and acq_rel besides."""
_KINDS = {
    AtomicRMWMode.AND: ("and", "b"),
    AtomicRMWMode.OR: ("or", "b"),
    AtomicRMWMode.XOR: ("xor", "b"),
    AtomicRMWMode.ADD: ("add", "u"),
    AtomicRMWMode.MAX: ("max", "s"),
    AtomicRMWMode.MIN: ("min", "s"),
    AtomicRMWMode.UMAX: ("max", "u"),
    AtomicRMWMode.UMIN: ("min", "u"),
    AtomicRMWMode.XCHG: ("exch", "b"),
}


def _suffix(ctx: KernelLowering, mode: AtomicRMWMode, element: Attribute) -> str:
    """The end of the opcode: operation and type."""
    if mode is not AtomicRMWMode.ADDF:
        kind, letter = _KINDS[mode]
        return f"{kind}.{letter}{bit_width(element)}"
    match element:
        case Float16Type():
            return "add.noftz.f16"
        case BFloat16Type():
            return "add.noftz.bf16"
        case Float32Type():
            return "add.f32"
        case _:
            return "add.f64"


_BF16_LOOP = (
    "{{ .reg .pred p; .reg .b16 one, found, sum, old; {skip}mov.b16 one, 0x3F80; "
    "ld.relaxed.{place}.b16 found, [{pointer}]; "
    "AGAIN: fma.rn.bf16 sum, found, one, {value}; {cas} old, [{pointer}], found, sum; "
    "setp.ne.b16 p, old, found; mov.b16 found, old; @p bra AGAIN; {keep}DONE: }}"
)
"""Addition of bf16 where only compare-and-swap is atomic; `found * 1 + value` rounds once."""


def _instruction(
    ctx: KernelLowering, opcode: str, result: str, pointer: str, value: str, guard: str
) -> str:
    """The PTX of one atomic; `result` is empty for a `red`, `guard` where all act."""
    if not opcode.endswith("add.noftz.bf16") or ctx.target.has(Feature.BF16_ATOMIC_NATIVE):
        at = f"@{guard} " if guard else ""
        return f"{at}{opcode} {result + ', ' if result else ''}[{pointer}], {value};"
    order, _, place = opcode.removesuffix(".add.noftz.bf16").partition(".")[2].partition(".")
    return _BF16_LOOP.format(
        skip=f"@!{guard} bra DONE; " if guard else "",
        place=place,
        pointer=pointer,
        value=value,
        cas=f"atom.{order}.{place}.cas.b16",
        keep=f"mov.b16 {result}, old; " if result else "",
    )


@dataclass(frozen=True)
class _Elements:
    """What this thread acts on: pointers and operands, scalars or one lane per element."""

    pointers: SSAValue
    values: tuple[SSAValue, ...]
    guard: SSAValue | None


def _as_integers(ctx: KernelLowering, value: SSAValue) -> SSAValue:
    """The bits of floats, as PTX's registers hold them in inline assembly."""
    bits = integer_type(bit_width(scalar_of(value.type)))
    return ctx.b.bitcast(value, with_scalar(value.type, bits))


def _spread(ctx: KernelLowering, guard: SSAValue | None, like: SSAValue) -> SSAValue | None:
    """A scalar guard in every lane."""
    if guard is None or lanes_of(guard.type) == lanes_of(like.type):
        return guard
    return ctx.b.splat(guard, lanes_of(like.type) or 1)


def _exchange(
    ctx: KernelLowering, opcode: str, elements: _Elements, passthru: SSAValue
) -> SSAValue:
    """`atom` for each element; the old values, `passthru` where the guard is false."""
    values = [_as_integers(ctx, value) for value in elements.values]
    type = values[0].type
    letter = _LETTERS[bit_width(scalar_of(type))]
    guard = _spread(ctx, elements.guard, elements.pointers)
    guards = [] if guard is None else [guard]
    first = 1 + len(guards)
    operands = ", ".join(f"${first + 1 + index}" for index in range(len(values)))
    template = _instruction(ctx, opcode, "$0", f"${first}", operands, "$1" if guards else "")
    constraints = [f"={letter}", *["b"] * len(guards), "l", *[letter] * len(values)]
    args = [*guards, elements.pointers, *values]
    if guards:
        constraints.append("0")
        args.append(_as_integers(ctx, passthru))
    old = ctx.b.inline_asm(
        template,
        ",".join([*constraints, "~{memory}"]),
        type,
        args,
        side_effects=True,
        elementwise=True,
    )
    if old is None:
        raise InternalError("an atomic without a result", where="lowering")
    return ctx.b.bitcast(old, elements.values[0].type)


def _reduce_vectors(
    ctx: KernelLowering, opcode: str, element: Attribute, elements: _Elements, vector: int
) -> None:
    """`red` for each group of `vector` neighbours; halves of words go in pairs."""
    b, value = ctx.b, _as_integers(ctx, elements.values[0])
    words = vector * bit_width(element) // 32
    if words < vector:
        opcode += "x2"
        value = b.bitcast(value, vector_type(_I32, (lanes_of(value.type) or 1) // 2))
    if words > 1:
        head, _, type = opcode.rpartition(".")
        opcode = f"{head}.v{words}.{type}"
    groups = (lanes_of(value.type) or 1) // words
    guard = _spread(ctx, elements.guard, elements.pointers)
    first = 0 if guard is None else 1
    names = ", ".join(f"${first + 1 + word}" for word in range(words))
    operand = f"{{{names}}}" if words > 1 else names
    template = _instruction(ctx, opcode, "", f"${first}", operand, "$0" if first else "")
    constraints = ",".join([*["b"] * first, "l", *["r"] * words, "~{memory}"])
    for group in range(groups):
        args = [] if guard is None else [b.extract(guard, group)]
        args.append(b.extract(elements.pointers, group))
        args += [b.extract(value, group * words + word) for word in range(words)]
        b.inline_asm(template, constraints, None, args, side_effects=True)


def _reduce_into(ctx: KernelLowering, opcode: str, elements: _Elements) -> None:
    """`red` for each element."""
    b = ctx.b
    value = _as_integers(ctx, elements.values[0])
    letter = _LETTERS[bit_width(scalar_of(value.type))]
    guard = _spread(ctx, elements.guard, elements.pointers)
    parts = [part for part in (guard, elements.pointers, value) if part is not None]
    place = len(parts) - 2
    first = "" if guard is None else "$0"
    template = _instruction(ctx, opcode, "", f"${place}", f"${place + 1}", first)
    constraints = ",".join([*["b"] * place, "l", letter, "~{memory}"])
    lanes = lanes_of(value.type)
    for lane in range(lanes or 1):
        args = parts if lanes is None else [b.extract(part, lane) for part in parts]
        b.inline_asm(template, constraints, None, args, side_effects=True)


def _elements(
    ctx: KernelLowering,
    pointers: SSAValue,
    values: Sequence[SSAValue],
    mask: SSAValue | None,
) -> _Elements:
    """The elements that this thread owns, each once."""
    lowered = [ctx.value(value) for value in values]
    guard = ctx.value(mask) if mask is not None else None
    addresses = ctx.value(pointers)
    if not isinstance(pointers.type, TensorType):
        guard = ctx.both(guard, ctx.is_first())
    else:
        layout = ctx.layout(pointers.type)
        unique = _distinct_registers(register_representatives(layout))
        addresses = ctx.b.shuffle(addresses, None, unique)
        lowered = [ctx.b.shuffle(value, None, unique) for value in lowered]
        if guard is not None:
            guard = ctx.b.shuffle(guard, None, unique)
        guard = ctx.both(guard, ctx.owner(layout))
    return _Elements(ctx.b.inttoptr(addresses, ctx.pointer), tuple(lowered), guard)


def _distinct_registers(representatives: Sequence[int]) -> list[int]:
    """The registers that are no copies of lower ones."""
    return [register for register, first in enumerate(representatives) if register == first]


def _publish(ctx: KernelLowering, result: SSAValue, old: SSAValue) -> SSAValue:
    """The old values in all registers and threads that are to hold them."""
    if not isinstance(result.type, TensorType):
        return broadcast_first(ctx, old)
    layout = ctx.layout(result.type)
    representatives = register_representatives(layout)
    place = {r: i for i, r in enumerate(_distinct_registers(representatives))}
    spread = ctx.b.shuffle(old, None, [place[first] for first in representatives])
    if ctx.owner(layout) is None:
        return spread
    region = store_rows(ctx, spread, layout)
    return load_rows(ctx, region, scalar_of(old.type), layout)


def _is_used(result: SSAValue) -> bool:
    """Whether anybody reads the old values."""
    return result.first_use is not None


def lower_atomic_rmw(ctx: KernelLowering, op: aa.AtomicRMWOp) -> None:
    """Read-modify-write; a masked-off element gives 0."""
    element = register_type(pointee_of(ctx, op.pointers))
    suffix = _suffix(ctx, op.mode.data, element)
    ordering = ordering_of(op)
    middle = f"{ordering.value}.{scope_name(op)}{ctx.state_space}.{suffix}"
    elements = _elements(ctx, op.pointers, [op.value], op.mask)
    is_exchange = op.mode.data is AtomicRMWMode.XCHG
    if not _is_used(op.result) and ordering in _RED_ORDERS and not is_exchange:
        _reduce_into(ctx, f"red.{middle}", elements)
        return
    passthru = ctx.b.zero(elements.values[0].type)
    old = _exchange(ctx, f"atom.{middle}", elements, passthru)
    if _is_used(op.result):
        ctx.values[op.result] = _publish(ctx, op.result, old)


def lower_atomic_cas(ctx: KernelLowering, op: aa.AtomicCASOp) -> None:
    """Compare bits and swap; a masked-off element gives the value to compare with."""
    width = bit_width(register_type(pointee_of(ctx, op.pointers)))
    opcode = f"atom.{ordering_of(op).value}.{scope_name(op)}{ctx.state_space}.cas.b{width}"
    elements = _elements(ctx, op.pointers, [op.compare, op.value], op.mask)
    old = _exchange(ctx, opcode, elements, elements.values[0])
    if _is_used(op.result):
        ctx.values[op.result] = _publish(ctx, op.result, old)


def lower_tiled_atomic_red(ctx: KernelLowering, op: aa.TiledAtomicRedOp) -> None:
    """Combines a tile into memory through a view; nothing happens out of bounds."""
    if not isinstance(op.value.type, TensorType):
        raise ctx.unsupported("a tile of rank 0")
    layout = ctx.layout(op.value.type)
    inbounds = [int(flag) for flag in op.inbounds.get_values()] or [0] * len(op.indices)
    view = ViewAddressing(ctx, op.view, op.indices, inbounds, layout)
    vector = op.vector.data if op.vector is not None else 1
    access = view.access(vector, op.axis.data if op.axis is not None else 0)
    element = register_type(view.type.memref.element_type)
    if isinstance(element, IntegerType) and element.width.data < 32:
        raise ctx.unsupported(f"an atomic on {element}")
    suffix = _suffix(ctx, op.mode.data, element)
    value = ctx.b.shuffle(ctx.value(op.value), None, access.registers)
    guard = ctx.both(access.guard, ctx.owner(layout))
    opcode = f"red.{ordering_of(op).value}.{scope_name(op)}{ctx.state_space}.{suffix}"
    elements = _Elements(access.pointers, (value,), guard)
    if access.vector > 1:
        _reduce_vectors(ctx, opcode, element, elements, access.vector)
    else:
        _reduce_into(ctx, opcode, elements)


def lower_fence_alias(ctx: KernelLowering, op: Operation) -> None:
    """Orders accesses of all threads through different addresses of one memory."""
    ctx.barrier()
    ctx.b.inline_asm("fence.proxy.alias;", "~{memory}", None, [], side_effects=True)
    ctx.barrier()


def lower_grid_dependency(ctx: KernelLowering, op: aa.GridDependencyOp) -> None:
    """Waits for the grid before, or lets the next one start; older targets have no such grids."""
    if ctx.target.has(Feature.GRID_DEPENDENCY):
        ctx.b.griddepcontrol("wait" if op.kind.data == "wait" else "launch_dependents")


RULES: LoweringRules = {
    aa.AtomicRMWOp: lower_atomic_rmw,
    aa.AtomicCASOp: lower_atomic_cas,
    aa.TiledAtomicRedOp: lower_tiled_atomic_red,
    aa.FenceAliasOp: lower_fence_alias,
    aa.GridDependencyOp: lower_grid_dependency,
}
"""Atomics and fences by class."""
