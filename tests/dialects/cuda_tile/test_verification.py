"""Every operation and type: what verifies, and what does not with which message."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region

from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import error_of, kernel, verified
from tileiras.dialects.cuda_tile import CudaTile
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.errors import BytecodeError, SourceLocation

CHAPTERS = (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
ACCEPTED = [
    pytest.param(op, body, id=f"{op}-{index}")
    for chapter in CHAPTERS
    for op, bodies in chapter.ACCEPTED.items()
    for index, body in enumerate(bodies)
]
REJECTED = [case for chapter in CHAPTERS for case in chapter.REJECTED]
WITHOUT_BODY = {"module", "entry", "global", "get_global"}


@pytest.mark.parametrize(("op", "body"), ACCEPTED)
def test_accepts(op: str, body: str) -> None:
    """The body verifies, and the operation is in it."""
    module = verified(kernel(body))
    assert f"cuda_tile.{op}" in {inner.name for inner in module.walk()}


@pytest.mark.parametrize(("op", "body", "message"), REJECTED)
def test_rejects(op: str, body: str, message: str) -> None:
    """With a message that says what was found and what was expected."""
    assert message in error_of(kernel(body))


@pytest.mark.parametrize("text", cases_control_flow.ACCEPTED_MODULES)
def test_accepts_module(text: str) -> None:
    """Entries and globals, in a module or alone."""
    verified(text)


@pytest.mark.parametrize(("op", "text", "message"), cases_control_flow.REJECTED_MODULES)
def test_rejects_module(op: str, text: str, message: str) -> None:
    """Symbols, parameters and globals that are wrong."""
    assert message in error_of(text)


@pytest.mark.parametrize(("type", "message"), cases_control_flow.REJECTED_TYPES)
def test_rejects_type(type: str, message: str) -> None:
    """When the type is read."""
    assert message in error_of(f"entry @k(%a: {type}) {{\n}}")


def test_every_operation_has_an_accepted_and_a_rejected_case() -> None:
    """So that no verifier goes untested."""
    names = {op.name.removeprefix("cuda_tile.") for op in CudaTile.operations}
    accepted = {case.values[0] for case in ACCEPTED} | WITHOUT_BODY
    rejected = (
        {"module"}
        | {case[0] for case in REJECTED}
        | {case[0] for case in cases_control_flow.REJECTED_MODULES}
    )
    assert names - accepted == set()
    assert names - rejected == set()


def test_error_has_the_place_of_the_operation() -> None:
    """The line and column in the text, where there is no other location."""
    text = "entry @k() {\n  %0 = iota : tile<8xi32>\n  %1 = iota : tile<2x2xi32>\n}\n"
    with pytest.raises(BytecodeError) as caught:
        verified(text)
    assert caught.value.location == SourceLocation("kernel.mlir", 3, 3)
    rendered = caught.value.render()
    assert (
        rendered
        == "loc(\"kernel.mlir\":3:3): error: 'cuda_tile.iota' op result has rank 2, expected 1"
    )


def test_error_has_the_location_of_the_source() -> None:
    """A `loc` in the text is where the user's program has the operation."""
    text = 'entry @k() {\n  %1 = iota : tile<2x2xi32> loc("user.py":7:2)\n}\n'
    with pytest.raises(BytecodeError) as caught:
        verified(text)
    assert caught.value.location == SourceLocation("user.py", 7, 2)


def test_program_is_one_module() -> None:
    """An empty builtin module is no program."""
    with pytest.raises(BytecodeError, match="program holds nothing, expected one"):
        verify_module(ModuleOp([]))


def test_entry_needs_a_terminator() -> None:
    """Text adds it, other makers of programs must."""
    module = parse_module("entry @k() {\n}\n")
    entry = list(module.walk())[2]
    block = entry.regions[0].blocks[0]
    assert block.last_op is not None
    block.erase_op(block.last_op)
    with pytest.raises(BytecodeError, match="body is empty, expected return at its end"):
        verify_module(module)


def test_module_holds_entries_and_globals_only() -> None:
    """Other operations belong into an entry."""
    text = '"cuda_tile.module"() <{sym_name = "m"}> ({\n  %0 = make_token : token\n}) : () -> ()'
    assert "body has 'make_token', expected entries and globals only" in error_of(text)


def test_entry_has_one_block() -> None:
    """Branches between blocks are not part of the language."""
    module = parse_module("entry @k() {\n}\n")
    entry = list(module.walk())[2]
    entry.regions[0].add_block(Block())
    with pytest.raises(BytecodeError, match="body has 2 blocks, expected 1"):
        verify_module(module)


def test_nothing_but_the_dialect_is_inside_an_entry() -> None:
    """Foreign operations are refused."""
    module = parse_module("entry @k() {\n}\n")
    entry = list(module.walk())[2]
    entry.regions[0].blocks[0].insert_op_before(
        ModuleOp(Region(Block()), sym_name=StringAttr("x")),
        entry.regions[0].blocks[0].last_op,  # type: ignore[arg-type]
    )
    with pytest.raises(BytecodeError, match="expected operations of cuda_tile only"):
        verify_module(module)
