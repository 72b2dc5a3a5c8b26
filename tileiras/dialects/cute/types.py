"""The types of the dialect. Each holds a value of the algebra, with `?` for what is not known.

    !cute.int<64>  !cute.int<?{div=8}>        !cute.shape<(4,(2,8))>  !cute.stride<(1,(4,?))>
    !cute.coord<(0,(_,?))>                    !cute.tile<[128:1;64:1]>
    !cute.layout<(64,128),(1,64)>             !cute.swizzle<S<3,4,3>>
    !cute.composed_layout<S<3,4,3> o 0 o (8,64):(64,1)>
    !cute.ptr<f16, gmem, align<16>>           !cute.tensor<f16, gmem, align<16>, (8,64):(64,1)>
    !cute.copy_atom<universal, 128>           !cute.tiled_copy<universal, 128, (32,4):(4,1), (128)>
    !cute.mma_atom<warp, (16,8,16), f16, f16, f32>

What is in the brackets is the algebra's notation, and may stand in quotes as other printers of
CuTe write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from xdsl.ir import Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import evaluate, value_text
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Basis, Dynamic
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle
from tileiras.dialects.cute.values import (
    CopyAtom,
    MmaAtom,
    PointerInfo,
    Tensor,
    TiledCopy,
    TiledMma,
    normal,
)


def raw_parameter(parser: AttrParser) -> str:
    """The text between `<` and the `>` that closes it, without quotes around it."""
    token = parser._current_token
    text, at, depth = token.span.input.content, token.span.start, 0
    start = at
    while True:
        if at >= len(text) or (depth == 0 and text[at] != "<") or text[at] == "\n":
            parser.raise_error("expected '<' and the matching '>' on the same line")
        depth += {"<": 1, ">": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            break
    parser._resume_from(at)
    return text[start + 1 : at - 1].strip().strip('"').strip()


def split_parameters(text: str) -> list[str]:
    """The parts of a text between commas that are in no bracket."""
    parts, depth = [""], 0
    for char in text:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


class CuteType(Data[Any], TypeAttribute):
    """A type that holds a value; `read` and `text` are its notation."""

    title: ClassVar[str] = ""

    @classmethod
    def read(cls, text: str) -> Any:
        """The value of a text; AlgebraError for one that is none."""
        raise NotImplementedError(f"{cls.name} reads {text}")

    @classmethod
    def text(cls, value: Any) -> str:
        """The notation of a value."""
        return value_text(value)

    @classmethod
    def of(cls, value: Any) -> CuteType:
        """The type of a value."""
        return cls.new(normal(value))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """Reads `<value>`."""
        position = parser.pos
        text = raw_parameter(parser)
        try:
            return normal(cls.read(text))
        except AlgebraError as error:
            parser.raise_error(f"!{cls.name}: {error}", position, position)

    def print_parameter(self, printer: Printer) -> None:
        """Writes `<value>`."""
        printer.print_string(f"<{self.text(self.data)}>")

    def __str__(self) -> str:
        return f"!{self.name}<{self.text(self.data)}>"


class SpelledType(CuteType):
    """A type whose notation is that of its value, `str(value)`."""

    @classmethod
    def text(cls, value: Any) -> str:
        """The parameters as `read` takes them."""
        return str(value)


def _evaluated(accepted: Callable[[Any], bool], what: str) -> Callable[[str], Any]:
    """A reader of expressions with a value that is accepted."""

    def read(text: str) -> Any:
        value = evaluate(text)
        if not accepted(value):
            raise AlgebraError(f"expected {what}, found '{text}'")
        return value

    return read


def is_leaf(value: Any) -> bool:
    """Whether the value is a leaf of a shape or stride."""
    return isinstance(value, (int, Dynamic, Basis)) and not isinstance(value, bool)


def is_int_tuple(value: Any, extra: Callable[[Any], bool] = is_leaf) -> bool:
    """Whether the value is a tuple of tuples or leaves, or such a leaf."""
    if isinstance(value, tuple):
        return all(is_int_tuple(part, extra) for part in value)
    return extra(value)


def _is_extent(value: Any) -> bool:
    return (
        is_leaf(value) and not isinstance(value, Basis) and not (value in (0,) or _negative(value))
    )


def _negative(value: Any) -> bool:
    return isinstance(value, int) and value < 0


def _is_tiler(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(part is None or _is_tiler(part) for part in value)
    return isinstance(value, Layout) or (is_leaf(value) and not isinstance(value, Basis))


@irdl_attr_definition
class IntType(CuteType):
    """An integer: `!cute.int<64>`, `!cute.int<?{div=8}>`."""

    name = "cute.int"
    title = "an integer"
    read = staticmethod(_evaluated(is_leaf, "an integer"))  # pyright: ignore


@irdl_attr_definition
class BoolType(CuteType):
    """A truth value: `!cute.bool<true>`, `!cute.bool<?>`."""

    name = "cute.bool"
    title = "a truth value"

    @classmethod
    def read(cls, text: str) -> Any:
        """`true`, `false` or `?`."""
        known = {"true": True, "false": False, "?": Dynamic.symbol("?")}
        if text not in known:
            raise AlgebraError(f"expected true, false or ?, found '{text}'")
        return known[text]

    @classmethod
    def text(cls, value: Any) -> str:
        """`true`, `false` or `?`."""
        return str(value).lower()


@irdl_attr_definition
class ShapeType(CuteType):
    """A shape: extents from 1 on, nested: `!cute.shape<(4,(2,?))>`."""

    name = "cute.shape"
    title = "a shape"
    read = staticmethod(  # pyright: ignore
        _evaluated(lambda v: is_int_tuple(v, _is_extent), "a shape of extents from 1 on")
    )


@irdl_attr_definition
class StrideType(CuteType):
    """A stride: integers and basis elements, nested: `!cute.stride<(1@0,1@1)>`."""

    name = "cute.stride"
    title = "a stride"
    read = staticmethod(_evaluated(is_int_tuple, "a stride"))  # pyright: ignore


@irdl_attr_definition
class CoordType(CuteType):
    """A coordinate; `_` is a mode that is kept: `!cute.coord<(0,(_,?))>`."""

    name = "cute.coord"
    title = "a coordinate"
    read = staticmethod(  # pyright: ignore
        _evaluated(
            lambda v: is_int_tuple(v, lambda leaf: leaf is None or is_leaf(leaf)), "a coordinate"
        )
    )

    @classmethod
    def text(cls, value: Any) -> str:
        """`(0,(_,?))`."""
        if isinstance(value, tuple):
            return "(" + ",".join(cls.text(part) for part in value) + ")"
        return "_" if value is None else str(value)


@irdl_attr_definition
class TileType(CuteType):
    """A tiler: a layout, or one per mode: `!cute.tile<[128:1;_;8]>`."""

    name = "cute.tile"
    title = "a tiler"
    read = staticmethod(_evaluated(_is_tiler, "a tiler"))  # pyright: ignore

    @classmethod
    def text(cls, value: Any) -> str:
        """`[128:1;_;8]`."""
        if isinstance(value, tuple):
            return "[" + ";".join(cls.text(part) for part in value) + "]"
        return value_text(value)


@irdl_attr_definition
class LayoutType(CuteType):
    """A layout: `!cute.layout<(64,128),(1,64)>`, also read as `(64,128):(1,64)`."""

    name = "cute.layout"
    title = "a layout"

    @classmethod
    def read(cls, text: str) -> Any:
        """`shape,stride` or `shape:stride`."""
        parts = split_parameters(text)
        value = evaluate(":".join(parts)) if len(parts) == 2 else evaluate(text)
        if not isinstance(value, Layout):
            raise AlgebraError(f"expected a layout 'shape,stride', found '{text}'")
        return value

    @classmethod
    def text(cls, value: Any) -> str:
        """`shape,stride`."""
        return f"{text_of(value.shape)},{text_of(value.stride)}"


@irdl_attr_definition
class SwizzleType(CuteType):
    """A swizzle: `!cute.swizzle<S<3,4,3>>`."""

    name = "cute.swizzle"
    title = "a swizzle"
    read = staticmethod(_evaluated(lambda v: isinstance(v, Swizzle), "a swizzle"))  # pyright: ignore


@irdl_attr_definition
class ComposedLayoutType(CuteType):
    """A layout after another function: `!cute.composed_layout<S<3,4,3> o 0 o (8,64):(64,1)>`."""

    name = "cute.composed_layout"
    title = "a composed layout"
    read = staticmethod(  # pyright: ignore
        _evaluated(lambda v: isinstance(v, ComposedLayout), "a composed layout")
    )


def _pointer(parts: list[str], text: str) -> PointerInfo:
    match = re.fullmatch(r"align<(\d+)>", parts[2]) if len(parts) == 3 else None
    if match is None:
        raise AlgebraError(f"expected 'element, space, align<bytes>', found '{text}'")
    return PointerInfo(parts[0], parts[1], int(match[1]))


@irdl_attr_definition
class PtrType(SpelledType):
    """A pointer: its elements, memory space and alignment: `!cute.ptr<f16, gmem, align<16>>`."""

    name = "cute.ptr"
    title = "a pointer"

    @classmethod
    def read(cls, text: str) -> Any:
        """`element, space, align<bytes>`."""
        return _pointer(split_parameters(text), text)


@irdl_attr_definition
class TensorType(SpelledType):
    """A pointer and a layout: `!cute.tensor<f16, gmem, align<16>, (8,64):(64,1)>`."""

    name = "cute.tensor"
    title = "a tensor"

    @classmethod
    def read(cls, text: str) -> Any:
        """`element, space, align<bytes>, layout`."""
        parts = split_parameters(text)
        layout = evaluate(parts[3]) if len(parts) == 4 else None
        if not isinstance(layout, (Layout, ComposedLayout)):
            raise AlgebraError(f"expected 'element, space, align<bytes>, layout', found '{text}'")
        return Tensor(_pointer(parts[:3], text), layout)


def _int(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise AlgebraError(f"expected a number, found '{text}'")
    return int(text)


def _copy_atom(parts: list[str], text: str) -> CopyAtom:
    if len(parts) != 2:
        raise AlgebraError(f"expected 'kind, bits', found '{text}'")
    return CopyAtom(parts[0], _int(parts[1]))


def _mma_atom(parts: list[str], text: str) -> MmaAtom:
    shape = evaluate(parts[1]) if len(parts) in (5, 7) else None
    if not isinstance(shape, tuple) or len(shape) != 3:
        raise AlgebraError(f"expected 'kind, (M,N,K), A, B, C', found '{text}'")
    if not all(isinstance(extent, int) for extent in shape):
        raise AlgebraError(f"an atom has a static shape, found '{text}'")
    scale, block = (parts[5], _int(parts[6])) if len(parts) == 7 else ("", 0)
    return MmaAtom(parts[0], shape, (parts[2], parts[3], parts[4]), scale, block)


@irdl_attr_definition
class CopyAtomType(SpelledType):
    """What one instruction copies: `!cute.copy_atom<universal, 128>`."""

    name = "cute.copy_atom"
    title = "a copy atom"

    @classmethod
    def read(cls, text: str) -> Any:
        """`kind, bits`."""
        return _copy_atom(split_parameters(text), text)


@irdl_attr_definition
class MmaAtomType(SpelledType):
    """What one instruction multiplies: `!cute.mma_atom<warp, (16,8,16), f16, f16, f32>`; with
    scales their type and the elements along K that share one: `.., f32, f8E8M0FNU, 32>`."""

    name = "cute.mma_atom"
    title = "an MMA atom"

    @classmethod
    def read(cls, text: str) -> Any:
        """`kind, (M,N,K), A, B, C`, then of scales `type, elements`."""
        return _mma_atom(split_parameters(text), text)


@irdl_attr_definition
class TiledCopyType(SpelledType):
    """A copy atom, its TV layout and its tile: `!cute.tiled_copy<universal, 128, (32,4):(4,1),
    (128)>`."""

    name = "cute.tiled_copy"
    title = "a tiled copy"

    @classmethod
    def read(cls, text: str) -> Any:
        """`kind, bits, TV layout, tile`."""
        parts = split_parameters(text)
        if len(parts) != 4:
            raise AlgebraError(f"expected 'kind, bits, TV layout, tile', found '{text}'")
        layout, tile = evaluate(parts[2]), evaluate(parts[3])
        if not isinstance(layout, Layout) or not isinstance(tile, tuple):
            raise AlgebraError(f"expected a TV layout and a tile (M,N), found '{text}'")
        return TiledCopy(_copy_atom(parts[:2], text), layout, tile)


@irdl_attr_definition
class TiledMmaType(SpelledType):
    """An MMA atom and the layout of its warps: `!cute.tiled_mma<warp, (16,8,16), f16, f16, f32,
    (2,2,1):(1,2,0)>`."""

    name = "cute.tiled_mma"
    title = "a tiled MMA"

    @classmethod
    def read(cls, text: str) -> Any:
        """`kind, (M,N,K), A, B, C, layout`."""
        parts = split_parameters(text)
        layout = evaluate(parts[-1]) if len(parts) in (6, 8) else None
        if not isinstance(layout, Layout):
            raise AlgebraError(f"expected 'kind, (M,N,K), A, B, C, layout', found '{text}'")
        return TiledMma(_mma_atom(parts[:-1], text), layout)


TYPES: tuple[type[CuteType], ...] = (
    IntType,
    BoolType,
    ShapeType,
    StrideType,
    CoordType,
    TileType,
    LayoutType,
    SwizzleType,
    ComposedLayoutType,
    PtrType,
    TensorType,
    CopyAtomType,
    MmaAtomType,
    TiledCopyType,
    TiledMmaType,
)
"""All types of the dialect."""
