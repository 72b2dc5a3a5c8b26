"""The type section: element types by tag, composite types by their components' ids.

Versions change the encoding of views and pointers: from 13.3 on, optional parameters are announced
by a flags varint in front; `ptr_attr` exists from 13.4 on.
"""

from collections.abc import Sequence

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
    FunctionType,
    IntegerType,
    NoneAttr,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode.format import (
    V13_1,
    V13_2,
    V13_3,
    V13_4,
    V13_5,
    TypeTag,
    Version,
    version_text,
)
from tileiras.bytecode.streams import Cursor, put_ints, put_varint
from tileiras.dialects.cuda_tile.attributes import (
    PaddingValue,
    PaddingValueAttr,
    PointerKind,
    PointerKindAttr,
)
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    Float8E5M3FNUType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    ViewType,
)
from tileiras.errors import BytecodeError

I1 = IntegerType(1)
I32 = IntegerType(32)
I64 = IntegerType(64)

SIMPLE_TYPES: dict[int, tuple[Attribute, Version]] = {
    0: (I1, V13_1),
    1: (IntegerType(8), V13_1),
    2: (IntegerType(16), V13_1),
    3: (I32, V13_1),
    4: (I64, V13_1),
    5: (Float16Type(), V13_1),
    6: (BFloat16Type(), V13_1),
    7: (Float32Type(), V13_1),
    8: (FloatTF32Type(), V13_1),
    9: (Float64Type(), V13_1),
    10: (Float8E4M3FNType(), V13_1),
    11: (Float8E5M2Type(), V13_1),
    17: (TOKEN, V13_1),
    18: (Float8E8M0FNUType(), V13_2),
    19: (Float4E2M1FNType(), V13_3),
    22: (IntegerType(4), V13_3),
    130: (Float8E5M3FNUType(), V13_4),
}
"""Tag, type and the first version that has it."""

COMPOSITE_SINCE: dict[int, Version] = {
    TypeTag.GATHER_SCATTER_VIEW: V13_3,
    TypeTag.STRIDED_VIEW: V13_3,
}

_PADDINGS = tuple(PaddingValueAttr(value) for value in PaddingValue)
_POINTER_KINDS = tuple(PointerKindAttr(kind) for kind in PointerKind)
_KINDS_SINCE_13_4 = 1
_NONE = NoneAttr()
_SIMPLE_TAGS = {attr: (tag, since) for tag, (attr, since) in SIMPLE_TYPES.items()}


def is_element(attr: Attribute) -> bool:
    """Whether a tile or tensor view can hold it, by kind; the types' verifiers say the rest."""
    return isinstance(attr, IntegerType | PointerType) or type(attr) in FLOAT_FORMATS


def storage_bytes(element: Attribute) -> int | None:
    """Bytes of one element in a constant; None if it cannot be one (pointers, i4)."""
    if isinstance(element, IntegerType):
        return element.width.data // 8 or (1 if element.width.data == 1 else None)
    known = FLOAT_FORMATS.get(type(element))
    return None if known is None else known.storage_bytes


