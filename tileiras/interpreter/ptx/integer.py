"""Integer arithmetic, logic and shifts (PTX ISA, "Integer Arithmetic Instructions", "Logic and
Shift Instructions"), on whole arrays; results wrap as the ISA says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.carries import high_product, multiply_add_carry
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, Write
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.types import PRED, TYPES, U32, PtxType

Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]


def binary(read_a: Read, read_b: Read, write: Write, function: Callable[..., Any]) -> Execute:
    """An instruction `d = function(a, b)`."""
    return lambda cta, on: write(cta, on, function(read_a(cta), read_b(cta)))


def unary(read: Read, write: Write, function: Callable[..., Any]) -> Execute:
    """An instruction `d = function(a)`."""
    return lambda cta, on: write(cta, on, function(read(cta)))


def saturated(wide: np.ndarray, type_: PtxType) -> np.ndarray:
    """int64 values limited to the range of a type."""
    info = np.iinfo(type_.seen)
    return np.clip(wide, info.min, info.max).astype(type_.seen)


def halves(values: np.ndarray, is_signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 16 bits of 32-bit words."""
    pairs = values.view(np.int16 if is_signed else np.uint16).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """32-bit words of two 16-bit halves."""
    low, high = np.broadcast_arrays(low.view(np.uint16), high.view(np.uint16))
    return np.stack((low, high), axis=1).view(np.uint32)[:, 0]


def packed(function: Binary, is_signed: bool) -> Binary:
    """A function of 16-bit integers on both halves of words."""

    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        pairs = zip(halves(a, is_signed), halves(b, is_signed))
        return joined(*(function(x, y) for x, y in pairs))

    return both


