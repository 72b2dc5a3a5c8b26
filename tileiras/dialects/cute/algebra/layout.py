"""`Layout`: a function from coordinates to indices, written `shape:stride`.

Worked example, `(4,(2,3)):(3,(1,12))`: the coordinate (1,(1,2)) has the index 1*3 + 1*1 + 2*12,
28. The same element has the coordinate (1,5), since 5 = 1 + 2*2 in the shape (2,3), and the number
21 = 1 + 5*4: the first mode is the fastest at every level (CUTLASS documentation, "CuTe Layouts").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import (
    IntTuple,
    compact_strides,
    compact_strides_last_fastest,
    is_congruent,
    leaves,
    product,
    text_of,
)
from tileiras.dialects.cute.algebra.leaves import Basis, Dynamic, Leaf, static


@dataclass(frozen=True)
class Layout:
    """A shape and a stride that are nested alike. Equality is equality of both, not of functions.

    Extents are positive; strides may be 0 (broadcast), negative, dynamic, or basis elements.
    """

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        if not is_congruent(self.shape, self.stride):
            raise AlgebraError(
                f"shape {text_of(self.shape)} and stride {text_of(self.stride)} are not congruent"
            )
        for extent in leaves(self.shape):
            if isinstance(extent, Basis) or (isinstance(extent, int) and extent < 1):
                raise AlgebraError(f"an extent must be positive, found {extent}")

    @classmethod
    def compact(cls, shape: IntTuple) -> Layout:
        """The dense layout whose first mode is the fastest (column-major)."""
        return cls(shape, compact_strides(shape))

    @classmethod
    def row_major(cls, shape: IntTuple) -> Layout:
        """The dense layout whose last mode is the fastest."""
        return cls(shape, compact_strides_last_fastest(shape))

    @classmethod
    def of(cls, modes: Iterable[Layout]) -> Layout:
        """The layout whose modes are these layouts."""
        parts = tuple(modes)
        return cls(tuple(p.shape for p in parts), tuple(p.stride for p in parts))

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The top-level modes; of a leaf, itself."""
        if isinstance(self.shape, tuple) and isinstance(self.stride, tuple):
            return tuple(map(Layout, self.shape, self.stride))
        return (self,)

    def __getitem__(self, mode: int) -> Layout:
        """One top-level mode; AlgebraError if there is none."""
        if not 0 <= mode < self.rank:
            raise AlgebraError(f"{self} has no mode {mode}, its rank is {self.rank}")
        return self.modes[mode]

    @property
    def pairs(self) -> Iterator[tuple[Leaf, Leaf]]:
        """(extent, stride) of all leaves, fastest first."""
        return zip(leaves(self.shape), leaves(self.stride), strict=True)

    @property
    def size(self) -> int | Dynamic:
        """The number of coordinates."""
        size = product(self.shape)
        if isinstance(size, Basis):
            raise AlgebraError(f"a shape has no basis elements, found {text_of(self.shape)}")
        return size

    @property
    def static_size(self) -> int:
        """The size as an int; AlgebraError if it is dynamic."""
        size = self.size
        return size if isinstance(size, int) else static(size, f"the size of {self}")

    @property
    def cosize(self) -> Leaf:
        """One more than the largest index: 1 + the sum of (extent - 1) * stride.

        AlgebraError for a negative stride. Of a layout with basis strides, the last coordinate.
        """
        last: Leaf = 0
        for extent, stride in self.pairs:
            if isinstance(stride, int) and stride < 0:
                raise AlgebraError(f"{self} has a negative stride, its indices have no cosize")
            last = last + (extent + -1) * stride
        return last if isinstance(last, Basis) else last + 1

    def __call__(self, index: int) -> Leaf:
        """The index of the coordinate whose number is `index`; beyond the size, the last mode
        goes on."""
        total: Leaf = 0
        pairs = list(self.pairs)
        for extent, stride in pairs[:-1]:
            size = extent
            if not isinstance(size, int):
                size = static(size, f"an extent before the last of {self}")
            total = total + stride * (index % size)
            index //= size
        return total + pairs[-1][1] * index if pairs else total

    @property
    def indices(self) -> list[Leaf]:
        """The index of every coordinate, in order; AlgebraError if the size is dynamic."""
        found: list[Leaf] = [0]
        for extent, stride in self.pairs:
            if not isinstance(extent, int):
                static(extent, f"the size of {self}")
                break
            found = [step + index for step in self._steps(extent, stride) for index in found]
        return found

    @staticmethod
    def _steps(extent: int, stride: Leaf) -> list[Leaf]:
        """The multiples of a stride."""
        return [stride * i for i in range(extent)]

    def __str__(self) -> str:
        return f"{text_of(self.shape)}:{text_of(self.stride)}"


Tiler = Layout | int | tuple["Tiler | None", ...]
"""What an operation applies: a layout, the layout `n:1`, or one of these (or None) per mode."""


def as_layout(tiler: Layout | int) -> Layout:
    """`n` is the layout `n:1`."""
    return tiler if isinstance(tiler, Layout) else Layout(tiler, 1)


def by_mode(
    layout: Layout, tiler: tuple[Tiler | None, ...], apply: Callable[[Layout, Tiler], Layout]
) -> Layout:
    """`apply` with the tiler of each mode; modes without one, or with None, stay as they are.

    AlgebraError if there are more tilers than modes.
    """
    parts = list(layout.modes)
    if len(tiler) > len(parts):
        raise AlgebraError(f"a tiler of {len(tiler)} modes does not fit {layout}")
    for i, part in enumerate(tiler):
        if part is not None:
            parts[i] = apply(parts[i], part)
    return Layout.of(parts)
