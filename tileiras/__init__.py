"""An open compiler for CUDA Tile IR: bytecode or text in, GPU machine code out.

`tileiras.compile` is the compiler as a function. Names are imported when they are asked for:
importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs more than the rest of this file

if TYPE_CHECKING:
    from typing import Any

    from tileiras.api import CompiledKernel as CompiledKernel
    from tileiras.api import compile as compile

__version__ = "0.1.0"

_FROM_API = ("CompiledKernel", "compile")
_PACKAGES = ("interpreter", "runtime")


def __getattr__(name: str) -> Any:
    if name in (*_FROM_API, *_PACKAGES):
        from importlib import import_module

        if name in _FROM_API:
            return getattr(import_module("tileiras.api"), name)
        return import_module(f"tileiras.{name}")
    raise AttributeError(f"module 'tileiras' has no attribute '{name}'")
