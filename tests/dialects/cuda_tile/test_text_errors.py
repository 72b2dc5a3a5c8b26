"""Mistakes in the text: each has its message and its place."""

from __future__ import annotations

import random

import pytest

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.text.lexer import ParseError
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.errors import SourceLocation

MISTAKES: tuple[tuple[str, str, int, int], ...] = (
    ("%0 = frobnicate : tile<i32>", "unknown operation 'frobnicate'", 2, 8),
    ("%0 = iota : tile<8xi32", "found '}', expected '>'", 3, 1),
    ("%0 = iota : tile<8xq32>", "unknown type 'q32'", 2, 22),
    ("%0 = negf %1 : tile<f32>", "value '%1' is not defined", 2, 13),
    (
        "%0 = iota : tile<8xi32>\n%0 = iota : tile<8xi32>",
        "value '%0' is defined twice",
        3,
        3,
    ),
    (
        "%0 = iota : tile<8xi32>\n%1 = negi %0 : tile<4xi32>",
        "use of value '%0' expects different type than prior uses: "
        "'!cuda_tile.tile<4xi32>' vs '!cuda_tile.tile<8xi32>'",
        3,
        13,
    ),
    (
        "%0:2 = get_tile_block_id : tile<i32>",
        "operation defines 3 results but was provided 2 to bind",
        2,
        3,
    ),
    (
        "%0:3 = get_tile_block_id : tile<i32>\n%1 = negi %0 : tile<i32>",
        "'%0' is 3 values, expected one such as #0",
        3,
        13,
    ),
    (
        "%0:3 = get_tile_block_id : tile<i32>\n%1 = negi %0#3 : tile<i32>",
        "'%0' has 3 values, not 4",
        3,
        13,
    ),
    ("%0 = constant <i32: 1.5> : tile<i32>", "found '1.5', expected an element", 2, 23),
    ("%0 = constant <f32: 1> : tile<f32>", "found integer 1, expected a float such as 1.0", 2, 23),
    ("%0 = constant <f4E2M1FN: 1.0e9> : tile<2xf4E2M1FN>", "1.0e9 does not fit f4E2M1FN", 2, 28),
    ("%0 = constant <i32: [1, [2]]> : tile<2xi32>", "lists of a constant differ in length", 2, 24),
    ('assert %v_i1, "open', "string does not end on its line", 3, 17),
    ("%0 = iota : tile<8xi32> loc(#nowhere)", "alias '#nowhere' is not defined", 2, 31),
    ("%0 = assume odd<3>, %0 : tile<i32>", "found 'odd', expected a predicate: div_by", 2, 15),
    (
        "%0 = cmpi above %0, %0, signed : tile<i32> -> tile<i1>",
        "found 'above', expected a comparison: equal, not_equal",
        2,
        13,
    ),
    ("if %x {", "value '%x' is not defined", 2, 6),
)


@pytest.mark.parametrize(("body", "message", "line", "column"), MISTAKES)
def test_mistake_has_message_and_place(body: str, message: str, line: int, column: int) -> None:
    """Line and column are those of the first wrong token."""
    with pytest.raises(ParseError) as caught:
        parse_module(kernel(body), "k.mlir")
    assert message in caught.value.message
    assert caught.value.location == SourceLocation("k.mlir", line, column)
    assert caught.value.exit_code == 3


TOP_LEVEL: tuple[tuple[str, str], ...] = (
    ("%0 = iota : tile<8xi32>", "found '%0', expected a module, an entry or a global"),
    ("entry @k() {", "found the end of the text, expected '}'"),
    ('entry @"k() {}', "string does not end on its line"),
    ("entry k() {}", "found 'k', expected the name of an entry"),
    ("#a = #b\n#b = #a\nentry @k() {\n}", "is defined by itself"),
    ('#a = #cuda_tile.di_file<"f">\nentry @k() {\n}', "found '>', expected 'in'"),
    (
        "#a = #cuda_tile.di_compile_unit<fiel = 3>\nentry @k() {\n}",
        "#cuda_tile.di_compile_unit has no field 'file'",
    ),
    (
        "cuda_tile.module @m {\n}\nentry @k() {\n}",
        "entries and globals stand beside a module",
    ),
    ('"cuda_tile.iota"() : () -> tile<8xi32>', "expected a module, an entry or a global"),
    ('"cuda_tile.nothing"() : () -> ()', "unknown operation 'cuda_tile.nothing'"),
    ('"cuda_tile.module"() : () -> ()', "has no value for its property 'sym_name'"),
    ('"cuda_tile.module"() <{sym_name = "m", color = "red"}> ({}) : () -> ()', "no property"),
)


@pytest.mark.parametrize(("text", "message"), TOP_LEVEL)
def test_mistake_outside_of_entries(text: str, message: str) -> None:
    """Modules, aliases, generic operations."""
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert message in caught.value.message
    assert caught.value.location is not None


@pytest.mark.parametrize(
    "text",
    [
        "if %v_i1 {\n" * 2000,
        "%0 = constant <i32: " + "[" * 5000,
        "%0 = iota : tile<8xi32> loc(" + "callsite(" * 5000,
        "%0 = iota : " + "tile<ptr<" * 5000,
    ],
    ids=["regions", "constants", "locations", "types"],
)
def test_deep_nesting_is_a_mistake(text: str) -> None:
    """And never exhausts Python's stack."""
    with pytest.raises(ParseError):
        parse_module(kernel(text))


def test_broken_text_is_never_a_crash() -> None:
    """Any text either parses or is a ParseError."""
    source = kernel(
        "%r = for %k in (%v_i32 to %v_i32, step %v_i32) : tile<i32> iter_values(%s = %v_f32) -> "
        "(tile<f32>) {\ncontinue %s : tile<f32>\n}\n"
        "%t, %u = load_view_tko weak %pv[%v_i32, %v_i32] token = %tok : "
        "partition_view<tile=(4x8), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> "
        "-> tile<4x8xf32>, token"
    )
    random_numbers = random.Random(7)
    for _ in range(400):
        text = list(source)
        for _ in range(random_numbers.randint(1, 4)):
            position = random_numbers.randrange(len(text))
            match random_numbers.randrange(3):
                case 0:
                    text[position] = random_numbers.choice('%#@<>{}()[]:=,"x0-!^ \n')
                case 1:
                    del text[position : position + random_numbers.randint(1, 12)]
                case _:
                    text.insert(position, random_numbers.choice(["tile<", "loc(", "0x", "%0", "?"]))
        try:
            parse_module("".join(text))
        except ParseError as error:
            assert error.location is not None


def test_nests_as_deep_as_bytecode_may() -> None:
    """120 regions; both forms, verified and printed."""
    depth = 120
    body = "if %c {\n" * depth + '%0 = print_tko "deep" -> token\n' + "}\n" * depth
    module = parse_module(kernel(body, "%c: tile<i1>"))
    verify_module(module)
    for generic in (False, True):
        text = print_module(module, generic=generic)
        assert print_module(parse_module(text), generic=generic) == text
