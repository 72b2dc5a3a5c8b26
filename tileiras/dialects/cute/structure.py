"""Programs: functions, loops, threads, barriers, constants; and the load of one element.

    cute.func @copy(%a: !cute.tensor<f32, gmem, align<16>, (1024):(1)>) threads 128 {
      %tid = cute.thread_idx<0>()
      ..
      cute.return
    }

A function is a kernel. Every thread runs it; `threads` is their number in a CTA. `cluster (2,1,1)`
after them says how many CTAs a cluster has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cute import types as t
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic
from tileiras.dialects.cute.operation import (
    KINDS,
    CuteOp,
    defined_value,
    operation,
    type_name,
    value_of_type,
)
from tileiras.dialects.cute.tensors import check_element

MAX_THREADS = 1024
"""Threads of a CTA (CUDA programming guide, "Compute Capabilities")."""
MAX_CLUSTER = 8
"""CTAs of a cluster that every GPU with clusters can launch (PTX ISA, "Cluster of CTAs")."""
AXES = 3
ARGUMENTS = ("cute.tensor", "cute.ptr", "cute_nvgpu.tma_atom", *KINDS["scalar"])
"""The types of a kernel's arguments."""


def _index(axis: int) -> Dynamic:
    """An integer of which nothing is known; AlgebraError for an axis that is none."""
    if not 0 <= axis < AXES:
        raise AlgebraError(f"an axis is 0, 1 or 2, found {axis}")
    return Dynamic.symbol(UNKNOWN)


def _meet() -> None:
    """Threads meet; nothing is checked."""


