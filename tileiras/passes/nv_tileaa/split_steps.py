"""Cuts steps of K too large for shared memory into several, and says what it did."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block

from tileiras.analysis.register_pressure import Live, live_at_products, tensor_words
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext
from tileiras.passes.nv_tileaa.split_products import THREADS
from tileiras.passes.rewriting import put_in_place
from tileiras.planning.operands.tma import MAX_BOX, root_load
from tileiras.planning.resources.warps import plan_cta
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan

SPLIT_K = "split-k"
"""The pass that this is the work of, whoever asks for it."""
STAGES = 3
"""Policy: stages of a pipeline that keep TMA busy: two hold what is multiplied, one what comes
next.
"""
STAGE_BYTES = 128
"""Fixed: least bytes of a part along K in a stage: a span of swizzled shared memory."""
COPY_BYTES = 64
"""Policy: least bytes of a part along K that cp.async copies: half the rows that fill all banks."""
ROW_BYTES = 32
"""Policy: least bytes of a part along K that threads load: a sector of memory."""
WARP_THREADS = 32
"""Fixed: threads of a warp (PTX ISA)."""
MAX_WORDS = 224
"""Policy: registers of a thread, of 255, for sums and operands where all threads load and multiply.
"""


def split_function(ctx: CompileContext, func: aa.FuncOp) -> None:
    """Puts the function with cut products in the place of the other one."""
    if ctx.target is None:  # a stage is asked for that needs no target
        return
    changed, done = split_steps(func, ctx.target)
    put_in_place(changed, func)
    for text in done:
        ctx.remarks.add(k_split_remark(changed, text))


def split_steps(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, list[str]]:
    """The function with cut products, and what was done; itself where that is nothing.

    A strategy stands on the function, and on the one that is returned.
    """
    if not any(_is_long(dot) for dot in func.walk() if isinstance(dot, aa.DotOp)):
        return func, []
    from tileiras.planning.resources.cta import MOST_PIPELINE_BYTES
    from tileiras.planning.resources.stages import has_spare_stages, pipeline_smem
    from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise

    plan = strategy_of(func, target)
    if plan is not None and has_spare_stages(plan, target):
        return func, []
    room = (
        MOST_PIPELINE_BYTES
        if plan is None
        else min(MOST_PIPELINE_BYTES, pipeline_smem(plan, target))
    )
    changed = without_strategy(func)
    tried: list[str] = []
    if _may_be_specialised(func, target):
        tried = _split_steps(changed, lambda dots: _parts_for_stages(dots, room // STAGES))
        if tried and _is_better(would_specialise(changed, target), plan):
            return changed, tried
    if plan is not None:
        return func, []
    other = without_strategy(func)
    registers, live = _registers(other, target), live_at_products(other.body.block)
    copied = target.shared_memory_of_each(1) if target.has(Feature.CP_ASYNC) else None

    def parts_of(dots: list[aa.DotOp]) -> int:
        parts = _parts_for_registers(dots, live, registers)
        return parts if copied is None else max(parts, _parts_for_copies(dots, copied // STAGES))

    done = _split_steps(other, parts_of)
    if not done:
        return func, []
    if done == tried:  # the same program, whose strategy is known
        return changed, done
    would_specialise(other, target)
    return other, done


def _is_better(after: RolePlan | None, before: RolePlan | None) -> bool:
    """Whether the cut makes a kernel specialised, or leaves its CTA as large as it was."""
    if after is None or before is None:
        return after is not None
    return after.shape.warpgroups * after.shape.ctas >= before.shape.warpgroups * before.shape.ctas


def _split_steps(func: aa.FuncOp, parts_of: Callable[[list[aa.DotOp]], int]) -> list[str]:
    """Cuts the products of each block into so many parts; says what was done."""
    from tileiras.passes.nv_tileaa.collapse_loops import collapse
    from tileiras.passes.nv_tileaa.k_split import build_k_loop, find_k_split

    done: list[str] = []
    blocks: dict[Block | None, list[aa.DotOp]] = {}
    for op in func.walk():
        if isinstance(op, aa.DotOp) and _is_long(op):
            blocks.setdefault(op.parent_block(), []).append(op)
    for dots in blocks.values():
        parts = parts_of(dots)
        if parts == 1:
            continue
        together = find_k_split(dots, parts)
        for group in [dots] if together is not None else [[dot] for dot in dots]:
            found = find_k_split(group, parts)
            if found is not None:
                done += [_described(dot, parts) for dot in group]
                collapse(build_k_loop(found))
    return done


def _may_be_specialised(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether the target multiplies from shared memory, which TMA fills."""
    return target.has(Feature.WGMMA) and target.has(Feature.TMA)


