"""The text form of linear layouts, `{register: [(0,1), (8,0)], lane: [...], warp: []} -> 16x16`.

A layout without output dims prints `()` for its shape and for each basis vector.
"""

from __future__ import annotations

import re

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout

_LAYOUT = re.compile(r"\{(?P<dims>.*)\}->(?P<shape>[0-9x]+|\(\))")
_DIM = re.compile(r"(?P<name>\w+):\[(?P<vectors>[^\]]*)\]")
_VECTOR = re.compile(r"\(([0-9,]*)\)")


def print_layout(layout: LinearLayout) -> str:
    """The text of a layout, on one line."""
    dims = []
    for name, vectors in layout.bases:
        texts = ("(" + ",".join(str(c) for c in vector) + ")" for vector in vectors)
        dims.append(f"{name}: [{', '.join(texts)}]")
    shape = "x".join(str(size) for size in layout.shape) or "()"
    return f"{{{', '.join(dims)}}} -> {shape}"


def parse_layout(text: str) -> LinearLayout:
    """Reads what `print_layout` writes, white space aside; LayoutError for anything else."""
    compact = "".join(text.split())
    match = _LAYOUT.fullmatch(compact)
    if match is None:
        raise LayoutError(f"expected '{{name: [(..), ..], ..}} -> shape', found '{text}'")
    sizes = "" if match["shape"] == "()" else match["shape"]
    bases = {
        dim["name"]: [
            [int(c) for c in vector.split(",") if c] for vector in _VECTOR.findall(dim["vectors"])
        ]
        for dim in _DIM.finditer(match["dims"])
    }
    layout = LinearLayout(bases, [int(size) for size in sizes.split("x") if size])
    if "".join(print_layout(layout).split()) != compact:
        raise LayoutError(f"expected the printed form '{layout}', found '{text}'")
    return layout
