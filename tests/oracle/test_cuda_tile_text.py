"""The text is, byte for byte, what NVIDIA's disassembler prints."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import kernel
from tests.oracle.vendor import vendor_text
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.text import parse_module, print_module

pytestmark = pytest.mark.oracle

CHAPTERS = (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
TEXTS = [
    *(
        kernel(body)
        for chapter in CHAPTERS
        for bodies in chapter.ACCEPTED.values()
        for body in bodies
    ),
    *cases_control_flow.ACCEPTED_MODULES,
]


@pytest.mark.parametrize("debug_info", [False, True], ids=["plain", "located"])
@pytest.mark.parametrize("text", TEXTS)
def test_same_text(text: str, debug_info: bool, tmp_path: Path) -> None:
    """Of every operation, read back from bytecode."""
    data = write_module(parse_module(text), (13, 5))
    ours = print_module(read_module(data), debug_info=debug_info)
    assert ours == vendor_text(data, tmp_path, debug_info)


def test_same_floats(tmp_path: Path) -> None:
    """Random bits of the wider types, small ones and round ones among them."""
    numbers = random.Random(11)
    lines = []
    for index in range(3000):
        type, width = numbers.choice(
            (("f64", 64), ("f32", 32), ("tf32", 19), ("bf16", 16), ("f16", 16))
        )
        bits = numbers.getrandbits(width)
        if index % 3 == 0:
            bits &= -1 << numbers.randrange(width)
        elif index % 3 == 1:
            bits >>= numbers.randrange(width)
        lines.append(f"%x{index} = constant <{type}: 0x{bits:X}> : tile<2x{type}>")
    data = write_module(parse_module(kernel("\n".join(lines))), (13, 5))
    assert print_module(read_module(data)) == vendor_text(data, tmp_path)
