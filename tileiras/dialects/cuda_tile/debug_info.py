"""Debug information of the cuda_tile dialect: scopes and scoped locations.

An operation's `location` is one of xDSL's builtin locations, a `DILocAttr` (a place inside a scope)
or a `DICallSiteLoc` (a place inlined at another). A scope is a subprogram or a lexical block.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from tileiras.errors import SourceLocation


@irdl_attr_definition
class DIFileAttr(ParametrizedAttribute):
    """`#cuda_tile.di_file<"name" in "directory">`."""

    name = "cuda_tile.di_file"
    filename: StringAttr
    directory: StringAttr

    def __init__(self, filename: str | StringAttr, directory: str | StringAttr):
        if isinstance(filename, str):
            filename = StringAttr(filename)
        if isinstance(directory, str):
            directory = StringAttr(directory)
        super().__init__(filename, directory)

    @property
    def path(self) -> str:
        """Directory and name joined, or the name alone where it is absolute or has no directory."""
        name, directory = self.filename.data, self.directory.data
        if not directory or name.startswith("/"):
            return name
        return f"{directory.rstrip('/')}/{name}"


@irdl_attr_definition
class DICompileUnitAttr(ParametrizedAttribute):
    """`#cuda_tile.di_compile_unit<file = #di_file>`."""

    name = "cuda_tile.di_compile_unit"
    file: DIFileAttr


@irdl_attr_definition
class DISubprogramAttr(ParametrizedAttribute):
    """A function of the source; `linkage_name` is the symbol that it was compiled to."""

    name = "cuda_tile.di_subprogram"
    file: DIFileAttr
    line: IntAttr
    sub_name: StringAttr
    linkage_name: StringAttr
    compile_unit: DICompileUnitAttr
    scope_line: IntAttr


@irdl_attr_definition
class DILexicalBlockAttr(ParametrizedAttribute):
    """A nested scope; `scope` is the subprogram or block that it lies in."""

    name = "cuda_tile.di_lexical_block"
    scope: Attribute
    file: DIFileAttr
    line: IntAttr
    column: IntAttr


@irdl_attr_definition
class DILocAttr(ParametrizedAttribute):
    """`#cuda_tile.di_loc<loc("file":line:column) in #scope>`."""

    name = "cuda_tile.di_loc"
    scope: Attribute
    filename: StringAttr
    line: IntAttr
    column: IntAttr


@irdl_attr_definition
class DICallSiteLoc(ParametrizedAttribute):
    """`callsite(#callee at #caller)`: code of the callee, inlined at the caller.

    xDSL's own `CallSiteLoc` takes builtin locations only.
    """

    name = "cuda_tile.di_callsite"
    callee: Attribute
    caller: Attribute


@irdl_attr_definition
class DINameLoc(ParametrizedAttribute):
    """`"name"(#location)`: a location of this dialect with a name.

    xDSL's own `NameLoc` takes builtin locations only.
    """

    name = "cuda_tile.di_name"
    desc: StringAttr
    location: Attribute


@irdl_attr_definition
class DIFusedLoc(ParametrizedAttribute):
    """`fused<metadata>[#a, #b]`: several locations, some of this dialect.

    xDSL's own `FusedLoc` takes builtin locations only.
    """

    name = "cuda_tile.di_fused"
    locations: ArrayAttr
    metadata: Attribute


@dataclass(frozen=True)
class InlineFrame:
    """One level of an inlined location: where, and inside which scope (None if unknown)."""

    location: SourceLocation
    scope: Attribute | None


def inline_frames(loc: Attribute) -> Iterator[InlineFrame]:
    """The places that a location stands for, innermost callee first, then its callers.

    A fused location stands for the first of its parts that has a place.
    """
    pending = [loc]
    while pending:  # not by recursion: chains of callers are long, and every level would cost again
        match loc := pending.pop():
            case DILocAttr():
                place = SourceLocation(loc.filename.data, loc.line.data, loc.column.data)
                yield InlineFrame(place, loc.scope)
            case FileLineColLoc():
                place = SourceLocation(loc.filename.data, loc.line.data, loc.column.data)
                yield InlineFrame(place, None)
            case DICallSiteLoc() | CallSiteLoc():
                pending += (loc.caller, loc.callee)
            case NameLoc() | DINameLoc():
                pending.append(loc.location)
            case FusedLoc() | DIFusedLoc():
                for part in getattr(loc.locations, "data", ()):
                    frames = list(inline_frames(part))
                    if frames:
                        yield from frames
                        break
            case _:
                pass


def source_location(loc: Attribute) -> SourceLocation | None:
    """The innermost place of a location, through call sites, fused and named locations.

    None where the location says nothing.
    """
    frame = next(inline_frames(loc), None)
    return None if frame is None else frame.location


def enclosing_subprogram(scope: Attribute) -> DISubprogramAttr | None:
    """The subprogram of a scope, through its lexical blocks."""
    while isinstance(scope, DILexicalBlockAttr):
        scope = scope.scope
    return scope if isinstance(scope, DISubprogramAttr) else None
