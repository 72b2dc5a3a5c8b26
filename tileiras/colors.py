"""Colours of messages and of help on a terminal, in rustc's and cargo's manners.

Nothing here is imported where no colours are wanted: output that goes to a file or a pipe has the
plain text that clients parse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BOLD = "\x1b[1m"
RED = "\x1b[1;31m"
GREEN = "\x1b[1;32m"
YELLOW = "\x1b[1;33m"
BLUE = "\x1b[1;34m"
CYAN = "\x1b[1;36m"
RESET = "\x1b[0m"

_DUMB = ("", "dumb")
"""Values of `TERM` for terminals that show escape sequences as they stand."""

_LEVELS = {"error": RED, "warning": YELLOW, "note": GREEN}
_HEADING = re.compile(r'(?P<place>loc\(".*?":\d+:\d+\): )?(?P<level>error|warning|note)(?=: )')
_SOURCE_LINE = re.compile(r" *\d+ \| ")
_CARET_LINE = re.compile(r"(?P<gutter> *\| )(?P<under> *\^+.*)")
_REMARK = re.compile(r"(?P<indent> +)(?P<kind>remark\[(?P<name>\w+)\])(?P<rest>: .*)")
_REMARK_KINDS = {"passed": GREEN, "missed": YELLOW, "failed": RED, "analysis": CYAN}
_REMARK_PLACE = re.compile(r"(?P<sign> +(?:-->|\||=) ?)(?P<rest>.*)")
_SECTION = re.compile(r"(?P<heading>\S[^:]*):(?P<rest>.*)")
_OPTION_NAMES = re.compile(r"  (?P<names>-[^\s,]+(?:, -[^\s,]+)*)")


def choice_in(argv: Sequence[str]) -> str:
    """The last `--color` on a command line that may be wrong elsewhere; `auto` without one."""
    choice = "auto"
    for word, following in zip(argv, [*argv, ""][1:], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == "color":
            choice = value if equals else following
    return choice


def are_wanted(choice: str, environ: Mapping[str, str], on_terminal: bool) -> bool:
    """Whether to colour: as `--color` says, else on a terminal that can, unless `NO_COLOR` is set.

    What `--color` says counts more than `NO_COLOR`, since it was said for this one command.
    """
    if choice in ("always", "never"):
        return choice == "always"
    return on_terminal and not environ.get("NO_COLOR") and environ.get("TERM", "") not in _DUMB


def painted(diagnostics: str) -> str:
    """Rendered diagnostics with colours: level, message, gutters, carets with their labels."""
    level = RED
    lines: list[str] = []
    for line in diagnostics.split("\n"):
        if heading := _HEADING.match(line):
            level = _LEVELS[heading["level"]]
            rest = line[heading.end() :]
            text = f"{BOLD}{rest}{RESET}" if heading["level"] != "note" else rest
            lines.append(f"{heading['place'] or ''}{level}{heading['level']}{RESET}{text}")
        elif under := _CARET_LINE.fullmatch(line):
            lines.append(f"{BLUE}{under['gutter']}{RESET}{level}{under['under']}{RESET}")
        elif gutter := _SOURCE_LINE.match(line):
            lines.append(f"{BLUE}{gutter[0]}{RESET}{line[gutter.end() :]}")
        else:
            lines.append(line)
    return "\n".join(lines)


def painted_remarks(text: str) -> str:
    """Remarks with colours: the kind, and the signs before places and facts."""
    lines: list[str] = []
    for line in text.split("\n"):
        if remark := _REMARK.fullmatch(line):
            kind = f"{_REMARK_KINDS.get(remark['name'], CYAN)}{remark['kind']}{RESET}"
            lines.append(f"{remark['indent']}{kind}{BOLD}{remark['rest']}{RESET}")
        elif place := _REMARK_PLACE.fullmatch(line):
            lines.append(f"{BLUE}{place['sign']}{RESET}{place['rest']}")
        else:
            lines.append(line)
    return "\n".join(lines)


def painted_help(text: str) -> str:
    """The text of `--help` with colours: headings and the names of options."""
    lines: list[str] = []
    for line in text.split("\n"):
        if names := _OPTION_NAMES.match(line):
            lines.append(f"  {CYAN}{names['names']}{RESET}{line[names.end() :]}")
        elif heading := _SECTION.fullmatch(line):
            lines.append(f"{GREEN}{heading['heading']}:{RESET}{heading['rest']}")
        else:
            lines.append(line)
    return "\n".join(lines)
