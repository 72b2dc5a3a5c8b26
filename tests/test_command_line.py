"""The table of options: the quick parser and click agree on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras.command_line import (
    DISASSEMBLER_OPTIONS,
    INPUT,
    Option,
    compiler_options,
    parse_quickly,
    parse_with_click,
)

OPTIONS = compiler_options(("sm_80", "sm_90"))


@pytest.mark.parametrize(
    ("argv", "values"),
    [
        (["a.bc"], {INPUT: ["a.bc"]}),
        (["-O3"], {"opt-level": ["3"]}),
        (["-O", "3"], {"opt-level": ["3"]}),
        (["-O=3"], {"opt-level": ["3"]}),
        (["--opt-level=3"], {"opt-level": ["3"]}),
        (["-opt-level", "3"], {"opt-level": ["3"]}),
        (["--gpu-name", "sm_90"], {"gpu-name": ["sm_90"]}),
        (["-gpu-name=sm_90"], {"gpu-name": ["sm_90"]}),
        (["--arch=sm_90"], {"gpu-name": ["sm_90"]}),
        (["-o", "x", "--o=y"], {"output-file": ["x", "y"]}),
        (["-o", "-"], {"output-file": ["-"]}),
        (["-g"], {"device-debug": ["true"]}),
        (["--lineinfo=true"], {"lineinfo": ["true"]}),
        (["--lineinfo=0"], {"lineinfo": ["false"]}),
        (["--", "-odd-name"], {INPUT: ["-odd-name"]}),
        (["-"], {INPUT: ["-"]}),
        (["-l", "a", "-l=b"], {"l": ["a", "b"]}),
    ],
)
def test_forms_that_are_understood(argv: list[str], values: dict[str, list[str]]) -> None:
    """Those of LLVM's command lines."""
    assert parse_quickly(argv, OPTIONS) == values


@pytest.mark.parametrize(
    "argv",
    [
        ["--bogus"],
        ["-gpu"],
        ["--gpu-name"],
        ["--lineinfo=maybe"],
        ["--emit=assembly"],
        ["a", "b"],
        ["--help"],
        ["-ox"],
    ],
)
def test_forms_that_are_left_to_click(argv: list[str]) -> None:
    """Help and mistakes."""
    assert parse_quickly(argv, OPTIONS) is None


def spellings(option: Option) -> st.SearchStrategy[list[str]]:
    """The ways to write an option that both parsers know."""
    names = [option.name, *option.aliases]
    dashed = [f"--{name}" for name in names if len(name) > 1] + [f"-{name}" for name in names]
    if not option.takes_value:
        return st.sampled_from([[name] for name in dashed])
    values = st.sampled_from(option.choices or ("x", "1", "a=b", "-", "a,b"))
    forms = st.sampled_from(dashed)
    joined = st.builds(
        lambda n, v: [f"{n}={v}"],
        st.sampled_from([name for name in dashed if len(name) > 2] or dashed),
        values,
    )
    return st.builds(lambda n, v: [n, v], forms, values) | joined


def command_lines(options: tuple[Option, ...]) -> st.SearchStrategy[list[str]]:
    """Correct command lines."""
    usable = [o for o in options if not o.name.startswith("help") and len(o.name) > 1]
    words = st.lists(st.sampled_from(usable).flatmap(spellings), max_size=6)
    inputs = st.sampled_from([[], ["in.bc"], ["-"]])
    return st.builds(lambda parts, last: [*sum(parts, []), *last], words, inputs)


@given(command_lines(OPTIONS))
def test_quick_parser_and_click_agree(argv: list[str]) -> None:
    """On every correct command line."""
    quick = parse_quickly(argv, OPTIONS)
    assert quick is not None
    slow = parse_with_click("tileiras", argv, OPTIONS, "")
    flags = {option.name for option in OPTIONS if not option.takes_value}
    assert {k: v[:1] if k in flags else v for k, v in quick.items()} == slow


@given(command_lines(DISASSEMBLER_OPTIONS))
def test_they_agree_for_the_disassembler(argv: list[str]) -> None:
    """The same code, another table."""
    quick = parse_quickly(argv, DISASSEMBLER_OPTIONS)
    assert quick is not None
    slow = parse_with_click("tileirdisasm", argv, DISASSEMBLER_OPTIONS, "")
    flags = {option.name for option in DISASSEMBLER_OPTIONS if not option.takes_value}
    assert {k: v[:1] if k in flags else v for k, v in quick.items()} == slow


@pytest.mark.parametrize("options", [OPTIONS, DISASSEMBLER_OPTIONS])
def test_no_name_is_used_twice(options: tuple[Option, ...]) -> None:
    """Names and aliases are unique."""
    names = [name for option in options for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))
