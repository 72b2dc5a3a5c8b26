"""Attributes that are integers and words by name, such as `#nv_tileas.wgmma<lhs = smem>`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.ir import Data
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

Value = int | str
_WORD = re.compile(r"[A-Za-z_][\w$.]*")


class NamedValues(Data[tuple[tuple[str, Value], ...]]):
    """Integers and words by name: `<a = 1, b = smem>`; all of `required`, some of `optional`."""

    required: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, data: tuple[tuple[str, Value], ...]):
        super().__init__(data)

    def verify(self) -> None:
        """All required names, no unknown ones, each once; integers are not negative."""
        names = [name for name, _ in self.data]
        known = (*self.required, *self.optional)
        unknown = [name for name in names if name not in known]
        missing = [name for name in self.required if name not in names]
        if unknown or missing:
            raise VerifyException(
                f"found {', '.join(names) or 'nothing'}, expected {', '.join(self.required)}"
                + (f" and any of {', '.join(self.optional)}" if self.optional else "")
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise VerifyException(f"{twice} is given twice")
        for name, value in self.data:
            if isinstance(value, int) and value < 0:
                raise VerifyException(f"{name} is {value}, expected no negative number")

    @classmethod
    def of(cls, **values: Value) -> Self:
        """The attribute with these values, in the order that its class gives them."""
        known = [name for name in (*cls.required, *cls.optional) if name in values]
        others = [name for name in values if name not in known]
        return cls(tuple((name, values[name]) for name in (*known, *others)))

    def integer(self, name: str) -> int:
        """The integer of a name, 0 where it is absent."""
        value = dict(self.data).get(name, 0)
        if not isinstance(value, int):
            raise VerifyException(f"{name} is {value}, expected an integer")
        return value

    def word(self, name: str) -> str:
        """The word of a name."""
        return str(dict(self.data)[name])

    def optional_integer(self, name: str) -> int | None:
        """The integer of a name, None where it is absent."""
        return self.integer(name) if self.has(name) else None

    def has(self, name: str) -> bool:
        """Whether there is something of this name."""
        return name in dict(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Value], ...]:
        """Parses `<a = 1, b = smem>`."""

        def pair() -> tuple[str, Value]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            quoted = parser.parse_optional_str_literal()
            if quoted is not None:
                return name, quoted
            number = parser.parse_optional_integer()
            return name, parser.parse_identifier() if number is None else number

        pairs = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, pair)
        known = (*cls.required, *cls.optional)
        order = {name: number for number, name in enumerate(known)}
        return tuple(sorted(pairs, key=lambda item: order.get(item[0], len(order))))

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<a = 1, b = smem>`."""
        printer.print_string(
            "<" + ", ".join(f"{name} = {_written(value)}" for name, value in self.data) + ">"
        )


def parse_name(parser: AttrParser, name: str) -> None:
    """Parses `name =`, in front of what it names."""
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _written(value: Value) -> str:
    """A number or a word; quoted if it is more than one word, or does not begin as words do."""
    return f'"{value}"' if isinstance(value, str) and not _WORD.fullmatch(value) else str(value)
