"""Loads and launches compiled kernels on a GPU, times and compares them.

    from tileiras.runtime import Module
    with Module(cubin) as module:
        module.kernel("vector_add").launch((2, 1, 1), [a, b, out, np.int32(1500)])

Importing this loads no driver: the first call that needs the GPU does, and raises `GpuError` where
there is none. Times are in milliseconds, sizes in bytes, grids in tile blocks.
"""

from __future__ import annotations

from tileiras.runtime.arguments import pack_scalar
from tileiras.runtime.comparison import Comparison, compare, time_kernel
from tileiras.runtime.cuda_driver import GpuError, current_target, has_gpu
from tileiras.runtime.launching import Kernel, Module
from tileiras.runtime.streams import Graph, Stream, capture, time_calls

__all__ = [
    "Comparison",
    "GpuError",
    "Graph",
    "Kernel",
    "Module",
    "Stream",
    "capture",
    "compare",
    "current_target",
    "has_gpu",
    "pack_scalar",
    "time_calls",
    "time_kernel",
]
