"""What commands print on a terminal, as pictures: docs/captures.

Each command runs on a terminal of its own (a pty of `COLUMNS` columns), so it has the colours that
a user sees. An SVG has text that can be searched and copied, and no font or picture from elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLUMNS, ROWS = 100, 50
_CHARACTER, _LINE, _MARGIN = 8.4, 18, 12
_COLOURS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#56d4dd",
}
_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_OTHER = re.compile(r"\x1b(?:\[[\d;?]*[A-Za-ln-z]|\][^\x07]*\x07)")


@dataclass(frozen=True)
class Capture:
    """Commands in the order that a user types them; of each at most so many lines are shown."""

    commands: tuple[str, ...]
    most: int = ROWS


def on_a_terminal(command: str, folder: Path) -> str:
    """What a command writes on a terminal, with its escape sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    dropped = ("TILEIR", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    scripts = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**kept, "PATH": scripts, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ):
        os.close(theirs)
        said = b""
        with suppress(OSError):  # at the end, on Linux
            while piece := os.read(ours, 1 << 16):
                said += piece
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


@dataclass(frozen=True)
class Span:
    """Text of one style; the colour is empty where it is the terminal's own."""

    text: str
    colour: str
    bold: bool


def spans(text: str) -> Iterator[Span]:
    """A line's or a text's parts by their style."""
    colour, bold, place = "", False, 0
    text = _OTHER.sub("", text)
    for found in [*_STYLE.finditer(text), None]:
        end = len(text) if found is None else found.start()
        if text[place:end]:
            yield Span(text[place:end], colour, bold)
        if found is None:
            return
        place = found.end()
        for code in (found[1] or "0").split(";"):
            if code in ("0", ""):
                colour, bold = "", False
            elif code == "1":
                bold = True
            else:
                colour = _COLOURS[code]


def lines(text: str) -> list[list[Span]]:
    """The lines of a screen: what is longer goes on in the next one."""
    screen: list[list[Span]] = [[]]
    column = 0
    for span in spans(text):
        for number, part in enumerate(span.text.split("\n")):
            if number:
                screen.append([])
                column = 0
            while part:
                if column == COLUMNS:
                    screen.append([])
                    column = 0
                piece, part = part[: COLUMNS - column], part[COLUMNS - column :]
                screen[-1].append(Span(piece, span.colour, span.bold))
                column += len(piece)
    while screen and not screen[-1]:
        screen.pop()
    return screen


def screen_of(capture: Capture, folder: Path) -> list[list[Span]]:
    """The screen after the commands."""
    screen: list[list[Span]] = []
    for command in capture.commands:
        screen.append([Span("$ ", "", False), Span(command, "", True)])
        found = lines(on_a_terminal(command, folder))
        screen += found[: capture.most]
        if len(found) > capture.most:
            screen.append([Span("...", "", False)])
    return screen


def to_svg(screen: list[list[Span]], title: str) -> str:
    """The picture of a screen."""
    width = round(COLUMNS * _CHARACTER + 2 * _MARGIN)
    height = len(screen) * _LINE + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        'font-size="14" fill="#e6edf3">',
    ]
    for number, line in enumerate(screen):
        column, made = 0, ""
        for span in line:
            weight = ' font-weight="bold"' if span.bold else ""
            fill = f' fill="{span.colour}"' if span.colour else ""
            for word in re.finditer(r"\S+(?: \S+)*", span.text):  # not all readers keep spaces
                place = _MARGIN + (column + word.start()) * _CHARACTER
                long = len(word[0]) * _CHARACTER
                made += (
                    f'<tspan x="{place:.1f}" textLength="{long:.1f}"{weight}{fill}>'
                    f"{escape(word[0])}</tspan>"
                )
            column += len(span.text)
        if made:
            parts.append(f'<text y="{_MARGIN + (number + 1) * _LINE - 5}">{made}</text>')
    return "\n".join([*parts, "</g>", "</svg>", ""])
