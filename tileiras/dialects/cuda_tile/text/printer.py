"""Prints cuda_tile programs in the custom form, as the vendor's disassembler does.

Entries and globals stand at the top level; the module around them is not printed unless it has a
name, which bytecode does not keep.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Block, Operation

from tileiras.dialects.cuda_tile.structure import EntryOp, GlobalOp, ModuleOp
from tileiras.dialects.cuda_tile.text.attributes import (
    dense_text,
    hints_text,
    identities_text,
    quoted,
)
from tileiras.dialects.cuda_tile.text.formats import FORMATS
from tileiras.dialects.cuda_tile.text.locations import LocationAliases
from tileiras.dialects.cuda_tile.text.names import ValueNames
from tileiras.dialects.cuda_tile.type_text import type_text

TEXT_NAMES = {"cuda_tile.pow": "fpowf"}
"""Operations that the text form calls differently (since 13.4)."""
PRODUCER_COMMENT = "// Producer: "
"""How the producer is told where no module is printed; the parser reads it back."""
UNNAMED_MODULE = "kernels"
"""The name that the bytecode reader gives a module: bytecode has none."""


def print_module(
    module: BuiltinModuleOp, *, generic: bool = False, debug_info: bool = False
) -> str:
    """The program as text; with `generic` in MLIR's generic form, with `debug_info` located."""
    if generic:
        from tileiras.dialects.cuda_tile.text.generic import print_generic

        return print_generic(module, debug_info=debug_info)
    tops = list(module.body.block.ops)
    inner = tops[0] if len(tops) == 1 else None
    if not isinstance(inner, ModuleOp):
        from tileiras.dialects.cuda_tile.text.generic import print_generic

        return print_generic(module, debug_info=debug_info)
    return CustomPrinter(inner, debug_info).print()


