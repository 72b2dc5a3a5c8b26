"""The commands `tileiras`, `tileirdisasm` and `tileirasm`: arguments in, exit codes out.

Exit codes, as clients know them: 0 done; 1 command line or unreadable input; 2 unsupported GPU or
options, or an output that cannot be written; 3 the input is not Tile IR; 5 it cannot be compiled.
No exception leaves this module.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from signal import Signals
from typing import TYPE_CHECKING, ClassVar, NoReturn

from tileiras.command_line import (
    DISASSEMBLER_OPTIONS,
    INPUT,
    PREVIEW_FEATURES,
    Option,
    Values,
    assembler_options,
    compiler_options,
    parse_quickly,
    parse_with_click,
    usage_error,
)
from tileiras.diagnostic_output import also_use, say, say_remarks, use_colors_of
from tileiras.errors import (
    BytecodeError,
    CompileError,
    InternalError,
    SourceLocation,
    TargetError,
    TileirasError,
    UsageError,
)
from tileiras.fast_start import cache_folder, start_fast
from tileiras.file_io import (
    describe_system_error,
    flush_output,
    prepare_standard_streams,
    read_input,
    write_output,
)
from tileiras.options import BYTECODE, LAUNCHES, STAGES, CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind, to_text, to_yaml
from tileiras.reproducer import Case, options_of
from tileiras.termination import (
    current_part,
    current_place,
    is_watched,
    limit_time,
    on_crash,
    watch,
)

if TYPE_CHECKING:
    from tileiras.driver import Artefacts
    from tileiras.result_cache import KeptResult

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""

FLAGS_VARIABLE = "TILEIRAS_FLAGS"
"""Options for `tileiras` where a client writes the command line; they win over its own."""

CLOSED_PIPE = 141
"""Exit code when nobody reads our output any more: 128 + SIGPIPE."""

_LONGEST_TIMEOUT = 10**6
"""In seconds; eleven days."""

_NOT_REPRODUCED = (
    "output-file",
    "remark-format",
    "remarks-output-file",
    "emit-launch-info",
    "depfile",
    "timeout",
    "server",
    "color",
)
"""Options that say where results go, not what they are."""

_LAST_LINES: dict[int, str] = {
    BytecodeError.exit_code: "error: input does not correspond to Tile IR bytecode",
    CompileError.exit_code: "error: failed to compile Tile IR program",
}
"""The closing lines that clients look for, by exit code."""


@dataclass(frozen=True)
class Request:
    """A checked command line of `tileiras`."""

    input_file: str
    output_file: str
    options: CompileOptions
    remarks: RemarkFilter
    remarks_file: str
    """Where remarks go as YAML; empty: to stderr, for reading."""
    launch_info_file: str
    depfile: str
    pass_names: tuple[str, ...]


def main() -> None:
    """The command `tileiras`. Ends the process."""
    run_as_process(run, sys.argv[1:])


def disasm_main() -> None:
    """The command `tileirdisasm`. Ends the process."""
    run_as_process(run_disassembler, sys.argv[1:])


def asm_main() -> None:
    """The command `tileirasm`. Ends the process."""
    run_as_process(run_assembler, sys.argv[1:])


def run_as_process(command: Callable[[Sequence[str]], int], argv: Sequence[str]) -> NoReturn:
    """Runs the command and leaves without tearing the interpreter down, which only costs time."""
    prepare_standard_streams()
    try:
        watch()
    except (OSError, RuntimeError) as error:  # no descriptor, or no thread, is left
        say(f"error: unable to start: {getattr(error, 'strerror', None) or error}")
        os._exit(TargetError.exit_code)
    gc.disable()
    save = start_fast(cache_folder(os.environ))
    code = command(argv)
    save()
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """`tileiras` with these arguments; returns the exit code and never raises."""
    return guarded("tileiras", argv, _compile)


def run_disassembler(argv: Sequence[str]) -> int:
    """`tileirdisasm` with these arguments; returns the exit code and never raises."""
    return guarded("tileirdisasm", argv, _disassemble)


def run_assembler(argv: Sequence[str]) -> int:
    """`tileirasm` with these arguments; returns the exit code and never raises."""
    return guarded("tileirasm", argv, _assemble)


def guarded(program: str, argv: Sequence[str], body: Callable[[Sequence[str]], None]) -> int:
    """Runs the body and turns whatever it raises into messages and an exit code."""
    verbose = False
    _Current.response_files = []
    use_colors_of(argv, os.environ)
    try:
        if any(argument.startswith("@") for argument in argv):
            from tileiras.response_files import expand

            argv = expand(argv, read=_Current.response_files)
            use_colors_of(argv, os.environ)
        verbose = any(argument in ("-v", "--v", "--verbose", "-verbose") for argument in argv)
        with suppress(SystemExit):  # after --help
            body(argv)
        flush_output()
    except TileirasError as error:
        _report(error, program, verbose)
        return error.exit_code
    except KeyboardInterrupt:
        say("error: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return CLOSED_PIPE
    except OSError as error:
        wrong = TargetError(describe_system_error(error))
        _report(wrong, program, verbose)
        return wrong.exit_code
    except MemoryError:
        short = CompileError("out of memory")
        _report(short, program, verbose)
        return short.exit_code
    except Exception as error:
        wrapped = InternalError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        _report(wrapped, program, verbose)
        return wrapped.exit_code
    return 0


def _report(error: TileirasError, program: str, verbose: bool) -> None:
    """Prints the diagnostic as clients parse it, with the traceback of our own bugs under -v."""
    if verbose and isinstance(error, InternalError):
        import traceback

        traceback.print_exception(error.__cause__ or error, file=sys.stderr)
    if isinstance(error, InternalError):
        _keep_case(error)
    text = error.render()
    last = _LAST_LINES.get(error.exit_code, "") if program == "tileiras" else ""
    if last and error.in_text and isinstance(error, BytecodeError):
        count = len(error.every_mistake())
        last = f"error: input is not valid Tile IR text: {count} mistake{'' if count == 1 else 's'}"
    if last and last not in text:
        text = f"{text}\n{last}"
    say(text)


class _Current:
    """The compilation of this process, once its input is read."""

    case: Case | None = None
    response_files: ClassVar[list[str]] = []


def _keep_case(error: InternalError) -> None:
    """Writes a reproducer and names it in a note; in processes that are ours alone."""
    if _Current.case is None or not is_watched():
        return
    from tileiras.reproducer import keep_case

    try:
        folder = keep_case(_Current.case, error, current_part())
    except OSError as problem:
        error.notes.append(f"a reproducer cannot be written: {problem}")
        return
    error.notes.append(f"input, options and versions are in {folder}: please send them with it")


def _report_crash(number: int) -> None:
    """What a process says in whose native code signal `number` was raised."""
    place = current_place()
    error = InternalError(
        f"it was ended by {Signals(number).name}",
        place if isinstance(place, SourceLocation) else None,
        where=current_part(),
    )
    _report(error, "tileiras", verbose=False)
    sys.stderr.flush()


def parse_command_line(
    program: str, argv: Sequence[str], options: Sequence[Option], summary: str
) -> Values:
    """The values on the command line; raises UsageError for mistakes."""
    values = parse_quickly(argv, options)
    if values is not None:
        return values
    import click

    try:
        return parse_with_click(program, argv, options, summary)
    except click.ClickException as error:
        problem = usage_error(error, options)
        problem.notes.append(f"try '{program} --help'")
        raise problem from error


def _with_flags(values: Values, text: str, options: Sequence[Option]) -> Values:
    """The command line followed by the options in `text`, which is quoted as for a shell.

    Raises UsageError for mistakes in it, and where it names an input file.
    """
    import shlex

    try:
        added = parse_command_line("tileiras", shlex.split(text), options, "")
    except (UsageError, ValueError) as error:
        raise UsageError(f"in the environment variable {FLAGS_VARIABLE}: {error}") from error
    if INPUT in added:
        found = added[INPUT][0]
        raise UsageError(f"{FLAGS_VARIABLE} takes options only, found the argument '{found}'")
    names = dict.fromkeys([*values, *added])
    return {name: [*values.get(name, ()), *added.get(name, ())] for name in names}


def _say_inert(options: Sequence[Option], values: Values) -> None:
    """Under -v, names the options given that have no effect."""
    for option in options:
        if option.inert and option.name in values:
            say(f"note: --{option.name} has no effect: {option.inert}")


def _refuse(options: Sequence[Option], values: Values) -> None:
    """Raises TargetError for an option that cannot be done and must not be ignored."""
    for option in options:
        if option.refused and option.name in values:
            raise TargetError(f"--{option.name} is not supported: {option.refused}")


def _print_options(options: Sequence[Option], values: Values) -> None:
    """Prints the options given, or all of them, with the values that were understood."""
    everything = _flag(values, "print-all-options")
    if not everything and not _flag(values, "print-options"):
        return
    for option in options:
        given = values.get(option.name)
        if given is not None:
            print(f"  --{option.name} = {', '.join(given)}", file=sys.stderr)
        elif everything:
            print(f"  --{option.name} (not given)", file=sys.stderr)


def _flag(values: Values, name: str) -> bool:
    """Whether a flag was switched on; the last word counts."""
    return values.get(name, ["false"])[-1] == "true"


def _last(values: Values, name: str, default: str = "") -> str:
    """The last value given for an option."""
    return values.get(name, [default])[-1]


def _names(values: Values, name: str) -> tuple[str, ...]:
    """All names of an option that takes comma-separated names and may be repeated."""
    parts = (part.strip() for value in values.get(name, ()) for part in value.split(","))
    return tuple(part for part in parts if part)


def _pipeline(values: Values) -> tuple[str, ...]:
    """The entries of `--pass-pipeline`; raises UsageError for braces that do not match."""
    if "pass-pipeline" not in values:
        return ()
    from tileiras.pass_names import split_pipeline

    return split_pipeline(",".join(values["pass-pipeline"]))


def _input_file(values: Values) -> str:
    """The input file; raises UsageError where there is none."""
    if INPUT not in values:
        raise UsageError("no input file provided")
    return values[INPUT][0]


def _output_file(values: Values, emit: str) -> str:
    """Where the output goes; raises UsageError for bytecode on a terminal that nobody named."""
    if "output-file" in values:
        return values["output-file"][-1]
    if emit == BYTECODE and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError("bytecode is not printed on a terminal, expected --output-file")
    return "elf.o" if emit == "cubin" else "-"


def _opt_level(values: Values) -> int:
    """The -O level; raises UsageError where it is no number."""
    text = _last(values, "opt-level", "3")
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"for the --opt-level option: '{text}' is no number") from error


def _time_limit(values: Values) -> float:
    """The seconds that the whole process may take, 0 for any; raises UsageError."""
    text = _last(values, "timeout", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if "timeout" in values and not 0 < seconds <= _LONGEST_TIMEOUT:
        raise UsageError(
            f"for the --timeout option: found '{text}', expected seconds above 0 "
            f"and up to {_LONGEST_TIMEOUT}"
        )
    return seconds


def _compile_options(values: Values, knobs: dict[str, str]) -> CompileOptions:
    """The part of the command line that the compiler itself sees."""
    return CompileOptions(
        gpu_name=_last(values, "gpu-name"),
        opt_level=_opt_level(values),
        device_debug=_flag(values, "device-debug"),
        line_info=_flag(values, "lineinfo"),
        launch=_last(values, "launch", LAUNCHES[0]),
        emit=_last(values, "emit", STAGES[-1]),
        verify_each=_flag(values, "verify-each"),
        print_before_all=_flag(values, "print-before-all"),
        print_after_all=_flag(values, "print-after-all"),
        print_before=_names(values, "print-before"),
        print_after=_names(values, "print-after"),
        print_changed=_flag(values, "print-changed"),
        print_llvm=not _flag(values, "no-print-llvm"),
        print_funcs=_names(values, "print-funcs"),
        print_generic=_flag(values, "print-generic"),
        print_locations=_last(values, "print-locations"),
        dump_dir=_last(values, "dump-dir"),
        disabled_features=_names(values, "disable-feature"),
        verbose=_flag(values, "verbose"),
        time_passes=_flag(values, "time-passes"),
        reject_hints=_flag(values, "Werr-hints"),
        knobs=knobs,
    )


def _remark_filter(values: Values) -> RemarkFilter:
    """Which remarks the command line asks for.

    `--remarks` adds to what is said of single kinds: it cannot be narrowed by them.
    """
    everything = _last(values, "remarks", "none")
    wanted: dict[RemarkKind, str] = {}
    for kind in RemarkKind:
        choice = _last(values, f"remarks-{kind.value}", "none")
        wanted[kind] = everything if everything != "none" else choice
    return RemarkFilter(wanted)


def compile_request(values: Values, knobs: dict[str, str]) -> Request:
    """The checked command line; raises UsageError and CompileError."""
    options = _compile_options(values, knobs)
    for name in _names(values, "preview"):
        if name not in PREVIEW_FEATURES:
            known = ", ".join(PREVIEW_FEATURES)
            raise UsageError(f"unknown preview feature '{name}', expected one of {known}")
    if "l" in values:
        raise _library_error(values["l"][0], _names(values, "preview"))
    if _last(values, "depfile") and _output_file(values, options.emit) == "-":
        raise UsageError("--depfile needs a named output, expected --output-file")
    remarks_file = ""
    if _last(values, "remark-format") == "yaml":
        remarks_file = _last(values, "remarks-output-file", "tileir_remarks.yaml")
    return Request(
        input_file=_input_file(values),
        output_file=_output_file(values, options.emit),
        options=options,
        remarks=_remark_filter(values),
        remarks_file=remarks_file,
        launch_info_file=_last(values, "emit-launch-info"),
        depfile=_last(values, "depfile"),
        pass_names=_pipeline(values),
    )


def _library_error(path: str, preview: tuple[str, ...]) -> CompileError:
    """Why a tile library cannot be loaded: NVIDIA's reasons first, in its order."""
    if not preview:
        return CompileError("libraries require the 'simt' preview feature")
    if not os.path.exists(path):
        return CompileError(f"failed to open tile library '{path}': {os.strerror(errno.ENOENT)}")
    return CompileError(
        f"tile library '{path}' cannot be loaded: it needs a provider of NVIDIA's compiler, whose "
        "interface is not public"
    )


