"""Prints and assertions: after the conversion a print has only arguments that C varargs have.

`print_tko` converts elements to what a conversion of its format asks for, whatever their type:

    print_tko "%5.2f %d", %f16, %i8   ->   nv_tileaa.print "%5.2f %lld", %f64, %i64
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float64Type,
    IntegerType,
    StringAttr,
    UnitAttr,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.memory import PRINT_CONVERSION
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, element_of, with_element
from tileiras.errors import InternalError
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter, Rule

_PARTS = re.compile(r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>(?:\.\d*)?)")
_SIGNED, _UNSIGNED, _FLOAT = "di", "uoxXp", "eEfFgGaA"
_DEVICE_LETTER = {"F": "f", "i": "d"}
"""Letters that the device's printf does not know, or that need not be told apart."""


class _Arguments:
    """Casts arguments for one conversion letter."""

    def __init__(self, converter: Converter):
        self.converter = converter

    def _cast(
        self, op: type[Operation], value: SSAValue, element: Attribute, **properties: Attribute
    ) -> SSAValue:
        type = with_element(value.type, element)
        return self.converter.emit_value(op, [value], type, properties)

    def as_integer(self, value: SSAValue, signed: bool) -> SSAValue:
        """The number as an i64; an i1 counts 0 or 1."""
        element = element_of(value)
        if isinstance(element, aa.PointerType):
            return self._cast(aa.PtrToIntOp, value, i64)
        if not isinstance(element, IntegerType):
            return self._cast(
                aa.FpToIntOp,
                self.as_double(value),
                i64,
                signedness=SignednessAttr(Signedness.SIGNED),
                rounding_mode=RoundingModeAttr(RoundingMode.NEAREST_INT_TO_ZERO),
                saturating=UnitAttr(),
            )
        width = element.width.data
        if width == 64:
            return value
        sign = Signedness.SIGNED if signed and width > 1 else Signedness.UNSIGNED
        return self._cast(aa.ExtIOp, value, i64, signedness=SignednessAttr(sign))

    def as_character(self, value: SSAValue) -> SSAValue:
        """The number as an int."""
        none = IntegerOverflowAttr(IntegerOverflow.NONE)
        return self._cast(aa.TruncIOp, self.as_integer(value, signed=True), i32, overflow=none)

    def as_double(self, value: SSAValue) -> SSAValue:
        """The number as an f64."""
        element = element_of(value)
        rounding = RoundingModeAttr(RoundingMode.NEAREST_EVEN)
        if isinstance(element, Float64Type):
            return value
        if isinstance(element, aa.PointerType):
            value = self.as_integer(value, signed=False)
        if isinstance(element_of(value), IntegerType):
            sign = Signedness.UNSIGNED if element.bitwidth == 1 else Signedness.SIGNED  # type: ignore[attr-defined]
            signedness = SignednessAttr(sign)
            return self._cast(
                aa.IntToFpOp, value, f64, signedness=signedness, rounding_mode=rounding
            )
        if element != f32:
            value = self._cast(aa.FpToFpOp, value, f32, rounding_mode=rounding)
        return self._cast(aa.FpToFpOp, value, f64, rounding_mode=rounding)


def _is_float(value: SSAValue) -> bool:
    """Whether the value is a float: no integer and no pointer."""
    return not isinstance(element_of(value), IntegerType | aa.PointerType)


def _convert_argument(
    arguments: _Arguments, conversion: str, value: SSAValue
) -> tuple[str, SSAValue]:
    """A conversion as the device's printf takes it, and its argument."""
    parts = _PARTS.match(conversion)
    if parts is None:
        raise InternalError(f"'{conversion}' is no conversion")
    form = "%" + parts["flags"] + parts["width"] + parts["precision"]
    letter = conversion[-1]
    if letter not in _SIGNED + _UNSIGNED + _FLOAT + "c":
        letter = "g" if _is_float(value) else "d"
    letter = _DEVICE_LETTER.get(letter, letter)
    if letter in _FLOAT:
        return form + letter, arguments.as_double(value)
    if letter == "c":
        return form + letter, arguments.as_character(value)
    if letter == "p":
        return f"0x{form}llx", arguments.as_integer(value, signed=False)
    return f"{form}ll{letter}", arguments.as_integer(value, signed=letter in _SIGNED)


def _convert_print(converter: Converter, op: ct.PrintTkoOp) -> Sequence[SSAValue]:
    """A print whose arguments are f64, i64, or i32 for a character."""
    arguments, values = _Arguments(converter), iter(converter.mapped(op.args))
    texts: list[str] = []
    converted: list[SSAValue] = []
    place, format = 0, op.format.data
    for match in PRINT_CONVERSION.finditer(format):
        texts.append(format[place : match.start()])
        place = match.end()
        if match.lastgroup != "conversion":
            texts.append("%%")
            continue
        text, value = _convert_argument(arguments, match.group(), next(values))
        texts.append(text)
        converted.append(value)
    texts.append(format[place:])
    token = [] if op.token is None else [converter.value(op.token)]
    properties = {
        "format": StringAttr("".join(texts)),
        "operandSegmentSizes": op.properties["operandSegmentSizes"],
    }
    return [converter.emit_value(aa.PrintOp, [*converted, *token], MEM_TOKEN, properties)]


PRINTING_RULES: dict[type[Operation], Rule] = {ct.PrintTkoOp: _convert_print}
