"""Places in functions of a source, one of them inlined through another."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
)


def function(name: str, path: str, line: int) -> DISubprogramAttr:
    """A function of the source."""
    file = DIFileAttr(path, "/src")
    names = StringAttr(name), StringAttr(name)
    return DISubprogramAttr(file, IntAttr(line), *names, DICompileUnitAttr(file), IntAttr(line))


KERNEL = function("k", "kernel.py", 10)
OUTER = function("scaled", "lib.py", 20)
INNER = function("twice", "lib.py", 30)


def at(scope: Attribute, path: str, line: int) -> DILocAttr:
    """A line in a function."""
    return DILocAttr(scope, StringAttr(f"/src/{path}"), IntAttr(line), IntAttr(5))


CHAIN = DICallSiteLoc(
    at(INNER, "lib.py", 31),
    DICallSiteLoc(at(OUTER, "lib.py", 22), at(KERNEL, "kernel.py", 13)),
)
