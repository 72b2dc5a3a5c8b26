"""Damaged text of every stage is compiled, or refused with an error that says where."""

from __future__ import annotations

import random
import time
from functools import cache
from pathlib import Path

import pytest

from tests.fuzzing.mutations import damaged, tokens_of
from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.driver import compile_module
from tileiras.errors import InternalError, TileirasError
from tileiras.options import CompileOptions

MAX_SECONDS = 10.0
MAX_LINE = 600
"""Characters of a message: its own words and 80 of the input for each thing that it names."""
EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def programs() -> list[str]:
    """Programs of cuda_tile: every operation, both forms, with and without locations."""
    bodies = [
        kernel(body)
        for chapter in (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
        for bodies in chapter.ACCEPTED.values()
        for body in bodies
    ]
    bodies += cases_control_flow.ACCEPTED_MODULES
    generic = [print_module(parse_module(text), generic=True) for text in bodies[::5]]
    located = [print_module(parse_module(text), debug_info=True) for text in bodies[::7]]
    return [*bodies, *generic, *located, *(path.read_text() for path in EXAMPLES.glob("*.mlir"))]


@cache
def lower_stages() -> list[str]:
    """The example kernels at the stages below."""
    found = []
    for path in sorted(EXAMPLES.glob("*.mlir")):
        for stage in ("nv_tileaa", "nv_tileas", "llvm-dialect"):
            options = CompileOptions(gpu_name="sm_90", emit=stage)
            found.append(compile_module(path.read_bytes(), options).output.decode())
    return found


def refused(text: str, emit: str) -> bool:
    """Whether the text is refused; fails if that is not how it should be."""
    start = time.perf_counter()
    try:
        compile_module(text.encode(errors="replace"), CompileOptions("sm_90", emit=emit), "f.mlir")
    except InternalError as error:
        raise AssertionError(f"{error.message}\n{text}") from error
    except TileirasError as error:
        for one in error.every_mistake():
            assert len(one.message) <= MAX_LINE, one.message
        return True
    finally:
        assert time.perf_counter() - start < MAX_SECONDS, text
    return False


def test_fuzz_of_cuda_tile_text(fuzz_round: int) -> None:
    """Read and verified."""
    rng = random.Random(f"cuda_tile text {fuzz_round}")
    count = sum(refused(damaged(rng.choice(programs()), rng), "cuda_tile") for _ in range(400))
    assert count > 100


def test_fuzz_of_text_of_later_stages(fuzz_round: int) -> None:
    """Read and verified; what is still well-formed is printed again."""
    rng = random.Random(f"later stages {fuzz_round}")
    texts = lower_stages()
    count = sum(refused(damaged(rng.choice(texts), rng), "llvm-dialect") for _ in range(25))
    assert count > 5


@pytest.mark.parametrize("index", range(0, 40, 8))
def test_damage_is_made_of_whole_tokens(index: int) -> None:
    """Cutting a text into tokens loses nothing."""
    text = programs()[index]
    assert "".join(tokens_of(text)) == text
