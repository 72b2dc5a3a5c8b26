"""What values of the dialect stand for, without IR: pointers, tensors, atoms and tiled operations.

Types hold these with what is known when compiling (`?` for the rest); the interpreter computes with
the same classes, where every leaf is a number and pointers point into a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from tileiras.dialects.cute.algebra.coordinates import Coordinate, crd2idx
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Basis, Dynamic, Leaf, divisor_of
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout

ELEMENT_BITS: dict[str, int] = {
    "i1": 8,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E8M0FNU": 8,
    "f6E2M3FN": 8,
    "f6E3M2FN": 8,
    "f4E2M1FNx2": 8,
    "f6E2M3FN_unpacksmem": 8,
    "f6E3M2FN_unpacksmem": 8,
    "f4E2M1FN_unpacksmem": 8,
}
"""The bits that an element takes in memory; of f4E2M1FN two, the first in the lower bits. A number
of 6 bits has a byte for itself, whose upper bits are 0."""

CONTAINERS: dict[str, int] = {
    "f6E2M3FN_unpacksmem": 6,
    "f6E3M2FN_unpacksmem": 6,
    "f4E2M1FN_unpacksmem": 4,
}
"""Numbers of so many bits of which 16 share 16 bytes of shared memory, whose rest is padding: as
tcgen05 reads them beside those of 8 bits, and TMA writes them (`float_e2m3_unpacksmem_t` and others
of CUTLASS)."""
CONTAINER = 16

CODES = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f6E2M3FN", "f6E3M2FN", "f4E2M1FNx2", *CONTAINERS)
"""Elements that are moved and multiplied by atoms, but not computed with."""

SPACES = ("gmem", "smem", "dsmem", "rmem", "generic")
"""Memory spaces of pointers, by CuTe's names; `dsmem` is the shared memory of another CTA."""


PAIR_SUFFIX = "_2sm"
"""Of the kind of an MMA atom that two CTAs of a cluster execute (CUTLASS's "2SM")."""

MATRIX_KINDS = ("ldmatrix", "ldmatrix_trans", "stmatrix", "stmatrix_trans")
"""Copy atoms of whole warps (PTX ISA, "ldmatrix", "stmatrix")."""
MATRIX_BITS = 16
"""Bits of an element of the matrices that they move."""
MATRIX_ROW = 8
"""Elements of a row."""


def element_bits(element: str) -> int:
    """The bits of an element; AlgebraError for a type that is none."""
    if element not in ELEMENT_BITS:
        raise AlgebraError(f"'{element}' is no element, expected {', '.join(ELEMENT_BITS)}")
    return ELEMENT_BITS[element]


@dataclass(frozen=True)
class RunTime(Dynamic):
    """A value of a program that is being compiled.

    `choose` gives the entry of a table at this index: what depends on the thread is such a table.
    """

    choose: Callable[[Sequence[Leaf]], Leaf] = field(compare=False)


@dataclass(frozen=True)
class PointerInfo:
    """What is known of a pointer: its elements, its memory space, its alignment in bytes."""

    element: str
    space: str
    alignment: int

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise AlgebraError(f"'{self.space}' is no memory space, expected {', '.join(SPACES)}")
        size = element_bits(self.element) // 8
        if self.alignment < size or self.alignment & (self.alignment - 1):
            raise AlgebraError(
                f"an alignment of {self.element} is a power of two from {size} on, found "
                f"{self.alignment}"
            )

    def advanced(self, offset: Leaf) -> PointerInfo:
        """The pointer so many elements further: aligned as far as the offset is divisible."""
        size = element_bits(self.element) // 8
        return replace(self, alignment=gcd(self.alignment, divisor_of(offset) * size))

    def __str__(self) -> str:
        return f"{self.element}, {self.space}, align<{self.alignment}>"


class RunTimeValue:
    """A value of which its type knows a part only: there is always more of it at run time."""


