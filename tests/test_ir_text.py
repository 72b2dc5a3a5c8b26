"""Which syntax a text is read in, and mistakes in the text of later stages."""

from __future__ import annotations

import pytest

from tileiras.errors import BytecodeError, SourceLocation
from tileiras.ir_text import parse_text

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
