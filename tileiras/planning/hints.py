"""What the author of a kernel asks of the compiler (`optimization_hints`)."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa

USUAL_LATENCY_HINT = 4
"""Policy: the hint `latency` of a load that takes as long as most do."""


def integer_hint(func: aa.FuncOp, key: str) -> int | None:
    """An integer hint of the kernel, None if it is not given."""
    hints = func.hints
    value = hints.data.get(key) if isinstance(hints, DictionaryAttr) else None
    return value.value.data if isinstance(value, IntegerAttr) else None


def is_tma_allowed(op: Operation) -> bool:
    """Whether an access to a view may be done by TMA, as far as its author is concerned."""
    return _flag(op, "allow_tma") is not False


def is_tma_preferred(op: Operation) -> bool:
    """Whether an access to a view is to be done by TMA even where nobody has measured a gain."""
    return _flag(op, "prefer_tma") is True


def forbids_unrolling(op: Operation) -> bool:
    """Whether a kernel's loops, or the loop around an access, are to stay as they are."""
    return _flag(op, "unroll") is False


def _flag(op: Operation, key: str) -> bool | None:
    """A hint that is true or false, None if it is not given."""
    hints = op.properties.get("hints")
    value = hints.data.get(key) if isinstance(hints, DictionaryAttr) else None
    return value.value.data != 0 if isinstance(value, IntegerAttr) else None


def latency_hint(op: Operation) -> int | None:
    """What the author says of a load: 1 (little latency) to 10 (much); None if nothing."""
    hints = op.properties.get("hints")
    value = hints.data.get("latency") if isinstance(hints, DictionaryAttr) else None
    if not isinstance(value, IntegerAttr) or not 1 <= value.value.data <= 10:
        return None
    return value.value.data
