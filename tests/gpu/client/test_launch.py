"""The unmodified client compiles with our `tileiras` and launches on the GPU.

Each result is held against float64, and against the interpreter's run of the very bytecode that the
client handed to the compiler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ct = pytest.importorskip("cuda.tile", reason="cuda-tile is not installed")
np = pytest.importorskip("numpy")

from tileiras.bytecode.reader import read_module  # noqa: E402
from tileiras.dialects.cuda_tile.structure import EntryOp  # noqa: E402

from .bytecode import interpret  # noqa: E402
from .cases import KernelCase, Output, all_cases  # noqa: E402
from .comparison import compare  # noqa: E402

pytestmark = pytest.mark.gpu


def launch(case: KernelCase) -> dict[int, Any]:
    """Runs a case with the client; the written arrays by argument position."""
    torch = pytest.importorskip("torch")
    from .torch_arrays import to_numpy, to_torch

    arguments = [to_torch(a) if isinstance(a, np.ndarray) else a for a in case.arguments]
    stream = torch.cuda.current_stream()
    ct.launch(stream, case.grid, case.kernel, (*arguments, *case.constants))
    torch.cuda.synchronize()
    return {
        out.position: to_numpy(arguments[out.position], case.arguments[out.position].dtype)
        for out in case.outputs
    }


def compiled_entries(paths: set[Path]) -> list[bytes]:
    """The captured modules that hold an entry (version probes hold none), in name order."""
    modules = [path.read_bytes() for path in sorted(paths)]
    return [
        data for data in modules if any(isinstance(op, EntryOp) for op in read_module(data).walk())
    ]


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.name}-{case.shape}")
def test_kernel_on_the_gpu(case: KernelCase, compiler_on_path: Any, table: list[Any]):
    before = compiler_on_path.inputs()
    results = launch(case)
    rows = [compare(case, out, results[out.position]) for out in case.outputs]
    table += rows
    assert all(row.is_ok for row in rows), rows
    captured = compiled_entries(compiler_on_path.inputs() - before)
    if captured:  # else the client reused the kernel that an earlier case compiled
        again = case.fresh()
        interpret(again, captured[-1])
        for out, row in zip(case.outputs, rows):
            interpreted = again.arguments[out.position]
            as_reference = Output(out.position, interpreted.astype(np.float64), 2 * out.bound)
            assert compare(case, as_reference, results[out.position]).is_ok, row
