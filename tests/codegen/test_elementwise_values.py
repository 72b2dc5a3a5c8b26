"""Values of elementwise lowerings that need no GPU instruction: integers and rounding by bits.

The LLVM IR of a scalar kernel is run on this machine's processor, with the address spaces and the
calling convention of a GPU ignored, and compared with exact arithmetic in Python.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import llvmlite.binding as llvm
import pytest
from xdsl.dialects.builtin import IntegerType, bf16, f8E8M0FNU, f32, tf32
from xdsl.ir import Attribute

from tests.kernels.elementwise_rows import INTEGERS, ROWS, Row, build_module, memory_type
from tileiras.codegen.llvmir.folding import to_signed
from tileiras.dialects.llvm.types import bit_width
from tileiras.dialects.nv_tileaa import arithmetic, conversions

Reference = Callable[..., int | None]
"""Result bits for operand values; None where the result is undefined."""


def floor_divide(x: int, y: int) -> int | None:
    """Rounded down."""
    return x // y if y else None


def ceil_divide(x: int, y: int) -> int | None:
    """Rounded up."""
    return -(-x // y) if y else None


def cut_divide(x: int, y: int) -> int | None:
    """Rounded to zero."""
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else None


def cut_remainder(x: int, y: int) -> int | None:
    """With the sign of x."""
    quotient = cut_divide(x, y)
    return None if quotient is None else x - quotient * y


_DIVISIONS = {"zero": cut_divide, "negative_inf": floor_divide, "positive_inf": ceil_divide}
_COMPARISONS = {
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less_than": lambda x, y: x < y,
    "less_than_or_equal": lambda x, y: x <= y,
    "greater_than": lambda x, y: x > y,
    "greater_than_or_equal": lambda x, y: x >= y,
}


def reference_of(row: Row, width: int) -> Reference | None:
    """The exact function of a row on numbers read as its signedness says."""
    top = 1 << width
    fixed: dict[type, Reference] = {
        arithmetic.AddIOp: lambda x, y: x + y,
        arithmetic.SubIOp: lambda x, y: x - y,
        arithmetic.MulIOp: lambda x, y: x * y,
        arithmetic.AndIOp: lambda x, y: x & y,
        arithmetic.OrIOp: lambda x, y: x | y,
        arithmetic.XOrIOp: lambda x, y: x ^ y,
        arithmetic.AbsIOp: abs,
        arithmetic.NegIOp: lambda x: -x,
        arithmetic.MaxIOp: max,
        arithmetic.MinIOp: min,
        arithmetic.RemIOp: cut_remainder,
        arithmetic.MulhiIOp: lambda x, y: (x * y) >> width,
        arithmetic.ShLIOp: lambda x, y: x << y if y % top < width else 0,
        arithmetic.ShRIOp: lambda x, y: x >> min(y % top, 64),
        conversions.ExtIOp: lambda x: x,
        conversions.TruncIOp: lambda x: x,
    }
    if row.op is arithmetic.DivIOp:
        return _DIVISIONS[str(row.properties["rounding"])]
    if row.op is arithmetic.CmpIOp:
        return _COMPARISONS[str(row.properties["comparison_predicate"])]
    return fixed.get(row.op)


def reads_signed(row: Row) -> bool:
    """How the row's operands are read as numbers."""
    always = row.op in (arithmetic.AbsIOp,)
    return always or row.properties.get("signedness") == "signed"


_EXTRA = [
    *(Row(conversions.FpToFpOp, (f32,), bf16, {"rounding_mode": m}) for m in ("negative_inf",)),
    *(Row(conversions.FpToFpOp, (f32,), bf16, {"rounding_mode": m}) for m in ("positive_inf",)),
    *(
        Row(conversions.FpToFpOp, (f32,), tf32, {"rounding_mode": m})
        for m in ("nearest_even", "nearest_away", "zero")
    ),
]
_SCALE = Row(conversions.FpToFpOp, (f8E8M0FNU,), f32, {"rounding_mode": "nearest_even"})
_INTEGER_ROWS = [
    row
    for row in ROWS
    if isinstance(row.operands[0], IntegerType)
    and reference_of(row, 8) is not None
    and row.name.find("mulhii_i64") < 0  # a PTX instruction
]


class HostProgram:
    """Kernels compiled for this machine."""

    def __init__(self, text: str):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        lines = [line for line in text.splitlines() if not line.startswith("target ")]
        module = llvm.parse_assembly("\n".join(lines).replace("ptx_kernel ", ""))
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def call(self, row: Row, operands: tuple[int, ...]) -> int:
        """Result bits for operand bits."""
        types = [*(memory_type(type) for type in row.operands), memory_type(row.result)]
        buffers = [ctypes.create_string_buffer(8) for _ in types]
        for buffer, value in zip(buffers, operands):
            buffer.raw = value.to_bytes(8, "little")
        address = self.engine.get_function_address(f"{row.name}__scalar")
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(types))(address)
        function(*(ctypes.addressof(buffer) for buffer in buffers))
        size = bit_width(types[-1]) // 8
        return int.from_bytes(buffers[-1].raw[:size], "little")


