"""Regular expressions, compiled once and kept: `re` takes a quarter of a millisecond for each."""

from __future__ import annotations

import re
import sys
from typing import Any

from tileiras.fast_start.prepared_file import Prepared

_SUPPORTED = ((3, 11), (3, 12))
"""Versions of Python whose `re` compiles by the function that is replaced."""


def keep_patterns(prepared: Prepared) -> None:
    """From now on what `re` has compiled once is made from the prepared file.

    The file's head has Python's version, and with it that of the machine for these programs.
    """
    compiler: Any = getattr(re, "_compiler", None)
    if sys.version_info[:2] not in _SUPPORTED or not hasattr(compiler, "compile"):
        return
    make: Any = getattr(sys.modules["_sre"], "compile")  # noqa: B009 (a module without types)

    compile_anew, known = compiler.compile, prepared.patterns
    parse, write_program = compiler._parser.parse, compiler._code

    def compile_pattern(pattern: Any, flags: int = 0) -> Any:
        if type(pattern) not in (str, bytes):
            return compile_anew(pattern, flags)
        key = (pattern, int(flags))
        program = known.get(key)
        if program is None:
            parsed = parse(pattern, flags)
            state = parsed.state
            names: list[str | None] = [None] * state.groups
            for name, group in state.groupdict.items():
                names[group] = name
            program = known[key] = (
                int(flags | state.flags),
                [int(word) for word in write_program(parsed, flags)],
                state.groups - 1,
                dict(state.groupdict),
                tuple(names),
            )
            prepared.grew = True
        return make(pattern, *program)

    compiler.compile = compile_pattern