def _compile(argv: Sequence[str]) -> None:
    """The body of `tileiras`."""
    from tileiras.codegen.target import TARGET_NAMES

    table = compiler_options(TARGET_NAMES)
    values = parse_command_line("tileiras", argv, table, "Compiles CUDA Tile IR to a cubin.")
    if text := os.environ.get(FLAGS_VARIABLE):
        values = _with_flags(values, text, table)
        also_use(_last(values, "color"))
    if _flag(values, "version"):
        from tileiras.versions import version_text

        print(version_text("tileiras"))
        return
    for name in ("cmake", "bazel"):
        if _flag(values, f"{name}-dir"):
            print(os.path.join(os.path.dirname(os.path.abspath(__file__)), name))
            return
    if _flag(values, "list-versions"):
        from tileiras.versions import bytecode_versions

        print("\n".join(bytecode_versions()))
        return
    _print_options(table, values)
    _refuse(table, values)
    seconds = _time_limit(values)
    if "output-dir" in values:
        from tileiras.batch import compile_several

        _input_file(values)
        given = {name: text for name, text in os.environ.items() if name != FLAGS_VARIABLE}
        compile_several(values, given)
        return
    if seconds:
        limit_time(seconds)
    from tileiras import driver

    knobs, unknown_knobs = driver.read_environment(os.environ)
    request = compile_request(values, knobs)
    verbose = request.options.verbose
    if verbose:
        _say_inert(table, values)
        for name in unknown_knobs:
            say(f"note: the environment variable {name} is not known")
    source = read_input(request.input_file)
    given = options_of(values, without=(INPUT, *_NOT_REPRODUCED))
    _Current.case = Case(source, driver.is_bytecode(source), given, knobs)
    on_crash(_report_crash)
    kept = _kept_result(request, source)
    if kept is not None and kept.output is not None:
        _write_output(request, kept.output)
        return
    remarks = RemarkCollector(request.remarks)
    artefacts = driver.compile_module(
        source, request.options, request.input_file, remarks, request.pass_names
    )
    _write_outputs(request, artefacts)
    if kept is not None:
        kept.keep(artefacts.output)