class TypeTable:
    """The types of a file by id; components may come after the types that use them."""

    def __init__(self, items: Sequence[Cursor], version: Version):
        self._items = items
        self._version = version
        self._types: list[Attribute | None] = [None] * len(items)
        self._open: set[int] = set()

    def read_all(self) -> list[Attribute]:
        """Decodes every type of the section."""
        return [self._at(index) for index in range(len(self._items))]

    def _at(self, index: int) -> Attribute:
        known = self._types[index]
        if known is not None:
            return known
        cursor = self._items[index]
        if index in self._open:
            raise cursor.error(f"type {index} contains itself")
        self._open.add(index)
        start = cursor.pos
        try:
            result = self._decode(cursor)
        except VerifyException as error:
            raise cursor.error(f"invalid type {index}: {error}", start) from error
        self._open.discard(index)
        self._types[index] = result
        return result

    def _component(self, cursor: Cursor) -> Attribute:
        return self._at(cursor.varint_below(len(self._items), "type index"))

    def _element(self, cursor: Cursor, owner: str) -> Attribute:
        start = cursor.pos
        element = self._component(cursor)
        if not is_element(element):
            raise cursor.error(f"invalid element type of {owner}: {element}", start)
        return element

    def _decode(self, cursor: Cursor) -> Attribute:
        start = cursor.pos
        tag = cursor.varint()
        simple = SIMPLE_TYPES.get(tag)
        if simple is not None:
            if self._version < simple[1]:
                self._require(cursor, start, str(simple[0]), simple[1])
            return simple[0]
        self._require(cursor, start, f"with tag {tag}", COMPOSITE_SINCE.get(tag, V13_1))
        match tag:
            case TypeTag.POINTER:
                return self._pointer(cursor)
            case TypeTag.TILE:
                element = self._element(cursor, "a tile")
                return TileType(element, cursor.ints(8, "tile dims"))
            case TypeTag.TENSOR_VIEW:
                return self._tensor_view(cursor)
            case TypeTag.PARTITION_VIEW | TypeTag.GATHER_SCATTER_VIEW | TypeTag.STRIDED_VIEW:
                return self._view(tag, cursor)
            case TypeTag.FUNCTION:
                return FunctionType.from_lists(self._list(cursor), self._list(cursor))
            case _:
                raise cursor.error(f"unknown type tag {tag}", start)

    def _require(self, cursor: Cursor, start: int, what: str, since: Version) -> None:
        if self._version < since:
            raise cursor.error(
                f"type {what} requires bytecode version {version_text(since)}+, "
                f"file version is {version_text(self._version)}",
                start,
            )

    def _list(self, cursor: Cursor) -> list[Attribute]:
        types = []
        for _ in range(cursor.count("types")):
            start = cursor.pos
            item = self._component(cursor)
            if isinstance(item, FunctionType):
                raise cursor.error("a function type cannot hold a function type", start)
            types.append(item)
        return types

    def _flags(self, cursor: Cursor, since: Version) -> int:
        if self._version < since:
            return 0
        start = cursor.pos
        flags = cursor.varint()
        if flags > 1:
            raise cursor.error(f"unknown optional parameters in type: flags {flags:#x}", start)
        return flags

    def _kind(self, cursor: Cursor, flags: int) -> PointerKindAttr | NoneAttr:
        if not flags:
            return _NONE
        limit = len(_POINTER_KINDS) if self._version >= V13_5 else _KINDS_SINCE_13_4
        return _POINTER_KINDS[cursor.varint_below(limit, "ptr_attr")]

    def _pointer(self, cursor: Cursor) -> PointerType:
        flags = self._flags(cursor, V13_4)
        start = cursor.pos
        pointee = self._element(cursor, "a pointer")
        if isinstance(pointee, PointerType):
            raise cursor.error("a pointer cannot point to a pointer", start)
        return PointerType(pointee, self._kind(cursor, flags))

    def _tensor_view(self, cursor: Cursor) -> TensorViewType:
        flags = self._flags(cursor, V13_4)
        element = self._element(cursor, "a tensor_view")
        shape = cursor.ints(8, "tensor_view dims")
        strides = cursor.ints(8, "tensor_view strides")
        return TensorViewType(element, shape, strides, self._kind(cursor, flags))

    def _view(self, tag: int, cursor: Cursor) -> ViewType:
        unified = self._version >= V13_3
        padded = self._flags(cursor, V13_3)
        tile = cursor.ints(4, "tile dims")
        traversal = cursor.ints(4, "traversal strides") if tag == TypeTag.STRIDED_VIEW else ()
        start = cursor.pos
        tensor_view = self._component(cursor)
        if not isinstance(tensor_view, TensorViewType):
            raise cursor.error(f"a view must be of a tensor_view, got {tensor_view}", start)
        sparse_dim = 0
        dim_map: tuple[int, ...] = ()
        if tag == TypeTag.GATHER_SCATTER_VIEW:
            sparse_dim = cursor.unsigned(32, "sparse_dim")
        else:
            dim_map = cursor.ints(4, "dim_map entries")
        if not unified:
            padded = cursor.byte()
        padding = _NONE
        if padded:
            padding = _PADDINGS[cursor.varint_below(len(_PADDINGS), "padding value")]
        match tag:
            case TypeTag.PARTITION_VIEW:
                return PartitionViewType(tile, tensor_view, dim_map, padding)
            case TypeTag.STRIDED_VIEW:
                return StridedViewType(tile, traversal, tensor_view, dim_map, padding)
            case _:
                return GatherScatterViewType(tile, tensor_view, sparse_dim, padding)


