"""What the compiler tells a user about the choices it made for a kernel.

A pass reports; the collector keeps what the user asked for (`--remarks`, `--remarks-missed`, ...);
the command line prints the result for reading or writes it as a YAML stream, one document a remark.
Clients store that stream beside a compiled kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tileiras.errors import SourceLocation


class RemarkKind(Enum):
    """What became of the thing that a remark is about."""

    PASSED = "passed"
    MISSED = "missed"
    FAILED = "failed"
    ANALYSIS = "analysis"


class RemarkCategory(Enum):
    """What a remark is about; the values are what `--remarks=` accepts."""

    MEMORY = "memory"
    TENSOR_CORE = "tensorcore"
    SCHEDULE = "schedule"

    @property
    def label(self) -> str:
        """The name under which remarks of this category are printed."""
        return {"memory": "Memory", "tensorcore": "Tensor-core", "schedule": "Schedule"}[self.value]


@dataclass(frozen=True)
class Remark:
    """One statement about one operation of one kernel.

    `name` identifies the kind of statement for tools, `arguments` are its facts in order, such as
    `("Shape", "[32, 32]")`. `pass_name` is the pass that says it.
    """

    category: RemarkCategory
    kind: RemarkKind
    pass_name: str
    name: str
    message: str
    function: str
    location: SourceLocation | None = None
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RemarkFilter:
    """Which remarks are wanted: for each kind `none`, `all`, or the value of one category."""

    wanted: Mapping[RemarkKind, str] = field(default_factory=dict[RemarkKind, str])

    def accepts(self, kind: RemarkKind, category: RemarkCategory) -> bool:
        """Whether the user asked for remarks of this kind and category."""
        return self.wanted.get(kind, "none") in ("all", category.value)

    @property
    def is_empty(self) -> bool:
        """Whether no remark at all is wanted."""
        return all(choice == "none" for choice in self.wanted.values())


@dataclass
class RemarkCollector:
    """Keeps the wanted remarks of one compilation in the order in which passes made them."""

    filter: RemarkFilter = field(default_factory=RemarkFilter)
    remarks: list[Remark] = field(default_factory=list[Remark])
    facts: dict[str, dict[str, int | str]] = field(default_factory=dict[str, dict[str, int | str]])
    """By kernel: what the program said of its stages and tiles, for what is told after ptxas."""

    def wants(self, kind: RemarkKind, category: RemarkCategory) -> bool:
        """Whether a remark would be kept: ask before computing one that costs anything."""
        return self.filter.accepts(kind, category)

    def add(self, remark: Remark) -> None:
        """Keeps the remark if it is wanted."""
        if self.wants(remark.kind, remark.category):
            self.remarks.append(remark)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 stage", "2 stages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_SAFE_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/0123456789")
_NOT_STRINGS = frozenset(
    ("", "null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan")
)


def _is_number(text: str) -> bool:
    """Whether YAML reads the text as a number."""
    try:
        float(text.replace("_", ""))
    except ValueError:
        return text[:2] in ("0x", "0o", "0b")
    return True


def yaml_scalar(text: str) -> str:
    """The text as one YAML scalar that is read back as exactly that string."""
    if any(not char.isprintable() for char in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(_escape_character(char) for char in escaped) + '"'
    plain = (
        text.lower() not in _NOT_STRINGS
        and text[0] in _SAFE_FIRST
        and not _is_number(text)
        and not any(char in text for char in ":#,[]{}'\"\\?=")
        and not text.endswith(" ")
        and not text[0].isdigit()
    )
    return text if plain else "'" + text.replace("'", "''") + "'"


def _escape_character(char: str) -> str:
    """The character as it stands in a double-quoted YAML scalar."""
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"


def _yaml_document(number: int, remark: Remark) -> str:
    """One remark as one YAML document; `number` counts from 1 within the stream."""
    lines = [
        f"--- !{remark.kind.value.capitalize()}",
        f"Pass:            {yaml_scalar(remark.category.label)}",
        f"Name:            {yaml_scalar(remark.name)}",
    ]
    if (place := remark.location) is not None:
        lines.append(
            f"DebugLoc:        {{ File: {yaml_scalar(place.filename)}, "
            f"Line: {place.line}, Column: {place.column} }}"
        )
    lines.append(f"Function:        {yaml_scalar(remark.function)}")
    lines.append("Args:")
    facts = (
        ("RemarkId", str(number)),
        ("Remark", yaml_scalar(remark.message)),
        *((key, yaml_scalar(value)) for key, value in remark.arguments),
        ("CompilerPass", yaml_scalar(remark.pass_name)),
    )
    lines += [f"  - {key + ':':<12} {value}" for key, value in facts]
    lines.append("...")
    return "\n".join(lines) + "\n"


def to_yaml(remarks: Iterable[Remark]) -> str:
    """The remarks as a YAML stream, one document each; empty text when there are none."""
    return "".join(_yaml_document(i, remark) for i, remark in enumerate(remarks, start=1))


def _text_block(remark: Remark) -> list[str]:
    """One remark as indented lines for reading."""
    lines = [f"    remark[{remark.kind.value}]: {remark.message}"]
    if (place := remark.location) is not None:
        lines.append(f'      --> "{place.filename}":{place.line}:{place.column}')
        lines.append("       |")
    lines.append(f"       = name: {remark.name}")
    lines += [f"       = note: {key} = {value}" for key, value in remark.arguments]
    lines.append("")
    return lines


def to_text(remarks: Iterable[Remark]) -> str:
    """The remarks for reading: by function, in order of first mention, then by category."""
    by_function: dict[str, dict[RemarkCategory, list[Remark]]] = {}
    for remark in remarks:
        categories = by_function.setdefault(remark.function, {})
        categories.setdefault(remark.category, []).append(remark)
    lines: list[str] = []
    for function, categories in by_function.items():
        lines += [f"in function: {function}:", ""]
        for category, members in categories.items():
            lines.append(f"  category: {category.label}")
            for remark in members:
                lines += _text_block(remark)
    return "\n".join(lines)
