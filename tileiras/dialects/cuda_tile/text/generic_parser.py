"""Reads MLIR's generic form of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i1
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation

from tileiras.dialects.cuda_tile import CudaTile
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.text.lexer import Token, unquoted
from tileiras.dialects.cuda_tile.text.values import ValueParser
from tileiras.dialects.cuda_tile.types import TileType, ViewType
from tileiras.excerpts import shown_input
from tileiras.suggestions import did_you_mean

_OPERATIONS: dict[str, type[IRDLOperation]] = {
    BuiltinModuleOp.name: BuiltinModuleOp,
    **{op.name: op for op in CudaTile.operations if issubclass(op, IRDLOperation)},
}
_PLAIN_ENUMS: dict[str, Any] = {
    "memory_ordering_semantics": (MemoryOrderingAttr, tuple(MemoryOrdering)),
    "memory_scope": (MemoryScopeAttr, tuple(MemoryScope)),
    "mode": (AtomicRMWModeAttr, tuple(AtomicRMWMode)),
}
SEGMENTS = "operandSegmentSizes"
MAX_REGION_DEPTH = 128


class GenericParser(ValueParser):
    """Parses `"cuda_tile.op"(..) <{..}> ({..}) : (..) -> ..`."""

    region_depth = 0

    def operation(self) -> Operation:
        """One operation in either form; the whole parser knows the custom one."""
        return self.generic_operation()

    def open_region(self, opening: Token) -> None:
        """Enters a region; too many nested ones are refused, before Python's stack is."""
        self.region_depth += 1
        if self.region_depth > MAX_REGION_DEPTH:
            self.fail("regions are nested too deeply", opening)
        self.open_scope()

    def nesting(self) -> int:
        """How many regions are open."""
        return self.region_depth

    def leave_to(self, level: int) -> None:
        """Leaves the regions that a mistake left open."""
        while self.region_depth > level:
            self.close_region()

    def is_mnemonic(self, word: str) -> bool:
        """Whether a line that begins with this word begins an operation."""
        return f"cuda_tile.{word.removeprefix('cuda_tile.')}" in _OPERATIONS

    def close_region(self) -> None:
        """Leaves a region."""
        self.close_scope()
        self.region_depth -= 1

    def generic_operation(self) -> Operation:
        """One operation in generic form."""
        token = self.peek()
        name = unquoted(self.take().text)
        cls = _OPERATIONS.get(name)
        if cls is None:
            label = did_you_mean(name, _OPERATIONS)
            self.fail(f"unknown operation '{shown_input(name)}'", token, label)
        uses = self.listed("(", ")", self.use)
        properties: dict[str, Attribute] = {}
        if self.accept("<"):
            properties = dict(self.generic_dictionary(name).data)
            self.expect(">")
        regions: list[Any] = []
        if self.peek().text == "(":
            regions = self.listed("(", ")", self.generic_region)
        if self.peek().text == "{":
            properties |= self.generic_dictionary(name).data
        self.expect(":")
        type = self.function_type()
        operands = self.check_types(uses, type.inputs.data)  # type: ignore[arg-type]
        known = cls.get_irdl_definition()
        if cls is BuiltinModuleOp and (found := [len(one.blocks) for one in regions]) != [1]:
            self.fail(f"'{name}' has regions of {found} blocks, expected one of 1 block", token)
        self._check_segments(token, known.options, properties, len(operands))
        if "inbounds" in known.properties and "inbounds" not in properties:
            # Versions up to 13.3 have no such flags: nothing is promised.
            properties["inbounds"] = DenseArrayBase.from_list(i1, [0] * self._rank_of(operands))
        for key in properties:
            if key not in known.properties:
                self.fail(f"'{name}' has no property '{key}'", token)
        for key, definition in known.properties.items():
            if key not in properties and "Opt" not in definition.__class__.__name__:
                self.fail(f"'{name}' has no value for its property '{key}'", token)
        return cls.create(
            operands=operands,
            result_types=type.outputs.data,
            properties=properties,
            regions=regions,
        )

    def _rank_of(self, operands: Sequence[SSAValue]) -> int:
        """The rank of the first view among operands."""
        views = (value.type for value in operands if isinstance(value.type, ViewType))
        return next((view.rank for view in views), 0)

    def _check_segments(
        self, token: Token, options: Sequence[Any], properties: dict[str, Attribute], count: int
    ) -> None:
        if not any(isinstance(option, AttrSizedOperandSegments) for option in options):
            return
        sizes = properties.get(SEGMENTS)
        found = sum(sizes.get_values()) if isinstance(sizes, DenseArrayBase) else -1
        if found != count:
            self.fail(f"{SEGMENTS} does not add up to {count} (the number of operands)", token)

    def generic_dictionary(self, name: str) -> Any:
        """Properties, with the enums that are plain numbers."""
        entries = self.dictionary(self.generic_attribute)
        converted = dict(entries.data)
        for key, (kind, members) in _PLAIN_ENUMS.items():
            value = converted.get(key)
            if isinstance(value, IntegerAttr):
                number = value.value.data
                if not 0 <= number < len(members):
                    self.fail(f"{key} {number} of '{name}' is unknown")
                converted[key] = kind(members[number])
        return type(entries)(converted)

    def generic_attribute(self) -> Attribute:
        """An attribute, or `dense<..> : T`."""
        if self.peek().text != "dense":
            return self.attribute()
        self.take()
        self.expect("<")
        start = self.tell()
        depth = 0
        while not (depth == 0 and self.peek().text == ">"):
            text = self.take()
            depth += (text.text == "[") - (text.text == "]")
            if text.kind == "end":
                self.fail("constant does not end", text)
        self.take()
        self.expect(":")
        token = self.peek()
        shaped = self.type()
        if not isinstance(shaped, TileType):
            self.fail(f"found type {token.shown}, expected a tile", token)
        end = self.tell()
        self.seek(start)
        sizes: list[int] = []
        if self.peek().kind == "string":
            raw = self._hexadecimal(self.take())
        else:
            raw = self.elements(shaped.element_type, sizes)
        if sizes and tuple(sizes) != shaped.shape:
            self.fail(f"constant has shape {sizes}, expected {list(shaped.shape)}", token)
        self.seek(end)
        return self.checked(lambda: DenseAttr(shaped, raw), token)

    def generic_region(self) -> Region:
        """`{ ^bb0(%a: T): .. }`, or `{ }` for a region without blocks."""
        opening = self.expect("{")
        if self.accept("}"):
            return Region()
        self.open_region(opening)
        arguments: list[Any] = []
        if self.peek().kind == "label":
            self.take()
            if self.peek().text == "(":
                arguments = self.typed_arguments()
            self.expect(":")
        block = Block(arg_types=[argument[1] for argument in arguments])
        for (name, _), argument in zip(arguments, block.args):
            self.define(name.text, (argument,), name)
        while not self.accept("}"):
            if self.peek().kind == "end":
                unclosed = ("this '{' is not closed", opening)
                self.fail("found the end of the text, expected '}'", related=unclosed)
            self.add_operation(block, self.operation, self.is_mnemonic)
        self.close_region()
        return Region(block)

    def typed_arguments(self) -> list[tuple[Token, Attribute]]:
        """`(%a: T, %b: T)`."""

        def argument() -> tuple[Token, Attribute]:
            token = self.expect_kind("value", "the name of an argument")
            self.expect(":")
            type = self.type()
            self.optional_location()
            return token, type

        return self.listed("(", ")", argument)  # type: ignore[return-value]
