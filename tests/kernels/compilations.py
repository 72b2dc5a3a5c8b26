"""Kernels compiled for tests of specialised programs."""

from __future__ import annotations

from dataclasses import replace

from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions


def compiled(source: bytes, emit: str = "nv_tileas", **changes: object) -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    return compile_module(source, replace(options, **changes)).output.decode()
