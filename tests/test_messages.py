"""What a user sees of mistakes in text: all of them, their lines, and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.cli import run
from tileiras.errors import SourceLocation, TileirasError, joined
from tileiras.excerpts import WIDTH, excerpt, shortened, shown_input
from tileiras.suggestions import did_you_mean, edit_distance, nearest


def said(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr for a text that is refused as input."""
    path = tmp_path / "k.mlir"
    path.write_text(text)
    assert run([str(path), "--emit=cuda_tile", "-o", "-"]) == 3
    return capsys.readouterr().err.replace(f"{path}", "k.mlir").splitlines()


def entry(*lines: str) -> str:
    """An entry with a scalar %a and a vector %v."""
    body = "".join(f"  {line}\n" for line in ("%v = iota : tile<8xi32>", *lines))
    return f"entry @k(%a: tile<f32>) {{\n{body}}}\n"


NINE_MISTAKES: tuple[tuple[str, str, str], ...] = (
    ("%0 = addff %a, %a : tile<f32>", "unknown operation 'addff'", "did you mean 'addf'?"),
    ("%0 = negf %aa : tile<f32>", "value '%aa' is not defined", "did you mean '%a'?"),
    ("%0 = addi %v, : tile<8xi32>", "found ':', expected a value", "an operand is missing here"),
    (
        "%0 = cmpi equall %v, %v, signed : tile<8xi32> -> tile<8xi1>",
        "found 'equall', expected a comparison: equal,",
        "did you mean 'equal'?",
    ),
    (
        "%0 = addf %a, %a rounding<zeroo> : tile<f32>",
        "found 'zeroo', expected a rounding mode: nearest_even, zero,",
        "did you mean 'zero'?",
    ),
    ("%0 = iota : tille<8xi32>", "unknown type 'tille'", "did you mean 'tile'?"),
    ('assert %a, "open', "string does not end on its line", ""),
    ("%0, %1 = negf %a : tile<f32>", "operation defines 1 result but was provided 2 to bind", ""),
    ("%0 = negf %a : tile<f32> loc(#where)", "alias '#where' is not defined", ""),
)


