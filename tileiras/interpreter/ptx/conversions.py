"""`cvt` (PTX ISA, "cvt", "cvt.pack"): between integers, floats and packed small floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.floating import fuse, split
from tileiras.interpreter.ptx.formats import (
    FORMATS,
    FloatFormat,
    decode,
    encode,
    flush,
    round_to,
    sum_with_error,
    to_integral,
    to_odd,
)
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.types import TYPES, PtxType

_MODES = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
_SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0")


@rule("cvt")
def convert(d: Decoder) -> Execute:
    """`cvt{.mode}{.ftz}{.sat}{.satfinite}{.relu}.to.from d, a{, b}`."""
    if d.flag("pack"):
        return _convert_pack(d)
    from_, to = d.type(), d.type()
    if d.flag("rs"):
        d.error("stochastic rounding is not supported")
    mode = d.choice(*_MODES)
    ftz, sat = d.flag("ftz"), d.flag("sat")
    finite, relu = d.flag("satfinite"), d.flag("relu")
    if d.flag("scaled::n2::ue8m0"):
        d.error("not supported")
    if to.is_packed or from_.is_packed:
        return _convert_packed(d, from_, to, mode or "rn", finite, relu)
    d.count(2)
    read, write = d.src(1, from_, widens=True), d.dst(0, to, widens=True)
    if from_.is_integer and to.is_integer:
        return lambda cta, on: write(cta, on, _integer_to_integer(read(cta), to, sat))
    if from_.is_integer:
        return lambda cta, on: write(cta, on, _integer_to_float(read(cta), to, mode or "rn", sat))
    values = _float_reader(read, from_, ftz)
    if to.is_integer:
        has_wide_nan = from_.name == "f64" or to.bits == 64
        rounding = mode or "rzi"
        return lambda cta, on: write(
            cta, on, float_to_integer(values(cta), to, rounding, has_wide_nan)
        )
    return _float_to_float(d, values, from_, to, mode, ftz, sat, finite, relu)


def _float_reader(read: Read, type_: PtxType, ftz: bool) -> Read:
    if type_.name == "f64":
        return read
    fmt = FORMATS[type_.name]
    if ftz and type_.name == "f32":
        return lambda cta: flush(split(read(cta), type_)[0], fmt)
    return lambda cta: split(read(cta), type_)[0]


def _integer_to_integer(values: np.ndarray, to: PtxType, sat: bool) -> np.ndarray:
    if not sat:
        return values.astype(to.seen)
    info, own = np.iinfo(to.seen), np.iinfo(values.dtype)
    low, high = max(info.min, own.min), min(info.max, own.max)
    return np.clip(values, values.dtype.type(low), values.dtype.type(high)).astype(to.seen)


def _integer_to_float(values: np.ndarray, to: PtxType, mode: str, sat: bool) -> np.ndarray:
    if values.dtype.itemsize < 8:
        total, error = values.astype(np.float64), np.zeros(values.shape)
    else:
        top = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32
        low = (values & values.dtype.type(0xFFFFFFFF)).astype(np.float64)
        total, error = sum_with_error(top, low)
    if to.name == "f64":
        return _directed_double(total, error, mode)
    result = round_to(to_odd(total, error), FORMATS[to.name], mode)
    if sat:
        result = np.clip(result, 0.0, 1.0)
    return fuse([result], to)


def _directed_double(total: np.ndarray, error: np.ndarray, mode: str) -> np.ndarray:
    """A float64 sum with its error, rounded by a mode."""
    toward_low = (mode == "rm") | ((mode == "rz") & (total > 0))
    toward_high = (mode == "rp") | ((mode == "rz") & (total < 0))
    lower = np.where(toward_low & (error < 0), np.nextafter(total, -np.inf), total)
    return np.where(toward_high & (error > 0), np.nextafter(total, np.inf), lower)


def float_to_integer(values: np.ndarray, to: PtxType, mode: str, has_wide_nan: bool) -> np.ndarray:
    """Rounds and saturates; NaN becomes 0, or the top bit alone (from f64, or to 64 bits)."""
    info = np.iinfo(to.seen)
    is_nan = np.isnan(values)
    whole = to_integral(np.where(is_nan, 0.0, values), mode)
    is_high, is_low = whole >= 2.0 ** (to.bits - to.is_signed), whole <= float(info.min)
    inside = np.where(is_high | is_low, 0.0, whole)
    result = inside.astype(np.int64 if to.is_signed else np.uint64).astype(to.seen)
    result = np.where(is_high, to.seen.type(info.max), result)
    result = np.where(is_low, to.seen.type(info.min), result)
    if has_wide_nan and is_nan.any():
        top = np.array([1 << (to.bits - 1)], to.held).view(to.seen)
        result = np.where(is_nan, top, result)
    return result


def _float_to_float(
    d: Decoder,
    values: Read,
    from_: PtxType,
    to: PtxType,
    mode: str | None,
    ftz: bool,
    sat: bool,
    finite: bool,
    relu: bool,
) -> Execute:
    write = d.dst(0, to, widens=True)
    integral = mode if mode and mode.endswith("i") else None
    rounding = "rn" if integral or mode is None else mode
    nan = _nan_of(d, from_, to)

    def run(cta: Any, on: Any) -> None:
        value = values(cta)
        if integral:
            value = np.copysign(to_integral(value, integral), value)
        if to.name == "f64":
            result = np.where(np.isnan(value), 0.0, np.clip(value, 0, 1)) if sat else value
            write(cta, on, result)
            return
        bits = encode(_narrow(value, FORMATS[to.name]), FORMATS[to.name])
        write(cta, on, np.where(np.isnan(value), nan(cta), bits) if nan and not sat else bits)

    def _narrow(value: np.ndarray, fmt: FloatFormat) -> np.ndarray:
        result = round_to(value, fmt, rounding, finite)
        if ftz and to.name == "f32":
            result = flush(result, fmt)
        if sat:
            result = np.where(np.isnan(result), 0.0, np.clip(result, 0.0, 1.0)) + 0.0
        if relu:
            result = np.where(result <= 0, 0.0, result)
        return result

    return run


def _nan_of(d: Decoder, from_: PtxType, to: PtxType) -> Read | None:
    """The bits that NaN becomes, where they are not the canonical ones (measured on an
    H200): from f64 quiet with the upper payload, bf16 as it is, tf32 without low bits."""
    bits = d.src(1, TYPES[f"b{from_.bits}"], widens=True)
    match from_.name, to.name:
        case "f64", "f32":
            return lambda cta: bits(cta).view(np.float64).astype(np.float32).view(np.uint32)
        case "f64", "f16":
            return lambda cta: (
                (bits(cta) >> np.uint64(48) & np.uint64(0x8000))
                | (bits(cta) >> np.uint64(42) & np.uint64(0x3FF))
                | np.uint64(0x7E00)
            ).astype(np.uint16)
        case "bf16", "f32":
            return lambda cta: bits(cta).astype(np.uint32) << np.uint32(16)
        case "f32", "tf32":
            return lambda cta: np.full(1, 0x7FFFE000, np.uint32)
    return None


# Packed ---------------------------------------------------------------------------------------


def _scalar(type_: PtxType) -> tuple[str, int]:
    """The element's name and how many a packed type holds."""
    stem, _, count = type_.name.partition("x")
    return stem, int(count or 1)


