"""Every row operation: what it infers, its texts, its folder and its rule in the interpreter."""

from __future__ import annotations

from types import ModuleType

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tests.kernels.cute_nvgpu_operations import EXAMPLES as NVGPU_EXAMPLES
from tests.kernels.cute_operations import EXAMPLES as CUTE_EXAMPLES
from tests.kernels.cutlass_operations import EXAMPLES as CUTLASS_EXAMPLES
from tileiras.codegen.cute import lowering
from tileiras.dialects.assembly.reading import read_module
from tileiras.dialects.cute import dialect as cute
from tileiras.dialects.cute.operation import CuteOp, PureCuteOp, value_of_type
from tileiras.dialects.cute.text import print_module
from tileiras.dialects.cute.values import is_static
from tileiras.dialects.cute_nvgpu import dialect as cute_nvgpu
from tileiras.dialects.cutlass import dialect as cutlass
from tileiras.interpreter import cute as interpreter
from tileiras.interpreter.cute_instructions import GROUP_RULES, RULES
from tileiras.interpreter.cutlass import CUTLASS_RULES
from tileiras.ir_text import parse_text, register_dialects
from tileiras.options import TextStyle
from tileiras.stages import print_stage

EXAMPLES = (*CUTE_EXAMPLES, *NVGPU_EXAMPLES, *CUTLASS_EXAMPLES)
LEAST_OPERATIONS = {"cute": 85, "cute_nvgpu": 30, "cutlass": 20}


def program(name: str, operands: str, result: str, statics: str, types: bool = True) -> str:
    """One operation, and the values that it needs, as generic operations that nobody checks.

    An operation of another dialect has a name with a dot.
    """
    full = name if "." in name else f"cute.{name}"
    kinds = operands.split("|") if operands else []
    lines = [f'  %{number} = "test.value"() : () -> {kind}' for number, kind in enumerate(kinds)]
    uses = ", ".join(f"%{number}" for number in range(len(kinds)))
    left = "%r = " if result else ""
    right = f" : ({', '.join(kinds)}) -> {result or '()'}" if types else ""
    parameters = f"<{statics}>" if statics else ""
    lines.append(f"  {left}{full}{parameters}({uses}){right}")
    return "\n".join(["builtin.module {", *lines, "}"])


def parsed(text: str) -> tuple[ModuleOp, CuteOp]:
    """The module and its operation of the dialect."""
    context = Context(allow_unregistered=True)
    register_dialects(context)
    module = read_module(context, text, "t.mlir").module
    op = next(op for op in module.walk() if isinstance(op, CuteOp))
    return module, op


def identity(example: tuple[str, ...]) -> str:
    """The name of a test."""
    return f"{example[0]}-{EXAMPLES.index(example)}"


@pytest.mark.parametrize("example", EXAMPLES, ids=identity)
class TestEveryOperation:
    """On its example."""

    def test_infers_the_type_of_its_result(self, example: tuple[str, ...]) -> None:
        """And accepts what it infers."""
        _, op = parsed(program(*example))
        op.verify()
        inferred = op.inferred()
        assert str(inferred or "") == str(op.outputs[0].type if op.outputs else "")

    def test_rejects_another_result(self, example: tuple[str, ...]) -> None:
        """A swizzle is the result of nearly none."""
        wrong = "!cute.swizzle<S<2,5,2>>"
        _, op = parsed(program(example[0], example[1], wrong, example[3]))
        if example[0] == "static":
            op.verify()
            return
        with pytest.raises(VerifyException, match=r"result is|has 1 results, expected 0"):
            op.verify()

    def test_its_text_is_read_again(self, example: tuple[str, ...]) -> None:
        """In custom and in generic form."""
        module, _ = parsed(program(*example))
        for generic in (False, True):
            text = print_module(module, generic=generic)
            again, _ = parsed(text)
            assert print_module(again) == print_module(module)

    def test_types_that_follow_may_be_left_out(self, example: tuple[str, ...]) -> None:
        """Unless the result is the user's to say."""
        _, full = parsed(program(*example))
        text = program(*example, types=False)
        if full.GIVEN:
            with pytest.raises(Exception, match="needs the type of its result"):
                parsed(text)
            return
        _, op = parsed(text)
        assert [value.type for value in op.outputs] == [value.type for value in full.outputs]

    def test_folds_where_all_is_known(self, example: tuple[str, ...]) -> None:
        """The fold is the type; the interpreter's rule gives its value."""
        _, op = parsed(program(*example))
        folded = op.folded()
        if not op.outputs or not is_static(value_of_type(op.outputs[0].type)):
            assert folded is None
            return
        assert folded == op.outputs[0].type
        value = op.apply([value_of_type(operand.type) for operand in op.inputs])
        if not op.GIVEN:
            assert op.type_of(value) == folded


