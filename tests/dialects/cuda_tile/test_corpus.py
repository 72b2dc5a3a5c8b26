"""Real programs: a sample of the corpus verifies, prints and reads back.

The whole corpus, against the vendor's disassembler too: `tests/sweeps/cuda_tile_text.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.bytecode.reader import read_module
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.passes.canonicalization import canonicalize
from tileiras.passes.cuda_tile.cse import eliminate_common_subexpressions

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
FILES = sorted(CORPUS.glob("*.tileirbc"))
SAMPLE = FILES[:: max(1, len(FILES) // 12)][:12]
needs_corpus = pytest.mark.skipif(not FILES, reason=f"no corpus at {CORPUS.name}")


@needs_corpus
@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_corpus_program_reads_back(path: Path) -> None:
    """In both forms, with and without locations."""
    module = read_module(path.read_bytes())
    verify_module(module)
    for generic in (False, True):
        for debug_info in (False, True):
            text = print_module(module, generic=generic, debug_info=debug_info)
            assert parse_module(text).is_structurally_equivalent(module)


@needs_corpus
@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_corpus_program_becomes_smaller(path: Path) -> None:
    """And stays valid, after canonicalize and cse."""
    module = read_module(path.read_bytes())
    before = sum(1 for _ in module.walk())
    canonicalize(module)
    eliminate_common_subexpressions(module)
    verify_module(module)
    assert sum(1 for _ in module.walk()) <= before
