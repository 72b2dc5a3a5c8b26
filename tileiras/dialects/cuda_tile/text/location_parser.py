"""Locations and debug attributes of the text form, and the aliases that name them."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DICompileUnitAttr,
    DIFileAttr,
    DIFusedLoc,
    DILexicalBlockAttr,
    DILocAttr,
    DINameLoc,
    DISubprogramAttr,
)
from tileiras.dialects.cuda_tile.text.attribute_parser import AttributeParser
from tileiras.dialects.cuda_tile.text.lexer import Token
from tileiras.excerpts import shown_input
from tileiras.suggestions import did_you_mean

_DEFINITION = re.compile(r"^[ \t]*#([A-Za-z_][\w$]*)[ \t]*=", re.MULTILINE)
MAX_ALIAS_DEPTH = 64
_LOCATIONS = UnknownLoc | FileLineColLoc | CallSiteLoc | FusedLoc | NameLoc
_OWN = DILocAttr | DICallSiteLoc | DINameLoc | DIFusedLoc
"""Locations that builtin ones cannot hold."""


class LocationParser(AttributeParser):
    """Parses locations. Aliases may be used before the lines that define them."""

    def __init__(self, text: str, filename: str):
        super().__init__(text, filename)
        self._definitions = {match[1]: match.end() for match in _DEFINITION.finditer(text)}
        self._aliases: dict[str, Attribute] = {}
        self._open: list[str] = []

    def resolve_definitions(self) -> None:
        """Reads all aliases, in the order of the text, so that deep chains need no deep stack."""
        for name in self._definitions:
            try:
                self._resolve(name, None)
            except (VerifyException, ValueError) as error:
                raise self.error_at(str(error).strip().split("\n", 1)[0], self.tell()) from error

    def _resolve(self, name: str, token: Token | None) -> Attribute:
        known = self._aliases.get(name)
        if known is not None:
            return known
        if name not in self._definitions:
            label = did_you_mean(name, self._definitions, "#")
            self.fail(f"alias '#{shown_input(name)}' is not defined", token, label)
        if name in self._open:
            self.fail(f"alias '#{shown_input(name)}' is defined by itself", token)
        if len(self._open) >= MAX_ALIAS_DEPTH:
            self.fail("aliases are nested too deeply", token)
        back = self.tell()
        self._open.append(name)
        self.seek(self._definitions[name])
        self._aliases[name] = self.location() if self.peek().text == "loc" else self.attribute()
        self._open.pop()
        self.seek(back)
        return self._aliases[name]

    def skip_definition(self) -> None:
        """Takes one `#name = attribute` line."""
        name = self.take().text[1:]
        self.expect("=")
        if self.peek().text == "loc":
            self._aliases[name] = self.location()
        else:
            self._aliases[name] = self.attribute()

    def optional_location(self) -> Attribute | None:
        """`loc(..)` after an operation, if it is there."""
        token = self.peek()
        return self.location() if token.kind == "word" and token.text == "loc" else None

    def location(self) -> Attribute:
        """`loc(..)`."""
        self.expect("loc")
        self.expect("(")
        parsed = self.location_body()
        self.expect(")")
        return parsed

    def location_body(self) -> Attribute:
        """A location: unknown, file:line:column, callsite, fused, a name, an alias, di_loc."""
        self.depth += 1
        if self.depth > MAX_ALIAS_DEPTH:
            self.fail("location is nested too deeply")
        parsed = self._location_body()
        self.depth -= 1
        return parsed

    def _location_body(self) -> Attribute:
        token = self.peek()
        if token.kind == "string":
            return self._file_or_name()
        if token.kind == "hash":
            parsed = self.hash_attribute()
            if not isinstance(parsed, _LOCATIONS | _OWN):
                self.fail(f"{token.shown} is not a location", token)
            return parsed
        match token.text:
            case "unknown":
                self.take()
                return UnknownLoc()
            case "callsite":
                return self._callsite()
            case "fused":
                return self._fused()
            case "loc":
                return self.location()
        return self.fail(f"found {token.shown}, expected a location")

    def _file_or_name(self) -> Attribute:
        name = self.string("a file or name")
        if self.accept("("):
            inner = self.location_body()
            self.expect(")")
            if isinstance(inner, _OWN):
                return DINameLoc(StringAttr(name), inner)
            return NameLoc(StringAttr(name), inner)
        if not self.accept(":"):
            return NameLoc(StringAttr(name), NoneAttr())
        line = self.integer("a line")
        self.expect(":")
        return FileLineColLoc(StringAttr(name), IntAttr(line), IntAttr(self.integer("a column")))

    def _callsite(self) -> Attribute:
        self.take()
        self.expect("(")
        callee = self.location_body()
        self.expect("at")
        caller = self.location_body()
        self.expect(")")
        return DICallSiteLoc(callee, caller)

    def _fused(self) -> Attribute:
        self.take()
        metadata: Attribute = NoneAttr()
        if self.accept("<"):
            metadata = self.attribute()
            self.expect(">")
        parts = self.listed("[", "]", self.location_body)
        if any(isinstance(part, _OWN) for part in parts):
            return DIFusedLoc(ArrayAttr(parts), metadata)  # type: ignore[arg-type]
        return FusedLoc(ArrayAttr(parts), metadata)  # type: ignore[arg-type]

    # Debug attributes ------------------------------------------------------------------------

    def other_hash_attribute(self, token: Token) -> Attribute:
        """An alias or a debug attribute."""
        name = token.text[1:]
        if not name.startswith("cuda_tile.di_"):
            self.take()
            return self._resolve(name, token)
        self.take()
        self.expect("<")
        match name:
            case "cuda_tile.di_loc":
                parsed: Attribute = self._di_loc()
            case "cuda_tile.di_file":
                filename = self.string("a file name")
                self.expect("in")
                parsed = DIFileAttr(filename, self.string("a directory"))
            case _:
                parsed = self._struct(name, token)
        self.expect(">")
        return parsed

    def _di_loc(self) -> DILocAttr:
        token = self.peek()
        place = self.location_body()
        if not isinstance(place, FileLineColLoc):
            self.fail("di_loc has another location, expected file, line and column", token)
        self.expect("in")
        scope_token = self.peek()
        scope = self.attribute()
        if not isinstance(scope, DISubprogramAttr | DILexicalBlockAttr | DIFileAttr):
            self.fail(f"{scope_token.shown} is not a scope", scope_token)
        return DILocAttr(scope, place.filename, place.line, place.column)

    def _struct(self, name: str, token: Token) -> Attribute:
        fields: dict[str, Attribute] = {}
        while self.peek().text != ">":
            key = self.word("a field")
            self.expect("=")
            plain = self.peek().kind in ("integer", "hex")
            fields[key] = IntAttr(self.integer("an integer")) if plain else self.attribute()
            if not self.accept(","):
                break
        match name.removeprefix("cuda_tile."):
            case "di_compile_unit":
                types: tuple[tuple[str, type[Attribute]], ...] = (("file", DIFileAttr),)
                return DICompileUnitAttr(*self._fields(fields, types, token))
            case "di_subprogram":
                fields.setdefault("scopeLine", IntAttr(0))
                return DISubprogramAttr(*self._fields(fields, _SUBPROGRAM, token))
            case "di_lexical_block":
                fields.setdefault("column", IntAttr(0))
                return DILexicalBlockAttr(*self._fields(fields, _LEXICAL_BLOCK, token))
        return self.fail(f"unknown attribute {token.shown}", token)

    def _fields(
        self,
        fields: dict[str, Attribute],
        types: tuple[tuple[str, type[Attribute]], ...],
        token: Token,
    ) -> list[Any]:
        """The values of the fields in the order of `types`, each of the kind asked for there."""
        ordered: list[Any] = []
        for name, kind in types:
            value = fields.pop(name, None)
            if value is None:
                self.fail(f"{token.text} has no field '{name}'", token)
            if not isinstance(value, kind):
                self.fail(f"field '{name}' of {token.text} has the wrong kind of value", token)
            ordered.append(value)
        for name in fields:
            self.fail(f"{token.text} has unknown field '{name}'", token)
        return ordered


_SUBPROGRAM: tuple[tuple[str, type[Attribute]], ...] = (
    ("file", DIFileAttr),
    ("line", IntAttr),
    ("name", StringAttr),
    ("linkageName", StringAttr),
    ("compileUnit", DICompileUnitAttr),
    ("scopeLine", IntAttr),
)
_LEXICAL_BLOCK: tuple[tuple[str, type[Attribute]], ...] = (
    ("scope", Attribute),
    ("file", DIFileAttr),
    ("line", IntAttr),
    ("column", IntAttr),
)
