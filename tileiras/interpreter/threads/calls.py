"""Calls: LLVM's intrinsics, libdevice, and the device runtime; inline PTX is a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.llvm import calls
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads.arithmetic import floats, integers, signed_integers
from tileiras.interpreter.threads.device_runtime import FUNCTIONS, call_by_one_thread
from tileiras.interpreter.threads.inline_ptx import run_ptx_text
from tileiras.interpreter.threads.state import Lockstep, Rule
from tileiras.interpreter.threads.values import Value


def _extremum(
    propagates_nan: bool, pick: Callable[[Any, Any], Any]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The maximum or minimum; -0 is less than +0, which numpy leaves open."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        picked = pick(a, b)
        is_negative = pick(~np.signbit(a), ~np.signbit(b)) == 0
        zero = np.where(is_negative, -0.0, 0.0).astype(picked.dtype)
        picked = np.where((a == 0) & (b == 0), zero, picked)
        if propagates_nan:
            return picked
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, picked))

    return compute


def _via_float64(compute: Callable[..., np.ndarray], flushes: bool = False) -> Rule:
    """A function computed in float64 and rounded once; with `flushes` subnormals are zero."""

    def flushed(value: np.ndarray) -> np.ndarray:
        tiny = np.finfo(np.float32).tiny
        return np.where(np.abs(value) < tiny, np.copysign(0.0, value), value)

    def act(*operands: np.ndarray) -> np.ndarray:
        wide = [operand.astype(np.float64) for operand in operands]
        if not flushes:
            return compute(*wide)
        result = compute(*map(flushed, wide)).astype(operands[0].dtype)
        return flushed(result)

    return floats(act)


def _permute_bytes(low: Value, high: Value, selector: Value, width: int) -> Value:
    """Bytes of two words, picked by the nibbles of a third (PTX ISA, "prmt")."""
    both = low | high << np.uint64(32)
    result = np.zeros_like(both)
    for byte in range(4):
        nibble = selector >> np.uint64(4 * byte)
        picked = both >> (nibble & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = np.where(picked & np.uint64(128), np.uint64(255), np.uint64(0))
        picked = np.where(nibble & np.uint64(8), sign, picked)
        result |= picked << np.uint64(8 * byte)
    return result


def _approximations() -> dict[str, Rule]:
    """NVVM's approximate functions, here correctly rounded."""
    functions: dict[str, Callable[..., np.ndarray]] = {
        "lg2": np.log2,
        "rsqrt": lambda a: 1.0 / np.sqrt(a),
        "sqrt": np.sqrt,
        "rcp": lambda a: 1.0 / a,
        "sin": np.sin,
        "cos": np.cos,
        "div": np.divide,
    }
    rules: dict[str, Rule] = {}
    for name, compute in functions.items():
        rules[f"nvvm.{name}.approx.f"] = _via_float64(compute)
        rules[f"nvvm.{name}.approx.ftz.f"] = _via_float64(compute, flushes=True)
    rules["nvvm.div.full"] = _via_float64(np.divide)
    rules["nvvm.div.full.ftz"] = _via_float64(np.divide, flushes=True)
    return rules


INTRINSICS: dict[str, Rule] = {
    "fma": floats(lambda a, b, c: a.astype(np.longdouble) * b + c),
    "sqrt": floats(np.sqrt),
    "fabs": floats(np.abs),
    "floor": floats(np.floor),
    "ceil": floats(np.ceil),
    "trunc": floats(np.trunc),
    "copysign": floats(np.copysign),
    "minnum": floats(_extremum(False, np.minimum)),
    "maxnum": floats(_extremum(False, np.maximum)),
    "minimum": floats(_extremum(True, np.minimum)),
    "maximum": floats(_extremum(True, np.maximum)),
    "exp2": floats(np.exp2),
    "smin": signed_integers(np.minimum),
    "smax": signed_integers(np.maximum),
    "umin": integers(lambda a, b, width: np.minimum(a, b)),
    "umax": integers(lambda a, b, width: np.maximum(a, b)),
    "abs": signed_integers(np.abs),
    "nvvm.prmt": integers(_permute_bytes),
    **_approximations(),
}
"""Intrinsics by name, without `llvm.`."""

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
    f"__nv_{name}{suffix}": _via_float64(compute)
    for name, compute in _LIBDEVICE.items()
    for suffix in ("", "f")
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
