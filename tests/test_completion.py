"""Shells ask the commands what may stand on a command line, by click's protocol."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras.codegen.target import TARGET_NAMES
from tileiras.completion import SHELLS, candidates, variable_of
from tileiras.interpreter.ptx.command import option_names

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "tileiras": "main",
    "tileirdisasm": "disassemble",
    "tileirasm": "assemble",
    "tileiras-reduce": "reduce",
    "tileiras-explain": "explain",
    "tileiras-bench": "bench",
    "tileiras-tune": "tune",
    "tileiras-run": "run_ptx",
    "tileiras-layout": "layout",
}


def ask(
    program: str, instruction: str, words: str = "", position: int | str = 0
) -> subprocess.CompletedProcess[str]:
    """The command as a shell runs it."""
    script = f"from tileiras_command import {COMMANDS[program]} as main; main()"
    variables = {variable_of(program): instruction, "PYTHONPATH": str(ROOT)}
    variables |= {"COMP_WORDS": words, "COMP_CWORD": str(position)}
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def found(words: list[str], incomplete: str, program: str = "tileiras") -> list[str]:
    """What may stand in place of the last word; files and folders as their kinds."""
    items = candidates(program, words, incomplete)
    return [item.value if item.type == "plain" else item.type for item in items]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", COMMANDS)
def test_every_command_has_a_script_for_every_shell(program: str, shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    done = ask(program, f"{shell}_source")
    assert done.returncode == 0, done.stderr
    assert f"{variable_of(program)}={shell}_complete" in done.stdout
    assert program in done.stdout


@pytest.mark.parametrize(
    ("shell", "position", "said"),
    [
        ("bash", 2, "plain,sm_103"),
        ("zsh", 2, "plain\nsm_103\n_"),
        ("fish", "sm_10", "plain,sm_103"),
    ],
)
def test_shell_is_told_names_of_gpus(shell: str, position: int | str, said: str) -> None:
    done = ask("tileiras", f"{shell}_complete", "tileiras --gpu-name sm_10", position)
    assert done.returncode == 0 and said in done.stdout
    assert "sm_90" not in done.stdout


def test_instruction_that_there_is_not_is_an_error() -> None:
    done = ask("tileiras", "tcsh_source")
    assert done.returncode == 1
    assert "_TILEIRAS_COMPLETE is 'tcsh_source', expected one of bash_source" in done.stderr


def test_script_completes_in_bash(tmp_path: Path) -> None:
    """The whole way: the script is read, its function is called as bash calls it."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    command = tmp_path / "tileiras"
    command.write_text(
        f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tileiras_command import main; main()\n"
    )
    command.chmod(0o755)
    script = (
        'eval "$(_TILEIRAS_COMPLETE=bash_source tileiras)"\n'
        "COMP_WORDS=(tileiras --emit = nv_); COMP_CWORD=3\n"
        "_tileiras_completion tileiras\n"
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.stdout == "nv_tileaa nv_tileas\n", done.stderr


def test_names_of_options_are_those_of_help() -> None:
    names = found([], "--")
    assert {"--gpu-name", "--print-before", "--output-file", "--timeout"} <= set(names)
    assert len(names) == len(set(names))
    assert not {"--sanitize", "--host-arch", "--help-hidden"} & set(names)
    assert found([], "--print-b") == ["--print-before-all", "--print-before"]
    assert found([], "-gpu") == ["-gpu-name"]
    assert "-o" not in found([], "--o")
    assert found([], "--nonsense") == []


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["--gpu-name"], "sm_8", ["sm_80", "sm_86", "sm_87", "sm_88", "sm_89"]),
        (["--arch"], "sm_90", ["sm_90"]),
        ([], "--gpu-name=sm_90", ["--gpu-name=sm_90"]),
        (["--gpu-name", "="], "sm_90", ["sm_90"]),
        (["--remarks"], "m", ["memory"]),
        (["-o"], "out/k", ["file"]),
        (["--dump-dir"], "o", ["dir"]),
        (["--timeout"], "", []),
        ([], "ker", ["file"]),
        (["-v"], "", ["file"]),
        (["--", "-o"], "-x", ["file"]),
    ],
)
def test_values_and_files(words: list[str], incomplete: str, expected: list[str]) -> None:
    assert found(words, incomplete) == expected


def test_equals_sign_alone_asks_for_all_values() -> None:
    assert found(["--gpu-name"], "=") == list(TARGET_NAMES)


def test_lists_are_completed_at_their_last_name() -> None:
    assert found([], "--print-before=tileas-gen") == ["--print-before=tileas-generate-schedule"]
    assert found(["--print-after"], "canonicalize,sro") == ["canonicalize,sroa"]
    assert found(["--pass-pipeline"], "sro") == []
    assert found(["--disable-feature"], "tma,wg") == ["tma,wgmma"]


def test_other_commands_have_their_own() -> None:
    assert found(["--bytecode-version"], "13.", "tileirasm")[-1] == "13.5"
    assert found([], "--print-d", "tileirdisasm") == ["--print-debug-info"]
    assert found([], "--scr", "tileiras-reduce") == ["--script"]
    assert found(["k.mlir", "--", "--gpu-name"], "sm_90", "tileiras-reduce") == ["sm_90"]
    items = candidates("tileiras-run", [], "--dyn", option_names())
    assert [item.value for item in items] == ["--dynamic-shared"]
    done = ask("tileiras-run", "bash_complete", "tileiras-run --no", 1)
    assert "plain,--no-races" in done.stdout


def test_ordinary_command_does_not_load_it() -> None:
    """Start-up time is a feature."""
    script = (
        "import os, sys; os._exit = lambda code: None\n"
        "import tileiras_command; sys.argv[1:] = ['--version']; tileiras_command.main()\n"
        "assert 'tileiras.cli' in sys.modules\n"
        "assert not {'tileiras.completion', 'click'} & sys.modules.keys()"
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True)
    assert done.returncode == 0, done.stderr