def _parts_for_stages(dots: list[aa.DotOp], room: int) -> int:
    """The fewest parts whose operands fit the room and what a copy takes; else the most."""

    def fit(parts: int) -> bool:
        tiles = {root_load(v): _bytes(v.type) for dot in dots for v in (dot.lhs, dot.rhs)}
        taken = sum(tiles.values())
        depth = max(shape_of(dot.lhs)[-1] for dot in dots)
        return taken <= room * parts and depth <= MAX_BOX * parts

    return _fewest(dots, STAGE_BYTES, fit)


def _parts_for_registers(
    dots: list[aa.DotOp], live: dict[aa.ProductOp, Live], registers: int
) -> int:
    """The fewest parts that fit the registers of all threads beside the sums; else the most."""

    def fit(parts: int) -> bool:
        return all(sum(live[dot].values()) + _held_words(dot) // parts <= registers for dot in dots)

    return _fewest(dots, ROW_BYTES, fit)


def _parts_for_copies(dots: list[aa.DotOp], room: int) -> int:
    """The fewest parts whose operands fit the room where cp.async copies them; 1 if none do.

    (`operands/smem`) One if operands are no loaded tiles, or rounded: they have no stages.
    """
    operands = [(v, root_load(v)) for dot in dots for v in (dot.lhs, dot.rhs)]
    for value, load in operands:
        if not isinstance(load, aa.TiledLoadOp) or element_of(load.result) != element_of(value):
            return 1
    loads = {load: _bytes(value.type) for value, load in operands}

    def fit(parts: int) -> bool:
        return sum(loads.values()) <= room * parts

    parts = _fewest(dots, COPY_BYTES, fit)
    return parts if fit(parts) else 1


def _held_words(dot: aa.DotOp) -> int:
    """Words that threads hold of the operands: as loaded and as fragments, bytes once more between.

    The last for operands that are transposed in registers, two bytes of a word at a time.
    """
    words = tensor_words(dot.lhs.type) + tensor_words(dot.rhs.type)
    return words * (3 if _element_bytes(dot.rhs.type) == 1 else 2)


def _fewest(dots: list[aa.DotOp], least_bytes: int, fit: Callable[[int], bool]) -> int:
    """The fewest parts that fit, of at least so many bytes along K; else the most."""
    parts = 1
    while not fit(parts) and all(_can_be_cut(dot, 2 * parts, least_bytes) for dot in dots):
        parts *= 2
    return parts


def _registers(func: aa.FuncOp, target: GpuTarget) -> int:
    """Registers of all threads, where all do the same, for what is live with a product."""
    try:
        threads = WARP_THREADS * plan_cta(func, target).num_warps
    except CompileError:  # a tile too large for any number of warps: parts of it may not be
        threads = THREADS
    return MAX_WORDS * min(THREADS, threads)


def _is_long(dot: aa.DotOp) -> bool:
    """Whether a step of the product could be cut in two."""
    return _can_be_cut(dot, 2, ROW_BYTES)


def _can_be_cut(dot: aa.DotOp, parts: int, least_bytes: int) -> bool:
    """Whether parts of a step are long enough."""
    depth = shape_of(dot.lhs)[-1]
    element = _element_bytes(dot.lhs.type)
    return depth % parts == 0 and depth // parts * element >= least_bytes


def _bytes(type: Attribute) -> int:
    """Bytes of a tile in memory."""
    shape = type.get_shape() if isinstance(type, TensorType) else ()
    return prod(shape) * _element_bytes(type)


def _element_bytes(type: Attribute) -> int:
    return storage_bytes(type.element_type if isinstance(type, TensorType) else type)


def _described(dot: aa.DotOp, parts: int) -> str:
    """The step and its parts, for a remark."""
    rows, columns = shape_of(dot.result)[-2:]
    depth = shape_of(dot.lhs)[-1]
    return f"step {rows}x{columns}x{depth} of a product in {parts} parts of K {depth // parts}"


def k_split_remark(func: aa.FuncOp, text: str) -> Remark:
    """What became of the steps of a product."""
    return remark_about(func, SPLIT_K, "KSplit", text)