@dataclass(frozen=True)
class Tensor:
    """A pointer and a layout: the element at c is `pointer[layout(c)]`."""

    engine: Any
    layout: AnyLayout

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout."""
        return self.layout.shape

    def __str__(self) -> str:
        return f"{self.engine}, {self.layout}"


@dataclass(frozen=True)
class CopyAtom:
    """What one instruction copies: its kind, and the bits that each thread moves."""

    kind: str
    bits: int

    @property
    def is_matrix(self) -> bool:
        """Whether a whole warp moves 8x8 matrices: one side is rows that threads address."""
        return self.kind in MATRIX_KINDS

    @property
    def held(self) -> int:
        """Values that a thread holds of what such an atom moves."""
        return self.bits // MATRIX_BITS

    def __str__(self) -> str:
        return f"{self.kind}, {self.bits}"


@dataclass(frozen=True)
class MmaAtom:
    """What one instruction multiplies: its kind, (M, N, K), and the elements of A, B and C.

    With `scale` each `block` elements of A and B along K share one factor of that type.
    """

    kind: str
    shape: tuple[int, int, int]
    elements: tuple[str, str, str]
    scale: str = ""
    block: int = 0
    accumulate: Any = field(default=True, compare=False)
    """Whether a product is added to what the accumulator holds: `cute_nvgpu.atom_set_value`."""

    def __post_init__(self) -> None:
        if self.ctas == 2 and self.family != "tcgen05":
            raise AlgebraError(f"two CTAs multiply by tcgen05, found {self.kind}")
        if not self.scale:
            return
        if element_bits(self.scale) != 8 or self.scale not in CODES:
            raise AlgebraError(f"scales are f8E8M0FNU or f8E4M3FN, found {self.scale}")
        if self.block < 1 or self.shape[2] % self.block:
            raise AlgebraError(f"{self.block} elements that share a scale do not divide K")

    @property
    def family(self) -> str:
        """The kind without the number of its CTAs: `tcgen05_2sm` is of `tcgen05`."""
        return self.kind.removesuffix(PAIR_SUFFIX)

    @property
    def ctas(self) -> int:
        """The CTAs of a cluster that share in an instruction: 2 of `tcgen05_2sm`."""
        return 2 if self.kind.endswith(PAIR_SUFFIX) else 1

    def element_of(self, which: str) -> str:
        """The type of the elements of an operand: A, B, C, or the scales SFA and SFB."""
        return self.scale if which in ("SFA", "SFB") else self.elements["ABC".index(which)]

    def __str__(self) -> str:
        scaled = f", {self.scale}, {self.block}" if self.scale else ""
        return f"{self.kind}, {text_of(self.shape)}, {', '.join(self.elements)}{scaled}"


@dataclass(frozen=True)
class TiledCopy:
    """A copy atom, and who copies which elements of a tile: (thread, value) -> index in it."""

    atom: CopyAtom
    layout: Layout
    tile: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.atom}, {self.layout}, {text_of(self.tile)}"


@dataclass(frozen=True)
class TiledMma:
    """An MMA atom, repeated over warps as the layout (M, N, K) -> number says."""

    atom: MmaAtom
    layout: Layout

    def __str__(self) -> str:
        return f"{self.atom}, {self.layout}"


def normal_leaf(leaf: Any) -> Any:
    """A leaf as its text gives it again: of an unknown value only the divisor is kept."""
    if isinstance(leaf, Dynamic) and not leaf.is_known:
        return Dynamic.symbol(UNKNOWN, leaf.divisibility)
    if isinstance(leaf, Basis):
        return Basis(tuple((path, normal_leaf(factor)) for path, factor in leaf.terms))
    return leaf


def normal(value: Any) -> Any:
    """A value as its text gives it again."""
    match value:
        case tuple():
            return tuple(normal(part) for part in value)
        case Layout():
            return Layout(normal(value.shape), normal(value.stride))
        case ComposedLayout():
            return ComposedLayout(normal(value.inner), normal(value.offset), normal(value.outer))
        case Tensor():
            return Tensor(value.engine, normal(value.layout))
        case _:
            return normal_leaf(value)


def is_static(value: Any) -> bool:
    """Whether all of a value is known when compiling; what memory holds never is."""
    match value:
        case tuple():
            return all(is_static(part) for part in value)
        case Layout():
            return is_static(value.shape) and is_static(value.stride)
        case ComposedLayout():
            return is_static(value.inner) and is_static(value.offset) and is_static(value.outer)
        case Basis():
            return all(is_static(factor) for _, factor in value.terms)
        case Dynamic() | Tensor() | PointerInfo() | RunTimeValue():
            return False
        case _:
            return True


def on_layout(view: Any, change: Callable[[Layout], Layout | tuple[Layout, Leaf]]) -> Any:
    """A layout, composed layout or tensor with its plain layout changed.

    `change` gives a layout, or one with the index where it begins: a tensor's pointer, or the
    offset of a composed layout, moves there; a plain layout has no place to keep it.
    """
    if isinstance(view, Tensor):
        layout, offset = _changed(view.layout, change)
        return Tensor(view.engine.advanced(offset), layout)
    layout, _ = _changed(view, change)
    return layout


def _changed(
    layout: AnyLayout, change: Callable[[Layout], Layout | tuple[Layout, Leaf]]
) -> tuple[AnyLayout, Leaf]:
    if isinstance(layout, ComposedLayout):
        inner, offset = _changed(layout.outer, change)
        if isinstance(inner, ComposedLayout):
            raise AlgebraError(f"a composed layout has a plain outer layout, found {inner}")
        return ComposedLayout(layout.inner, layout.offset + offset, inner), 0
    found = change(layout)
    return found if isinstance(found, tuple) else (found, 0)


def plain_layout(view: Any) -> Layout:
    """The layout of coordinates: of a composed layout the outer one."""
    layout = layout_of(view)
    return layout.outer if isinstance(layout, ComposedLayout) else layout


def layout_of(view: Any) -> AnyLayout:
    """The layout of a tensor; a layout itself."""
    return view.layout if isinstance(view, Tensor) else view


def index_of(view: Any, coordinate: Coordinate) -> Leaf:
    """`layout(coordinate)`, `?` where a swizzle meets a dynamic coordinate."""
    layout = layout_of(view)
    if isinstance(layout, Layout):
        return crd2idx(coordinate, layout)
    inside = layout.offset + crd2idx(coordinate, layout.outer)
    if not isinstance(inside, int):
        return Dynamic.symbol(UNKNOWN)
    return layout.inner(inside)


def for_thread(
    thread: Leaf,
    threads: int,
    part: Callable[[int], tuple[Layout, Leaf]],
    offset: Callable[[int], Leaf] | None = None,
) -> tuple[Layout, Leaf]:
    """What `part` gives for a thread: for a dynamic one, the layout that all threads have.

    `offset`: all threads have the layout of the first, and this gives where theirs begin.

    The offset of a dynamic thread is `?` with the divisor of all offsets. AlgebraError for a thread
    that is none of `threads`, or where threads have different layouts.
    """
    if isinstance(thread, int):
        if not 0 <= thread < threads:
            raise AlgebraError(f"there is no thread {thread} among {threads}")
        return part(thread)
    if offset is not None:
        layout, offsets = part(0)[0], [offset(number) for number in range(threads)]
    else:
        parts = [part(number) for number in range(threads)]
        layout, offsets = parts[0][0], [offset for _, offset in parts]
        if len(dict.fromkeys(layout for layout, _ in parts)) != 1:
            raise AlgebraError("threads have parts of different layouts, the thread must be static")
    if isinstance(thread, RunTime) and len(dict.fromkeys(offsets)) > 1:
        return layout, thread.choose(offsets)
    return layout, _unknown_among(offsets)


def _unknown_among(offsets: Sequence[Leaf]) -> Leaf:
    """A value of which is known that it is one of these."""
    if len(dict.fromkeys(offsets)) == 1:
        return offsets[0]
    return Dynamic.symbol(UNKNOWN, max(1, gcd(*(divisor_of(offset) for offset in offsets))))
