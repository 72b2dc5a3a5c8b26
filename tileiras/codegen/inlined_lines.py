"""Chains of calls in PTX's line table: `.loc` with `inlined_at`.

LLVM 22 knows where code is inlined and writes the innermost line only. So LLVM gets such places as
lines of a file that stands for a function and its call, one for each, and `show_calls` writes in
the PTX what each of these files stands for. LLVM IR as it is shown has the places as they are.

PTX says of a line the function it lies in, by a name in `.debug_str`, and the line of the call,
which is that of the nearest `.loc` before it with the same numbers:

    .loc 1 13 5
    .loc 2 22 5, function_name $L__info_string0, inlined_at 1 13 5
    .loc 2 31 5, function_name $L__info_string1, inlined_at 2 22 5
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FOLDER = "<inlined>"
"""Fixed: where the files lie that stand for calls; no front end names a folder so."""

_LOCATION = re.compile(
    r"^!(\d+) = !DILocation\(line: (\d+), column: (\d+), scope: !(\d+)(?:, inlinedAt: !(\d+))?\)$",
    re.MULTILINE,
)
_BLOCK = re.compile(
    r"^!(\d+) = !DILexicalBlockFile\(scope: !(\d+), file: !(\d+), discriminator: 0\)$",
    re.MULTILINE,
)
_FUNCTION = re.compile(
    r'^!(\d+) = distinct !DISubprogram\(name: "([^"]*)",.* file: !(\d+),', re.MULTILINE
)
_FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]*)", directory: "([^"]*)"\)$', re.MULTILINE)
_HEX = re.compile(rb"\\([0-9A-Fa-f]{2})")
_PTX_FILE = re.compile(r'^\t\.file\t(\d+) "(.*)"\n', re.MULTILINE)
_PTX_PLACE = re.compile(r"^(?:\t\.loc\t(\d+) (\d+) (\d+)|\$L__func_begin\d+:)$", re.MULTILINE)


@dataclass(frozen=True)
class Call:
    """A function that is inlined at a place; files are as PTX writes them between quotes.

    `caller` is the number of the call that the place is in, None for a place of the kernel itself.
    """

    function: bytes
    file: str
    at_file: str
    at_line: int
    at_column: int
    caller: int | None


def hide_calls(text: str) -> tuple[str, list[Call]]:
    """LLVM IR without `inlinedAt`, and what the files stand for that it has instead.

    Only where lines are all the debug information there is.
    """
    if ", inlinedAt: !" not in text or "emissionKind: DebugDirectivesOnly" not in text:
        return text, []
    return _Hidden(text).result()


class _Hidden:
    """The debug information of a module."""

    def __init__(self, text: str) -> None:
        start = text.index("\n!llvm.dbg.cu = ") + 1
        self._code, text = text[:start], text[start:]
        self._text = text
        self._places = {found[1]: found for found in _LOCATION.finditer(text)}
        self._blocks = {found[1]: (found[2], found[3]) for found in _BLOCK.finditer(text)}
        self._functions = {found[1]: (found[2], found[3]) for found in _FUNCTION.finditer(text)}
        self._files = {
            found[1]: _quoted(_unescaped(found[3]), _unescaped(found[2]))
            for found in _FILE.finditer(text)
        }
        self._calls: list[Call] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._nodes: list[str] = []
        self._next = 1 + max(map(int, re.findall(r"^!(\d+) = ", text, re.MULTILINE)))

    def result(self) -> tuple[str, list[Call]]:
        """The text and the calls."""
        text = _LOCATION.sub(self._rewritten, self._text)
        nodes = "".join(f"{node}\n" for node in self._nodes)
        return f"{self._code}{text}{nodes}", self._calls

    def _rewritten(self, found: re.Match[str]) -> str:
        number, line, column, scope, caller = found.groups()
        if caller is None:
            return found[0]
        call = self._call(scope, caller)
        scope = str(self._next + 2 * call + 1)
        return f"!{number} = !DILocation(line: {line}, column: {column}, scope: !{scope})"

    def _call(self, scope: str, caller: str) -> int:
        """The number of the function of this scope being inlined at this place."""
        known = self._numbers.get((scope, caller))
        if known is not None:
            return known
        place = self._places[caller]
        outer = None if place[5] is None else self._call(place[4], place[5])
        function, file = self._home(scope)
        name = _unescaped(self._functions[function][0])
        call = Call(
            name, self._files[file], self._file_of(place), int(place[2]), int(place[3]), outer
        )
        number = self._numbers[scope, caller] = len(self._calls)
        self._calls.append(call)
        while place[5] is not None:
            place = self._places[place[5]]
        kernel = self._home(place[4])[0]
        node = self._next + 2 * number
        self._nodes += [
            f'!{node} = !DIFile(filename: "{number}", directory: "{_FOLDER}")',
            f"!{node + 1} = !DILexicalBlockFile(scope: !{kernel}, file: !{node}, discriminator: 0)",
        ]
        return number

    def _home(self, scope: str) -> tuple[str, str]:
        """The function of a scope and the file that lines in the scope are in."""
        if scope in self._blocks:
            return self._blocks[scope]
        return scope, self._functions[scope][1]

    def _file_of(self, place: re.Match[str]) -> str:
        return self._files[self._home(place[4])[1]]


def _unescaped(text: str) -> bytes:
    """The bytes of a string of LLVM IR."""
    return _HEX.sub(lambda found: bytes([int(found[1], 16)]), text.encode())


def _quoted(folder: bytes, name: bytes) -> str:
    """A path as LLVM writes it into PTX; ptxas does not take one without a name."""
    if not name:
        return "<stdin>"
    between = b"" if not folder or folder.endswith(b"/") or name.startswith(b"/") else b"/"
    path = name if name.startswith(b"/") else folder + between + name
    return "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
        for byte in path
    )


def show_calls(ptx: str, calls: list[Call]) -> str:
    """The PTX of a module from `hide_calls`, with the calls in its line table."""
    return _Shown(ptx, calls).result() if calls else ptx


class _Shown:
    """The line table of a module."""

    def __init__(self, ptx: str, calls: list[Call]) -> None:
        self._ptx, self._calls = ptx, calls
        self._call_of: dict[str, int] = {}
        self._files: dict[str, int] = {}
        free: list[int] = []
        for number, path in _PTX_FILE.findall(ptx):
            if path.startswith(f"{_FOLDER}/"):
                self._call_of[number] = int(path.removeprefix(f"{_FOLDER}/"))
                free.append(int(number))
            else:
                self._files[path] = int(number)
        self._free = iter(free)
        self._most = max([*self._files.values(), *free], default=0)
        self._names: dict[bytes, int] = {}
        self._latest: dict[tuple[int, int, int], int | None] = {}

    def result(self) -> str:
        """The module's text."""
        ptx = _PTX_PLACE.sub(self._rewritten, self._ptx)
        listed = sorted((number, path) for path, number in self._files.items())
        table = "".join(f'\t.file\t{number} "{path}"\n' for number, path in listed)
        start = _PTX_FILE.search(ptx)
        if start is None:
            return ptx
        ptx = ptx[: start.start()] + table + _PTX_FILE.sub("", ptx[start.start() :])
        if not self._names:
            return ptx
        strings = "".join(
            f"$L__info_string{number}:\n\t.b8 {','.join(map(str, name + bytes(1)))}\n"
            for name, number in self._names.items()
        )
        return f"{ptx.rstrip()}\n\t.section\t.debug_str\n\t{{\n{strings}\t}}\n\n"

    def _rewritten(self, found: re.Match[str]) -> str:
        if found[1] is None:
            self._latest.clear()  # of another function
            return found[0]
        call = self._call_of.get(found[1])
        line, column = int(found[2]), int(found[3])
        if call is None:
            self._latest[int(found[1]), line, column] = None
            return found[0]
        lines: list[str] = []
        self._place(lines, (self._file(self._calls[call].file), line, column), call)
        return "\n".join(lines)

    def _place(self, lines: list[str], place: tuple[int, int, int], call: int | None) -> None:
        """Adds a place in a call, after those of its callers where they are not there yet."""
        text = "\t.loc\t{} {} {}".format(*place)
        if call is not None:
            known = self._calls[call]
            at = self._file(known.at_file), known.at_line, known.at_column
            if self._latest.get(at, -1) != known.caller:
                self._place(lines, at, known.caller)
            name = self._names.setdefault(known.function, len(self._names))
            text += f", function_name $L__info_string{name}, inlined_at " + "{} {} {}".format(*at)
        lines.append(text)
        self._latest[place] = call

    def _file(self, path: str) -> int:
        """The number of a file; a new one takes that of a file that stood for a call."""
        number = self._files.get(path)
        if number is None:
            self._most += 1
            number = self._files[path] = next(self._free, self._most)
        return number