def _kept_result(request: Request, source: bytes) -> KeptResult | None:
    """Where the output is kept; None for a compilation that makes more, or without a cache."""
    more = not request.remarks.is_empty or request.launch_info_file or request.pass_names
    if more or not os.environ.get("TILEIRAS_CACHE_DIR"):
        return None
    from tileiras.result_cache import look_up

    return look_up(source, request.input_file, request.options, os.environ)


def _write_outputs(request: Request, artefacts: Artefacts) -> None:
    """Writes everything that a successful compilation made; the main output last."""
    if not request.remarks.is_empty:
        if request.remarks_file:
            write_output(request.remarks_file, to_yaml(artefacts.remarks.remarks).encode())
        else:
            say_remarks(to_text(artefacts.remarks.remarks))
    if request.launch_info_file:
        from tileiras.launch_info import to_json

        write_output(request.launch_info_file, to_json(artefacts.kernels).encode())
    if request.options.time_passes:
        print(artefacts.timings.render(), file=sys.stderr)
    if request.options.verbose:
        for note in artefacts.notes:
            say(f"note: {note}")
    _write_output(request, artefacts.output)


def _write_output(request: Request, output: bytes) -> None:
    """Writes the output, after the rule that says what it was made from."""
    if request.depfile:
        from tileiras.depfile import write_rule

        inputs = (request.input_file, *_Current.response_files)
        write_rule(request.depfile, request.output_file, inputs)
    write_output(request.output_file, output)


