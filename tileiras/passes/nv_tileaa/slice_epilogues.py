"""The pass `tileaa-slice-epilogues`: what follows a large product is computed slice by slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.analysis.register_pressure import tensor_words
from tileiras.passes.nv_tileaa.epilogue_cut import (
    EpilogueCut,
    build_epilogue_slices,
    find_epilogue_cut,
    product_of,
)

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan

MAX_REGISTERS = 200
"""Registers of a thread for sums and what is computed of them, of 232 or 255."""
SUM_WORDS = 16384
"""Words of sums from which on a kernel is looked at: 128 registers of a warpgroup's threads."""
THREADS = 256
BUSY_ROWS = 128
"""Rows that keep two warpgroups busy."""
SHARING_LANES = 4
"""Lanes of a warp among which the columns of an accumulator are divided: all rows have them all."""
MAX_PARTS = 8
LEAST_BYTES = 128
"""Of a row of a slice in memory."""
LEAST_ROWS = 16
ROWS, COLUMNS = 0, 1


@dataclass(frozen=True)
class SliceEpiloguesPass(IrPass):
    """Computes and stores slices of a product's sum one after the other where all is too much.

    Before   %s = for { dot } : 128x256;  %t = addf %s, %bias;  store %t;  store (tanh %t)
    After    %s0 = extract %s[0, 0] : 128x128;  the rest on it;  the same with extract %s[0, 1]
    Requires nv_tileaa
    Leaves   kernels that are not specialised; epilogues that fit into registers;
             accesses that token order keeps in their places;
             sums that are reduced or go on into another loop
    """

    name = "tileaa-slice-epilogues"
    title: ClassVar[str] = "Slice epilogues larger than the registers"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Slices in all functions."""
        target = ctx.require_target()
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and _has_large_product(func):
                _slice_func(func, target)


def _has_large_product(func: aa.FuncOp) -> bool:
    """Whether sums may take most of the registers."""
    words = [tensor_words(op.result.type) for op in func.walk() if isinstance(op, aa.DotOp)]
    return sum(words) >= SUM_WORDS


def _slice_func(func: aa.FuncOp, target: GpuTarget) -> None:
    """Slices the epilogues of a specialised kernel that are too large.

    Where all warps do the same, they divide the columns of a sum: slices would leave some idle.
    """
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    blocks = [func.body.block, *(loop.body.block for loop in loops)]
    large = [block for block in blocks if _is_too_large(find_epilogue_cut(block, 2, COLUMNS))]
    if not large:
        return
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import plan_hopper

    plan = plan_hopper(func, target)
    for block in large:
        if plan is not None:
            _slice_block(block, plan)


def _is_too_large(found: EpilogueCut | None) -> bool:
    """Whether an epilogue needs more registers than there are."""
    return (
        found is not None
        and _registers(found, 1) > MAX_REGISTERS
        and all(_has_wide_accesses(view) for view in _views(found))
    )


def _slice_block(block: Block, plan: HopperPlan) -> None:
    """Slices the epilogue of a block into as many parts as it takes."""
    dim, best = _dim_of_registers(block, plan), None
    parts = 2
    while parts <= MAX_PARTS:
        found = find_epilogue_cut(block, parts, dim)
        if found is None or _is_too_small(found):
            break
        best = found
        if _registers(found, parts) <= MAX_REGISTERS:
            break
        parts *= 2
    if best is not None:
        build_epilogue_slices(best)


def _dim_of_registers(block: Block, plan: HopperPlan) -> int:
    """The dim of a sum along which each thread has all elements of a row, or column."""
    for op in block.ops:
        for value in op.results:
            dot = product_of(value)
            if dot is not None and plan.dots[dot].fragments == "rhs":
                return ROWS
    return COLUMNS


def _is_too_small(found: EpilogueCut) -> bool:
    """Whether rows of slices are no whole sectors of memory, or there are few of them."""
    shape = list(shape_of(found.sums[0]))
    shape[found.dim] //= found.cut.parts
    sizes = [storage_bytes(view_type_of(v).memref.element_type) for v in _views(found)]
    return shape[COLUMNS] * min(sizes) < LEAST_BYTES or shape[ROWS] < LEAST_ROWS


def _views(found: EpilogueCut) -> list[SSAValue]:
    """The views that an epilogue goes through."""
    accesses = [*found.loads, *found.stores]
    return [op.view for op in accesses if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp)]


def _has_wide_accesses(view: SSAValue) -> bool:
    """Whether threads access whole vectors: many small accesses have many addresses.

    These would be kept from one slice for the next, in more registers than the slices save.
    """
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.operands import is_aligned

    return is_aligned(view_type_of(view), memref_of(view))


def _registers(found: EpilogueCut, parts: int) -> int:
    """Registers of a thread that hold the sums, and beside them what a slice needs at once.

    That is what is loaded, a row that all rows share included, and, where something is left to do
    after it, what is stored. A slice that meets loaded elements comes to where they are.
    """
    rows = shape_of(found.sums[0])[0]
    threads = THREADS if rows % BUSY_ROWS == 0 else THREADS // 2
    sums = sum(tensor_words(value.type) for value in found.sums) // threads
    held = sum(_held(op, threads) for op in found.ops)
    if len(found.stores) > 1:
        held += max(tensor_words(op.operands[0].type) for op in found.stores) // threads
    if parts > 1 and any(_is_matrix(op) for op in found.loads):
        held += sums
    return sums + held // parts


def _held(op: Operation, threads: int) -> int:
    """Registers of a thread for what an operation brings into the slices."""
    match op:
        case aa.LoadOp() | aa.TiledLoadOp() if _is_matrix(op):
            return tensor_words(op.results[0].type) // threads
        case aa.BroadcastOp() if len(shape_of(op.source)) == 2 and shape_of(op.source)[0] == 1:
            return tensor_words(op.source.type) // SHARING_LANES
        case _:
            return 0


def _is_matrix(op: Operation) -> bool:
    """Whether a load brings other elements for every row."""
    return sum(extent > 1 for extent in shape_of(op.results[0])) > 1
