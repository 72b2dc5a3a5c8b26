"""How functions, loops, branches and constants are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IntegerType,
    StringAttr,
    TensorType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from tileiras.dialects.assembly.constants import (
    element_type_of,
    literal_bits,
    packed,
    read_literals,
)
from tileiras.dialects.assembly.forms_compiler import form_of
from tileiras.dialects.assembly.parser import AssemblyParser
from tileiras.dialects.assembly.structured import tile_type
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.llvm.constants import BitsAttr
from tileiras.dialects.llvm.constants import ConstantOp as BitsConstantOp
from tileiras.dialects.llvm.control import BrOp, CondBrOp
from tileiras.dialects.llvm.control import FuncOp as ThreadFuncOp
from tileiras.dialects.nv_tileaa.control_flow import ForOp, FuncOp, IfOp, LoopOp
from tileiras.dialects.nv_tileaa.tensors import ConstantOp


def _read_symbol(parser: AssemblyParser) -> StringAttr:
    return parser.parse_symbol_name()


def _read_attributes(
    parser: AssemblyParser, op_class: type[IRDLOperation]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """` attributes {..}`, if it is there: properties of the operation, and other attributes."""
    if parser.parse_optional_keyword("attributes") is None:
        return {}, {}
    return parser.entries(form_of(op_class))


def _read_arguments(parser: AssemblyParser) -> list[Any]:
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)


def _read_func(parser: AssemblyParser) -> Operation:
    name = _read_symbol(parser)
    arguments = _read_arguments(parser)
    properties, attributes = _read_attributes(parser, FuncOp)
    region = parser.parse_region(arguments)
    kind = FunctionType.from_lists([argument.type for argument in arguments], [])
    properties |= {"sym_name": name, "function_type": kind}
    return FuncOp.create(properties=properties, attributes=attributes, regions=[region])


def _read_thread_func(parser: AssemblyParser) -> Operation:
    name = _read_symbol(parser)
    arguments = _read_arguments(parser)
    properties, attributes = _read_attributes(parser, ThreadFuncOp)
    region = parser.parse_region(arguments)
    properties = {"sym_name": name, **properties}
    return ThreadFuncOp.create(properties=properties, attributes=attributes, regions=[region])


def _read_carried(parser: AssemblyParser) -> list[tuple[Any, Any]]:
    """`iter_args(%a = %b, ..)`, if it is there."""

    def pair() -> tuple[Any, Any]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_unresolved_operand()

    if parser.parse_optional_keyword("iter_args") is None:
        return []
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)


def _read_types(parser: AssemblyParser, mark: Any) -> list[Attribute]:
    """`-> (T, T)`, if the mark is there."""
    if parser.parse_optional_punctuation(mark) is None:
        return []
    return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))


def _read_for(parser: AssemblyParser) -> Operation:
    unsigned = parser.parse_optional_keyword("unsigned") is not None
    counter = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    bounds = [parser.parse_unresolved_operand()]
    for word in ("to", "step"):
        parser.parse_keyword(word)
        bounds.append(parser.parse_unresolved_operand())
    place = parser.pos
    carried = _read_carried(parser)
    types = _read_types(parser, "->")
    if len(types) != len(carried):
        parser.raise_error(
            f"{len(carried)} values are carried, found {len(types)} types", place, place
        )
    parser.parse_punctuation(":")
    kind = parser.parse_type()
    operands = [parser.resolve_operand(bound, kind) for bound in bounds]
    operands += [
        parser.resolve_operand(value, type) for (_, value), type in zip(carried, types, strict=True)
    ]
    arguments = [counter.resolve(kind)]
    arguments += [
        argument.resolve(type) for (argument, _), type in zip(carried, types, strict=True)
    ]
    properties, attributes = _read_attributes(parser, ForOp)
    region = parser.parse_region(arguments)
    if unsigned:
        properties |= parser.unit("unsigned_cmp")
    return ForOp.create(
        operands=operands,
        result_types=types,
        properties=properties,
        attributes=attributes,
        regions=[region],
    )


def _read_loop(parser: AssemblyParser) -> Operation:
    place = parser.pos
    carried = _read_carried(parser)
    types = _read_types(parser, ":")
    if len(types) != len(carried):
        parser.raise_error(
            f"{len(carried)} values are carried, found {len(types)} types", place, place
        )
    results = _read_types(parser, "->")
    pairs = list(zip(carried, types, strict=True))
    operands = [parser.resolve_operand(value, type) for (_, value), type in pairs]
    _, attributes = _read_attributes(parser, LoopOp)
    region = parser.parse_region([argument.resolve(type) for (argument, _), type in pairs])
    return LoopOp.create(
        operands=operands, result_types=results, attributes=attributes, regions=[region]
    )


def _read_if(parser: AssemblyParser) -> Operation:
    condition = parser.parse_operand(IntegerType(1))
    results = _read_types(parser, "->")
    _, attributes = _read_attributes(parser, IfOp)
    then_region = parser.parse_region([])
    other = parser.parse_optional_keyword("else") is not None
    else_region = parser.parse_region([]) if other else Region()
    return IfOp.create(
        operands=[condition],
        result_types=results,
        attributes=attributes,
        regions=[then_region, else_region],
    )


def _read_elements(parser: AssemblyParser) -> tuple[list[int], Attribute]:
    """The bits of a constant and its type."""
    place = parser.pos
    literals, dense = read_literals(parser)
    parser.parse_punctuation(":")
    type = parser.parse_type()
    element = element_type_of(type)
    if dense != (element is not type):
        parser.raise_error(f"a constant of type {type} is written otherwise", place, place)
    shape = type.get_shape() if isinstance(type, TensorType | VectorType) else ()
    count = 1
    for size in shape:
        count *= size
    if len(literals) not in (1, count):
        parser.raise_error(f"{len(literals)} elements, expected {count}", place, place)
    return [literal_bits(parser, literal, element) for literal in literals], type


def _read_constant(parser: AssemblyParser) -> Operation:
    patterns, type = _read_elements(parser)
    tile = tile_type(type)
    if tile is None:
        parser.raise_error(f"a constant cannot be of type {type}")
    _, attributes = _read_attributes(parser, ConstantOp)
    properties = {"value": DenseAttr(tile, packed(patterns, element_type_of(type)))}
    return ConstantOp.create(result_types=[type], properties=properties, attributes=attributes)


def _read_bits(parser: AssemblyParser) -> Operation:
    patterns, type = _read_elements(parser)
    properties: dict[str, Attribute] = {"bits": BitsAttr(tuple(patterns))}
    return BitsConstantOp.create(result_types=[type], properties=properties)


def _read_target(parser: AssemblyParser) -> tuple[Block, list[SSAValue]]:
    """`^bb1(%a, %b : T, T)`."""
    block = parser.parse_successor()
    if parser.parse_optional_punctuation("(") is None:
        return block, []
    place = parser.pos
    uses = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return block, list(parser.resolve_operands(uses, types, place))


def _read_hints(parser: AssemblyParser) -> dict[str, Attribute]:
    """Unit attributes in braces, one by one."""
    found: dict[str, Attribute] = {}
    while parser.parse_optional_punctuation("{") is not None:
        found |= parser.unit(parser.parse_identifier())
        parser.parse_punctuation("}")
    return found


def _read_br(parser: AssemblyParser) -> Operation:
    block, values = _read_target(parser)
    return BrOp.create(operands=values, successors=[block], properties=_read_hints(parser))


def _read_cond_br(parser: AssemblyParser) -> Operation:
    condition = parser.parse_operand(IntegerType(1))
    parser.parse_punctuation(",")
    then_block, then_values = _read_target(parser)
    parser.parse_punctuation(",")
    else_block, else_values = _read_target(parser)
    sizes = DenseArrayBase.from_list(i32, [1, len(then_values), len(else_values)])
    return CondBrOp.create(
        operands=[condition, *then_values, *else_values],
        successors=[then_block, else_block],
        properties={**_read_hints(parser), "operandSegmentSizes": sizes},
    )


READERS: dict[str, Callable[[Any], Operation]] = {
    FuncOp.name: _read_func,
    ForOp.name: _read_for,
    LoopOp.name: _read_loop,
    IfOp.name: _read_if,
    ConstantOp.name: _read_constant,
    BitsConstantOp.name: _read_bits,
    ThreadFuncOp.name: _read_thread_func,
    BrOp.name: _read_br,
    CondBrOp.name: _read_cond_br,
}
"""How an operation with a syntax of its own is read, its name aside."""
