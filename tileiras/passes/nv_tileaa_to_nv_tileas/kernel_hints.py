"""What the author of a kernel asks of the compiler (`optimization_hints`)."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr

from tileiras.dialects import nv_tileaa as aa


def integer_hint(func: aa.FuncOp, key: str) -> int | None:
    """An integer hint of the kernel, None if it is not given."""
    hints = func.hints
    value = hints.data.get(key) if isinstance(hints, DictionaryAttr) else None
    return value.value.data if isinstance(value, IntegerAttr) else None
