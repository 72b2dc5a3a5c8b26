"""Every pass by name, as strings, so that nothing is imported before it runs."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from tileiras.errors import InternalError, UsageError
from tileiras.ir_pass import IrPass
from tileiras.pipeline import EVERY_STEP, Step
from tileiras.suggestions import did_you_mean

_PLACES: dict[str, str] = {
    "canonicalize": "tileiras.passes.canonicalization:CanonicalizePass",
    "convert-cudatile-to-tileaa": (
        "tileiras.passes.cuda_tile_to_nv_tileaa:ConvertCudaTileToTileAAPass"
    ),
    "convert-tileaa-to-tileas": "tileiras.passes.nv_tileaa_to_nv_tileas:ConvertTileAAToTileASPass",
    "convert-nv-tileas-to-llvm": "tileiras.codegen.lowering:ConvertNvTileASToLLVMPass",
    "convert-cute-to-llvm": "tileiras.codegen.cute.conversion:ConvertCuteToLLVMPass",
}
"""Passes that are packages. All others stand where their names say (`place_of_pass`)."""


def place_of_pass(step: Step) -> str:
    """The "module:Class" of a pass.

    `tileas-group-products`, whose stage is nv_tileas, is the class `GroupProductsPass` in
    `tileiras/passes/nv_tileas/group_products.py`.
    """
    if step.pass_name in _PLACES:
        return _PLACES[step.pass_name]
    words = re.sub("^(tileaa|tileas|cute)-", "", step.pass_name).split("-")
    name = "".join(word.capitalize() for word in words)
    return f"tileiras.passes.{step.stage}.{'_'.join(words).lower()}:{name}Pass"


PASSES: dict[str, str] = {step.pass_name: place_of_pass(step) for step in EVERY_STEP}
"""Pass name -> "module:Class", in the order of the pipelines."""

DIALECTS: dict[str, str] = {
    "cuda_tile": "tileiras.dialects.cuda_tile:CudaTile",
    "nv_tileaa": "tileiras.dialects.nv_tileaa:NvTileAA",
    "nv_tileas": "tileiras.dialects.nv_tileas:NvTileAS",
    "llvm": "tileiras.dialects.llvm:LLVM",
    "nvvm": "tileiras.dialects.nvvm:NVVM",
    "cute": "tileiras.dialects.cute.dialect:Cute",
    "cute_nvgpu": "tileiras.dialects.cute_nvgpu.dialect:CuteNvgpu",
    "cutlass": "tileiras.dialects.cutlass.dialect:Cutlass",
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
