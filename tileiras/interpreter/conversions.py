"""Conversions between element types, and reinterpretations of their bits.

`ftof` to an 8- or 4-bit format saturates to the largest finite value, as the hardware does;
`itof` overflows to infinity or NaN. `ftoi` outside the integer's range is undefined in the
specification unless saturating; here it always saturates, and NaN gives 0, but to i1 it tells
whether the number is not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import conversions as ct
from tileiras.interpreter.formats import (
    Array,
    Format,
    IntFormat,
    float_format_of,
    format_of,
    from_bits,
    int_format_of,
    to_bits,
)
from tileiras.interpreter.integer_arithmetic import is_signed
from tileiras.interpreter.rounding import round_to, to_odd, two_sum
from tileiras.interpreter.state import PureRule


def _source_type(op: Operation) -> Any:
    return op.operands[0].type.element_type  # pyright: ignore


def _result_type(op: Operation) -> Any:
    return op.results[0].type.element_type  # pyright: ignore


def _bitcast_rule(op: ct.BitcastOp, source: Array) -> Array:
    bits = to_bits(source, format_of(_source_type(op)))
    return from_bits(bits, format_of(_result_type(op)))


def _extend_rule(op: ct.ExtIOp, source: Array) -> Array:
    narrow, wide = int_format_of(_source_type(op)), int_format_of(_result_type(op))
    return wide.wrap(narrow.read(source, is_signed(op)))


def _truncate_rule(op: ct.TruncIOp, source: Array) -> Array:
    return int_format_of(_result_type(op)).wrap(source)


def _float_to_float_rule(op: ct.FToFOp, source: Array) -> Array:
    target = float_format_of(_result_type(op))
    saturates = target.bits <= 8
    return round_to(source.astype(np.float64), target, op.rounding_mode.data, saturates)


def _int_to_float_rule(op: ct.IToFOp, source: Array) -> Array:
    fmt, target = int_format_of(_source_type(op)), float_format_of(_result_type(op))
    values = fmt.read(source, is_signed(op))
    if target.name == "f64":
        return values.astype(np.float64)
    return round_to(odd_float64(values), target, op.rounding_mode.data)


def odd_float64(values: Array) -> Array:
    """Integers as float64, rounded to odd where they do not fit."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    low = (values & values.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32
    return to_odd(*two_sum(high, low))


def _float_to_int_rule(op: ct.FToIOp, source: Array) -> Array:
    fmt = int_format_of(_result_type(op))
    if fmt.bits == 1 and op.saturating is None:
        return fmt.wrap((source.astype(np.float64) != 0).astype(np.int64))
    return saturating_int(source.astype(np.float64), fmt, is_signed(op))


def saturating_int(values: Array, fmt: IntFormat, signed: bool) -> Array:
    """Truncates float64 toward zero into the integer's range; NaN gives 0."""
    low, high = fmt.limits(signed)
    wide = np.int64 if signed else np.uint64
    whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
    is_low, is_high = whole <= low, whole >= high
    inside = np.where(is_low | is_high, 0.0, whole).astype(wide)
    return fmt.wrap(np.where(is_high, wide(high), np.where(is_low, wide(low), inside)))


def packed_bytes(values: Array, fmt: Format) -> Array:
    """The elements one after another without padding, as uint8; the first in the low bits."""
    bits = to_bits(values, fmt)
    match _packed_width(fmt):
        case 1:
            return np.packbits(bits, bitorder="little")
        case 4:
            return bits[0::2] | (bits[1::2] << np.uint8(4))
    return np.ascontiguousarray(bits).view(np.uint8)


def unpacked_elements(data: Array, fmt: Format) -> Array:
    """The inverse of `packed_bytes`."""
    match _packed_width(fmt):
        case 1:
            return from_bits(np.unpackbits(data, bitorder="little"), fmt)
        case 4:
            halves = np.stack((data & np.uint8(15), data >> np.uint8(4)), axis=-1)
            return from_bits(halves.reshape(-1), fmt)
    return from_bits(np.ascontiguousarray(data).view(fmt.storage), fmt)


def _packed_width(fmt: Format) -> int:
    return fmt.bits if fmt.bits < 8 else 8 * fmt.storage.itemsize


def _pack_rule(op: ct.PackOp, source: Array) -> Array:
    return packed_bytes(source, format_of(_source_type(op))).view(np.int8)


def _unpack_rule(op: ct.UnpackOp, source: Array) -> Array:
    return unpacked_elements(source.view(np.uint8), format_of(_result_type(op)))


def _same(op: Operation, source: Array) -> Array:
    return source


RULES: dict[type[Operation], PureRule] = {
    ct.BitcastOp: _bitcast_rule,
    ct.ExtIOp: _extend_rule,
    ct.FToFOp: _float_to_float_rule,
    ct.FToIOp: _float_to_int_rule,
    ct.IntToPtrOp: _same,
    ct.IToFOp: _int_to_float_rule,
    ct.PtrToIntOp: _same,
    ct.PtrToPtrOp: _same,
    ct.TruncIOp: _truncate_rule,
    ct.PackOp: _pack_rule,
    ct.UnpackOp: _unpack_rule,
}
"""Conversions by class."""
