"""How functions, loops, branches and constants are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from tileiras.dialects.assembly.constants import (
    element_type_of,
    elements_text,
    unpacked,
)
from tileiras.dialects.assembly.forms_compiler import form_of
from tileiras.dialects.assembly.printer import AssemblyPrinter
from tileiras.dialects.assembly.values import NAMED_KINDS
from tileiras.dialects.llvm.constants import ConstantOp as BitsConstantOp
from tileiras.dialects.llvm.control import BrOp, CondBrOp
from tileiras.dialects.llvm.control import FuncOp as ThreadFuncOp
from tileiras.dialects.nv_tileaa.control_flow import ForOp, FuncOp, IfOp, LoopOp
from tileiras.dialects.nv_tileaa.tensors import ConstantOp

SYMBOL = NAMED_KINDS["symbol"]


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
    _attributes(printer, op, ("value",))


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
    printer.write(" {is_rare}" if op.is_rare is not None else "")


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
"""How an operation with a syntax of its own is written, its name aside."""
