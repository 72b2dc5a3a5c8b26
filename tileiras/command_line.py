"""The command line as data: one table of options, read by a quick parser and by click alike.

A compiler's command line is parsed thousands of times in a build, and importing click costs more
than parsing. So the ordinary case is parsed here, from the table, and everything else (help,
mistakes) goes to a click command that is made from the same table. Both give the same values.

The forms are those of LLVM's command lines: one dash or two, `--name value` or `--name=value`,
`-O3`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileiras.diagnostic_output import COLORS, say_help
from tileiras.errors import UsageError
from tileiras.options import LAUNCHES, LOCATION_STYLES, OUTPUTS

if TYPE_CHECKING:
    import click

Values = dict[str, list[str]]
"""Option name -> the values given, in order. A flag's value is "true". "" is the input file."""

PREVIEW_FEATURES = ("simt",)
"""The features that `--preview` names in NVIDIA's tool."""

INPUT = ""
"""The key of the input file in `Values`."""


@dataclass(frozen=True)
class Option:
    """One option. `metavar` is empty for a flag; `choices` are all values that are accepted.

    `inert` says why the option has no effect; the compiler repeats it under `-v`. `refused` says
    why giving it is an error. Such options and those that are `hidden` are in `--help-hidden` only.
    """

    name: str
    help: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    group: str = "Options"
    inert: str = ""
    refused: str = ""
    hidden: bool = False

    @property
    def takes_value(self) -> bool:
        """Whether the option is followed by a value."""
        return bool(self.metavar)

    @property
    def is_shown(self) -> bool:
        """Whether `--help` names the option: it names what works."""
        return not (self.hidden or self.inert or self.refused)


_GENERIC = "Generic options"
_VENDOR = "Options of NVIDIA's tileiras"
_REMARKS = "Remarks (filtered by category)"
_DEVELOPER = "Options for looking inside"
_REMARK_CHOICES = ("none", "all", "memory", "tensorcore")


def _remark_option(kind: str, what: str) -> Option:
    """The option that filters remarks of one kind (empty: all kinds)."""
    name = f"remarks-{kind}" if kind else "remarks"
    return Option(name, what, "CATEGORY", choices=_REMARK_CHOICES, group=_REMARKS)


def color_option(group: str = "Options") -> Option:
    """When messages and help have colours."""
    return Option(
        "color", "When to use colours (auto: on a terminal).", "WHEN", choices=COLORS, group=group
    )


def _generic_options(group: str) -> tuple[Option, ...]:
    """What every program takes."""
    return (
        Option(
            "help",
            "Show this message and exit (--help-hidden: also what has no effect).",
            aliases=("h", "help-list"),
            group=group,
        ),
        Option(
            "help-hidden",
            "Show all options and exit.",
            aliases=("help-list-hidden",),
            group=group,
            hidden=True,
        ),
        Option(
            "print-all-options",
            "Print all options and what was given, on stderr.",
            group=group,
            hidden=True,
        ),
        Option(
            "print-options",
            "Print the options that were given, on stderr.",
            group=group,
            hidden=True,
        ),
        Option("version", "Show the version and exit.", group=group),
        color_option(group),
    )


def _vendor_options(gpu_names: tuple[str, ...]) -> tuple[Option, ...]:
    """The options of NVIDIA's compiler but those of remarks, in its order."""
    return (
        Option(
            "apply-controls",
            "ACF file for libNVVM and ptxas.",
            "PATH",
            group=_VENDOR,
            inert="its format is not documented",
        ),
        Option(
            "device-debug", "Generate debug information; needs -O0.", aliases=("g",), group=_VENDOR
        ),
        Option(
            "gpu-name",
            "The GPU to generate code for.",
            "NAME",
            ("arch",),
            choices=gpu_names,
            group=_VENDOR,
        ),
        Option(
            "host-arch",
            "Architecture of generated host code.",
            "NAME",
            choices=("x86_64", "aarch64"),
            group=_VENDOR,
            inert="no host code is generated",
        ),
        Option(
            "host-os",
            "Operating system of generated host code.",
            "NAME",
            choices=("linux", "windows"),
            group=_VENDOR,
            inert="no host code is generated",
        ),
        Option(
            "l",
            "Tile library to load. Refused: its interface is not public.",
            "PATH",
            group=_VENDOR,
            hidden=True,
        ),
        Option("lineinfo", "Generate line-number information.", group=_VENDOR),
        Option("list-versions", "List the supported bytecode versions and exit.", group=_VENDOR),
        Option("opt-level", "Optimization level, 0 to 3 (3).", "N", ("O",), group=_VENDOR),
        Option(
            "output-file",
            "Name of the output file (elf.o; - is stdout).",
            "FILE",
            ("o",),
            group=_VENDOR,
        ),
        Option(
            "preview",
            "Enable named preview features.",
            "FEATURE[,FEATURE...]",
            group=_VENDOR,
            inert="modules with content of simt, the only one, are refused",
        ),
        Option(
            "sanitize",
            "Instrument the kernel for a sanitizer.",
            "TOOL",
            choices=("memcheck",),
            group=_VENDOR,
            refused="no checks are compiled into kernels; compute-sanitizer checks the accesses of "
            "a kernel that is compiled without this option",
        ),
    )


