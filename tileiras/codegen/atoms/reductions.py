"""Reductions into global memory that act on more than one element: `red` of vectors, TMA's.

Each element is combined atomically by itself, in relaxed order; of TMA's at the scope of the GPU
(PTX ISA, "red", "cp.reduce.async.bulk.tensor").
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute

from tileiras.codegen.atoms.element_names import tensor_map_element
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects.cuda_tile.attributes import AtomicRMWMode

_VECTORS: dict[type[Attribute], int] = {Float32Type: 4, Float16Type: 8, BFloat16Type: 8}
"""16 bytes of each type: `.v4.f32`, `.v4.f16x2`, `.v4.bf16x2` (PTX ISA, "red")."""

_TMA: dict[str, dict[AtomicRMWMode, str]] = {
    "s32": {
        AtomicRMWMode.AND: "and",
        AtomicRMWMode.OR: "or",
        AtomicRMWMode.XOR: "xor",
        AtomicRMWMode.ADD: "add",
        AtomicRMWMode.MIN: "min",
        AtomicRMWMode.MAX: "max",
    },
    "f32": {AtomicRMWMode.ADDF: "add"},
    "f16": {AtomicRMWMode.ADDF: "add"},
    "bf16": {AtomicRMWMode.ADDF: "add"},
}
"""Operations by element type of the map (PTX ISA, "cp.reduce.async.bulk.tensor", its table)."""


def red_vector(mode: AtomicRMWMode, element: Attribute, target: GpuTarget) -> int:
    """The most elements that one `red` combines: neighbours, aligned to their size together."""
    if mode is not AtomicRMWMode.ADDF or not target.has(Feature.VECTOR_ATOMIC):
        return 1
    return _VECTORS.get(type(element), 1)


def tma_reduction(mode: AtomicRMWMode, element: Attribute) -> str | None:
    """What TMA calls the reduction; None if it has none for these elements."""
    return _TMA.get(tensor_map_element(element) or "", {}).get(mode)
