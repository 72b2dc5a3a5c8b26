"""`tileiras-layout`: values, tables, drawings, mistakes."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from tileiras.layout_command.command import main

SVG = "{http://www.w3.org/2000/svg}"
SWIZZLED = "S<3,3,3> o 0 o (8,64):(64,1)"
PLAIN = "(8,64):(64,1)"
ROWS = "(8,8):(1,8)"
"""Eight threads that read eight elements of a row each."""


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that the command prints."""
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def cells(drawing: Xml.Element) -> list[tuple[str, str]]:
    """(text, colour) of the cells of a drawing."""
    found = []
    for group in drawing.iter(f"{SVG}g"):
        text, box = group.find(f"{SVG}text"), group.find(f"{SVG}rect")
        assert text is not None and box is not None
        found.append((text.text or "", box.attrib["fill"]))
    return found


class TestValues:
    """What is printed."""

    def test_a_layout_has_a_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A row for each coordinate of the first mode."""
        lines = said(capsys, "(2,(2,2)):(4,(1,8))")
        assert lines == ["(2,(2,2)):(4,(1,8))", " 0  1  8  9", " 4  5 12 13"]

    def test_functions_are_evaluated(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A number has no table."""
        assert said(capsys, "coalesce((2,(1,6)):(1,(6,2)))", "--no-table") == ["12:1"]
        assert said(capsys, "size((4,8):(8,1))") == ["32"]

    def test_a_dynamic_layout_has_no_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Its text is all there is."""
        assert said(capsys, "coalesce((M,N):(1,M))") == ["M*N:1"]

    def test_threads_and_values_of_a_tile(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Column-major: thread 0 has the first column."""
        lines = said(capsys, "(2,2):(2,1)", "--tile", "2,2")
        assert lines[1:] == ["T0 V0 T1 V0", "T0 V1 T1 V1"]

    def test_an_element_of_several_threads_is_marked(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the first of them."""
        assert said(capsys, "(2,2):(0,1)", "--tile", "1,2")[1:] == ["T0 V0+ T0 V1+"]

    def test_the_fragment_of_an_instruction(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A of mma.m16n8k16, as CUTLASS has it."""
        lines = said(capsys, "--mma", "16,8,16", "--bits", "16", "--operand", "A")
        assert lines[0] == "((4,8),(2,2,2)):((32,1),(16,8,128))"
        assert len(lines) == 17
        assert lines[9].split()[:4] == ["T0", "V2", "T0", "V3"]

    def test_banks_and_conflicts(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The swizzle takes the conflicts away."""
        plain = said(capsys, PLAIN, "--bits", "16", "--access", ROWS)
        swizzled = said(capsys, SWIZZLED, "--bits", "16", "--access", ROWS)
        assert plain[1].endswith("vectors of 8 elements, 8 wavefronts where 1 would do")
        assert swizzled[1].endswith("vectors of 8 elements, no bank conflicts")
        assert plain[3].split()[:2] == ["64", "b0"]
        assert swizzled[3].split()[:2] == ["72", "b4"]


class TestDrawings:
    """What is drawn."""

    def test_threads_have_colours(self, tmp_path: Path) -> None:
        """A cell for each element; the same colour for the same thread, another for another."""
        file = tmp_path / "a.svg"
        assert main(["--mma", "16,8,16", "--operand", "C", "--svg", str(file)]) == 0
        found = cells(Xml.parse(file).getroot())
        assert len(found) == 16 * 8
        colours = {text.split()[0]: colour for text, colour in found}
        assert all(colours[text.split()[0]] == colour for text, colour in found)
        assert len(colours) == len(set(colours.values())) == 32

    def test_banks_have_colours(self, tmp_path: Path) -> None:
        """Two halves of a word are of one colour, the next word of another."""
        file = tmp_path / "a.svg"
        assert main([PLAIN, "--bits", "16", "--svg", str(file)]) == 0
        found = [colour for _, colour in cells(Xml.parse(file).getroot())]
        assert found[0] == found[1] != found[2]
        assert len(set(found)) == 32

    def test_a_page_holds_the_drawing_and_the_notes(self, tmp_path: Path) -> None:
        """And no script."""
        file = tmp_path / "a.html"
        assert main([PLAIN, "--bits", "16", "--access", ROWS, "--html", str(file)]) == 0
        text = file.read_text()
        assert text.startswith("<!DOCTYPE html>") and "8 wavefronts" in text
        assert "<script" not in text
        start, end = text.index("<svg"), text.index("</svg>") + len("</svg>")
        assert len(cells(Xml.fromstring(text[start:end]))) == 8 * 64

    def test_the_same_input_gives_the_same_bytes(self, tmp_path: Path) -> None:
        """Twice."""
        files = [tmp_path / name for name in ("a.svg", "b.svg")]
        for file in files:
            assert main([SWIZZLED, "--svg", str(file)]) == 0
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected an expression, or --mma"),
        (["4:1", "--mma", "16,8,16"], "found both"),
        (["(4,2):(1)"], "are not congruent"),
        (["nothing(4)"], "unknown function 'nothing'"),
        (["4:1", "--tile", "2,2"], "a TV layout is (thread, value)"),
        (["(4,4):(4,1)", "--tile", "2,2"], "leaves the tile of 2 x 2"),
        (["(4,4):(4,1)", "--tile", "2"], "expected 2 numbers, such as 16,16, found '2'"),
        (["S<1,0,2> o 0 o (4,4):(4,1)", "--tile", "4,4"], "a TV layout has no swizzle"),
        (["(M,2):(1,M)", "--svg", "x.svg"], "only static layouts are drawn"),
        (["(256,256):(1,256)"], "tables have at most 16384"),
        (["(4,4):(4,1)", "--access", "4:1"], "--access needs --bits"),
        (["4", "--access", "4:1", "--bits", "8"], "an access is to a static layout"),
        (["--mma", "16,9,16"], "powers of two"),
        (["4:1", "--svg", "/no/such/folder/x.svg"], "No such file"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1."""
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err


def test_an_unknown_option_reads_as_those_of_other_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 and a message, no usage of argparse's."""
    assert main(["--bogus"]) == 1
    said = "error: unrecognized arguments: --bogus\nnote: try 'tileiras-layout --help'\n"
    assert capsys.readouterr().err == said
