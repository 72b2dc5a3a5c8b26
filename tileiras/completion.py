"""Completion of command lines in bash, zsh and fish: options, their values, files.

Click has the scripts that a shell runs and the protocol between the two: a variable named after the
command (`_TILEIRAS_COMPLETE`) asks for the script (`bash_source`) or, from the script, for what may
stand at the cursor (`bash_complete`). What may stand there is found here, from the same table of
options as everything else. A command that is run without the variable imports none of this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tileiras.command_line import (
    DISASSEMBLER_OPTIONS,
    Option,
    assembler_options,
    compiler_options,
)
from tileiras.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Named = Sequence[tuple[str, str, str]]
"""Name, help and placeholder (empty: a flag) of options."""

SHELLS = ("bash", "zsh", "fish")
_FILES, _FOLDERS = ("FILE", "PATH", "PROGRAM"), ("DIR",)
_LISTS_OF_PASSES = ("print-before", "print-after", "pass-pipeline")


def complete(program: str, instruction: str, named: Named = ()) -> None:
    """Prints a shell's script, or what may stand at the cursor, as `instruction` says.

    The command `program` with its variable set to `instruction`. Raises UsageError for one that
    there is not.
    """
    import click
    from click.shell_completion import get_completion_class

    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what not in ("source", "complete"):
        known = ", ".join(f"{name}_source" for name in SHELLS)
        raise UsageError(f"{variable_of(program)} is '{instruction}', expected one of {known}")
    protocol = get_completion_class(shell)
    assert protocol is not None
    shown = protocol(click.Command(program), {}, program, variable_of(program))
    if what == "source":
        print(shown.source())
        return
    words, incomplete = shown.get_completion_args()
    for item in candidates(program, words, incomplete, named):
        print(shown.format_completion(item))


def variable_of(program: str) -> str:
    """The environment variable by which a shell asks a command, as click names it."""
    return f"_{program.upper().replace('-', '_')}_COMPLETE"


def run(program: str, instruction: str, named: Named = ()) -> int:
    """`program` as its shell asks it; returns the exit code and never raises.

    `named` are the options of a command that has no table of them.
    """
    from tileiras import cli

    return cli.guarded(program, sys.argv[1:], lambda _: complete(program, instruction, named))


def candidates(
    program: str, words: Sequence[str], incomplete: str, named: Named = ()
) -> list[CompletionItem]:
    """What may stand in place of `incomplete`, behind the other words of a command line.

    Shells hand `--name=val` over as one word or as three; what is returned replaces the last.
    """
    words = list(words)
    own = tuple(Option(name, text, metavar) for name, text, metavar in named)
    options = own or _OPTIONS[program]()
    if program == "tileiras-reduce" and "--" in words:
        options = _OPTIONS["tileiras"]()
        del words[: words.index("--") + 1]
    if incomplete == "=":
        return _values(_named(words[-1:], options), "", "")
    if words[-1:] == ["="]:
        return _values(_named(words[-2:-1], options), "", incomplete)
    if incomplete.startswith("-") and "=" in incomplete:
        name, _, value = incomplete.partition("=")
        return _values(_named([name], options), f"{name}=", value)
    before = _named(words[-1:], options)
    if before is not None and before.takes_value and "--" not in words:
        return _values(before, "", incomplete)
    if incomplete.startswith("-") and "--" not in words:
        return _names(options, incomplete)
    return [_item(incomplete, type="file")]


def _compiler_options() -> tuple[Option, ...]:
    from tileiras.codegen.target import TARGET_NAMES

    return compiler_options(TARGET_NAMES)


def _assembler_options() -> tuple[Option, ...]:
    from tileiras.bytecode.format import VERSIONS

    return assembler_options(tuple(f"{major}.{minor}" for major, minor in VERSIONS))


def _reducer_options() -> tuple[Option, ...]:
    from tileiras.reduce_command import OPTIONS

    return OPTIONS


def _explainer_options() -> tuple[Option, ...]:
    from tileiras.explain.command import OPTIONS

    return OPTIONS


def _bench_options() -> tuple[Option, ...]:
    from tileiras.bench.command import OPTIONS

    return OPTIONS


def _tune_options() -> tuple[Option, ...]:
    from tileiras.tune.command import OPTIONS

    return OPTIONS


_OPTIONS: dict[str, Callable[[], tuple[Option, ...]]] = {
    "tileiras": _compiler_options,
    "tileirdisasm": lambda: DISASSEMBLER_OPTIONS,
    "tileirasm": _assembler_options,
    "tileiras-reduce": _reducer_options,
    "tileiras-explain": _explainer_options,
    "tileiras-bench": _bench_options,
    "tileiras-tune": _tune_options,
}
"""The commands and their options.

`tileiras-run` and `tileiras-layout` are no parts of the compiler and bring their own.
"""


def _named(words: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option that the only one of these words is."""
    name = words[0] if words else ""
    body = name[2:] if name.startswith("--") else name[1:] if name.startswith("-") else ""
    return next((one for one in options if body and body in (one.name, *one.aliases)), None)


def _names(options: Sequence[Option], incomplete: str) -> list[CompletionItem]:
    """Names of options: those that `--help` has, once, in the long form where there is one."""
    found: list[CompletionItem] = []
    for option in options:
        if not option.is_shown:
            continue
        forms = [f"-{n}" if len(n) == 1 else f"--{n}" for n in (option.name, *option.aliases)]
        if not incomplete.startswith("--") and len(incomplete) > 1:
            forms += [form[1:] for form in forms if form.startswith("--")]
        fitting = [form for form in forms if form.startswith(incomplete)]
        found += [_item(form, help=option.help) for form in fitting[:1]]
    return found


def _values(option: Option | None, before: str, incomplete: str) -> list[CompletionItem]:
    """Values of an option; of a list that is separated by commas, the last one's."""
    if option is None or not option.takes_value:
        return []
    if option.metavar in _FILES:
        return [_item(incomplete, type="file")]
    if option.metavar in _FOLDERS:
        return [_item(incomplete, type="dir")]
    known = option.choices or _listed(option.name)
    earlier, comma, last = incomplete.rpartition(",")
    if option.choices:
        earlier, comma, last = "", "", incomplete
    return [_item(before + earlier + comma + one) for one in known if one.startswith(last)]


def _listed(name: str) -> Sequence[str]:
    """What may stand in the list that is the value of an option."""
    if name in _LISTS_OF_PASSES:
        from tileiras.pass_names import LLVM_PASSES
        from tileiras.registry import PASSES

        return sorted(PASSES) if name == "pass-pipeline" else sorted({*PASSES, *LLVM_PASSES})
    if name == "disable-feature":
        from tileiras.codegen.target.features import Feature

        return sorted(feature.value for feature in Feature)
    return ()


def _item(value: str, type: str = "plain", help: str | None = None) -> CompletionItem:
    from click.shell_completion import CompletionItem

    return CompletionItem(value, type=type, help=help)
