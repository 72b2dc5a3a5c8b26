"""The constant section and tagged attributes: encodings, round trips, refusals."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float4E2M1FNType,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
)

from tileiras.bytecode.attributes import MAX_DEPTH, put_tagged, read_tagged
from tileiras.bytecode.constants import decode_dense, encode_dense
from tileiras.bytecode.streams import Cursor
from tileiras.bytecode.tables import BlobTable, Tables, TablesWriter
from tileiras.bytecode.types import TypeWriter
from tileiras.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DivByAttr,
    IntTupleAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.errors import BytecodeError

I1, I8, I32, I64 = IntegerType(1), IntegerType(8), IntegerType(32), IntegerType(64)
F32, F64 = Float32Type(), Float64Type()
NONE = NoneAttr()
NO_DATA = Cursor(b"", 0, 0)


def dense(element, shape, data: bytes) -> DenseAttr:
    """The constant that `data` stands for."""
    return decode_dense(TileType(element, shape), data, NO_DATA, 0)


@pytest.mark.parametrize(
    ("element", "shape", "data"),
    [
        (I32, (), b"abcd"),
        (I32, (2,), b"abcdefgh"),
        (I32, (1024,), b"abcd"),
        (FloatTF32Type(), (2,), b"abcdef"),
        (FloatTF32Type(), (2,), b"abc"),
        (Float4E2M1FNType(), (4,), b"\x01\x02\x03\x04"),
    ],
)
def test_elements_are_kept_as_they_are(element, shape, data):
    attr = dense(element, shape, data)
    assert attr.raw.data == data
    assert encode_dense(attr) == bytes([len(data)]) + data


@pytest.mark.parametrize(
    ("shape", "data", "raw"),
    [
        ((), b"\xff", b"\1"),
        ((), b"\x01", b"\1"),
        ((), b"\x00", b"\0"),
        ((4,), b"\x05", b"\1\0\1\0"),
        ((4,), b"\xff", b"\1"),
        ((8,), b"\x80", b"\0\0\0\0\0\0\0\1"),
        ((16,), b"\x01", b"\1"),
        ((16,), b"\xfe", b"\0"),
        ((16,), b"\x01\x80", b"\1" + bytes(14) + b"\1"),
    ],
)
def test_bits_are_unpacked(shape, data, raw):
    assert dense(I1, shape, data).raw.data == raw


@pytest.mark.parametrize(
    ("shape", "raw", "data"),
    [
        ((), b"\1", b"\xff"),
        ((64,), b"\0", b"\x00"),
        ((4,), b"\1\0\1\0", b"\x05"),
        ((16,), b"\1" + bytes(14) + b"\1", b"\x01\x80"),
    ],
)
def test_bits_are_packed(shape, raw, data):
    attr = DenseAttr(TileType(I1, shape), raw)
    assert encode_dense(attr) == bytes([len(data)]) + data
    assert dense(I1, shape, data) == attr


@pytest.mark.parametrize(
    ("type", "data", "message"),
    [
        (TileType(I32, (4,)), b"abcde", "failed to validate buffer size and format: 5 bytes"),
        (TileType(I32, (4,)), b"", "failed to validate buffer size and format: 0 bytes"),
        (TileType(I1, (16,)), bytes(16), "i1 dense attribute payload size 16 is not a recognized"),
        (TileType(I1, (4,)), bytes(4), "payload size 4 is not a recognized encoding for 4"),
        (TileType(PointerType(F32)), bytes(8), "cannot have elements of !cuda_tile.ptr"),
        (TileType(IntegerType(4), (2,)), bytes(2), "cannot have elements of i4"),
        (I32, b"abcd", "a constant must be of tile type, got i32"),
    ],
)
def test_data_that_does_not_fit_the_type_is_refused(type, data, message):
    with pytest.raises(BytecodeError) as info:
        decode_dense(type, data, NO_DATA, 7)
    assert message in info.value.message
    assert info.value.offset == 7


def test_a_long_type_is_cut_where_it_is_named():
    with pytest.raises(BytecodeError) as info:
        decode_dense(FunctionType.from_lists([I32] * 100, []), b"", NO_DATA, 7)
    assert len(info.value.message) < 200


TYPES = (I1, I32, I64, F32, F64, I8)
STRINGS = (b"", b"sm_90", b"occupancy")

TAGGED = [
    (b"\x01\x01\x05", IntegerAttr(5, I32)),
    (b"\x01\x01\xff\xff\xff\xff\x0f", IntegerAttr(-1, I32)),
    (b"\x01\x02" + b"\xff" * 9 + b"\x01", IntegerAttr(-1, I64)),
    (b"\x01\x00\x01", IntegerAttr.from_bool(True)),
    (b"\x02\x03\x80\x80\x80\xf8\x07", FloatBitsAttr(0x3F800000, F32)),
    (b"\x02\x04" + b"\xff" * 7 + b"\x7f", FloatBitsAttr(1 << 63 | 0, F64)),
    (b"\x04\x02", I64),
    (b"\x05\x01", StringAttr("sm_90")),
    (b"\x06\x02\x01\x01\x01\x05\x02", ArrayAttr([IntegerAttr(1, I32), StringAttr("occupancy")])),
    (b"\x08\x10\x00", DivByAttr(IntAttr(16), NONE, NONE)),
    (b"\x08\x04\x03\x04\x00", DivByAttr(IntAttr(4), IntAttr(2), IntAttr(0))),
    (
        b"\x09\x01\x04\0\0\0\0\0\0\0",
        SameElementsAttr(IntTupleAttr((4,))),
    ),
    (b"\x0c\x00", BoundedAttr(NONE, NONE)),
    (b"\x0c\x03\x09\x0e", BoundedAttr(IntAttr(-5), IntAttr(7))),
    (
        b"\x0b\x01\x01\x0a\x01\x02\x01\x01\x02",
        OptimizationHintsAttr(
            DictionaryAttr({"sm_90": DictionaryAttr({"occupancy": IntegerAttr(2, I32)})})
        ),
    ),
    (b"\x0a\x01\x01\x03\x01", DictionaryAttr({"sm_90": IntegerAttr.from_bool(True)})),
]


def tables() -> Tables:
    """Tables with a few types and strings."""
    result = Tables((13, 4), list(STRINGS))
    result.types = list(TYPES)
    return result


def read(data: bytes):
    """The tagged attribute that takes all of `data`."""
    cursor = Cursor(data, 0, len(data))
    attr = read_tagged(cursor, tables())
    assert not cursor.remaining()
    return attr


@pytest.mark.parametrize(("data", "attr"), TAGGED)
def test_tagged_attribute_is_read_and_written(data, attr):
    if isinstance(attr, FloatBitsAttr) and attr.type == F64:
        data = b"\x02\x04" + b"\xff" * 9 + b"\x01"  # zigzag of -2^63 is 2^64 - 1
    assert read(data) == attr
    out = bytearray()
    strings = BlobTable(STRINGS)
    put_tagged(out, attr, TablesWriter((13, 4), strings, TypeWriter((13, 4), TYPES), BlobTable()))
    assert bytes(out) == data


def test_double_loses_no_sign():
    bits = 0xC000000000000000  # -2.0
    out = bytearray()
    writer = TablesWriter((13, 4), BlobTable(), TypeWriter((13, 4), TYPES), BlobTable())
    put_tagged(out, FloatBitsAttr(bits, F64), writer)
    assert read(bytes(out)) == FloatBitsAttr(bits, F64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0d", "unknown attribute tag 13"),
        (b"\x01\x03\x01", "an integer attribute cannot be of type f32"),
        (b"\x02\x01\x01", "a float attribute cannot be of type i32"),
        (b"\x01\x05\xfb\xff\x03", "value 65531 does not fit in 8 bits"),
        (b"\x02\x03\x80\x80\x80\x80\x20", "does not fit in 32 bits"),
        (b"\x0a\x01\x00\x03\x01", "invalid empty attribute name for DictionaryAttr element 0"),
        (b"\x0a\x02\x01\x03\x01\x01\x03\x01", "duplicate attribute name 'sm_90' in dictionary"),
        (b"\x0b\x01\x01\x03\x01", "optimization hints of 'sm_90' are not a dictionary"),
        (b"\x08\x10\x04", "unknown optional parameters in attribute: flags 0x4"),
        (b"\x05\x07", "string index 7 is out of range, there are 3"),
        (b"\x06\xff\xff\xff\x7f", "array elements of at least 1 bytes each do not fit"),
        (b"\x06\x01" * (MAX_DEPTH + 2), f"nested more than {MAX_DEPTH} deep"),
        (b"\x03", "unexpected end of data"),
    ],
)
def test_malformed_attribute_is_refused(data, message):
    with pytest.raises(BytecodeError) as info:
        read_tagged(Cursor(data, 0, len(data)), tables())
    assert message in info.value.message
