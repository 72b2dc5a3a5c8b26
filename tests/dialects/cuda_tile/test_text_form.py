"""The custom text form: exact spelling, names of values, and reading back what was printed."""

from __future__ import annotations

import pytest

from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import kernel, verified
from tileiras.dialects.cuda_tile.text import parse_module, print_module

CHAPTERS = (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
BODIES = [
    pytest.param(body, id=f"{op}-{index}")
    for chapter in CHAPTERS
    for op, bodies in chapter.ACCEPTED.items()
    for index, body in enumerate(bodies)
]
TEXTS = [
    *(pytest.param(kernel(body.values[0]), id=body.id) for body in BODIES),
    *cases_control_flow.ACCEPTED_MODULES,
]


@pytest.mark.parametrize("debug_info", [False, True], ids=["plain", "located"])
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("text", TEXTS)
def test_reads_back_what_it_prints(text: str, generic: bool, debug_info: bool) -> None:
    """Every operation, in both forms, with and without locations."""
    module = verified(text)
    printed = print_module(module, generic=generic, debug_info=debug_info)
    again = parse_module(printed)
    assert module.is_structurally_equivalent(again)
    if generic or not debug_info:
        # with locations, those of the terminators that are left out are lost
        assert print_module(again, generic=generic, debug_info=debug_info) == printed


def body_of(text: str) -> str:
    """What is printed for the entry of a text, without the entry's own lines."""
    lines = print_module(parse_module(text)).splitlines()
    return "\n".join(line.strip() for line in lines[1:-2])


def test_prints_arithmetic_as_the_vendor_does() -> None:
    """Double spaces where a directive prints nothing; defaults left out."""
    printed = body_of(
        kernel(
            "%a = addf %v_f32, %v_f32 rounding<nearest_even> : tile<f32>\n"
            "%b = divf %a, %a rounding<approx> flush_to_zero : tile<f32>\n"
            "%c = ftoi %b signed rounding<nearest_int_to_zero> : tile<f32> -> tile<i32>\n"
            "%d = divi %c, %c unsigned rounding<positive_inf> : tile<i32>"
        )
    )
    assert printed == (
        "%cst_1_f32 = constant <f32: 1.000000e+00> : tile<f32>\n"
        "%0 = addf %cst_1_f32, %cst_1_f32  : tile<f32>\n"
        "%1 = divf %0, %0 rounding<approx> flush_to_zero : tile<f32>\n"
        "%2 = ftoi %1 signed  : tile<f32> -> tile<i32>\n"
        "%3 = divi %2, %2 unsigned rounding<positive_inf> : tile<i32>"
    )


def test_prints_loops_and_reductions_as_the_vendor_does() -> None:
    """Names of arguments, implicit terminators, the body of a reduction on its own line."""
    text = kernel(
        "%r = for %k in (%v_i32 to %v_i32, step %v_i32) : tile<i32> "
        "iter_values(%s = %v_f32) -> (tile<f32>) {\n"
        "if %v_i1 {\n} else {\n}\n"
        "%q = reduce %v_8_f32 dim=0 identities=[0xFF800000 : f32] : tile<8xf32> -> tile<f32> "
        "(%x: tile<f32>, %y: tile<f32>) {\n%m = maxf %x, %y : tile<f32>\nyield %m : tile<f32>\n}\n"
        "continue %q : tile<f32>\n}"
    )
    printed = print_module(parse_module(text)).split("tile<i1>\n", 1)[1]
    assert printed == (
        "  %cst_1_f32_0 = constant <f32: 1.000000e+00> : tile<8xf32>\n"
        "  %for = for %loopIdx in (%cst_1_i32 to %cst_1_i32, step %cst_1_i32) : tile<i32> "
        "iter_values(%iterArg0 = %cst_1_f32) -> (tile<f32>) {\n"
        "    if %true {\n"
        "    } else {\n"
        "    }\n"
        "    %reduce = reduce %cst_1_f32_0 dim=0 identities=[0xFF800000 : f32] "
        ": tile<8xf32> -> tile<f32> \n"
        "    (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {\n"
        "      %0 = maxf %reduce_lhs, %reduce_rhs : tile<f32>\n"
        "      yield %0 : tile<f32>\n"
        "    }\n"
        "    continue %reduce : tile<f32>\n"
        "  }\n"
        "  return\n"
        "}\n"
    )


def test_names_come_from_operations() -> None:
    """Declared names, names of constants, and the chain of assumptions."""
    printed = body_of(
        kernel(
            "%a:3 = get_tile_block_id : tile<i32>\n"
            "%b = assume div_by<2>, %a#1 : tile<i32>\n"
            "%c = assume bounded<0, ?>, %b : tile<i32>\n"
            "%d = constant <i32: -7> : tile<i32>\n"
            "%e = constant <f32: [1.0, 2.0]> : tile<2xf32>\n"
            "%f = constant <f32: 0.5> : tile<f32>\n"
            "%g = constant <i1: false> : tile<i1>\n"
            "%h = constant <f16: 0x7E00> : tile<f16>"
        )
    )
    assert [line.split(" = ")[0] for line in printed.splitlines()] == [
        "%blockId_x, %blockId_y, %blockId_z",
        "%assume_blockId_y",
        "%assume_assume_blockId_y",
        "%cst_-7_i32",
        "%cst_f32",
        "%cst_f32_0",
        "%false",
        "%cst_NaN_f16",
    ]


def test_clashing_names_are_numbered_by_one_counter() -> None:
    """Also across names, and nested regions go on where the outer block ended."""
    printed = body_of(
        kernel(
            "%a = reshape %v_f32 : tile<f32> -> tile<1xf32>\n"
            "%b = reshape %v_f32 : tile<f32> -> tile<1x1xf32>\n"
            "if %v_i1 {\n%c = reshape %v_f32 : tile<f32> -> tile<1xf32>\n"
            "%d = negf %c : tile<1xf32>\n}\n"
            "%e = constant <f32: 1.0> : tile<f32>\n"
            "%f = negf %e : tile<f32>"
        )
    )
    names = [line.split(" = ")[0] for line in printed.splitlines() if " = " in line]
    assert names == [
        "%cst_1_f32",
        "%true",
        "%reshape",
        "%reshape_0",
        "%reshape_2",
        "%1",
        "%cst_1_f32_1",
        "%0",
    ]


def test_long_constants_are_bytes() -> None:
    """More than a hundred elements print as hexadecimal, and are read back."""
    numbers = ", ".join(str(number % 7) for number in range(128))
    module = parse_module(kernel(f"%0 = constant <i8: [{numbers}]> : tile<128xi8>"))
    printed = print_module(module)
    assert '<i8: "0x000102030405060001' in printed
    assert parse_module(printed).is_structurally_equivalent(module)


def test_equal_elements_print_as_a_splat() -> None:
    """However they are stored."""
    module = parse_module(kernel("%0 = constant <i8: [[3, 3], [3, 3]]> : tile<2x2xi8>"))
    assert "%cst_3_i8 = constant <i8: 3> : tile<2x2xi8>" in print_module(module)


def test_hints_are_sorted_and_read_back() -> None:
    """By the architecture's name, as MLIR sorts dictionaries."""
    hints = "<sm_90 = {occupancy = 2}, default = {num_cta_in_cga = 1}>"
    text = f"entry @k() optimization_hints={hints} {{\n}}"
    first = print_module(parse_module(text)).splitlines()[0]
    assert first == (
        "entry @k() optimization_hints=<default = {num_cta_in_cga = 1}, sm_90 = {occupancy = 2}> {"
    )


def test_prefixes_are_optional() -> None:
    """Operations and types, at every level of nesting."""
    plain = "entry @k(%a: tile<ptr<f32>>) {\n%0 = assume div_by<4>, %a : tile<ptr<f32>>\n}\n"
    pointer = "!cuda_tile.tile<!cuda_tile.ptr<f32>>"
    prefixed = (
        f"cuda_tile.module @kernels {{\ncuda_tile.entry @k(%a: {pointer}) {{\n"
        f"%0 = cuda_tile.assume #cuda_tile.div_by<4>, %a : {pointer}\n}}\n}}\n"
    )
    assert parse_module(plain).is_structurally_equivalent(parse_module(prefixed))


def test_producer_is_a_comment() -> None:
    """Where no module is printed; and it is read back."""
    text = 'cuda_tile.module @kernels attributes {producer = "me"} {\n  entry @k() {\n  }\n}\n'
    printed = print_module(parse_module(text))
    assert printed.splitlines()[0] == "// Producer: me"
    assert parse_module(printed).is_structurally_equivalent(parse_module(text))


def test_empty_module_is_an_empty_line() -> None:
    """As the vendor prints it, with the location of the module that is not there."""
    module = parse_module("cuda_tile.module @kernels {\n}\n")
    assert print_module(module) == "\n"
    assert print_module(module, debug_info=True) == "\n#loc = loc(unknown)\n"
    assert parse_module("\n").is_structurally_equivalent(module)


def test_named_module_keeps_its_name() -> None:
    """Only the bytecode reader's own name is left out."""
    text = "cuda_tile.module @mine {\n  entry @k() {\n    return\n  }\n}\n"
    assert print_module(parse_module(text)) == text


def test_symbols_are_quoted_where_they_must_be() -> None:
    """Names that are no identifiers."""
    printed = print_module(parse_module('entry @"two words"() {\n}\nentry @a.b$c() {\n}\n'))
    assert 'entry @"two words"() {' in printed
    assert "entry @a.b$c() {" in printed


def test_strings_are_escaped() -> None:
    """Quotes, backslashes and what is not printable."""
    body = '%0 = print_tko "a\\"b\\\\c\\0A\\C3\\A9" -> token'
    printed = print_module(parse_module(kernel(body)))
    assert 'print_tko "a\\22b\\\\c\\0A\\C3\\A9" -> token' in printed
