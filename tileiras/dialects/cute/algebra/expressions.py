"""Texts of the algebra: layouts, tilers, swizzles, composed layouts and calls of its functions.

(8,(2,4)):(4,(1,16))            a layout; a shape alone is an int-tuple
(4,8):(8,1) with strides left out is written compact((4,8))
?  ?{div=8}  M  1@0             dynamic extents and strides, basis elements
[4:1;_;8]                       a tiler by mode, `_` for none
S<3,4,3>                        a swizzle
S<3,4,3> o 0 o (8,8):(8,1)      a composed layout
composition((8,4):(4,1), 4:2)   a function; `FUNCTIONS` lists them
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra import (
    composition,
    coordinates,
    divides,
    int_tuples,
    inverses,
    partitions,
    products,
    transforms,
)
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, text_of
from tileiras.dialects.cute.algebra.layout import Layout, Tiler
from tileiras.dialects.cute.algebra.leaves import Basis, Dynamic, Leaf, leaf_of_text
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle

Value = Leaf | Layout | ComposedLayout | Swizzle | bool | None | tuple[Any, ...]
"""What an expression stands for; `_` is None. A tiler by mode is a tuple, as in the algebra."""

_TOKEN = re.compile(
    r"\s*(S<\s*-?\d+\s*,\s*-?\d+\s*,\s*-?\d+\s*>|-?\d+(?:@\d+)*|\?\{div=\d+\}|\?"
    r"|[A-Za-z_]\w*|[()\[\],:;])"
)
MAX_NESTING = 64


def _composed(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """Composition with any layout on the left."""
    if isinstance(layout, ComposedLayout):
        return layout.after(tiler)
    return composition.composition(layout, tiler)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": lambda x: x.size if isinstance(x, Layout) else x.static_size,
    "cosize": lambda x: x.cosize,
    "rank": lambda x: x.rank,
    "depth": lambda x: int_tuples.depth(x.shape),
    "shape": lambda x: x.shape,
    "stride": lambda x: x.stride,
    "congruent": lambda a, b: int_tuples.is_congruent(a.shape, b.shape),
    "compatible": lambda a, b: int_tuples.is_compatible(a.shape, b.shape),
    "compact": Layout.compact,
    "row_major": Layout.row_major,
    "crd2idx": coordinates.crd2idx,
    "idx2crd": coordinates.idx2crd,
    "slice": coordinates.slice_layout,
    "dice": coordinates.dice_layout,
    "coalesce": transforms.coalesce,
    "filter": transforms.filter_layout,
    "flatten": transforms.flatten,
    "group": transforms.group_modes,
    "append": transforms.append,
    "prepend": transforms.prepend,
    "select": lambda layout, *modes: transforms.select(layout, modes),
    "upcast": transforms.upcast,
    "downcast": transforms.downcast,
    "recast": transforms.recast,
    "composition": _composed,
    "complement": inverses.complement,
    "right_inverse": inverses.right_inverse,
    "left_inverse": inverses.left_inverse,
    "logical_divide": divides.logical_divide,
    "zipped_divide": divides.zipped_divide,
    "tiled_divide": divides.tiled_divide,
    "flat_divide": divides.flat_divide,
    "logical_product": products.logical_product,
    "zipped_product": products.zipped_product,
    "tiled_product": products.tiled_product,
    "flat_product": products.flat_product,
    "blocked_product": products.blocked_product,
    "raked_product": products.raked_product,
    "tv_layout": lambda threads, values: partitions.tv_layout(threads, values)[0],
}
"""The functions by CuTe's names."""


def evaluate(text: str) -> Value:
    """The value of an expression; AlgebraError, with the place, for a text that is none."""
    reader = _Reader(text)
    value = reader.value(0)
    reader.expect_end()
    return value


def layout_of_text(text: str) -> Layout:
    """The layout that an expression stands for; an int-tuple alone is a compact one."""
    value = evaluate(text)
    if isinstance(value, Layout):
        return value
    if isinstance(value, (int, tuple)) and _is_int_tuple(value):
        return Layout.compact(value)
    raise AlgebraError(f"expected a layout, found '{text}'")


def value_text(value: Value) -> str:
    """A value as an expression."""
    if value is None:
        return "_"
    if isinstance(value, tuple) and not _is_int_tuple(value):
        return "[" + ";".join(value_text(part) for part in value) + "]"
    return text_of(value) if isinstance(value, tuple) else str(value)


