"""How the values of properties are written, by their kind.

The kind of a property is known from the definition of its operation, so `stages = 4` is enough
where generic form needs `#builtin.int<4>`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from tileiras.dialects.assembly.constants import bits_text, literal_bits, read_literal
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.dialects.enum_attribute import EnumAttribute
from tileiras.dialects.llvm.memory import BytesAttr
from tileiras.dialects.llvm.vectors import IndicesAttr

MAX_STRING = 100
"""Characters of a string on one line; longer ones are written as several, which are joined."""


@dataclass(frozen=True)
class Kind:
    """Writes and reads attributes of one class; `write` gives None for what cannot be read back."""

    write: Callable[[Any, Printer], str | None]
    read: Callable[[Parser], Attribute]


def quoted(text: str) -> str:
    """A string literal, or several for a long string, cut behind the ends of lines and words."""
    pieces: list[str] = []
    rest = text
    while len(rest) > MAX_STRING:
        head = rest[:MAX_STRING]
        cut = max(head.rfind("\n"), head.rfind(";"), head.rfind(","), head.rfind(" ")) + 1
        pieces.append(rest[: cut or MAX_STRING])
        rest = rest[cut or MAX_STRING :]
    pieces.append(rest)
    return " ".join(f'"{_escaped(piece)}"' for piece in pieces)


def _escaped(text: str) -> str:
    return "".join(
        char if " " <= char <= "~" and char not in '"\\' else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return "".join(f"\\{byte:02X}" for byte in char.encode("utf-8"))


def read_string(parser: Parser) -> str:
    """One or more string literals, joined."""
    text = parser.parse_str_literal()
    while (more := parser.parse_optional_str_literal()) is not None:
        text += more
    return text


def read_integers(parser: Parser) -> tuple[int, ...]:
    """`[1, -2]`."""
    return tuple(
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
    )


def integers_text(numbers: tuple[int, ...]) -> str:
    """`[1, -2]`."""
    return f"[{', '.join(map(str, numbers))}]"


def _integer_text(value: IntegerAttr[Any], _: Printer) -> str | None:
    number = value.value.data
    if value.type == i1:
        truth = IntegerAttr.from_bool(bool(number))
        return str(bool(number)).lower() if value == truth else None
    return str(number) if value.type == i32 else f"{number} : {value.type}"


def _read_integer(parser: Parser) -> Attribute:
    truth = parser.parse_optional_boolean()
    if truth is not None:
        return IntegerAttr.from_bool(truth)
    number = parser.parse_integer(allow_boolean=False)
    if parser.parse_optional_punctuation(":") is None:
        return IntegerAttr(number, i32)
    kind = parser.parse_type()
    if not isinstance(kind, IntegerType):
        parser.raise_error("expected an integer type")
    return IntegerAttr(number, kind)


def _bytes_text(value: BytesAttr, _: Printer) -> str:
    return quoted(value.data.hex())


def _read_bytes(parser: Parser) -> Attribute:
    place = parser.pos
    try:
        return BytesAttr(bytes.fromhex(read_string(parser)))
    except ValueError:
        parser.raise_error("expected bytes in hexadecimal", place, place)


def _any_text(value: Attribute, printer: Printer) -> str:
    before = printer.stream
    from io import StringIO

    printer.stream = stream = StringIO()
    printer.print_attribute(value)
    printer.stream = before
    return stream.getvalue()


KINDS: dict[type[Attribute], Kind] = {
    IntAttr: Kind(
        lambda value, _: str(value.data),
        lambda parser: IntAttr(parser.parse_integer(allow_boolean=False)),
    ),
    IntegerAttr: Kind(_integer_text, _read_integer),
    StringAttr: Kind(
        lambda value, _: quoted(value.data), lambda parser: StringAttr(read_string(parser))
    ),
    IntTupleAttr: Kind(
        lambda value, _: integers_text(value.data),
        lambda parser: IntTupleAttr(read_integers(parser)),
    ),
    IndicesAttr: Kind(
        lambda value, _: integers_text(value.data),
        lambda parser: IndicesAttr(read_integers(parser)),
    ),
    BytesAttr: Kind(_bytes_text, _read_bytes),
}
"""Attribute class -> kind. Enumerations are written as their words, anything else in full."""

ANY = Kind(_any_text, lambda parser: parser.parse_attribute())


def _enum_kind(cls: Any) -> Kind:
    """The words of an enumeration."""

    def read(parser: Parser) -> Attribute:
        place = parser.pos
        word = parser.parse_identifier()
        try:
            return cls(cls.enum_type(word))
        except ValueError:
            known = ", ".join(cls.enum_type)
            parser.raise_error(f"found '{word}', expected one of {known}", place, place)

    return Kind(lambda value, _: value.data.value, read)


def kind_of(cls: type[Attribute] | None) -> Kind:
    """The kind of properties of one attribute class; None: of any."""
    if cls is None:
        return ANY
    if issubclass(cls, EnumAttribute):
        return _enum_kind(cls)
    return KINDS.get(cls, ANY)


def _symbol_text(value: StringAttr, printer: Printer) -> str:
    plain = value.data.replace("_", "a").replace("$", "a").isalnum() and value.data.isascii()
    return f"@{value.data}" if plain and not value.data[0].isdigit() else f"@{quoted(value.data)}"


def _array_kind(element: IntegerType) -> Kind:
    """`[1, 0]` for `array<i64: 1, 0>`, `[true, false]` for booleans."""

    def write(value: DenseArrayBase[Any], _: Printer) -> str | None:
        if value.elt_type != element:
            return None
        words = [
            str(bool(number)).lower() if element == i1 else str(number)
            for number in value.get_values()
        ]
        return f"[{', '.join(words)}]"

    def read(parser: Parser) -> Attribute:
        def one() -> int:
            return int(parser.parse_boolean() if element == i1 else parser.parse_integer())

        numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one)
        return DenseArrayBase.from_list(element, [-n if element == i1 else n for n in numbers])

    return Kind(write, read)


def _integer_kind(type: IntegerType) -> Kind:
    """Decimal, of one integer type."""
    return Kind(
        lambda value, _: str(value.value.data) if value.type == type else None,
        lambda parser: IntegerAttr(parser.parse_integer(allow_boolean=False), type),
    )


def _numbers_text(values: ArrayAttr[Attribute], printer: Printer) -> str | None:
    words = [_number_text(value, printer) for value in values.data]
    return f"[{', '.join(map(str, words))}]" if None not in words else None


def _number_text(value: Attribute, printer: Printer) -> str | None:
    if isinstance(value, FloatBitsAttr):
        bits, type = value.bits.data, value.type
        form = FLOAT_FORMATS.get(type.__class__)
        if form is None or bits >> form.bits:
            return None
    elif isinstance(value, IntegerAttr) and isinstance(value.type, IntegerType):
        type, width = value.type, value.type.width.data
        bits = value.value.data & ((1 << width) - 1)
        if width == 0 or _number(bits, type) != value:
            return None
    else:
        return None
    return f"{bits_text(bits, type)} : {_any_text(type, printer)}"


def _number(bits: int, type: Attribute) -> Attribute:
    if not isinstance(type, IntegerType):
        return FloatBitsAttr(bits, type)
    width = type.width.data
    return IntegerAttr(bits - (1 << width) if bits >> (width - 1) else bits, type)


def _read_number(parser: Parser) -> Attribute:
    literal = read_literal(parser)
    parser.parse_punctuation(":")
    type = parser.parse_type()
    return _number(literal_bits(parser, literal, type), type)


NUMBERS = Kind(
    _numbers_text,
    lambda parser: ArrayAttr(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _read_number(parser))
    ),
)
"""`[0.000000e+00 : f32, -1 : i32]`: an array of numbers of any types."""


def all_outside(count: int) -> Attribute:
    """The `inbounds` of an access of which nothing is known: false for each of its indices."""
    return DenseArrayBase.from_list(i1, [0] * count)


NAMED_KINDS: dict[str, Kind] = {
    "symbol": Kind(_symbol_text, lambda parser: parser.parse_symbol_name()),
    "word": Kind(
        lambda value, _: value.data if value.data.replace("_", "a").isalnum() else None,
        lambda parser: StringAttr(parser.parse_identifier()),
    ),
    "register": Kind(
        lambda value, _: value.data, lambda parser: StringAttr(parser.parse_identifier())
    ),
    "int": _integer_kind(i32),
    "long": _integer_kind(i64),
    "i1": _array_kind(i1),
    "i32": _array_kind(i32),
    "i64": _array_kind(i64),
    "numbers": NUMBERS,
}
"""Kinds that a row of `forms` names: `$callee:symbol`."""

UNIT = UnitAttr()
