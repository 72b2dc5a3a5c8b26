"""Memory that a program declares: globals of the module, and what a tile block allocates.

An `alloca` is a static variable in shared memory; its lifetime ends with its block, so every
execution may use the same bytes. One that other tile blocks can reach comes from the heap of the
device runtime, is allocated when the tile block starts, and is freed when it returns.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.constants import element_bits
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.types import element_type, storage_bits
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import SymbolVisibility
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import GENERIC, GLOBAL, pointer_type
from tileiras.dialects.nv_tileaa.types import PointerType
from tileiras.errors import InternalError

_GENERIC = pointer_type(GENERIC)


def data_of(value: DenseAttr) -> bytes:
    """The elements as they lie in memory; 4-bit ones share bytes, the first in the low half."""
    patterns = element_bits(value)
    patterns = patterns * (value.type.num_elements // len(patterns))
    bits = storage_bits(value.type.element_type)
    if bits < 8:
        pairs = zip(patterns[::2], [*patterns[1::2], 0], strict=False)
        return bytes(low & 15 | (high & 15) << 4 for low, high in pairs)
    return b"".join(pattern.to_bytes(bits // 8, "little") for pattern in patterns)


def lower_global(op: aa.GlobalOp) -> llvm_memory.GlobalOp:
    """The variable in global memory; the host finds a public one by its name."""
    data = data_of(op.value)
    natural = max(1, storage_bits(op.value.type.element_type) // 8)
    return llvm_memory.GlobalOp.make(
        op.sym_name.data,
        len(data),
        GLOBAL,
        max(natural, op.alignment.value.data),
        initializer=data,
        constant=op.constant is not None,
        visible=op.symbol_visibility.data is SymbolVisibility.PUBLIC,
    )


def lower_get_global(ctx: KernelLowering, op: aa.GetGlobalOp) -> None:
    """The address of a global."""
    name = op.symbol.root_reference.data
    variable = ctx.module_globals.get(name)
    if variable is None:
        raise InternalError(f"there is no global @{name}", where="lowering")
    ctx.values[op.result] = ctx.prologue.ptrtoint(ctx.prologue.address_of(variable), i64)


def has_alloca(func: aa.FuncOp) -> bool:
    """Whether pointers of the function may point to shared memory."""
    return any(isinstance(op, aa.AllocaOp) for op in func.walk())


def _size_of(op: aa.AllocaOp) -> int:
    """Bytes, at least one."""
    pointer = element_type(op.result.type)
    if not isinstance(pointer, PointerType):
        raise InternalError("an alloca does not give a pointer")
    return max(1, -(-op.num_elem.value.data * storage_bits(pointer.pointee) // 8))


def allocate_on_heap(ctx: KernelLowering, func: aa.FuncOp) -> None:
    """At the start of the kernel: memory for every alloca that other tile blocks can reach."""
    wanted = [op for op in func.walk() if isinstance(op, aa.AllocaOp) and op.is_global is not None]
    if not wanted:
        return
    b = ctx.b
    table = ctx.shared_variable("heap", 8 * len(wanted), 8)
    stages = [b.gep(b.address_of(table), 8 * index) for index in range(len(wanted))]
    with ctx.first_thread():
        for op, stage in zip(wanted, stages, strict=True):
            size = _size_of(op) + op.alignment.value.data
            raw = b.call("malloc", _GENERIC, [b.i64(size)])
            if raw is None:
                raise InternalError("malloc without a result", where="lowering")
            b.store(b.ptrtoint(raw, i64), stage, 8)
    ctx.barrier()
    for op, stage in zip(wanted, stages, strict=True):
        ctx.heap[op] = b.load(stage, i64, 8, volatile=True)


def free_heap(ctx: KernelLowering) -> None:
    """Before the kernel ends: gives back what it allocated."""
    if not ctx.heap:
        return
    ctx.barrier()
    with ctx.first_thread():
        for raw in ctx.heap.values():
            ctx.b.call("free", None, [ctx.b.inttoptr(raw, _GENERIC)])


def lower_alloca(ctx: KernelLowering, op: aa.AllocaOp) -> None:
    """The address of the variable; traps where the heap had no room for it."""
    align = op.alignment.value.data
    if op.is_global is not None:
        ctx.values[op.result] = _checked(ctx, ctx.heap[op], align)
        return
    variable = ctx.shared_variable("alloca", _size_of(op), align)
    address = ctx.prologue.addrspacecast(ctx.prologue.address_of(variable), _GENERIC)
    ctx.values[op.result] = ctx.prologue.ptrtoint(address, i64)


def _checked(ctx: KernelLowering, raw: SSAValue, align: int) -> SSAValue:
    """The first aligned address behind `raw`, or a trap if that is null."""
    b = ctx.b
    trap, go_on = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", raw, b.i64(0)), trap, go_on)
    b.at(trap)
    b.intrinsic("llvm.trap", None, [])
    b.br(go_on)
    ctx.start_block(go_on)
    return b.and_(b.add(raw, b.i64(align - 1)), b.i64(-align))


VARIABLE_RULES: LoweringRules = {
    aa.GetGlobalOp: lower_get_global,
    aa.AllocaOp: lower_alloca,
}
"""Globals and allocations by class."""

__all__ = [
    "VARIABLE_RULES",
    "allocate_on_heap",
    "data_of",
    "free_heap",
    "has_alloca",
    "lower_global",
]