def _is_int_tuple(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_int_tuple(part) for part in value)
    return isinstance(value, (int, Dynamic, Basis))


class _Reader:
    """Recursive descent over tokens."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise AlgebraError(f"unexpected '{text[at]}' at column {at + 1}")
            self.tokens.append((match[1], match.start(1)))
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """The next token, which is consumed."""
        token = self.peek()
        self.at += 1
        return token

    def fail(self, expected: str) -> AlgebraError:
        """The error of another token than expected."""
        if self.at >= len(self.tokens):
            return AlgebraError(f"expected {expected}, found the end of '{self.text}'")
        token, column = self.tokens[self.at]
        return AlgebraError(f"expected {expected} at column {column + 1}, found '{token}'")

    def expect(self, token: str) -> None:
        """Consumes a token; AlgebraError for another one."""
        if self.peek() != token:
            raise self.fail(f"'{token}'")
        self.at += 1

    def expect_end(self) -> None:
        """AlgebraError unless all is read."""
        if self.at < len(self.tokens):
            raise self.fail("the end")

    def value(self, nesting: int) -> Value:
        """A term, or terms joined by `o`: a composed layout."""
        first = self.term(nesting)
        if self.peek() != "o":
            return first
        self.take()
        second = self.term(nesting)
        offset = 0
        if self.peek() == "o":
            self.take()
            if not isinstance(second, int):
                raise AlgebraError(f"an offset is an integer, found {value_text(second)}")
            offset, second = second, self.term(nesting)
        if not isinstance(first, (Swizzle, Layout)) or not isinstance(second, Layout):
            raise AlgebraError("a composed layout is a swizzle or layout, an offset and a layout")
        return ComposedLayout(first, offset, second)

    def term(self, nesting: int) -> Value:
        """An int-tuple, a layout, a tiler, a swizzle or a call."""
        if nesting > MAX_NESTING:
            raise AlgebraError(f"expressions are nested at most {MAX_NESTING} deep")
        token = self.peek()
        if token.startswith("S<"):
            self.take()
            bits, base, shift = (int(number) for number in re.findall(r"-?\d+", token))
            return Swizzle(bits, base, shift)
        if token == "[":
            self.take()
            return self.list_of("]", ";", nesting)
        if re.match(r"[A-Za-z]\w*$", token) and self.next_is_call():
            return self.call(nesting)
        shape = self.tuple_or_leaf(nesting)
        if self.peek() != ":":
            return shape
        self.take()
        stride = self.tuple_or_leaf(nesting)
        if not _is_int_tuple(shape) or not _is_int_tuple(stride):
            raise AlgebraError("shapes and strides are integers and tuples of them")
        return Layout(_as_int_tuple(shape), _as_int_tuple(stride))

    def next_is_call(self) -> bool:
        """Whether the token after the next opens a parenthesis."""
        after = self.at + 1
        return after < len(self.tokens) and self.tokens[after][0] == "("

    def tuple_or_leaf(self, nesting: int) -> Value:
        """`(a,b)`, a leaf, or `_`."""
        token = self.peek()
        if token == "(":
            self.take()
            return self.list_of(")", ",", nesting)
        if token == "_":
            self.take()
            return None
        if not token or token in "()[],:;":
            raise self.fail("a layout, a number or a function")
        self.take()
        return leaf_of_text(token)

    def list_of(self, end: str, separator: str, nesting: int) -> tuple[Value, ...]:
        """Values up to `end`."""
        values: list[Value] = []
        while self.peek() != end:
            if values:
                self.expect(separator)
            values.append(self.value(nesting + 1))
        self.take()
        return tuple(values)

    def call(self, nesting: int) -> Value:
        """`name(arguments)`; AlgebraError for an unknown name or arguments that do not fit."""
        name = self.take()
        self.take()
        arguments = self.list_of(")", ",", nesting)
        function = FUNCTIONS.get(name)
        if function is None:
            raise AlgebraError(f"unknown function '{name}', expected one of {', '.join(FUNCTIONS)}")
        try:
            return function(*arguments)
        except (TypeError, AttributeError) as error:
            texts = ", ".join(value_text(argument) for argument in arguments)
            raise AlgebraError(f"{name} does not take ({texts})") from error


def _as_int_tuple(value: Any) -> IntTuple:
    """The value, known to be an int-tuple."""
    return value
