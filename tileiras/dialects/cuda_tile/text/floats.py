"""Floats as text and back, bit-exact, for every float type.

The text is MLIR's: scientific with six digits where that is exact, else as many digits as the type
needs, else (infinities, NaNs, whole numbers with too many digits) the bits in hexadecimal.
"""

from __future__ import annotations

from fractions import Fraction

from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS, FloatFormat

SHORT_DIGITS = 6
MAX_PADDING = 3
MAX_EXPONENT_DIGITS = 5
"""With the sign; f64 goes to 308."""


def float_format(type: Attribute) -> FloatFormat:
    """The format of a float type. Raises KeyError for other types."""
    return FLOAT_FORMATS[type.__class__]


def decode_float(bits: int, form: FloatFormat) -> tuple[bool, Fraction | None]:
    """Sign and magnitude of a bit pattern; None for infinities and NaNs."""
    mantissa_bits, exponent_bits = form.mantissa_bits, form.exponent_bits
    negative = form.signed and bool(bits >> (mantissa_bits + exponent_bits))
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    all_ones = exponent == (1 << exponent_bits) - 1
    if all_ones and form.infinities:
        return negative, None
    if all_ones and form.nans and mantissa == (1 << mantissa_bits) - 1:
        return negative, None
    if mantissa_bits == 0:
        return negative, Fraction(2) ** (exponent - form.bias)
    if exponent == 0:
        return negative, mantissa * Fraction(2) ** (1 - form.bias - mantissa_bits)
    significand = mantissa | (1 << mantissa_bits)
    return negative, significand * Fraction(2) ** (exponent - form.bias - mantissa_bits)


def is_infinity(bits: int, form: FloatFormat) -> bool:
    """Whether a bit pattern is an infinity."""
    magnitude = bits & ((1 << (form.mantissa_bits + form.exponent_bits)) - 1)
    ones = (1 << form.exponent_bits) - 1
    return form.infinities and magnitude == ones << form.mantissa_bits


def encode_float(negative: bool, magnitude: Fraction, form: FloatFormat) -> int | None:
    """The bits of a number, rounded to nearest even; None if it is out of range."""
    if negative and not form.signed:
        return None
    sign = int(negative) << (form.mantissa_bits + form.exponent_bits)
    if magnitude == 0:
        return None if form.mantissa_bits == 0 else sign
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    lowest = -form.bias if form.mantissa_bits == 0 else 1 - form.bias
    exponent = max(exponent, lowest)
    scaled = magnitude / Fraction(2) ** (exponent - form.mantissa_bits)
    significand = round(scaled)  # Python rounds halves to even
    if significand >> (form.mantissa_bits + 1):
        significand >>= 1
        exponent += 1
    biased = exponent + form.bias
    if form.mantissa_bits and not significand >> form.mantissa_bits:
        biased = 0
    bits = (biased << form.mantissa_bits) | (significand & ((1 << form.mantissa_bits) - 1))
    if biased >> form.exponent_bits or decode_float(bits, form)[1] is None:
        return None
    return sign | bits


def _digits(magnitude: Fraction, count: int) -> tuple[str, int]:
    """At most `count` significant digits without trailing zeros, and the power of ten of the last.

    Rounded half up; but, as in MLIR's printer, from a number that was cut to little more than
    `count` digits before, so that 0.99999997 to six digits is 0.999999 and not 1.
    """
    halvings = magnitude.denominator.bit_length() - 1
    number, last = magnitude.numerator * 5**halvings, -halvings
    excess = number.bit_length() - (count * 196 + 58) // 59
    if excess > 0:
        removable = excess * 59 // 196
        number, last = number // 10**removable, last + removable
    text = str(number)
    extra = len(text) - count
    if extra > 0:
        text, last = str((number // 10 ** (extra - 1) + 5) // 10), last + extra
    stripped = text.rstrip("0")
    return stripped, last + len(text) - len(stripped)


def _scientific(digits: str, last: int, precision: int) -> str:
    exponent = last + len(digits) - 1
    sign = "-" if exponent < 0 else "+"
    padded = digits[1:] + "0" * (precision - len(digits) + 1)
    return f"{digits[0]}.{padded}e{sign}{abs(exponent):02d}"


def _shortest(digits: str, last: int, precision: int) -> str:
    """The digits with a decimal point, or with an exponent where that needs fewer zeros."""
    leading = last + len(digits) - 1
    if last >= 0:
        scientific = last > MAX_PADDING or len(digits) + last > precision
    else:
        scientific = leading < 0 and -leading > MAX_PADDING
    if scientific:
        sign = "-" if leading < 0 else "+"
        return f"{digits[0]}.{digits[1:] or '0'}E{sign}{abs(leading)}"
    if last >= 0:
        return digits + "0" * last
    whole = last + len(digits)
    if whole > 0:
        return f"{digits[:whole]}.{digits[whole:]}"
    return "0." + "0" * -whole + digits


def float_text(bits: int, type: Attribute) -> str:
    """The bits of a float as MLIR prints them: `1.000000e+00`, `0.333333343`, `0x7F800000`."""
    form = float_format(type)
    negative, magnitude = decode_float(bits, form)
    if magnitude is None:
        return f"0x{bits:X}"
    sign = "-" if negative else ""
    if magnitude == 0:
        return f"{sign}0.000000e+00"
    digits, last = _digits(magnitude, SHORT_DIGITS)
    short = int(digits) * Fraction(10) ** last
    if encode_float(negative, short, form) == bits:
        return sign + _scientific(digits, last, SHORT_DIGITS)
    precision = 2 + (form.mantissa_bits + 1) * 59 // 196
    text = _shortest(*_digits(magnitude, precision), precision)
    return sign + text if "." in text else f"0x{bits:X}"


def parse_float(text: str, type: Attribute) -> int | None:
    """The bits of a decimal literal (or hexadecimal bits), rounded to nearest even.

    What is too large for a type with infinities is one. None if the type cannot hold it, or if the
    exponent is of a size that no type has.
    """
    form = float_format(type)
    if text.startswith(("0x", "0X")):
        bits = int(text, 16)
        return None if bits >> form.bits else bits
    negative = text.startswith("-")
    _, _, exponent = text.lower().partition("e")
    if len(exponent) > MAX_EXPONENT_DIGITS:
        return None
    magnitude = Fraction(text.removeprefix("-"))
    bits = encode_float(negative, magnitude, form)
    if bits is None and form.infinities and magnitude > 1:
        ones = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
        return ones | int(negative) << (form.mantissa_bits + form.exponent_bits)
    return bits
