"""Calls of intrinsics, of libdevice's functions, and of the device runtime's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.llvm import calls
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads.arithmetic import floats
from tileiras.interpreter.threads.device_runtime import FUNCTIONS, call_by_one_thread
from tileiras.interpreter.threads.inline_ptx import run_ptx_text
from tileiras.interpreter.threads.intrinsics import INTRINSICS, via_float64
from tileiras.interpreter.threads.state import Lockstep, Rule

_LIBDEVICE: dict[str, Callable[..., np.ndarray]] = {
    "atan2": np.arctan2,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "fmod": np.fmod,
    "log": np.log,
    "log2": np.log2,
    "pow": np.power,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}

LIBDEVICE: dict[str, Rule] = {
    f"__nv_{name}{suffix}": floats(via_float64(compute))
    for name, compute in _LIBDEVICE.items()
    for suffix in ("", "f", "f.near")
}
"""Functions of libdevice: computed in float64, rounded once."""

CALLEES: dict[str, Rule] = {
    **LIBDEVICE,
    **{name: partial(call_by_one_thread, act) for name, act in FUNCTIONS.items()},
}
"""Functions by name."""


def _called(table: dict[str, Rule], name: str, what: str) -> Rule:
    rule = table.get(name)
    if rule is None:
        raise UnknownOperationError(f"the interpreter has no {what} {name}")
    return rule


def _intrinsic(run: Lockstep, op: calls.CallIntrinsicOp) -> Any:
    name = op.callee.data.removeprefix("llvm.")
    return _called(INTRINSICS, name, "intrinsic")(run, op)


def _function(run: Lockstep, op: calls.CallOp) -> Any:
    return _called(CALLEES, op.callee.data, "function")(run, op)


RULES: dict[type[Operation], Rule] = {
    calls.CallIntrinsicOp: _intrinsic,
    calls.CallOp: _function,
    calls.InlineAsmOp: run_ptx_text,
}
"""Operations that call something."""