class CustomPrinter:
    """Prints one `cuda_tile.module`; `lines` collects the text."""

    def __init__(self, module: ModuleOp, debug_info: bool):
        self.module = module
        self.names = ValueNames()
        self.names.number(module)
        self.locations = LocationAliases() if debug_info else None
        if self.locations is not None:
            self.locations.collect(module)
        self.parts: list[str] = []

    def print(self) -> str:
        """The whole text."""
        producer = self.module.producer
        name = self.module.sym_name.data
        wrapped = name != UNNAMED_MODULE
        indent = "  " if wrapped else ""
        if producer is not None and not wrapped:
            self.parts.append(f"{PRODUCER_COMMENT}{producer.data}\n")
        if wrapped:
            attributes = (
                "" if producer is None else f" attributes {{producer = {quoted(producer.data)}}}"
            )
            self.parts.append(f"cuda_tile.module @{symbol_text(name)}{attributes} {{\n")
        for op in self.module.body.block.ops:
            self.print_op(op, indent)
        if wrapped:
            self.parts.append("}\n")
        empty = self.module.body.block.first_op is None
        if empty and not wrapped:
            self.parts.append("\n")
        if self.locations is not None:
            self.parts.append(self.locations.definitions())
            self.parts.append("#loc = loc(unknown)\n" if empty and not wrapped else "")
        return "".join(self.parts)

    def print_op(self, op: Operation, indent: str) -> None:
        """One operation and what is in it."""
        entry = FORMATS.get(op.name)
        head = indent + self.names.results(op)
        if entry is not None:
            mnemonic = TEXT_NAMES.get(op.name) or op.name.removeprefix("cuda_tile.")
            text = entry(op, self.names)
            self.parts.append(f"{head}{mnemonic} {text}" if text else f"{head}{mnemonic}")
        else:
            REGION_PRINTERS[op.name](self, op, head, indent)
        self.end_line(op)

    def end_line(self, op: Operation) -> None:
        """The location and the line's end."""
        if self.locations is not None:
            self.parts.append(self.locations.suffix(op))
        self.parts.append("\n")

    def print_block(self, block: Block, indent: str, implicit: str = "") -> None:
        """The operations of a block; an `implicit` terminator without operands is left out."""
        for op in block.ops:
            if op.next_op is None and op.name == implicit and not op.operands:
                return
            self.print_op(op, indent)

    def print_entry(self, op: EntryOp, head: str, indent: str) -> None:
        """`entry @name(%arg0: T, ..) optimization_hints=<..> { .. }`."""
        block = op.body.blocks[0]
        use = self.names.use
        arguments = ", ".join(f"{use(arg)}: {type_text(arg.type)}" for arg in block.args)
        hints = op.optimization_hints
        suffix = ""
        if hints is not None and hints.value.data:
            suffix = f" optimization_hints={hints_text(hints)}"
        name = symbol_text(op.sym_name.data)
        self.parts.append(f"{head}entry @{name}({arguments}){suffix} {{\n")
        self.print_block(block, indent + "  ")
        self.parts.append(f"{indent}}}")

    def print_global(self, op: GlobalOp, head: str, indent: str) -> None:
        """`global private constant @name alignment = 16 <i32: [1, 2]> : tile<2xi32>`."""
        visibility = op.symbol_visibility.data.value
        words = "" if visibility == "public" else f" {visibility}"
        constant = " constant" if op.constant is not None else ""
        alignment = op.alignment.value.data
        aligned = f" alignment = {alignment}" if alignment else ""
        name = symbol_text(op.sym_name.data)
        value = f"<{dense_text(op.value)}> : {type_text(op.value.type)}"
        self.parts.append(f"{head}global{words} {constant} @{name}{aligned} {value}")

    def print_if(self, op: Any, head: str, indent: str) -> None:
        """`if %c -> (T) { .. } else { .. }`."""
        types = ", ".join(type_text(result.type) for result in op.results)
        arrow = f" -> ({types})" if types else ""
        self.parts.append(f"{head}if {self.names.use(op.condition)}{arrow} {{\n")
        self.print_block(op.then_region.blocks[0], indent + "  ", "cuda_tile.yield")
        if op.else_region.blocks:
            self.parts.append(f"{indent}}} else {{\n")
            self.print_block(op.else_region.blocks[0], indent + "  ", "cuda_tile.yield")
        self.parts.append(f"{indent}}}")

    def print_for(self, op: Any, head: str, indent: str) -> None:
        """`for %i in (%a to %b, step %c) : T iter_values(%x = %y) -> (T) { .. }`."""
        use = self.names.use
        block = op.body.blocks[0]
        induction, *carried = block.args
        unsigned = "unsigned " if op.unsigned_cmp is not None else ""
        bounds = f"({use(op.lower_bound)} to {use(op.upper_bound)}, step {use(op.step)})"
        text = f"for {unsigned}{use(induction)} in {bounds} : {type_text(induction.type)}"
        if carried:
            pairs = self._bindings(carried, op.init_values)
            types = ", ".join(type_text(argument.type) for argument in carried)
            text += f" iter_values({pairs}) -> ({types})"
        self.parts.append(f"{head}{text} {{\n")
        self.print_block(block, indent + "  ", "cuda_tile.continue")
        self.parts.append(f"{indent}}}")

    def print_loop(self, op: Any, head: str, indent: str) -> None:
        """`loop iter_values(%x = %y) : T -> T { .. }`."""
        block = op.body.blocks[0]
        text = "loop"
        if block.args:
            text += f" iter_values({self._bindings(block.args, op.init_values)})"
        initial = ", ".join(type_text(argument.type) for argument in block.args)
        results = ", ".join(type_text(result.type) for result in op.results)
        types = [types for types in (initial, results) if types]
        if types:
            text += f" : {' -> '.join(types)}"
        self.parts.append(f"{head}{text} {{\n")
        self.print_block(block, indent + "  ", "cuda_tile.continue")
        self.parts.append(f"{indent}}}")

    def _bindings(self, arguments: Any, values: Any) -> str:
        use = self.names.use
        return ", ".join(f"{use(arg)} = {use(value)}" for arg, value in zip(arguments, values))

    def print_folding(self, op: Any, head: str, indent: str) -> None:
        """`reduce %a dim=0 identities=[..] : T -> T` and the body on its own lines."""
        use = self.names.use
        block = op.body.blocks[0]
        operands = ", ".join(use(operand) for operand in op.operands)
        reverse = ""
        if "reverse" in op.properties:
            reverse = f" reverse={'true' if op.reverse.value.data else 'false'}"
        types = ", ".join(type_text(operand.type) for operand in op.operands)
        results = ", ".join(type_text(result.type) for result in op.results)
        identities = identities_text(op.identities)
        mnemonic = op.name.removeprefix("cuda_tile.")
        arguments = ", ".join(f"{use(arg)}: {type_text(arg.type)}" for arg in block.args)
        self.parts.append(
            f"{head}{mnemonic} {operands} dim={op.dim.value.data}{reverse} "
            f"identities={identities} : {types} -> {results} \n{indent}({arguments}) {{\n"
        )
        self.print_block(block, indent + "  ")
        self.parts.append(f"{indent}}}")


def symbol_text(name: str) -> str:
    """A symbol after its @: bare if it is an identifier, else quoted."""
    body = name.replace("_", "a").replace("$", "a").replace(".", "a")
    bare = bool(body) and body.isascii() and body.isalnum() and not name[0].isdigit()
    return name if bare and name[0] not in "$." else quoted(name)


REGION_PRINTERS: dict[str, Any] = {
    "cuda_tile.entry": CustomPrinter.print_entry,
    "cuda_tile.global": CustomPrinter.print_global,
    "cuda_tile.if": CustomPrinter.print_if,
    "cuda_tile.for": CustomPrinter.print_for,
    "cuda_tile.loop": CustomPrinter.print_loop,
    "cuda_tile.reduce": CustomPrinter.print_folding,
    "cuda_tile.scan": CustomPrinter.print_folding,
}
"""Operations with regions, and `global`, which spells its words its own way."""