@cache
def host_program() -> HostProgram:
    """All rows of this file."""
    rows = [*_INTEGER_ROWS, *_EXTRA, _SCALE]
    return HostProgram(build_module(rows, "sm_120", None))


def samples(width: int, count: int, seed: int) -> list[int]:
    """Bit patterns: the edges and some random ones, many of them small."""
    top = 1 << width
    edges = [0, 1, 2, 3, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, 7, width]
    rng = random.Random(seed)
    drawn = [rng.getrandbits(rng.randrange(1, width + 1)) for _ in range(count)]
    return sorted({value % top for value in [*edges, *drawn]})


def operand_width(element: Attribute) -> int:
    """Bits that an operand has in memory here."""
    return element.width.data if isinstance(element, IntegerType) else bit_width(element)


@pytest.mark.parametrize("row", _INTEGER_ROWS, ids=lambda row: row.name)
def test_integers_match_exact_arithmetic(row: Row) -> None:
    width = operand_width(row.operands[0])
    result_width = operand_width(row.result)
    reference, signed = reference_of(row, width), reads_signed(row)
    assert reference is not None
    values = samples(width, 12, seed=width)
    others = values if len(row.operands) == 2 else [0]
    checked = 0
    for x in values:
        for y in others:
            bits = (x, y)[: len(row.operands)]
            numbers = [to_signed(value, width) if signed else value for value in bits]
            expected = reference(*numbers)
            if expected is None or overflows_division(row, numbers, width):
                continue
            result = host_program().call(row, bits)
            mask = (1 << result_width) - 1
            assert result & mask == int(expected) & mask, (row.name, numbers)
            checked += 1
    assert checked > 0


def overflows_division(row: Row, numbers: list[int], width: int) -> bool:
    """Whether it divides the least number by -1, which is undefined."""
    divides = row.op in (arithmetic.DivIOp, arithmetic.RemIOp)
    return divides and numbers == [-(1 << (width - 1)), -1]


def float_of(bits: int) -> float:
    """The f32 of a bit pattern."""
    return struct.unpack("<f", bits.to_bytes(4, "little"))[0]


def float_samples() -> list[int]:
    """f32 bit patterns around every kind of edge."""
    rng = random.Random(7)
    heads = [0x0000, 0x0001, 0x0080, 0x3F80, 0x3F81, 0x4049, 0x7F7F, 0x7F00, 0x7F80]
    tails = [0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000, 0x7FFF, 0x8000, 0xFFFF]
    positive = [head << 16 | tail for head in heads for tail in tails]
    positive += [rng.getrandbits(31) for _ in range(200)]
    return positive + [value | 1 << 31 for value in positive]


def round_bits(bits: int, kept: int, mode: str) -> Fraction | float:
    """The value of an f32 rounded to `kept` bits of its mantissa, exactly; overflow as infinity."""
    value = Fraction(float_of(bits))
    exponent = max((bits >> 23) & 0xFF, 1) - 127
    unit = Fraction(2) ** (exponent - kept)
    quotient = value / unit
    match mode:
        case "zero":
            steps = math.trunc(quotient)
        case "negative_inf":
            steps = math.floor(quotient)
        case "positive_inf":
            steps = math.ceil(quotient)
        case "nearest_even":
            steps = round(quotient)
        case _:
            steps = math.floor(abs(quotient) + Fraction(1, 2)) * (1 if quotient >= 0 else -1)
    rounded = steps * unit
    return rounded if abs(rounded) < Fraction(2) ** 128 else math.copysign(math.inf, rounded)


@pytest.mark.parametrize("row", _EXTRA, ids=lambda row: row.name)
def test_rounding_by_bits_is_exact(row: Row) -> None:
    mode = str(row.properties["rounding_mode"])
    kept, shift = (7, 16) if row.result == bf16 else (10, 0)
    for bits in float_samples():
        result = host_program().call(row, (bits,)) << shift
        source, rounded = float_of(bits), float_of(result)
        if math.isnan(source):
            assert math.isnan(rounded), hex(bits)
        elif math.isinf(source):
            assert rounded == source, hex(bits)
        else:
            assert rounded == round_bits(bits, kept, mode), hex(bits)
            assert math.copysign(1, rounded) == math.copysign(1, source), hex(bits)
        assert result & ((1 << (23 - kept)) - 1) == 0


def test_e8m0_widens_exactly() -> None:
    for bits in range(255):
        assert float_of(host_program().call(_SCALE, (bits,))) == 2.0 ** (bits - 127)
    assert math.isnan(float_of(host_program().call(_SCALE, (255,))))


def test_all_integer_types_are_covered() -> None:
    types = {row.operands[0] for row in _INTEGER_ROWS}
    assert set(INTEGERS) <= types
