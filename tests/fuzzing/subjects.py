"""What is fuzzed: a subject makes the input of a number, and the compiler reads or compiles it.

A result or an error with the user's mistake may come out. Anything else is a `Finding`.
"""

from __future__ import annotations

import random
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzzing import seeds
from tests.fuzzing.bytecode_mutations import damaged_file
from tests.kernels.damaged_text import damaged
from tileiras.bytecode.reader import read_layout, read_module
from tileiras.driver import MAGIC, compile_module, verify_input
from tileiras.errors import BytecodeError, InternalError, TileirasError
from tileiras.options import ALWAYS_SWIZZLE, OUTPUTS, PREFER_TMA, CompileOptions

MAX_SECONDS = 10.0
"""Of processor time for one input, children included."""
MAX_BYTES = 1 << 30
"""Of memory that the process has ever had."""
MAX_LINE = 600
"""Characters of a message: its own words and 80 of the input for each thing that it names."""
GPU_NAMES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
FILENAME = "fuzzed.mlir"


class Finding(Exception):
    """What must not come out of any input."""


@dataclass(frozen=True)
class Input:
    """What is compiled, and how."""

    source: bytes
    options: CompileOptions


@dataclass(frozen=True)
class Subject:
    """`make` gives the input of a random generator; `feed` says whether it was refused."""

    make: Callable[[random.Random], Input]
    feed: Callable[[Input], bool]

    def input(self, name: str, number: int) -> Input:
        """The input of a number, the same on every machine."""
        return self.make(random.Random(f"{name} {number}"))


def judge(subject: Subject, given: Input) -> bool:
    """Whether the input is refused; raises Finding where that is not how it should be."""
    start = _seconds()
    try:
        return subject.feed(given)
    except InternalError as error:
        raise Finding(f"{_origin(error)}: {error.message}") from error
    except TileirasError as error:
        long = [one for one in error.every_mistake() if len(one.message) > MAX_LINE]
        if long:
            raise Finding(f"message of {len(long[0].message)} characters") from error
        return True
    except MemoryError as error:
        raise Finding("out of memory") from error
    except Exception as error:
        raise Finding(f"{_origin(error)}: {type(error).__name__}: {error}") from error
    finally:
        spent = _seconds() - start
        if spent > MAX_SECONDS:
            raise Finding(f"{spent:.1f} s")
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MAX_BYTES:
            raise Finding("more than 1 GiB of memory")


def _origin(error: BaseException) -> str:
    """The function and line where an exception was made: findings are sorted by it."""
    while error.__cause__ is not None:
        error = error.__cause__
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}"


def _seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _read(given: Input) -> bool:
    """Reads and verifies a file, and names its parts."""
    data = given.source
    try:
        module = read_module(data)
        read_layout(data)
    except BytecodeError as error:
        if error.offset is not None and not 0 <= error.offset <= len(data):
            raise Finding(f"offset {error.offset} in a file of {len(data)} bytes") from error
        return True
    verify_input(module, from_bytecode=True)
    return False


def _compile(given: Input) -> bool:
    compile_module(given.source, given.options, FILENAME)
    return False


def random_options(rng: random.Random) -> CompileOptions:
    """Any target, stage, level and switches; together they may be refused."""
    debug = rng.random() < 0.1
    return CompileOptions(
        gpu_name=rng.choice(GPU_NAMES),
        opt_level=0 if debug else rng.randrange(4),
        device_debug=debug,
        line_info=rng.random() < 0.2,
        launch=rng.choice(("tile", "tile", "cluster", "explicit")),
        emit=rng.choice((*OUTPUTS, *("cubin", "ptx") * 4)),
        verify_each=rng.random() < 0.1,
        print_generic=rng.random() < 0.1,
        print_locations=rng.choice(("", "", "none", "loc", "comment")),
        disabled_features=tuple(rng.sample(("wgmma", "tma", "cp_async"), rng.choice((0, 0, 0, 1)))),
        reject_hints=rng.random() < 0.1,
        knobs=rng.choice(({}, {}, {ALWAYS_SWIZZLE: "1"}, {PREFER_TMA: rng.choice("01x")})),
    )


def _file(rng: random.Random) -> Input:
    files = seeds.bytecodes()
    options = CompileOptions("sm_90", emit="cuda_tile")
    return Input(damaged_file(rng.choice(files), rng, files), options)


def _text(rng: random.Random) -> Input:
    source = damaged(rng.choice(seeds.texts()), rng)
    return Input(source.encode(errors="replace"), CompileOptions("sm_90", emit="cuda_tile"))


def _lower_text(rng: random.Random) -> Input:
    """Text of a later stage, and all that is left to do with it."""
    text, gpu_name = rng.choice(seeds.lower_texts())
    emit = rng.choice(("llvm-dialect", "ptx", "ptx", "cubin"))
    return Input(damaged(text, rng).encode(errors="replace"), CompileOptions(gpu_name, emit=emit))


def _program(rng: random.Random) -> Input:
    """A whole compile, of a program that is damaged or not."""
    options = random_options(rng)
    if rng.random() < 0.4:
        files = seeds.bytecodes()
        data = rng.choice(files)
        return Input(damaged_file(data, rng, files) if rng.random() < 0.7 else data, options)
    text = rng.choice(seeds.texts())
    text = damaged(text, rng) if rng.random() < 0.7 else text
    return Input(text.encode(errors="replace"), options)


SUBJECTS = {
    "reader": Subject(_file, _read),
    "text": Subject(_text, _compile),
    "lower": Subject(_lower_text, _compile),
    "compile": Subject(_program, _compile),
}


def suffix_of(given: Input) -> str:
    """What a file with the input is called."""
    return ".tileirbc" if given.source.startswith(MAGIC) else ".mlir"
