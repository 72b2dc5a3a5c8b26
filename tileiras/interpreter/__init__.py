"""A numpy interpreter of Tile IR: it says what a program means, without a GPU.

`run_entry` runs an entry over its whole grid on numpy arrays. It is the reference that compiled
kernels are tested against, and a way to debug a kernel; speed is not its purpose. numpy and
ml_dtypes (extras `dev` and `gpu`) are needed here and nowhere on the compile path.

Names are imported when they are asked for, so that the PTX machine in `interpreter.ptx` loads
nothing of the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileiras.interpreter.debugger import Debugger, Stop
    from tileiras.interpreter.errors import InterpreterError
    from tileiras.interpreter.execution import run_entry
    from tileiras.interpreter.memory import DeviceBuffer, SimulatedMemory
    from tileiras.interpreter.state import AssertionFailure, RunLog

__all__ = [
    "AssertionFailure",
    "Debugger",
    "DeviceBuffer",
    "InterpreterError",
    "RunLog",
    "SimulatedMemory",
    "Stop",
    "run_entry",
]

_PLACES = {
    "AssertionFailure": "state",
    "Debugger": "debugger",
    "DeviceBuffer": "memory",
    "InterpreterError": "errors",
    "RunLog": "state",
    "SimulatedMemory": "memory",
    "Stop": "debugger",
    "run_entry": "execution",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{place}"), name)