@pytest.mark.parametrize(("line", "message", "label"), NINE_MISTAKES)
def test_mistake_is_shown_in_its_line(
    line: str, message: str, label: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First as clients parse it, then the line, then carets with what was probably meant."""
    first, source, carets, *_ = said(entry(line), tmp_path, capsys)
    assert first.startswith('loc("k.mlir":3:') and f"error: {message}" in first
    assert source == f"  3 |   {line}"
    column = int(first.split(":")[2].rstrip(")"))
    assert carets.index("^") == len("  3 | ") + column - 1
    assert carets.partition("^ ")[2] == label


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("int32", "i32"),
        ("uint8", "i8"),
        ("s64", "i64"),
        ("bool", "i1"),
        ("float32", "f32"),
        ("fp16", "f16"),
        ("double", "f64"),
        ("bfloat16", "bf16"),
        ("e4m3", "f8E4M3FN"),
        ("f8e4m3fn", "f8E4M3FN"),
    ],
)
def test_names_of_types_elsewhere_are_known(
    given: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(entry(f"%0 = iota : tile<8x{given}>"), tmp_path, capsys)
    assert lines[0].endswith(f"error: unknown type '{given}'")
    assert lines[2].endswith(f"^ did you mean '{meant}'?")


@pytest.mark.parametrize("given", ["complex", "quad", "index64"])
def test_a_type_that_nothing_resembles_has_no_suggestion(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean" not in "".join(
        said(entry(f"%0 = iota : tile<8x{given}>"), tmp_path, capsys)
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("entry @k() {\n  return\n", "1:12"),
        ("cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n", "1:21"),
        ('"cuda_tile.module"() <{sym_name = "m"}> ({\n', "1:42"),
    ],
)
def test_bracket_that_is_not_closed_is_shown(
    text: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end of the text alone would help nobody."""
    lines = said(text, tmp_path, capsys)
    assert lines[0].endswith("error: found the end of the text, expected '}'")
    line = place.split(":")[0]
    assert f"loc(\"k.mlir\":{place}): note: this '{{' is not closed" in lines
    assert f"  {line} | {text.splitlines()[int(line) - 1]}" in lines


def test_all_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the text; what only follows from another is not."""
    lines = said(
        entry(
            "%0 = addff %a, %a : tile<f32>",
            "%1 = negf %0 : tile<f32>",
            "%2 = negf %1 : tile<f32>",
            "%3 = iota : tile<8xq32>",
            "%4 = negf %nobody : tile<f32>",
        ),
        tmp_path,
        capsys,
    )
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    assert errors == [
        "unknown operation 'addff'",
        "unknown type 'q32'",
        "value '%nobody' is not defined",
        "input is not valid Tile IR text: 3 mistakes",
    ]


def test_mistakes_inside_and_after_regions_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in the entries that follow."""
    text = (
        "entry @a(%c: tile<i1>) {\n  if %c {\n    %0 = nope %c : tile<i1>\n  }\n"
        "  %1 = nope2 %c : tile<i1>\n}\nentry @b(%x: tile<f23>) {\n  %y = negf %x : tile<f32>\n}\n"
        "entry @c(%x: tile<f32>) {\n  %y = nope3 %x : tile<f32>\n}\n"
    )
    lines = said(text, tmp_path, capsys)
    places = [line.split(":")[1] for line in lines if line.startswith("loc(")]
    assert places == ["3", "5", "7", "11"]


def test_all_operations_that_do_not_verify_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the text can be read."""
    lines = said(entry("%0 = absf %v : tile<8xi32>", "%1 = absi %a : tile<f32>"), tmp_path, capsys)
    assert [line for line in lines if line.startswith("loc(")] == [
        "loc(\"k.mlir\":3:3): error: 'cuda_tile.absf' op operand #0 must be tile of "
        "f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<8xi32>'",
        "loc(\"k.mlir\":4:3): error: 'cuda_tile.absi' op operand #0 must be tile of "
        "i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'",
    ]


def test_no_more_than_twenty_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of reading and of verifying."""
    for line in ("nope", "%{} = absf %v : tile<8xi32>"):
        lines = said(entry(*(line.format(i) for i in range(50))), tmp_path, capsys)
        assert lines[-1] == "error: input is not valid Tile IR text: 20 mistakes"


def test_note_says_where_the_value_was_defined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With that line, too."""
    lines = said(entry("%0 = negi %v : tile<4xi32>"), tmp_path, capsys)
    assert lines == [
        "loc(\"k.mlir\":3:13): error: use of value '%v' expects different type than prior uses: "
        "'!cuda_tile.tile<4xi32>' vs '!cuda_tile.tile<8xi32>'",
        "  3 |   %0 = negi %v : tile<4xi32>",
        "    |             ^^",
        "loc(\"k.mlir\":2:3): note: '%v' has type '!cuda_tile.tile<8xi32>' from here",
        "  2 |   %v = iota : tile<8xi32>",
        "    |   ^^",
        "error: input is not valid Tile IR text: 1 mistake",
    ]


def test_second_definition_names_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a value, and of a symbol."""
    lines = said(entry("%v = iota : tile<8xi32>"), tmp_path, capsys)
    assert "loc(\"k.mlir\":2:3): note: '%v' is defined here first" in lines
    lines = said("entry @k() {\n}\nentry @k() {\n}\n", tmp_path, capsys)
    assert 'loc("k.mlir":1:1): note: it is defined here first' in lines


def test_operation_outside_of_an_entry_is_told_with_its_own_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moving it into an entry would not make it right."""
    lines = said('%0 = "cuda_tile.iota"() : () -> tile<2x2xi32>\n', tmp_path, capsys)
    errors = [line.partition("error: ")[2] for line in lines if line.startswith("loc(")]
    assert errors == [
        "'cuda_tile.iota' op result has rank 2, expected 1",
        "found '%0', expected a module, an entry or a global",
    ]


def test_text_of_a_later_stage_is_shown_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What xDSL finds while reading, and what verification finds after it."""
    text = '"llvm.func"() <{sym_name = "k"}> ({\n  "llvm.retrun"() : () -> ()\n}) : () -> ()\n'
    lines = said(text, tmp_path, capsys)
    assert lines[1] == '  2 |   "llvm.retrun"() : () -> ()'
    lines = said('"nv_tileaa.func"() : () -> ()\n', tmp_path, capsys)
    assert lines[0].startswith('loc("k.mlir":1:1): error: ')
    assert lines[1:3] == ['  1 | "nv_tileaa.func"() : () -> ()', "    | " + "^" * 16]


def test_compile_errors_of_text_show_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The closing line is the one of compilations."""
    path = tmp_path / "k.mlir"
    path.write_text('entry @"a b"() {\n}\n')
    assert run([str(path), "--gpu-name=sm_90", "-o", "-"]) == 5
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        '  1 | entry @"a b"() {',
        "    | ^^^^^",
        "error: failed to compile Tile IR program",
    ]


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (["--gpu-nme=sm_90"], "note: did you mean '--gpu-name'?"),
        (["--gpu-name=sm_9o"], "note: did you mean 'sm_90'?"),
        (["--gpu-name=sm_90", "--emit=ptxx"], "note: did you mean 'ptx'?"),
        (["--gpu-name=sm_90", "--print-after=canonicalise"], "note: did you mean 'canonicalize'?"),
        (["--gpu-name=sm_90", "--disable-feature=tmaa"], "note: did you mean 'tma'?"),
    ],
)
def test_command_line_suggests_the_nearest(
    arguments: list[str], label: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options, their values, passes, features."""
    path = tmp_path / "k.mlir"
    path.write_text("entry @k() {\n}\n")
    assert run([str(path), *arguments, "-o", "-"]) in (1, 2)
    assert label in capsys.readouterr().err.splitlines()


def test_nearest_is_the_one_with_fewest_changes() -> None:
    """A swap counts once; another case is no change; far ones are not suggested."""
    assert edit_distance("adfd", "addf") == 1
    assert edit_distance("", "abc") == 3
    assert nearest("cmpg", ["cmpf", "cmpi"]) == "cmpf"
    assert nearest("F32", ["f16", "f32"]) == "f32"
    assert nearest("adddf", ["addi", "addf"]) == "addf"
    assert nearest("frobnicate", ["addf", "negf"]) is None
    assert nearest("", ["a"]) is None
    assert nearest("x" * 5000, ["x" * 5000]) is None
    assert did_you_mean("zzz", ["addf"]) == ""


def test_excerpt_of_a_long_line_is_cut_around_the_place() -> None:
    """Control characters become blanks, so that carets stay under the word."""
    line = "a" * 500 + "\tb%word" + "c" * 500
    source, carets = excerpt([line], SourceLocation("f", 1, 503)).split("\n")
    assert len(source) == len("  1 | ") + WIDTH
    assert source[carets.index("^")] == "%" and "\t" not in source
    assert excerpt([line], SourceLocation("f", 2, 1)) == ""
    assert excerpt(["ab"], SourceLocation("f", 1, 99)).endswith("^")


def test_input_in_messages_is_short_and_printable() -> None:
    """80 characters of it."""
    assert len(shown_input("x" * 5000)) == WIDTH
    assert shown_input("a\x1b[31mb\ud800") == "a?[31mb?"
    assert len(shortened(f"found '{'y' * 900}', expected z")) < 120


def test_joined_errors_are_rendered_in_order() -> None:
    """One of them is raised and has the exit code."""
    error = joined([TileirasError("a"), TileirasError("b"), TileirasError("c", label="d")])
    assert error.render().splitlines() == ["error: a", "error: b", "error: c", "note: d"]