_REMARK_OPTIONS: tuple[Option, ...] = (
    Option(
        "remark-format",
        "Where remarks go (command-line).",
        "FORMAT",
        choices=("command-line", "yaml"),
        group=_REMARKS,
    ),
    _remark_option("", "Remarks of all kinds."),
    _remark_option("analysis", "Remarks on what the compiler found out."),
    _remark_option("failed", "Remarks on optimizations that were asked for and failed."),
    _remark_option("missed", "Remarks on optimizations that were not done."),
    Option(
        "remarks-output-file",
        "File for --remark-format=yaml (tileir_remarks.yaml).",
        "FILE",
        group=_REMARKS,
    ),
    _remark_option("passed", "Remarks on optimizations that were done."),
)


_DEVELOPER_OPTIONS: tuple[Option, ...] = (
    Option(
        "emit",
        "Stop after a stage and write its text (cubin), or bytecode.",
        "STAGE",
        choices=OUTPUTS,
        group=_DEVELOPER,
    ),
    Option(
        "emit-launch-info",
        "Write how to launch each kernel, as JSON.",
        "FILE",
        group=_DEVELOPER,
    ),
    Option(
        "depfile",
        "Write a rule for make and ninja: the output depends on the input and response files.",
        "FILE",
        group=_DEVELOPER,
    ),
    Option(
        "output-dir",
        "Write the output of each input file into this folder: several inputs at once.",
        "DIR",
        group=_DEVELOPER,
    ),
    Option(
        "jobs",
        "How many inputs of --output-dir are compiled at a time (the number of processors).",
        "N",
        ("j",),
        group=_DEVELOPER,
    ),
    Option(
        "cmake-dir",
        "Print the folder of tileiras-config.cmake and exit.",
        group=_DEVELOPER,
    ),
    Option(
        "bazel-dir",
        "Print the folder of the Bazel module 'tileiras' and exit.",
        group=_DEVELOPER,
    ),
    Option(
        "launch",
        "How kernels are launched (tile): an ordinary grid with block (1,1,1), a grid of "
        "clusters, or with the number of threads given by the launcher.",
        "WAY",
        choices=LAUNCHES,
        group=_DEVELOPER,
    ),
    Option(
        "print-before-all", "Print the IR before every pass, LLVM's included.", group=_DEVELOPER
    ),
    Option("print-after-all", "Print the IR after every pass, LLVM's included.", group=_DEVELOPER),
    Option(
        "print-before",
        "Print the IR before these passes, ours or LLVM's.",
        "PASS[,PASS...]",
        group=_DEVELOPER,
    ),
    Option(
        "print-after",
        "Print the IR after these passes, ours or LLVM's.",
        "PASS[,PASS...]",
        group=_DEVELOPER,
    ),
    Option("print-changed", "Print what every pass changes, as a diff.", group=_DEVELOPER),
    Option(
        "no-print-llvm",
        "Leave LLVM's passes out of --print-before-all and --print-after-all.",
        group=_DEVELOPER,
    ),
    Option(
        "print-funcs",
        "Print these functions only; * stands for anything.",
        "NAME[,NAME...]",
        group=_DEVELOPER,
    ),
    Option("print-generic", "Print IR in MLIR's generic form.", group=_DEVELOPER),
    Option(
        "print-locations",
        "Print where operations come from (loc with --lineinfo or -g, else none).",
        "STYLE",
        choices=LOCATION_STYLES,
        group=_DEVELOPER,
    ),
    Option(
        "dump-dir",
        "Write a numbered file for every pass, LLVM IR, PTX and SASS into this folder.",
        "DIR",
        group=_DEVELOPER,
    ),
    Option(
        "pass-pipeline",
        "Run these passes in place of the built-in list.",
        "PASS[{OPTION=VALUE,...}][,PASS...]",
        group=_DEVELOPER,
    ),
    Option(
        "Werr-hints",
        "Reject optimization hints that would do nothing.",
        group=_DEVELOPER,
    ),
    Option(
        "verify-each",
        "Verify after every pass: the IR, and what it promises.",
        group=_DEVELOPER,
    ),
    Option("timeout", "Give up after so many seconds.", "SECONDS", group=_DEVELOPER),
    Option(
        "server",
        "Let a compiler that stays do the work, and start one if there is none "
        "(TILEIRAS_SERVER=1 too).",
        group=_DEVELOPER,
    ),
    Option("time-passes", "Print what each pass cost.", group=_DEVELOPER),
    Option(
        "disable-feature",
        "Compile as if the target lacked these features.",
        "FEATURE[,FEATURE...]",
        group=_DEVELOPER,
    ),
    Option(
        "verbose",
        "Say what is done and which options have no effect.",
        aliases=("v",),
        group=_DEVELOPER,
    ),
)


