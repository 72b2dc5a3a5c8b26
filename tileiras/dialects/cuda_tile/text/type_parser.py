"""Types of the text form, with or without the dialect's prefix."""

from __future__ import annotations

import re
from collections.abc import Callable

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

from tileiras.dialects.cuda_tile.attributes import (
    PaddingValue,
    PaddingValueAttr,
    PointerKind,
    PointerKindAttr,
)
from tileiras.dialects.cuda_tile.text.lexer import Lexer
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
from tileiras.suggestions import did_you_mean

_SIZE = re.compile(r"([0-9]+|\?)x")
_TILE_SIZES = re.compile(r"\(\s*((?:[0-9]+x)*[0-9]+)?\s*\)")
_INTEGER = re.compile(r"i([0-9]+)")

MAX_INTEGER_WIDTH = (1 << 24) - 1
"""MLIR's; no tile has so wide elements, but other operations' attributes may."""
MAX_TYPE_DEPTH = 16
"""Valid types nest four deep at most: functions of tiles of pointers to numbers."""

FLOAT_TYPES: dict[str, Attribute] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "tf32": FloatTF32Type(),
    "f64": Float64Type(),
    "f8E4M3FN": Float8E4M3FNType(),
    "f8E5M2": Float8E5M2Type(),
    "f8E8M0FNU": Float8E8M0FNUType(),
    "f4E2M1FN": Float4E2M1FNType(),
    "fnv8E5M3FNU": Float8E5M3FNUType(),
}
INTEGER_TYPES = {f"i{width}": IntegerType(width) for width in (1, 4, 8, 16, 32, 64)}

_ELSEWHERE = {
    "bool": "i1",
    "int": "i32",
    "long": "i64",
    "half": "f16",
    "float": "f32",
    "double": "f64",
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
    **{
        f"{sign}{width}": f"i{width}"
        for sign in ("int", "uint", "s", "u")
        for width in (8, 16, 32, 64)
    },
    **{f"{name}{width}": f"f{width}" for name in ("float", "fp") for width in (16, 32, 64)},
    **dict.fromkeys(("bfloat", "bfloat16"), "bf16"),
}
"""What Python, C and PTX call a type, and its name here: integers have no sign."""


def _meant(name: str) -> str:
    """`did you mean 'i32'?`, or nothing."""
    if name in _ELSEWHERE:
        return f"did you mean '{_ELSEWHERE[name]}'?"
    return did_you_mean(name, (*_TYPE_BODIES, "token", *FLOAT_TYPES, *INTEGER_TYPES))


