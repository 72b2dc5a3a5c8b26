"""Pipelines, sequences and schedulers of `cutlass`: the interpreter and the PTX machine agree."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.coordinates import crd2idx
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.dialects.cutlass.pipelines import phase_of, stage_of
from tileiras.dialects.cutlass.values import PipelineState
from tileiras.driver import compile_module
from tileiras.errors import TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, Pointer, tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions


@cache
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


@pytest.mark.parametrize(("kind", "atom"), KINDS)
class TestAsking:
    """Whether a stage is ready is asked first, and waited for only if it was not."""

    def asking(self, kind: str, atom: str) -> str:
        """The program with both questions."""
        text = handed_on(kind, atom).replace(
            "cutlass.producer_acquire(%p, %s)",
            "%free = cutlass.producer_try_acquire(%p, %s)\n"
            "      cutlass.producer_acquire(%p, %s, %free)",
        )
        return text.replace(
            "cutlass.consumer_wait(%p, %s)",
            "%here = cutlass.consumer_try_wait(%p, %s)\n      cutlass.consumer_wait(%p, %s, %here)",
        )

    def test_in_the_machine(self, kind: str, atom: str) -> None:
        """All rows, in order; every question has a wait behind it."""
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        y = np.zeros_like(x)
        ptx = ptx_of(self.asking(kind, atom))
        run_ptx(ptx, [x, y, 5], (1, 1, 1))
        assert (y == x).all()
        plain = ptx_of(handed_on(kind, atom))
        asked = ptx.count("mbarrier.try_wait") - plain.count("mbarrier.try_wait")
        assert asked == 2

    def test_interpreted(self, kind: str, atom: str) -> None:
        """Where the answer is no at first."""
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        y = np.zeros_like(x)
        interpreted(self.asking(kind, atom), [row_major(x), row_major(y), np.int32(5)])
        assert (y == x).all()


CLUSTER = """cute.func @k(%map: !cute_nvgpu.tma_atom<f16, (64,16), 128>,
             %Y: !cute.tensor<f16, gmem, align<16>, (2,32,64,?):(2048,64,1,4096)>, %n: i32)
    threads 64 cluster (2,1,1) {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %high = cute.static() -> !cute.int<16>
  %wide = cute.static() -> !cute.int<64>
  %both = cute.static() -> !cute.int<3>
  %count = cute.to_int(%n)
  %warp = cute_nvgpu.warp_idx()
  %lane = cute_nvgpu.lane_idx()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %ts = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (32,64,2):(64,1,2048)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<tma_async, 2, 4096, (1,2)>
  cutlass.pipeline_init_wait()
  %brings = cute.equal(%warp, %zero)
  %reads = cute.equal(%warp, %one)
  cute.if %brings {
    %leads = cute_nvgpu.elect_sync()
    cute.if %leads {
      %tma = cute_nvgpu.make_exec_tma(%map)
      %row = cute.tuple_mul(%rank, %high)
      %half = cute.static() -> !cute.tile<[16:1;64:1]>
      %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
        cutlass.producer_acquire(%p, %s)
        %full = cutlass.producer_get_barrier(%p, %s)
        %stage = cutlass.state_index(%s)
        %cs = cute.make_coord(%stage) -> !cute.coord<(_,_,?)>
        %tile = cute.slice(%cs, %ts)
        %ch = cute.make_coord(%rank) -> !cute.coord<(?,0)>
        %part = cute.local_tile(%tile, %half, %ch)
        %x = cute.tuple_mul(%i, %wide)
        %corner = cute.make_coord(%x, %row) -> !cute.coord<(?,?)>
        cute_nvgpu.tma_load_multicast(%tma, %part, %full, %corner, %both)
        cutlass.producer_commit(%p, %s)
        %next = cutlass.advance(%s)
        cute.yield(%next)
      }
      cutlass.producer_tail(%p, %last)
    }
  }
  cute.if %reads {
    %vectors = cute.static() -> !cute.copy_atom<universal, 128>
    %start = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
    %last = cute.for %i = %zero to %count step %one carries (%s = %start) {
      cutlass.consumer_wait(%p, %s)
      %stage = cutlass.state_index(%s)
      %cs = cute.make_coord(%lane, %stage) -> !cute.coord<(?,_,?)>
      %line = cute.slice(%cs, %ts)
      %cy = cute.make_coord(%rank, %lane, %i) -> !cute.coord<(?,?,_,?)>
      %out = cute.slice(%cy, %Y)
      %r = cute.make_fragment_like(%line)
      cute.copy(%vectors, %line, %r)
      cute.copy(%vectors, %r, %out)
      cute_nvgpu.fence_proxy_async()
      cute_nvgpu.sync_warp()
      %leads = cute_nvgpu.elect_sync()
      cute.if %leads {
        cutlass.consumer_release(%p, %s, %zero)
        cutlass.consumer_release(%p, %s, %one)
      }
      %next = cutlass.advance(%s)
      cute.yield(%next)
    }
  }
  cute_nvgpu.cluster_arrive_relaxed()
  cute_nvgpu.cluster_wait()
  cute.return
}
"""


class TestPipelinesOfClusters:
    """Each of two CTAs brings half of a tile to both, and fills a stage when both have read it."""

    STEPS = 5

    def given(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, what each CTA has seen, and room for it."""
        a = np.random.default_rng(0).integers(-9, 10, (32, 64 * self.STEPS)).astype(np.float16)
        tiles = a.reshape(32, self.STEPS, 64).transpose(1, 0, 2)
        wanted = np.stack([tiles, tiles], axis=1)
        return a, wanted, np.zeros((self.STEPS, 2, 32, 64), np.float16)

    def test_in_the_machine(self) -> None:
        """Two stages, five tiles."""
        a, wanted, y = self.given()
        shape, step = (a.shape[1], a.shape[0]), (a.shape[1] * 2,)
        mapped = TensorMap(0, "f16", shape, step, (64, 16), swizzle="128B", array=a)
        run_ptx(ptx_of(CLUSTER), [mapped, y, self.STEPS, self.STEPS], (2, 1, 1))
        assert (y == wanted).all()

    def test_interpreted(self) -> None:
        """The same."""
        a, wanted, y = self.given()
        atom = TmaAtom("f16", (64, 16), 128)
        layout = Layout((2, 32, 64, self.STEPS), (2048, 64, 1, 4096))
        out = tensor_of(y.reshape(-1), layout, "f16")
        interpreted(CLUSTER, [MappedTensor(atom, a), out, np.int32(self.STEPS)], 2)
        assert (y == wanted).all()

    def test_who_does_not_tell_the_other_one_stops_it(self) -> None:
        """Its stages stay full."""
        a, _, y = self.given()
        text = CLUSTER.replace("        cutlass.consumer_release(%p, %s, %one)\n", "")
        shape, step = (a.shape[1], a.shape[0]), (a.shape[1] * 2,)
        mapped = TensorMap(0, "f16", shape, step, (64, 16), swizzle="128B", array=a)
        with pytest.raises(PtxRuntimeError, match="deadlock"):
            run_ptx(ptx_of(text), [mapped, y, self.STEPS, self.STEPS], (2, 1, 1))


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


