"""MLIR's generic form: `%0 = "cuda_tile.addf"(%a, %b) <{..}> : (T, T) -> T`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    SymbolRefAttr,
    i1,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation

from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWModeAttr,
    MemoryOrderingAttr,
    MemoryScopeAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.text.attributes import dense_text, quoted, value_text
from tileiras.dialects.cuda_tile.text.locations import LocationAliases
from tileiras.dialects.cuda_tile.text.names import ValueNames
from tileiras.dialects.cuda_tile.type_text import full_type_text

PLAIN_ENUMS = (MemoryOrderingAttr, MemoryScopeAttr, AtomicRMWModeAttr)
"""Enums that are plain i32 numbers in the generic form."""


def print_generic(module: BuiltinModuleOp, *, debug_info: bool = False) -> str:
    """The program in generic form: the `cuda_tile.module`, or all of an unusual module."""
    tops = list(module.body.block.ops)
    return GenericPrinter(module, debug_info).print(tops)


class GenericPrinter:
    """Prints operations of a module in generic form."""

    def __init__(self, module: BuiltinModuleOp, debug_info: bool):
        self.names = ValueNames(generic=True)
        self.names.number(module)
        self.locations = LocationAliases() if debug_info else None
        if self.locations is not None:
            self.locations.collect(module)
        self.parts: list[str] = []

    def print(self, ops: list[Operation]) -> str:
        """The text of some operations at the top level."""
        for op in ops:
            self.print_op(op, "")
        if self.locations is not None:
            self.parts.append(self.locations.definitions())
        return "".join(self.parts)

    def print_op(self, op: Operation, indent: str) -> None:
        """One operation and what is in it."""
        operands = ", ".join(map(self.names.use, op.operands))
        self.parts.append(f"{indent}{self.names.results(op)}{quoted(op.name)}({operands})")
        if op.properties:
            self.parts.append(f" <{generic_dictionary(op.properties)}>")
        if op.regions:
            self.parts.append(" (")
            for index, region in enumerate(op.regions):
                self.parts.append(", {" if index else "{")
                if region.blocks:
                    self.parts.append("\n")
                for block in region.blocks:
                    self.print_block(block, indent)
                self.parts.append(f"{indent}}}" if region.blocks else "}")
            self.parts.append(")")
        if op.attributes:
            self.parts.append(f" {generic_dictionary(op.attributes)}")
        inputs = ", ".join(full_type_text(operand.type) for operand in op.operands)
        outputs = [full_type_text(result.type) for result in op.results]
        result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        self.parts.append(f" : ({inputs}) -> {result}")
        if self.locations is not None:
            self.parts.append(self.locations.suffix(op))
        self.parts.append("\n")

    def print_block(self, block: Block, indent: str) -> None:
        """A block, with a label where it has arguments."""
        if block.args:
            use = self.names.use
            arguments = (f"{use(arg)}: {full_type_text(arg.type)}" for arg in block.args)
            self.parts.append(f"{indent}^bb0({', '.join(arguments)}):\n")
        for op in block.ops:
            self.print_op(op, indent + "  ")


def generic_dictionary(entries: dict[str, Attribute]) -> str:
    """`{name = value, ..}`, sorted by name; a unit attribute is its name alone."""
    texts = []
    for key, value in sorted(entries.items()):
        text = generic_text(value)
        texts.append(key if text == "unit" else f"{key} = {text}")
    return f"{{{', '.join(texts)}}}"


def generic_text(value: Attribute) -> str:
    """An attribute in MLIR's own spelling, types with their prefix."""
    match value:
        case DenseAttr():
            literal = dense_text(value).split(": ", 1)[1]
            return f"dense<{literal}> : {full_type_text(value.type)}"
        case DenseArrayBase():
            return _dense_array_text(value)
        case SymbolRefAttr():
            return f"@{value.root_reference.data}"
        case FunctionType():
            return full_type_text(value)
        case ArrayAttr():
            return f"[{', '.join(map(generic_text, value.data))}]"
        case DictionaryAttr():
            return generic_dictionary(dict(value.data))
        case _ if isinstance(value, PLAIN_ENUMS):
            return f"{list(value.enum_type).index(value.data)} : i32"
        case _:
            return value_text(value)


def _dense_array_text(value: DenseArrayBase[Any]) -> str:
    type = value.elt_type
    numbers = value.get_values()
    if type == i1:
        words = ["true" if number else "false" for number in numbers]
    else:
        words = [str(number) for number in numbers]
    return f"array<{type}{': ' if words else ''}{', '.join(words)}>"
