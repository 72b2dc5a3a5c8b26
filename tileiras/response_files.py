"""Response files: `@FILE` on a command line stands for the arguments in the file.

As in LLVM's tools: arguments are separated by white space, either quotes hold words together, a
backslash takes the next character as it is, files may name files. An `@FILE` that does not exist
stands for itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tileiras.errors import UsageError

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_SPACES = " \t\n\v\f\r"
_QUOTES = "'\""


def expand(
    argv: Sequence[str], inside: tuple[str, ...] = (), read: list[str] | None = None
) -> list[str]:
    """The arguments with those of response files in their places.

    `inside` are the files being read, by their real paths; the paths of all are added to `read`.
    Raises UsageError for a file that cannot be read and for one that names itself.
    """
    arguments: list[str] = []
    for argument in argv:
        path = argument[1:]
        if not argument.startswith("@") or not os.path.exists(path):
            arguments.append(argument)
            continue
        place = os.path.realpath(path)
        if place in inside:
            raise UsageError(f"response file '{path}' names itself")
        if read is not None:
            read.append(path)
        arguments += expand(split(_read(path)), (*inside, place), read)
    return arguments


def _read(path: str) -> str:
    """The text of a response file. Bytes that are no UTF-8 are kept: names of files have such."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
        is_wide = data.startswith(_UTF16_MARKS)
        text = data.decode("utf-16") if is_wide else os.fsdecode(data.removeprefix(_UTF8_MARK))
    except OSError as error:
        raise UsageError(f"unable to read response file '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"unable to read response file '{path}': {error.reason}") from error
    if "\0" in text:
        raise UsageError(f"unable to read response file '{path}': a null byte is no text")
    return text


def split(text: str) -> list[str]:
    """The arguments in the text of a response file. A quote that is not closed lasts to the end."""
    arguments: list[str] = []
    word: list[str] | None = None
    quote = ""
    rest = iter(text)
    for character in rest:
        if not quote and character in _SPACES:
            if word is not None:
                arguments.append("".join(word))
            word = None
            continue
        word = [] if word is None else word
        if character == "\\":
            word.append(next(rest, character))
        elif character == quote:
            quote = ""
        elif not quote and character in _QUOTES:
            quote = character
        else:
            word.append(character)
    return arguments if word is None else [*arguments, "".join(word)]