class TypeWriter:
    """Numbers types by first use, components before what they are part of."""

    def __init__(self, version: Version, seed: Sequence[Attribute] = ()):
        self._version = version
        self._ids: dict[Attribute, int] = {}
        self.items: list[bytes] = []
        for attr in seed:
            self.id(attr)

    def id(self, attr: Attribute) -> int:
        """The id of a type, which is added to the section if it is new."""
        known = self._ids.get(attr)
        if known is not None:
            return known
        blob = self._encode(attr)
        number = self._ids[attr] = len(self.items)
        self.items.append(blob)
        return number

    def _require(self, what: str, since: Version) -> None:
        if self._version < since:
            raise BytecodeError(
                f"{what} requires bytecode version {version_text(since)}+, "
                f"but targeting {version_text(self._version)}"
            )

    def _encode(self, attr: Attribute) -> bytes:
        out = bytearray()
        simple = _SIMPLE_TAGS.get(attr)
        if simple is not None:
            self._require(f"type {attr}", simple[1])
            put_varint(out, simple[0])
            return bytes(out)
        match attr:
            case PointerType():
                self._put_head(out, TypeTag.POINTER, attr.kind)
                put_varint(out, self.id(attr.pointee))
                self._put_kind(out, attr.kind)
            case TileType():
                out.append(TypeTag.TILE)
                put_varint(out, self.id(attr.element_type))
                put_ints(out, attr.shape, 8)
            case TensorViewType():
                self._put_head(out, TypeTag.TENSOR_VIEW, attr.kind)
                put_varint(out, self.id(attr.element_type))
                put_ints(out, attr.shape, 8)
                put_ints(out, attr.strides, 8)
                self._put_kind(out, attr.kind)
            case ViewType():
                self._put_view(out, attr)
            case FunctionType():
                out.append(TypeTag.FUNCTION)
                for types in (attr.inputs.data, attr.outputs.data):
                    ids = [self.id(item) for item in types]
                    put_varint(out, len(ids))
                    for number in ids:
                        put_varint(out, number)
            case _:
                raise BytecodeError(f"type {attr} cannot be written as Tile IR bytecode")
        return bytes(out)

    def _put_head(self, out: bytearray, tag: TypeTag, kind: PointerKindAttr | NoneAttr) -> None:
        out.append(tag)
        if isinstance(kind, PointerKindAttr):
            since = V13_4 if kind.data is PointerKind.NONE else V13_5
            self._require(f"ptr_attr<{kind.data}>", since)
        if self._version >= V13_4:
            out.append(int(isinstance(kind, PointerKindAttr)))

    def _put_kind(self, out: bytearray, kind: PointerKindAttr | NoneAttr) -> None:
        if isinstance(kind, PointerKindAttr):
            put_varint(out, _POINTER_KINDS.index(kind))

    def _put_view(self, out: bytearray, view: ViewType) -> None:
        padded = isinstance(view.padding, PaddingValueAttr)
        match view:
            case PartitionViewType():
                out.append(TypeTag.PARTITION_VIEW)
            case StridedViewType():
                self._require("type strided_view", V13_3)
                out.append(TypeTag.STRIDED_VIEW)
            case _:
                self._require("type gather_scatter_view", V13_3)
                out.append(TypeTag.GATHER_SCATTER_VIEW)
        if self._version >= V13_3:
            out.append(int(padded))
        put_ints(out, view.tile_shape, 4)
        if isinstance(view, StridedViewType):
            put_ints(out, view.traversal_strides, 4)
        put_varint(out, self.id(view.tensor_view))
        if isinstance(view, GatherScatterViewType):
            put_varint(out, view.sparse_dim)
        elif isinstance(view, PartitionViewType | StridedViewType):
            put_ints(out, view.dim_map, 4)
        if self._version < V13_3:
            out.append(int(padded))
        if isinstance(view.padding, PaddingValueAttr):
            put_varint(out, _PADDINGS.index(view.padding))
