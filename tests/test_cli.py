"""The command lines of `tileiras` and `tileirdisasm`: options, exit codes, messages, files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tileiras import cli
from tileiras.bytecode.writer import write_module
from tileiras.codegen.target import TARGET_NAMES
from tileiras.driver import read_environment, read_source
from tileiras.errors import TargetError
from tileiras.file_io import write_output

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
NOT_TILE_IR = "error: input does not correspond to Tile IR bytecode"
FAILED = "error: failed to compile Tile IR program"
TILEIRAS = [sys.executable, "-c", "from tileiras.cli import main; main()"]


@pytest.fixture(scope="session")
def vector_add_bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vector-add example as a bytecode file."""
    path = tmp_path_factory.mktemp("bytecode") / "vector_add.tileirbc"
    module = read_source(VECTOR_ADD.read_bytes(), VECTOR_ADD.name)
    path.write_bytes(write_module(module))
    return path


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_it(*arguments: str | Path) -> int:
    """`tileiras` in this process."""
    return cli.run([str(argument) for argument in arguments])


def spawn(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """`tileiras` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # pyright: ignore[reportCallIssue]
        [*TILEIRAS, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        **options,  # pyright: ignore[reportArgumentType]
    )


class TestExitCodes:
    """The codes and closing lines that clients know."""

    def test_no_input_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Is a usage error."""
        assert compile_it() == 1
        assert capsys.readouterr().err == "error: no input file provided\n"

    def test_missing_input_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Names the file and the reason."""
        assert compile_it("nope.bc") == 1
        expected = "error: unable to read input file 'nope.bc': No such file or directory\n"
        assert capsys.readouterr().err == expected

    def test_directory_as_input(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Cannot be read either."""
        assert compile_it(".") == 1
        assert "Is a directory" in capsys.readouterr().err

    @pytest.mark.parametrize("content", [b"", b"\x7fELF\x02", b"\xff\xfe\x00", b"entry\0\xff"])
    def test_foreign_input(self, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
        """Is rejected with the line that clients look for, before options are judged."""
        Path("bad.bc").write_bytes(content)
        assert compile_it("bad.bc", "-O9") == 3
        assert capsys.readouterr().err == NOT_TILE_IR + "\n"

    def test_truncated_bytecode(
        self, vector_add_bytecode: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Says at which offset, then the closing line."""
        Path("cut.bc").write_bytes(vector_add_bytecode.read_bytes()[:200])
        assert compile_it("cut.bc", "--gpu-name=sm_90") == 3
        first, *_, last = capsys.readouterr().err.splitlines()
        assert first.startswith("error: error at offset ")
        assert last == NOT_TILE_IR

    def test_text_with_a_mistake(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Has its place in the form that clients parse."""
        Path("bad.mlir").write_text("entry @f() {\n  %0 = nosuchop : tile<i32>\n}\n")
        assert compile_it("bad.mlir", "--gpu-name=sm_90") == 3
        first, *_, last = capsys.readouterr().err.splitlines()
        assert first.startswith('loc("bad.mlir":2:')
        assert last == "error: input is not valid Tile IR text: 1 mistake"

    def test_no_gpu_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        """There is no default target, as with NVIDIA's tool."""
        assert compile_it(VECTOR_ADD) == 2
        shown = capsys.readouterr().err
        assert all(name in shown for name in TARGET_NAMES)

    @pytest.mark.parametrize("name", ["sm_75", "90", "sm_90a"])
    def test_unknown_gpu(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A mistake on the command line, which lists the names, as with NVIDIA's tool."""
        assert compile_it(VECTOR_ADD, "--gpu-name", name) == 1
        shown = capsys.readouterr().err
        assert f"'{name}' is not one of 'sm_80', 'sm_86'" in shown
        assert all(known in shown for known in TARGET_NAMES)

    def test_unknown_preview_feature(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A mistake; the one that NVIDIA's tool knows is accepted and does nothing."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "--preview=warp") == 1
        shown = capsys.readouterr().err
        assert shown == "error: unknown preview feature 'warp', expected one of simt\n"

    def test_unknown_feature(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`--disable-feature` lists what exists."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "--disable-feature=warp-drive") == 2
        shown = capsys.readouterr().err
        assert "unknown feature 'warp-drive'" in shown
        assert "tma" in shown

    @pytest.mark.parametrize("level", ["-O4", "-O-1", "--opt-level=17"])
    def test_bad_opt_level(self, level: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Is a driver error."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", level) == 2
        assert "invalid optimization level" in capsys.readouterr().err

    def test_opt_level_that_is_no_number(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Is a usage error."""
        assert compile_it(VECTOR_ADD, "-Oabc") == 1
        assert "'abc'" in capsys.readouterr().err

    def test_debug_with_optimization(self, capsys: pytest.CaptureFixture[str]) -> None:
        """-g needs -O0."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "-g") == 2
        assert "optimized debugging is currently not supported" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            (["--bogus"], "no such option"),
            (["--gpu-name"], "requires an argument"),
            (["a.bc", "b.bc"], "unexpected extra argument"),
            (["--emit=assembly"], "'assembly' is not one of"),
            (["--lineinfo=maybe"], "--lineinfo"),
        ],
    )
    def test_usage_errors(
        self, arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Say what is wrong and where to look."""
        assert compile_it(*arguments) == 1
        shown = capsys.readouterr().err
        assert shown.startswith("error: ")
        assert part in shown
        assert "--help" in shown

    def test_unknown_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Lists the passes that exist."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "--pass-pipeline=frobnicate") == 1
        assert "convert-cudatile-to-tileaa" in capsys.readouterr().err


class TestNothingEscapes:
    """No traceback unless asked for, whatever happens inside."""

    @pytest.fixture
    def broken_reader(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A reader with a bug."""

        def read(*arguments: object) -> None:
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr("tileiras.driver.read_source", read)

    @pytest.mark.usefixtures("broken_reader")
    def test_bug_is_reported_without_traceback(self, capsys: pytest.CaptureFixture[str]) -> None:
        """As an internal error that says how to report it."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90") == 5
        shown = capsys.readouterr().err
        assert "error: internal error: ZeroDivisionError: division by zero" in shown
        assert "note: this is a bug in tileiras" in shown
        assert "Traceback" not in shown
        assert shown.splitlines()[-1] == FAILED

    @pytest.mark.usefixtures("broken_reader")
    def test_traceback_is_shown_when_verbose(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Under -v."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "-v") == 5
        assert "Traceback" in capsys.readouterr().err

    def test_interrupt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C ends quietly with 128 + SIGINT."""

        def read(*arguments: object) -> None:
            raise KeyboardInterrupt("from the terminal")

        monkeypatch.setattr("tileiras.driver.read_source", read)
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90") == cli.INTERRUPTED

    def test_signal_in_a_real_process(self, tmp_path: Path) -> None:
        """SIGINT while waiting for input leaves no traceback."""
        fifo = tmp_path / "input"
        os.mkfifo(fifo)
        process = subprocess.Popen(
            [*TILEIRAS, str(fifo), "--gpu-name=sm_90"],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        writer = None
        while writer is None and process.poll() is None:
            with contextlib.suppress(OSError):  # until the compiler opens it
                writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=10)
        assert process.returncode == cli.INTERRUPTED
        assert shown == b"error: interrupted\n"
        if writer is not None:
            os.close(writer)

    def test_closed_pipe(self) -> None:
        """A reader that goes away is no error message."""
        command = " ".join(f"'{word}'" for word in [*TILEIRAS, "--help"])
        done = subprocess.run(
            ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.stderr == b""
        assert done.returncode in (0, cli.CLOSED_PIPE)


class TestOutput:
    """Where outputs go, and that they are whole or absent."""

    def test_default_name_is_elf_o(self, vector_add_bytecode: Path) -> None:
        """Like the vendor's."""
        assert compile_it(vector_add_bytecode, "--gpu-name=sm_90") == 0
        assert Path("elf.o").read_bytes()[:4] == b"\x7fELF"

    def test_clients_command_line(self, vector_add_bytecode: Path) -> None:
        """The one that cuTile Python uses."""
        arguments = ["-o", "k.cubin", "--gpu-name", "sm_90", "-O3", "--lineinfo"]
        remarks = ["--remark-format=yaml", "--remarks=all", "--remarks-output-file=r.yaml"]
        assert compile_it(vector_add_bytecode, *arguments, *remarks) == 0
        assert Path("k.cubin").read_bytes()[:4] == b"\x7fELF"
        assert isinstance(Path("r.yaml").read_text(), str)

    def test_failure_leaves_no_output(self, scratch: Path) -> None:
        """Nor a temporary file."""
        Path("bad.bc").write_bytes(b"hello")
        assert compile_it("bad.bc", "-o", "out.cubin", "--gpu-name=sm_90") == 3
        assert sorted(path.name for path in scratch.iterdir()) == ["bad.bc"]

    def test_success_leaves_no_temporary(self, scratch: Path) -> None:
        """Only the output."""
        assert compile_it(VECTOR_ADD, "--emit=nv_tileaa", "-o", "out.mlir") == 0
        assert [path.name for path in scratch.iterdir()] == ["out.mlir"]

    def test_old_output_survives_a_failure(self) -> None:
        """It is replaced only by a whole new one."""
        Path("bad.bc").write_bytes(b"hello")
        Path("out.cubin").write_bytes(b"old")
        assert compile_it("bad.bc", "-o", "out.cubin", "--gpu-name=sm_90") == 3
        assert Path("out.cubin").read_bytes() == b"old"

    @pytest.mark.parametrize("place", ["missing/out", "."])
    def test_unwritable_output(self, place: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Is named, with the reason."""
        assert compile_it(VECTOR_ADD, "--emit=cuda_tile", "-o", place) == 2
        assert f"unable to write output file '{place}'" in capsys.readouterr().err

    def test_text_goes_to_stdout(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Where no output file is named."""
        assert compile_it(VECTOR_ADD, "--emit=cuda_tile") == 0
        assert "@vector_add" in capsys.readouterr().out

    def test_dash_is_stdout(self) -> None:
        """Also for a cubin; the input may come from stdin."""
        done = subprocess.run(
            [*TILEIRAS, "-", "-o", "-", "--gpu-name=sm_90"],
            input=VECTOR_ADD.read_bytes(),
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout[:4] == b"\x7fELF"

    def test_symbolic_link_is_written_through(self) -> None:
        """The link stays a link."""
        Path("real").write_bytes(b"old")
        Path("link").symlink_to("real")
        write_output("link", b"new")
        assert Path("link").is_symlink()
        assert Path("real").read_bytes() == b"new"

    def test_device_is_written_directly(self) -> None:
        """/dev/null is not replaced by a file."""
        write_output("/dev/null", b"data")
        assert not Path("/dev/null").is_file()

    def test_failing_rename(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Removes the temporary file."""

        def fail(source: str, target: str) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(TargetError, match="Input/output error"):
            write_output("out", b"data")
        assert not list(Path().iterdir())

    def test_same_input_gives_the_same_bytes(self) -> None:
        """In processes with different hash seeds."""
        outputs = []
        for seed in ("1", "2"):
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
            command = [*TILEIRAS, str(VECTOR_ADD), "--gpu-name=sm_90", "--emit=ptx"]
            outputs.append(subprocess.run(command, capture_output=True, env=environment).stdout)
        assert outputs[0] == outputs[1]
        assert b".entry" in outputs[0]


class TestLookingInside:
    """Stages, dumps, timings, remarks, launch information."""

    @pytest.mark.parametrize(
        ("stage", "part"),
        [
            ("cuda_tile", "addf"),
            ("nv_tileaa", "nv_tileaa."),
            ("nv_tileas", "nv_tileas."),
            ("llvm-dialect", "llvm."),
            ("llvm", "target triple"),
            ("ptx", ".visible .entry vector_add"),
        ],
    )
    def test_emit(self, stage: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Every stage can be printed."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", f"--emit={stage}") == 0
        assert part in capsys.readouterr().out

    @pytest.mark.parametrize("stage", ["cuda_tile", "nv_tileaa", "nv_tileas", "llvm-dialect"])
    def test_emitted_stage_can_be_compiled_further(
        self, stage: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """And gives the same PTX."""
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", "--emit=ptx") == 0
        direct = capsys.readouterr().out
        assert compile_it(VECTOR_ADD, "--gpu-name=sm_90", f"--emit={stage}", "-o", "s.mlir") == 0
        assert compile_it("s.mlir", "--gpu-name=sm_90", "--emit=ptx") == 0
        assert capsys.readouterr().out == direct

    def test_stage_cannot_go_backwards(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Text of a later stage has no earlier one."""
        assert compile_it(VECTOR_ADD, "--emit=nv_tileaa", "-o", "s.mlir") == 0
        assert compile_it("s.mlir", "--emit=cuda_tile") == 5
        assert "nv_tileaa" in capsys.readouterr().err

    def test_print_after_one_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Only that one."""
        name = "convert-cudatile-to-tileaa"
        options = [f"--print-after={name}", "--gpu-name=sm_90", "--emit=nv_tileas", "-o", "x"]
        assert compile_it(VECTOR_ADD, *options) == 0
        headers = [line for line in capsys.readouterr().err.splitlines() if "IR Dump" in line]
        assert len(headers) == 1
        assert headers[0].startswith("*** IR Dump After ")
        assert headers[0].endswith(f" ({name}) ***")

    def test_pass_pipeline(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Runs the named passes and prints what is left."""
        options = ["--pass-pipeline=convert-cudatile-to-tileaa", "--gpu-name=sm_90", "-o", "-"]
        assert compile_it(VECTOR_ADD, *options) == 0
        assert "nv_tileaa." in capsys.readouterr().out

    def test_time_passes(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Every pass and the total, on stderr."""
        assert compile_it(VECTOR_ADD, "--emit=nv_tileaa", "--time-passes", "-o", "x") == 0
        shown = capsys.readouterr().err
        assert "convert-cudatile-to-tileaa" in shown
        assert "total" in shown

    def test_launch_info(self) -> None:
        """Threads, cluster, parameters and registers of every kernel."""
        arguments = ["--gpu-name=sm_90", "--emit-launch-info=k.json", "-o", "k.cubin"]
        assert compile_it(VECTOR_ADD, *arguments) == 0
        (kernel,) = json.loads(Path("k.json").read_text())["kernels"]
        assert kernel["name"] == "vector_add"
        assert kernel["target"] == "sm_90"
        assert kernel["threads_per_block"] % 32 == 0
        assert (kernel["launch"], kernel["block"]) == ("tile", [1, 1, 1])
        places = [(p["type"], p["size"], p["offset"]) for p in kernel["parameters"]]
        pointers = [("ptr<f32>", 8, 0), ("ptr<f32>", 8, 8), ("ptr<f32>", 8, 16)]
        assert places == [*pointers, ("i32", 4, 24)]
        assert kernel["registers"] > 0

    def test_remarks_are_written_as_yaml(self) -> None:
        """Also when there are none: clients read the file."""
        options = ["--remarks=all", "--remark-format=yaml", "--emit=nv_tileaa", "-o", "x"]
        assert compile_it(VECTOR_ADD, *options) == 0
        assert list(yaml.parse(Path("tileir_remarks.yaml").read_text()))

    def test_no_remarks_no_file(self) -> None:
        """A format alone asks for nothing."""
        options = ["--remark-format=yaml", "--emit=nv_tileaa", "-o", "x"]
        assert compile_it(VECTOR_ADD, *options) == 0
        assert not Path("tileir_remarks.yaml").exists()


class TestVerbose:
    """Options without effect are never ignored silently."""

    @pytest.mark.parametrize(
        "option",
        [
            "--host-os=linux",
            "--host-arch=x86_64",
            "--preview=simt",
            "--apply-controls=file",
        ],
    )
    def test_inert_options_say_so(self, option: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Once, under -v; accepted without."""
        assert compile_it(VECTOR_ADD, "--emit=cuda_tile", "-o", "x", option) == 0
        assert capsys.readouterr().err == ""
        assert compile_it(VECTOR_ADD, "--emit=cuda_tile", "-o", "x", option, "-v") == 0
        name = option.partition("=")[0]
        assert capsys.readouterr().err.count(f"note: {name} has no effect") == 1

    def test_unknown_knob(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A mistyped TILEIR_ variable is named."""
        monkeypatch.setenv("TILEIR_ALWAYS_SWIZZEL", "1")
        assert compile_it(VECTOR_ADD, "--emit=cuda_tile", "-o", "x", "-v") == 0
        assert "TILEIR_ALWAYS_SWIZZEL is not known" in capsys.readouterr().err

    def test_environment_becomes_knobs(self) -> None:
        """Known variables are kept, unknown ones listed, others left out."""
        knobs, unknown = read_environment(
            {"TILEIR_ALWAYS_SWIZZLE": "1", "TILEIR_X": "2", "CUDA_HOME": "/c", "LANG": "C"}
        )
        assert knobs == {"TILEIR_ALWAYS_SWIZZLE": "1", "CUDA_HOME": "/c"}
        assert unknown == ("TILEIR_X",)


class TestInformation:
    """--help, --version, --list-versions."""

    @pytest.mark.parametrize("option", ["--help", "-h", "-help", "--help-hidden", "--help-list"])
    def test_help(self, option: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Names every option and every target."""
        assert compile_it(option) == 0
        shown = capsys.readouterr().out
        for word in ("--gpu-name", "-O", "--lineinfo", "--emit", "--remarks-missed", *TARGET_NAMES):
            assert word in shown

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The program, its version, and what it reads."""
        assert compile_it("--version") == 0
        shown = capsys.readouterr().out
        assert shown.startswith("tileiras: ")
        assert "13.1 to release 13.5" in shown

    def test_list_versions(self, capsys: pytest.CaptureFixture[str]) -> None:
        """One a line, oldest first."""
        assert compile_it("--list-versions") == 0
        assert capsys.readouterr().out.split() == ["13.1", "13.2", "13.3", "13.4", "13.5"]


class TestDisassembler:
    """`tileirdisasm`."""

    def test_prints_text(
        self, vector_add_bytecode: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Of bytecode, on stdout."""
        assert cli.run_disassembler([str(vector_add_bytecode)]) == 0
        shown = capsys.readouterr().out
        assert "entry @vector_add(" in shown
        assert "loc(" not in shown

    def test_prints_locations(
        self, vector_add_bytecode: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With -g."""
        assert cli.run_disassembler([str(vector_add_bytecode), "-g"]) == 0
        assert "loc(" in capsys.readouterr().out

    def test_writes_a_file(self, vector_add_bytecode: Path) -> None:
        """With -o, which compiles again."""
        assert cli.run_disassembler([str(vector_add_bytecode), "-o", "k.mlir"]) == 0
        assert compile_it("k.mlir", "--emit=cuda_tile", "-o", "x") == 0

    @pytest.mark.parametrize(
        ("arguments", "code"), [([], 1), (["nope"], 1), (["bad.bc"], 3), (["--bogus"], 1)]
    )
    def test_errors(
        self, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Have the compiler's exit codes."""
        Path("bad.bc").write_bytes(b"entry @f() {}")
        assert cli.run_disassembler(arguments) == code
        assert capsys.readouterr().err.startswith("error: ")


HEAVY = (
    *("click", "numpy", "rich", "yaml", "subprocess", "llvmlite.binding", "argparse"),
    "tileiras.interpreter",
)
HEAVY_DIALECTS = tuple(f"xdsl.dialects.{name}" for name in ("arith", "llvm", "math", "scf", "func"))


def test_compile_path_imports_nothing_heavy(vector_add_bytecode: Path) -> None:
    """Start-up time is a feature: a whole compilation loads none of these."""
    script = (
        "import sys; from tileiras import cli; code = cli.run(sys.argv[1:]);"
        "print(code, *sorted(sys.modules))"
    )
    command = [
        sys.executable,
        "-c",
        script,
        str(vector_add_bytecode),
        "-o",
        "out.cubin",
        "--gpu-name",
        "sm_90",
        "-O3",
        "--lineinfo",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    code, *modules = done.stdout.split()
    assert code == "0", done.stderr
    assert [name for name in (*HEAVY, *HEAVY_DIALECTS) if name in modules] == []


def test_byte_order_mark_is_no_part_of_a_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with the line ends of Windows; places are those without it, and only the first goes."""
    text = "cuda_tile.module @m {\r\n  entry @k() {\r\n    return\r\n  }\r\n}\r\n"
    path = tmp_path / "k.mlir"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert cli.run([str(path), "--gpu-name=sm_90", "-o", str(tmp_path / "k.cubin")]) == 0
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("module", "modul").encode())
    assert cli.run([str(path), "--gpu-name=sm_90"]) == 3
    assert capsys.readouterr().err.startswith(f'loc("{path}":1:1): error: ')
    path.write_bytes(b"\xef\xbb\xbf" * 2 + text.encode())
    assert cli.run([str(path), "--gpu-name=sm_90"]) == 3
    assert "unexpected character" in capsys.readouterr().err
