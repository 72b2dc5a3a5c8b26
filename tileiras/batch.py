"""Several inputs in one command: `tileiras a.tileirbc b.tileirbc -j 8 --output-dir out`.

Each is compiled by a process of its own, as many at a time as asked for, as the command would do it
alone. What they say is printed in the order of the inputs, below the name of the file. All are
compiled, whatever becomes of others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tileiras.command_line import INPUT, Values
from tileiras.errors import BytecodeError, CompileError, TargetError, TileirasError, UsageError
from tileiras.file_io import describe_system_error
from tileiras.options import STAGES
from tileiras.reproducer import options_of
from tileiras.termination import start_process, temporary_folder, wait_for_process

OUTPUT_FOLDER, JOBS = "output-dir", "jobs"
"""Options of several inputs."""

OF_ONE_INPUT = ("output-file", "depfile", "emit-launch-info", "dump-dir", "remarks-output-file")
"""Options that name a file or folder which inputs would write over."""

ENDINGS = {"cubin": "cubin", "ptx": "ptx", "llvm": "ll", "bytecode": "tileirbc"}
"""What ends the name of an output; of other stages it is their name and `mlir`."""

MOST_JOBS = 1024
"""Policy: more processes are a slip of the keyboard."""

_COMMAND = (
    *(sys.executable, "-P", "-c"),
    "from tileiras_command import compile_here; compile_here()",
)
_ERRORS: dict[int, type[TileirasError]] = {
    error.exit_code: error for error in (UsageError, TargetError, BytecodeError, CompileError)
}


@dataclass(frozen=True)
class Outcome:
    """How the compilation of an input ended, and what it said on stderr."""

    path: str
    code: int
    said: bytes


def outputs_of(inputs: Sequence[str], folder: str, emit: str) -> dict[str, str]:
    """Input file -> output file, named after the input. Raises UsageError where two are one."""
    ending = ENDINGS.get(emit, f"{emit}.mlir")
    outputs: dict[str, str] = {}
    for path in inputs:
        if path == "-":
            raise UsageError("--output-dir names outputs after input files, found '-'")
        stem = os.path.splitext(os.path.basename(path))[0]
        output = os.path.join(folder, f"{stem}.{ending}")
        for other, taken in outputs.items():
            if taken == output:
                raise UsageError(f"'{other}' and '{path}' have the same output '{output}'")
        outputs[path] = output
    return outputs


def jobs_of(text: str) -> int:
    """How many compile at once; all processors for an empty text. Raises UsageError."""
    if not text:
        return len(os.sched_getaffinity(0))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_JOBS:
        raise UsageError(f"for the --jobs option: found '{text}', expected 1 to {MOST_JOBS}")
    return int(text)


def compile_several(values: Values, environ: Mapping[str, str]) -> None:
    """What `--output-dir` on a parsed command line asks for; raises as `compile_all` does."""
    check_options(values)
    emit = values.get("emit", [STAGES[-1]])[-1]
    outputs = outputs_of(values[INPUT], values[OUTPUT_FOLDER][-1], emit)
    options = options_of(values, without=(INPUT, OUTPUT_FOLDER, JOBS))
    compile_all(outputs, options, jobs_of(values.get(JOBS, [""])[-1]), environ)


def check_options(values: Mapping[str, Sequence[str]]) -> None:
    """Raises UsageError for options that fit one input only."""
    for name in OF_ONE_INPUT:
        if name in values:
            raise UsageError(f"--{name} and --{OUTPUT_FOLDER} exclude each other")


def compile_all(
    outputs: Mapping[str, str], options: Sequence[str], jobs: int, environ: Mapping[str, str]
) -> None:
    """Compiles every input to its output, with these options, `jobs` of them at a time.

    Makes the folder of the outputs. Raises an error that names the inputs that failed, with the
    exit code of the first of them.
    """
    try:
        for folder in dict.fromkeys(os.path.dirname(output) for output in outputs.values()):
            os.makedirs(folder or ".", exist_ok=True)
    except OSError as error:
        raise TargetError(
            f"unable to make the folder '{error.filename}': {describe_system_error(error)}"
        ) from error
    with temporary_folder("tileiras", environ.get("TMPDIR")) as scratch:

        def work(job: tuple[int, str]) -> Outcome:
            number, path = job
            arguments = [*options, f"--output-file={outputs[path]}", "--", path]
            said = os.path.join(scratch, f"{number}.txt")
            return _compile_one(path, arguments, said, {**environ, "TMPDIR": scratch})

        failed: list[Outcome] = []
        with ThreadPoolExecutor(min(jobs, len(outputs))) as pool:
            for outcome in pool.map(work, enumerate(outputs)):
                if outcome.said:
                    sys.stderr.buffer.write(os.fsencode(outcome.path) + b":\n" + outcome.said)
                    sys.stderr.flush()
                if outcome.code:
                    failed.append(outcome)
    if failed:
        names = ", ".join(f"'{outcome.path}'" for outcome in failed)
        error = _ERRORS.get(failed[0].code, CompileError)
        raise error(f"{len(failed)} of {len(outputs)} inputs failed: {names}")


def _compile_one(
    path: str, arguments: Sequence[str], said: str, environ: Mapping[str, str]
) -> Outcome:
    """Runs the command for one input; what it says goes to the file `said` first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    redirections = [(os.POSIX_SPAWN_OPEN, 2, said, flags, 0o600)]
    command = [*_COMMAND, *arguments]
    code = wait_for_process(
        start_process(
            lambda: os.posix_spawn(command[0], command, environ, file_actions=redirections)
        )
    )
    with open(said, "rb") as file:
        return Outcome(path, code, file.read())