def integer_binary(
    d: Decoder, type_: PtxType, function: Binary, saturates: bool = False
) -> Execute:
    """`add`, `sub`, `min`, `max` of integers, also packed pairs and quadruples."""
    d.count(3)
    read_a, read_b, write = d.src(1, type_), d.src(2, type_), d.dst(0, type_)
    if type_.name in ("u16x2", "s16x2"):
        return binary(read_a, read_b, write, packed(function, type_.name[0] == "s"))
    if type_.name in ("u8x4", "s8x4"):
        kind = np.int8 if type_.name[0] == "s" else np.uint8

        def bytewise(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            x, y = np.broadcast_arrays(
                *(np.atleast_2d(v.view(kind).reshape(-1, 4)) for v in (a, b))
            )
            return np.ascontiguousarray(function(x, y)).view(np.uint32)[:, 0]

        return binary(read_a, read_b, write, bytewise)
    if saturates:

        def limited(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return saturated(function(a.astype(np.int64), b.astype(np.int64)), type_)

        return binary(read_a, read_b, write, limited)
    return binary(read_a, read_b, write, function)


def _wider(d: Decoder, type_: PtxType) -> PtxType:
    if type_.bits == 64:
        d.error(".wide of 64 bits")
    return TYPES[f"{type_.name[0]}{2 * type_.bits}"]


def multiply_integers(d: Decoder, type_: PtxType) -> Execute:
    """`mul.{hi,lo,wide}` of integers."""
    d.count(3)
    match d.choice("hi", "lo", "wide"):
        case "lo":
            return binary(d.src(1, type_), d.src(2, type_), d.dst(0, type_), np.multiply)
        case "hi":
            return binary(d.src(1, type_), d.src(2, type_), d.dst(0, type_), high_product)
        case "wide":
            wide = _wider(d, type_)

            def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
                return a.astype(wide.seen) * b.astype(wide.seen)

            return binary(d.src(1, type_), d.src(2, type_), d.dst(0, wide), product)
    return d.error("expected .hi, .lo or .wide")


def multiply_add_integers(d: Decoder, type_: PtxType) -> Execute:
    """`mad.{hi,lo,wide}` of integers; `.hi.sat.s32` saturates; `.cc` is `multiply_add_carry`."""
    d.count(4)
    if "cc" in d.modifiers or d.opcode == "madc":
        return multiply_add_carry(d, type_)
    saturates = d.flag("sat")
    part = d.choice("hi", "lo", "wide")
    if part is None:
        d.error("expected .hi, .lo or .wide")
    result = _wider(d, type_) if part == "wide" else type_
    read_a, read_b, read_c = d.src(1, type_), d.src(2, type_), d.src(3, result)
    write = d.dst(0, result)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if part == "hi":
            return high_product(*np.broadcast_arrays(a, b))
        return a.astype(result.seen) * b.astype(result.seen)

    def run(cta: Any, on: Any) -> None:
        value = product(read_a(cta), read_b(cta))
        if saturates:
            wide = value.astype(np.int64) + read_c(cta).astype(np.int64)
            write(cta, on, saturated(wide, result))
            return
        write(cta, on, value + read_c(cta))

    return run


@rule("mad24", "mul24")
def multiply_24_bits(d: Decoder) -> Execute:
    """The product of the low 24 bits, its low 32 or high 32 of 48 bits."""
    type_ = d.type()
    part = d.choice("hi", "lo")
    saturates = d.flag("sat")
    is_mad = d.opcode == "mad24"
    reads = [d.src(i, type_) for i in range(1, 4 if is_mad else 3)]
    write = d.dst(0, type_)

    def low24(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.int64)
        return wide << 40 >> 40 if type_.is_signed else wide & 0xFFFFFF

    def run(cta: Any, on: Any) -> None:
        product = low24(reads[0](cta)) * low24(reads[1](cta))
        value = product >> 16 if part == "hi" else (product << 32 >> 32)
        if is_mad:
            value = value + reads[2](cta).astype(np.int64)
        write(cta, on, saturated(value, type_) if saturates else value.astype(type_.seen))

    return run


def _truncated_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division toward zero; by zero gives all ones, as NVIDIA GPUs do (ISA: unspecified)."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~a.dtype.type(0), a // safe)
    quotient = a // safe
    exact = quotient * safe == a
    below = ((a < 0) != (safe < 0)) & ~exact
    return np.where(b == 0, a.dtype.type(-1), quotient + below.astype(a.dtype))


def divide_integers(d: Decoder, type_: PtxType) -> Execute:
    """`div` of integers."""
    d.count(3)
    return binary(d.src(1, type_), d.src(2, type_), d.dst(0, type_), _truncated_quotient)


@rule("rem")
def remainder(d: Decoder) -> Execute:
    """`a - a / b * b`; by zero gives `a`."""
    type_ = d.type()
    d.count(3)

    def rest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(b == 0, a, a - _truncated_quotient(a, b) * b)

    return binary(d.src(1, type_), d.src(2, type_), d.dst(0, type_), rest)


@rule("sad")
def sum_of_absolute_differences(d: Decoder) -> Execute:
    """`|a - b| + c`."""
    type_ = d.type()
    d.count(4)
    reads = [d.src(i, type_) for i in (1, 2, 3)]
    write = d.dst(0, type_)

    def run(cta: Any, on: Any) -> None:
        a, b, c = (read(cta) for read in reads)
        write(cta, on, np.maximum(a, b) - np.minimum(a, b) + c)

    return run


_LOGIC: dict[str, Binary] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@rule("and", "or", "xor")
def logic(d: Decoder) -> Execute:
    """Bitwise logic, also of predicates."""
    type_ = d.type()
    d.count(3)
    return binary(d.src(1, type_), d.src(2, type_), d.dst(0, type_), _LOGIC[d.opcode])


@rule("not")
def complement(d: Decoder) -> Execute:
    """Inverts every bit."""
    type_ = d.type()
    d.count(2)
    return unary(d.src(1, type_), d.dst(0, type_), np.invert)


@rule("cnot")
def logical_negation(d: Decoder) -> Execute:
    """1 for zero, 0 for anything else."""
    type_ = d.type()
    return unary(d.src(1, type_), d.dst(0, type_), lambda a: (a == 0).astype(type_.seen))


@rule("lop3")
def three_input_logic(d: Decoder) -> Execute:
    """A truth table of three inputs: bit `4a + 2b + c` of the table; `.and p|...` forms too."""
    type_ = d.type()
    combine = d.choice("and", "or")
    reads = [d.src(i, type_) for i in (1, 2, 3)]
    table = int(getattr(d.operands[4], "value", -1))
    result, flag = d.pair(0)
    write = d.dst(result, type_)
    write_flag = d.dst(flag, PRED) if combine else None
    read_flag = d.src(5, PRED) if combine else None

    def run(cta: Any, on: Any) -> None:
        a, b, c = (read(cta) for read in reads)
        value = np.zeros(cta.threads, type_.seen)
        for row in range(8):
            if table >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                value |= x & y & (c if row & 1 else ~c)
        write(cta, on, value)
        if write_flag and read_flag:
            nonzero = value != 0
            before = read_flag(cta)
            write_flag(cta, on, nonzero & before if combine == "and" else nonzero | before)

    return run


@rule("shl", "shr")
def shift(d: Decoder) -> Execute:
    """Shifts; amounts beyond the width give zero, or the sign for `shr.s`."""
    type_ = d.type()
    d.count(3)
    read, amount, write = d.src(1, type_), d.src(2, U32), d.dst(0, type_)
    limit, kind = type_.bits, type_.seen.type
    is_left = d.opcode == "shl"

    def run(cta: Any, on: Any) -> None:
        value, by = read(cta), amount(cta)
        inside = np.minimum(by, limit - 1).astype(type_.seen)
        if is_left:
            moved = value << inside
        else:
            moved = value >> inside
        if is_left or not type_.is_signed:
            moved = np.where(by >= limit, kind(0), moved)
        write(cta, on, moved)

    return run


@rule("shf")
def funnel_shift(d: Decoder) -> Execute:
    """`shf.{l,r}.{wrap,clamp}`: a 64-bit value `b:a` shifted, its upper or lower half."""
    d.type()
    is_left = d.choice("l", "r") == "l"
    wraps = d.choice("wrap", "clamp") == "wrap"
    low, high, amount = (d.src(i, U32) for i in (1, 2, 3))
    write = d.dst(0, U32)

    def run(cta: Any, on: Any) -> None:
        by = amount(cta)
        by = by & np.uint32(31) if wraps else np.minimum(by, np.uint32(32))
        value = (high(cta).astype(np.uint64) << np.uint64(32)) | low(cta)
        by = by.astype(np.uint64)
        if is_left:
            write(cta, on, ((value << by) >> np.uint64(32)).astype(np.uint32))
        else:
            write(cta, on, (value >> by).astype(np.uint32))

    return run


@rule("bfe")
def bit_field_extract(d: Decoder) -> Execute:
    """The field of `c` bits at bit `b`, sign-extended for signed types."""
    type_ = d.type()
    d.count(4)
    read, start, length = d.src(1, type_), d.src(2, U32), d.src(3, U32)
    write = d.dst(0, type_)
    bits, held = type_.bits, type_.held.type

    def run(cta: Any, on: Any) -> None:
        value = read(cta).view(type_.held)
        at = (start(cta) & np.uint32(255)).astype(np.int64)
        size = (length(cta) & np.uint32(255)).astype(np.int64)
        shifted = np.where(at >= bits, held(0), value >> np.minimum(at, bits - 1).astype(held))
        inside = np.clip(np.minimum(size, bits - at), 0, bits)
        one = held(1) << np.minimum(inside, bits - 1).astype(held)
        ones = np.where(inside >= bits, ~held(0), one - held(1))
        field = shifted & ones
        if type_.is_signed:
            top = np.clip(at + size - 1, 0, bits - 1)
            sign = (value >> top.astype(held)) & held(1)
            field = np.where((sign != 0) & (size > 0), field | ~ones, field)
        write(cta, on, field)

    return run


@rule("bfi")
def bit_field_insert(d: Decoder) -> Execute:
    """`b` with `d` bits at bit `c` replaced by the low bits of `a`."""
    type_ = d.type()
    d.count(5)
    reads = [d.src(1, type_), d.src(2, type_), d.src(3, U32), d.src(4, U32)]
    write = d.dst(0, type_)
    bits, held = type_.bits, type_.held.type

    def run(cta: Any, on: Any) -> None:
        a, b, start, length = (read(cta) for read in reads)
        at = (start & np.uint32(255)).astype(np.int64)
        size = (length & np.uint32(255)).astype(np.int64)
        ones = np.where(
            size >= bits, ~held(0), (held(1) << np.minimum(size, bits - 1).astype(held)) - held(1)
        )
        near = np.minimum(at, bits - 1).astype(held)
        field = np.where(at >= bits, held(0), ones << near)
        write(cta, on, (b & ~field) | ((a << near) & field))

    return run


@rule("bmsk")
def bit_mask(d: Decoder) -> Execute:
    """`b` ones from bit `a` on; `.clamp` and `.wrap` limit both."""
    d.type()
    wraps = d.choice("clamp", "wrap") == "wrap"
    start, length, write = d.src(1, U32), d.src(2, U32), d.dst(0, U32)

    def run(cta: Any, on: Any) -> None:
        at, size = start(cta).astype(np.uint64), length(cta).astype(np.uint64)
        if wraps:
            at, size = at & np.uint64(31), size & np.uint64(31)
        at, size = np.minimum(at, np.uint64(32)), np.minimum(size, np.uint64(32))
        ones = (np.uint64(1) << size) - np.uint64(1)
        write(cta, on, (ones << at).astype(np.uint32))

    return run


@rule("szext")
def sign_or_zero_extend(d: Decoder) -> Execute:
    """Extends the low `b` bits."""
    type_ = d.type()
    wraps = d.choice("clamp", "wrap") == "wrap"
    read, length, write = d.src(1, type_), d.src(2, U32), d.dst(0, type_)

    def run(cta: Any, on: Any) -> None:
        size = length(cta).astype(np.int64)
        size = size & 31 if wraps else np.minimum(size, 32)
        wide = read(cta).astype(np.int64)
        by = 64 - size
        cut = np.where(size == 0, 0, wide << np.minimum(by, 63))
        if type_.is_signed:
            value = cut >> np.minimum(by, 63)
        else:
            value = (cut.view(np.uint64) >> np.minimum(by, 63).astype(np.uint64)).view(np.int64)
        write(cta, on, value.astype(type_.seen))

    return run


def _reversed_bits(values: np.ndarray) -> np.ndarray:
    width = values.dtype.itemsize
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
    bits = np.unpackbits(raw[:, ::-1], axis=1)
    return np.packbits(bits[:, ::-1], axis=1)[:, ::-1].copy().view(values.dtype)[:, 0]


@rule("brev")
def bit_reverse(d: Decoder) -> Execute:
    """The bits in the opposite order."""
    type_ = d.type()
    return unary(d.src(1, type_), d.dst(0, type_), _reversed_bits)


def count_leading_zeros(values: np.ndarray) -> np.ndarray:
    """Leading zeros of unsigned integers."""
    bits = values.dtype.itemsize * 8
    count = np.zeros(values.shape, np.uint32)
    rest = values.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            empty = rest >> np.uint64(bits - step) == 0
            count += np.where(empty, np.uint32(step), np.uint32(0))
            rest = np.where(empty, rest << np.uint64(step), rest)
            rest &= np.uint64((1 << bits) - 1)
    return count + (values == 0).astype(np.uint32)


@rule("clz")
def leading_zeros(d: Decoder) -> Execute:
    """Leading zeros, the width for zero."""
    type_ = d.type()
    return unary(d.src(1, type_), d.dst(0, U32), count_leading_zeros)


@rule("popc")
def population_count(d: Decoder) -> Execute:
    """The number of ones."""
    type_ = d.type()

    def ones(values: np.ndarray) -> np.ndarray:
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        return np.unpackbits(raw, axis=1).sum(axis=1, dtype=np.uint32)

    return unary(d.src(1, type_), d.dst(0, U32), ones)


@rule("bfind")
def find_leading_bit(d: Decoder) -> Execute:
    """The highest bit that is set (for signed negative: clear), all ones if none."""
    type_ = d.type()
    is_shift = d.flag("shiftamt")
    read, write = d.src(1, type_), d.dst(0, U32)
    top = np.uint32(type_.bits - 1)

    def position(values: np.ndarray) -> np.ndarray:
        raw = np.where(values < 0, ~values, values) if type_.is_signed else values
        zeros = count_leading_zeros(raw.view(type_.held))
        found = zeros if is_shift else top - zeros
        return np.where(raw == 0, np.uint32(0xFFFFFFFF), found)

    return unary(read, write, position)


@rule("fns")
def find_nth_set(d: Decoder) -> Execute:
    """The position of the n-th set bit from a base upward (n > 0) or downward (n < 0)."""
    d.type()
    mask, base, offset = d.src(1, U32), d.src(2, U32), d.src(3, TYPES["s32"])
    write = d.dst(0, U32)

    def one(bits: int, start: int, count: int) -> int:
        step = 1 if count >= 0 else -1
        wanted, at = max(abs(count), 1), start
        if count == 0:
            return start if bits >> start & 1 else 0xFFFFFFFF
        while 0 <= at < 32:
            wanted -= bits >> at & 1
            if not wanted:
                return at
            at += step
        return 0xFFFFFFFF

    def run(cta: Any, on: Any) -> None:
        arrays = (np.broadcast_to(r(cta), cta.threads) for r in (mask, base, offset))
        found = [one(int(m), int(b), int(n)) for m, b, n in zip(*arrays)]
        write(cta, on, np.array(found, np.uint32))

    return run


@rule("prmt")
def permute_bytes(d: Decoder) -> Execute:
    """Picks bytes of `b:a` by four selectors; bit 3 of a selector spreads the sign."""
    mode = d.choice("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    d.type()
    low, high, select = (d.src(i, U32) for i in (1, 2, 3))
    write = d.dst(0, U32)

    def selectors(control: np.ndarray) -> np.ndarray:
        place = np.arange(4, dtype=np.int64)
        if mode is None:
            return control[:, None].astype(np.int64) >> (4 * place) & 15
        s = (control & np.uint32(3)).astype(np.int64)[:, None]
        match mode:
            case "f4e":
                return s + place
            case "b4e":
                return (s - place) & 7
            case "rc8":
                return s + 0 * place
            case "ecl":
                return np.maximum(place, s)
            case "ecr":
                return np.minimum(place, s)
        return (s & 1) * 2 + (place & 1)

    def run(cta: Any, on: Any) -> None:
        a, b, c = np.broadcast_arrays(low(cta), high(cta), select(cta))
        source = np.concatenate(
            (a[:, None].copy().view(np.uint8), b[:, None].copy().view(np.uint8)), axis=1
        )
        chosen = selectors(c)
        picked = np.take_along_axis(source, chosen & 7, axis=1)
        if mode is None:
            sign = np.where(picked >= 128, np.uint8(255), np.uint8(0))
            picked = np.where(chosen & 8, sign, picked)
        write(cta, on, np.ascontiguousarray(picked).view(np.uint32)[:, 0])

    return run


@rule("dp4a", "dp2a")
def dot_product_accumulate(d: Decoder) -> Execute:
    """Sums of products of packed bytes (`dp2a`: 16-bit by byte halves)."""
    type_b, type_a = d.type(), d.type()
    part = d.choice("lo", "hi")
    result = TYPES["s32"] if type_a.is_signed or type_b.is_signed else U32
    reads = [d.src(1, U32), d.src(2, U32), d.src(3, result)]
    write = d.dst(0, result)

    def parts(values: np.ndarray, type_: PtxType, width: int) -> np.ndarray:
        kind = f"{'i' if type_.is_signed else 'u'}{width}"
        return np.ascontiguousarray(values).view(kind).reshape(len(values), -1).astype(np.int64)

    def run(cta: Any, on: Any) -> None:
        a, b = np.broadcast_arrays(reads[0](cta), reads[1](cta))
        x = parts(a, type_a, 1 if d.opcode == "dp4a" else 2)
        y = parts(b, type_b, 1)
        if part:
            y = y[:, 2:] if part == "hi" else y[:, :2]
        total = (x * y).sum(axis=1) + reads[2](cta).astype(np.int64)
        write(cta, on, (total & 0xFFFFFFFF).astype(np.uint32))

    return run
