"""Types and attributes as people write them, and the aliases under which a module uses them.

    #blocked0 = #nv_tileas.layout<{register = [[0, 1]], lane = [[0, 2], ..], warp = []} -> 16x64>
    !memref0 = !nv_tileaa.memref<?x64xf16, strides = [?, 1]>
    !view0 = !nv_tileaa.tiled_view<128x64 of !memref0, steps = [128, 64], padding = zero>
    #shared0 = #nv_tileas.nvmma_shared<swizzle = 128, major = 1>
    !smem0 = !nv_tileas.memdesc<128x64xf16, #shared0, smem>

What generic form has in place of these is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    FileLineColLoc,
    IntAttr,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from tileiras.dialects.assembly.values import integers_text, read_integers
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr, PaddingValue, PaddingValueAttr
from tileiras.dialects.cuda_tile.debug_info import DICallSiteLoc, DILocAttr, source_location
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.dialects.llvm.types import StructType
from tileiras.dialects.nv_tileaa.types import MemRefType, TiledViewType
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.memdesc import (
    ENCODINGS,
    Encoding,
    MemDescType,
    MemorySpace,
    NvmmaSharedAttr,
    PairSharedAttr,
    ScaleChunksAttr,
    ScaleRowsAttr,
    SharedLinearAttr,
    TensorMemoryAttr,
    ThreadCellsAttr,
)

_USUAL = {"atom": ATOM_BYTES}
"""Parts of encodings, all of them last, that are not written where they are as usual."""


class TextPrinter(Printer):
    """xDSL's printer with the spellings of this file; `aliases` are used where there are some."""

    aliases: dict[Attribute, str]

    def __init__(self) -> None:
        super().__init__(stream=StringIO())
        self.aliases = {}
        self._texts: dict[Attribute, str] = {}

    def text(self, attribute: Attribute) -> str:
        """The attribute, or its alias."""
        found = self._texts.get(attribute)
        if found is None:
            found = self._texts[attribute] = self._in_full(attribute, use_alias=True)
        return found

    def definition(self, attribute: Attribute) -> str:
        """The attribute itself; aliases only within it."""
        return self._in_full(attribute, use_alias=False)

    def _in_full(self, attribute: Attribute, use_alias: bool) -> str:
        before, self.stream = self.stream, StringIO()
        if use_alias:
            self.print_attribute(attribute)
        else:
            self._print_spelled(attribute)
        text = self.stream.getvalue()
        self.stream = before
        return text

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints the alias or the spelling of an attribute."""
        alias = self.aliases.get(attribute)
        if alias is not None:
            self.print_string(alias)
        else:
            self._print_spelled(attribute)

    def _print_spelled(self, attribute: Attribute) -> None:
        if isinstance(attribute, DILocAttr | DICallSiteLoc):
            attribute = plain_location(attribute)
        spell = SPELLINGS.get(type(attribute))
        if spell is None:
            super().print_attribute(attribute)
            return
        self.print_string(spell(attribute, self))


def plain_location(attribute: Attribute) -> Attribute:
    """The place that a scoped location stands for, as xDSL's parser reads it."""
    place = source_location(attribute)
    if place is None:
        return UNKNOWN_LOC
    return FileLineColLoc(StringAttr(place.filename), IntAttr(place.line), IntAttr(place.column))


# Writing ---------------------------------------------------------------------------------------


def _extent(size: int) -> str:
    return "?" if size == DYNAMIC else str(size)


def shape_text(shape: Sequence[int]) -> str:
    """`?x64`, `()` for a scalar."""
    return "x".join(map(_extent, shape)) or "()"


def _extents(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(_extent, sizes))}]"


def _memref_text(type: MemRefType, printer: TextPrinter) -> str:
    dims = "".join(f"{_extent(size)}x" for size in type.shape)
    element = printer.text(type.element_type)
    return f"!nv_tileaa.memref<{dims}{element}, strides = {_extents(type.strides)}>"


def _view_text(type: TiledViewType, printer: TextPrinter) -> str:
    parts = [f"{shape_text(type.tile_shape)} of {printer.text(type.memref)}"]
    if type.dim_map != tuple(range(len(type.dim_map))):
        parts.append(f"dim_map = {integers_text(type.dim_map)}")
    if type.steps != type.tile_shape:
        parts.append(f"steps = {integers_text(type.steps)}")
    if type.padding_value is not None:
        parts.append(f"padding = {type.padding_value.value}")
    if type.sparse.data:
        parts.append(f"sparse = {integers_text(type.sparse.data)}")
    return f"!nv_tileaa.tiled_view<{', '.join(parts)}>"


def _memdesc_text(type: MemDescType, printer: TextPrinter) -> str:
    dims = "".join(f"{size}x" for size in type.shape)
    element, encoding = printer.text(type.element_type), printer.text(type.encoding)
    return f"!{type.name}<{dims}{element}, {encoding}, {type.space}>"


def _encoding_text(attribute: Encoding, printer: TextPrinter) -> str:
    """Its parts, each with its name: `#nv_tileas.nvmma_shared<swizzle = 128, major = 1>`."""
    fields = zip(_encoding_fields(type(attribute)), attribute.parameters, strict=True)
    parts = [
        f"{name} = {value.data if isinstance(value, IntAttr) else printer.text(value)}"
        for name, value in fields
        if name not in _USUAL or value != IntAttr(_USUAL[name])
    ]
    return f"#{attribute.name}<{', '.join(parts)}>"


def _encoding_fields(encoding: type[Encoding]) -> list[str]:
    return [name for name, _ in encoding.get_irdl_definition().parameters]


