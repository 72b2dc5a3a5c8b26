"""Bad programs with operations of `cute_nvgpu`: what is said, and where."""

from __future__ import annotations

import pytest

from tests.dialects.cute_nvgpu.operation_examples import BAD, EXAMPLES, TMA, TYPES
from tileiras.dialects.cute_nvgpu.dialect import OPERATIONS
from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text
from tileiras.stages import print_stage


def program(name: str, operands: str, result: str, statics: str) -> str:
    """A kernel with one operation, and values for its operands."""
    arguments, lines, uses = [], [], []
    for number, kind in enumerate(operands.split("|") if operands else []):
        use = f"%v{number}"
        uses.append(use)
        match kind.partition("<")[0]:
            case "!cute.tensor" if "gmem" not in kind:
                lines.append(f"{use} = cute.alloc() -> {kind}")
            case "!cute.ptr" if "smem" in kind:
                element = kind.partition("<")[2].removesuffix(">")
                lines.append(f"%t{number} = cute.alloc() -> !cute.tensor<{element}, 1:1>")
                lines.append(f"{use} = cute.get_iter(%t{number})")
            case "!cute.tensor" | "!cute.ptr" | "!cute_nvgpu.tma_atom":
                arguments.append(f"{use}: {kind}")
            case "!cute.int" if "?" in kind:
                lines.append(f"{use} = cute.thread_idx<0>()")
            case "!cute.coord" if "?" in kind:
                lines.append(f"%t{number} = cute.thread_idx<0>()")
                lines.append(f"{use} = cute.make_coord(%t{number}) -> {kind}")
            case _:
                lines.append(f"{use} = cute.static() -> {kind}")
    parameters = f"<{statics}>" if statics else ""
    call = f"{name}{parameters}({', '.join(uses)}){f' -> {result}' if result else ''}"
    lines.append(f"%r = {call}" if result else call)
    return "\n".join(
        [f"cute.func @k({', '.join(arguments)}) threads 256 {{", *lines, "cute.return\n}"]
    )


def identity(case: tuple[str, ...]) -> str:
    """The operation and what is said."""
    return "-".join((case[0].partition(".")[2], *case[4:]))


@pytest.mark.parametrize("bad", BAD, ids=identity)
def test_says_what_is_wrong_and_where(bad: tuple[str, ...]) -> None:
    """The message names the operation, and the place is its line."""
    text = program(*bad[:4])
    with pytest.raises(BytecodeError) as raised:
        parse_text(text, "bad.mlir")
    assert bad[4] in raised.value.message
    assert f"'{bad[0]}' op" in raised.value.message
    place = raised.value.location
    assert place is not None
    assert bad[0] in text.splitlines()[place.line - 1]


@pytest.mark.parametrize("good", EXAMPLES, ids=identity)
def test_accepts_the_example(good: tuple[str, ...]) -> None:
    """In the same kernel; its text says the same again."""
    printed = print_stage(parse_text(program(*good)))
    assert good[0] in printed
    assert print_stage(parse_text(printed)) == printed


def test_every_operation_is_rejected_somehow() -> None:
    """None is accepted whatever it gets."""
    assert {op.name for op in OPERATIONS} == {bad[0] for bad in BAD}


@pytest.mark.parametrize(("parameters", "message"), TYPES)
def test_boxes_that_tma_does_not_move(parameters: str, message: str) -> None:
    """The type says so where it is read."""
    good = f"cute.func @k(%t: {TMA}) threads 32 {{\ncute.return\n}}"
    parse_text(good)
    with pytest.raises(BytecodeError) as raised:
        parse_text(good.replace(TMA, f"!cute_nvgpu.tma_atom<{parameters}>"))
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == 1
