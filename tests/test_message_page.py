"""`docs/messages.md` has what is said of ten mistakes; `--bless` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.message_page import MISTAKES, Mistake, page, said

PAGE = Path(__file__).parents[1] / "docs" / "messages.md"


def test_page_has_what_is_said(pytestconfig: pytest.Config) -> None:
    made = page()
    if pytestconfig.getoption("--bless"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made


@pytest.mark.parametrize("mistake", MISTAKES[:8], ids=lambda mistake: mistake.title)
def test_mistake_of_a_text_has_a_place_and_its_line(mistake: Mistake) -> None:
    text = said(mistake)
    assert text.startswith('loc("k.mlir":')
    assert "^" in text
    assert "internal error" not in text
