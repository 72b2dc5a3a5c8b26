"""Metadata of the LLVM module: line information and loop hints.

With `--lineinfo` PTX gets `.file` and `.loc` only (`DebugDirectivesOnly`), for debugging also the
DWARF sections that describe the compile unit, its functions, what is inlined where and variables
(`FullDebug`). LLVM 22 writes no `inlined_at` into `.loc`: `codegen.inlined_lines` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.codegen.llvmir.type_text import string_text
from tileiras.dialects.cuda_tile.debug_info import (
    DISubprogramAttr,
    InlineFrame,
    enclosing_subprogram,
)
from tileiras.errors import SourceLocation

MAX_LINE, MAX_COLUMN = 2**32 - 1, 2**16 - 1
"""What LLVM's metadata holds."""
_RARELY = 2000
"""Policy: how many times a branch goes the usual way for once that it does not; LLVM's own guess of
what `__builtin_expect` means."""


_SIGNED, _FLOAT = "DW_ATE_signed", "DW_ATE_float"
_SHOWN = {
    "i1": ("bool", "DW_ATE_boolean", 8),
    "i8": ("signed char", "DW_ATE_signed_char", 8),
    "i16": ("short", _SIGNED, 16),
    "i32": ("int", _SIGNED, 32),
    "i64": ("long long", _SIGNED, 64),
    "f16": ("_Float16", _FLOAT, 16),
    "bf16": ("__bf16", _FLOAT, 16),
    "f32": ("float", _FLOAT, 32),
    "tf32": ("float", _FLOAT, 32),
    "f64": ("double", _FLOAT, 64),
}
"""How debuggers know Tile IR's types: C's name, DWARF's encoding, bits in memory."""


def _bits_of(name: str) -> int:
    """Bits in memory of what a pointer points to; pointers have 64, small floats 8."""
    if name.startswith("ptr<"):
        return 64
    return _SHOWN[name][2] if name in _SHOWN else 8


def _within(number: int, most: int) -> int:
    """The number that is nearest to one from 0 to `most`: a location may say anything."""
    return min(max(number, 0), most)