ROWS: tuple[type[CuteOp], ...] = (
    operation(
        "thread_idx",
        "-> int",
        _index,
        "The thread in its CTA: `thread_idx<0>() = threadIdx.x`.",
        statics=1,
    ),
    operation(
        "block_idx",
        "-> int",
        _index,
        "The CTA in the grid: `block_idx<0>() = blockIdx.x`.",
        statics=1,
    ),
    operation(
        "grid_dim",
        "-> int",
        _index,
        "The CTAs of the grid: `grid_dim<0>() = gridDim.x`.",
        statics=1,
    ),
    operation(
        "sync_threads",
        "->",
        _meet,
        "All threads of the CTA meet: `writes before < reads after`.",
        pure=False,
    ),
)
"""The operations of this chapter that are rows."""


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A number: `constant 1.0 : f32` is 1.0."""

    name = "cute.constant"
    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """The number is of the result's type."""
        if not isinstance(self.value, (IntegerAttr, FloatAttr)):
            raise VerifyException(f"value is {self.value}, expected a number")
        if self.value.type != self.result.type:
            raise VerifyException(f"value is {self.value}, expected type {self.result.type}")
        if type_name(self.result.type) not in KINDS["scalar"]:
            names = ", ".join(KINDS["scalar"])
            raise VerifyException(f"result is {self.result.type}, expected {names}")

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        """`1.0 : f32`."""
        value = parser.parse_attribute()
        kind = value.type if isinstance(value, (IntegerAttr, FloatAttr)) else value
        return cls.create(result_types=[kind], properties={"value": value})

    def print(self, printer: Printer) -> None:
        """`1.0 : f32`."""
        printer.print_string(" ")
        printer.print_attribute(self.value)


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Reads one element: `load(T, c) = T(c)`."""

    name = "cute.load"
    tensor = operand_def()
    coordinate = operand_def()
    result = result_def()

    def verify_(self) -> None:
        """The result is an element of the tensor."""
        if not isinstance(self.tensor.type, t.TensorType):
            raise VerifyException(f"operand 0 is {self.tensor.type}, expected !cute.tensor")
        if type_name(self.coordinate.type) not in KINDS["coord"]:
            raise VerifyException(f"operand 1 is {self.coordinate.type}, expected !cute.coord")
        tensor = self.tensor.type.data
        if type_name(self.result.type) != tensor.engine.element:
            raise VerifyException(f"result is {self.result.type}, expected {tensor.engine.element}")
        try:
            check_element(tensor, value_of_type(self.coordinate.type))
        except AlgebraError as error:
            raise VerifyException(str(error)) from error

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        """`(%tensor, %coordinate) : f32`."""
        uses = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        if len(uses) != 2:
            parser.raise_error(f"'cute.load' op has {len(uses)} operands, expected 2")
        operands = [defined_value(parser, use) for use in uses]
        parser.parse_punctuation(":")
        return cls.create(operands=operands, result_types=[parser.parse_type()])

    def print(self, printer: Printer) -> None:
        """`(%tensor, %coordinate) : f32`."""
        printer.print_string("(")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(") : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a function: `return` gives nothing, results are in tensors."""

    name = "cute.return"
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        """It stands in a function."""
        if not isinstance(self.parent_op(), FuncOp):
            raise VerifyException("stands outside of 'cute.func'")

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        """Nothing follows."""
        return cls.create()

    def print(self, printer: Printer) -> None:
        """Nothing follows."""


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a turn of a loop with what it carries on: `for .. carries (x := yield x')`."""

    name = "cute.yield"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        """It stands in a loop, and gives what the loop carries."""
        parent = self.parent_op()
        if isinstance(parent, IfOp) and not self.arguments:
            return
        if not isinstance(parent, ForOp | WhileOp):
            raise VerifyException("stands outside of 'cute.for' and 'cute.while'")
        found = [value.type for value in self.arguments]
        wanted = [value.type for value in parent.carried]
        if found != wanted:
            raise VerifyException(
                f"gives ({', '.join(map(str, found))}), the loop carries "
                f"({', '.join(map(str, wanted))})"
            )

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        """`(%a, %b)`, or nothing."""
        uses = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        return cls.create(operands=[defined_value(parser, use) for use in uses or ()])

    def print(self, printer: Printer) -> None:
        """`(%a, %b)`, or nothing."""
        if self.arguments:
            printer.print_string("(")
            printer.print_list(self.arguments, printer.print_ssa_value)
            printer.print_string(")")


@irdl_op_definition
class ForOp(IRDLOperation):
    """A loop: `for i = lower to upper step s` runs its body for i = lower, lower + s, .. < upper.

    `carried` are the values that one turn hands on to the next; the results are the last ones.
    """

    name = "cute.for"
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    carried = var_operand_def()
    results_ = var_result_def()
    body = region_def("single_block")

    def verify_(self) -> None:
        """Bounds are integers, and types of carried values agree."""
        for name in ("lower", "upper", "step"):
            found = getattr(self, name).type
            if type_name(found) not in KINDS["int"]:
                raise VerifyException(f"{name} is {found}, expected !cute.int, i32")
        step = value_of_type(self.step.type)
        if isinstance(step, int) and step < 1:
            raise VerifyException(f"step is {step}, expected at least 1")
        carried = [value.type for value in self.carried]
        arguments = [argument.type for argument in self.body.block.args]
        if not arguments or arguments[0] != t.IntType.of(Dynamic.symbol(UNKNOWN)):
            raise VerifyException("the first argument of the body is the counter, !cute.int<?>")
        if arguments[1:] != carried or [value.type for value in self.results_] != carried:
            raise VerifyException("carried values, arguments and results differ in their types")

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        """`%i = %lo to %hi step %s carries (%x = %init : T) { .. }`."""
        counter = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        bounds: list[SSAValue] = []
        for word in ("to", "step", ""):
            bounds.append(defined_value(parser, parser.parse_unresolved_operand()))
            if word:
                parser.parse_keyword(word)
        names, values = _parse_carried(parser)
        first = counter.resolve(t.IntType.of(Dynamic.symbol(UNKNOWN)))
        body = parser.parse_region([first, *names])
        if not values and not isinstance(body.block.last_op, YieldOp):
            body.block.add_op(YieldOp.create())
        return cls.create(
            operands=[*bounds, *values], result_types=[v.type for v in values], regions=[body]
        )

    def print(self, printer: Printer) -> None:
        """`%i = %lo to %hi step %s carries (%x = %init) { .. }`."""
        block = self.body.block
        printer.print_string(" ")
        printer.print_ssa_value(block.args[0])
        for word, value in zip((" = ", " to ", " step "), self.operands, strict=False):
            printer.print_string(word)
            printer.print_ssa_value(value)
        _print_carried(printer, block.args[1:], self.carried)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """A loop that goes on while the first value that it carries is true: `while c: (c, x) := body`.

    The results are the last values, the first of which is false.
    """

    name = "cute.while"
    carried = var_operand_def()
    results_ = var_result_def()
    body = region_def("single_block")

    def verify_(self) -> None:
        """The first value is a truth value of run time, and types of carried values agree."""
        carried = [value.type for value in self.carried]
        if not carried or carried[0] != t.BoolType.of(Dynamic.symbol(UNKNOWN)):
            raise VerifyException("the first value that is carried is a condition, !cute.bool<?>")
        arguments = [argument.type for argument in self.body.block.args]
        if arguments != carried or [value.type for value in self.results_] != carried:
            raise VerifyException("carried values, arguments and results differ in their types")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("does not end with 'cute.yield'")

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        """`carries (%go = %first, %x = %init) { .. }`."""
        names, values = _parse_carried(parser)
        body = parser.parse_region(names)
        if not body.blocks:
            body = Region(Block(arg_types=[value.type for value in values]))
        return cls.create(operands=values, result_types=[v.type for v in values], regions=[body])

    def print(self, printer: Printer) -> None:
        """`carries (%go = %first, %x = %init) { .. }`."""
        _print_carried(printer, self.body.block.args, self.carried)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


def _parse_carried(parser: Parser) -> tuple[list[Any], list[SSAValue]]:
    """`carries (%x = %init, ..)`, or nothing: the arguments of the body, and the values."""
    names: list[Any] = []
    values: list[SSAValue] = []

    def one() -> None:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        value = defined_value(parser, parser.parse_unresolved_operand())
        names.append(argument.resolve(value.type))
        values.append(value)

    if parser.parse_optional_keyword("carries") is not None:
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    return names, values


def _print_carried(
    printer: Printer, arguments: Sequence[SSAValue], carried: Sequence[SSAValue]
) -> None:
    """` carries (%x = %init, ..)`, or nothing."""
    for number, (argument, value) in enumerate(zip(arguments, carried, strict=True)):
        printer.print_string(", " if number else " carries (")
        printer.print_ssa_value(argument)
        printer.print_string(" = ")
        printer.print_ssa_value(value)
    if carried:
        printer.print_string(")")


@irdl_op_definition
class IfOp(IRDLOperation):
    """Runs its body where a condition holds: `if c { body }`; it gives nothing."""

    name = "cute.if"
    condition = operand_def()
    body = region_def("single_block")

    def verify_(self) -> None:
        """The condition is a truth value, and the body takes nothing."""
        if type_name(self.condition.type) != "cute.bool":
            raise VerifyException(f"condition is {self.condition.type}, expected !cute.bool")
        if self.body.block.args:
            raise VerifyException("the body has arguments")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("does not end with 'cute.yield'")

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        """`%condition { .. }`."""
        condition = defined_value(parser, parser.parse_unresolved_operand())
        body = parser.parse_region()
        if not body.blocks:
            body = Region(Block())
        if not isinstance(body.block.last_op, YieldOp):
            body.block.add_op(YieldOp.create())
        return cls.create(operands=[condition], regions=[body])

    def print(self, printer: Printer) -> None:
        """`%condition { .. }`."""
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(" ")
        printer.print_region(self.body)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel: every thread of every CTA runs `func(arguments)`."""

    name = "cute.func"
    sym_name = prop_def(StringAttr)
    threads = prop_def(IntAttr)
    cluster = opt_prop_def(ArrayAttr[IntAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove())

    def verify_(self) -> None:
        """Threads fit a CTA, arguments are memory or numbers, and the body ends with a return."""
        if not 1 <= self.threads.data <= MAX_THREADS:
            raise VerifyException(f"has {self.threads.data} threads, expected 1 to {MAX_THREADS}")
        ctas = self.cluster_shape
        if len(ctas) != AXES or min(ctas) < 1 or prod(ctas) > MAX_CLUSTER:
            raise VerifyException(
                f"has clusters {text_of(ctas)}, expected (x,y,z) of 1 to {MAX_CLUSTER} CTAs"
            )
        for argument in self.body.block.args:
            if type_name(argument.type) not in ARGUMENTS:
                found = argument.type
                raise VerifyException(f"argument is {found}, expected a tensor, pointer or number")
            held = value_of_type(argument.type)
            engine = getattr(held, "engine", held)
            if getattr(engine, "space", "gmem") not in ("gmem", "generic"):
                raise VerifyException(f"argument is in {engine.space}, expected gmem")
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("does not end with 'cute.return'")

    @property
    def cluster_shape(self) -> tuple[int, ...]:
        """The CTAs of a cluster along each axis; one if nothing is said."""
        return (1, 1, 1) if self.cluster is None else tuple(n.data for n in self.cluster)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        """`@name(%a: T, ..) threads 128 cluster (2,1,1) { .. }`."""
        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=True)
        )
        parser.parse_keyword("threads")
        threads = parser.parse_integer(allow_boolean=False)
        properties: dict[str, Attribute] = {"sym_name": name, "threads": IntAttr(threads)}
        if parser.parse_optional_keyword("cluster") is not None:
            ctas = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
            )
            properties["cluster"] = ArrayAttr([IntAttr(count) for count in ctas])
        # The parser knows names of one function at a time.
        body = parser.parse_region(arguments)
        if not body.blocks:
            body = Region(Block())
        return cls.create(properties=properties, regions=[body])

    def print(self, printer: Printer) -> None:
        """`@name(%a: T, ..) threads 128 cluster (2,1,1) { .. }`."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        printer.print_list(self.body.block.args, printer.print_block_argument)
        printer.print_string(f") threads {self.threads.data} ")
        if self.cluster is not None:
            printer.print_string(f"cluster {text_of(self.cluster_shape)} ")
        printer.print_region(self.body, print_entry_block_args=False)


OPERATIONS = (*ROWS, ConstantOp, LoadOp, ForOp, WhileOp, IfOp, YieldOp, FuncOp, ReturnOp)
"""The operations of this chapter."""
