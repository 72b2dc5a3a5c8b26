"""How types, constants and names are spelled in LLVM IR text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from tileiras.codegen.llvmir.float_bits import float_literal
from tileiras.dialects.llvm.types import PointerType, StructType, is_float, lanes_of, scalar_of
from tileiras.errors import InternalError

_PLAIN_NAME = re.compile(r"[A-Za-z$._][A-Za-z0-9$._-]*\Z")


@cache
def type_text(type: Attribute) -> str:
    """LLVM's spelling of a type; a type that LLVM does not have is our own mistake."""
    match type:
        case IntegerType():
            return f"i{type.width.data}"
        case Float16Type():
            return "half"
        case BFloat16Type():
            return "bfloat"
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case PointerType():
            space = type.address_space
            return f"ptr addrspace({space})" if space else "ptr"
        case VectorType():
            return f"<{lanes_of(type)} x {type_text(type.element_type)}>"
        case StructType():
            return "{ " + ", ".join(type_text(field) for field in type.fields) + " }"
        case _:
            raise InternalError(f"type {type} has no LLVM spelling", where="LLVM IR printer")


def type_suffix(type: Attribute) -> str:
    """The suffix an overloaded intrinsic gets for a type: `.v4f32`, `.i64`, `.p1`."""
    element = scalar_of(type)
    match element:
        case PointerType():
            text = f"p{element.address_space}"
        case Float16Type():
            text = "f16"
        case Float32Type():
            text = "f32"
        case Float64Type():
            text = "f64"
        case BFloat16Type():
            text = "bf16"
        case _:
            text = type_text(element)
    lanes = lanes_of(type)
    return f".{text}" if lanes is None else f".v{lanes}{text}"


def scalar_text(type: Attribute, bits: int) -> str:
    """A scalar constant from its bit pattern, without its type."""
    if is_float(type):
        return float_literal(type, bits)
    if isinstance(type, IntegerType) and type.width.data == 1:
        return "true" if bits else "false"
    return str(bits)


def constant_text(type: Attribute, bits: Sequence[int]) -> str:
    """A scalar or vector constant, without its type; one pattern stands for all lanes."""
    element = scalar_of(type)
    if lanes_of(type) is None:
        return scalar_text(element, bits[0])
    prefix = type_text(element)
    if len(bits) == 1:
        return f"splat ({prefix} {scalar_text(element, bits[0])})"
    return "<" + ", ".join(f"{prefix} {scalar_text(element, pattern)}" for pattern in bits) + ">"


def string_text(text: str | bytes) -> str:
    """A quoted string with LLVM's hexadecimal escapes; bytes that are no UTF-8 stay as they are."""
    raw = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    plain = (chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw)
    return '"' + "".join(plain) + '"'


def symbol_text(name: str) -> str:
    """A global name, quoted if needed."""
    return f"@{name}" if _PLAIN_NAME.match(name) else f"@{string_text(name)}"
