"""Self-contained attributes: a tag, then a payload."""

from collections.abc import Callable

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode.constants import decode_dense, encode_dense
from tileiras.bytecode.format import AttributeTag
from tileiras.bytecode.streams import Cursor, put_ints, put_signed_varint, put_varint
from tileiras.bytecode.tables import Tables, TablesWriter
from tileiras.bytecode.types import I1
from tileiras.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DivByAttr,
    IntTupleAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.errors import BytecodeError

MAX_DEPTH = 16
"""Nesting of arrays and dictionaries; hints, the deepest that mean something, need 3."""

_NONE = NoneAttr()
_TRUE = IntegerAttr.from_bool(True)
_FALSE = IntegerAttr.from_bool(False)


def read_tagged(cursor: Cursor, tables: Tables, depth: int = 0) -> Attribute:
    """The attribute that comes next, tag first."""
    start = cursor.pos
    if depth > MAX_DEPTH:
        raise cursor.error(f"attributes are nested more than {MAX_DEPTH} deep")
    tag = cursor.varint()
    match tag:
        case AttributeTag.INTEGER:
            return _read_integer(cursor, tables)
        case AttributeTag.FLOAT:
            return _read_float(cursor, tables)
        case AttributeTag.BOOL:
            return _TRUE if cursor.byte() else _FALSE
        case AttributeTag.TYPE:
            return tables.type(cursor)
        case AttributeTag.STRING:
            return tables.string(cursor)
        case AttributeTag.ARRAY:
            return read_array(cursor, tables, depth)
        case AttributeTag.DENSE_ELEMENTS:
            type = tables.type(cursor)
            return decode_dense(type, tables.constant(cursor), cursor, start)
        case AttributeTag.DICTIONARY:
            return read_dictionary(cursor, tables, depth)
        case AttributeTag.OPTIMIZATION_HINTS:
            return read_hints(cursor, tables, depth)
    read = _PREDICATES.get(tag)
    if read is None:
        raise cursor.error(f"unknown attribute tag {tag}", start)
    try:
        return read(cursor)
    except VerifyException as error:
        raise cursor.error(f"invalid attribute: {error}", start) from error


def read_array(cursor: Cursor, tables: Tables, depth: int = 0) -> ArrayAttr:
    """A counted list of tagged attributes."""
    count = cursor.count("array elements")
    return ArrayAttr([read_tagged(cursor, tables, depth + 1) for _ in range(count)])


def read_dictionary(cursor: Cursor, tables: Tables, depth: int = 0) -> DictionaryAttr:
    """A counted list of names and tagged attributes, in the file's order."""
    entries: dict[str, Attribute] = {}
    for index in range(cursor.count("dictionary entries", 2)):
        start = cursor.pos
        key = tables.string(cursor).data
        if not key:
            raise cursor.error(
                f"invalid empty attribute name for DictionaryAttr element {index}", start
            )
        if key in entries:
            raise cursor.error(f"duplicate attribute name '{key}' in dictionary", start)
        entries[key] = read_tagged(cursor, tables, depth + 1)
    return DictionaryAttr(entries)


def read_hints(cursor: Cursor, tables: Tables, depth: int = 0) -> OptimizationHintsAttr:
    """Optimization hints: a dictionary of dictionaries."""
    start = cursor.pos
    hints = read_dictionary(cursor, tables, depth)
    for key, value in hints.data.items():
        if not isinstance(value, DictionaryAttr):
            raise cursor.error(f"optimization hints of '{key}' are not a dictionary", start)
    return OptimizationHintsAttr(hints)


def _read_integer(cursor: Cursor, tables: Tables) -> IntegerAttr:
    start = cursor.pos
    type = tables.type(cursor)
    if not isinstance(type, IntegerType):
        raise cursor.error(f"an integer attribute cannot be of type {type}", start)
    if type == I1:
        return _TRUE if cursor.byte() else _FALSE
    width = type.width.data
    return IntegerAttr(cursor.unsigned(width, "integer attribute"), type)


def _read_float(cursor: Cursor, tables: Tables) -> FloatBitsAttr:
    start = cursor.pos
    type = tables.type(cursor)
    known = FLOAT_FORMATS.get(type.__class__)
    if known is None:
        raise cursor.error(f"a float attribute cannot be of type {type}", start)
    width = known.bits
    start = cursor.pos
    # A pattern of 9 to 64 bits is zigzag-encoded as if it were a signed number of 64 bits.
    bits = cursor.byte() if width <= 8 else cursor.signed_varint() & ((1 << 64) - 1)
    if bits >> width:
        raise cursor.error(f"value {bits} does not fit in {width} bits", start)
    return FloatBitsAttr(bits, type)


