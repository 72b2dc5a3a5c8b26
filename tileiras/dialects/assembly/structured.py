"""Operations with a syntax of their own: functions, loops, branches and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
    elements_text,
    literal_bits,
    packed,
    read_literals,
    unpacked,
)
from tileiras.dialects.assembly.forms_compiler import form_of
from tileiras.dialects.assembly.values import NAMED_KINDS
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.llvm.constants import BitsAttr
from tileiras.dialects.llvm.constants import ConstantOp as BitsConstantOp
from tileiras.dialects.llvm.control import BrOp, CondBrOp
from tileiras.dialects.llvm.control import FuncOp as ThreadFuncOp
from tileiras.dialects.nv_tileaa.control_flow import ForOp, FuncOp, IfOp, LoopOp
from tileiras.dialects.nv_tileaa.tensors import ConstantOp

if TYPE_CHECKING:
    from tileiras.dialects.assembly.parser import AssemblyParser
    from tileiras.dialects.assembly.printer import AssemblyPrinter

SYMBOL = NAMED_KINDS["symbol"]


def is_one_block(region: Region) -> bool:
    """Whether a region has exactly one block."""
    return region.first_block is not None and region.first_block.next_block is None


def is_expressible(op: Operation) -> bool:
    """Whether the syntax of this file says all that the operation is."""
    match op:
        case FuncOp():
            return is_one_block(op.body) and _function_type(op) == op.function_type and _plain(op)
        case ForOp():
            return is_one_block(op.body) and _is_loop(op, op.body.block.args[1:], op.step.type)
        case LoopOp():
            return is_one_block(op.body) and _carries(op, op.body.block.args)
        case IfOp():
            empty = op.else_region.first_block is None
            return (
                is_one_block(op.then_region)
                and (empty or is_one_block(op.else_region))
                and not any(block.args for region in op.regions for block in region.blocks)
                and op.condition.type == IntegerType(1)
                and _plain(op)
            )
        case ConstantOp():
            return _tile_type(op.result.type) == op.value.type and not op.attributes
        case BitsConstantOp():
            return _is_number(op.result.type) and not op.attributes
        case ThreadFuncOp():
            return op.body.first_block is not None and _plain(op)
        case BrOp() | CondBrOp():
            return not op.attributes
        case _:
            return False


def _plain(op: Any) -> bool:
    """Whether no attribute has the name of a property."""
    return not op.attributes.keys() & form_of(type(op)).kinds.keys()


def _is_loop(op: ForOp, carried: Sequence[SSAValue], kind: Attribute) -> bool:
    """Whether bounds and counter have one type, and the types of carried values agree."""
    counter = op.body.block.args[0].type
    bounds = {op.lower_bound.type, op.upper_bound.type, counter}
    return bounds == {kind} and _carries(op, carried)


def _carries(op: ForOp | LoopOp, carried: Sequence[SSAValue]) -> bool:
    types = [value.type for value in op.init_values]
    return types == [value.type for value in carried] and _plain(op)


def _function_type(op: FuncOp) -> FunctionType:
    return FunctionType.from_lists([value.type for value in op.body.block.args], [])


def _is_number(type: Attribute) -> bool:
    element = element_type_of(type)
    return isinstance(element, IntegerType) or element.__class__ in FLOAT_FORMATS


def _tile_type(type: Attribute) -> TileType | None:
    """The tile type with the shape and elements of a tensor or scalar."""
    if not _is_number(type):
        return None
    shape = type.get_shape() if isinstance(type, TensorType) else ()
    return TileType(element_type_of(type), shape)


# Writing ---------------------------------------------------------------------------------------


def _attributes(printer: AssemblyPrinter, op: Any, named: tuple[str, ...]) -> None:
    """` attributes {..}` with all properties that the syntax has no place for."""
    entries = printer.entries(op, form_of(type(op)), named)
    if entries:
        printer.write(f" attributes {{{', '.join(entries)}}}")


def _write_func(printer: AssemblyPrinter, op: FuncOp) -> None:
    block = op.body.block
    name = SYMBOL.write(op.sym_name, printer.types)
    printer.write(f" {name}({printer.arguments(block.args)})")
    _attributes(printer, op, ("sym_name", "function_type"))
    printer.write(" ")
    printer.braces(block)


def _write_carried(
    printer: AssemblyPrinter, arguments: Sequence[SSAValue], values: Sequence[SSAValue]
) -> str:
    pairs = zip(arguments, values, strict=True)
    return ", ".join(f"{printer.use(argument)} = {printer.use(value)}" for argument, value in pairs)


def _write_for(printer: AssemblyPrinter, op: ForOp) -> None:
    counter, *carried = op.body.block.args
    bounds = f"{printer.use(op.lower_bound)} to {printer.use(op.upper_bound)}"
    printer.write(f" {'unsigned ' if op.unsigned_cmp is not None else ''}{printer.use(counter)}")
    printer.write(f" = {bounds} step {printer.use(op.step)}")
    if carried:
        printer.write(f" iter_args({_write_carried(printer, carried, op.init_values)})")
        printer.write(f" -> ({printer.type_list(value.type for value in op.results)})")
    printer.write(f" : {printer.type(op.step.type)}")
    _attributes(printer, op, ("unsigned_cmp",))
    printer.write(" ")
    printer.braces(op.body.block)


def _write_loop(printer: AssemblyPrinter, op: LoopOp) -> None:
    block = op.body.block
    if block.args:
        printer.write(f" iter_args({_write_carried(printer, block.args, op.init_values)})")
        printer.write(f" : ({printer.type_list(value.type for value in block.args)})")
    if op.results:
        printer.write(f" -> ({printer.type_list(value.type for value in op.results)})")
    _attributes(printer, op, ())
    printer.write(" ")
    printer.braces(block)


def _write_if(printer: AssemblyPrinter, op: IfOp) -> None:
    printer.write(f" {printer.use(op.condition)}")
    if op.results:
        printer.write(f" -> ({printer.type_list(value.type for value in op.results)})")
    _attributes(printer, op, ())
    printer.write(" ")
    printer.braces(op.then_region.block)
    if op.else_region.first_block is not None:
        printer.write(" else ")
        printer.braces(op.else_region.block)


def _write_constant(printer: AssemblyPrinter, op: ConstantOp) -> None:
    type = op.result.type
    patterns = unpacked(op.value.raw.data, element_type_of(type))
    printer.write(f" {elements_text(patterns, type)} : {printer.type(type)}")


def _write_bits(printer: AssemblyPrinter, op: BitsConstantOp) -> None:
    type = op.result.type
    printer.write(f" {elements_text(op.bits.data, type)} : {printer.type(type)}")


def _write_thread_func(printer: AssemblyPrinter, op: ThreadFuncOp) -> None:
    name = SYMBOL.write(op.sym_name, printer.types)
    printer.write(f" {name}({printer.arguments(op.entry.args)})")
    _attributes(printer, op, ("sym_name",))
    printer.write(" ")
    printer.body_with_labels(op.body)


def _write_target(printer: AssemblyPrinter, block: Block, values: Sequence[SSAValue]) -> str:
    if not values:
        return printer.label(block)
    types = printer.type_list(value.type for value in values)
    return f"{printer.label(block)}({printer.uses(values)} : {types})"


def _write_br(printer: AssemblyPrinter, op: BrOp) -> None:
    printer.write(f" {_write_target(printer, op.target, op.arguments)}")
    printer.write(" {no_unroll}" if op.no_unroll is not None else "")


def _write_cond_br(printer: AssemblyPrinter, op: CondBrOp) -> None:
    then = _write_target(printer, op.then_block, op.then_arguments)
    other = _write_target(printer, op.else_block, op.else_arguments)
    printer.write(f" {printer.use(op.condition)}, {then}, {other}")
    printer.write(" {no_unroll}" if op.no_unroll is not None else "")


WRITERS: dict[str, Callable[[Any, Any], None]] = {
    FuncOp.name: _write_func,
    ForOp.name: _write_for,
    LoopOp.name: _write_loop,
    IfOp.name: _write_if,
    ConstantOp.name: _write_constant,
    BitsConstantOp.name: _write_bits,
    ThreadFuncOp.name: _write_thread_func,
    BrOp.name: _write_br,
    CondBrOp.name: _write_cond_br,
}


# Reading ---------------------------------------------------------------------------------------


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
    tile = _tile_type(type)
    if tile is None:
        parser.raise_error(f"a constant cannot be of type {type}")
    value = DenseAttr(tile, packed(patterns, element_type_of(type)))
    return ConstantOp.create(result_types=[type], properties={"value": value})


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


def _read_no_unroll(parser: AssemblyParser) -> dict[str, Attribute]:
    if parser.parse_optional_punctuation("{") is None:
        return {}
    parser.parse_keyword("no_unroll")
    parser.parse_punctuation("}")
    return parser.unit("no_unroll")


def _read_br(parser: AssemblyParser) -> Operation:
    block, values = _read_target(parser)
    return BrOp.create(operands=values, successors=[block], properties=_read_no_unroll(parser))


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
        properties={**_read_no_unroll(parser), "operandSegmentSizes": sizes},
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
