"""`LinearLayout`: a linear map over GF(2) from named input bits to the coordinates of a tile.

Worked example, the accumulator of `mma.m16n8k16`: 4 registers in each of 32 lanes hold a 16x8 tile.

    {register: [(0,1), (8,0)], lane: [(0,2), (0,4), (1,0), (2,0), (4,0)], warp: []} -> 16x8

Register 3 = 0b11 of lane 5 = 0b00101 holds (0,1) ^ (8,0) ^ (0,2) ^ (1,0) = row 9, column 3.

Internally a basis vector is one int, the row-major index of its coordinates: every dimension is a
power of two, so coordinates concatenate as bit fields, `^` works on all of them at once, and
`reshape` is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.gf2 import Basis, matmul, rank

HARDWARE_DIMS = ("register", "lane", "warp", "block")
"""The input dims of distributed layouts, lowest rank first: copies belong to the highest one."""

Coordinate = tuple[int, ...]
IndexBases = tuple[tuple[str, tuple[int, ...]], ...]


class LinearLayout:
    """A linear map over GF(2): named input bits -> coordinates of a tile with power-of-two dims.

    Immutable and hashable; equality is equality of the bases, bit by bit. The input dims
    "register", "lane", "warp", "block" stand in this order and first; others keep the order they
    are given in. A zero basis vector means that the input bit does not matter: its two values
    hold copies.
    """

    __slots__ = ("_bases", "_hash", "_index_bases", "shape")

    shape: tuple[int, ...]
    _index_bases: IndexBases
    _hash: int
    _bases: tuple[tuple[str, tuple[Coordinate, ...]], ...] | None

    def __init__(self, bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]):
        """From coordinate vectors, one per input bit; LayoutError if one does not fit `shape`."""
        size = checked_shape(shape)
        flat: dict[str, list[int]] = {}
        for name, vectors in bases.items():
            flat[name] = [_coordinate_index(name, vector, size) for vector in vectors]
        self._set(flat, size)

    @classmethod
    def from_index_bases(
        cls, bases: Mapping[str, Iterable[int]], shape: Sequence[int]
    ) -> LinearLayout:
        """Builds from row-major element indices, one per input bit (the internal form)."""
        layout = cls.__new__(cls)
        layout._set(bases, checked_shape(shape))
        for name, vectors in layout._index_bases:
            if any(not 0 <= vector < layout.size for vector in vectors):
                raise LayoutError(f"a basis of '{name}' lies outside the {layout.size} elements")
        return layout

    @classmethod
    def identity(cls, name: str, size: int) -> LinearLayout:
        """The one-dimensional layout whose input `name` is the coordinate itself."""
        return cls.from_index_bases({name: [1 << b for b in range(_log2(size))]}, (size,))

    @classmethod
    def parse(cls, text: str) -> LinearLayout:
        """Reads the form that `str` prints."""
        from tileiras.dialects.layout.text import read_bases

        layout = cls(*read_bases(text))
        if "".join(str(layout).split()) != "".join(text.split()):
            raise LayoutError(f"expected the printed form '{layout}', found '{text}'")
        return layout

    def _set(self, bases: Mapping[str, Iterable[int]], shape: tuple[int, ...]) -> None:
        names = [name for name in HARDWARE_DIMS if name in bases]
        names += [name for name in bases if name not in HARDWARE_DIMS]
        flat = tuple((name, tuple(bases[name])) for name in names)
        set_field = object.__setattr__
        set_field(self, "shape", shape)
        set_field(self, "_index_bases", flat)
        set_field(self, "_hash", hash((flat, shape)))
        set_field(self, "_bases", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LinearLayout is immutable, cannot set '{name}'")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, LinearLayout):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.shape == other.shape
            and self._index_bases == other._index_bases
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return (LinearLayout.from_index_bases, (dict(self._index_bases), self.shape))

    def __str__(self) -> str:
        from tileiras.dialects.layout.text import bases_text

        return bases_text(self.bases, self.shape)

    def __repr__(self) -> str:
        return f"LinearLayout.parse({str(self)!r})"

    # What it is

    @property
    def bases(self) -> tuple[tuple[str, tuple[Coordinate, ...]], ...]:
        """Input dim name -> one coordinate vector per input bit, lowest bit first."""
        if self._bases is None:
            value = tuple(
                (name, tuple(self.coordinate(vector) for vector in vectors))
                for name, vectors in self._index_bases
            )
            object.__setattr__(self, "_bases", value)
            return value
        return self._bases

    @property
    def index_bases(self) -> IndexBases:
        """As `bases`, each vector as the row-major index of its coordinates."""
        return self._index_bases

    @property
    def in_dims(self) -> tuple[str, ...]:
        """The names of the input dims."""
        return tuple(name for name, _ in self._index_bases)

    @property
    def rank(self) -> int:
        """The number of output dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of the tile."""
        return prod(self.shape)

    def vectors(self, name: str) -> tuple[int, ...]:
        """The basis vectors of one input dim as row-major indices; LayoutError if it is unknown."""
        for candidate, vectors in self._index_bases:
            if candidate == name:
                return vectors
        raise LayoutError(f"the layout has no input dim '{name}', it has {list(self.in_dims)}")

    def basis(self, name: str) -> tuple[Coordinate, ...]:
        """The basis vectors of one input dim as coordinates."""
        return tuple(self.coordinate(vector) for vector in self.vectors(name))

    def in_bits(self, name: str) -> int:
        """The number of bits of an input dim."""
        return len(self.vectors(name))

    def in_size(self, name: str) -> int:
        """The number of values of an input dim."""
        return 1 << len(self.vectors(name))

    def all_vectors(self) -> tuple[int, ...]:
        """All basis vectors, input dims concatenated in order."""
        return tuple(vector for _, vectors in self._index_bases for vector in vectors)

    @property
    def is_surjective(self) -> bool:
        """Whether every element of the tile is held somewhere."""
        return 1 << rank(self.all_vectors()) == self.size

    @property
    def is_injective(self) -> bool:
        """Whether no element is held twice."""
        vectors = self.all_vectors()
        return rank(vectors) == len(vectors)

    def free_mask(self, name: str) -> int:
        """The bits of input dim `name` that only make copies.

        A bit is free if its basis lies in the span of the bits before it: lower bits of the same
        dim and all bits of the dims before it. The inputs with all free bits zero reach every
        element that the layout reaches exactly once.
        """
        for (candidate, _), mask in zip(self._index_bases, _free_masks(self), strict=True):
            if candidate == name:
                return mask
        raise LayoutError(f"the layout has no input dim '{name}', it has {list(self.in_dims)}")

    # Evaluation

    def coordinate(self, index: int) -> Coordinate:
        """The coordinates of a row-major element index."""
        result = []
        for size in reversed(self.shape):
            result.append(index & (size - 1))
            index //= size
        return tuple(reversed(result))

    def apply_index(self, **inputs: int) -> int:
        """The row-major index of the element at the given inputs; dims not named are 0."""
        result = 0
        remaining = len(inputs)
        for name, vectors in self._index_bases:
            value = inputs.get(name)
            if value is None:
                continue
            remaining -= 1
            if value >> len(vectors):
                raise LayoutError(f"'{name}' = {value} is not below {1 << len(vectors)}")
            for vector in vectors:
                if value & 1:
                    result ^= vector
                value >>= 1
        if remaining:
            raise LayoutError(f"inputs {list(inputs)} are not all among {list(self.in_dims)}")
        return result

    def apply(self, **inputs: int) -> Coordinate:
        """The coordinates of the element at the given inputs; dims not named are 0."""
        return self.coordinate(self.apply_index(**inputs))

    # Algebra

    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        """`inner * outer`: repeats `self` as the atom along `outer`.

        Shapes multiply; for each input dim the bits of `self` come first. Both have the same rank.
        """
        if self.rank != outer.rank:
            raise LayoutError(f"product of ranks {self.rank} and {outer.rank}")
        shape = tuple(a * b for a, b in zip(self.shape, outer.shape, strict=True))
        result: dict[str, list[Sequence[int]]] = {n: list(vs) for n, vs in self.bases}
        for name, vectors in outer.bases:
            scaled = [
                tuple(c * s for c, s in zip(vector, self.shape, strict=True)) for vector in vectors
            ]
            result.setdefault(name, []).extend(scaled)
        return LinearLayout(result, shape)

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """`self` after `inner`, whose output dims are, by position, the input dims of `self`."""
        sizes = tuple(1 << len(vectors) for _, vectors in self._index_bases)
        if inner.shape != sizes:
            raise LayoutError(
                f"cannot compose: the inner layout has shape {inner.shape}, "
                f"the outer one takes inputs {dict(zip(self.in_dims, sizes, strict=True))}"
            )
        # An inner row-major index has the last input dim in its lowest bits.
        columns = [v for _, vectors in reversed(self._index_bases) for v in vectors]
        flat = {name: matmul(columns, vectors) for name, vectors in inner._index_bases}
        return LinearLayout.from_index_bases(flat, self.shape)

    def invert(self) -> LinearLayout:
        """The inverse: input dims "dim0", "dim1".. -> (one output dim per input dim of `self`).

        LayoutError unless the layout holds every element exactly once.
        """
        if not (self.is_surjective and self.is_injective):
            raise LayoutError(f"only a bijective layout has an inverse, {self} is not one")
        return _right_inverse(self)

    # Output dims

    def divided(self, parts: int) -> LinearLayout:
        """That of a rank-1 tile whose elements are cut, into `parts` registers in a row each."""
        bases = {unit: [v * parts for v in vectors] for unit, vectors in self.index_bases}
        steps = [1 << bit for bit in range(parts.bit_length() - 1)]
        bases["register"] = [*steps, *bases["register"]]
        return LinearLayout.from_index_bases(bases, (self.size * parts,))

    def slice(self, axis: int, keep_dim: bool = False) -> LinearLayout:
        """Forgets the coordinate along `axis` (size 1 with `keep_dim`); its bits become copies."""
        self._check_axis(axis, self.rank)
        tail = (1,) if keep_dim else ()
        shape = self.shape[:axis] + tail + self.shape[axis + 1 :]
        low = prod(self.shape[axis + 1 :])
        drop = low * self.shape[axis]
        flat = {
            name: [(v // drop) * low + v % low for v in vectors]
            for name, vectors in self._index_bases
        }
        return LinearLayout.from_index_bases(flat, shape)

    def reshape(self, new_shape: Sequence[int]) -> LinearLayout:
        """The same placement of the row-major elements under another shape of the same size."""
        shape = checked_shape(new_shape)
        if prod(shape) != self.size:
            raise LayoutError(f"cannot reshape {self.shape} to {shape}")
        return LinearLayout.from_index_bases(dict(self._index_bases), shape)

    def permute(self, perm: Sequence[int]) -> LinearLayout:
        """Transposes: `result.shape[i] == self.shape[perm[i]]`."""
        if sorted(perm) != list(range(self.rank)):
            raise LayoutError(f"{list(perm)} is not a permutation of {self.rank} dims")
        flat = {n: [[v[p] for p in perm] for v in vectors] for n, vectors in self.bases}
        return LinearLayout(flat, [self.shape[p] for p in perm])

    def expand_dims(self, axis: int) -> LinearLayout:
        """Inserts an output dim of size 1 before `axis`."""
        self._check_axis(axis, self.rank + 1)
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    # Registers

    def without_register_duplicates(self) -> LinearLayout:
        """Drops the register bits that only make copies within the thread."""
        free = self.free_mask("register")
        if not free:
            return self
        flat: dict[str, Iterable[int]] = dict(self._index_bases)
        registers = self.vectors("register")
        flat["register"] = [v for b, v in enumerate(registers) if not free >> b & 1]
        return LinearLayout.from_index_bases(flat, self.shape)

    def with_registers_for(self, shape: Sequence[int]) -> LinearLayout:
        """Extends the layout to a larger tile by register bits, appended above the present ones.

        `self.shape` divides `shape`; repeats run along the last dim first. From size 1 this is the
        layout of a broadcast that costs nothing: register `r` is register `r % in_size` of `self`.
        """
        target = checked_shape(shape)
        if len(target) != self.rank:
            raise LayoutError(f"cannot extend shape {self.shape} to {target}")
        steps: list[list[int]] = []
        for axis in reversed(range(self.rank)):
            if target[axis] < self.shape[axis]:
                raise LayoutError(f"cannot extend shape {self.shape} to {target}")
            for b in range(_log2(self.shape[axis]), _log2(target[axis])):
                steps.append([1 << b if d == axis else 0 for d in range(self.rank)])
        bases: dict[str, Sequence[Sequence[int]]] = dict(self.bases)
        bases["register"] = [*bases.get("register", ()), *steps]
        return LinearLayout(bases, target)

    def _check_axis(self, axis: int, count: int) -> None:
        if not 0 <= axis < count:
            raise LayoutError(f"axis {axis} is not below {count}")


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` as a tuple; LayoutError unless every dim is a power of two."""
    result = tuple(shape)
    for size in result:
        if size < 1 or size & (size - 1):
            raise LayoutError(f"tile dims must be powers of two, found shape {result}")
    return result


