"""Loads and stores through scalars or tiles of pointers."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.memory_builder import WEAK, MemoryOrder
from tileiras.codegen.lowering.access_order import memory_order
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.types import (
    element_type,
    register_type,
    storage_bits,
    storage_bytes,
)
from tileiras.codegen.lowering.views import gather_order
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.layout.offsets import register_representatives
from tileiras.dialects.llvm.types import bit_width, vector_type
from tileiras.dialects.nv_tileaa.types import PointerType
from tileiras.errors import InternalError


def pointee_of(ctx: KernelLowering, pointers: SSAValue) -> Attribute:
    """What the pointers point to; an error for elements that share bytes."""
    pointer = element_type(pointers.type)
    if not isinstance(pointer, PointerType):
        raise InternalError("an access goes through something that is no pointer")
    if storage_bits(pointer.pointee) % 8:
        raise ctx.unsupported(f"access to {pointer.pointee} elements")
    return pointer.pointee


def lower_load(ctx: KernelLowering, op: tas.LoadOp) -> None:
    """Gathers; masked-off elements get `other` (zero if there is none)."""
    if not isinstance(op.result.type, TensorType):
        _lower_scalar_load(ctx, op)
        return
    layout = ctx.layout(op.result.type)
    pointee = pointee_of(ctx, op.pointers)
    width = contiguous_vector(layout, op.axis.data, op.vector.data)
    unique = register_representatives(layout)
    leaders = [r for r in range(0, len(unique), width) if unique[r] == r]
    registers = [r + i for r in leaders for i in range(width)]
    addresses = ctx.b.shuffle(ctx.value(op.pointers), None, leaders)
    pointers = ctx.b.inttoptr(addresses, ctx.pointer)
    element = register_type(pointee)
    type = vector_type(memory_element(element), len(registers))
    guard = passthru = None
    if op.mask is not None:
        guard = ctx.b.shuffle(ctx.value(op.mask), None, leaders)
        passthru = ctx.b.zero(type)
        if op.other is not None:
            other = ctx.b.shuffle(ctx.value(op.other), None, registers)
            passthru = memory_form(ctx, other)
    size = width * storage_bytes(pointee)
    order = memory_order(ctx, op)
    loaded = ctx.b.masked_load(pointers, guard, type, size, passthru, order)
    ordered = ctx.b.shuffle(loaded, None, gather_order(layout, registers))
    ctx.values[op.result] = register_form(ctx, ordered, element)


def _lower_scalar_load(ctx: KernelLowering, op: tas.LoadOp) -> None:
    """One element, the same in every thread.

    A weak load may be done by all threads. One that other tile blocks may race with must be done
    once, or threads could see different values and go different ways.
    """
    pointee = pointee_of(ctx, op.pointers)
    element = register_type(pointee)
    stored = memory_element(element)
    order = memory_order(ctx, op)
    guard = ctx.value(op.mask) if op.mask is not None else None
    other = memory_form(ctx, ctx.value(op.other)) if op.other is not None else None
    if guard is not None and other is None:
        other = ctx.b.zero(stored)
    pointer = ctx.b.inttoptr(ctx.value(op.pointers), ctx.pointer)
    size = storage_bytes(pointee)
    if order == WEAK:
        loaded = ctx.b.masked_load(pointer, guard, stored, size, other, order)
    else:
        loaded = _load_once(ctx, pointer, guard, other, stored, order)
    ctx.values[op.result] = register_form(ctx, loaded, element)


def _load_once(
    ctx: KernelLowering,
    pointer: SSAValue,
    guard: SSAValue | None,
    other: SSAValue | None,
    type: Attribute,
    order: MemoryOrder,
) -> SSAValue:
    """The first thread loads and hands the value to the others."""
    size = bit_width(type) // 8
    chosen = ctx.both(guard, ctx.is_first())
    fallback = other if other is not None else ctx.b.zero(type)
    loaded = ctx.b.masked_load(pointer, chosen, type, size, fallback, order)
    return broadcast_first(ctx, loaded)


def broadcast_first(ctx: KernelLowering, value: SSAValue) -> SSAValue:
    """The scalar that the first thread of the tile block holds, in all its threads."""
    if ctx.is_alone:
        return value
    size = bit_width(value.type) // 8
    region = ctx.scratch.region(size)
    first = ctx.threads.all_zero(31, ctx.num_warps - 1)
    ctx.b.masked_store(value, region, first, size)
    ctx.b.barrier()
    return ctx.b.load(region, value.type, size, volatile=True)


def lower_store(ctx: KernelLowering, op: tas.StoreOp) -> None:
    """Scatters; each element is written once, by the thread that owns it."""
    pointee = pointee_of(ctx, op.pointers)
    guard = ctx.value(op.mask) if op.mask is not None else None
    value = ctx.value(op.value)
    order = memory_order(ctx, op)
    if not isinstance(op.value.type, TensorType):
        pointer = ctx.b.inttoptr(ctx.value(op.pointers), ctx.pointer)
        first = ctx.threads.all_zero(31, ctx.num_warps - 1)
        stored = memory_form(ctx, value)
        ctx.b.masked_store(stored, pointer, ctx.both(guard, first), storage_bytes(pointee), order)
        return
    layout = ctx.layout(op.value.type)
    width = contiguous_vector(layout, op.axis.data, op.vector.data)
    unique = register_representatives(layout)
    leaders = [r for r in range(0, len(unique), width) if unique[r] == r]
    registers = [r + i for r in leaders for i in range(width)]
    if guard is not None:
        guard = ctx.b.shuffle(guard, None, leaders)
    addresses = ctx.b.shuffle(ctx.value(op.pointers), None, leaders)
    pointers = ctx.b.inttoptr(addresses, ctx.pointer)
    stored = memory_form(ctx, ctx.b.shuffle(value, None, registers))
    size = width * storage_bytes(pointee)
    ctx.b.masked_store(stored, pointers, ctx.both(guard, ctx.owner(layout)), size, order)
