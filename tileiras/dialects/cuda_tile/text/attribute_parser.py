"""Attributes of the text form: constants, predicates, hints, enums, generic attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from tileiras.dialects.cuda_tile.attributes import (
    AssumePredicateAttr,
    AtomicRMWModeAttr,
    BoundedAttr,
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    DivByAttr,
    IntegerOverflowAttr,
    IntTupleAttr,
    MemoryOrderingAttr,
    MemoryScopeAttr,
    MultimemReductionKindAttr,
    OptimizationHintsAttr,
    PaddingValueAttr,
    PointerKindAttr,
    RoundingModeAttr,
    SameElementsAttr,
    SignednessAttr,
    SymbolVisibilityAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS, is_float, storage_bytes
from tileiras.dialects.cuda_tile.text.floats import parse_float
from tileiras.dialects.cuda_tile.text.lexer import MAX_DIGITS, Token, unquoted
from tileiras.dialects.cuda_tile.text.type_parser import FLOAT_TYPES, INTEGER_TYPES, TypeParser
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.enum_attribute import EnumAttribute
from tileiras.excerpts import shown_input

ENUM_ATTRIBUTES: dict[str, type[EnumAttribute]] = {
    attribute.name: attribute
    for attribute in (
        SignednessAttr,
        IntegerOverflowAttr,
        RoundingModeAttr,
        ComparisonPredicateAttr,
        ComparisonOrderingAttr,
        MemoryOrderingAttr,
        MemoryScopeAttr,
        AtomicRMWModeAttr,
        PaddingValueAttr,
        SymbolVisibilityAttr,
        MultimemReductionKindAttr,
        PointerKindAttr,
    )
}
PREDICATES = ("div_by", "same_elements", "bounded")
MAX_ATTRIBUTE_DEPTH = 64

_E = TypeVar("_E", bound=StrEnum)


class AttributeParser(TypeParser):
    """Parses attributes; `resolve_alias` gives the meaning of `#name`."""

    depth = 0

    def enum(self, kind: type[_E], what: str) -> _E:
        """A member of an enum, by its word."""
        return kind(self.choice(tuple(member.value for member in kind), what))

    def angled(self, kind: type[_E], what: str) -> _E:
        """A member of an enum in angle brackets."""
        self.expect("<")
        member = self.enum(kind, what)
        self.expect(">")
        return member

    # Constants -------------------------------------------------------------------------------

    def scalar(self, element: Attribute) -> bytes:
        """One element of a constant, as its bytes."""
        token = self.peek()
        size = storage_bytes(element)
        if is_float(element):
            return self.float_bits(element).to_bytes(size, "little")
        assert isinstance(element, IntegerType)  # elements are numbers, checked by the type
        width = element.width.data
        if token.text in ("true", "false"):
            if width != 1:
                self.fail(f"found {token.shown} with element type i{width}, expected an integer")
            self.take()
            return bytes([token.text == "true"])
        value = self.integer("an element")
        if not -(1 << (width - 1)) <= value < 1 << width:
            self.fail(f"element {value} does not fit i{width}", token)
        mask = 1 if width == 1 else (1 << (8 * size)) - 1
        return (value & mask).to_bytes(size, "little")

    def float_bits(self, element: Attribute) -> int:
        """A float literal, decimal or its bits in hexadecimal, as bits."""
        start = self.peek()
        negative = self.accept("-")
        token = self.peek()
        if token.kind not in ("float", "integer", "hex") or (negative and token.kind == "hex"):
            self.fail(f"found {token.shown}, expected a float")
        text = self.take().text
        _, _, exponent = text.lower().partition("e")
        if len(text) > 16 * MAX_DIGITS or (token.kind == "float" and len(exponent) > 5):
            self.fail(f"number is too long, expected at most {16 * MAX_DIGITS} digits", token)
        if token.kind == "integer":
            self.fail(f"found integer {text}, expected a float such as {text}.0", token)
        bits = parse_float(f"-{text}" if negative else text, element)
        if bits is None:
            form = FLOAT_FORMATS[type(element)]
            self.fail(f"{'-' if negative else ''}{text} does not fit {form.text}", start)
        return bits

    def elements(self, element: Attribute, shape: list[int]) -> bytes:
        """A scalar, or nested lists whose lengths are added to `shape`, as bytes."""
        if not self.accept("["):
            return self.scalar(element)
        if self.depth > MAX_ATTRIBUTE_DEPTH:
            self.fail("constant is nested too deeply")
        self.depth += 1
        token = self.peek()
        parts = []
        shapes = []
        while True:
            inner: list[int] = []
            parts.append(self.elements(element, inner))
            shapes.append(inner)
            if not self.accept(","):
                break
        self.expect("]")
        self.depth -= 1
        if any(inner != shapes[0] for inner in shapes):
            self.fail("lists of a constant differ in length", token)
        shape.extend([len(parts), *shapes[0]])
        return b"".join(parts)

    def dense(self) -> DenseAttr:
        """`<f32: 1.0> : tile<4xf32>`."""
        self.expect("<")
        element_token = self.peek()
        element = self.type()
        if not isinstance(element, IntegerType) and not is_float(element):
            self.fail(f"found {element_token.shown}, expected a number type", element_token)
        self.expect(":")
        value_token = self.peek()
        shape: list[int] = []
        if value_token.kind == "string":
            raw = self._hexadecimal(self.take())
        else:
            raw = self.elements(element, shape)
        self.expect(">")
        self.expect(":")
        type_token = self.peek()
        type = self.type()
        if not isinstance(type, TileType):
            self.fail(f"found type {type_token.shown}, expected a tile", type_token)
        if type.element_type != element:
            found, expected = element_text(element), element_text(type.element_type)
            self.fail(f"elements have type {found}, expected {expected}", element_token)
        if shape and tuple(shape) != type.shape:
            self.fail(f"constant has shape {shape}, expected {list(type.shape)}", value_token)
        return self.checked(lambda: DenseAttr(type, raw), value_token)

    def checked(self, build: Callable[[], DenseAttr], token: Token) -> DenseAttr:
        """Builds a constant; what is wrong with it is reported at a token."""
        try:
            return build()
        except VerifyException as error:
            self.fail(str(error), token)

    def _hexadecimal(self, token: Token) -> bytes:
        text = unquoted(token.text)
        try:
            return bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            self.fail("found a string, expected the bytes of the constant in hexadecimal", token)

    def typed_number(self) -> Attribute:
        """`0 : i32`, `0.0 : f32`, `0xFF800000 : f32`, `true`; integers alone are i64."""
        token = self.peek()
        if token.text in ("true", "false"):
            self.take()
            return IntegerAttr(int(token.text == "true"), i1)
        self.accept("-")
        number = self.take()
        colon = self.accept(":")
        type_token = self.peek()
        type = self.type() if colon else i64
        end = self.tell()
        self.seek(token.start)
        if is_float(type):
            parsed: Attribute = FloatBitsAttr(self.float_bits(type), type)
        elif number.kind == "float":
            self.fail(f"found {number.shown} of an integer type, expected an integer", number)
        elif isinstance(type, IntegerType):
            value = self.integer("an integer")
            width = type.width.data
            if not -(1 << (width - 1)) <= value < 1 << width:
                self.fail(f"{value} does not fit i{width}", token)
            if width > 1 and value >> (width - 1) > 0:
                value -= 1 << width
            parsed = IntegerAttr(value, type)
        else:
            self.fail(f"found type {type_token.shown}, expected a number type", type_token)
        self.seek(end)
        return parsed

    # Predicates and hints --------------------------------------------------------------------

    def predicate(self) -> AssumePredicateAttr:
        """`div_by<16>`, with or without `#cuda_tile.`."""
        token = self.peek()
        name = token.text.removeprefix("#").removeprefix("cuda_tile.")
        if name not in PREDICATES:
            self.fail(f"found {token.shown}, expected a predicate: {', '.join(PREDICATES)}")
        self.take()
        self.expect("<")
        match name:
            case "div_by":
                parsed: AssumePredicateAttr = self._div_by()
            case "same_elements":
                parsed = SameElementsAttr(IntTupleAttr(self.dim_list("a group size")))
            case _:
                lower = self._bound()
                self.expect(",")
                parsed = BoundedAttr(lower, self._bound())
        self.expect(">")
        return parsed

    def _div_by(self) -> DivByAttr:
        divisor = IntAttr(self.integer("a divisor"))
        if not self.accept(","):
            return DivByAttr(divisor, NoneAttr(), NoneAttr())
        self.expect("every")
        every = IntAttr(self.integer("a group size"))
        self.expect("along")
        return DivByAttr(divisor, every, IntAttr(self.integer("a dim")))

    def _bound(self) -> IntAttr | NoneAttr:
        return NoneAttr() if self.accept("?") else IntAttr(self.integer("a bound or ?"))

    def hints(self) -> OptimizationHintsAttr:
        """`<default = {occupancy = 2}>`; integers are i32, as bytecode has them."""
        self.expect("<")
        entries: dict[str, Attribute] = {}
        while not self.accept(">"):
            token = self.peek()
            key = self._entry(entries, self._hint_value)
            if not isinstance(entries[key], DictionaryAttr):
                self.fail(f"hints for '{shown_input(key)}' are not in braces", token)
            if not self.accept(","):
                self.expect(">")
                break
        return OptimizationHintsAttr(DictionaryAttr(entries))

    def _hint_value(self) -> Attribute:
        if self.peek().text == "{":
            self.depth += 1
            if self.depth > MAX_ATTRIBUTE_DEPTH:
                self.fail("hints are nested too deeply")
            parsed = self.dictionary(self._hint_value)
            self.depth -= 1
            return parsed
        if self.peek().kind in ("integer", "hex") or self.peek().text == "-":
            value = self.integer("an integer")
            width = self.type() if self.accept(":") else i32
            return IntegerAttr(value, width if isinstance(width, IntegerType) else i32)
        return self.attribute()

    # Generic attributes ----------------------------------------------------------------------

    def dictionary(self, value: Callable[[], Attribute] | None = None) -> DictionaryAttr:
        """`{name = value, flag}`."""
        self.expect("{")
        entries: dict[str, Attribute] = {}
        while not self.accept("}"):
            self._entry(entries, value or self.attribute)
            if not self.accept(","):
                self.expect("}")
                break
        return DictionaryAttr(entries)

    def _entry(self, entries: dict[str, Attribute], value: Callable[[], Attribute]) -> str:
        token = self.peek()
        key = self.string("a name") if token.kind == "string" else self.word("a name")
        if not key:
            self.fail("name is empty", token)
        if key in entries:
            self.fail(f"'{shown_input(key)}' is given twice", token)
        entries[key] = value() if self.accept("=") else UnitAttr()
        return key

    def attribute(self) -> Attribute:
        """Any attribute in MLIR's spelling."""
        self.depth += 1
        if self.depth > MAX_ATTRIBUTE_DEPTH:
            self.fail("attribute is nested too deeply")
        parsed = self._attribute()
        self.depth -= 1
        return parsed

    def _check_range(self, values: list[int], type: IntegerType, token: Token) -> None:
        width = type.width.data
        for value in values:
            if not -(1 << (width - 1)) <= value < 1 << width:
                self.fail(f"{shown_input(str(value))} does not fit i{width}", token)

    def _attribute(self) -> Attribute:
        token = self.peek()
        if token.kind in ("integer", "hex", "float") or token.text in ("-", "true", "false"):
            return self.typed_number()
        match token.kind:
            case "string":
                return StringAttr(self.string("a string"))
            case "symbol":
                return SymbolRefAttr(self.symbol("a symbol"))
            case "hash":
                return self.hash_attribute()
            case "bang":
                return self.type()
        match token.text:
            case "{":
                return self.dictionary()
            case "[":
                return ArrayAttr(self.listed("[", "]", self.attribute))  # type: ignore[arg-type]
            case "unit":
                self.take()
                return UnitAttr()
            case "array":
                return self.dense_array()
            case "(":
                return self.type()
        if token.text in INTEGER_TYPES or token.text in FLOAT_TYPES:
            return self.type()
        return self.fail(f"found {token.shown}, expected an attribute")

    def dense_array(self) -> DenseArrayBase:
        """`array<i32: 1, 0>` or `array<i1: true>`."""
        self.expect("array")
        self.expect("<")
        token = self.peek()
        type = self.type()
        if not isinstance(type, IntegerType) or type.width.data not in (1, 8, 16, 32, 64):
            self.fail("array of another type, expected integers of 1, 8, 16, 32 or 64 bits", token)
        values: list[int] = []
        if self.accept(":"):
            while True:
                if self.peek().text in ("true", "false"):
                    # i1 arrays hold 0 and -1 in two's complement, as xDSL reads them
                    values.append(int(self.take().text == "true"))
                else:
                    values.append(self.integer("an integer"))
                if not self.accept(","):
                    break
        self.expect(">")
        self._check_range(values, type, token)
        return DenseArrayBase.from_list(type, values)

    def hash_attribute(self) -> Attribute:
        """`#cuda_tile.rounding<zero>`, `#cuda_tile.div_by<..>`, or an alias."""
        token = self.peek()
        name = token.text[1:]
        kind = ENUM_ATTRIBUTES.get(name)
        if kind is not None:
            self.take()
            self.expect("<")
            words = {str(member.value): member for member in kind.enum_type}
            word = self.choice(tuple(words), "a value")
            self.expect(">")
            return kind(words[word])
        if name.removeprefix("cuda_tile.") in PREDICATES:
            return self.predicate()
        if name == "cuda_tile.optimization_hints":
            self.take()
            return self.hints()
        return self.other_hash_attribute(token)

    def other_hash_attribute(self, token: Token) -> Attribute:
        """Aliases and debug attributes, which `LocationParser` knows."""
        self.fail(f"unknown attribute {token.shown}", token)
