"""One file test: a piece of IR text, what to run on it, and what must come out.

A file holds cases separated by `// -----` lines. Its first lines say what to run:

    // RUN: convert-cudatile-to-tileaa            passes, separated by commas
    // RUN: ...,tileas-group-products             a pass, and all that run before it
    // RUN: --emit=ptx --gpu-name=sm_80           options of `tileiras`
    // EXACT                                      compare with FILE.expected, whole

An empty `// RUN:` reads, verifies and prints. Several RUN lines run every case several times, each
for a target of its own, whose name stands in the expected file's: FILE.sm_80.expected. Every case
has `CHECK` lines (see LLVM's FileCheck) or lines that say which error must be reported where:

    %0 = ...  // expected-error {{part of the message}}
    // expected-error@+1 {{part of the message}}
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from tileiras.cli import Request, compile_request
from tileiras.codegen.target import TARGET_NAMES, get_target
from tileiras.command_line import compiler_options, parse_quickly
from tileiras.driver import compile_module, read_source
from tileiras.errors import TileirasError
from tileiras.options import CompileOptions
from tileiras.pass_names import split_pipeline
from tileiras.pipeline import PIPELINE, PRINTING, select_steps
from tileiras.remarks import RemarkCollector
from tileiras.stages import print_stage

EVERYTHING_BEFORE = "...,"
LAST_PASS = PIPELINE[-1].pass_name
SEPARATOR = "// -----"
GPU_NAME = re.compile(r"--gpu-name=(\S+)")
DEFAULT_TARGET = "sm_90"
EXPECTED_ERROR = re.compile(r"//\s*expected-error(?:@([+-]\d+))?\s*\{\{(.*?)\}\}")
RUN_LINE = re.compile(r"^//\s*RUN:(.*)$", re.MULTILINE)
EXACT_LINE = re.compile(r"^//\s*EXACT\s*$", re.MULTILINE)
CHECK_LINE = re.compile(r"//\s*CHECK(?:-[A-Z]+)?(?:\{LITERAL\})?:")


class FileTestFailure(Exception):
    """The output of a file test is not what the file says."""


class FileTestMistake(Exception):
    """The file does not say what to run or what to expect."""


@dataclass(frozen=True)
class Case:
    """One piece of a file and one way to run it.

    `first_line` is the 1-based line in the file at which it starts. `target` is the target's name
    where the file has several RUN lines.
    """

    path: Path
    run_line: str
    text: str
    first_line: int
    is_exact: bool = False
    target: str = ""

    @property
    def name(self) -> str:
        """The symbol of the first function in the case, or its line where it has none."""
        symbol = re.search(r"\b(?:entry|func|global)\s+(?:private\s+)?@(\w+)", self.text)
        name = symbol.group(1) if symbol else f"line{self.first_line}"
        return f"{name}-{self.target}" if self.target else name

    @property
    def expected_file(self) -> Path:
        """The output of an exact case, whole."""
        suffix = f".{self.target}.expected" if self.target else ".expected"
        return self.path.with_suffix(suffix)


def read_cases(path: Path) -> list[Case]:
    """The cases of a file. Raises FileTestMistake where it has no RUN line."""
    text = path.read_text(encoding="utf-8")
    runs = [run.strip() for run in RUN_LINE.findall(text)]
    if not runs:
        raise FileTestMistake(f"{path}: no '// RUN:' line")
    is_exact = EXACT_LINE.search(text) is not None
    pieces = [text] if is_exact else re.split(rf"(?m)^{SEPARATOR}\n", text)
    targets = [""] if len(runs) == 1 else [target_of(run) for run in runs]
    if len(set(targets)) < len(targets):
        raise FileTestMistake(f"{path}: two RUN lines for one target")
    cases: list[Case] = []
    for run, target in zip(runs, targets, strict=True):
        line = 1
        for piece in pieces:
            cases.append(Case(path, run, piece, line, is_exact, target))
            line += piece.count("\n") + 1
    return cases


def target_of(run_line: str) -> str:
    """The GPU that a RUN line compiles for."""
    named = GPU_NAME.search(run_line)
    return named.group(1) if named else DEFAULT_TARGET


def expected_errors(case: Case) -> list[tuple[int, str]]:
    """The errors that the case asks for: 1-based line within the case, part of the message."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(case.text.split("\n"), start=1):
        for offset, message in EXPECTED_ERROR.findall(line):
            found.append((number + int(offset or 0), message))
    return found


