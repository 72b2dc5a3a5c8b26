"""Tiles that loops beside each other read: kept in shared memory where the row fits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.row_loops import RowLoop
from tests.passes.nv_tileaa.scheduled_loads import after, finished, run, scheduled
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.driver import find_target
from tileiras.interpreter import InterpreterError
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa.generate_schedule import GenerateSchedulePass
from tileiras.planning.schedule import resident_tiles


def buffers(module) -> list[aa.CircularBufferOp]:
    """The circular buffers of a module."""
    return [op for op in module.walk() if isinstance(op, aa.CircularBufferOp)]


def promise_bounds_of_last_loads(module) -> None:
    """Loads of the second loop beyond the tensor are errors from here on."""
    first, _second = (op.parent_op() for op in finished(module))
    assert first is not None
    place = first
    while place is not None:
        for op in place.walk() if place is not first else ():
            if isinstance(op, aa.AsyncCopyOp):
                flags = [True] * len(op.indices)
                op.properties["inbounds"] = type(op.inbounds).from_list(op.inbounds.elt_type, flags)
        place = place.next_op


def test_loops_share_a_buffer() -> None:
    module = scheduled(RowLoop())
    [buffer] = buffers(module)
    assert [op.buffer for op in finished(module)] == [buffer.result] * 2
    assert buffer.stages.data == resident_tiles.MOST_STAGES


def test_a_row_that_fits_is_loaded_once() -> None:
    module = scheduled(RowLoop())
    promise_bounds_of_last_loads(module)
    run(module, RowLoop(), (0, 4, 1))


def test_a_row_that_does_not_fit_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_tiles, "LEAST_STAGES", 3)
    monkeypatch.setattr(resident_tiles, "MOST_STAGES", 3)
    kernel = RowLoop()
    module = scheduled(kernel)
    promise_bounds_of_last_loads(module)
    with pytest.raises(InterpreterError, match="promised to be in bounds"):
        run(module, kernel, (0, 4, 1))


@pytest.mark.parametrize("tiles", [1, 3, 16, 17, 22])
def test_rows_of_any_length(tiles: int) -> None:
    kernel = RowLoop(width=8)
    bounds = (0, tiles, 1)
    wanted = run(parse_module(kernel.text), kernel, bounds)
    np.testing.assert_array_equal(run(scheduled(kernel), kernel, bounds), wanted)


def weighted_rows(kernel: RowLoop) -> str:
    """The kernel with weights that all tile blocks load, in its second loop."""
    return kernel.text.replace(
        "%d = subf %x, %all",
        f"""%zero = constant <i32: 0> : tile<i32>
      %g, %h = load_view_tko weak %u[%zero, %j] token = %t
        : {kernel.view}, tile<i32> -> {kernel.tile}, token
      %e = mulf %x, %g : {kernel.wide}
      %d = subf %e, %all""",
    )


def test_what_is_expanded_is_not_scheduled_again():
    module = after(weighted_rows(RowLoop()), "tileas-expand-schedule")
    before = str(module)
    options = CompileOptions(gpu_name="sm_90")
    context = CompileContext(target=find_target(options), options=options)
    GenerateSchedulePass().apply(context, module)
    assert str(module) == before


def test_what_all_tile_blocks_load_gets_no_memory_beside_rows():
    kernel = RowLoop()
    weighted = weighted_rows(kernel)
    module = after(weighted, "tileas-expand-schedule")
    assert len(buffers(module)) == 1
    assert len(finished(module)) == 2
    assert sum(isinstance(op, aa.TiledLoadOp) for op in module.walk()) == 1
    wanted = run(parse_module(weighted), kernel, (0, 4, 1))
    np.testing.assert_array_equal(run(module, kernel, (0, 4, 1)), wanted)


@pytest.mark.parametrize(
    "kernel",
    [
        RowLoop(step="%by"),
        RowLoop(latency=4),
        RowLoop(width=8192),
    ],
    ids=["other bounds", "hints", "large tiles"],
)
def test_loops_with_buffers_of_their_own(kernel: RowLoop) -> None:
    found = buffers(scheduled(kernel))
    assert all(sum(1 for _ in buffer.result.uses) > 0 for buffer in found)
    loops = [
        {
            use.operation.parent_op()
            for use in buffer.result.uses
            if use.operation in finished_of(buffer)
        }
        for buffer in found
    ]
    assert all(len(users) == 1 for users in loops)


def finished_of(buffer: aa.CircularBufferOp) -> list[object]:
    """What reads a circular buffer."""
    uses = buffer.result.uses
    return [use.operation for use in uses if isinstance(use.operation, aa.ReadStageOp)]
