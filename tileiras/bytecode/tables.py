"""The tables that operation records refer to by number: strings, types and constants."""

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from tileiras.bytecode.format import Version
from tileiras.bytecode.streams import Cursor
from tileiras.bytecode.types import TypeWriter


class Tables:
    """What a reader looks up; strings are decoded on first use."""

    def __init__(self, version: Version, strings: list[bytes]):
        self.version = version
        self.strings = strings
        self.types: list[Attribute] = []
        self.constants: list[bytes] = []
        self.program_size = 0
        """Operations, results and operands that were read so far."""
        self._decoded: dict[int, StringAttr] = {}

    def string(self, cursor: Cursor) -> StringAttr:
        """The string whose id comes next."""
        start = cursor.pos
        index = cursor.varint()
        known = self._decoded.get(index)
        if known is not None:
            return known
        if index >= len(self.strings):
            raise cursor.error(
                f"string index {index} is out of range, there are {len(self.strings)}", start
            )
        try:
            text = self.strings[index].decode("utf-8")
        except UnicodeDecodeError as error:
            raise cursor.error(f"string {index} is not valid UTF-8", start) from error
        result = self._decoded[index] = StringAttr(text)
        return result

    def debug_string(self, cursor: Cursor) -> StringAttr:
        """A string that is shown only: what is not UTF-8 becomes escapes such as `\\xff`."""
        start = cursor.pos
        index = cursor.varint()
        if index >= len(self.strings) or _is_utf8(self.strings[index]):
            cursor.pos = start
            return self.string(cursor)
        return StringAttr(self.strings[index].decode("utf-8", errors="backslashreplace"))

    def type(self, cursor: Cursor) -> Attribute:
        """The type whose id comes next."""
        return self.types[cursor.varint_below(len(self.types), "type index")]

    def constant(self, cursor: Cursor) -> bytes:
        """The raw data of the constant whose id comes next."""
        return self.constants[cursor.varint_below(len(self.constants), "constant index")]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class BlobTable:
    """Byte strings numbered by first use, for writing."""

    def __init__(self, seed: tuple[bytes, ...] = (), first: int = 0):
        self._first = first
        self._ids: dict[bytes, int] = {}
        self.items: list[bytes] = []
        for blob in seed:
            self.id(blob)

    def id(self, blob: bytes) -> int:
        """The id of a blob, which is added if it is new."""
        known = self._ids.get(blob)
        if known is not None:
            return known
        number = self._ids[blob] = len(self.items) + self._first
        self.items.append(blob)
        return number


class TablesWriter:
    """What a writer numbers things with."""

    def __init__(
        self, version: Version, strings: BlobTable, types: TypeWriter, constants: BlobTable
    ):
        self.version = version
        self.strings = strings
        self.types = types
        self.constants = constants

    def string(self, text: str) -> int:
        """The id of a string."""
        return self.strings.id(text.encode("utf-8"))
