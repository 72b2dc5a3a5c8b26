"""C functions that launch kernels, made from the launch information of the compiler.

    tileiras k.mlir --gpu-name=... --emit-launch-info=k.json -o k.cubin
    python -m tileiras.c_launcher k.json -o k.h

The header needs CUDA's driver API (`cuda.h`) only. It has one function for each kernel, which takes
the kernel's parameters in order, each of its own type, and does what a launch must: the block, and
the addresses of the parameters.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from tileiras import cli
from tileiras.command_line import INPUT, Option, color_option
from tileiras.errors import UsageError
from tileiras.file_io import read_input, write_output
from tileiras.runtime.launching import PORTABLE_CLUSTER

OPTIONS: tuple[Option, ...] = (
    Option("output-file", "Name of the header (standard output).", "FILE", ("o",)),
    color_option(),
    Option("help", "Show this message and exit.", aliases=("h",)),
)
_TYPES = {"f32": "float", "tf32": "float", "f64": "double"}
_BITS = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
"""What stands for types that C has not, by their bytes: f16, bf16 and f8 as their bits."""
_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long main register restrict return short signed sizeof static struct switch "
    "typedef union unsigned void volatile while"
)
"""What no function of C may be called, `main` too."""


def c_type(kind: str, size: int) -> str:
    """The type of a parameter of `size` bytes; raises UsageError for a size that C has not."""
    if kind.startswith("ptr<"):
        return "CUdeviceptr"
    if kind in _TYPES:
        return _TYPES[kind]
    if size not in _BITS:
        raise UsageError(f"a parameter of type {kind} has {size} bytes, expected 1, 2, 4 or 8")
    return _BITS[size].removeprefix("u") if re.fullmatch(r"i\d+", kind) else _BITS[size]


def c_name(name: str) -> str:
    """A name of C for a kernel: what C does not take becomes `_`."""
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return (
        f"launch_{found}"
        if re.search(rf"\b{found}\b", _KEYWORDS) or not found[:1].isalpha()
        else found
    )


def to_header(information: dict[str, Any]) -> str:
    """The header for all kernels of a launch information; UsageError for what is none."""
    try:
        kernels = information["kernels"]
        functions = [_function(kernel) for kernel in kernels]
        names = [c_name(kernel["name"]) for kernel in kernels]
    except (KeyError, TypeError, AttributeError) as error:
        found = f"the file has no launch information: {type(error).__name__} {error}"
        raise UsageError(found) from error
    for kernel, name in zip(kernels, names, strict=True):
        if names.count(name) > 1:
            raise UsageError(f"kernel '{kernel['name']}' and another are both '{name}' in C")
    head = "/* Made by tileiras from launch information; do not edit. */"
    return "\n".join([head, "#pragma once", "", *_INCLUDES, "", *functions])


_INCLUDES = ("#include <cuda.h>", "#include <stdint.h>")


_ALLOWING = [
    "  CUresult allowed = cuFuncSetAttribute(",
    "      function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);",
    "  if (allowed != CUDA_SUCCESS) return allowed;",
]
"""Lines for clusters that are not portable."""


def _function(kernel: dict[str, Any]) -> str:
    """One kernel's function."""
    parameters = kernel["parameters"]
    typed = [f"{c_type(one['type'], one['size'])} {one['name']}" for one in parameters]
    listed = ", ".join(
        ["CUfunction function", "unsigned grid_x", "unsigned grid_y", "unsigned grid_z"]
        + ["CUstream stream", *typed]
    )
    addresses = ", ".join(f"&{one['name']}" for one in parameters) or "0"
    block = ", ".join(map(str, kernel["block"]))
    types = ", ".join(one["type"] for one in parameters)
    allowed = _ALLOWING if kernel["cluster_size"] > PORTABLE_CLUSTER else []
    return "\n".join(
        [
            f"/* {kernel['name']}({types}) for {kernel['target']}; the grid is in tile blocks. */",
            f"static inline CUresult {c_name(kernel['name'])}({listed}) {{",
            f"  void *parameters[] = {{{addresses}}};",
            *allowed,
            f"  return cuLaunchKernel(function, grid_x, grid_y, grid_z, {block}, 0, stream,",
            "                        parameters, 0);",
            "}",
            "",
        ]
    )


def run(argv: Sequence[str]) -> int:
    """The command with these arguments; returns the exit code and never raises."""
    return cli.guarded("tileiras.c_launcher", argv, _run)


def _run(argv: Sequence[str]) -> None:
    """The body of the command."""
    summary = "Writes a C header that launches the kernels of a launch information."
    values = cli.parse_command_line("python -m tileiras.c_launcher", argv, OPTIONS, summary)
    if INPUT not in values:
        raise UsageError("no input file provided")
    path = values[INPUT][0]
    try:
        information = json.loads(read_input(path))
    except ValueError as error:
        raise UsageError(f"'{path}' is no JSON: {error}") from error
    write_output(values.get("output-file", ["-"])[-1], to_header(information).encode())


if __name__ == "__main__":
    cli.run_as_process(run, sys.argv[1:])
