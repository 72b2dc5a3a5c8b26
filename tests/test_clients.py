"""What the clients of docs/clients.md ask of `tileiras`: their command lines, words, versions.

The patterns are those in the clients' public sources.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras import __version__, cli
from tileiras.bytecode.format import VERSIONS, version_text
from tileiras.bytecode.writer import write_module
from tileiras.command_line import compiler_options
from tileiras.driver import read_source

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"

CUTILE_JL = re.compile(r"V(\d+\.\d+\.\d+)")
CUTILE_CACHE = re.compile(
    r"Cuda compilation tools,\s*release\s*([^,\n]+),\s*V([^\s\n]+)", re.IGNORECASE
)
OLD_TRITON = "release 13.1"

PROBE = """
entry @probe(%pointer: tile<ptr<f32>>) {
  %token = make_token : token
  %tensor = make_tensor_view %pointer, shape = [128], strides = [1]
      : tensor_view<128xf32, strides=[1]>
  %view = make_partition_view %tensor
      : partition_view<tile=(16), tensor_view<128xf32, strides=[1]>>
  %zero = constant <i32: 0> : tile<i32>
  %four = constant <i32: 4> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  for %i in (%zero to %four, step %one) : tile<i32> {
    %value, %after = load_view_tko weak %view[%i] token = %token
        : partition_view<tile=(16), tensor_view<128xf32, strides=[1]>>, tile<i32>
          -> tile<16xf32>, token
  }
}
"""
"""What cutile-rs probes bytecode versions with: a view that is loaded from in a loop."""

COMMAND_LINES = {
    "cuTile Python": "IN -o OUT --gpu-name sm_90 -O3 --lineinfo",
    "cuTile Python, remarks": "IN -o OUT --gpu-name sm_90 -O3 --lineinfo "
    "--remark-format=yaml --remarks=all --remarks-output-file=remarks.yaml",
    "cuTile Python, debugging": "IN -o OUT --gpu-name sm_90 -O0 --device-debug",
    "cuTile.jl": "IN -o OUT --gpu-name sm_100 -O3 --lineinfo",
    "cutile-rs": "--gpu-name sm_120 --opt-level 3 -o OUT IN",
    "Triton": "--gpu-name=sm_90 --opt-level=3 IN -o OUT",
    "nvcc": "--host-arch=x86_64 --host-os=linux -arch=sm_90 IN -o OUT",
    "nvcc -G": "--host-arch=x86_64 --host-os=linux -arch=sm_90 "
    "--device-debug --opt-level=0 --lineinfo IN -o OUT",
    "nvcc -tile-preview simt": "--host-arch=x86_64 --host-os=linux -arch=sm_90 "
    "--preview simt IN -o OUT",
    "tensor-ir": "--gpu-name=sm_90 --output-file=OUT IN",
}


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vector-add example as a file."""
    path = tmp_path_factory.mktemp("clients") / "vector_add.tilebc"
    path.write_bytes(write_module(read_source(VECTOR_ADD.read_bytes())))
    return path


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, source: Path) -> int:
    """`tileiras` with a command line in which IN is the source and OUT is `out.cubin`."""
    words = {"IN": str(source), "OUT": "out.cubin"}
    return cli.run(
        [words.get(word, word.replace("=OUT", "=out.cubin")) for word in command.split()]
    )


@pytest.mark.parametrize("client", COMMAND_LINES)
def test_command_line_makes_a_cubin_in_silence(client: str, bytecode: Path, capsys) -> None:
    assert run(COMMAND_LINES[client], bytecode) == 0
    assert Path("out.cubin").read_bytes()[:4] == b"\x7fELF"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("version", VERSIONS, ids=version_text)
@pytest.mark.parametrize("source", ["cuda_tile.module @m {}", PROBE], ids=["empty", "loop"])
def test_every_version_that_is_probed_compiles(version, source: str, scratch: Path) -> None:
    path = scratch / "probe.bc"
    path.write_bytes(write_module(read_source(source.encode()), version))
    assert run("--gpu-name sm_120 -o OUT IN", path) == 0


class TestVersion:
    """`--version`, whose words clients compare and keep."""

    @pytest.fixture(
        params=[cli.run, cli.run_disassembler, cli.run_assembler],
        ids=["tileiras", "tileirdisasm", "tileirasm"],
    )
    def shown(self, request: pytest.FixtureRequest, capsys) -> str:
        """What the program prints."""
        assert request.param(["--version"]) == 0
        return capsys.readouterr().out

    def test_first_line_says_who_we_are(self, shown: str) -> None:
        first = shown.splitlines()[0]
        assert re.match(r"tileir\w+: open compiler for CUDA Tile IR", first)
        assert first.endswith(f"version {__version__}")
        assert "NVIDIA" not in shown

    def test_release_is_one_that_we_are_compatible_with(self, shown: str) -> None:
        (line,) = (line for line in shown.splitlines() if CUTILE_JL.search(line))
        assert line.startswith("Compatible with ")

    def test_cutile_jl_finds_its_number(self, shown: str) -> None:
        found = CUTILE_JL.search(shown)
        assert found is not None
        number = tuple(int(part) for part in found.group(1).split("."))
        assert number[:2] == VERSIONS[-1]
        assert number >= (13, 4)  # it asks for remarks from there on

    def test_cutile_pythons_cache_finds_its_number(self, shown: str) -> None:
        found = CUTILE_CACHE.search(shown)
        assert found is not None
        assert found.groups() == ("13.5", "13.5.37")

    def test_old_triton_finds_its_release(self, shown: str) -> None:
        assert OLD_TRITON in shown


