"""Pipelines, sequences and schedulers of `cutlass`: the interpreter and the PTX machine agree."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.coordinates import crd2idx
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cutlass.pipelines import phase_of, stage_of
from tileiras.dialects.cutlass.values import PipelineState
from tileiras.driver import compile_module
from tileiras.errors import TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions


def ptx_of(text: str, target: str = "sm_90") -> str:
    """The PTX of a program."""
    options = CompileOptions(gpu_name=target, emit="ptx")
    return compile_module(text.encode(), options).output.decode()


def row_major(array: np.ndarray) -> Any:
    """A matrix of f32 as an argument."""
    rows, columns = array.shape
    return tensor_of(array.reshape(-1), Layout((rows, columns), (columns, 1)), "f32")


def interpreted(text: str, arguments: list[Any], grid: int = 1) -> None:
    """Runs kernel `k` thread by thread."""
    run_kernel(parse_text(text), "k", arguments, (grid, 1, 1))


HANDED_ON = """cute.func @k(%X: !cute.tensor<f32, gmem, align<16>, (5,32):(32,1)>,
                       %Y: !cute.tensor<f32, gmem, align<16>, (5,32):(32,1)>, %n: i32) threads 64 {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %count = cute.to_int(%n)
  %word = cute.static() -> !cute.copy_atom<KIND, 32>
  %plain = cute.static() -> !cute.copy_atom<universal, 32>
  %cells = cute.alloc() -> !cute.tensor<f32, smem, align<16>, (3,32):(32,1)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 6:1>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<PIPELINE, 3, 0, (32,32)>
  cutlass.pipeline_init_wait()
  %writes = cute.equal(%warp, %zero)
  %reads = cute.equal(%warp, %one)
  cute.if %writes {
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<3, producer>
    %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
      cutlass.producer_acquire(%p, %s)
      %stage = cutlass.state_index(%s)
      %from = cute.make_coord(%i, %lane) -> !cute.coord<(?,?)>
      %to = cute.make_coord(%stage, %lane) -> !cute.coord<(?,?)>
      %cell = cute.static() -> !cute.tile<[1:1;1:1]>
      %x = cute.local_tile(%X, %cell, %from)
      %y = cute.local_tile(%cells, %cell, %to)
      cute.copy(%word, %x, %y)
      cutlass.producer_commit(%p, %s)
      %next = cutlass.advance(%s)
      cute.yield(%next)
    }
    cutlass.producer_tail(%p, %last)
  }
  cute.if %reads {
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<3, consumer>
    %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
      cutlass.consumer_wait(%p, %s)
      %stage = cutlass.state_index(%s)
      %from = cute.make_coord(%stage, %lane) -> !cute.coord<(?,?)>
      %to = cute.make_coord(%i, %lane) -> !cute.coord<(?,?)>
      %x = cute.load(%cells, %from) : f32
      cute.store(%x, %Y, %to)
      cutlass.consumer_release(%p, %s)
      %next = cutlass.advance(%s)
      cute.yield(%next)
    }
  }
  cute.return
}
"""


def handed_on(kind: str, atom: str) -> str:
    """A warp writes five rows into three stages, another one reads them."""
    lines = HANDED_ON.replace("PIPELINE", kind).replace("KIND", atom)
    copied = "      cute.copy(%word, %x, %y)\n"
    if atom == "universal":
        through = (
            "      %r = cute.make_fragment_like(%x)\n      cute.copy(%word, %x, %r)\n"
            "      cute.copy(%word, %r, %y)\n"
        )
        lines = lines.replace(copied, through)
    return lines


KINDS = [("async", "universal"), ("cp_async", "cp_async")]


@pytest.mark.parametrize(("kind", "atom"), KINDS)
class TestPipelines:
    """Whose number of stages is no power of two and no divisor of the rounds."""

    def test_rows_arrive_in_the_machine(self, kind: str, atom: str) -> None:
        """All of them, in order."""
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        y = np.zeros_like(x)
        run_ptx(ptx_of(handed_on(kind, atom)), [x, y, 5], (1, 1, 1))
        assert (y == x).all()

    def test_rows_arrive_in_the_interpreter(self, kind: str, atom: str) -> None:
        """The same."""
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        y = np.zeros_like(x)
        interpreted(handed_on(kind, atom), [row_major(x), row_major(y), np.int32(5)])
        assert (y == x).all()

    @pytest.mark.parametrize("call", ["producer_acquire(%p, %s)", "consumer_wait(%p, %s)"])
    def test_a_wait_that_is_missing_is_found(self, kind: str, atom: str, call: str) -> None:
        """As a race, or as arrivals that are too many."""
        text = handed_on(kind, atom).replace(f"      cutlass.{call}\n", "")
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        with pytest.raises(PtxRuntimeError):
            run_ptx(ptx_of(text), [x, np.zeros_like(x), 5], (1, 1, 1))

    def test_a_release_that_is_missing_stops_the_producer(self, kind: str, atom: str) -> None:
        """After three rows; both say so."""
        text = handed_on(kind, atom).replace("      cutlass.consumer_release(%p, %s)\n", "")
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        with pytest.raises(PtxRuntimeError, match="deadlock"):
            run_ptx(ptx_of(text), [x, np.zeros_like(x), 5], (1, 1, 1))
        arguments = [row_major(x), row_major(np.zeros_like(x)), np.int32(5)]
        with pytest.raises(InterpreterError, match="nobody ends the phase") as raised:
            interpreted(text, arguments)
        assert raised.value.location is not None


@pytest.mark.parametrize(("role", "first"), [("producer", 1), ("consumer", 0)])
def test_states_go_round(role: str, first: int) -> None:
    """The stage, and the parity, which begins with 1 for producers."""
    states = [PipelineState(3, role, number) for number in range(7)]
    assert [stage_of(state) for state in states] == [0, 1, 2, 0, 1, 2, 0]
    assert [phase_of(state) for state in states] == [(n // 3 + first) % 2 for n in range(7)]


ORDER = """cute.func @k(%Y: !cute.tensor<f32, gmem, align<16>, (12):(1)>, %n: i32) threads 96 {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %three = cute.static() -> !cute.int<3>
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %count = cute.to_int(%n)
  %first = cute.equal(%lane, %zero)
  %step = cute.constant 1.0 : f32
  %none = cute.constant 0.0 : f32
  %cells = cute.alloc() -> !cute.tensor<f32, smem, align<4>, 2:1>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 6:1>
  %q = cutlass.make_sequence_barrier(%bars) -> !cutlass.sequence_barrier<2, 3, 1>
  cute.store(%none, %cells, %zero)
  cute.store(%none, %cells, %one)
  cutlass.pipeline_init_wait()
  cute.if %first {
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
      %stage = cutlass.state_index(%s)
      %single = cute.static() -> !cute.tile<[1:1]>
      %at = cute.make_coord(%stage) -> !cute.coord<(?)>
      %cell = cute.local_tile(%cells, %single, %at)
      %r = cute.make_fragment_like(%cell)
      %word = cute.static() -> !cute.copy_atom<universal, 32>
      %ones = cute.make_fragment_like(%cell)
      cute.fill(%ones, %step)
      cutlass.sequence_wait(%q, %warp, %s)
      cute.copy(%word, %cell, %r)
      %x = cute.load(%r, %zero) : f32
      %row = cute.tuple_mul(%i, %three)
      %place = cute.tuple_add(%row, %warp)
      cute.store(%x, %Y, %place)
      cute.add(%r, %ones, %r)
      cute.copy(%word, %r, %cell)
      cutlass.sequence_arrive(%q, %warp, %s)
      %next = cutlass.advance(%s)
      cute.yield(%next)
    }
  }
  cute.return
}
"""


class TestSequences:
    """Three warps pass two places in turn, four times."""

    def test_groups_pass_in_order(self) -> None:
        """At each place warp w is the one after 3 r + w others in its round r, in both."""
        for kind in ("machine", "interpreter"):
            y = np.full(12, -1, np.float32)
            if kind == "machine":
                run_ptx(ptx_of(ORDER), [y, 4], (1, 1, 1))
            else:
                interpreted(ORDER, [tensor_of(y, Layout(12, 1), "f32"), np.int32(4)])
            assert y.tolist() == [3 * (i // 2) + warp for i in range(4) for warp in range(3)]

    def test_without_waiting_there_is_a_race(self) -> None:
        """Or arrivals that are too many."""
        text = ORDER.replace("      cutlass.sequence_wait(%q, %warp, %s)\n", "")
        with pytest.raises(PtxRuntimeError):
            run_ptx(ptx_of(text), [np.zeros(12, np.float32), 4], (1, 1, 1))


SCHEDULED = """cute.func @k(%X: !cute.tensor<f32, gmem, align<16>, (SIZE):(1)>,
                       %Y: !cute.tensor<f32, gmem, align<16>, LAYOUT>,
                       %m: i32, %n: i32, %l: i32) threads 1 {
  %shape = cute.make_shape(%m, %n, %l) -> !cute.shape<(?,?,?)>
  %s = cutlass.make_tile_scheduler(%shape) -> !cutlass.tile_scheduler<SCHEDULER>
  %first = cutlass.initial_work(%s)
  %end = cutlass.work_count(%s)
  %step = cutlass.work_step(%s)
  cute.for %w = %first to %end step %step {
    %tile = cutlass.get_current_work(%s, %w)
    %x = cute.load(%X, %w) : f32
    cute.store(%x, %Y, %tile)
  }
  cute.return
}
"""
SCHEDULES = [(1, "m"), (1, "n"), (2, "m"), (3, "n"), (16, "n")]


def layout_of_cutlass(tiles: tuple[int, int, int], swizzle: int, raster: str) -> Layout:
    """The layout of StaticPersistentTileScheduler: (m,n,l) -> number of the work."""
    m, n, batches = tiles
    if raster == "m":
        groups = -(-n // swizzle)
        shape = (m, (swizzle, groups), batches)
        return Layout(shape, (swizzle, (1, swizzle * m), swizzle * m * groups))
    groups = -(-m // swizzle)
    shape = ((swizzle, groups), n, batches)
    return Layout(shape, ((1, swizzle * n), swizzle, swizzle * n * groups))


@pytest.mark.parametrize("tiles", [(5, 3, 1), (4, 8, 2), (1, 7, 3)])
@pytest.mark.parametrize(("swizzle", "raster"), SCHEDULES)
@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_tiles_are_those_of_cutlass(
    tiles: tuple[int, int, int], swizzle: int, raster: str, kind: str
) -> None:
    """Three CTAs write the number of each work at its tile; with whole groups, and each once."""
    layout = layout_of_cutlass(tiles, swizzle, raster)
    size, extents = layout.static_size, [mode.static_size for mode in layout.modes]
    found = Layout.compact(tuple(extents))
    text = SCHEDULED.replace("SCHEDULER", f"{swizzle}, {raster}").replace("LAYOUT", str(found))
    text = text.replace("SIZE", str(size))
    x, y = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
    if kind == "machine":
        run_ptx(ptx_of(text), [x, y, *tiles], (3, 1, 1))
    else:
        arguments = [tensor_of(x, Layout(size, 1), "f32"), tensor_of(y, found, "f32")]
        interpreted(text, [*arguments, *map(np.int32, tiles)], 3)
    for place in product(*map(range, extents)):
        assert y[int(str(crd2idx(place, found)))] == crd2idx(place, layout)


BAD = "cute.func @k() threads 32 {{\n{}\ncute.return\n}}".format
STORAGE = "%b = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>\n"


@pytest.mark.parametrize(
    ("kind", "size", "target"),
    [
        ("async", 0, "sm_80"),
        ("tma_async", 64, "sm_80"),
        ("tma_umma", 64, "sm_90"),
        ("umma_async", 0, "sm_120"),
    ],
)
def test_a_target_that_lacks_a_pipeline_is_told_who_has_it(
    kind: str, size: int, target: str
) -> None:
    """With its place."""
    made = f"%p = cutlass.make_pipeline(%b) -> !cutlass.pipeline<{kind}, 2, {size}, (1,1)>"
    with pytest.raises(TargetError, match=f"{target} has no pipeline of kind {kind}") as raised:
        ptx_of(BAD(STORAGE + made), target)
    assert raised.value.location is not None
    assert raised.value.location.line == 3
