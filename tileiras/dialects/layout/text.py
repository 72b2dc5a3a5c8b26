"""The text form of linear layouts, `{register: [(0,1), (8,0)], lane: [...], warp: []} -> 16x16`.

A layout without output dims prints `()` for its shape and for each basis vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileiras.dialects.layout.errors import LayoutError

_LAYOUT = re.compile(r"\{(?P<dims>.*)\}->(?P<shape>[0-9x]+|\(\))")
_DIM = re.compile(r"(?P<name>\w+):\[(?P<vectors>[^\]]*)\]")
_VECTOR = re.compile(r"\(([0-9,]*)\)")


def bases_text(bases: Sequence[tuple[str, Sequence[tuple[int, ...]]]], shape: Sequence[int]) -> str:
    """The text of a layout with these bases and this shape, on one line."""
    dims = []
    for name, vectors in bases:
        texts = ("(" + ",".join(str(c) for c in vector) + ")" for vector in vectors)
        dims.append(f"{name}: [{', '.join(texts)}]")
    sizes = "x".join(str(size) for size in shape) or "()"
    return f"{{{', '.join(dims)}}} -> {sizes}"


def read_bases(text: str) -> tuple[dict[str, list[list[int]]], list[int]]:
    """Bases and shape of what `bases_text` writes, white space aside.

    Raises LayoutError for a text of another form; what does not print as it was read is found by
    `LinearLayout.parse`.
    """
    match = _LAYOUT.fullmatch("".join(text.split()))
    if match is None:
        raise LayoutError(f"expected '{{name: [(..), ..], ..}} -> shape', found '{text}'")
    sizes = "" if match["shape"] == "()" else match["shape"]
    bases = {
        dim["name"]: [
            [int(c) for c in vector.split(",") if c] for vector in _VECTOR.findall(dim["vectors"])
        ]
        for dim in _DIM.finditer(match["dims"])
    }
    return bases, [int(size) for size in sizes.split("x") if size]