class TypeParser(Lexer):
    """Parses types. What is built is checked, and errors name the place of the type."""

    type_depth = 0

    def type(self) -> Attribute:
        """A type: `tile<4xf32>`, `!cuda_tile.tile<..>`, `token`, `i32`, `(T) -> T`."""
        token = self.peek()
        if token.text == "(":
            return self.nested(self.function_type)
        if token.kind not in ("word", "bang"):
            self.fail(f"found {token.shown}, expected a type")
        name = token.text.removeprefix("!").removeprefix("cuda_tile.")
        simple = INTEGER_TYPES.get(name) or FLOAT_TYPES.get(name)
        if simple is not None:
            self.take()
            return simple
        if name == "token":
            self.take()
            return TOKEN
        body = _TYPE_BODIES.get(name)
        if body is None:
            width = _INTEGER.fullmatch(name)
            if width is None:
                self.fail(f"unknown type {token.shown}", label=_meant(name))
            bits = self.number(width[1], token)
            if not 1 <= bits <= MAX_INTEGER_WIDTH:
                self.fail(f"integer type has {bits} bits, expected 1 to {MAX_INTEGER_WIDTH}")
            self.take()
            return IntegerType(bits)
        self.take()
        self.expect("<")
        try:
            parsed = self.nested(lambda: body(self))
        except VerifyException as error:
            self.fail(str(error), token)
        self.expect(">")
        return parsed

    def nested(self, parse: Callable[[], Attribute]) -> Attribute:
        """A type inside another; too deep ones are refused, before Python's stack is."""
        self.type_depth += 1
        if self.type_depth > MAX_TYPE_DEPTH:
            self.fail("type is nested too deeply")
        parsed = parse()
        self.type_depth -= 1
        return parsed

    def function_type(self) -> FunctionType:
        """`(T, T) -> (T)` or `(T) -> T`."""
        inputs = self.types_in_parentheses()
        self.expect("->")
        return FunctionType.from_lists(inputs, self.result_types())

    def types_in_parentheses(self) -> list[Attribute]:
        """`(T, T)`, possibly empty."""
        return self.listed("(", ")", self.type)  # type: ignore[return-value]

    def result_types(self) -> list[Attribute]:
        """`T` or `(T, T)`."""
        return self.types_in_parentheses() if self.peek().text == "(" else [self.type()]

    def types(self) -> list[Attribute]:
        """`T, T, ..`, at least one."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def sizes(self) -> list[int]:
        """The dims in front of an element type: `4x?x`."""
        found = []
        token = self.peek()
        while (match := self.match_raw(_SIZE)) is not None:
            found.append(DYNAMIC if match[1] == "?" else self.number(match[1], token))
        return found

    def dim_list(self, what: str) -> list[int]:
        """`[1, 0]`, with `?` for what is dynamic."""

        def dim() -> int:
            if self.accept("?"):
                return DYNAMIC
            token = self.peek()
            value = self.integer(what)
            if not -(1 << 63) < value < 1 << 63:
                self.fail(f"expected strictly positive integer, got {value}", token)
            return value

        return self.listed("[", "]", dim)  # type: ignore[return-value]

    def pointer_kind(self) -> PointerKindAttr:
        """`<none>`, `#cuda_tile.ptr_attr<none>`."""
        if self.peek().kind == "hash":
            self.take()
        self.expect("<")
        kinds = tuple(kind.value for kind in PointerKind)
        kind = PointerKindAttr(PointerKind(self.choice(kinds, "a kind of pointer")))
        self.expect(">")
        return kind

    def tile_type(self) -> TileType:
        """What is inside `tile<>`."""
        sizes = self.sizes()
        if DYNAMIC in sizes:
            self.fail("tile has a dynamic size, expected static sizes only")
        return TileType(self.type(), sizes)

    def pointer_type(self) -> PointerType:
        """What is inside `ptr<>`."""
        pointee = self.type()
        return (
            PointerType(pointee, self.pointer_kind()) if self.accept(",") else PointerType(pointee)
        )

    def tensor_view_type(self) -> TensorViewType:
        """What is inside `tensor_view<>`."""
        sizes = self.sizes()
        element = self.type()
        strides: list[int] = []
        kind: PointerKindAttr | NoneAttr = NoneAttr()
        while self.accept(","):
            token = self.peek()
            if self.accept("strides"):
                self.expect("=")
                if not sizes:
                    self.fail("strides must not be provided for 0-d tiles", token)
                strides = self.dim_list("a stride")
            else:
                kind = self.pointer_kind()
        return TensorViewType(element, sizes, strides, kind)

    def tile_sizes(self) -> list[int]:
        """`tile=(4x8)`."""
        self.expect("tile")
        self.expect("=")
        match = self.match_raw(_TILE_SIZES)
        if match is None:
            self.fail(f"found {self.peek().shown}, expected the sizes of a tile in parentheses")
        token = self.peek()
        return [self.number(size, token) for size in match[1].split("x")] if match[1] else []

    def optional_padding(self) -> PaddingValueAttr | NoneAttr:
        """`, padding_value = zero` before the tensor view; takes the comma in front of it."""
        self.expect(",")
        if not self.accept("padding_value"):
            return NoneAttr()
        self.expect("=")
        values = tuple(value.value for value in PaddingValue)
        padding = PaddingValueAttr(PaddingValue(self.choice(values, "a padding value")))
        self.expect(",")
        return padding

    def tensor_view(self) -> TensorViewType:
        """The tensor view that a view is of."""
        token = self.peek()
        view = self.type()
        if not isinstance(view, TensorViewType):
            self.fail("found another type, expected a tensor_view", token)
        return view

    def optional_dim_map(self, rank: int) -> list[int]:
        """`, dim_map=[1, 0]`, the identity if absent."""
        if not self.accept(","):
            return list(range(rank))
        self.expect("dim_map")
        self.expect("=")
        return self.dim_list("a dim")

    def partition_view_type(self) -> PartitionViewType:
        """What is inside `partition_view<>`."""
        sizes = self.tile_sizes()
        padding = self.optional_padding()
        view = self.tensor_view()
        return PartitionViewType(sizes, view, self.optional_dim_map(len(sizes)), padding)

    def strided_view_type(self) -> StridedViewType:
        """What is inside `strided_view<>`."""
        sizes = self.tile_sizes()
        self.expect(",")
        self.expect("traversal_strides")
        self.expect("=")
        strides = self.dim_list("a traversal stride")
        padding = self.optional_padding()
        view = self.tensor_view()
        return StridedViewType(sizes, strides, view, self.optional_dim_map(len(sizes)), padding)

    def gather_scatter_view_type(self) -> GatherScatterViewType:
        """What is inside `gather_scatter_view<>`."""
        sizes = self.tile_sizes()
        padding = self.optional_padding()
        view = self.tensor_view()
        self.expect(",")
        self.expect("sparse_dim")
        self.expect("=")
        return GatherScatterViewType(sizes, view, self.integer("a dim"), padding)


_TYPE_BODIES: dict[str, Callable[[TypeParser], Attribute]] = {
    "tile": TypeParser.tile_type,
    "ptr": TypeParser.pointer_type,
    "tensor_view": TypeParser.tensor_view_type,
    "partition_view": TypeParser.partition_view_type,
    "strided_view": TypeParser.strided_view_type,
    "gather_scatter_view": TypeParser.gather_scatter_view_type,
}