def unpack_small(values: np.ndarray, type_: PtxType) -> list[np.ndarray]:
    """The float64 elements of a packed type, lowest first."""
    stem, count = _scalar(type_)
    if stem not in _SMALL:
        return split(values, type_)
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    if stem == "e2m1":
        raw = np.stack((raw & 15, raw >> 4), axis=2).reshape(len(values), -1)
    return [decode(np.ascontiguousarray(raw[:, i]), FORMATS[stem]) for i in range(count)]


def pack_small(parts: list[np.ndarray], type_: PtxType) -> np.ndarray:
    """The inverse of `unpack_small` for values that the format holds."""
    stem, _ = _scalar(type_)
    if stem not in _SMALL:
        return fuse(parts, type_)
    coded = np.stack([encode(part, FORMATS[stem]).astype(np.uint8) for part in parts], axis=1)
    if stem == "e2m1":
        coded = coded[:, 0::2] | coded[:, 1::2] << np.uint8(4)
    return np.ascontiguousarray(coded).view(type_.held)[:, 0]


def _convert_packed(
    d: Decoder, from_: PtxType, to: PtxType, mode: str, finite: bool, relu: bool
) -> Execute:
    """Two (or four) elements at once; of several operands the first is the highest part."""
    stem, count = _scalar(to)
    fmt = FORMATS[stem]
    write = d.dst(0, to, widens=True)
    sources: tuple[Any, ...] = tuple(d.operands[1:])
    if len(sources) == 1:
        sources = d.items(1)
    if len(sources) * _scalar(from_)[1] != count:
        d.error(f"{len(sources)} operands of .{from_.name} do not make .{to.name}")
    reads = [d.src(item, from_, widens=True) for item in reversed(sources)]

    def run(cta: Any, on: Any) -> None:
        parts = [part for read in reads for part in unpack_small(spread(read(cta), cta), from_)]
        rounded = [round_to(part, fmt, mode, finite) for part in parts]
        if finite and stem not in _SMALL:
            rounded = [np.clip(part, -fmt.max_finite, fmt.max_finite) for part in rounded]
        if relu:
            rounded = [np.where(part <= 0, 0.0, part) for part in rounded]
        write(cta, on, pack_small(rounded, to))

    return run


def _convert_pack(d: Decoder) -> Execute:
    """`cvt.pack.sat.to.s32{.b32} d, a, b{, c}`: two integers saturated and packed, above `c`."""
    if not d.flag("sat"):
        d.error("expected .sat")
    has_low = len(d.operands) == 4
    if has_low:
        d.type()
    d.type()
    name = d.modifiers.pop()
    signed, bits = name[0] == "s", int(name[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    s32, b32 = TYPES["s32"], TYPES["b32"]
    read_a, read_b, write = d.src(1, s32), d.src(2, s32), d.dst(0, b32)
    read_c = d.src(3, b32) if has_low else None

    def run(cta: Any, on: Any) -> None:
        mask = (1 << bits) - 1
        a = np.clip(read_a(cta).astype(np.int64), low, high) & mask
        b = np.clip(read_b(cta).astype(np.int64), low, high) & mask
        packed = (a << bits | b).astype(np.uint64)
        if read_c:
            packed = packed | read_c(cta).astype(np.uint64) << np.uint64(2 * bits)
        write(cta, on, packed.astype(np.uint32))

    return run
