"""Reads what `printer` writes, and MLIR's generic form, into modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tileiras.dialects.assembly.forms import INBOUNDS, INLINE_TYPES
from tileiras.dialects.assembly.forms_compiler import (
    FOLLOWS,
    Element,
    Form,
    Group,
    Literal,
    Slot,
    form_of,
)
from tileiras.dialects.assembly.spellings import READERS
from tileiras.dialects.assembly.values import ANY, all_outside
from tileiras.suggestions import did_you_mean

FORWARD_REFERENCES = ("llvm", "nvvm")
"""The dialects with branches, where a value may stand in the text before what makes it."""


class _Parts:
    """What has been read of one operation."""

    def __init__(self) -> None:
        self.uses: dict[str, list[UnresolvedOperand]] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: dict[str, list[Region]] = {}
        self.types: dict[str, list[Attribute]] = {}


class AssemblyParser(Parser):
    """xDSL's parser with the forms of our dialects.

    `readers` are those of operations with a syntax of their own, by name. `places` has the offset
    in the text at which each operation starts.
    """

    def __init__(
        self,
        context: Context,
        text: str,
        filename: str,
        readers: Mapping[str, Callable[[AssemblyParser], Operation]],
    ):
        super().__init__(context, text, filename)
        self.readers = readers
        self.places: dict[Operation, int] = {}

    def unit(self, name: str) -> dict[str, Attribute]:
        """Properties with one flag."""
        return {name: UnitAttr()}

    # Operations ------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        """One operation: `%0 = name ..` in its form, or `%0 = "name"(..) ..`."""
        start = self.pos
        results = self._parse_op_result_list()
        token = self._current_token
        if token.kind == MLIRTokenKind.BARE_IDENT:
            self._consume_token()
            op_class = self._operation_named(token.text, token.span)
            op = self._parse_custom(op_class)
            if (location := self.parse_optional_location()) is not None:
                op.location = location
        else:
            name = self.expect(self.parse_optional_str_literal, "operation name expected")
            op = self._parse_generic_operation(self._operation_named(name, token.span))
        if self.forward_ssa_references and op.name.partition(".")[0] not in FORWARD_REFERENCES:
            missing = next(iter(self.forward_ssa_references))
            self.raise_error(f"value %{missing} is used before it is defined", start, start)
        self.places[op] = start
        self._bind(results, op, start)
        return op

    def _operation_named(self, name: str, span: Span) -> type[Operation]:
        """The class of an operation; what no dialect has is an error at its name."""
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            self._unknown_operation(name, span)
        return found

    def _unknown_operation(self, name: str, span: Span) -> NoReturn:
        """Raises the error, with the nearest name that there is."""
        known = [op.name for dialect in self.ctx.loaded_dialects for op in dialect.operations]
        guess = did_you_mean(name, known)
        self.raise_error(
            f"unknown operation '{name}'{guess and f', {guess}'}", span.start, span.end
        )

    def _bind(self, results: list[Any], op: Operation, start: int) -> None:
        """Gives the results their names."""
        bound = sum(count for _, count in results)
        if bound != len(op.results):
            message = f"'{op.name}' op has {len(op.results)} results, but {bound} have names"
            if bound:
                self.raise_error(message, start, start)
        first = 0
        for span, count in results:
            self._register_ssa_definition(span.text[1:], op.results[first : first + count], span)
            first += count

    def _parse_custom(self, op_class: type[Operation]) -> Operation:
        reader = self.readers.get(op_class.name)
        if reader is not None:
            return reader(self)
        if issubclass(op_class, IRDLOperation) and op_class.name.startswith(
            ("nv_tileaa.", "nv_tileas.", "llvm.", "nvvm.")
        ):
            return self._parse_form(form_of(op_class))
        return op_class.parse(self)

    def _parse_form(self, form: Form) -> Operation:
        start = self.pos
        parts = _Parts()
        for element in form.elements:
            if isinstance(element, Slot) and element.role == "dictionary":
                self._dictionary(form, parts)
            else:
                self._element(element, parts)
        if not form.has_dictionary:
            self._dictionary(form, parts)
        for name, value in form.defaults.items():
            parts.properties.setdefault(name, value)
        if INBOUNDS in form.required:
            parts.properties.setdefault(INBOUNDS, all_outside(len(parts.uses.get("indices", ()))))
        missing = sorted(form.required - parts.properties.keys())
        if missing:
            self.raise_error(f"'{form.op_class.name}' op has no '{missing[0]}'", start, start)
        if form.functional:
            self._functional_types(form, parts)
        else:
            self._written_types(form, parts)
        return self._build(form, parts)

    # Bodies ----------------------------------------------------------------------------------

    def _element(self, element: Element, parts: _Parts) -> None:
        match element:
            case Literal(words=words):
                for word in words:
                    self.parse_characters(word)
            case Group(elements=elements):
                if self._group_follows(element):
                    for inner in elements:
                        self._element(inner, parts)
            case Slot(name=name, role="property"):
                parts.properties[name] = (element.kind or ANY).read(self)
            case Slot(name=name, role="region" | "optional region"):
                parts.regions[name] = [self._region()]
            case Slot(name=name, role="many") if name in INLINE_TYPES:
                parts.uses[name], parts.types[name] = self._typed_uses()
            case Slot(name=name, role="many"):
                parts.uses[name] = self._uses()
            case Slot(name=name):
                parts.uses[name] = [self.parse_unresolved_operand()]

    def _group_follows(self, group: Group) -> bool:
        """Whether the text goes on with a group: with its first words, or a value."""
        first = group.elements[0]
        if not isinstance(first, Literal):
            return self._current_token.kind == MLIRTokenKind.PERCENT_IDENT
        return bool(first.words) and self._current_token.text == first.words[0]

    def _uses(self) -> list[UnresolvedOperand]:
        if self._current_token.kind != MLIRTokenKind.PERCENT_IDENT:
            return []
        return self.parse_comma_separated_list(self.Delimiter.NONE, self.parse_unresolved_operand)

    def _typed_uses(self) -> tuple[list[UnresolvedOperand], list[Attribute]]:
        """Values that are i32 unless their type is beside them."""
        types: list[Attribute] = []

        def one() -> UnresolvedOperand:
            use = self.parse_unresolved_operand()
            has_type = self.parse_optional_punctuation(":") is not None
            types.append(self.parse_type() if has_type else i32)
            return use

        if self._current_token.kind != MLIRTokenKind.PERCENT_IDENT:
            return [], []
        return self.parse_comma_separated_list(self.Delimiter.NONE, one), types

    def _region(self) -> Region:
        arguments: list[Any] = []
        if self._current_token.kind == MLIRTokenKind.L_PAREN:
            arguments = self.parse_comma_separated_list(self.Delimiter.PAREN, self.parse_argument)
        return self.parse_region(arguments)

    def _dictionary(self, form: Form, parts: _Parts) -> None:
        """`{stages = 4, shared}`, if it is there."""
        if self._current_token.kind != MLIRTokenKind.L_BRACE:
            return
        place = self.pos
        properties, parts.attributes = self.entries(form)
        twice = sorted(properties.keys() & parts.properties.keys())
        if twice:
            self.raise_error(f"'{twice[0]}' is given twice", place, place)
        parts.properties |= properties

    def entries(self, form: Form) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """`{stages = 4, shared}`: properties by their kinds, and other attributes."""
        properties: dict[str, Attribute] = {}
        attributes: dict[str, Attribute] = {}

        def entry() -> None:
            place = self.pos
            name = self.parse_identifier_or_str_literal()
            if name in properties or name in attributes:
                self.raise_error(f"'{name}' is given twice", place, place)
            has_value = self.parse_optional_punctuation("=") is not None
            if name not in form.kinds:
                attributes[name] = self.parse_attribute() if has_value else UnitAttr()
            elif has_value:
                properties[name] = form.kinds[name].read(self)
            elif name in form.units:
                properties[name] = UnitAttr()
            else:
                self.raise_error(f"'{name}' has no value", place, place)

        self.parse_comma_separated_list(self.Delimiter.BRACES, entry)
        return properties, attributes

    # Types -----------------------------------------------------------------------------------

    def _functional_types(self, form: Form, parts: _Parts) -> None:
        """`: (T, T) -> T` for all operands and results."""
        self.parse_punctuation(":")
        place = self.pos
        kind = self.parse_function_type()
        inputs = list(kind.inputs.data)
        names = [name for name in form.operands for _ in parts.uses.get(name, ())]
        if len(names) != len(inputs):
            self.raise_error(f"{len(names)} operands, but {len(inputs)} types", place, place)
        for name, type in zip(names, inputs, strict=True):
            parts.types.setdefault(name, []).append(type)
        outputs = list(kind.outputs.data)
        single = sum(count == "one" for count in form.results.values())
        for name, count in form.results.items():
            taken = 1 if count == "one" else max(0, len(outputs) - single)
            parts.types[name], outputs = outputs[:taken], outputs[taken:]
            single -= count == "one"
        if outputs or any(
            count == "one" and not parts.types[name] for name, count in form.results.items()
        ):
            self.raise_error("wrong number of result types", place, place)

    def _written_types(self, form: Form, parts: _Parts) -> None:
        """`: T, T -> T`, then the types that follow from these."""
        sides = [
            [name for name in names for _ in range(self._count(form, parts, name))]
            for names in form.written
        ]
        mark = ":"
        for side in sides:
            for name in side:
                self.parse_characters(mark)
                parts.types.setdefault(name, []).append(self.parse_type())
                mark = ","
            mark = form.arrow if side else mark
        for name, rule in form.rules.items():
            if name in INLINE_TYPES:
                continue
            count = self._count(form, parts, name)
            if rule.fixed is not None:
                parts.types[name] = [rule.fixed] * count
                continue
            sources = [
                self._following(rule.function, type) for type in parts.types.get(rule.of, ())
            ]
            is_result = name in form.results and form.results[name] != "one"
            parts.types[name] = sources if is_result or len(sources) > 1 else sources * count

    def _following(self, function: str, type: Attribute) -> Attribute:
        found = FOLLOWS[function](type)
        if found is None:
            self.raise_error(f"found type {type}, expected a view")
        return found

    def _count(self, form: Form, parts: _Parts, name: str) -> int:
        """How many values have a name."""
        if name in form.operands:
            return len(parts.uses.get(name, ()))
        return int(form.results[name] == "one")

    # Operations, put together ----------------------------------------------------------------

    def _build(self, form: Form, parts: _Parts) -> Operation:
        operands: list[SSAValue] = []
        for name in form.operands:
            uses, types = parts.uses.get(name, []), parts.types.get(name, [])
            if len(uses) != len(types):
                self.raise_error(f"{len(uses)} operands '{name}', but {len(types)} types")
            operands += map(self.resolve_operand, uses, types)
        for name in form.segments:
            values = form.operands if name.startswith("operand") else form.results
            sizes = [len(parts.types.get(value, ())) for value in values]
            parts.properties[name] = DenseArrayBase.from_list(i32, sizes)
        return form.op_class.create(
            operands=operands,
            result_types=[type for name in form.results for type in parts.types.get(name, ())],
            properties=parts.properties,
            attributes=parts.attributes,
            regions=[region for name in form.regions for region in parts.regions.get(name, ())],
        )

    # Types and attributes --------------------------------------------------------------------

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        """The spellings of ours, else xDSL's."""
        reader = READERS.get(attr_name)
        if reader is not None:
            place = self.pos
            self.parse_punctuation("<")
            found = reader(self)
            if found is not None:
                self.parse_punctuation(">")
                return found
            self._resume_from(place)
        return super()._parse_dialect_type_or_attribute_body(
            attr_name, is_type, is_opaque, starting_opaque_pos
        )
