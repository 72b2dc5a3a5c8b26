"""Text that does not parse or verify: an error at its place, never another exception."""

from __future__ import annotations

import random

import pytest

from tests.dialects.assembly.structured_text import BRANCHES, STRUCTURED
from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text


def in_function(*lines: str) -> str:
    """A kernel with these lines, the first of which is line 3."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"builtin.module {{\n  nv_tileaa.func @k(%a: i32, %b: f32) {{\n{body}  }}\n}}\n"


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (["%0 = nv_tileaa.addi %a, %b : i32"], 3, "operand is used with type i32"),
        (["%0 = nv_tileaa.addi %a, %c : i32"], 3, "%c is used before it is defined"),
        (["%0 = nv_tileaa.addi %a : i32"], 3, "',' expected"),
        (
            ["%0 = nv_tileaa.added %a, %a : i32"],
            3,
            "unknown operation 'nv_tileaa.added', did you mean 'nv_tileaa.add",
        ),
        (["nv_tileaa.return", "%0 = nv_tileaa.cmpi near signed, %a, %a : i32"], 4, "found 'near'"),
        (["%0, %1 = nv_tileaa.addi %a, %a : i32"], 3, "has 1 results, but 2 have names"),
        (["%0 = nv_tileaa.constant 300 : i8"], 3, "'300' is no constant of type i8"),
        (["%0 = nv_tileaa.constant dense<[1, 2]> : tensor<4xi8>"], 3, "2 elements, expected 4"),
        (["%0 = nv_tileaa.constant 1 : tensor<4xi8>"], 3, "written otherwise"),
        (["%0 = nv_tileaa.reduce (%b) dim 0 identities [300 : i8] {"], 3, "no constant of type i8"),
        (["%0 = nv_tileaa.reduce (%b) dim 0 identities [x : f32] {"], 3, "no constant of type f32"),
        (["%0 = nv_tileaa.scan (%b) dim 0 identities [1 : index] {"], 3, "constant of type index"),
        (["%0 = nv_tileaa.scan (%b) dim 0 identities 1 {"], 3, "'[' expected"),
        (["%0 = nv_tileaa.get_program_id x"], 3, "expected integer literal"),
        (["%0 = nv_tileaa.make_range : !view0"], 3, "undefined symbol alias '!view0'"),
        (["%0 = nv_tileaa.create_mem_token {a, a}"], 3, "'a' is given twice"),
        (["%0 = nv_tileas.async.pipeline.create_pipeline {stages = 2}"], 3, "has no 'consumers'"),
        (["%0 = nv_tileas.async.pipeline.create_pipeline {stages}"], 3, "'stages' has no value"),
        (["%0 = nv_tileaa.make_range : tensor<4xi32, #nv_tileas.layout<{r = [[1]]} -> 4>>"], 3, ""),
        (['"nv_tileaa.addi"(%a, %a) : (i32, i32) -> i64'], 3, ""),
        (["nv_tileas.async.pipeline.agent_switch producer {"], 3, ""),
        (
            ["%0 = llvm.add %a, %a : i32", "nv_tileaa.return"],
            3,
            "no stage has operations of all these dialects",
        ),
    ],
)
def test_mistake_has_its_place(lines: list[str], line: int, message: str) -> None:
    """What is wrong, and in which line."""
    with pytest.raises(BytecodeError) as caught:
        parse_text(in_function(*lines), "k.mlir")
    assert message in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.filename == "k.mlir"
    assert caught.value.location.line >= line


def test_operation_that_does_not_verify_has_its_place() -> None:
    """In the text, where no location says another one."""
    text = BRANCHES.replace(
        "%cst = llvm.constant dense<[0, -1]> : vector<2xi32>", "nvvm.barrier {id = 77}"
    )
    with pytest.raises(BytecodeError, match="barrier 77, expected 0 to 15") as caught:
        parse_text(text, "k.mlir")
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.location.column) == (3, 5)


def test_correct_text_is_no_error() -> None:
    """The same lines without mistakes."""
    parse_text(in_function("%0 = nv_tileaa.addi %a, %a : i32", "nv_tileaa.return"))


@pytest.mark.parametrize("seed", range(300))
def test_damaged_text_is_rejected_or_read(seed: int) -> None:
    """Whatever a character or a word is replaced with: no exception but ours."""
    generator = random.Random(seed)
    text = generator.choice([STRUCTURED, BRANCHES])
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(text))
        end = at + generator.randint(0, 6)
        text = text[:at] + generator.choice(list("%#!{}[]<>()=:,-x0a ") + [""]) + text[end:]
    try:
        parse_text(text, "k.mlir")
    except BytecodeError as error:
        assert error.location is not None
        assert error.message