class TestOptions:
    """Options that clients may pass on."""

    def test_options_are_printed_as_understood(self, bytecode: Path, capsys) -> None:
        assert run("IN -o OUT -arch=sm_90 -O2 --lineinfo --print-options", bytecode) == 0
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.splitlines() == [
            "  --print-options = true",
            "  --gpu-name = sm_90",
            "  --lineinfo = true",
            "  --opt-level = 2",
            "  --output-file = out.cubin",
        ]

    def test_all_options_are_printed(self, bytecode: Path, capsys) -> None:
        assert run("IN -o OUT -arch=sm_90 --print-all-options", bytecode) == 0
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == len(compiler_options(()))
        assert "  --gpu-name = sm_90" in lines
        assert "  --lineinfo (not given)" in lines

    def test_disassembler_and_assembler_print_theirs(self, bytecode: Path, capsys) -> None:
        assert cli.run_disassembler([str(bytecode), "-o", "a", "--print-options"]) == 0
        assert "  --output-file = a\n" in capsys.readouterr().err
        assert cli.run_assembler([str(bytecode), "-o", "b", "--print-options"]) == 0
        assert "  --output-file = b\n" in capsys.readouterr().err

    def test_sanitizer_is_refused_with_the_reason(self, bytecode: Path, capsys) -> None:
        assert run("IN -o OUT -arch=sm_90 --sanitize=memcheck", bytecode) == 2
        shown = capsys.readouterr().err
        assert shown.startswith("error: --sanitize is not supported: no checks are compiled in")
        assert "compute-sanitizer checks the accesses" in shown
        assert not Path("out.cubin").exists()

    def test_unknown_sanitizer_is_a_mistake(self, bytecode: Path, capsys) -> None:
        assert run("IN -o OUT -arch=sm_90 --sanitize=racecheck", bytecode) == 1
        assert "'racecheck' is not 'memcheck'" in capsys.readouterr().err

    def test_libraries_need_the_preview_feature(self, bytecode: Path, capsys) -> None:
        Path("lib.o").write_bytes(b"\x7fELF")
        assert run("IN -o OUT -arch=sm_90 -l lib.o", bytecode) == 5
        first = capsys.readouterr().err.splitlines()[0]
        assert first == "error: libraries require the 'simt' preview feature"

    def test_missing_library_is_named(self, bytecode: Path, capsys) -> None:
        assert run("IN -o OUT -arch=sm_90 --preview=simt -l lib.o", bytecode) == 5
        first = capsys.readouterr().err.splitlines()[0]
        assert first == "error: failed to open tile library 'lib.o': No such file or directory"

    def test_library_is_refused_with_the_reason(self, bytecode: Path, capsys) -> None:
        Path("lib.o").write_bytes(b"\x7fELF")
        assert run("IN -o OUT -arch=sm_90 --preview=simt -l lib.o", bytecode) == 5
        shown = capsys.readouterr().err
        assert "tile library 'lib.o' cannot be loaded: it needs a provider" in shown
        assert not Path("out.cubin").exists()

    def test_preview_content_is_refused_with_the_feature_too(self, bytecode: Path, capsys) -> None:
        data = bytearray(write_module(read_source(bytecode.read_bytes()), VERSIONS[-1]))
        data[10] = 1  # the header's tag of preview content
        Path("preview.bc").write_bytes(data)
        assert run("IN -o OUT -arch=sm_90 --preview=simt", Path("preview.bc")) == 3
        assert "preview content is not supported" in capsys.readouterr().err


class TestHelp:
    """`--help` names what works, `--help-hidden` everything."""

    WITHOUT_EFFECT = ("apply-controls", "host-arch", "host-os", "preview", "sanitize", "-l PATH")

    @pytest.mark.parametrize("option", ["--help", "-h", "--help-list"])
    def test_what_has_no_effect_is_not_listed(self, option: str, capsys) -> None:
        assert cli.run([option]) == 0
        shown = capsys.readouterr().out
        assert not [name for name in self.WITHOUT_EFFECT if name in shown]
        assert "No effect" not in shown and "Refused" not in shown

    @pytest.mark.parametrize("option", ["--help-hidden", "--help-list-hidden"])
    def test_hidden_help_says_why(self, option: str, capsys) -> None:
        assert cli.run([option]) == 0
        shown = capsys.readouterr().out
        assert [name for name in self.WITHOUT_EFFECT if name not in shown] == []
        assert shown.count("No effect:") == 4
        assert shown.count("Refused:") == 2

    def test_options_are_in_the_vendors_order(self) -> None:
        names = [option.name for option in compiler_options(())]
        vendors = names[names.index("apply-controls") : names.index("remark-format")]
        assert vendors == sorted(vendors)
        remarks = names[names.index("remark-format") : names.index("emit")]
        assert remarks == sorted(remarks)


@pytest.mark.parametrize("arguments", [["--version"], ["--list-versions"], ["--bogus"]])
def test_python_m_tileiras_is_tileiras(arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    by_name, by_module = (
        subprocess.run(
            [sys.executable, *how, *arguments], capture_output=True, env=environment, text=True
        )
        for how in (["-c", "from tileiras.cli import main; main()"], ["-m", "tileiras"])
    )
    assert by_module.returncode == by_name.returncode
    assert (by_module.stdout, by_module.stderr) == (by_name.stdout, by_name.stderr)


def test_python_m_tileiras_compiles(bytecode: Path) -> None:
    command = [sys.executable, "-m", "tileiras", str(bytecode), "--gpu-name=sm_90", "-o", "k.cubin"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert Path("k.cubin").read_bytes()[:4] == b"\x7fELF"
