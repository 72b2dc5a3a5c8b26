"""How types of elements are spelled in text and messages."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

FLOAT_NAMES = frozenset(
    {
        "bf16",
        "f16",
        "f32",
        "tf32",
        "f64",
        "f8E4M3FN",
        "f8E5M2",
        "f8E8M0FNU",
        "f4E2M1FN",
        "cuda_tile.fnv8E5M3FNU",
    }
)
"""Names of the float types that elements have."""


def element_text(element: Attribute) -> str:
    """An element type as the text form spells it: `f32`, `i1`, `ptr<f16>`."""
    if isinstance(element, IntegerType):
        return f"i{element.width.data}"
    if element.name == "cuda_tile.ptr":
        pointer: Any = element
        kind = getattr(pointer.kind, "data", None)
        suffix = "" if kind is None else f", <{kind.value}>"
        return f"ptr<{element_text(pointer.pointee)}{suffix}>"
    if element.name in FLOAT_NAMES:
        return element.name.removeprefix("cuda_tile.")
    return str(element)
