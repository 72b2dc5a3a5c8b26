"""Which instruction an atom is, and whether the target has it: the rows of `codegen/atoms`."""

from __future__ import annotations

from typing import Any

from tileiras.codegen.atoms.mma import mma_atoms_of
from tileiras.codegen.atoms.tcgen05 import find_tcgen05_kind
from tileiras.codegen.atoms.wgmma import ROWS, find_wgmma_atom
from tileiras.codegen.target import TARGET_NAMES, Feature, GpuTarget, get_target
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.values import CopyAtom, MmaAtom
from tileiras.errors import TargetError

PTX_ELEMENTS = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "i8": "s8", "i32": "s32"}
"""What PTX calls elements of products by another name."""

COPY_FEATURES: dict[str, Feature | None] = {
    "universal": None,
    "cp_async": Feature.CP_ASYNC,
    "ldmatrix": Feature.LDMATRIX,
    "ldmatrix_trans": Feature.LDMATRIX,
    "stmatrix": Feature.STMATRIX,
    "stmatrix_trans": Feature.STMATRIX,
}
"""What a target needs for a copy atom."""


def need(target: GpuTarget, feature: Feature, what: str) -> None:
    """TargetError, with the targets that have it, unless the target has a feature."""
    if not target.has(feature):
        names = [name for name in TARGET_NAMES if get_target(name).has(feature)]
        verb = "has" if len(names) == 1 else "have"
        raise TargetError(f"{target.name} has no {what}, {', '.join(names)} {verb} it")


def check_feature(atom: CopyAtom, target: GpuTarget) -> None:
    """AlgebraError for an atom that is no instruction, TargetError if the target lacks it."""
    if atom.kind not in COPY_FEATURES:
        raise AlgebraError(f"there is no instruction for the atom {atom}")
    feature = COPY_FEATURES[atom.kind]
    if feature is not None:
        need(target, feature, atom.kind)


def row_of(atom: MmaAtom, target: GpuTarget) -> Any:
    """The row of an atom; AlgebraError if there is none, TargetError if the target lacks it."""
    a, b, c = (PTX_ELEMENTS.get(element, element) for element in atom.elements)
    m, n, k = atom.shape
    row: Any = None
    match atom.kind:
        case "universal":
            return None
        case "warp":
            rows = mma_atoms_of(a, b, c)
            row = next((row for row in rows if (row.m, row.n, row.k) == atom.shape), None)
        case "warpgroup":
            row = find_wgmma_atom(c, a, b, n)
            if row is not None and (m, k) != (ROWS, row.family.k):
                row = None
        case "tcgen05":
            row = find_tcgen05_kind(c, a, b)
            if row is not None and (k != row.k or not row.holds(m, n)):
                row = None
        case _:
            row = None
    if row is None:
        raise AlgebraError(f"there is no instruction for the atom {atom}")
    name = f"tcgen05.mma {row.name} of {m}x{n}x{k}" if atom.kind == "tcgen05" else row.name
    need(target, row.feature, name)
    return row
