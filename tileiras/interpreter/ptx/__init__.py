"""A machine that runs PTX text on the CPU, of any compiler, without a GPU.

`run_ptx` runs a kernel over its whole grid on numpy arrays and reports, with the line of the PTX,
faults, races, reads of unfinished copies, deadlocks. docs/ptx-machine.md says what it knows.
"""

from tileiras.interpreter.ptx.errors import PtxError, PtxRuntimeError, PtxSyntaxError
from tileiras.interpreter.ptx.launch import run_ptx
from tileiras.interpreter.ptx.state import Limits
from tileiras.interpreter.ptx.tensor_maps import TensorMap

__all__ = ["Limits", "PtxError", "PtxRuntimeError", "PtxSyntaxError", "TensorMap", "run_ptx"]
