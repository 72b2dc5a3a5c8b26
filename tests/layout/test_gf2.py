"""Linear algebra over GF(2) against enumeration of whole subspaces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from layout_strategies import examples

from tileiras.dialects.layout.gf2 import Basis, independent, intersection, matmul, matvec, rank

VECTORS = st.lists(st.integers(0, 63), max_size=7)


def span(vectors: list[int]) -> set[int]:
    """All sums of `vectors`."""
    sums = {0}
    for vector in vectors:
        sums |= {vector ^ other for other in sums}
    return sums


@examples(100)
@given(VECTORS)
def test_rank_counts_the_span(vectors: list[int]) -> None:
    assert 1 << rank(vectors) == len(span(vectors))
    assert span(independent(vectors)) == span(vectors)
    assert len(independent(vectors)) == rank(vectors)


@examples(100)
@given(VECTORS, VECTORS)
def test_intersection_is_what_both_spans_hold(left: list[int], right: list[int]) -> None:
    common = intersection(left, right)
    assert span(common) == span(left) & span(right)
    assert rank(common) == len(common)


@examples(100)
@given(VECTORS, st.integers(0, 63))
def test_solving_gives_a_sum_of_the_earliest_vectors_or_none(vectors: list[int], v: int) -> None:
    basis = Basis(vectors)
    solution = basis.solve(v)
    assert (v in basis) == (v in span(vectors)) == (solution is not None)
    if solution is not None:
        assert matvec(vectors, solution) == v
        chosen = [vectors[b] for b in range(len(vectors)) if solution >> b & 1]
        assert set(chosen) <= set(independent(vectors))


@examples(50)
@given(
    st.lists(st.integers(0, 63), min_size=6, max_size=6),
    st.lists(st.integers(0, 63), min_size=4, max_size=4),
    st.integers(0, 15),
)
def test_a_product_of_matrices_applies_one_after_the_other(
    outer: list[int], inner: list[int], v: int
) -> None:
    assert matvec(matmul(outer, inner), v) == matvec(outer, matvec(inner, v))