def _disassemble(argv: Sequence[str]) -> None:
    """The body of `tileirdisasm`."""
    summary = "Prints the text of CUDA Tile IR bytecode."
    values = parse_command_line("tileirdisasm", argv, DISASSEMBLER_OPTIONS, summary)
    if _flag(values, "version"):
        from tileiras.versions import version_text

        print(version_text("tileirdisasm"))
        return
    _print_options(DISASSEMBLER_OPTIONS, values)
    if _flag(values, "verbose"):
        _say_inert(DISASSEMBLER_OPTIONS, values)
    source = read_input(_input_file(values))
    from tileiras import driver
    from tileiras.dialects.cuda_tile.text import print_module

    if driver.input_kind(source, _input_file(values)) == "text":
        raise BytecodeError("input is text, expected bytecode; tileirasm writes bytecode from text")
    module = driver.read_source(source)
    driver.verify_input(module, from_bytecode=True)
    text = print_module(module, generic=False, debug_info=_flag(values, "print-debug-info"))
    write_output(_last(values, "output-file", "-"), text.encode())


def _assemble(argv: Sequence[str]) -> None:
    """The body of `tileirasm`."""
    from tileiras.versions import bytecode_versions, version_text

    options = assembler_options(bytecode_versions())
    values = parse_command_line(
        "tileirasm", argv, options, "Writes CUDA Tile IR, text mostly, as bytecode."
    )
    if _flag(values, "version"):
        print(version_text("tileirasm"))
        return
    _print_options(options, values)
    if _flag(values, "verbose"):
        _say_inert(options, values)
    path, output = _input_file(values), _output_file(values, BYTECODE)
    source = read_input(path)
    from tileiras import driver

    module = driver.read_source(source, path)
    driver.verify_input(module, from_bytecode=driver.is_bytecode(source))
    data = driver.to_bytecode(module, source, _last(values, "bytecode-version"))
    write_output(output, data)