def request_of(case: Case) -> Request:
    """Options and passes of the case's RUN line."""
    words = case.run_line.split()
    passes = ",".join(word for word in words if not word.startswith("-"))
    arguments = [word for word in words if word.startswith("-")]
    if not any("gpu-name" in argument for argument in arguments):
        arguments.append(f"--gpu-name={DEFAULT_TARGET}")
    if not passes and not any("emit" in argument for argument in arguments):
        arguments += ["--emit=cuda_tile", "-O0"]
    values = parse_quickly([*arguments, case.path.name], compiler_options(TARGET_NAMES))
    if values is None:
        raise FileTestMistake(f"{case.path}: cannot parse RUN line '{case.run_line}'")
    request = compile_request(values, knobs={})
    if passes.startswith(EVERYTHING_BEFORE):
        last = passes.removeprefix(EVERYTHING_BEFORE)
        names = passes_up_to(last, request.options)
        if names[-1] == LAST_PASS and request.options.emit == "cubin":
            request = replace(request, options=replace(request.options, emit="llvm-dialect"))
        return replace(request, pass_names=names)
    return replace(request, pass_names=split_pipeline(passes) if passes else ())


def passes_up_to(last: str, options: CompileOptions) -> tuple[str, ...]:
    """The passes of an ordinary compilation up to this one."""
    target = get_target(options.gpu_name)
    for step in PRINTING:
        if step.pass_name == last:
            before = select_steps(replace(options, emit=step.stage), target)
            return (*(other.pass_name for other in before), last)
    whole = replace(options, emit="cubin")
    names = [step.pass_name for step in select_steps(whole, target)]
    if last.partition("{")[0] not in names:
        raise FileTestMistake(f"'{last}' does not run for {options.gpu_name}")
    return (*names[: names.index(last.partition("{")[0])], last)


def produce(case: Case, leave_out: int = 0) -> str:
    """What the compiler makes of the case; `leave_out` of its last passes do not run.

    What a pass that prints has printed stands in front of it.

    Raises TileirasError as the compiler does.
    """
    request = request_of(case)
    names = request.pass_names[: len(request.pass_names) - leave_out]
    if leave_out and not names:
        return print_stage(read_source(case.text.encode(), case.path.name))
    printed = io.StringIO()
    with redirect_stderr(printed):
        artefacts = compile_module(
            case.text.encode(),
            request.options,
            filename=case.path.name,
            remarks=RemarkCollector(request.remarks),
            pass_names=names,
        )
    prints = bool(names) and names[-1] in {step.pass_name for step in PRINTING}
    return (printed.getvalue() if prints else "") + artefacts.output.decode()


def match_checks(case: Case, output: str) -> None:
    """Runs FileCheck; raises FileTestFailure with its report and the output."""
    padded = "\n" * (case.first_line - 1) + case.text
    options = Options(match_filename=str(case.path))
    parser = Parser(options, io.StringIO(padded), *pattern_for_opts(options))
    matcher = Matcher(options, FInput(case.path.name, output), parser)
    matcher.stderr = io.StringIO()
    if matcher.run() != 0:
        raise FileTestFailure(f"{matcher.stderr.getvalue()}\nthe output was:\n{output}")


def match_exactly(case: Case, output: str, bless: bool) -> None:
    """Compares with the file beside; writes it when blessing."""
    expected = case.expected_file
    if bless:
        expected.write_text(output, encoding="utf-8")
        return
    if not expected.exists():
        raise FileTestMistake(f"{expected} does not exist: run `make bless`, read it, commit it")
    if expected.read_text(encoding="utf-8") != output:
        raise FileTestFailure(f"the output is not that of {expected}:\n{output}")


def match_error(case: Case, error: TileirasError, wanted: list[tuple[int, str]]) -> None:
    """Compares the reported error with the one that the case asks for."""
    (line, message), *more = wanted
    if more:
        raise FileTestMistake(f"{case.path}: the compiler stops at the first error, expect one")
    where = error.location.line if error.location is not None else None
    if message not in error.message or where != line:
        raise FileTestFailure(
            f"expected at line {line} an error with '{message}'\nbut got at line {where}: "
            f"{error.render()}"
        )


def run_case(case: Case, bless: bool = False) -> None:
    """Runs the case. Raises FileTestFailure or FileTestMistake, or the compiler's own error."""
    wanted = expected_errors(case)
    has_checks = CHECK_LINE.search(case.text) is not None
    if not wanted and not has_checks and not case.is_exact:
        raise FileTestMistake(f"{case.path}:{case.first_line}: the case expects nothing")
    try:
        output = produce(case)
    except TileirasError as error:
        if not wanted:
            raise
        match_error(case, error, wanted)
        return
    if wanted:
        raise FileTestFailure(f"expected an error with '{wanted[0][1]}'\nbut got:\n{output}")
    if case.is_exact:
        match_exactly(case, output, bless)
    if has_checks:
        match_checks(case, output)
