"""The intrinsics and library functions that may be called, as rows.

LLVM emits a call of a missing function for an unknown `llvm.nvvm` name, and ends the whole process
when it cannot lower an intrinsic for a type. So only what is known to work is let through: every
row here was compiled to PTX for sm_80, sm_90a and sm_120a with LLVM 22 (tests/codegen).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FLOATS = ("half", "bfloat", "float", "double")
INTEGERS = ("i8", "i16", "i32", "i64")


@dataclass(frozen=True)
class IntrinsicRow:
    """How an intrinsic is spelled and used.

    `overloads` lists what its type suffix is made of: "result" or an operand number. `types` are
    the element types (of the last overload, else of the result) that lower. `vectors`: takes
    vectors as they are; else it is called per lane. `extra` are constant operands appended to every
    call.
    """

    name: str
    arity: int
    types: tuple[str, ...]
    overloads: tuple[str | int, ...] = ("result",)
    vectors: bool = True
    extra: str = ""


def _overloaded(
    names: str, arity: int, types: Sequence[str], extra: str = ""
) -> list[IntrinsicRow]:
    return [
        IntrinsicRow(f"llvm.{name}", arity, tuple(types), extra=extra) for name in names.split()
    ]


def _scalar(names: str, arity: int, type: str) -> list[IntrinsicRow]:
    return [
        IntrinsicRow(f"llvm.nvvm.{name}", arity, (type,), overloads=(), vectors=False)
        for name in names.split()
    ]


def _rounded(base: str, arity: int) -> list[IntrinsicRow]:
    """`base` in all four rounding modes for f32 (with ftz) and f64."""
    modes = ("rn", "rz", "rm", "rp")
    singles = [f"{base}.{mode}{ftz}.f" for mode in modes for ftz in ("", ".ftz")]
    doubles = [f"{base}.{mode}.d" for mode in modes]
    return _scalar(" ".join(singles), arity, "float") + _scalar(" ".join(doubles), arity, "double")


def _conversions() -> list[IntrinsicRow]:
    """Integer to float with a rounding mode (`i2f`, `ull2d`, ...), and f64 to f32."""
    rows: list[IntrinsicRow] = []
    for mode in ("rn", "rz", "rm", "rp"):
        for source in ("i", "ui", "ll", "ull"):
            rows += _scalar(f"{source}2f.{mode}", 1, "float")
        rows += _scalar(f"ll2d.{mode} ull2d.{mode}", 1, "double")
        rows += _scalar(f"d2f.{mode} d2f.{mode}.ftz", 1, "float")
    return rows


def _saturating() -> list[IntrinsicRow]:
    return [
        IntrinsicRow(
            f"llvm.{name}.sat", 1, ("half", "float", "double"), ("result", 0), vectors=True
        )
        for name in ("fptosi", "fptoui")
    ]


_ROWS = (
    *_overloaded("fma", 3, FLOATS),
    *_overloaded("sqrt fabs floor ceil trunc rint roundeven", 1, FLOATS),
    *_overloaded("minnum maxnum minimum maximum copysign", 2, FLOATS),
    *_overloaded("exp2", 1, ("half", "bfloat", "float")),
    *_overloaded("smin smax umin umax", 2, INTEGERS),
    *_overloaded("abs", 1, INTEGERS, extra="i1 false"),
    *_overloaded("ctlz cttz", 1, INTEGERS, extra="i1 false"),
    *_overloaded("ctpop bitreverse", 1, INTEGERS),
    *_overloaded("fshl fshr", 3, INTEGERS),
    *_saturating(),
    *_rounded("add", 2),
    *_rounded("mul", 2),
    *_rounded("div", 2),
    *_rounded("fma", 3),
    *_rounded("sqrt", 1),
    *_rounded("rcp", 1),
    *_conversions(),
    *_scalar("lg2.approx.f lg2.approx.ftz.f rsqrt.approx.f rsqrt.approx.ftz.f", 1, "float"),
    *_scalar("sqrt.approx.f sqrt.approx.ftz.f rcp.approx.ftz.f", 1, "float"),
    *_scalar("sin.approx.f sin.approx.ftz.f cos.approx.f cos.approx.ftz.f", 1, "float"),
    *_scalar("div.approx.f div.approx.ftz.f div.full div.full.ftz", 2, "float"),
    *_scalar(
        "fmin.ftz.f fmin.nan.f fmin.ftz.nan.f fmax.ftz.f fmax.nan.f fmax.ftz.nan.f", 2, "float"
    ),
    *_scalar("rsqrt.approx.d", 1, "double"),
    *_scalar("mulhi.i mulhi.ui", 2, "i32"),
    *_scalar("mulhi.ll mulhi.ull", 2, "i64"),
    *_scalar("prmt", 3, "i32"),
)

INTRINSICS: dict[str, IntrinsicRow] = {row.name: row for row in _ROWS}
"""Callable intrinsics by base name."""

VOID_INTRINSICS = (
    "llvm.trap",
    "llvm.nvvm.membar.cta",
    "llvm.nvvm.membar.gl",
    "llvm.nvvm.membar.sys",
)
"""Intrinsics without operands and result."""

_LIBDEVICE_UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "cospi"),
    *(
        "erf",
        "erfc",
        "erfcinv",
        "erfcx",
        "erfinv",
        "exp",
        "exp10",
        "exp2",
        "expm1",
        "fabs",
        "floor",
    ),
    *("j0", "j1", "lgamma", "log", "log10", "log1p", "log2", "logb", "normcdf", "normcdfinv"),
    *("rcbrt", "rint", "round", "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma"),
    *("trunc", "y0", "y1"),
)
_LIBDEVICE_BINARY = ("atan2", "fdim", "fmod", "hypot", "nextafter", "pow", "remainder", "copysign")

LIBDEVICE: dict[str, tuple[int, str]] = {
    f"__nv_{name}{suffix}": (arity, type)
    for names, arity in ((_LIBDEVICE_UNARY, 1), (_LIBDEVICE_BINARY, 2))
    for name in names
    for suffix, type in (("f", "float"), ("", "double"))
}
"""libdevice functions on floats: number of operands and their (and the result's) type."""

NEAR = {f"__nv_{name}f.near": f"__nv_{name}f" for name in ("sin", "cos", "tan")}
"""The same functions where the argument's size is known to be less than `NEAR_LIMIT`."""
NEAR_LIMIT = 105615.0
"""Fixed: from here on libdevice reduces arguments of f32 by all digits of 2 / pi, in a loop (CUDA
C++ Programming Guide, "Mathematical Functions": the slow path of `sinf`)."""
LIBDEVICE |= {near: LIBDEVICE[name] for near, name in NEAR.items()}

RUNTIME_FUNCTIONS = {
    "vprintf": ("i32", ("ptr", "ptr")),
    "malloc": ("ptr", ("i64",)),
    "free": ("void", ("ptr",)),
    "__assertfail": ("void", ("ptr", "ptr", "i32", "ptr", "i64")),
}
"""Device runtime functions that the driver provides, with result and operand types."""