def _read_optional_pair(cursor: Cursor) -> tuple[IntAttr | NoneAttr, IntAttr | NoneAttr]:
    start = cursor.pos
    flags = cursor.byte()
    if flags > 3:
        raise cursor.error(f"unknown optional parameters in attribute: flags {flags:#x}", start)
    first = IntAttr(cursor.signed_varint()) if flags & 1 else _NONE
    second = IntAttr(cursor.signed_varint()) if flags & 2 else _NONE
    return first, second


def _read_div_by(cursor: Cursor) -> DivByAttr:
    divisor = IntAttr(cursor.varint())
    return DivByAttr(divisor, *_read_optional_pair(cursor))


def _read_same_elements(cursor: Cursor) -> SameElementsAttr:
    return SameElementsAttr(IntTupleAttr(cursor.ints(8, "same_elements values")))


def _read_bounded(cursor: Cursor) -> BoundedAttr:
    return BoundedAttr(*_read_optional_pair(cursor))


_PREDICATES: dict[int, Callable[[Cursor], Attribute]] = {
    AttributeTag.DIV_BY: _read_div_by,
    AttributeTag.SAME_ELEMENTS: _read_same_elements,
    AttributeTag.BOUNDED: _read_bounded,
}


def put_tagged(out: bytearray, attr: Attribute, tables: TablesWriter) -> None:
    """Appends an attribute, tag first. An i1 outside a dictionary is an integer."""
    match attr:
        case IntegerAttr():
            _put_integer(out, attr, tables)
        case FloatBitsAttr():
            out.append(AttributeTag.FLOAT)
            put_varint(out, tables.types.id(attr.type))
            if FLOAT_FORMATS[attr.type.__class__].bits <= 8:
                out.append(attr.bits.data)
            else:
                put_signed_varint(out, _as_signed_64(attr.bits.data))
        case StringAttr():
            out.append(AttributeTag.STRING)
            put_varint(out, tables.string(attr.data))
        case ArrayAttr():
            out.append(AttributeTag.ARRAY)
            put_array(out, attr, tables)
        case DenseAttr():
            out.append(AttributeTag.DENSE_ELEMENTS)
            put_varint(out, tables.types.id(attr.type))
            put_varint(out, tables.constants.id(encode_dense(attr)))
        case DictionaryAttr():
            out.append(AttributeTag.DICTIONARY)
            put_dictionary(out, attr, tables)
        case OptimizationHintsAttr():
            out.append(AttributeTag.OPTIMIZATION_HINTS)
            put_dictionary(out, attr.value, tables)
        case DivByAttr():
            out.append(AttributeTag.DIV_BY)
            put_varint(out, attr.divisor.data)
            _put_optional_pair(out, attr.every, attr.along)
        case SameElementsAttr():
            out.append(AttributeTag.SAME_ELEMENTS)
            put_ints(out, attr.values.data, 8)
        case BoundedAttr():
            out.append(AttributeTag.BOUNDED)
            _put_optional_pair(out, attr.lb, attr.ub)
        case TypeAttribute():
            out.append(AttributeTag.TYPE)
            put_varint(out, tables.types.id(attr))
        case _:
            raise BytecodeError(f"attribute {attr} cannot be written as Tile IR bytecode")


def put_array(out: bytearray, attr: ArrayAttr, tables: TablesWriter) -> None:
    """Appends a counted list of tagged attributes."""
    put_varint(out, len(attr.data))
    for item in attr.data:
        put_tagged(out, item, tables)


def put_dictionary(out: bytearray, attr: DictionaryAttr, tables: TablesWriter) -> None:
    """Appends a counted list of names and tagged attributes; an i1 is written as a bool."""
    put_varint(out, len(attr.data))
    for key, value in attr.data.items():
        put_varint(out, tables.string(key))
        if isinstance(value, IntegerAttr) and value.type == I1:
            out.append(AttributeTag.BOOL)
            out.append(value.value.data & 1)
        else:
            put_tagged(out, value, tables)


def _put_integer(out: bytearray, attr: IntegerAttr, tables: TablesWriter) -> None:
    if not isinstance(attr.type, IntegerType):
        raise BytecodeError(f"attribute {attr} cannot be written as Tile IR bytecode")
    out.append(AttributeTag.INTEGER)
    put_varint(out, tables.types.id(attr.type))
    put_varint(out, attr.value.data & ((1 << attr.type.width.data) - 1))


def _put_optional_pair(
    out: bytearray, first: IntAttr | NoneAttr, second: IntAttr | NoneAttr
) -> None:
    present = [isinstance(first, IntAttr), isinstance(second, IntAttr)]
    out.append(present[0] | present[1] << 1)
    for value in (first, second):
        if isinstance(value, IntAttr):
            put_signed_varint(out, value.data)


def _as_signed_64(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