def compiler_options(gpu_names: tuple[str, ...]) -> tuple[Option, ...]:
    """The options of `tileiras`. `gpu_names` are the values of `--gpu-name`."""
    return (
        *_generic_options(_GENERIC),
        *_vendor_options(gpu_names),
        *_REMARK_OPTIONS,
        *_DEVELOPER_OPTIONS,
    )


_PREVIEW = Option(
    "preview",
    "Enable named preview features.",
    "FEATURE[,FEATURE...]",
    inert="modules with content of simt, the only one, are refused",
)

DISASSEMBLER_OPTIONS: tuple[Option, ...] = (
    *_generic_options("Options"),
    Option("output-file", "Name of the output file (stdout).", "FILE", ("o",)),
    _PREVIEW,
    Option("print-debug-info", "Print locations and scopes as well.", aliases=("g",)),
    Option("verbose", "Say which options have no effect.", aliases=("v",)),
)
"""The options of `tileirdisasm`."""


def assembler_options(versions: tuple[str, ...]) -> tuple[Option, ...]:
    """The options of `tileirasm`. `versions` are the values of `--bytecode-version`."""
    return (
        *_generic_options("Options"),
        Option(
            "bytecode-version",
            f"Version to write ({versions[-1]} for text, the input's for bytecode).",
            "VERSION",
            choices=versions,
        ),
        Option("output-file", "Name of the output file (stdout).", "FILE", ("o",)),
        _PREVIEW,
        Option("verbose", "Say which options have no effect.", aliases=("v",)),
    )


_TRUTH = {
    "": "true",
    "true": "true",
    "TRUE": "true",
    "1": "true",
    "false": "false",
    "FALSE": "false",
    "0": "false",
}


def parse_quickly(argv: Sequence[str], options: Sequence[Option]) -> Values | None:
    """The values on a correct command line; None for anything that click should look at."""
    by_name = {name: option for option in options for name in (option.name, *option.aliases)}
    values: Values = {}
    rest = iter(argv)
    only_inputs = False
    for argument in rest:
        if only_inputs or not argument.startswith("-") or argument == "-":
            values.setdefault(INPUT, []).append(argument)
            continue
        if argument == "--":
            only_inputs = True
            continue
        occurrence = _split(argument, by_name)
        if occurrence is None:
            return None
        option, value = occurrence
        if not option.takes_value:
            value = _TRUTH.get(value or "")
        elif value is None:
            value = next(rest, None)
        if value is None or (option.choices and value not in option.choices):
            return None
        values.setdefault(option.name, []).append(value)
    if _asks_for_help(values) or _has_too_many_inputs(values):
        return None
    return values


def _has_too_many_inputs(values: Values) -> bool:
    return len(values.get(INPUT, ())) > 1 and "output-dir" not in values


def _asks_for_help(values: Values) -> bool:
    return "help" in values or "help-hidden" in values


