"""A numpy interpreter of Tile IR: it says what a program means, without a GPU.

`run_entry` runs an entry over its whole grid on numpy arrays. It is the reference that compiled
kernels are tested against, and a way to debug a kernel; speed is not its purpose. numpy and
ml_dtypes (extras `dev` and `gpu`) are needed here and nowhere on the compile path.
"""

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.execution import run_entry
from tileiras.interpreter.memory import DeviceBuffer, SimulatedMemory
from tileiras.interpreter.state import AssertionFailure, RunLog

__all__ = [
    "AssertionFailure",
    "DeviceBuffer",
    "InterpreterError",
    "RunLog",
    "SimulatedMemory",
    "run_entry",
]
