"""nv_tileas to nvvm and llvm: what one thread does. One file per family of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp
from xdsl.ir import Operation

from tileiras.codegen.lowering.agent_switch import register_limit, role_threads, wanted_ctas
from tileiras.codegen.lowering.async_copy import allocate_buffers
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.early_addresses import compute_addresses_early
from tileiras.codegen.lowering.rules import lower_block
from tileiras.codegen.lowering.symbols import SymbolNames
from tileiras.codegen.lowering.tensors import leave_idle_clusters
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.lowering.variables import allocate_on_heap, has_alloca, lower_global
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import GENERIC, GLOBAL, SHARED
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError, InternalError
from tileiras.ir_pass import CompileContext, IrPass

SCRATCH_ALIGN = 128
"""Bytes; shared memory starts where a wavefront does."""


@dataclass(frozen=True)
class ConvertNvTileASToLLVMPass(IrPass):
    """Writes every kernel as the program of one thread.

    Before   nv_tileaa.func whose tensors have layouts
    After    llvm.func: a tensor is the vector of the thread's own elements; llvm.global for scratch
    Requires nv_tileas; every tensor with a layout
    Leaves   nothing of nv_tileas
    """

    name = "convert-nv-tileas-to-llvm"
    title: ClassVar[str] = "Convert nv_tileas to llvm and nvvm"
    settles: ClassVar[bool] = False  # the border of the stage is its check

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Lowers all functions of the module."""
        items = list(op.body.ops)
        variables = [item for item in items if isinstance(item, aa.GlobalOp)]
        globals_ = {item.sym_name.data: lower_global(item) for item in variables}
        functions = [item for item in items if isinstance(item, aa.FuncOp)]
        symbols = SymbolNames([*globals_, *(func.sym_name.data for func in functions)])
        lowered: list[Operation] = list(globals_.values())
        shared: dict[str, llvm_memory.GlobalOp] = {}
        for func in functions:
            lowered += lower_function(func, ctx, symbols, globals_, shared)
        for item in items:
            item.detach()
        for item in lowered:
            op.body.block.add_op(item)


def lower_function(
    func: aa.FuncOp,
    context: CompileContext,
    symbols: SymbolNames,
    module_globals: Mapping[str, llvm_memory.GlobalOp],
    module_variables: dict[str, llvm_memory.GlobalOp],
) -> list[Operation]:
    """The kernel and the globals that it needs."""
    target = context.require_target()
    source = func.body.block
    warps = func.num_warps
    if not isinstance(warps, IntegerAttr):
        raise InternalError("a function has no number of warps", where="lowering")
    num_warps = warps.value.data
    clusters = func.cluster_size > 1 or context.options.launch == "cluster"
    name = func.sym_name.data
    kernel = FuncOp.make_kernel(
        name,
        [register_type(arg.type) for arg in source.args],
        threads=32 * num_warps + role_threads(func),
        min_ctas=wanted_ctas(func),
        max_registers=register_limit(func),
        cluster_dim=(func.cluster_size, 1, 1) if clusters else None,
        blocks_are_clusters=clusters,
    )
    kernel.location = func.location
    scratch = llvm_memory.GlobalOp.make(symbols.unique("scratch"), 0, SHARED, SCRATCH_ALIGN)
    ctx = KernelLowering(
        kernel.entry,
        scratch,
        target,
        context.options,
        num_warps,
        name,
        symbols,
        module_globals,
        module_variables,
        GENERIC if has_alloca(func) else GLOBAL,
    )
    ctx.prologue.location = func.location
    ctx.values.update(zip(source.args, kernel.entry.args, strict=True))
    ctx.cluster_size = func.cluster_size
    ctx.divides_tiles = func.clustered is None
    ctx.has_static_tile_scheduler = func.static_tile_scheduler is not None
    ctx.has_dynamic_tile_scheduler = func.dynamic_tile_scheduler is not None
    ctx.tiles_drawn = func.tiles_drawn
    ctx.takes_over = ctx.has_dynamic_tile_scheduler or func.tile_queue is not None
    body = ctx.b.new_block()
    ctx.b.at(body)
    if (axis := func.shared_axis) is not None:
        leave_idle_clusters(ctx, axis)
    elif ctx.has_static_tile_scheduler:
        leave_idle_clusters(ctx, 0)
        ctx.b.divides_quickly = True
    ctx.scratch.synchronized()
    allocate_on_heap(ctx, func)
    allocate_buffers(ctx, func)
    lower_block(ctx, source)
    for before, after in ctx.waits:
        compute_addresses_early(before, after)
    ctx.prologue.br(body)
    used = [scratch] if scratch.size.data else []
    # ptxas lays variables out as they come: the most aligned ones first leave no gaps.
    made = sorted([*used, *ctx.globals_made], key=lambda item: -item.align.data)
    if ctx.roles.tensor_memory is not None:
        from tileiras.codegen.lowering.tensor_memory import keep_apart

        keep_apart(ctx, made)
    if func.apart is not None:
        _take_half_of_sm([item for item in made if item.space.data == SHARED], target)
    _check_shared_memory(func, target, made)
    return [*made, kernel]


def _take_half_of_sm(shared: Sequence[llvm_memory.GlobalOp], target: GpuTarget) -> None:
    """Makes shared memory larger than what two CTAs of an SM may have each."""
    missing = target.shared_memory_per_sm // 2 - sum(item.size.data for item in shared)
    if shared and missing > 0:
        largest = max(shared, key=lambda item: item.size.data)
        largest.properties["size"] = IntAttr(largest.size.data + missing)


def _check_shared_memory(
    func: aa.FuncOp, target: GpuTarget, made: Sequence[llvm_memory.GlobalOp]
) -> None:
    """Raises CompileError if scratch and allocations together are more than the target has."""
    total = sum(item.size.data for item in made if item.space.data == SHARED)
    if total > target.static_shared_limit:
        raise CompileError(
            f"kernel '{func.sym_name.data}' {target.too_much_shared_memory(total)}; "
            "use smaller tiles or smaller allocations",
            place_of(func),
        )