def _log2(size: int) -> int:
    """The number of bits of a dim; LayoutError unless it is a power of two."""
    return checked_shape((size,))[0].bit_length() - 1


def _coordinate_index(name: str, vector: Sequence[int], shape: tuple[int, ...]) -> int:
    """The row-major index of a basis vector."""
    if len(vector) != len(shape):
        raise LayoutError(
            f"a basis of '{name}' has {len(vector)} coordinates, expected {len(shape)}"
        )
    index = 0
    for coordinate, size in zip(vector, shape, strict=True):
        if not 0 <= coordinate < size:
            raise LayoutError(f"basis {tuple(vector)} of '{name}' lies outside {shape}")
        index = index * size + coordinate
    return index


@lru_cache(maxsize=4096)
def _free_masks(layout: LinearLayout) -> tuple[int, ...]:
    """For each input dim, the bits whose basis depends on the ones before."""
    basis = Basis()
    masks = []
    for _, vectors in layout.index_bases:
        masks.append(sum(1 << b for b, vector in enumerate(vectors) if not basis.insert(vector)))
    return tuple(masks)


@lru_cache(maxsize=4096)
def _right_inverse(layout: LinearLayout) -> LinearLayout:
    """The linear map from coordinates to the owner's inputs; LayoutError unless surjective."""
    basis = Basis()
    shift = sum(len(vectors) for _, vectors in layout.index_bases)
    sizes = []
    for _, vectors in layout.index_bases:
        shift -= len(vectors)
        sizes.append(1 << len(vectors))
        for b, vector in enumerate(vectors):
            basis.insert(vector, 1 << (shift + b))
    if 1 << len(basis) != layout.size:
        raise LayoutError(f"{layout} does not reach every element, it has no inverse")
    flat: dict[str, list[int]] = {}
    low = layout.size
    for axis, size in enumerate(layout.shape):
        low //= size
        solutions = (basis.solve(low << b) for b in range(_log2(size)))
        flat[f"dim{axis}"] = [solution for solution in solutions if solution is not None]
    return LinearLayout.from_index_bases(flat, sizes)
