"""The pass `tileas-slicing`: tiles that no register file holds are computed in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region

from tileiras.analysis.register_pressure import tensor_words
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import STRATEGY
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import put_in_place

MAX_WORDS = 32768
"""Policy: words of a tile that stay whole: half of the registers of an SM (65536 on every target).
"""
SCANNED = 2
"""Policy: times as large count tiles that are scanned: prefixes of parts lie beside. Whole rows of
4x8192 f16, 8192 of them, us on one H200, whole and row by row: 73.6 and 70.4; f32 133.9, 134.4.
"""
PART_WORDS = 8192
"""Policy: words of a part: 64 registers for each thread of 4 warps, enough loads in flight."""


@dataclass(frozen=True)
class SlicingPass(IrPass):
    """Cuts tiles that no register file holds into parts, which loops compute one by one.

    Where it depends on the strategy what is cut, the strategy is chosen, and stands on the kernel.

    Before   for %k iter(%c : tensor<256x256xf32>) { dot };  tiled_store
    After    for %i in [0, 2) { for %k iter(%c : tensor<128x256xf32>) { dot };  tiled_store }
    Before   %a = tiled_load : tensor<1048576xf32>;  %b = addf %a, %a;  tiled_store %b
    After    for %i in [0, 128) { the same on tensor<8192xf32>, at the index * 128 + %i }
    Before   dot : 64x512, which wgmma does not take
    After    dot : 64x256;  dot : 64x256, if it takes these
    Requires nv_tileaa; strategies that stand in a text are taken away
    Leaves   tiles that fit into registers, sums that fit into tensor memory; values that come from
             a scan, a gather along the cut or an atomic; products with a store in their loop; loads
             that a store must not overtake
    """

    name = "tileas-slicing"
    title: ClassVar[str] = "Split tiles larger than the register file"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Splits in all functions."""
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp):
                continue
            _forget_strategy(func)  # chosen by an earlier run, for any target
            sliced = _split_loops(func, ctx)
            if any(isinstance(inner, aa.ProductOp) for inner in sliced.walk()):
                sliced = _split_mn(sliced, ctx)
            if _has_large_tensor(sliced) and _split_tensors(sliced):
                _forget_strategy(sliced)


def _forget_strategy(func: aa.FuncOp) -> None:
    if STRATEGY in func.attributes:
        from tileiras.planning.strategy import drop_strategy

        drop_strategy(func)


def _split_tensors(func: aa.FuncOp) -> bool:
    """Computes what is too large and no product in parts; whether there was any."""
    from tileiras.passes.nv_tileaa.part_loops import Limits, split_block

    limits = Limits(MAX_WORDS, PART_WORDS, SCANNED)
    has_split = False
    for region in _regions(func):
        has_split |= split_block(region.block, limits)
    return has_split


def _split_loops(func: aa.FuncOp, ctx: CompileContext) -> aa.FuncOp:
    """Splits products and loops of a kernel, or of a copy that has its strategy on it."""
    done: list[str] = []
    if any(isinstance(op, aa.ProductOp) for op in func.walk()):
        func, done = _split_products(func, ctx)
    if _carries_much(func):
        from tileiras.passes.nv_tileaa.split_loop_carried import split_loop_carried

        done += split_loop_carried(func)
    if done:
        from tileiras.passes.nv_tileaa.split_products import tiling_remark

        _forget_strategy(func)
        for text in done:
            ctx.remarks.add(tiling_remark(func, text))
    return func


def _split_products(func: aa.FuncOp, ctx: CompileContext) -> tuple[aa.FuncOp, list[str]]:
    """The kernel, or a copy with its strategy, with products that are too large in parts."""
    from tileiras.passes.nv_tileaa.split_products import (
        asked_ctas,
        has_large_product,
        split_products,
    )

    if not has_large_product(func):
        return func, []
    func, fits = _in_tensor_memory(func, ctx)
    if fits:
        return func, []
    return func, split_products(func, asked_ctas(func, ctx.target), target=ctx.target)


def _in_tensor_memory(func: aa.FuncOp, ctx: CompileContext) -> tuple[aa.FuncOp, bool]:
    """Whether tensor memory holds what registers do not, so that large products stay whole.

    The kernel, in whose place there is one with its strategy if that was asked for.
    """
    from tileiras.passes.nv_tileaa.split_products import asked_ctas, has_too_large

    target = ctx.target
    if target is None or ctx.options.opt_level == 0 or not target.has(Feature.TCGEN05):
        return func, False
    if not has_too_large(func) or asked_ctas(func, target) > 1:
        return func, False
    from tileiras.passes.nv_tileaa.split_mn import with_strategy

    asked, fits = with_strategy(func, target)
    put_in_place(asked, func)
    return asked, fits


def _split_mn(func: aa.FuncOp, ctx: CompileContext) -> aa.FuncOp:
    """Puts the kernel with products of more rows or columns than wgmma takes cut in its place."""
    from tileiras.passes.nv_tileaa.split_products import has_large_product, tiling_remark

    if ctx.target is None or ctx.options.opt_level == 0 or not has_large_product(func):
        return func
    from tileiras.passes.nv_tileaa.split_mn import split_mn
    from tileiras.passes.nv_tileaa.split_steps import k_split_remark

    sliced = split_mn(func, ctx.target)
    if sliced is None:
        return func
    put_in_place(sliced.func, func)
    for text in sliced.products:
        ctx.remarks.add(tiling_remark(sliced.func, text))
    for text in sliced.steps:
        ctx.remarks.add(k_split_remark(sliced.func, text))
    return sliced.func


def _regions(func: Operation) -> list[Region]:
    """Regions of code, innermost last; bodies of reductions and scans are none."""
    found = []
    for op in func.walk():
        if not isinstance(op, aa.ReduceOp | aa.ScanOp):
            found += [region for region in op.regions if region.first_block is not None]
    return [region for region in found if not _is_in_combination(region)]


def _is_in_combination(region: Region) -> bool:
    parent = region.parent_op()
    while parent is not None:
        if isinstance(parent, aa.ReduceOp | aa.ScanOp):
            return True
        parent = parent.parent_op()
    return False


def _has_large_tensor(func: Operation) -> bool:
    """Whether any tensor is worth splitting."""
    return any(
        tensor_words(r.type) * (SCANNED if isinstance(op, aa.ScanOp) else 1) > MAX_WORDS
        for op in func.walk()
        for r in op.results
    )


def _carries_much(func: Operation) -> bool:
    """Whether any loop may carry too much."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp | aa.LoopOp)]
    return any(sum(tensor_words(r.type) for r in op.results) > MAX_WORDS for op in loops)
