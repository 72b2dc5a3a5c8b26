"""Which syntax a text is read in, and mistakes in the text of later stages."""

from __future__ import annotations

import time

import pytest

from tileiras.dialects.dominance import check_dominance
from tileiras.dialects.locations import place_of
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError, SourceLocation
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

EMPTY_KERNEL = """builtin.module {
  "llvm.func"() <{sym_name = "k", kernel}> ({
    "llvm.return"() : () -> ()
  }) : () -> ()
}
"""


def test_later_stages_are_read_by_xdsl() -> None:
    """In generic form."""
    assert [op.name for op in parse_text(EMPTY_KERNEL).ops] == ["llvm.func"]


def test_comment_does_not_decide_the_syntax() -> None:
    """A comment may show what becomes of a kernel."""
    module = parse_text('entry @k() {\n  // "llvm.return"()\n  return\n}\n')
    assert [op.name for op in module.ops] == ["cuda_tile.module"]


def test_string_does_not_decide_the_syntax() -> None:
    """Nor does a printed message."""
    text = 'entry @k() {\n  %0 = print_tko "llvm.func" -> token\n  return\n}\n'
    assert [op.name for op in parse_text(text).ops] == ["cuda_tile.module"]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (EMPTY_KERNEL.replace("llvm.return", "llvm.retrun"), 3),
        (EMPTY_KERNEL.replace("kernel}>", "kernel>"), 2),
    ],
)
def test_mistake_in_a_later_stage_has_its_place(wrong: str, line: int) -> None:
    """As a BytecodeError, like any unreadable input."""
    with pytest.raises(BytecodeError) as caught:
        parse_text(wrong, "k.mlir")
    assert isinstance(caught.value.location, SourceLocation)
    assert (caught.value.location.filename, caught.value.location.line) == ("k.mlir", line)


def test_invalid_attribute_in_a_later_stage_is_the_users_fault() -> None:
    """xDSL raises its verifier's exception there, which must not look like our bug."""
    value = '#cuda_tile.dense<!cuda_tile.tile<#cuda_tile.ints<[2]>, i32>, "010203">'
    text = f'"nv_tileaa.constant"() <{{value = {value}}}> : () -> i32\n'
    with pytest.raises(BytecodeError):
        parse_text(text, "k.mlir")


LLVM = CompileOptions(gpu_name="sm_90", emit="ptx")


def refusal(text: str) -> BytecodeError:
    """The located error of a text of a later stage; fails if it takes long."""
    start = time.perf_counter()
    with pytest.raises(BytecodeError) as caught:
        compile_module(text.encode(), LLVM, "k.mlir")
    assert time.perf_counter() - start < 5
    assert caught.value.location is not None
    assert len(caught.value.message) < 300
    return caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"llvm.func"() <{sym_name = "' + "a" * 60, "string does not end"),
        ('"llvm.func"() <{sym_name = "' + "\\\\" * 30000 + "\n}>", "string does not end"),
        ('"llvm.func"() <{sym_name = "a\\q' + "a" * 60 + '"}>', "unknown escape"),
        ('"llvm.func"() <{sym_name = "a\x0bb' + "a" * 60 + '"}>', "string does not end"),
        ('"llvm.func"() <{a = ' + "9" * 5000 + "}>", "number has 5000 digits"),
        ('"llvm.func"() : () -> i' + "9" * 5000, ""),
        ('"llvm.func"() <{a = ' + "[" * 5000, "nested too deeply"),
        ('"llvm.func"() ({\n' * 5000, "nested too deeply"),
        ('"llvm.func"() : () -> ' + "vector<4x" * 300, ""),
        ('"builtin.module"() ({\n^a:\n"llvm.x"() : () -> ()\n^b:\n}) : () -> ()', ""),
        ('"builtin.module"() ({\n^a:\n^b:\n}) : () -> () // "llvm.x"(', ""),
        ('"nv_tileaa.func"() : () -> ()', "expected 1 region, but got 0"),
        ('"nv_tileas.convert_layout"() {l = #nv_tileas.layout<"x">} : () -> ()', "expected"),
        ('"llvm.alloca"() <{size = 4 : i32}> : () -> ()', ""),
        ('"llvm.x"() {a = dense<[1, 2]> : vector<3xi32>} : () -> ()', ""),
        ('"llvm.x"() {a = #llvm.bytes<"zz">} : () -> ()', ""),
        ('"nv_tileaa.x"() : () -> ()\n"cuda_tile.make_token"() : () -> i32', ""),
    ],
)
def test_text_of_a_later_stage_that_xdsl_cannot_take(text: str, message: str) -> None:
    """Quick, with a place, and the user's fault."""
    assert message.lower() in refusal(text).message.lower()


def test_modules_are_one_block() -> None:
    """Also inside of others."""
    text = '"builtin.module"() ({\n^a:\n"llvm.func"() : () -> ()\n^b:\n}) : () -> ()\n'
    with pytest.raises(BytecodeError, match="module has 2 blocks, expected 1"):
        parse_text(text, "k.mlir")


KERNEL = """"llvm.func"() <{{sym_name = "k", kernel}}> ({{
  {first}
  {second}
  "llvm.return"() : () -> ()
}}) : () -> ()
"""
DEFINED = '%0 = "llvm.undef"() : () -> i32'
USED = '%1 = "llvm.add"(%0, %0) : (i32, i32) -> i32'


def test_use_before_definition() -> None:
    """xDSL's verifier does not ask, and the passes rely on it."""
    parsed = parse_text(KERNEL.format(first=DEFINED, second=USED))
    check_dominance(parsed)
    message = refusal(KERNEL.format(first=USED, second=DEFINED)).message
    assert message == "'llvm.add' op operand #0 is used before it is defined"


def test_use_in_a_block_that_the_definition_does_not_lead_to() -> None:
    """Both ways of a branch lead to the last block, one of them past the definition."""
    text = """"llvm.func"() <{{sym_name = "k", kernel}}> ({{
  %c = "llvm.undef"() : () -> i1
  {above}
  "llvm.cond_br"(%c)[^a, ^b] <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (i1) -> ()
^a:
  {inside}
  "llvm.br"()[^b] : () -> ()
^b:
  %1 = "llvm.add"(%0, %0) : (i32, i32) -> i32
  "llvm.return"() : () -> ()
}}) : () -> ()
"""
    check_dominance(parse_text(text.format(above=DEFINED, inside="")))
    with pytest.raises(BytecodeError, match="operand #0 is used before it is defined"):
        check_dominance(parse_text(text.format(above="", inside=DEFINED)))


def test_operations_of_later_stages_have_the_places_of_their_text() -> None:
    """Unless they state others."""
    text = KERNEL.format(first=DEFINED, second=USED + ' loc("u.py":7:8)')
    places = {op.name: place_of(op) for op in parse_text(text, "k.mlir").walk()}
    assert places["llvm.undef"] == SourceLocation("k.mlir", 2, 3)
    assert places["llvm.add"] == SourceLocation("u.py", 7, 8)


def test_quoted_name_does_not_decide_the_syntax() -> None:
    """Of an entry."""
    module = parse_text('entry @"llvm.foo"() {\n}\n')
    assert [op.name for op in module.ops] == ["cuda_tile.module"]