def _layout_text(attribute: LayoutEncodingAttr, printer: TextPrinter) -> str:
    layout = attribute.data
    dims = ", ".join(
        f"{name} = [{', '.join(integers_text(vector) for vector in vectors)}]"
        for name, vectors in layout.bases
    )
    return f"#nv_tileas.layout<{{{dims}}} -> {shape_text(layout.shape)}>"


SPELLINGS: dict[type[Attribute], Callable[[Any, TextPrinter], str]] = {
    MemRefType: _memref_text,
    TiledViewType: _view_text,
    MemDescType: _memdesc_text,
    **dict.fromkeys(ENCODINGS, _encoding_text),
    LayoutEncodingAttr: _layout_text,
}

ALIASES: dict[type[Attribute], str] = {
    MemRefType: "!memref",
    TiledViewType: "!view",
    NvmmaSharedAttr: "#shared",
    PairSharedAttr: "#pair",
    ScaleChunksAttr: "#scales",
    ScaleRowsAttr: "#scale_rows",
    SharedLinearAttr: "#shared_linear",
    ThreadCellsAttr: "#cells",
    TensorMemoryAttr: "#tmem",
    StructType: "!struct",
}
"""The types and attributes that get an alias, with its name less the number."""


def alias_name(attribute: Attribute) -> str | None:
    """The alias less its number, of what gets one by its class; tiles by their memory, too."""
    if isinstance(attribute, MemDescType):
        return f"!{attribute.space}"
    return ALIASES.get(type(attribute))


# Reading ---------------------------------------------------------------------------------------


def read_shape(parser: Parser) -> tuple[int, ...]:
    """`?x64`, `()` for none."""
    if parser.parse_optional_punctuation("(") is not None:
        parser.parse_punctuation(")")
        return ()
    return tuple(DYNAMIC if n == DYNAMIC_INDEX else n for n in parser.parse_dimension_list())


def _read_extents(parser: Parser) -> tuple[int, ...]:
    def one() -> int:
        if parser.parse_optional_punctuation("?") is not None:
            return DYNAMIC
        return parser.parse_integer()

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))


def _read_memref(parser: Parser) -> Attribute | None:
    sizes, element = parser.parse_ranked_shape()
    parser.parse_punctuation(",")
    if parser.parse_optional_keyword("strides") is None:
        return None
    parser.parse_punctuation("=")
    shape = [DYNAMIC if size == DYNAMIC_INDEX else size for size in sizes]
    return MemRefType(element, shape, _read_extents(parser))


def _read_view(parser: Parser) -> Attribute | None:
    if parser._current_token.text.startswith("!"):
        return None
    shape = read_shape(parser)
    parser.parse_keyword("of")
    memref = parser.parse_type()
    if not isinstance(memref, MemRefType):
        parser.raise_error("expected a memref type")
    dim_map, steps, sparse = tuple(range(len(shape))), shape, ()
    padding: Attribute = NoneAttr()
    while parser.parse_optional_punctuation(",") is not None:
        key = parser.parse_identifier()
        parser.parse_punctuation("=")
        match key:
            case "dim_map":
                dim_map = read_integers(parser)
            case "steps":
                steps = read_integers(parser)
            case "sparse":
                sparse = read_integers(parser)
            case "padding":
                padding = PaddingValueAttr(parser.parse_str_enum(PaddingValue))
            case _:
                parser.raise_error(f"found '{key}', expected dim_map, steps, padding or sparse")
    numbers = [IntTupleAttr(part) for part in (shape, dim_map, steps)]
    return TiledViewType.new([memref, *numbers, padding, IntTupleAttr(sparse)])


def _read_memdesc(parser: Parser) -> Attribute | None:
    if parser._current_token.text.startswith("#"):
        return None
    shape, element = parser.parse_ranked_shape()
    parser.parse_punctuation(",")
    encoding = parser.parse_attribute()
    if not isinstance(encoding, ENCODINGS):
        parser.raise_error(f"expected one of {', '.join(each.name for each in ENCODINGS)}")
    parser.parse_punctuation(",")
    space = parser.parse_str_enum(MemorySpace)
    if space is not encoding.SPACE:
        parser.raise_error(f"found '{space}', expected '{encoding.SPACE}' for {encoding.name}")
    return MemDescType(shape, element, encoding)


def _encoding_reader(encoding: type[Encoding]) -> Callable[[Parser], Attribute | None]:
    def read(parser: Parser) -> Attribute | None:
        if parser._current_token.text.startswith("#"):
            return None
        parts: list[Attribute] = []
        for name in _encoding_fields(encoding):
            if parts and name in _USUAL and parser.parse_optional_punctuation(",") is None:
                parts.append(IntAttr(_USUAL[name]))
                continue
            if parts and name not in _USUAL:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            has_layout = name == "layout"
            parts.append(
                parser.parse_attribute() if has_layout else IntAttr(parser.parse_integer())
            )
        return encoding.new(parts)

    return read


def _read_layout(parser: Parser) -> Attribute | None:
    if parser.parse_optional_punctuation("{") is None:
        return None
    bases: dict[str, list[tuple[int, ...]]] = {}
    while not bases or parser.parse_optional_punctuation(",") is not None:
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        bases[name] = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: read_integers(parser)
        )
    parser.parse_punctuation("}")
    parser.parse_punctuation("->")
    return LayoutEncodingAttr(LinearLayout(bases, read_shape(parser)))


READERS: dict[str, Callable[[Parser], Attribute | None]] = {
    MemRefType.name: _read_memref,
    TiledViewType.name: _read_view,
    MemDescType.name: _read_memdesc,
    **{encoding.name: _encoding_reader(encoding) for encoding in ENCODINGS},
    LayoutEncodingAttr.name: _read_layout,
}
"""Reads what is between the angle brackets; None where it is the generic form."""