class Metadata:
    """Numbered metadata nodes of one module. Node 0 is empty (`!invariant.load` points to it)."""

    def __init__(self, is_full: bool = False) -> None:
        self._is_full = is_full
        self.nodes: list[str] = ["!{}"]
        self._known: dict[str, int] = {}
        self._unit: int | None = None
        self._functions: dict[DISubprogramAttr, int] = {}
        self._calls: dict[tuple[int, SourceLocation, int], tuple[InlineFrame, int]] = {}

    def node(self, text: str) -> int:
        """The number of a node with this text; equal texts share one."""
        number = self._known.get(text)
        if number is None:
            number = self._append(text)
            self._known[text] = number
        return number

    def _append(self, text: str) -> int:
        self.nodes.append(text)
        return len(self.nodes) - 1

    def no_unroll_loop(self) -> int:
        """A fresh loop hint against unrolling (distinct for every loop)."""
        disable = self.node('!{!"llvm.loop.unroll.disable"}')
        number = len(self.nodes)
        return self._append(f"distinct !{{!{number}, !{disable}}}")

    def rare_branch(self) -> int:
        """The weights of a branch that is hardly ever taken."""
        return self.node(f'!{{!"branch_weights", i32 1, i32 {_RARELY}}}')

    def file(self, path: str) -> int:
        """A source file."""
        directory, _, name = path.rpartition("/")
        fields = f"filename: {string_text(name)}, directory: {string_text(directory)}"
        return self.node(f"!DIFile({fields})")

    def subprogram(self, name: str, position: SourceLocation, symbol: str | None = None) -> int:
        """A function that begins at `position`; its symbol is its name unless it has another."""
        file = self.file(position.filename)
        if self._unit is None:
            emission = "FullDebug" if self._is_full else "DebugDirectivesOnly"
            optimized = "false" if self._is_full else "true"
            self._unit = self._append(
                f"distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, "
                f'producer: "tileiras", isOptimized: {optimized}, runtimeVersion: 0, '
                f"emissionKind: {emission})"
            )
        types = self.node("!DISubroutineType(types: !0)")
        line = _within(position.line, MAX_LINE)
        linkage = string_text(symbol or name)
        return self._append(
            f"distinct !DISubprogram(name: {string_text(name)}, linkageName: {linkage}, "
            f"scope: !{file}, file: !{file}, line: {line}, type: !{types}, scopeLine: {line}, "
            f"spFlags: DISPFlagDefinition, unit: !{self._unit})"
        )

    def position(self, subprogram: int, home: str, position: SourceLocation) -> int:
        """A line in `subprogram`, whose own file is `home`."""
        scope = subprogram
        if position.filename != home:
            file = self.file(position.filename)
            scope = self.node(
                f"!DILexicalBlockFile(scope: !{subprogram}, file: !{file}, discriminator: 0)"
            )
        line, column = _within(position.line, MAX_LINE), _within(position.column, MAX_COLUMN)
        return self.node(f"!DILocation(line: {line}, column: {column}, scope: !{scope})")

    def place(self, subprogram: int, home: str, frames: Sequence[InlineFrame]) -> int:
        """Where code comes from, the innermost function first, `subprogram` last.

        Functions are known by the scopes of the frames: what is inlined from a place in none counts
        as the caller's own.
        """
        outer = frames[-1]
        number = self.position(subprogram, home, outer.location)
        for frame in reversed(frames[:-1]):
            # Callers are those of many places. By the scope's identity: to hash it takes as long.
            key = id(frame.scope), frame.location, number
            if (known := self._calls.get(key)) is not None:
                number = known[1]
                continue
            function = None if frame.scope is None else enclosing_subprogram(frame.scope)
            if function is None:
                return self.position(subprogram, home, frames[0].location)
            number = self._inlined(function, frame.location, number)
            self._calls[key] = frame, number
        return number

    def _inlined(self, function: DISubprogramAttr, position: SourceLocation, caller: int) -> int:
        """A line in a function that is inlined at the line `caller`."""
        own = self._functions.get(function)
        if own is None:
            path, line = function.file.path, function.line.data
            own = self._functions[function] = self.subprogram(
                function.sub_name.data, SourceLocation(path, line, 0)
            )
        scope = own
        if position.filename != function.file.path:
            file = self.file(position.filename)
            scope = self.node(
                f"!DILexicalBlockFile(scope: !{own}, file: !{file}, discriminator: 0)"
            )
        line, column = _within(position.line, MAX_LINE), _within(position.column, MAX_COLUMN)
        place = f"line: {line}, column: {column}, scope: !{scope}, inlinedAt: !{caller}"
        return self.node(f"!DILocation({place})")

    def function_of(self, subprogram: int, frames: Sequence[InlineFrame]) -> int:
        """The function that `place` puts such frames into."""
        functions = [
            None if frame.scope is None else enclosing_subprogram(frame.scope) for frame in frames
        ]
        inner = functions[0]
        if len(frames) == 1 or inner is None or None in functions[:-1]:
            return subprogram
        return self._functions[inner]

    def basic_type(self, name: str, bits: int) -> int:
        """A scalar type by the name that Tile IR has for it, or a pointer to one.

        Types that no debugger knows are shown as the number that their bits are.
        """
        if name.startswith("ptr<"):
            pointee = name.removeprefix("ptr<").removesuffix(">")
            base = self.basic_type(pointee, _bits_of(pointee))
            return self.node(
                f"!DIDerivedType(tag: DW_TAG_pointer_type, baseType: !{base}, size: {bits})"
            )
        shown, encoding, size = _SHOWN.get(name, (name, "DW_ATE_unsigned", bits))
        return self.node(
            f"!DIBasicType(name: {string_text(shown)}, size: {size}, encoding: {encoding})"
        )

    def array_type(self, element: int, count: int, bits: int) -> int:
        """An array of `count` elements."""
        ranges = self.node(f"!{{!{self.node(f'!DISubrange(count: {count})')}}}")
        fields = f"baseType: !{element}, size: {bits}, elements: !{ranges}"
        return self.node(f"!DICompositeType(tag: DW_TAG_array_type, {fields})")

    def variable(
        self, name: str, parameter: int, scope: int, position: SourceLocation, type: int
    ) -> int:
        """A variable of the function `scope`; its parameter of that number unless that is 0."""
        file = self.file(position.filename)
        number = f"arg: {parameter}, " if parameter else ""
        return self.node(
            f"!DILocalVariable(name: {string_text(name)}, {number}scope: !{scope}, file: !{file}, "
            f"line: {_within(position.line, MAX_LINE)}, type: !{type})"
        )

    def lines(self) -> list[str]:
        """The module's metadata as text."""
        named: list[str] = []
        if self._unit is not None:
            version = self.node('!{i32 2, !"Debug Info Version", i32 3}')
            named = [f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{!{version}}}"]
        return named + [f"!{number} = {text}" for number, text in enumerate(self.nodes)]
