"""Attributes as the text form spells them: constants, hints, predicates, identities, strings."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.attributes import (
    AssumePredicateAttr,
    BoundedAttr,
    DivByAttr,
    IntTupleAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS, storage_bytes
from tileiras.dialects.cuda_tile.text.floats import float_text
from tileiras.dialects.enum_attribute import EnumAttribute

MAX_LISTED_ELEMENTS = 100
"""Constants with more elements print as hexadecimal bytes (as MLIR elides large constants)."""


def quoted(text: str) -> str:
    """A string literal; what is not printable ASCII becomes two hexadecimal digits."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char == "\\":
            parts.append("\\\\")
        elif char == '"' or not 0x20 <= byte < 0x7F:
            parts.append(f"\\{byte:02X}")
        else:
            parts.append(char)
    return f'"{"".join(parts)}"'


def scalar_text(raw: bytes, element: Attribute) -> str:
    """One element of a constant, from its bytes."""
    bits = int.from_bytes(raw, "little")
    if type(element) in FLOAT_FORMATS:
        return float_text(bits, element)
    if isinstance(element, IntegerType) and element.width.data == 1:
        return "true" if bits else "false"
    return str(int.from_bytes(raw, "little", signed=True))


def dense_text(value: DenseAttr) -> str:
    """A constant without its type: `f32: 1.000000e+00`, `i32: [1, 2]`."""
    element = value.type.element_type
    return f"{element_text(element)}: {_elements_text(value, element)}"


def _elements_text(value: DenseAttr, element: Attribute) -> str:
    raw, size = value.raw.data, storage_bytes(element)
    first = raw[:size]
    if len(raw) == size or first * (len(raw) // size) == raw:
        return scalar_text(first, element)
    if value.type.num_elements > MAX_LISTED_ELEMENTS:
        return f'"0x{raw.hex().upper()}"'
    texts = [scalar_text(raw[at : at + size], element) for at in range(0, len(raw), size)]
    for dim in reversed(value.type.shape):
        texts = [f"[{', '.join(texts[at : at + dim])}]" for at in range(0, len(texts), dim)]
    return texts[0]


def identities_text(identities: ArrayAttr) -> str:
    """The identities of a reduction: `[0.000000e+00 : f32, 0 : i32]`."""
    return f"[{', '.join(_typed_number(identity) for identity in identities.data)}]"


def _typed_number(value: Attribute) -> str:
    if isinstance(value, FloatBitsAttr):
        return f"{float_text(value.bits.data, value.type)} : {element_text(value.type)}"
    return value_text(value)


def predicate_text(predicate: AssumePredicateAttr) -> str:
    """The predicate of an `assume`, without the dialect's prefix."""
    match predicate:
        case DivByAttr():
            text = str(predicate.divisor.data)
            if isinstance(predicate.every, IntAttr) and isinstance(predicate.along, IntAttr):
                text += f", every {predicate.every.data} along {predicate.along.data}"
            return f"div_by<{text}>"
        case SameElementsAttr():
            return f"same_elements<[{', '.join(map(str, predicate.values.data))}]>"
        case BoundedAttr():
            return f"bounded<{_bound_text(predicate.lb)}, {_bound_text(predicate.ub)}>"
        case _:
            return str(predicate)


def _bound_text(bound: IntAttr | NoneAttr) -> str:
    return str(bound.data) if isinstance(bound, IntAttr) else "?"


def hints_text(hints: OptimizationHintsAttr) -> str:
    """`<default = {occupancy = 2}, sm_90 = {}>`: sorted by name, integers without their type."""
    return f"<{_hint_entries_text(hints.value)}>"


def _hint_entries_text(dictionary: DictionaryAttr) -> str:
    return ", ".join(
        f"{key} = {_hint_text(value)}" for key, value in sorted(dictionary.data.items())
    )


def _hint_text(value: Attribute) -> str:
    if isinstance(value, DictionaryAttr):
        return f"{{{_hint_entries_text(value)}}}"
    if isinstance(value, IntegerAttr) and value.type != IntegerType(1):
        return str(value.value.data)
    return value_text(value)


def _entries_text(dictionary: DictionaryAttr) -> str:
    return ", ".join(
        f"{key} = {value_text(value)}" for key, value in sorted(dictionary.data.items())
    )


def value_text(value: Attribute, prefix: str = "#cuda_tile.") -> str:
    """Any attribute as MLIR spells it."""
    match value:
        case DictionaryAttr():
            return f"{{{_entries_text(value)}}}"
        case IntegerAttr():
            if value.type == IntegerType(1):
                return "true" if value.value.data else "false"
            suffix = "" if value.type == IntegerType(64) else f" : {value.type}"
            return f"{value.value.data}{suffix}"
        case StringAttr():
            return quoted(value.data)
        case ArrayAttr():
            return f"[{', '.join(value_text(item) for item in value.data)}]"
        case UnitAttr():
            return "unit"
        case EnumAttribute():
            return f"#{value.name}<{value.data.value}>"
        case FloatBitsAttr():
            return _typed_number(value)
        case AssumePredicateAttr():
            return prefix + predicate_text(value)
        case OptimizationHintsAttr():
            return f"{prefix}optimization_hints{hints_text(value)}"
        case IntTupleAttr() | BytesAttr():
            return str(value)
        case _:
            return str(value)
