"""Locations and debug scopes: text, aliases, and the rules of the verifier."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)

from tests.kernels.cuda_tile_text import error_of, verified
from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
    enclosing_subprogram,
    inline_frames,
    source_location,
)
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.errors import SourceLocation

FILE = DIFileAttr("k.py", "/src")
SUBPROGRAM = DISubprogramAttr(
    FILE, IntAttr(1), StringAttr("k"), StringAttr("k"), DICompileUnitAttr(FILE), IntAttr(1)
)
BLOCK = DILexicalBlockAttr(SUBPROGRAM, FILE, IntAttr(2), IntAttr(0))


def place(line: int, scope: DISubprogramAttr | DILexicalBlockAttr = SUBPROGRAM) -> DILocAttr:
    """A place in a scope."""
    return DILocAttr(scope, StringAttr("k.py"), IntAttr(line), IntAttr(4))


SCOPES = """\
#di_file = #cuda_tile.di_file<"k.py" in "/src">
#loc = loc("k.py":1:0)
#loc1 = loc("k.py":5:8)
#loc2 = loc("k.py":9:2)
#loc3 = loc(unknown)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1, name = "k", \
linkageName = "k", compileUnit = #di_compile_unit, scopeLine = 1>
#di_subprogram1 = #cuda_tile.di_subprogram<file = #di_file, line = 8, name = "inner", \
linkageName = "inner", compileUnit = #di_compile_unit>
#di_lexical_block = #cuda_tile.di_lexical_block<scope = #di_subprogram, file = #di_file, line = 4>
#loc4 = #cuda_tile.di_loc<#loc in #di_subprogram>
#loc5 = #cuda_tile.di_loc<#loc2 in #di_subprogram1>
#loc6 = #cuda_tile.di_loc<#loc1 in #di_lexical_block>
#loc7 = loc(callsite(#loc5 at #loc6))
"""
LOCATED = (
    "entry @k() {\n"
    "  %0 = iota : tile<8xi32> loc(#loc6)\n"
    "  %1 = negi %0 : tile<8xi32> loc(#loc7)\n"
    "  return loc(#loc3)\n"
    "} loc(#loc4)\n"
)


def test_prints_locations_as_the_vendor_does() -> None:
    """Aliases by depth, kind and first use, after the program."""
    assert print_module(verified(LOCATED + SCOPES), debug_info=True) == LOCATED + SCOPES


def test_reads_aliases_before_and_after() -> None:
    """The order of definitions does not matter."""
    first = parse_module(SCOPES + LOCATED)
    last = parse_module(LOCATED + "\n".join(reversed(SCOPES.splitlines())))
    assert [op.location for op in first.walk()][2:] == [op.location for op in last.walk()][2:]
    assert source_location(list(first.walk())[4].location) == SourceLocation("k.py", 9, 2)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("unknown", UnknownLoc()),
        ('"f.py":3:4', FileLineColLoc(StringAttr("f.py"), IntAttr(3), IntAttr(4))),
        ('"name"', NameLoc(StringAttr("name"), NoneAttr())),
        (
            '"name"("f.py":3:4)',
            NameLoc(StringAttr("name"), FileLineColLoc(StringAttr("f.py"), IntAttr(3), IntAttr(4))),
        ),
        ("fused[unknown]", FusedLoc(ArrayAttr([UnknownLoc()]), NoneAttr())),
        ("callsite(unknown at unknown)", DICallSiteLoc(UnknownLoc(), UnknownLoc())),
    ],
)
def test_location_reads_and_prints(text: str, location: object) -> None:
    """Every kind, through a whole program and back."""
    module = parse_module(f"entry @k() {{\n}} loc({text})")
    entry = list(module.walk())[2]
    assert entry.location == location
    again = parse_module(print_module(module, debug_info=True))
    assert list(again.walk())[2].location == location


def test_source_location_digs_to_the_innermost_place() -> None:
    """Through call sites, names and fused locations."""
    inner, outer = place(3), place(7)
    call = DICallSiteLoc(inner, outer)
    assert source_location(call) == SourceLocation("k.py", 3, 4)
    named = NameLoc(StringAttr("x"), FileLineColLoc(StringAttr("f"), IntAttr(1), IntAttr(2)))
    assert source_location(named) == SourceLocation("f", 1, 2)
    fused = FusedLoc(ArrayAttr([UnknownLoc(), named]), NoneAttr())
    assert source_location(fused) == SourceLocation("f", 1, 2)
    assert source_location(UnknownLoc()) is None
    assert [frame.location.line for frame in inline_frames(call)] == [3, 7]


def test_scopes_lead_to_their_subprogram() -> None:
    """Through lexical blocks; a file is no scope of code."""
    assert enclosing_subprogram(BLOCK) == SUBPROGRAM
    assert enclosing_subprogram(FILE) is None


RULES = (
    (
        "entry @k() {\n} loc(#cuda_tile.di_loc<#loc1 in #di_lexical_block>)\n",
        "Function location must have cuda_tile.di_subprogram debug info scope",
    ),
    (
        "entry @other() {\n} loc(#loc4)\n",
        'Function name "other" does not match subprogram scope linkage name "k"',
    ),
    (
        "entry @k() {\n  return loc(#loc4)\n}\n",
        "Operation has debug info scope, but function debug info scope is undefined",
    ),
    (
        "entry @k() {\n  return loc(#loc5)\n} loc(#loc4)\n",
        "Operation debug info scope does not match function debug info scope: 'inner' and 'k'",
    ),
    (
        "global @g <i8: 1> : tile<2xi8> loc(#loc4)\nentry @k() {\n}\n",
        "Global variables must not have scope",
    ),
    (
        "entry @k() {\n} loc(callsite(#loc4 at #loc4))\n",
        "Function location must not be a call site",
    ),
)


@pytest.mark.parametrize(("text", "message"), RULES)
def test_rejects_scopes_that_do_not_fit(text: str, message: str) -> None:
    """The six rules of the specification's debug information."""
    assert message in error_of(text + SCOPES)


def test_frames_of_a_long_chain_of_calls() -> None:
    """Longer than Python's own calls may be; the innermost place comes first."""
    chain: DILocAttr | DICallSiteLoc = place(0)
    for line in range(1, 3000):
        chain = DICallSiteLoc(place(line), chain)
    frames = list(inline_frames(chain))
    assert [frame.location.line for frame in frames] == [*range(2999, -1, -1)]
    assert {frame.scope for frame in frames} == {SUBPROGRAM}
