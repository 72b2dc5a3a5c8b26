"""Operations that read and write tensors. Each checks; what they do is the interpreter's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.dialects.cute.algebra.coordinates import has_free_mode
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.tiled import OPERANDS, SCALES, Scales, atom_layout
from tileiras.dialects.cute.values import (
    CODES,
    MATRIX_BITS,
    MATRIX_ROW,
    CopyAtom,
    MmaAtom,
    Tensor,
    TiledCopy,
    TiledMma,
    element_bits,
    index_of,
    plain_layout,
)
from tileiras.dialects.layout.mma import Operand


def check_element(tensor: Tensor, coordinate: Any) -> None:
    """AlgebraError unless the coordinate names one element."""
    if has_free_mode(coordinate):
        raise AlgebraError("a coordinate of one element has no '_'")
    index_of(tensor, coordinate)


def check_same_size(one: Tensor, other: Tensor) -> None:
    """AlgebraError unless both have as many elements and the same ones."""
    sizes = [plain_layout(tensor).size for tensor in (one, other)]
    if all(isinstance(size, int) for size in sizes) and sizes[0] != sizes[1]:
        raise AlgebraError(f"{sizes[0]} elements of {one.layout} face {sizes[1]} of {other.layout}")
    if one.engine.element != other.engine.element:
        raise AlgebraError(f"elements {one.engine.element} face {other.engine.element}")


def check_writable(tensor: Tensor) -> None:
    """AlgebraError for a tensor several of whose elements are one in memory."""
    if any(stride == 0 and extent != 1 for extent, stride in plain_layout(tensor).pairs):
        raise AlgebraError(f"{tensor.layout} has a stride of 0, elements would be written twice")


def _copy(atom: CopyAtom | TiledCopy, source: Tensor, target: Tensor) -> None:
    """Elements that face each other, and vectors that both sides hold whole."""
    one = atom if isinstance(atom, CopyAtom) else atom.atom
    if one.is_matrix:
        _check_matrices(one, source, target)
        return
    check_same_size(source, target)
    check_writable(target)
    if one.kind == "cp_async" and (source.engine.space, target.engine.space) != ("gmem", "smem"):
        raise AlgebraError(
            f"cp_async copies from gmem to smem, found {source.engine.space} to "
            f"{target.engine.space}"
        )
    bits = one.bits
    width = element_bits(source.engine.element)
    if bits % width:
        raise AlgebraError(f"an access of {bits} bits holds no elements of {width} bits")
    if bits == width:
        return
    for name, tensor in (("source", source), ("target", target)):
        if tensor.engine.space == "rmem":
            continue
        if tensor.engine.alignment * 8 < bits:
            raise AlgebraError(
                f"the {name} is aligned to {tensor.engine.alignment} bytes, an access of {bits} "
                f"bits needs {bits // 8}"
            )


def _check_matrices(atom: CopyAtom, source: Tensor, target: Tensor) -> None:
    """Rows of 8 elements in shared memory on one side, registers on the other."""
    rows, held = (source, target) if atom.kind.startswith("ld") else (target, source)
    if (rows.engine.space, held.engine.space) != ("smem", "rmem"):
        raise AlgebraError(f"{atom.kind} moves between smem and rmem")
    elements = {tensor.engine.element for tensor in (rows, held)}
    if len(elements) != 1 or element_bits(rows.engine.element) != MATRIX_BITS:
        raise AlgebraError(f"{atom.kind} moves elements of 16 bits, found {sorted(elements)}")
    sizes = [plain_layout(tensor).static_size for tensor in (rows, held)]
    if sizes[0] * atom.held != sizes[1] * MATRIX_ROW:
        raise AlgebraError(
            f"{sizes[0]} elements of rows face {sizes[1]} in registers, {atom.kind} moves "
            f"{MATRIX_ROW} and {atom.held}"
        )
    if rows.engine.alignment * 8 < MATRIX_ROW * MATRIX_BITS:
        raise AlgebraError(f"rows are aligned to {rows.engine.alignment} bytes, expected 16")


def _copy_if(atom: CopyAtom, predicate: Tensor, source: Tensor, target: Tensor) -> None:
    """As `copy`; the predicate has a truth value for each element or each vector."""
    _copy(atom, source, target)
    if predicate.engine.element != "i1":
        raise AlgebraError(f"a predicate has elements i1, found {predicate.engine.element}")
    if plain_layout(predicate).size != plain_layout(source).size:
        raise AlgebraError(f"{predicate.layout} is no predicate for {source.layout}")


def _gemm(mma: TiledMma | MmaAtom, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """Fragments (V, M, K), (V, N, K) and (V, M, N)."""
    atom = mma.atom if isinstance(mma, TiledMma) else mma
    if atom.scale:
        raise AlgebraError("products with scales are 'cute_nvgpu.gemm_block_scaled'")
    check_fragments(atom, {"A": a, "B": b, "C": c})
    check_same_size(c, d)
    check_writable(d)


def check_fragments(atom: MmaAtom, parts: Mapping[Operand | Scales, Tensor]) -> None:
    """AlgebraError unless they are (V, rest, rest) in registers, of as many atoms each."""
    extents: dict[int, Any] = {}
    for which, tensor in parts.items():
        dims = (OPERANDS | SCALES)[which]
        layout = plain_layout(tensor)
        values = atom_layout(atom, which)[1].static_size
        if tensor.engine.space != "rmem":
            raise AlgebraError(f"operand {which} is in registers, found {tensor.engine.space}")
        if layout.rank != 3 or layout[0].static_size != values:
            raise AlgebraError(
                f"operand {which} of {atom} is ({values} values, rest, rest), found {layout}"
            )
        wanted = atom.element_of(which)
        if tensor.engine.element != wanted:
            raise AlgebraError(
                f"operand {which} has elements {wanted}, found {tensor.engine.element}"
            )
        for dim, mode in zip(dims, layout.modes[1:], strict=True):
            if extents.setdefault(dim, mode.size) != mode.size:
                raise AlgebraError(
                    f"operand {which} has {mode.size} atoms along {'MNK'[dim]}, others have "
                    f"{extents[dim]}"
                )


def _check_numbers(tensor: Tensor) -> None:
    """AlgebraError for elements that are moved and multiplied by atoms only."""
    if tensor.engine.element in CODES:
        raise AlgebraError(f"elements {tensor.engine.element} are not computed with")


def _axpby(alpha: Any, x: Tensor, beta: Any, y: Tensor) -> None:
    """Two tensors of one size."""
    _check_numbers(x)
    check_same_size(x, y)
    check_writable(y)


def _elementwise(a: Tensor, b: Tensor, d: Tensor) -> None:
    """Three tensors of one size."""
    _check_numbers(a)
    check_same_size(a, b)
    check_same_size(a, d)
    check_writable(d)


def _cast(source: Tensor, target: Tensor) -> None:
    """Two tensors of one size with any elements."""
    sizes = [plain_layout(tensor).size for tensor in (source, target)]
    if sizes[0] != sizes[1]:
        raise AlgebraError(f"{source.layout} and {target.layout} are not of one size")
    check_writable(target)


def _fill(tensor: Tensor, value: Any) -> None:
    """Any tensor that may be written."""
    check_writable(tensor)


def _store(value: Any, tensor: Tensor, coordinate: Any) -> None:
    """One element."""
    check_element(tensor, coordinate)
    check_writable(tensor)


def _effect(name: str, signature: str, check: Any, says: str) -> type[CuteOp]:
    return operation(name, signature, check, says, pure=False)


OPERATIONS: tuple[type[CuteOp], ...] = (
    _effect(
        "copy",
        "copy_atom|tiled_copy, tensor, tensor",
        _copy,
        "Copies element by element: `D(i) := S(i)`.",
    ),
    _effect(
        "copy_if",
        "copy_atom, tensor, tensor, tensor",
        _copy_if,
        "Copies where a predicate is true: `if P(i): D(i) := S(i)`.",
    ),
    _effect("fill", "tensor, scalar|bool", _fill, "Fills a tensor: `T(i) := x`."),
    _effect("clear", "tensor", check_writable, "Clears a tensor: `T(i) := 0`."),
    _effect(
        "axpby",
        "scalar, tensor, scalar, tensor",
        _axpby,
        "A scaled sum: `Y(i) := alpha * X(i) + beta * Y(i)`.",
    ),
    _effect(
        "add", "tensor, tensor, tensor", _elementwise, "A sum of tensors: `D(i) := A(i) + B(i)`."
    ),
    _effect(
        "mul",
        "tensor, tensor, tensor",
        _elementwise,
        "A product by element: `D(i) := A(i) * B(i)`.",
    ),
    _effect("cast", "tensor, tensor", _cast, "Other elements: `D(i) := convert(S(i))`."),
    _effect(
        "gemm",
        "tiled_mma|mma_atom, tensor, tensor, tensor, tensor",
        _gemm,
        "A product of fragments: `D(m, n) := sum over k A(m, k) * B(n, k) + C(m, n)`.",
    ),
    _effect("store", "scalar|bool, tensor, coord", _store, "Writes one element: `T(c) := x`."),
)
"""The operations of this chapter."""
