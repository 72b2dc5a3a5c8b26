"""Runs a kernel of a PTX file on numpy arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.errors import PtxError, PtxRuntimeError
from tileiras.interpreter.ptx.families import decode_kernel
from tileiras.interpreter.ptx.memory import ARENA, Arena
from tileiras.interpreter.ptx.parser import parse_module
from tileiras.interpreter.ptx.program import Kernel, align_of, link, size_of
from tileiras.interpreter.ptx.schedule import run_grid
from tileiras.interpreter.ptx.state import Grid, Limits, Triple
from tileiras.interpreter.ptx.syntax import Module, Sum, Variable
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.interpreter.ptx.types import TYPES

_SLACK = 1 << 22
"""Bytes of global memory beyond what arguments and variables take (alignment, gaps)."""


def run_ptx(
    text: str,
    arguments: Sequence[Any],
    grid: Triple = (1, 1, 1),
    block: Triple | None = None,
    *,
    kernel: str | None = None,
    cluster: Triple | None = None,
    dynamic_shared: int = 0,
    limits: Limits | None = None,
    checks_races: bool = True,
    filename: str = "ptx",
) -> Grid:
    """Runs a kernel over its grid; arrays among the arguments are changed in place.

    `arguments` follow the kernel's parameters: a contiguous numpy array for a pointer, an int or
    float for a number, bytes (or a `TensorMap`) for a structure passed by value, a `TensorMap` for
    a pointer to one. `block` and `cluster` may come from the directives `.reqntid` and
    `.reqnctapercluster`. PtxError, with the line, for PTX that is
    malformed and for programs that fault.
    """
    try:
        module = parse_module(text)
        linked = link(module, kernel or _only_kernel(module))
        return _launch(
            module,
            linked,
            arguments,
            grid,
            block,
            cluster,
            dynamic_shared,
            limits or Limits(),
            checks_races,
        )
    except PtxError as error:
        raise error.in_file(filename) from None


def _only_kernel(module: Module) -> str:
    entries = [name for name, function in module.functions.items() if function.is_entry]
    if len(entries) != 1:
        raise PtxRuntimeError(f"the file has {len(entries)} kernels: name one")
    return entries[0]


def _launch(
    module: Module,
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: Triple,
    block: Triple | None,
    cluster: Triple | None,
    dynamic_shared: int,
    limits: Limits,
    checks_races: bool,
) -> Grid:
    steps = decode_kernel(kernel)
    block = _dimensions(kernel, block, ".reqntid", "a block")
    if len(arguments) != len(kernel.parameters):
        message = f"'{kernel.name}' has {len(kernel.parameters)} parameters, found "
        raise PtxRuntimeError(f"{message}{len(arguments)} arguments")
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    sizes = sum(value.nbytes + 1024 for value in arrays)
    sizes += sum(size_of(variable) + align_of(variable) for variable in _variables(kernel))
    maps = [value.array for value in arguments if isinstance(value, TensorMap)]
    sizes += sum(getattr(array, "nbytes", 0) + 2048 for array in maps)
    memory = Arena(sizes + kernel.parameter_bytes + _SLACK)
    addresses = _place_variables(kernel, memory)
    parameters_at = memory.allocate(max(kernel.parameter_bytes, 1))
    places = _write_arguments(kernel, memory, parameters_at, arguments)
    shape = cluster or _directive(kernel, ".reqnctapercluster") or (1, 1, 1)
    counts = _cluster_counts(kernel, grid, shape)
    run = Grid(
        kernel,
        counts,
        block,
        shape,
        memory,
        parameters_at,
        addresses,
        dynamic_shared,
        limits,
        has_clusters=".explicitcluster" in kernel.directives or shape != (1, 1, 1),
        checks_races=checks_races,
        steps=steps,
    )
    x, y, z = (range(0, extent, size) for extent, size in zip(counts, shape))
    run.waiting = deque((i, j, k) for k in z for j in y for i in x)
    run.waiting = deque((i // shape[0], j // shape[1], k // shape[2]) for i, j, k in run.waiting)
    with np.errstate(all="ignore"):
        run_grid(run)
    for array, address in places:
        start = address - ARENA
        array.reshape(-1).view(np.uint8)[...] = memory.data[start : start + array.nbytes]
    return run


def _cluster_counts(kernel: Kernel, grid: Triple, shape: Triple) -> Triple:
    """The grid in CTAs; with `.blocksareclusters` it is given in clusters."""
    if ".blocksareclusters" in kernel.directives:
        return (grid[0] * shape[0], grid[1] * shape[1], grid[2] * shape[2])
    if any(extent % size for extent, size in zip(grid, shape)):
        raise PtxRuntimeError(f"a grid of {grid} is no multiple of the cluster {shape}")
    return grid


def _directive(kernel: Kernel, name: str) -> Triple | None:
    numbers = kernel.directives.get(name)
    if not numbers:
        return None
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _dimensions(kernel: Kernel, given: Triple | None, directive: str, what: str) -> Triple:
    required = _directive(kernel, directive)
    if given is not None and required is not None and given != required:
        raise PtxRuntimeError(f"{what} of {given}, but the kernel says {directive} {required}")
    found = given or required
    if found is None:
        raise PtxRuntimeError(f"the kernel does not say {directive}: give {what}")
    if not 1 <= found[0] * found[1] * found[2] <= 1024:
        raise PtxRuntimeError(f"{what} of {found}, expected 1 to 1024 threads")
    return found


def _variables(kernel: Kernel) -> list[Variable]:
    return list(kernel.module_variables.values())


def _place_variables(kernel: Kernel, memory: Arena) -> dict[str, int]:
    """Allocates `.global` and `.const` variables and writes their initial values."""
    addresses: dict[str, int] = {}
    for name, variable in kernel.module_variables.items():
        size = size_of(variable)
        addresses[name] = memory.allocate(max(size, 1), align_of(variable))
    for name, variable in kernel.module_variables.items():
        if variable.initial is not None:
            data = _initial_bytes(variable.initial, variable, addresses)
            start = addresses[name] - ARENA
            memory.data[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return addresses


def _initial_bytes(value: Any, variable: Variable, addresses: dict[str, int]) -> bytes:
    type_ = TYPES[variable.type]
    if isinstance(value, list):
        return b"".join(_initial_bytes(item, variable, addresses) for item in value)
    if isinstance(value, Sum):
        known = addresses.get(value.name.text)
        if known is None:
            message = f"'{value.name.text}' has no address that is known here"
            raise PtxRuntimeError(message, variable.line)
        return int(known + value.offset).to_bytes(type_.bytes, "little")
    if value.bits:
        return int(value.pattern).to_bytes(type_.bytes, "little")
    if type_.seen.kind == "f":
        return np.array([value.value], type_.seen).tobytes()
    return (int(value.value) % (1 << type_.bits)).to_bytes(type_.bytes, "little")


def _write_arguments(
    kernel: Kernel, memory: Arena, parameters_at: int, arguments: Sequence[Any]
) -> list[tuple[np.ndarray, int]]:
    """Writes the parameters' bytes; arrays get memory of their own."""
    places: list[tuple[np.ndarray, int]] = []
    for value, (variable, offset) in zip(arguments, kernel.parameters):
        data = _argument_bytes(value, variable, memory, places)
        start = parameters_at - ARENA + offset
        memory.data[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return places


def _argument_bytes(
    value: Any, variable: Variable, memory: Arena, places: list[tuple[np.ndarray, int]]
) -> bytes:
    size = size_of(variable)
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise PtxRuntimeError(f"the array for '{variable.name}' is not contiguous")
        if size != 8:
            raise PtxRuntimeError(f"an array for '{variable.name}', which has {size} bytes")
        address = memory.allocate(max(value.nbytes, 1))
        start = address - ARENA
        memory.data[start : start + value.nbytes] = value.reshape(-1).view(np.uint8)
        places.append((value, address))
        return address.to_bytes(8, "little")
    if hasattr(value, "to_bytes_at"):
        data = value.to_bytes_at(lambda array: _known_place(array, places, memory))
        if size == 8:
            data = _place_bytes(data, memory).to_bytes(8, "little")
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, float):
        data = np.array([value], TYPES[variable.type].seen).tobytes()
        if TYPES[variable.type].seen.kind != "f":
            data = np.array([value], {2: "f2", 4: "f4", 8: "f8"}[size]).tobytes()
    elif isinstance(value, int | np.integer):
        data = (int(value) % (1 << (8 * size))).to_bytes(size, "little")
    else:
        raise PtxRuntimeError(f"an argument of type {type(value).__name__}")
    if len(data) != size:
        raise PtxRuntimeError(f"{len(data)} bytes for '{variable.name}', expected {size}")
    return data


def _place_bytes(data: bytes, memory: Arena) -> int:
    """The address of bytes in global memory: those of a tensor map to which a pointer leads."""
    address = memory.allocate(len(data), len(data))
    start = address - ARENA
    memory.data[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return address


def _known_place(array: np.ndarray, places: list[tuple[np.ndarray, int]], memory: Arena) -> int:
    """The address of an array, which is allocated if no argument had it before."""
    for known, address in places:
        if known is array:
            return address
    address = memory.allocate(max(array.nbytes, 1))
    start = address - ARENA
    memory.data[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
    places.append((array, address))
    return address
