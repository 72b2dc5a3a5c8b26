"""The same command lines give the same exit codes and files as with NVIDIA's compiler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import find_vendor_tileiras
from tileiras import cli
from tileiras.bytecode.writer import write_module
from tileiras.codegen.target import TARGET_NAMES
from tileiras.command_line import DISASSEMBLER_OPTIONS, Option, compiler_options
from tileiras.driver import read_source

pytestmark = pytest.mark.oracle

KERNEL = b"entry @empty() {\n}\n"
LISTED = re.compile(r"^  --?([a-z][\w-]*)(?:[ =]<.*?>)? +- ", re.MULTILINE)
NAMES_IN_FILES = [
    "-o plain",
    "-o 'a b'",
    'ab"c d"e',
    r"-o 'q\z \' w'",
    r"-o a\ b",
    "-o\n\n\tnext",
    "-o x\\",
    "-o 'open",
    "-o '' ",
    "-o a -o b",
    "-o x # y",
    "@inner",
    "@missing",
    "\ufeff-o mark",
]
COMMAND_LINES = [
    "",
    "-O0",
    "-O3",
    "--opt-level=2",
    "-O4",
    "-Oabc",
    "-g",
    "-g -O0",
    "--device-debug --opt-level=0 --lineinfo",
    "--lineinfo=true",
    "--lineinfo=maybe",
    "--gpu-name=sm_75",
    "-arch=sm_80",
    "-arch sm_107",
    "--host-arch=x86_64 --host-os=linux",
    "--host-arch=sparc",
    "--preview=simt",
    "--preview=simt,warp",
    "--preview=warp",
    "--sanitize=racecheck",
    "-l lib.o",
    "--preview=simt -l lib.o",
    "--print-options",
    "--print-all-options",
    "--remarks=all",
    "--remarks=everything",
    "--bogus",
    "other.bc",
    "@loop",
    "@folder",
]


def both(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Exit code and the files made, by ours and by NVIDIA's compiler, in a folder each."""
    compiler = find_vendor_tileiras()
    if compiler is None:
        pytest.skip("VENDOR_TILEIRAS is not set")
    outcomes: list[object] = []
    for name in ("ours", "vendors"):
        place = folder / name
        (place / "folder").mkdir(parents=True)
        (place / "in.bc").write_bytes(write_module(read_source(KERNEL)))
        (place / "inner").write_text("-o nested")
        (place / "loop").write_text("@loop")
        (place / "options").write_text(arguments[0], encoding="utf-8")
        given = {path.name for path in place.iterdir()}
        monkeypatch.chdir(place)
        command = ["in.bc", "--gpu-name=sm_90", *arguments[1:]]
        if name == "ours":
            code = cli.run(command)
        else:
            code = subprocess.run([compiler, *command], capture_output=True).returncode
        outcomes.append((code, sorted({path.name for path in place.iterdir()} - given)))
    return outcomes


@pytest.mark.parametrize("text", NAMES_IN_FILES)
def test_response_files_are_read_alike(text, tmp_path, monkeypatch):
    ours, vendors = both([text, "@options"], tmp_path, monkeypatch)
    assert ours == vendors


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_exit_codes_and_files_are_alike(command, tmp_path, monkeypatch):
    ours, vendors = both(["", *command.split()], tmp_path, monkeypatch)
    assert ours == vendors


@pytest.mark.parametrize(
    ("tool", "options"),
    [("tileiras", compiler_options(TARGET_NAMES)), ("tileirdisasm", DISASSEMBLER_OPTIONS)],
)
def test_its_options_are_ours_in_its_order(tool: str, options: tuple[Option, ...]) -> None:
    compiler = find_vendor_tileiras()
    if compiler is None:
        pytest.skip("VENDOR_TILEIRAS is not set")
    program = Path(compiler).with_name(tool)
    text = subprocess.run([program, "--help-hidden"], capture_output=True, text=True).stdout
    known = {name: option for option in options for name in (option.name, *option.aliases)}
    listed = LISTED.findall(text)
    assert len(listed) > 10
    assert [name for name in listed if name not in known] == []
    order = [option.name for option in options]
    places = [order.index(name) for name in listed if name in order]
    assert places == sorted(places)
