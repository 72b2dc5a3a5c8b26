"""Prints modules of nv_tileaa, nv_tileas, llvm and nvvm in the form of the table in `forms`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from tileiras.dialects.assembly.aliases import collect_aliases
from tileiras.dialects.assembly.forms import INBOUNDS, INLINE_TYPES
from tileiras.dialects.assembly.forms_compiler import (
    FOLLOWS,
    SEGMENTS,
    Element,
    Form,
    Group,
    Literal,
    Slot,
    form_of,
)
from tileiras.dialects.assembly.names import ValueNames
from tileiras.dialects.assembly.spellings import TextPrinter, plain_location
from tileiras.dialects.assembly.structured import is_expressible, is_one_block
from tileiras.dialects.assembly.values import all_outside
from tileiras.dialects.assembly.wrapping import WIDTH, wrapped
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.options import TextStyle

DIALECTS = ("nv_tileaa", "nv_tileas", "llvm", "nvvm")
"""The dialects that have forms; all others are printed in generic form."""


class AssemblyPrinter:
    """Writes one module; operations are written one after the other into `lines`.

    `writers` are those of operations with a syntax of their own, by name.
    """

    def __init__(
        self,
        style: TextStyle,
        writers: Mapping[str, Callable[[AssemblyPrinter, Any], None]],
    ):
        self.style = style
        self.writers = writers
        self.types = TextPrinter()
        self.names = ValueNames()
        self.blocks: dict[Block, str] = {}
        self.lines: list[str] = []
        self._line = ""
        self._indent = 0

    # Text ------------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Adds to the current line."""
        self._line += text

    def end_line(self, comment: str = "") -> None:
        """Ends the current line, broken where it is too long."""
        lines = wrapped(self._line.rstrip(), "  " * self._indent)
        if comment:
            lines = _with_comment(lines, f"// {comment}", "  " * self._indent)
        self.lines += lines
        self._line = ""

    def type(self, attribute: Attribute) -> str:
        """A type or attribute as text."""
        return self.types.text(attribute)

    def type_list(self, types: Iterable[Attribute]) -> str:
        """Types, separated by commas."""
        return ", ".join(map(self.types.text, types))

    def use(self, value: SSAValue) -> str:
        """A value where it is used."""
        return self.names.use(value)

    def uses(self, values: Iterable[SSAValue]) -> str:
        """Values where they are used, separated by commas."""
        return ", ".join(map(self.names.use, values))

    # Modules ---------------------------------------------------------------------------------

    def print(self, module: ModuleOp) -> str:
        """The text of a module: aliases, then its operations."""
        tops = [op for op in module.body.block.ops if self._is_wanted(op)]
        self.types.aliases = collect_aliases(tops)
        for attribute, alias in self.types.aliases.items():
            self.write(f"{alias} = {self.types.definition(attribute)}")
            self.end_line()
        self.write("builtin.module {")
        self.end_line()
        self._indent += 1
        for op in tops:
            self.names = ValueNames()
            self.names.name_all(op)
            self.operation(op)
        self._indent -= 1
        self.write("}")
        if module.attributes:
            self.write(f" attributes {self.dictionary(module.attributes)}")
        self.end_line()
        return "\n".join(self.lines) + "\n"

    def _is_wanted(self, op: Operation) -> bool:
        """Whether an operation at the top is to be printed: all but functions of other names."""
        wanted = self.style.functions
        if not wanted or not op.name.endswith(".func"):
            return True
        name = getattr(op.properties.get("sym_name"), "data", "")
        return name in wanted

    # Operations ------------------------------------------------------------------------------

    def operation(self, op: Operation) -> None:
        """One operation on lines of its own."""
        self.write(self.names.results(op))
        custom = self.writers.get(op.name)
        if custom is not None and is_expressible(op):
            self.write(op.name)
            custom(self, op)
        elif isinstance(op, IRDLOperation) and (form := self._form(op)) is not None:
            self.write(op.name)
            self._write_form(op, form)
        else:
            self._write_generic(op)
        self.end_line(self._location(op))

    def _location(self, op: Operation) -> str:
        """The comment with an operation's place; writes `loc(..)` where that is asked for."""
        if self.style.locations == "loc":
            self.write(f" {self.type(plain_location(op.location))}")
        if self.style.locations != "comment":
            return ""
        place = source_location(op.location)
        return f"{place.filename}:{place.line}" if place is not None else ""

    def _form(self, op: IRDLOperation) -> Form | None:
        """The form of the operation, None where only generic form says all of it."""
        if op.name.partition(".")[0] not in DIALECTS:
            return None
        if op.name in self.writers:
            return None
        form = form_of(type(op))
        return form if self._is_expressible(op, form) else None

    def _is_expressible(self, op: IRDLOperation, form: Form) -> bool:
        """Whether the text of this form would give the same operation again."""
        known = {name for name in op.properties if name not in SEGMENTS}
        if op.successors or not known <= form.kinds.keys() or not form.required <= known:
            return False
        if any(name in form.kinds for name in op.attributes):
            return False
        for element in form.elements:
            if isinstance(element, Slot) and not self._has_text(op, element):
                return False
        for name in known - form.in_body:
            if form.kinds[name].write(op.properties[name], self.types) is None:
                return False
        return form.functional or all(
            derived == [value.type for value in values_of(op, name)]
            for name, derived in self._derived(op, form)
            if name not in INLINE_TYPES
        )

    def _has_text(self, op: IRDLOperation, slot: Slot) -> bool:
        match slot.role:
            case "property":
                value = op.properties.get(slot.name)
                return value is not None and self._property(slot, value) is not None
            case "region":
                return is_one_block(getattr(op, slot.name))
            case role:
                return role in ("one", "many", "dictionary")

    def _property(self, slot: Slot, value: Attribute) -> str | None:
        return slot.kind.write(value, self.types) if slot.kind is not None else None

    def _derived(
        self, op: IRDLOperation, form: Form
    ) -> Iterator[tuple[str, list[Attribute | None]]]:
        """The types that follow from those written, by value."""
        for name, rule in form.rules.items():
            count = len(values_of(op, name))
            if rule.fixed is not None:
                yield name, [rule.fixed] * count
                continue
            sources = [FOLLOWS[rule.function](value.type) for value in values_of(op, rule.of)]
            yield name, sources[:1] * count if len(sources) == 1 else list(sources)

    def _write_form(self, op: IRDLOperation, form: Form) -> None:
        before = len(self._line)
        self.write(" ")
        for element in form.elements:
            self._write_element(op, element)
        if self._line[before:].strip() == "":
            self._line = self._line.rstrip()
        self._line = self._line.rstrip()
        if not form.has_dictionary:
            self._write_dictionary(op, form)
        self.write(self._types_text(op, form))

    def _write_element(self, op: IRDLOperation, element: Element) -> None:
        match element:
            case Literal(text=text):
                self.write(text)
            case Group(elements=elements):
                if self._is_present(op, element.anchor):
                    for inner in elements:
                        self._write_element(op, inner)
            case Slot(name=name, role="property"):
                self.write(self._property(element, op.properties[name]) or "")
            case Slot(role="dictionary"):
                self._line = self._line.rstrip()
                self._write_dictionary(op, form_of(type(op)))
            case Slot(name=name, role="region" | "optional region"):
                self.region(getattr(op, name))
            case Slot(name=name) if name in INLINE_TYPES:
                self.write(", ".join(map(self._typed_unless_index, values_of(op, name))))
            case Slot(name=name):
                self.write(self.uses(values_of(op, name)))

    def _typed_unless_index(self, value: SSAValue) -> str:
        """`%i`, or `%i : T` for coordinates of another type than i32."""
        return (
            self.use(value) if value.type == i32 else f"{self.use(value)} : {self.type(value.type)}"
        )

    def _is_present(self, op: IRDLOperation, slot: Slot) -> bool:
        if slot.role == "property":
            return slot.name in op.properties
        if slot.role == "optional region":
            return getattr(op, slot.name) is not None
        return bool(values_of(op, slot.name))

    def _write_dictionary(self, op: IRDLOperation, form: Form) -> None:
        if entries := self.entries(op, form, form.in_body):
            self.write(f" {{{', '.join(entries)}}}")

    def entries(self, op: IRDLOperation, form: Form, named: Collection[str]) -> list[str]:
        """The properties that are not named elsewhere, then attributes, as in a dictionary."""
        entries: list[str] = []
        for name in form.kinds:
            value = op.properties.get(name)
            if name in named or value is None or value == form.defaults.get(name):
                continue
            if name == INBOUNDS and value == all_outside(len(values_of(op, "indices"))):
                continue
            if isinstance(value, UnitAttr):
                entries.append(name)
            else:
                entries.append(f"{name} = {form.kinds[name].write(value, self.types)}")
        return entries + [self._entry(name, value) for name, value in op.attributes.items()]

    def _types_text(self, op: IRDLOperation, form: Form) -> str:
        """What stands behind the operation: nothing where all types follow."""
        if form.functional:
            return f" : {self.function_type(op)}"
        sides = [
            self.type_list(value.type for name in names for value in values_of(op, name))
            for names in form.written
        ]
        if not any(sides):
            return ""
        if all(sides):
            return f" : {sides[0]} {form.arrow} {sides[1]}"
        return f" : {sides[0] or sides[1]}"

    def function_type(self, op: Operation) -> str:
        """`(T, T) -> T`."""
        results = [self.type(value.type) for value in op.results]
        right = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"({self.type_list(value.type for value in op.operands)}) -> {right}"

    # Generic form ----------------------------------------------------------------------------

    def _entry(self, name: str, value: Attribute) -> str:
        return name if isinstance(value, UnitAttr) else f"{name} = {self.type(value)}"

    def dictionary(self, entries: Mapping[str, Attribute]) -> str:
        """`{name = value, flag}`."""
        return f"{{{', '.join(self._entry(name, value) for name, value in entries.items())}}}"

    def _write_generic(self, op: Operation) -> None:
        self.write(f'"{op.name}"({self.uses(op.operands)})')
        if op.successors:
            self.write(f" [{', '.join(self.label(block) for block in op.successors)}]")
        if op.properties:
            self.write(f" <{self.dictionary(op.properties)}>")
        if op.regions:
            self.write(" (")
            for index, region in enumerate(op.regions):
                self.write(", " if index else "")
                self._generic_region(region)
            self.write(")")
        if op.attributes:
            self.write(f" {self.dictionary(op.attributes)}")
        self.write(f" : {self.function_type(op)}")

    def _generic_region(self, region: Region) -> None:
        self.write("{")
        self.end_line()
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
        for block in region.blocks:
            self.block_label(block)
            self._body(block)
        self.write("}")

    # Regions ---------------------------------------------------------------------------------

    def label(self, block: Block) -> str:
        """The name of a block."""
        return self.blocks.get(block, "^unknown")

    def block_label(self, block: Block) -> None:
        """`^bb1(%0: i32):` on a line of its own."""
        self.write(self.label(block))
        if block.args:
            self.write(f"({self.arguments(block.args)})")
        self.write(":")
        self.end_line()

    def arguments(self, arguments: Sequence[SSAValue]) -> str:
        """`%a: T, %b: T`."""
        return ", ".join(f"{self.use(value)}: {self.type(value.type)}" for value in arguments)

    def region(self, region: Region) -> None:
        """`(%a: T) { .. }`: a region of one block with its arguments."""
        block = region.block
        if block.args:
            self.write(f"({self.arguments(block.args)}) ")
        self.braces(block)

    def braces(self, block: Block) -> None:
        """The operations of a block in braces; the line goes on behind them."""
        self.write("{")
        self.end_line()
        self._body(block)
        self.write("}")

    def body_with_labels(self, region: Region) -> None:
        """All blocks of a region in braces; the entry has no label."""
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
        self.write("{")
        self.end_line()
        for number, block in enumerate(region.blocks):
            if number:
                self.block_label(block)
            self._body(block)
        self.write("}")

    def _body(self, block: Block) -> None:
        self._indent += 1
        for op in block.ops:
            self.operation(op)
        self._indent -= 1


def values_of(op: IRDLOperation, name: str) -> list[SSAValue]:
    """The operands or results of a name, however many they are."""
    found = getattr(op, name)
    if found is None:
        return []
    return [found] if isinstance(found, SSAValue) else list(found)


def _with_comment(lines: list[str], comment: str, indent: str) -> list[str]:
    """The comment behind the last line, or before the first where there is no room."""
    if len(lines[-1]) + 2 + len(comment) <= WIDTH:
        return [*lines[:-1], f"{lines[-1]}  {comment}"]
    return [f"{indent}{comment}", *lines]
