"""How an operation is declared: one row with its operands, its function and its equation.

`operation("composition", "layout, tiler -> layout", composition, "..")` makes the class of
`cute.composition`. The function is the algebra's. Applied to what types know it infers the type of
the result; applied to numbers it is what the interpreter computes. So verifier, inference, folder,
text and interpreter rule of all operations are in this file.

A signature names kinds of operands; `|` separates kinds, `?` marks one that may be left out, `*`
one that may come any number of times, and what follows `->` is the kind of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cute import types as t
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout
from tileiras.dialects.cute.values import Tensor, is_static

KINDS: dict[str, tuple[str, ...]] = {
    "int": ("cute.int", "i32"),
    "bool": ("cute.bool",),
    "shape": ("cute.shape", "cute.int"),
    "stride": ("cute.stride", "cute.int"),
    "coord": ("cute.coord", "cute.int", "i32"),
    "tuple": ("cute.int", "cute.shape", "cute.stride", "cute.coord"),
    "tiler": ("cute.tile", "cute.layout", "cute.shape", "cute.int"),
    "layout": ("cute.layout",),
    "any_layout": ("cute.layout", "cute.composed_layout"),
    "view": ("cute.layout", "cute.composed_layout", "cute.tensor"),
    "function": ("cute.swizzle", "cute.layout"),
    "swizzle": ("cute.swizzle",),
    "ptr": ("cute.ptr",),
    "tensor": ("cute.tensor",),
    "copy_atom": ("cute.copy_atom",),
    "mma_atom": ("cute.mma_atom",),
    "tiled_copy": ("cute.tiled_copy",),
    "tiled_mma": ("cute.tiled_mma",),
    "scalar": ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64"),
}
"""Kinds of operands: the types that belong to each."""

_RESULTS: dict[str, type[t.CuteType]] = {
    "int": t.IntType,
    "first": t.IntType,
    "bool": t.BoolType,
    "shape": t.ShapeType,
    "stride": t.StrideType,
    "coord": t.CoordType,
    "tiler": t.TileType,
    "swizzle": t.SwizzleType,
    "ptr": t.PtrType,
    "tensor": t.TensorType,
    "copy_atom": t.CopyAtomType,
    "mma_atom": t.MmaAtomType,
    "tiled_copy": t.TiledCopyType,
    "tiled_mma": t.TiledMmaType,
}


def add_kind(kind: str, type: type[t.CuteType]) -> None:
    """Makes a kind of operands and results known, whose one type another dialect brings."""
    KINDS[kind] = (type.name,)
    _RESULTS[kind] = type


@dataclass(frozen=True)
class Parameter:
    """An operand of a signature."""

    kinds: tuple[str, ...]
    count: str

    @property
    def types(self) -> tuple[str, ...]:
        """The names of the types that it accepts."""
        return tuple(dict.fromkeys(name for kind in self.kinds for name in KINDS[kind]))


@dataclass(frozen=True)
class Signature:
    """The operands, the result ("" for none) and the number of static parameters."""

    operands: tuple[Parameter, ...]
    result: str
    statics: range

    @classmethod
    def of(cls, text: str, statics: range) -> Signature:
        """The signature of a text such as `view, tiler? -> view`."""
        left, _, right = text.partition("->")
        parts = [part.strip() for part in left.split(",") if part.strip()]
        operands = tuple(
            Parameter(tuple(part.rstrip("?*").split("|")), part[-1] if part[-1] in "?*" else "")
            for part in parts
        )
        return cls(operands, right.strip(), statics)

    def check(self, types: Sequence[Attribute]) -> None:
        """VerifyException for operands of other numbers or kinds."""
        least = sum(not operand.count for operand in self.operands)
        many = any(operand.count == "*" for operand in self.operands)
        if len(types) < least or (len(types) > len(self.operands) and not many):
            most = "more" if many else str(len(self.operands))
            wanted = str(least) if str(least) == most else f"{least} or {most}"
            raise VerifyException(f"has {len(types)} operands, expected {wanted}")
        for number, found in enumerate(types):
            wanted_operand = self.operands[min(number, len(self.operands) - 1)]
            if type_name(found) not in wanted_operand.types:
                names = ", ".join(_spelled(name) for name in wanted_operand.types)
                raise VerifyException(f"operand {number} is {found}, expected {names}")


def _spelled(name: str) -> str:
    return f"!{name}" if "." in name else name


def type_name(found: Attribute) -> str:
    """The name of a type as `KINDS` has it."""
    return found.name if isinstance(found, t.CuteType) else str(found)


def value_of_type(found: Attribute) -> Any:
    """What a type knows of its value: of the builtin ones nothing."""
    return found.data if isinstance(found, t.CuteType) else Dynamic.symbol(UNKNOWN)


def type_of_value(value: Any, kind: str) -> t.CuteType:
    """The type of a value that an operation with this kind of result has."""
    if isinstance(value, ComposedLayout):
        return t.ComposedLayoutType.of(value)
    if isinstance(value, Layout) and kind not in ("tiler",):
        return t.LayoutType.of(value)
    if isinstance(value, Tensor):
        return t.TensorType.of(value)
    return _RESULTS[kind].of(value)


class CuteOp(IRDLOperation):
    """An operation that a function of the algebra describes.

    `parameters` are the static ones, written `cute.group_modes<0,2>(%layout)`.
    """

    inputs = var_operand_def()
    outputs = var_result_def()
    parameters = opt_prop_def(ArrayAttr[IntAttr])
    SIGNATURE: ClassVar[Signature]
    FUNCTION: ClassVar[Callable[..., Any]]
    GIVEN: ClassVar[bool] = False
    """Whether the result's type is written by the user and handed to the function last."""

    @property
    def statics(self) -> list[int]:
        """The static parameters."""
        return [] if self.parameters is None else [number.data for number in self.parameters]

    def apply(self, values: Sequence[Any]) -> Any:
        """The value of the result for these operands; AlgebraError where there is none."""
        if self.GIVEN:
            return type(self).FUNCTION(value_of_type(self.outputs[0].type), *values, *self.statics)
        return type(self).FUNCTION(*values, *self.statics)

    def inferred(self) -> t.CuteType | None:
        """The type of the result; None for an operation without one."""
        value = self.apply([value_of_type(operand.type) for operand in self.inputs])
        if not self.SIGNATURE.result:
            return None
        if self.GIVEN:
            written = self.outputs[0].type
            assert isinstance(written, t.CuteType)
            return type(written).of(value)
        return self.type_of(value)

    def type_of(self, value: Any) -> t.CuteType:
        """The type of a result of this operation; "first" is the class of the first operand."""
        first = self.inputs[0].type if self.SIGNATURE.result == "first" else None
        if isinstance(first, t.CuteType):
            return type(first).of(value)
        return type_of_value(value, self.SIGNATURE.result)

    def folded(self) -> t.CuteType | None:
        """The type that says all of the result; None where something is known at run time only."""
        if len(self.outputs) != 1 or not isinstance(self.outputs[0].type, t.CuteType):
            return None
        return self.outputs[0].type if is_static(self.outputs[0].type.data) else None

    def verify_(self) -> None:
        """Operands are of their kinds, the algebra takes them, and the result is what it gives."""
        self._check_parameters()
        wanted_results = int(bool(self.SIGNATURE.result))
        if len(self.outputs) != wanted_results:
            raise VerifyException(f"has {len(self.outputs)} results, expected {wanted_results}")
        if self.GIVEN:
            self._check_given()
        try:
            inferred = self.inferred()
        except AlgebraError as error:
            raise VerifyException(str(error)) from error
        if inferred is not None and inferred != self.outputs[0].type:
            raise VerifyException(f"result is {self.outputs[0].type}, expected {inferred}")

    def _check_parameters(self) -> None:
        """Operands are of their kinds, static parameters as many as wanted."""
        self.SIGNATURE.check([operand.type for operand in self.inputs])
        if len(self.statics) not in self.SIGNATURE.statics:
            least, most = self.SIGNATURE.statics[0], self.SIGNATURE.statics[-1]
            wanted = str(least) if least == most else f"{least} to {most}"
            raise VerifyException(f"has {len(self.statics)} static parameters, expected {wanted}")

    def _check_given(self) -> None:
        types = Parameter(tuple(self.SIGNATURE.result.split("|")), "").types
        found = self.outputs[0].type
        if not isinstance(found, t.CuteType) or found.name not in types:
            names = ", ".join(_spelled(name) for name in types)
            raise VerifyException(f"result is {found}, expected {names}")

    # Text ------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> CuteOp:
        """`<1,2>(%a, %b) : (T, T) -> T`; types may be left out where they follow."""
        start = max(0, parser.pos - len(cls.name))
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_punctuation("<") is not None:
            numbers = [parser.parse_integer()]
            while parser.parse_optional_punctuation(",") is not None:
                numbers.append(parser.parse_integer())
            parser.parse_punctuation(">")
            properties["parameters"] = ArrayAttr([IntAttr(number) for number in numbers])
        uses = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        results: Sequence[Attribute] | None = None
        if parser.parse_optional_punctuation(":") is not None:
            kind = parser.parse_function_type()
            if len(kind.inputs) != len(uses):
                message = f"{len(uses)} operands, but {len(kind.inputs)} types"
                parser.raise_error(message, start, start)
            operands = list(map(parser.resolve_operand, uses, kind.inputs))
            results = list(kind.outputs)
        else:
            operands = [defined_value(parser, use) for use in uses]
            if parser.parse_optional_punctuation("->") is not None:
                results = [parser.parse_type()]
        if results is None:
            results = cls._elided(parser, start, operands, properties)
        return cls.create(
            operands=operands, result_types=results, properties=properties, attributes=attributes
        )

    @classmethod
    def _elided(
        cls,
        parser: Parser,
        start: int,
        operands: Sequence[SSAValue],
        properties: dict[str, Attribute],
    ) -> list[Attribute]:
        """The result types that follow from the operands; an error at the operation if none do."""
        if not cls.SIGNATURE.result:
            return []
        if cls.GIVEN:
            parser.raise_error(f"'{cls.name}' op needs the type of its result", start, start)
        op = cls.create(operands=operands, properties=properties)
        found: t.CuteType | None = None
        try:
            op._check_parameters()
            found = op.inferred()
        except (AlgebraError, VerifyException) as error:
            op.erase()
            parser.raise_error(f"'{cls.name}' op {error}", start, start)
        op.erase()
        return [] if found is None else [found]

    def print(self, printer: Printer) -> None:
        """Writes what `parse` reads, with all types."""
        if self.statics:
            printer.print_string(f"<{','.join(map(str, self.statics))}>")
        printer.print_string("(")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(")")
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)