DYNAMIC = """cute.func @k(%Y: !cute.tensor<i32, gmem, align<16>, (7,3,2):(1,7,21)>,
             %counter: !cute.ptr<i32, gmem, align<4>>, %m: i32, %n: i32, %l: i32) threads 1 {
  %zero = cute.static() -> !cute.int<0>
  %tid = cute.thread_idx<0>()
  %leads = cute.equal(%tid, %zero)
  %shape = cute.make_shape(%m, %n, %l) -> !cute.shape<(?,?,?)>
  %s = cutlass.make_tile_scheduler(%shape) -> !cutlass.tile_scheduler<1, n>
  %one = cute.constant 1 : i32
  %first = cutlass.initial_work(%s)
  %begin = cutlass.is_valid_work(%s, %first)
  %end, %last = cute.while carries (%more = %begin, %w = %first) {
    %tile = cutlass.get_current_work(%s, %w)
    cute.if %leads {
      %single = cute.static() -> !cute.tile<[1:1;1:1;1:1]>
      %part = cute.local_tile(%Y, %single, %tile)
      %r = cute.make_fragment_like(%part)
      cute.fill(%r, %one)
      %word = cute.static() -> !cute.copy_atom<universal, 32>
      cute.copy(%word, %r, %part)
    }
    %next = cutlass.fetch_next_work(%s, %counter)
    %valid = cutlass.is_valid_work(%s, %next)
    cute.yield(%valid, %next)
  }
  cute.return
}
"""


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_work_is_taken_while_there_is_some(kind: str) -> None:
    """Three CTAs of one thread take 42 tiles; each fetches once more than it needs."""
    y, counter = np.zeros(42, np.int32), np.zeros(1, np.int32)
    if kind == "machine":
        ptx = ptx_of(DYNAMIC)
        run_ptx(ptx, [y, counter, 7, 3, 2], (3, 1, 1))
        assert ptx.count("atom.relaxed.gpu.global.add.u32") == 1
    else:
        out = tensor_of(y, Layout((7, 3, 2), (1, 7, 21)), "i32")
        place = Pointer(counter, "i32", "gmem")
        interpreted(DYNAMIC, [out, place, *map(np.int32, (7, 3, 2))], 3)
    assert (y == 1).all() and counter[0] == 42


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
