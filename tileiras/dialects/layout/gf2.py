"""Linear algebra over GF(2) on Python integers: a vector is an int, addition is `^`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Basis:
    """A growing basis of a subspace that remembers how each vector was combined.

    Every inserted vector carries a tag (an int, combined by `^` as well, normally a single bit).
    `solve(v)` answers with the combined tag of the inserted vectors that add up to `v`. Only
    vectors that were independent when inserted take part, so earlier vectors are preferred over
    later ones.
    """

    __slots__ = ("_rows",)

    def __init__(self, vectors: Iterable[int] = ()):
        self._rows: dict[int, tuple[int, int]] = {}
        for position, vector in enumerate(vectors):
            self.insert(vector, 1 << position)

    def __len__(self) -> int:
        """The dimension of the subspace."""
        return len(self._rows)

    def reduce(self, vector: int, tag: int = 0) -> tuple[int, int]:
        """Subtracts rows until the top bit cannot be cleared: the rest, and the combined tag.

        The rest is zero exactly if `vector` lies in the subspace.
        """
        rows = self._rows
        while vector:
            row = rows.get(vector.bit_length())
            if row is None:
                break
            vector ^= row[0]
            tag ^= row[1]
        return vector, tag

    def insert(self, vector: int, tag: int = 0) -> bool:
        """Adds `vector`; false, and no change, if it already lies in the subspace."""
        rest, tag = self.reduce(vector, tag)
        if not rest:
            return False
        self._rows[rest.bit_length()] = (rest, tag)
        return True

    def solve(self, vector: int) -> int | None:
        """The combined tag of the inserted vectors that add up to `vector`; None if none do."""
        rest, tag = self.reduce(vector)
        return None if rest else tag

    def __contains__(self, vector: int) -> bool:
        """Whether `vector` lies in the subspace."""
        return not self.reduce(vector)[0]


def rank(vectors: Iterable[int]) -> int:
    """The dimension of the span of `vectors`."""
    return len(Basis(vectors))


def matvec(columns: Sequence[int], vector: int) -> int:
    """Matrix times vector: the sum of the columns that the bits of `vector` select."""
    result = 0
    while vector:
        low = vector & -vector
        result ^= columns[low.bit_length() - 1]
        vector ^= low
    return result


def matmul(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
    """Matrix times matrix, both as columns: `outer` after `inner`."""
    return tuple(matvec(outer, column) for column in inner)


def independent(vectors: Iterable[int], modulo: Iterable[int] = ()) -> list[int]:
    """The vectors, in order, that are independent of `modulo` and of those before them."""
    basis = Basis(modulo)
    return [vector for vector in vectors if basis.insert(vector)]


def intersection(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """A basis of span(left) & span(right)."""
    left = independent(left)
    basis = Basis(left)
    found: list[int] = []
    for position, vector in enumerate(independent(right)):
        tag = 1 << (len(left) + position)
        if not basis.insert(vector, tag):
            combination = basis.solve(vector) or 0
            found.append(matvec(left, combination & ((1 << len(left)) - 1)))
    return found
