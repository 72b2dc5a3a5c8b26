"""What fuzzing starts from: programs of every operation, at every stage, as text and bytecode."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.bytecode.files import CORPUS
from tests.bytecode.kernels import kernel as kernel_of_rows
from tests.kernels import (
    cases_control_flow,
    cases_elementwise,
    cases_memory,
    cases_tiles,
)
from tests.kernels.cuda_tile_text import kernel
from tileiras.bytecode.format import VERSIONS
from tileiras.bytecode.opcodes import OPERATIONS
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.driver import compile_module
from tileiras.errors import TileirasError
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples"
LOWER_STAGES = ("nv_tileaa", "nv_tileas", "llvm-dialect")
LARGEST_CORPUS_FILE = 3000
"""Bytes: small kernels are read in a millisecond and have all that large ones have."""


@cache
def accepted() -> list[str]:
    """Programs of cuda_tile: every operation, and the examples."""
    bodies = [
        kernel(body)
        for chapter in (cases_elementwise, cases_tiles, cases_memory, cases_control_flow)
        for bodies in chapter.ACCEPTED.values()
        for body in bodies
    ]
    examples = [path.read_text() for path in sorted(EXAMPLES.glob("*.mlir"))]
    return [*bodies, *cases_control_flow.ACCEPTED_MODULES, *examples]


@cache
def texts() -> list[str]:
    """Those programs, some in generic form, some with locations."""
    bodies = accepted()
    generic = [print_module(parse_module(text), generic=True) for text in bodies[::5]]
    located = [print_module(parse_module(text), debug_info=True) for text in bodies[::7]]
    return [*bodies, *generic, *located]


@cache
def bytecodes() -> list[bytes]:
    """Files with one operation, with all of a version, of the programs, and of real kernels."""
    files = [
        write_module(kernel_of_rows(row, version=version), version)
        for version in VERSIONS
        for row in OPERATIONS
        if row.since <= version
    ]
    files += [
        write_module(kernel_of_rows(*rows, version=version), version)
        for version in VERSIONS
        if (rows := [row for row in OPERATIONS if row.since <= version])
    ]
    files += [write_module(parse_module(text), VERSIONS[-1]) for text in accepted()]
    real = [path.read_bytes() for path in sorted(CORPUS.glob("*.tileirbc"))]
    return files + [data for data in real if len(data) < LARGEST_CORPUS_FILE]


@cache
def lower_texts() -> list[tuple[str, str]]:
    """Texts of the stages below with the target that they were made for."""
    found = []
    sources = [path.read_bytes() for path in sorted(EXAMPLES.glob("*.mlir"))]
    sources += [text.encode() for text in accepted()[::9]]
    for number, source in enumerate(sources):
        for gpu_name in ("sm_90", "sm_80", "sm_100")[: 3 if number < 4 else 1]:
            found += [
                (text, gpu_name)
                for stage in LOWER_STAGES
                if (text := _lowered(source, gpu_name, stage))
            ]
    return found


def _lowered(source: bytes, gpu_name: str, stage: str) -> str:
    """The text of a stage; empty where the program cannot be compiled for the target."""
    try:
        return compile_module(source, CompileOptions(gpu_name, emit=stage)).output.decode()
    except TileirasError:
        return ""
