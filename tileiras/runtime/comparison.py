"""Two kernels on the same arguments: do they agree, and how long does each take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tileiras.runtime.arguments import HostCopy, is_host_array
from tileiras.runtime.cuda_driver import GpuError
from tileiras.runtime.launching import Grid, Kernel
from tileiras.runtime.streams import time_calls


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; times in milliseconds, one a launch.

    `largest_errors` has for each argument that is an array, by its position, the largest absolute
    difference between the two results (infinity where one is NaN or infinite and the other not).
    """

    agrees: bool
    largest_errors: dict[int, float]
    first_times: tuple[float, ...]
    second_times: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """How many times as long the second kernel takes, by the medians."""
        return median(self.second_times) / median(self.first_times)


def compare(
    first: Kernel,
    second: Kernel,
    grid: Grid,
    args: Sequence[Any],
    relative: float = 0.0,
    absolute: float = 0.0,
    repeats: int = 20,
    second_grid: Grid | None = None,
) -> Comparison:
    """Launches two kernels on copies of the same numpy arguments; compares results, takes times.

    Results agree where they differ by `absolute + relative * |second|` at most, and NaN with NaN.
    `args` are left as they are. Raises GpuError where there is no array to compare or a launch
    fails.
    """
    if not any(is_host_array(value) for value in args):
        raise GpuError("there is nothing to compare: no argument is a numpy array")
    outcomes: list[list[Any]] = []
    for kernel, blocks in ((first, grid), (second, second_grid or grid)):
        copied = [value.copy() if is_host_array(value) else value for value in args]
        kernel.launch(blocks, copied)
        outcomes.append(copied)
    agrees, errors = True, dict[int, float]()
    for position, (one, other) in enumerate(zip(*outcomes)):
        if is_host_array(one):
            same, errors[position] = difference(one, other, relative, absolute)
            agrees = agrees and same
    times = [
        time_kernel(kernel, blocks, args, repeats)
        for kernel, blocks in ((first, grid), (second, second_grid or grid))
    ]
    return Comparison(agrees, errors, times[0], times[1])


def difference(mine: Any, theirs: Any, relative: float, absolute: float) -> tuple[bool, float]:
    """Whether two numpy arrays agree as `compare` says, and the largest absolute difference."""
    import numpy as np

    first, second = (np.asarray(array).astype(np.float64) for array in (mine, theirs))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(first - second))
        distance = np.where(np.isfinite(distance), distance, np.inf)
        allowed = absolute + relative * np.where(np.isfinite(second), np.abs(second), 0.0)
    return bool((distance <= allowed).all()), float(distance.max(initial=0.0))


def time_kernel(
    kernel: Kernel, grid: Grid, args: Sequence[Any], repeats: int = 20
) -> tuple[float, ...]:
    """The milliseconds of launches on numpy arguments that are copied to the GPU once."""
    copies: list[HostCopy] = []
    ready: list[Any] = []
    try:
        for position, value in enumerate(args):
            if is_host_array(value):
                copies.append(HostCopy.upload(value, f"argument {position} of '{kernel.name}'"))
                ready.append(_OnGpu(copies[-1].address))
            else:
                ready.append(value)
        return tuple(time_calls(lambda: kernel.launch(grid, ready), repeats=repeats))
    finally:
        for copy in copies:
            copy.free()


@dataclass(frozen=True)
class _OnGpu:
    """An address as an argument that every pointer parameter takes."""

    address: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of bytes at the address."""
        return {"data": (self.address, False), "shape": (1,), "typestr": "|u1", "version": 3}
