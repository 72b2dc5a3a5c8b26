"""What can be seen between the passes: dumps and differences on stderr, files in a folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tileiras.errors import TargetError
from tileiras.ir_pass import IrPass
from tileiras.options import CompileOptions
from tileiras.stages import print_stage

CONTEXT_LINES = 3
"""Unchanged lines around a difference."""

SHOWN_NAMES = 5
"""Policy: names of functions in a note."""


def wants_dump(options: CompileOptions, name: str, before: bool) -> bool:
    """Whether the options ask to print the module before (or after) the pass of this name."""
    if before:
        return options.print_before_all or name in options.print_before
    return options.print_after_all or name in options.print_after


@dataclass
class DumpFolder:
    """A folder with a numbered file for each step, in the order in which they ran."""

    path: str
    _count: int = field(default=0)

    def write(self, name: str, suffix: str, data: bytes) -> str:
        """Writes the next file, `03-NAME.SUFFIX`; gives its path. Raises TargetError."""
        place = os.path.join(self.path, f"{self._count:02d}-{name}.{suffix}")
        self._count += 1
        try:
            os.makedirs(self.path, exist_ok=True)
            with open(place, "wb") as stream:
                stream.write(data)
        except OSError as error:
            raise TargetError(f"unable to write dump '{place}': {error.strerror}") from error
        return place


def functions_of(module: ModuleOp, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the module's functions that `--print-funcs` means: `*` stands for anything.

    A pattern that fits none is kept, picks nothing, and is told on stderr.
    """
    from fnmatch import fnmatchcase

    names = [
        symbol.data
        for op in module.walk()
        if op.name.endswith((".entry", ".func"))
        and isinstance(symbol := op.properties.get("sym_name"), StringAttr)
    ]
    picked: list[str] = []
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            known = ", ".join(f"'{name}'" for name in names[:SHOWN_NAMES])
            note = f"note: --print-funcs: no function is named '{pattern}', the input has {known}"
            print(note, file=sys.stderr)
        picked += found or [pattern]
    return tuple(dict.fromkeys(picked))


class PassDumps:
    """Shows the module between passes, as the options ask."""

    def __init__(self, options: CompileOptions, folder: DumpFolder | None = None):
        self.options = options
        self.folder = folder
        self._shown: str | None = None
        """The text before the pass that is running, where differences are asked for."""

    def before(self, ir_pass: IrPass, module: ModuleOp) -> None:
        """What is to be seen before a pass."""
        if self.options.print_changed and self._shown is None:
            self._shown = self._text(module)
        if wants_dump(self.options, ir_pass.name, before=True):
            self._show("Dump Before", ir_pass, self._text(module))

    def after(self, ir_pass: IrPass, module: ModuleOp) -> None:
        """What is to be seen after a pass."""
        if wants_dump(self.options, ir_pass.name, before=False):
            self._show("Dump After", ir_pass, self._text(module))
        if self.options.print_changed:
            self._show_changes(ir_pass, self._text(module))
        if self.folder is not None:
            self.folder.write(ir_pass.name, "mlir", self._text(module).encode())

    def input(self, module: ModuleOp) -> None:
        """The module before the first pass, in the folder."""
        if self.folder is not None:
            self.folder.write("input", "mlir", self._text(module).encode())

    def _text(self, module: ModuleOp) -> str:
        return print_stage(module, style=self.options.text_style)

    def _show(self, what: str, ir_pass: IrPass, text: str) -> None:
        print(f"*** IR {what} {ir_pass.title} ({ir_pass.name}) ***", file=sys.stderr)
        print(text, file=sys.stderr)

    def _show_changes(self, ir_pass: IrPass, now: str) -> None:
        """The unified difference that the pass made; only a line where there is none."""
        from difflib import unified_diff

        before, self._shown = self._shown or "", now
        if before == now:
            header = f"*** IR Dump After {ir_pass.title} ({ir_pass.name}) omitted: no change ***"
            print(header, file=sys.stderr)
            return
        lines = unified_diff(
            before.splitlines(), now.splitlines(), "before", "after", "", "", CONTEXT_LINES, ""
        )
        self._show("Diff After", ir_pass, "\n".join(lines))
