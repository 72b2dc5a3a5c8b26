"""Every pass by name, as strings, so that nothing is imported before it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tileiras.errors import InternalError, UsageError
from tileiras.ir_pass import IrPass
from tileiras.suggestions import did_you_mean

PASSES: dict[str, str] = {
    "check-target": "tileiras.passes.cuda_tile.check_target:CheckTargetPass",
    "canonicalize": "tileiras.passes.canonicalization:CanonicalizePass",
    "unroll-loops": "tileiras.passes.cuda_tile.unroll_loops:UnrollLoopsPass",
    "hoist-views": "tileiras.passes.cuda_tile.hoist_views:HoistViewsPass",
    "cse": "tileiras.passes.cuda_tile.cse:CsePass",
    "convert-cudatile-to-tileaa": (
        "tileiras.passes.cuda_tile_to_nv_tileaa:ConvertCudaTileToTileAAPass"
    ),
    "tileaa-legalize-scaled-dot": (
        "tileiras.passes.nv_tileaa.legalize_scaled_dot:LegalizeScaledDotPass"
    ),
    "tileaa-split-large-tiles": "tileiras.passes.nv_tileaa.split_large_tiles:SplitLargeTilesPass",
    "tileaa-split-depth": "tileiras.passes.nv_tileaa.split_depth:SplitDepthPass",
    "tileaa-slice-epilogues": "tileiras.passes.nv_tileaa.slice_epilogues:SliceEpiloguesPass",
    "tileaa-hoist-loads": "tileiras.passes.nv_tileaa.hoist_loads:HoistLoadsPass",
    "tileaa-simplify-addresses": (
        "tileiras.passes.nv_tileaa.simplify_addresses:SimplifyAddressesPass"
    ),
    "coarsen-locks": "tileiras.passes.nv_tileaa.coarsen_locks:CoarsenLocksPass",
    "join-tiles": "tileiras.passes.nv_tileaa.join_tiles:JoinTilesPass",
    "pair-tile-blocks": "tileiras.passes.nv_tileaa.pair_tile_blocks:PairTileBlocksPass",
    "tileas-generate-schedule": (
        "tileiras.passes.nv_tileaa.generate_schedule:GenerateSchedulePass"
    ),
    "tileas-expand-schedule": "tileiras.passes.nv_tileaa.expand_schedule:ExpandSchedulePass",
    "tileaa-prefetch-scales": "tileiras.passes.nv_tileaa.prefetch_scales:PrefetchScalesPass",
    "tileas-plan-cta": "tileiras.passes.nv_tileaa.plan_cta:PlanCtaPass",
    "insert-barriers": "tileiras.passes.nv_tileaa.insert_barriers:InsertBarriersPass",
    "convert-tileaa-to-tileas": "tileiras.passes.nv_tileaa_to_nv_tileas:ConvertTileAAToTileASPass",
    "tileas-fuse-products": "tileiras.passes.nv_tileas.fuse_products:FuseProductsPass",
    "tileas-optimize-dot-accumulation": (
        "tileiras.passes.nv_tileas.optimize_dot_accumulation:OptimizeDotAccumulationPass"
    ),
    "tileas-group-products": "tileiras.passes.nv_tileas.group_products:GroupProductsPass",
    "tileas-remove-barriers": "tileiras.passes.nv_tileas.remove_barriers:RemoveBarriersPass",
    "tileas-optimize-alloc-tensor": (
        "tileiras.passes.nv_tileas.optimize_alloc_tensor:OptimizeAllocTensorPass"
    ),
    "convert-nv-tileas-to-llvm": "tileiras.codegen.lowering:ConvertNvTileASToLLVMPass",
}
"""Pass name -> "module:Class"."""

DIALECTS: dict[str, str] = {
    "cuda_tile": "tileiras.dialects.cuda_tile:CudaTile",
    "nv_tileaa": "tileiras.dialects.nv_tileaa:NvTileAA",
    "nv_tileas": "tileiras.dialects.nv_tileas:NvTileAS",
    "llvm": "tileiras.dialects.llvm:LLVM",
    "nvvm": "tileiras.dialects.nvvm:NVVM",
}
"""Dialect name -> "module:Dialect object"; read only where IR text is parsed."""


def resolve(reference: str) -> Any:
    """The object that a "module:name" string stands for."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def check_pass_name(name: str) -> None:
    """Raises UsageError for a name that is in no row of the table."""
    if name not in PASSES:
        known = ", ".join(sorted(PASSES))
        label = did_you_mean(name, sorted(PASSES))
        raise UsageError(f"unknown pass '{name}', expected one of {known}", label=label)


def load_pass(name: str) -> type[IrPass]:
    """The class of the pass with this name.

    Raises UsageError for a name that is in no row of the table.
    """
    check_pass_name(name)
    pass_class = resolve(PASSES[name])
    if pass_class.name != name:
        raise InternalError(f"pass '{name}' is registered under the name of '{pass_class.name}'")
    return pass_class