def _split(argument: str, by_name: dict[str, Option]) -> tuple[Option, str | None] | None:
    """The option that an argument names and the value attached to it, if one is."""
    body = argument[2:] if argument.startswith("--") else argument[1:]
    name, equals, value = body.partition("=")
    if (option := by_name.get(name)) is not None:
        return option, value if equals else None
    for letter in "Oj":
        if argument.startswith(f"-{letter}") and letter in by_name:
            return by_name[letter], argument[2:]
    return None


def _click_parameter(option: Option) -> click.Option:
    """The option as click's."""
    import click

    names = [f"--{option.name}" if len(option.name) > 1 else f"-{option.name}"]
    names += [f"-{option.name}"] if len(option.name) > 1 else []
    for alias in option.aliases:
        names += [f"--{alias}", f"-{alias}"] if len(alias) > 1 else [f"-{alias}"]
    destination = "option_" + option.name.replace("-", "_")
    if not option.takes_value:
        return click.Option([*names, destination], is_flag=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices else click.STRING
    return click.Option(
        [*names, destination], type=kind, metavar=option.metavar, multiple=True, help=option.help
    )


def _write_help(program: str, options: Sequence[Option], summary: str) -> str:
    """The text of `--help`: the options by group, choices below."""
    import click

    formatter = click.HelpFormatter(max_width=100)
    several = any(option.name == "output-dir" for option in options)
    formatter.write_usage(program, "[OPTIONS] FILE..." if several else "[OPTIONS] FILE")
    formatter.write_paragraph()
    formatter.write_text(summary)
    for group in dict.fromkeys(option.group for option in options):
        rows: list[tuple[str, str]] = []
        for option in options:
            if option.group != group:
                continue
            names = [f"-{n}" if len(n) == 1 else f"--{n}" for n in (option.name, *option.aliases)]
            shown = ", ".join(names[:2]) + (f" {option.metavar}" if option.metavar else "")
            text = option.help
            if option.choices:
                text += f" One of: {', '.join(option.choices)}."
            if option.inert:
                text += f" No effect: {option.inert}."
            if option.refused:
                text += f" Refused: {option.refused}."
            rows.append((shown, text))
        with formatter.section(group):
            formatter.write_dl(rows, col_max=32)
    return formatter.getvalue()


def parse_with_click(
    program: str, argv: Sequence[str], options: Sequence[Option], summary: str
) -> Values:
    """The values as click parses them. Prints help, and raises click's exceptions on mistakes.

    Raises SystemExit(0) after help.
    """
    import click

    command = click.Command(
        program,
        params=[
            *(_click_parameter(option) for option in options),
            click.Argument(["input_files"], nargs=-1, metavar="FILE"),
        ],
        add_help_option=False,
    )
    with command.make_context(program, list(argv)) as context:
        given = context.params
    values: Values = {}
    for option in options:
        value = given["option_" + option.name.replace("-", "_")]
        if option.takes_value:
            if value:
                values[option.name] = list(value)
        elif value:
            values[option.name] = ["true"]
    if given["input_files"]:
        values[INPUT] = list(given["input_files"])
    if _asks_for_help(values):
        shown = [option for option in options if option.is_shown or "help-hidden" in values]
        say_help(_write_help(program, shown, summary))
        raise SystemExit(0)
    if _has_too_many_inputs(values):
        extra = values[INPUT][1:]
        word = "argument" if len(extra) == 1 else "arguments"
        several = any(option.name == "output-dir" for option in options)
        instead = ", expected one input or --output-dir" if several else ""
        raise click.UsageError(f"Got unexpected extra {word} ({' '.join(extra)}){instead}")
    return values


def usage_error(error: click.ClickException, options: Sequence[Option]) -> UsageError:
    """What click found wrong, with the nearest option or value that there is."""
    import re

    import click

    from tileiras.suggestions import did_you_mean

    message = error.format_message().rstrip(".")
    label = ""
    if isinstance(error, click.NoSuchOption):
        message = f"no such option: {error.option_name}"
        name = error.option_name.lstrip("-")
        label = did_you_mean(name, [option.name for option in options], "--")
    elif isinstance(error, click.BadParameter) and error.param is not None:
        choices = getattr(error.param.type, "choices", ())
        found = re.search(r"'([^']*)' is not one of", message)
        label = did_you_mean(found[1], choices) if found else ""
    return UsageError(message[:1].lower() + message[1:], label=label)
