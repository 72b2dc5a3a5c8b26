"""The command `tileiras-reduce`: makes a failing input smaller while it fails in the same way.

tileiras-reduce kernel.tileirbc -o small.tileirbc -- --gpu-name=sm_90
tileiras-reduce /tmp/tileiras-reproducer-0123456789ab -o small.tileirbc
tileiras-reduce kernel.mlir -o small.mlir --script ./is-interesting.sh
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence

from tileiras import cli
from tileiras.command_line import INPUT, Option, color_option
from tileiras.errors import TileirasError, UsageError
from tileiras.file_io import read_input, write_output
from tileiras.termination import (
    forget_everything,
    start_process,
    temporary_folder,
    wait_for_process,
)

OPTIONS: tuple[Option, ...] = (
    Option("output-file", "Name of the smaller file.", "FILE", ("o",)),
    Option(
        "script",
        "A program that is called with a file; exit code 0: the file is interesting. Without it: "
        "tileiras, with the options after --, fails with the exit code and the message of FILE.",
        "PROGRAM",
    ),
    Option("timeout", "Seconds for one trial of tileiras (60).", "SECONDS"),
    Option("quiet", "Say nothing of progress.", aliases=("q",)),
    color_option(),
    Option("version", "Show the version and exit."),
    Option("help", "Show this message and exit.", aliases=("h",)),
)
"""The options of `tileiras-reduce`; those of `tileiras` follow after `--`."""

_PLACE = re.compile(r"^loc\(.*?\): ")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"'[^']*'|@[\w.$]+")


def main() -> None:
    """The command `tileiras-reduce`. Ends the process."""
    cli.run_as_process(run, sys.argv[1:])


def run(argv: Sequence[str]) -> int:
    """`tileiras-reduce` with these arguments; returns the exit code and never raises."""
    return cli.guarded("tileiras-reduce", argv, _reduce)


def _reduce(argv: Sequence[str]) -> None:
    """The body of the command."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    options = words[end + 1 :]
    summary = "Makes a file that tileiras fails on smaller: FILE, or a reproducer's folder."
    values = cli.parse_command_line("tileiras-reduce", words[:end], OPTIONS, summary)
    if "version" in values:
        from tileiras.versions import version_text

        print(version_text("tileiras-reduce"))
        return
    if INPUT not in values:
        raise UsageError("no input file provided")
    path = values[INPUT][0]
    if "output-file" not in values:
        raise UsageError("no output file given, expected -o FILE")
    if os.path.isdir(path):
        path, kept = _open_reproducer(path)
        options = [*kept, *options]
    source = read_input(path)
    with temporary_folder("tileiras-reduce", os.environ.get("TMPDIR")) as folder:
        trial = os.path.join(folder, os.path.basename(path))
        if "script" in values:
            is_interesting = _by_script(values["script"][-1], trial)
        else:
            limit = values.get("timeout", ["60"])[-1]
            is_interesting = _by_message([*options, f"--timeout={limit}"], trial, source)
        smaller = _shrink(source, is_interesting, quiet="quiet" in values)
    write_output(values["output-file"][-1], smaller)


def _shrink(source: bytes, is_interesting: Callable[[bytes], bool], quiet: bool) -> bytes:
    """The reduced program; raises UsageError for one that is not interesting to begin with."""
    from tileiras.driver import read_source
    from tileiras.reducer import reduce_program, write_again

    if not is_interesting(source):
        raise UsageError("the input is not interesting: the script ends with another code than 0")
    try:
        again = write_again(source, read_source(source))
    except TileirasError as error:
        raise UsageError(f"only what can be read can be made smaller: {error.message}") from error
    if not is_interesting(again):
        raise UsageError("the input, read and written again, does not fail in the same way")

    def report(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    return reduce_program(again, is_interesting, report)


def _open_reproducer(folder: str) -> tuple[str, list[str]]:
    """The input of a reproducer's folder, and the options with which it failed."""
    import json

    try:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as stream:
            words = json.load(stream)["command"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"'{folder}' is no folder of a reproducer: {error}") from error
    options = words[2:]
    del options[options.index("-o") : options.index("-o") + 2]
    return os.path.join(folder, words[1]), options


def _by_script(program: str, trial: str) -> Callable[[bytes], bool]:
    """Interesting is what a program ends with exit code 0 for; its output is not shown."""
    path = os.path.abspath(program)
    if not os.access(path, os.X_OK):
        raise UsageError(f"'{program}' cannot be executed")

    def is_interesting(source: bytes) -> bool:
        _write(trial, source)
        return _in_child(lambda: os.execv(path, [path, trial]), os.devnull) == 0

    return is_interesting


def _by_message(options: list[str], trial: str, source: bytes) -> Callable[[bytes], bool]:
    """Interesting is what `tileiras` fails for as it does for `source`; raises UsageError where it
    does not fail."""
    messages = f"{trial}.messages"
    argv = [trial, *options, "-o", os.devnull]

    def compile_it() -> None:
        forget_everything()
        os.environ["TMPDIR"] = os.path.dirname(trial)  # a reproducer of a trial goes with it
        sys.argv[1:] = argv
        cli.main()

    def outcome(program: bytes) -> tuple[int, str]:
        _write(trial, program)
        code = _in_child(compile_it, messages)
        with open(messages, encoding="utf-8", errors="replace") as stream:
            return code, _without_details(stream.readline())

    wanted = outcome(source)
    if wanted[0] == 0:
        raise UsageError("tileiras does not fail on the input: give its options after --")
    return lambda program: outcome(program) == wanted


def _without_details(line: str) -> str:
    """A message without what changes when a program gets smaller: place, numbers, names."""
    return _NAME.sub("NAME", _NUMBER.sub("N", _PLACE.sub("", line.strip())))


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)


def _in_child(body: Callable[[], None], messages: str) -> int:
    """Runs the body in a child process; its exit status. Its output goes to the file `messages`.

    A fork has all modules loaded: a trial costs a third of what a new process does.
    """
    sys.stdout.flush()
    sys.stderr.flush()

    def start() -> int:
        child = os.fork()
        if child:
            return child
        try:
            output = os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            body()
        finally:
            os._exit(126)

    return wait_for_process(start_process(start))