def defined_value(parser: Parser, use: UnresolvedOperand) -> SSAValue:
    """The value of a name whose type is not written; an error if nothing has defined it."""
    found = parser.ssa_values.get(use.operand_name)
    if found is None or use.index >= len(found):
        start = use.span.start
        parser.raise_error(f"value {use.span.text} is not defined before", start, use.span.end)
    return found[use.index]


class PureCuteOp(CuteOp):
    """... that touches no memory."""

    traits = traits_def(Pure())


def operation(
    name: str,
    signature: str,
    function: Callable[..., Any],
    doc: str,
    statics: int | range = 0,
    pure: bool = True,
    given: bool = False,
    dialect: str = "cute",
) -> type[CuteOp]:
    """The class of `<dialect>.<name>`; `doc` is a sentence with an equation.

    `given`: the user writes the type of the result, and `function` gets its value first. One that
    is not `pure` acts on memory or other threads; its signature may leave out the arrow.
    """
    if not pure and "->" not in signature:
        signature += " ->"
    counts = statics if isinstance(statics, range) else range(statics, statics + 1)
    class_name = "".join(word.capitalize() for word in name.split("_")) + "Op"
    members: dict[str, Any] = {
        "__doc__": doc,
        "__module__": __name__,
        "__annotations__": dict.fromkeys(("SIGNATURE", "FUNCTION", "GIVEN"), ClassVar[Any]),
        "name": f"{dialect}.{name}",
        "SIGNATURE": Signature.of(signature, counts),
        "FUNCTION": staticmethod(function),
        "GIVEN": given,
    }
    base = PureCuteOp if pure else CuteOp
    made: Any = type(class_name, (base,), members)
    return irdl_op_definition(made)
