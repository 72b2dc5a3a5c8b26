"""Constants as people write them: `128 : i32`, `dense<0.5> : tensor<64xf32>`.

A constant is written this way only if the text gives the same bits again; a payload of a NaN, for
instance, is written in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType, VectorType
from xdsl.ir import Attribute
from xdsl.parser import Parser

from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS, storage_bytes
from tileiras.dialects.cuda_tile.text.floats import float_text, parse_float


def element_type_of(type: Attribute) -> Attribute:
    """The type of the elements of a tensor or vector; of a scalar itself."""
    return type.element_type if isinstance(type, TensorType | VectorType) else type


def bits_text(bits: int, element: Attribute) -> str:
    """One element: decimal, `true`, `1.000000e+00`, or the bits of what has no number."""
    if isinstance(element, IntegerType):
        width = element.width.data
        if width == 1:
            return "true" if bits else "false"
        return str(bits - (1 << width) if bits >> (width - 1) else bits)
    return float_text(bits, element)


def elements_text(patterns: Sequence[int], type: Attribute) -> str:
    """The elements of a constant of some type; a single pattern stands for all of them."""
    element = element_type_of(type)
    if element is type:
        return bits_text(patterns[0], element)
    words = [bits_text(bits, element) for bits in patterns]
    if len(words) == 1:
        return f"dense<{words[0]}>"
    return f"dense<[{', '.join(words)}]>"


def read_literal(parser: Parser) -> tuple[str, int]:
    """A number, `true` or `false`, with its place, before its type is known.

    Raises a ParseError for what is no literal.
    """
    place = parser.pos
    sign = "-" if parser.parse_optional_punctuation("-") is not None else ""
    token = parser._current_token
    if token.kind.name not in ("INTEGER_LIT", "FLOAT_LIT", "BARE_IDENT"):
        parser.raise_error("expected a number, true or false")
    parser._consume_token()
    return sign + token.text, place


def read_literals(parser: Parser) -> tuple[list[tuple[str, int]], bool]:
    """The literals of a constant; whether it is dense."""
    if parser.parse_optional_keyword("dense") is None:
        return [read_literal(parser)], False
    parser.parse_punctuation("<")
    if parser._current_token.text == "[":
        literals = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: read_literal(parser)
        )
    else:
        literals = [read_literal(parser)]
    parser.parse_punctuation(">")
    return literals, True


def literal_bits(parser: Parser, literal: tuple[str, int], element: Attribute) -> int:
    """The bits of a literal as an element. Raises a ParseError where the type cannot hold it."""
    text, place = literal
    bits: int | None = None
    try:
        if isinstance(element, IntegerType):
            bits = _integer_bits(text, element.width.data)
        elif type(element) in FLOAT_FORMATS:
            bits = parse_float(text, element)
    except (ValueError, OverflowError):
        bits = None
    if bits is None:
        parser.raise_error(f"'{text}' is no constant of type {element}", place, place)
    return bits


def _integer_bits(text: str, width: int) -> int | None:
    if text in ("true", "false"):
        return int(text == "true") if width == 1 else None
    value = int(text, 0) if text.startswith("0x") else int(text)
    if not -(1 << (width - 1)) <= value < 1 << width:
        return None
    return value & ((1 << width) - 1)


def unpacked(raw: bytes, element: Attribute) -> list[int]:
    """The bit patterns of the elements in little-endian bytes."""
    size = storage_bytes(element)
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def packed(patterns: Sequence[int], element: Attribute) -> bytes:
    """The reverse of `unpacked`."""
    size = storage_bytes(element)
    return b"".join(bits.to_bytes(size, "little") for bits in patterns)
