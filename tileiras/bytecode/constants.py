"""Constants: raw element bytes, decoded with the tile type at the place of use.

Element storage is that of `DenseAttr` except for i1, which the file packs eight to a byte: element
k is bit k % 8 of byte k // 8. One byte of all zeros or all ones, and for more than eight elements
any single byte, stands for a splat.
"""

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode.streams import Cursor, put_varint
from tileiras.bytecode.types import I1, storage_bytes
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType

_ALL_ONES = 0xFF
_BITS = tuple(bytes(byte >> k & 1 for k in range(8)) for byte in range(256))


def read_constant(item: Cursor) -> bytes:
    """The raw data of one constant-section item."""
    size = item.varint()
    blob = item.take(size, "constant data")
    return item.data[blob.pos : blob.end]


def decode_dense(type: Attribute, data: bytes, cursor: Cursor, at: int) -> DenseAttr:
    """The constant that `data` is for a value of `type`; errors point at byte `at`."""
    if not isinstance(type, TileType):
        from tileiras.excerpts import shown_input

        message = f"a constant must be of tile type, got {shown_input(str(type))}"
        raise cursor.error(message, at)
    count = type.num_elements
    if type.element_type == I1:
        return DenseAttr(type, _unpack_bits(data, count, cursor, at))
    size = storage_bytes(type.element_type)
    if size is None:
        raise cursor.error(f"a constant cannot have elements of {type.element_type}", at)
    if len(data) != size and len(data) != size * count:
        raise cursor.error(
            f"failed to validate buffer size and format: {len(data)} bytes for {count} elements "
            f"of {size} bytes",
            at,
        )
    try:
        return DenseAttr(type, data)
    except VerifyException as error:
        raise cursor.error(f"invalid constant: {error}", at) from error


def _unpack_bits(data: bytes, count: int, cursor: Cursor, at: int) -> bytes:
    packed = (count + 7) // 8
    if len(data) == 1 and (count > 8 or data[0] in (0, _ALL_ONES)):
        return bytes([data[0] & 1])
    if len(data) != packed:
        raise cursor.error(
            f"i1 dense attribute payload size {len(data)} is not a recognized encoding for "
            f"{count} elements",
            at,
        )
    return b"".join(map(_BITS.__getitem__, data))[:count]


def encode_dense(value: DenseAttr) -> bytes:
    """The constant-section item of a value: length and data."""
    raw = value.raw.data
    if value.type.element_type == I1:
        raw = _pack_bits(raw)
    out = bytearray()
    put_varint(out, len(raw))
    out += raw
    return bytes(out)


def _pack_bits(raw: bytes) -> bytes:
    if len(raw) == 1:
        return bytes([_ALL_ONES if raw[0] else 0])
    packed = bytearray((len(raw) + 7) // 8)
    for k, bit in enumerate(raw):
        packed[k >> 3] |= (bit & 1) << (k & 7)
    return bytes(packed)
