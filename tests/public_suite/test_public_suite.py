"""The public suite: what it accepts is accepted and round-trips, what it rejects is rejected.

Runs where $CUDA_TILE_SUITE names a checkout of NVIDIA/cuda-tile:
`pytest -m public_suite tests/public_suite`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.public_suite.judgement import EXPLAINED, Agreement, judge, round_trip
from tests.public_suite.pieces import Piece, read_pieces, suite_folder

pytestmark = pytest.mark.public_suite

_FOLDER = suite_folder()
PIECES = list(read_pieces(_FOLDER)) if _FOLDER is not None else []
SAME_WORDS = 450
"""Facts that are told in the suite's own words, at least."""


@pytest.mark.parametrize("piece", PIECES, ids=[piece.name for piece in PIECES])
def test_same_verdict(piece: Piece) -> None:
    """Accepted and round-tripped, or rejected; the explained ones the other way round."""
    judgement = judge(piece)
    rejected = bool(judgement.errors)
    assert rejected == (piece.is_wrong != (piece.name in EXPLAINED)), judgement.errors
    if not rejected and not piece.is_wrong:
        first, again = round_trip(piece)
        assert first == again


def test_errors_have_the_words_of_the_suite() -> None:
    """As many as ever."""
    found = Counter(
        judgement.agreement(fact)
        for piece in PIECES
        if piece.is_wrong
        for judgement in [judge(piece)]
        for fact in piece.facts
    )
    assert found[Agreement.WORDS] >= SAME_WORDS, found
