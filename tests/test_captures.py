"""docs/captures: what commands print on a terminal, and the HTML report with its picture."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_runs import ROOT, missing

from tests.browser import Browser, find_browser
from tests.terminal_captures import Capture, Span, lines, on_a_terminal, screen_of, spans, to_svg
from tileiras.explain.command import run as explain

CAPTURES = ROOT / "docs" / "captures"
PAGE = ROOT / "docs" / "captures.md"
FILES = ("vector_add.mlir", "matmul.mlir", "tutorial/axpy_any.tileirbc")
PRODUCT = "matmul.mlir --gpu-name sm_90 --grid 64,64 --arg 3=4096 --arg 4=4096 --arg 5=4096"
TERMINALS = {
    "help": Capture(("tileiras --help",), 44),
    "mistakes": Capture(
        (
            "tileiras wrong.mlir --gpu-name sm_90",
            "tileiras vector_add.mlir --gpu-nme sm_90",
            "tileiras vector_add.mlir --gpu-name sm_91",
        )
    ),
    "remarks": Capture(
        ("tileiras axpy_any.tileirbc --gpu-name sm_90 --remarks-missed=memory -o axpy.cubin",), 24
    ),
    "explain": Capture((f"tileiras-explain {PRODUCT}",), 30),
}
SHAPE = "<!-- with: ptxas 13.5 -->"
"""Numbers of registers are those of this release."""

MARK = b"tEXt", b"html"
"""A part of the picture says which page it shows, by a hash."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the commands read."""
    for name in FILES:
        shutil.copy(ROOT / "examples" / name, tmp_path)
    text = (tmp_path / "vector_add.mlir").read_text()
    (tmp_path / "wrong.mlir").write_text(text.replace("addf %at, %bt", "addf %at, %n"))
    return tmp_path


@pytest.mark.parametrize("name", TERMINALS)
def test_terminals_are_current(name: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """`make bless` takes them anew."""
    if why := missing(SHAPE):
        pytest.skip(why)
    made = to_svg(screen_of(TERMINALS[name], folder), TERMINALS[name].commands[0])
    path = CAPTURES / f"{name}.svg"
    if request.config.getoption("--bless"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made


def hash_in(picture: bytes) -> str:
    """The hash of the page that a PNG says it shows."""
    kind, key = MARK
    found = re.search(re.escape(kind + key + b"\0") + rb"([0-9a-f]{64})", picture)
    return found[1].decode() if found else ""


def marked(picture: bytes, page: str) -> bytes:
    """The PNG with the hash of the page that it shows, behind its header."""
    kind, key = MARK
    body = kind + key + b"\0" + hashlib.sha256(page.encode()).hexdigest().encode()
    part = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    header = 8 + 12 + 13
    return picture[:header] + part + picture[header:]


def test_report_and_its_picture_are_current(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HTML is what the command writes; the picture was taken of it."""
    if why := missing(SHAPE):
        pytest.skip(why)
    monkeypatch.chdir(folder)
    assert explain([*PRODUCT.split(), "--html", "report.html", "-o", "report.txt"]) == 0
    made = Path("report.html").read_text(encoding="utf-8")
    path, picture = CAPTURES / "report.html", ROOT / "docs" / "explain.png"
    if request.config.getoption("--bless"):
        path.write_text(made, encoding="utf-8")
        program = find_browser()
        if program is not None and hash_in(picture.read_bytes()) != sha_of(made):
            browser = Browser(program, folder)
            height = browser.measure(made, "document.documentElement.offsetHeight + 32")
            picture.write_bytes(marked(browser.screenshot(made, height=height), made))
    assert path.read_text(encoding="utf-8") == made
    assert hash_in(picture.read_bytes()) == sha_of(made)


def sha_of(page: str) -> str:
    """What the picture of the page is marked with."""
    return hashlib.sha256(page.encode()).hexdigest()


def test_every_capture_is_shown() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(captures/(\w+)\.svg\)", page)) == sorted(TERMINALS)
    assert sorted(path.stem for path in CAPTURES.glob("*.svg")) == sorted(TERMINALS)


def test_pictures_are_complete_and_ask_for_nothing() -> None:
    """Every line of text is inside, and nothing comes from elsewhere."""
    for path in CAPTURES.glob("*.svg"):
        root = ElementTree.parse(path).getroot()
        most = float(root.attrib["width"])
        for part in root.iter("{http://www.w3.org/2000/svg}tspan"):
            assert float(part.attrib["x"]) + float(part.attrib["textLength"]) <= most
        assert not re.search(r"href|url\(|@import", path.read_text())


def test_a_terminal_has_colours_and_a_pipe_has_none(folder: Path) -> None:
    shown = on_a_terminal("tileiras wrong.mlir --gpu-name sm_90", folder)
    assert "\x1b[1;31merror" in shown
    piped = on_a_terminal("tileiras wrong.mlir --gpu-name sm_90 2>&1 | cat", folder)
    assert "error" in piped and "\x1b" not in piped


def test_sweeps_show_progress_on_a_terminal(tmp_path: Path) -> None:
    """And nothing of it anywhere else."""
    for name in ("a", "b"):
        shutil.copy(ROOT / "examples" / "tutorial" / "axpy.tileirbc", tmp_path / f"{name}.tileirbc")
    command = [sys.executable, str(ROOT / "benchmarks" / "corpus_sweep.py"), str(tmp_path)]
    command += ["--emit=cuda_tile", f"--summary={tmp_path / 'summary.json'}"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stderr == "" and "compiled" in piped.stdout
    shown = on_a_terminal(f"{shlex.join(command)} > table", tmp_path)
    assert "2/2" in shown and "compiled" not in shown
    assert (tmp_path / "table").read_text().count("compiled") == 1


def test_styles_and_long_lines() -> None:
    text = "a\x1b[1;31mb\x1b[0mc\x1b[?25l\n" + "x" * 150
    assert list(spans(text))[:2] == [Span("a", "", False), Span("b", "#ff7b72", True)]
    found = lines(text)
    assert [sum(len(span.text) for span in line) for line in found] == [3, 100, 50]
    assert "textLength" in to_svg(found, "a < b") and "a &lt; b" in to_svg(found, "a < b")
