"""The pass `slice-epilogue`: what follows a large product is computed slice by slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.mma.dots import plan_dot
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.resources.warps import plan_cta

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.passes.nv_tileaa.epilogue_cut import EpilogueCut

MAX_REGISTERS = 200
"""Policy: registers of a thread for sums and what is computed of them, of 232 or 255."""
SUM_WORDS = 16384
"""Policy: words of sums from which on a kernel is looked at: 128 registers of a warpgroup's
threads.
"""
THREADS = 256
"""Policy: threads among which sums are divided: two warpgroups."""
WARP_THREADS = 32
"""Fixed: threads of a warp (PTX ISA)."""
BUSY_ROWS = 128
"""Policy: rows that keep two warpgroups busy."""
SHARING_LANES = 4
"""Fixed: lanes of a warp among which the columns of an accumulator are divided: all rows have them
all.
"""
MAX_PARTS = 8
"""Policy: parts at most: each is written out, or a trip of a loop."""
LEAST_BYTES = 64
"""Policy: of a row of a slice in memory."""
LEAST_ROWS = 16
"""Policy: of a slice."""
ROWS, COLUMNS = 0, 1
"""Fixed: dims of a tile."""


@dataclass(frozen=True)
class SliceEpiloguePass(IrPass):
    """Cuts what follows a large product into slices, which are computed and stored one by one.

    Before   %s = for { dot } : 128x256;  %t = addf %s, %bias;  store %t;  store (tanh %t)
    After    %s0 = extract %s[0, 0] : 128x128;  the rest on it;  the same with extract %s[0, 1]
    Requires nv_tileaa, with the strategies of kernels; a kernel that it slices loses its strategy
    Leaves   epilogues that fit into registers; accesses that token order keeps in their places;
             sums that are reduced, or go on into another loop
    """

    name = "slice-epilogue"
    title: ClassVar[str] = "Slice epilogues larger than the registers"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Slices in all functions."""
        target = ctx.target
        if target is None:  # a stage is asked for that needs none
            return
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and _has_large_product(func):
                _slice_func(func, target)


def _has_large_product(func: aa.FuncOp) -> bool:
    """Whether sums may take most of the registers."""
    words = [tensor_words(op.result.type) for op in func.walk() if isinstance(op, aa.DotOp)]
    return sum(words) >= SUM_WORDS


def _slice_func(func: aa.FuncOp, target: GpuTarget) -> None:
    """Slices the epilogues of a kernel that are too large."""
    from tileiras.passes.nv_tileaa.epilogue_cut import find_epilogue_cut

    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    blocks = [func.body.block, *(loop.body.block for loop in loops)]
    large = [block for block in blocks if _is_too_large(find_epilogue_cut(block, 2, COLUMNS))]
    if not large:
        return
    from tileiras.planning.strategy import drop_strategy, strategy_of

    roles = strategy_of(func, target)
    warps = roles.shape.consumer_warps if roles is not None else plan_cta(func, target).num_warps
    plan = CtaPlan(warps, target, roles)
    for block in large:
        found = find_epilogue_cut(block, 2, COLUMNS)
        if _is_too_large(found, _threads(plan)) and _slice_block(block, plan):
            drop_strategy(func)


def _threads(plan: CtaPlan) -> int:
    """Threads that share a sum where all warps do the same; else its rows say how many (0)."""
    return 0 if plan.roles is not None else WARP_THREADS * plan.num_warps


def _is_too_large(found: EpilogueCut | None, threads: int = 0) -> bool:
    """Whether an epilogue needs more registers than there are."""
    return found is not None and _registers(found, 1, threads) > MAX_REGISTERS


def _slice_block(block: Block, plan: CtaPlan) -> bool:
    """Slices the epilogue of a block into as many parts as it takes; False if it cannot be cut."""
    cuts = (_best_cut(block, dim, plan) for dim in _dims(block, plan))
    found = [cut for cut in cuts if cut is not None]
    if found:
        from tileiras.passes.nv_tileaa.epilogue_cut import build_epilogue_slices

        build_epilogue_slices(min(found, key=lambda cut: _excess(cut, plan)))
    return bool(found)


def _dims(block: Block, plan: CtaPlan) -> tuple[int, int]:
    """The dims of a sum, the better one first: rows of memory stay whole if the instructions allow.

    wgmma gives each thread all columns of its rows, or all rows of its columns.
    """
    if plan.roles is None:
        return ROWS, COLUMNS
    from tileiras.passes.nv_tileaa.epilogue_cut import product_of

    dots = [dot for op in block.ops for v in op.results if (dot := product_of(v)) is not None]
    is_swapped = any(plan.roles.dots[dot].transposed for dot in dots)
    return (ROWS, COLUMNS) if is_swapped else (COLUMNS, ROWS)


def _excess(found: EpilogueCut, plan: CtaPlan) -> int:
    """Registers that are needed beyond those that there are."""
    return max(0, _registers(found, found.cut.parts, _threads(plan)) - MAX_REGISTERS)


def _best_cut(block: Block, dim: int, plan: CtaPlan) -> EpilogueCut | None:
    """The cut along a dim into as many parts as it takes; None if there is none."""
    from tileiras.passes.nv_tileaa.epilogue_cut import find_epilogue_cut

    best, parts = None, 2
    while parts <= MAX_PARTS:
        found = find_epilogue_cut(block, parts, dim)
        if found is None or _is_too_small(found) or not _are_registers(found, plan):
            break
        best = found
        if not _excess(found, plan):
            break
        parts *= 2
    return best


def _are_registers(found: EpilogueCut, plan: CtaPlan) -> bool:
    """Whether a slice of the sums is a choice of the registers that each thread holds."""
    from tileiras.passes.nv_tileaa.epilogue_cut import product_of

    for value in found.sums:
        dot = product_of(value)
        layout = None if dot is None else plan_dot(dot, plan).result
        extent = shape_of(value)[found.dim] // found.cut.parts
        if layout is None:
            return False
        vectors = (*layout.basis("lane"), *layout.basis("warp"))
        if any(vector[found.dim] >= extent for vector in vectors):
            return False
    return True


def _is_too_small(found: EpilogueCut) -> bool:
    """Whether rows of slices are no whole sectors of memory, or there are few of them."""
    shape = list(shape_of(found.sums[0]))
    shape[found.dim] //= found.cut.parts
    accessed = [*(op.results[0] for op in found.loads), *(op.value for op in found.stores)]
    sizes = [storage_bytes(element_of(value)) for value in accessed]
    return shape[COLUMNS] * min(sizes) < LEAST_BYTES or shape[ROWS] < LEAST_ROWS


def _registers(found: EpilogueCut, parts: int, threads: int = 0) -> int:
    """Registers of a thread that hold the sums, and beside them what a slice needs at once.

    That is what is loaded, a row that all rows share included, and, where something is left to do
    after it, what is stored. A slice that meets loaded elements comes to where they are.
    """
    rows = shape_of(found.sums[0])[0]
    threads = threads or (THREADS if rows % BUSY_ROWS == 0 else THREADS // 2)
    sums = sum(tensor_words(value.type) for value in found.sums) // threads
    held = sum(_held(op, threads) for op in found.ops)
    if len(found.stores) > 1:
        held += max(tensor_words(op.value.type) for op in found.stores) // threads
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
