"""The type section: encodings of every type, version by version."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tileiras.bytecode.reader import read_layout
from tileiras.bytecode.types import TypeWriter
from tileiras.dialects.cuda_tile.attributes import (
    PaddingValue,
    PaddingValueAttr,
    PointerKind,
    PointerKindAttr,
)
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    TOKEN,
    Float8E5M3FNUType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from tileiras.errors import BytecodeError

from .files import File, i32s, i64s

F32 = Float32Type()
PLAIN = PointerKindAttr(PointerKind.NONE)
MULTICAST = PointerKindAttr(PointerKind.MULTICAST)
NAN = PaddingValueAttr(PaddingValue.NAN)
VIEW = TensorViewType(F32, (DYNAMIC, 16), (16, 1))
VIEW_13_1 = b"\x0e\x01" + i64s(DYNAMIC, 16) + i64s(16, 1)
VIEW_13_4 = b"\x0e\x00\x01" + i64s(DYNAMIC, 16) + i64s(16, 1)

SIMPLE = [
    (b"\x00", IntegerType(1), (13, 1)),
    (b"\x01", IntegerType(8), (13, 1)),
    (b"\x02", IntegerType(16), (13, 1)),
    (b"\x03", IntegerType(32), (13, 1)),
    (b"\x04", IntegerType(64), (13, 1)),
    (b"\x05", Float16Type(), (13, 1)),
    (b"\x06", BFloat16Type(), (13, 1)),
    (b"\x07", F32, (13, 1)),
    (b"\x08", FloatTF32Type(), (13, 1)),
    (b"\x09", Float64Type(), (13, 1)),
    (b"\x0a", Float8E4M3FNType(), (13, 1)),
    (b"\x0b", Float8E5M2Type(), (13, 1)),
    (b"\x11", TOKEN, (13, 1)),
    (b"\x12", Float8E8M0FNUType(), (13, 2)),
    (b"\x13", Float4E2M1FNType(), (13, 3)),
    (b"\x16", IntegerType(4), (13, 3)),
    (b"\x82\x01", Float8E5M3FNUType(), (13, 4)),
]

# Type id 1 is f32, type id 2 the tensor view.
COMPOSITE = [
    ((13, 1), b"\x0c\x01", PointerType(F32)),
    ((13, 4), b"\x0c\x00\x01", PointerType(F32)),
    ((13, 4), b"\x0c\x01\x01\x00", PointerType(F32, PLAIN)),
    ((13, 5), b"\x0c\x01\x01\x02", PointerType(F32, MULTICAST)),
    ((13, 1), b"\x0d\x01" + i64s(), TileType(F32)),
    ((13, 1), b"\x0d\x01" + i64s(4, 8), TileType(F32, (4, 8))),
    ((13, 1), VIEW_13_1, VIEW),
    ((13, 4), VIEW_13_4, VIEW),
    (
        (13, 5),
        b"\x0e\x01\x01" + i64s(4) + i64s(1) + b"\x02",
        TensorViewType(F32, (4,), (1,), MULTICAST),
    ),
    (
        (13, 2),
        b"\x0f" + i32s(4, 8) + b"\x02" + i32s(1, 0) + b"\x00",
        PartitionViewType((4, 8), VIEW, (1, 0)),
    ),
    (
        (13, 2),
        b"\x0f" + i32s(4, 8) + b"\x02" + i32s(1, 0) + b"\x01\x02",
        PartitionViewType((4, 8), VIEW, (1, 0), NAN),
    ),
    (
        (13, 3),
        b"\x0f\x01" + i32s(4, 8) + b"\x02" + i32s(1, 0) + b"\x02",
        PartitionViewType((4, 8), VIEW, (1, 0), NAN),
    ),
    (
        (13, 3),
        b"\x14\x00" + i32s(4, 8) + b"\x02\x01",
        GatherScatterViewType((4, 8), VIEW, 1),
    ),
    (
        (13, 3),
        b"\x15\x01" + i32s(4, 8) + i32s(3, 5) + b"\x02" + i32s(0, 1) + b"\x02",
        StridedViewType((4, 8), (3, 5), VIEW, (0, 1), NAN),
    ),
]


def types_of(version: tuple[int, int], *blobs: bytes) -> tuple[Attribute, ...]:
    """The types of a file, without the entry's own."""
    return read_layout(File(version=version, types=list(blobs)).build()).types[1:]


@pytest.mark.parametrize(("blob", "attr", "since"), SIMPLE)
def test_simple_type_is_read_and_written_from_its_version_on(blob, attr, since):
    assert types_of(since, blob) == (attr,)
    writer = TypeWriter(since)
    writer.id(attr)
    assert writer.items == [blob]


