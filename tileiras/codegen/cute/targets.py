"""Which instruction an atom is, and whether the target has it: the rows of `codegen/atoms`."""

from __future__ import annotations

from typing import Any

from tileiras.codegen.atoms.mma import MMA_ATOMS, mma_atoms_of
from tileiras.codegen.atoms.mma import MmaAtom as WarpAtom
from tileiras.codegen.atoms.tcgen05 import find_tcgen05_kind
from tileiras.codegen.atoms.tcgen05_scaled import find_scaled_kind
from tileiras.codegen.atoms.wgmma import ROWS, find_wgmma_atom
from tileiras.codegen.target import TARGET_NAMES, Feature, GpuTarget, get_target
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.values import CopyAtom, MmaAtom
from tileiras.errors import TargetError

PTX_ELEMENTS = {
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
    "f6E2M3FN": "e2m3",
    "f6E3M2FN": "e3m2",
    "f4E2M1FNx2": "e2m1",
    "f6E2M3FN_unpacksmem": "e2m3.p32",
    "f6E3M2FN_unpacksmem": "e3m2.p32",
    "f4E2M1FN_unpacksmem": "e2m1.p64",
    "i8": "s8",
    "i32": "s32",
}
"""What PTX calls elements of products by another name; with the padding of those of less than 8
bits, which the rows of `codegen/atoms` tell apart."""

PTX_SCALES = {"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}
"""What PTX calls scales; it takes no notice of their signs."""

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
    """TargetError, with the targets that have it, unless the target has a feature.

    Of a feature that the GPU has the error says what has taken it away.
    """
    if target.has(feature):
        return
    if get_target(target.name).has(feature):
        raise TargetError(_switched_off(target, feature, what))
    names = [name for name in TARGET_NAMES if get_target(name).has(feature)]
    verb = "has" if len(names) == 1 else "have"
    raise TargetError(f"{target.name} has no {what}, {', '.join(names)} {verb} it")


def _switched_off(target: GpuTarget, feature: Feature, what: str) -> str:
    """Why a target lacks what its GPU has, and what to do."""
    if feature is not Feature.CLUSTER_LAUNCH:
        return f"{what} of {target.name} is among the disabled features, expected it enabled"
    return (
        f"a kernel with a cluster is not compiled with --launch=explicit or where "
        f"'{feature.value}' is disabled: leave that out (such a kernel is launched with its number "
        "of threads in any case, and with the cluster that it names)"
    )


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
    match atom.family:
        case "universal":
            return None
        case _ if atom.scale:
            row = _scaled_row(atom, a, b, c)
        case "warp":
            rows = mma_atoms_of(a, b, c)
            shapes = {(row.m, row.n, row.k): row for row in rows if not row.parts}
            row = shapes.get(atom.shape)
        case "warpgroup":
            row = find_wgmma_atom(c, a, b, n)
            if row is not None and (m, k) != (ROWS, row.family.k):
                row = None
        case "tcgen05":
            row = find_tcgen05_kind(c, a, b)
            if row is not None and (k != row.k or not row.holds(m, n, atom.ctas)):
                row = None
        case _:
            row = None
    if row is None:
        raise AlgebraError(f"there is no instruction for the atom {atom}")
    name = f"tcgen05.mma {row.name} of {m}x{n}x{k}" if atom.family == "tcgen05" else row.name
    need(target, row.feature, name)
    return row


def packing(element: str) -> int:
    """Numbers that an element is: PTX counts along K those of 4 bits, of which two share a byte."""
    return 2 if element.endswith("x2") else 1


def _scaled_row(atom: MmaAtom, a: str, b: str, c: str) -> Any:
    """The row of an atom with scales, None if there is none."""
    m, n, k = atom.shape
    scale, packed = PTX_SCALES.get(atom.scale), packing(atom.elements[0])
    if atom.family == "tcgen05" and c == "f32" and packing(atom.elements[1]) == packed:
        row = find_scaled_kind(a, b, scale, atom.block * packed)
        return (
            row if row is not None and row.k == k * packed and row.holds(m, n, atom.ctas) else None
        )
    wanted = (a, b, c, scale, (m, n, k * packed), k // atom.block, packed == 2)
    return next((row for row in MMA_ATOMS.values() if _described(row) == wanted), None)


def _described(row: WarpAtom) -> tuple[Any, ...]:
    """What tells a row with scales from others."""
    if row.scaling is None:
        return ()
    shape, scaling = (row.m, row.n, row.k), row.scaling
    types = (row.a_type, row.b_type, row.accumulator, scaling.type)
    return (*types, shape, scaling.vector, scaling.packed)
