"""Locations in the text form: `loc(#loc3)` after operations, and the aliases after the module.

Aliases are ordered as MLIR orders them: by depth of nesting, then by kind, then by first use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

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
from tileiras.dialects.cuda_tile.text.attributes import quoted, value_text

ALIAS_NAMES: dict[type[Attribute], str] = {
    DIFileAttr: "di_file",
    DICompileUnitAttr: "di_compile_unit",
    DISubprogramAttr: "di_subprogram",
    DILexicalBlockAttr: "di_lexical_block",
}
"""All other attributes of locations are called `loc`."""


def children(loc: Attribute) -> tuple[Attribute, ...]:
    """The attributes that a location or scope refers to, in the order of printing."""
    match loc:
        case DILocAttr():
            return (FileLineColLoc(loc.filename, loc.line, loc.column), loc.scope)
        case DICallSiteLoc() | CallSiteLoc():
            return (loc.callee, loc.caller)
        case DICompileUnitAttr():
            return (loc.file,)
        case DISubprogramAttr():
            return (loc.file, loc.compile_unit)
        case DILexicalBlockAttr():
            return (loc.scope, loc.file)
        case FusedLoc() | DIFusedLoc():
            return tuple(getattr(loc.locations, "data", ()))
        case NameLoc() | DINameLoc():
            return () if isinstance(loc.location, NoneAttr) else (loc.location,)
        case _:
            return ()


@dataclass
class LocationAliases:
    """The aliases of all locations under an operation."""

    aliases: dict[Attribute, str] = field(default_factory=dict[Attribute, str])
    order: list[Attribute] = field(default_factory=list[Attribute])

    def collect(self, root: Operation) -> None:
        """Gives an alias to every location under an operation, itself excluded."""
        depths: dict[Attribute, int] = {}
        for op in root.walk():
            if op is not root:
                _visit(op.location, depths)
        named = [(depth, _kind(attribute), attribute) for attribute, depth in depths.items()]
        named.sort(key=lambda entry: entry[:2])
        counts: dict[str, int] = {}
        for _, kind, attribute in named:
            number = counts.get(kind, 0)
            counts[kind] = number + 1
            self.aliases[attribute] = f"#{kind}{number or ''}"
            self.order.append(attribute)

    def suffix(self, op: Operation) -> str:
        """What follows an operation: ` loc(#loc1)`."""
        return f" loc({self.reference(op.location)})"

    def reference(self, loc: Attribute) -> str:
        """A location or scope inside another: its alias, or in full."""
        return self.aliases.get(loc) or self.body(loc)

    def definitions(self) -> str:
        """The lines after the module that say what the aliases are."""
        lines = []
        for attribute in self.order:
            text = self.body(attribute)
            if not text.startswith("#"):
                text = f"loc({text})"
            lines.append(f"{self.aliases[attribute]} = {text}\n")
        return "".join(lines)

    def body(self, loc: Attribute) -> str:
        """A location or scope in full, with aliases for what it refers to."""
        ref = self.reference
        match loc:
            case UnknownLoc():
                return "unknown"
            case FileLineColLoc():
                return f"{quoted(loc.filename.data)}:{loc.line.data}:{loc.column.data}"
            case DILocAttr():
                place, scope = children(loc)
                text = self.aliases.get(place) or f"loc({self.body(place)})"
                return f"#cuda_tile.di_loc<{text} in {ref(scope)}>"
            case DICallSiteLoc() | CallSiteLoc():
                return f"callsite({ref(loc.callee)} at {ref(loc.caller)})"
            case NameLoc() | DINameLoc():
                inner = "".join(f"({ref(child)})" for child in children(loc))
                return quoted(loc.desc.data) + inner
            case FusedLoc() | DIFusedLoc():
                metadata = (
                    "" if isinstance(loc.metadata, NoneAttr) else f"<{value_text(loc.metadata)}>"
                )
                return f"fused{metadata}[{', '.join(map(ref, children(loc)))}]"
            case _:
                return self._scope_body(loc)

    def _scope_body(self, scope: Attribute) -> str:
        ref = self.reference
        match scope:
            case DIFileAttr():
                name, directory = _string(scope.filename), _string(scope.directory)
                return f"#cuda_tile.di_file<{name} in {directory}>"
            case DICompileUnitAttr():
                return f"#cuda_tile.di_compile_unit<file = {ref(scope.file)}>"
            case DISubprogramAttr():
                fields = [
                    f"file = {ref(scope.file)}",
                    f"line = {scope.line.data}",
                    f"name = {_string(scope.sub_name)}",
                    f"linkageName = {_string(scope.linkage_name)}",
                    f"compileUnit = {ref(scope.compile_unit)}",
                ]
                if scope.scope_line.data:
                    fields.append(f"scopeLine = {scope.scope_line.data}")
                return f"#cuda_tile.di_subprogram<{', '.join(fields)}>"
            case DILexicalBlockAttr():
                fields = [
                    f"scope = {ref(scope.scope)}",
                    f"file = {ref(scope.file)}",
                    f"line = {scope.line.data}",
                ]
                if scope.column.data:
                    fields.append(f"column = {scope.column.data}")
                return f"#cuda_tile.di_lexical_block<{', '.join(fields)}>"
            case _:
                return value_text(scope)


def _string(text: StringAttr) -> str:
    return quoted(text.data)


def _kind(attribute: Attribute) -> str:
    return ALIAS_NAMES.get(type(attribute), "loc")


def _visit(root: Attribute, depths: dict[Attribute, int]) -> None:
    """Records the nesting depth of a location and all it refers to, outer ones first.

    Iterative: inlining can nest locations deeper than Python's stack.
    """
    if root in depths:
        return
    stack = [(root, False)]
    while stack:
        attribute, done = stack.pop()
        if done:
            inner = [depths[child] for child in children(attribute)]
            depths[attribute] = max(inner, default=-1) + 1
        elif attribute not in depths:
            depths[attribute] = 0
            stack.append((attribute, True))
            stack.extend((child, False) for child in reversed(children(attribute)))