@pytest.mark.parametrize(("blob", "attr", "since"), [row for row in SIMPLE if row[2] > (13, 1)])
def test_simple_type_is_refused_in_older_versions(blob, attr, since):
    older = (13, since[1] - 1)
    gate = f"type {attr} requires bytecode version 13.{since[1]}+, "
    with pytest.raises(BytecodeError) as info:
        types_of(older, blob)
    assert info.value.message.endswith(f"{gate}file version is 13.{older[1]}")
    with pytest.raises(BytecodeError) as info:
        TypeWriter(older).id(attr)
    assert info.value.message == f"{gate}but targeting 13.{older[1]}"


@pytest.mark.parametrize(("version", "blob", "attr"), COMPOSITE)
def test_composite_type_is_read_and_written(version, blob, attr):
    view = VIEW_13_4 if version >= (13, 4) else VIEW_13_1
    assert types_of(version, b"\x07", view, blob)[2] == attr
    writer = TypeWriter(version, (IntegerType(1), F32, VIEW))
    known = len(writer.items)
    writer.id(attr)
    assert (writer.items[known:] or [view])[0] == blob


def test_components_may_come_after_the_types_that_use_them():
    assert types_of((13, 4), b"\x0d\x02" + i64s(2), b"\x07")[0] == TileType(F32, (2,))


def test_written_types_follow_their_components():
    writer = TypeWriter((13, 1))
    writer.id(TileType(PointerType(F32), (2,)))
    assert writer.items == [b"\x07", b"\x0c\x00", b"\x0d\x01" + i64s(2)]


def test_views_of_different_tiles_get_different_ids():
    writer = TypeWriter((13, 4))
    first = writer.id(PartitionViewType((4, 8), VIEW, (0, 1)))
    assert writer.id(PartitionViewType((8, 4), VIEW, (0, 1))) != first


@pytest.mark.parametrize(
    ("version", "blobs", "message"),
    [
        ((13, 4), [b"\x63"], "unknown type tag 99"),
        ((13, 4), [b"\x0d\x01\x00"], "type 1 contains itself"),
        ((13, 4), [b"\x0d\x02\x00", b"\x0c\x00\x01"], "type 1 contains itself"),
        ((13, 4), [b"\x0d\x09\x00"], "type index 9 is out of range, there are 2"),
        ((13, 4), [b"\x11", b"\x0d\x01\x00"], "invalid element type of a tile: !cuda_tile.token"),
        ((13, 4), [b"\x0d\x00\x00"], "invalid element type of a tile: () -> ()"),
        ((13, 4), [b"\x07", b"\x0c\x00\x01", b"\x0c\x00\x02"], "cannot point to a pointer"),
        ((13, 4), [b"\x10\x01\x00\x00"], "a function type cannot hold a function type"),
        ((13, 4), [b"\x07", b"\x0c\x02\x01"], "unknown optional parameters in type: flags 0x2"),
        ((13, 4), [b"\x07", b"\x0c\x01\x01\x02"], "ptr_attr 2 is out of range"),
        ((13, 4), [b"\x07", b"\x0f\x00\x00\x01\x00"], "a view must be of a tensor_view, got f32"),
        (
            (13, 4),
            [b"\x07", VIEW_13_4, b"\x0f\x01" + i32s(4, 8) + b"\x02" + i32s(0, 1) + b"\x05"],
            "padding value 5 is out of range",
        ),
        ((13, 2), [b"\x15"], "requires bytecode version 13.3+, file version is 13.2"),
        ((13, 4), [b"\x07", b"\x0d\x01\x03" + bytes(8)], "tile dims of at least 8 bytes each do"),
        ((13, 4), [b"\x07", b"\x0d\x01" + i64s(3)], "invalid type 2: "),
        ((13, 4), [b""], "unexpected end of data"),
    ],
)
def test_malformed_type_is_refused(version, blobs, message):
    with pytest.raises(BytecodeError) as info:
        types_of(version, *blobs)
    assert message in info.value.message
    assert info.value.offset is not None


@pytest.mark.parametrize(
    ("version", "attr", "message"),
    [
        ((13, 3), PointerType(F32, PLAIN), "ptr_attr<none> requires bytecode version 13.4+"),
        ((13, 4), PointerType(F32, MULTICAST), "ptr_attr<multicast> requires bytecode version"),
        ((13, 2), GatherScatterViewType((4, 8), VIEW, 0), "type gather_scatter_view requires"),
        ((13, 2), StridedViewType((4, 8), (1, 1), VIEW, (0, 1)), "type strided_view requires"),
        ((13, 5), IntegerType(7), "type i7 cannot be written as Tile IR bytecode"),
    ],
)
def test_type_that_the_version_lacks_is_not_written(version, attr, message):
    with pytest.raises(BytecodeError) as info:
        TypeWriter(version).id(attr)
    assert message in info.value.message
