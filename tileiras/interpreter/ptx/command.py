"""The command `tileiras-run`: runs a kernel of a PTX file on the CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tileiras.argument_parser import CommandParser
from tileiras.diagnostic_output import COLORS, say
from tileiras.errors import TileirasError, UsageError
from tileiras.interpreter.ptx.launch import run_ptx
from tileiras.interpreter.ptx.state import Limits, Triple

_NUMBERS = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}

_ARGUMENT_HELP = """one per parameter, in order: IN.npy, IN.npy=OUT.npy (saved after the run),
zeros:f32:128x64=OUT.npy (a new array), or a number such as 7 or 0.5"""


def _triple(text: str) -> Triple:
    numbers = [int(part) for part in text.split(",")]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise argparse.ArgumentTypeError("expected one to three positive numbers, X,Y,Z")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a positive number")
    return int(text)


def _parser() -> CommandParser:
    parser = CommandParser("tileiras-run", description=__doc__)
    parser.add_argument("file", help="PTX text")
    parser.add_argument("--kernel", help="name of the kernel, if the file has several")
    parser.add_argument("--grid", type=_triple, default=(1, 1, 1), metavar="X,Y,Z")
    parser.add_argument("--block", type=_triple, metavar="X,Y,Z")
    parser.add_argument("--cluster", type=_triple, metavar="X,Y,Z")
    parser.add_argument("--dynamic-shared", type=int, default=0, metavar="BYTES")
    parser.add_argument("--arg", action="append", default=[], metavar="VALUE", help=_ARGUMENT_HELP)
    parser.add_argument(
        "--budget",
        type=int,
        default=Limits().instructions,
        metavar="N",
        help="instructions after which the run ends with an error",
    )
    parser.add_argument(
        "--ctas-per-sm",
        type=_count,
        default=1,
        metavar="N",
        help="CTAs (of as many clusters) that share the tensor memory of an SM",
    )
    parser.add_argument("--no-races", action="store_true", help="do not look for races")
    parser.add_argument("--color", choices=COLORS, default=COLORS[0], metavar="WHEN")
    return parser


def option_names() -> list[tuple[str, str, str]]:
    """Name, help and placeholder of each option, for completion in shells."""
    return _parser().option_names()


def argument(text: str) -> tuple[Any, Path | None]:
    """The value of an `--arg`, and where to save it after the run; UsageError if malformed."""
    source, _, target = text.partition("=")
    path = Path(target) if target else None
    if source.startswith("zeros:"):
        kind, shape = (source.split(":") + ["", ""])[1:3]
        if kind not in _NUMBERS or not all(part.isdigit() for part in shape.split("x")):
            raise UsageError(f"'{text}': expected zeros:TYPE:128x64, a type of {list(_NUMBERS)}")
        return np.zeros([int(part) for part in shape.split("x")], _NUMBERS[kind]), path
    if source.endswith(".npy"):
        try:
            return np.ascontiguousarray(np.load(source)), path
        except (OSError, ValueError) as error:
            raise UsageError(f"'{source}' cannot be read: {error}") from None
    for number in (lambda: int(source, 0), lambda: float(source)):
        try:
            return number(), None
        except ValueError:
            continue
    raise UsageError(f"'{text}' is no number, no .npy file and no zeros:TYPE:SHAPE")


def _text(path: str) -> str:
    """The PTX of a file; UsageError where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"unable to read input file '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"input file '{path}' is not text, expected PTX") from None


def run(arguments: Sequence[str]) -> int:
    """Runs the command line; the exit code is 0, or 1 with a message on stderr."""
    try:
        options = _parser().parse_args(arguments)
        text = _text(options.file)
        values = [argument(item) for item in options.arg]
        done = run_ptx(
            text,
            [value for value, _ in values],
            options.grid,
            options.block,
            kernel=options.kernel,
            cluster=options.cluster,
            dynamic_shared=options.dynamic_shared,
            limits=Limits(instructions=options.budget, ctas_per_sm=options.ctas_per_sm),
            checks_races=not options.no_races,
            filename=options.file,
        )
    except TileirasError as error:
        say(error.render())
        return 1
    for remark in done.log:
        print(f"remark: {remark}", file=sys.stderr)
    for value, path in values:
        if path is not None:
            np.save(path, value)
    print(f"{done.executed} instructions")
    return 0


def main() -> None:
    """The entry point of `tileiras-run`."""
    sys.exit(run(sys.argv[1:]))