def test_every_operation_has_an_example() -> None:
    """So that none goes untested."""
    every = (*cute.OPERATIONS, *cute_nvgpu.OPERATIONS, *cutlass.OPERATIONS)
    rows = {op.name.removeprefix("cute.") for op in every if issubclass(op, CuteOp)}
    assert rows == {example[0] for example in EXAMPLES}


SAME = {"cute_nvgpu.make_exec_tma"}
"""Whose result is its operand for the interpreter: their function says it."""


def test_every_operation_with_effects_is_interpreted() -> None:
    """By a rule of its own; the others are functions of the algebra, which it calls."""
    prefix = "cute_nvgpu."
    rules = {
        *interpreter.EFFECTS,
        *interpreter.ALLOCATIONS,
        *interpreter.BARRIER_WAITS,
        *CUTLASS_RULES,
        *(prefix + name for name in (*RULES, *GROUP_RULES)),
        *(interpreter.CLUSTER_WAIT, interpreter.INIT_WAIT, interpreter.SCALED_PRODUCT),
        "cute.sync_threads",
    }
    every = (*cute.OPERATIONS, *cute_nvgpu.OPERATIONS, *cutlass.OPERATIONS)
    effects = {op.name for op in every if issubclass(op, CuteOp) and not issubclass(op, PureCuteOp)}
    assert effects - rules == SAME


def test_every_operation_with_effects_is_compiled() -> None:
    """By a rule of its own, or as memory."""
    every = (*cute.OPERATIONS, *cute_nvgpu.OPERATIONS, *cutlass.OPERATIONS)
    left = {
        op.name.removeprefix("cute.")
        for op in every
        if issubclass(op, CuteOp) and not issubclass(op, PureCuteOp)
    }
    left -= {*lowering.RULES, *lowering.EFFECTS, *lowering.REGISTERS}
    fragments = {name for name in left if name.startswith("make_fragment")}
    assert left - fragments == {"alloc", "sync_threads"}


def test_every_operation_says_its_equation() -> None:
    """In its docstring, between backticks."""
    for op in (*cute.OPERATIONS, *cute_nvgpu.OPERATIONS, *cutlass.OPERATIONS):
        assert op.__doc__ and op.__doc__.count("`") >= 2, op.name


@pytest.mark.parametrize("dialect", [cute, cute_nvgpu, cutlass], ids=list(LEAST_OPERATIONS))
def test_the_dialects_have_the_published_operations(dialect: ModuleType) -> None:
    """At least as many, each once."""
    names = [op.name for op in dialect.OPERATIONS]
    prefix = names[0].partition(".")[0]
    assert len(names) == len(set(names)) >= LEAST_OPERATIONS[prefix]
    assert all(chapter.__doc__ for chapter in dialect.CHAPTERS)


def test_text_of_the_stage_is_printed_as_read() -> None:
    """`parse_text` and `print_stage`, with locations only where they are asked for."""
    text = "cute.func @k() threads 32 {\n  cute.sync_threads()\n  cute.return\n}"
    module = parse_text(text, "k.mlir")
    printed = print_stage(module)
    assert printed == print_stage(parse_text(printed))
    assert "loc(" not in printed
    assert '"k.mlir":2:3' in print_stage(module, style=TextStyle(locations="loc"))


def test_quotes_of_other_printers_are_read() -> None:
    """`!cute.layout<"(4,8):(8,1)">` is `!cute.layout<(4,8),(8,1)>`."""
    context = Context()
    register_dialects(context)
    kinds = [
        Parser(context, text).parse_type()
        for text in ('!cute.layout<"(4,8):(8,1)">', "!cute.layout<(4,8),(8,1)>")
    ]
    assert kinds[0] == kinds[1]
