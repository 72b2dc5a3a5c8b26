"""Clusters and registers of warpgroups in CuTe text: the interpreter and the PTX machine agree."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.driver import compile_module
from tileiras.errors import CompileError, TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions


@cache
def compiled(text: str, target: str = "sm_90", emit: str = "ptx") -> bytes:
    """The output for a program's text."""
    return compile_module(text.encode(), CompileOptions(gpu_name=target, emit=emit)).output


def row_major(array: np.ndarray, element: str = "f32") -> Any:
    """A matrix as an argument of the interpreter."""
    rows, columns = array.shape
    return tensor_of(array.reshape(-1), Layout((rows, columns), (columns, 1)), element)


NEIGHBOURS = """cute.func @k(%Y: !cute.tensor<f32, gmem, align<16>, (6,32):(32,1)>)
    threads 32 cluster (3,1,1) {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %one = cute.static() -> !cute.int<1>
  %size = cute_nvgpu.block_in_cluster_dim<0>()
  %next = cute.tuple_add(%rank, %one)
  %other = cute.tuple_mod(%next, %size)
  %cells = cute.alloc() -> !cute.tensor<f32, smem, align<16>, 32:1>
  %c = cute.make_coord(%bid, %tid) -> !cute.coord<(?,?)>
  %x = cute.load(%Y, %c) : f32
  cute.store(%x, %cells, %tid)
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  %mine = cute.get_iter(%cells)
  %there = cute_nvgpu.mapa(%mine, %other)
  %line = cute.static() -> !cute.layout<32,1>
  %cells2 = cute.make_tensor(%there, %line)
  %y = cute.load(%cells2, %tid) : f32
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.store(%y, %Y, %c)
  cute.return
}
"""


class TestSharedMemoryOfOthers:
    """Each CTA of a cluster of three reads what the next one has written, in two clusters."""

    WANTED = np.array([1, 2, 0, 4, 5, 3], np.float32)[:, None] * np.ones((1, 32), np.float32)

    def given(self) -> np.ndarray:
        """Row i has i."""
        return np.arange(6, dtype=np.float32)[:, None] * np.ones((1, 32), np.float32)

    def test_in_the_machine(self) -> None:
        """Through shared::cluster."""
        ptx, y = compiled(NEIGHBOURS).decode(), self.given()
        run_ptx(ptx, [y], (6, 1, 1))
        assert (y == self.WANTED).all()
        assert "ld.shared::cluster" in ptx and ".reqnctapercluster 3" in ptx

    def test_in_the_interpreter(self) -> None:
        """CTAs of a cluster take turns."""
        y = self.given()
        run_kernel(parse_text(NEIGHBOURS), "k", [row_major(y)], (6, 1, 1))
        assert (y == self.WANTED).all()

    def test_without_the_barrier_there_is_a_race(self) -> None:
        """Both sides of it."""
        text = NEIGHBOURS.replace(
            "  cute_nvgpu.cluster_arrive()\n  cute_nvgpu.cluster_wait()\n", "", 1
        )
        with pytest.raises(PtxRuntimeError):
            run_ptx(compiled(text).decode(), [self.given()], (6, 1, 1))

    def test_a_wait_without_an_arrival(self) -> None:
        """With its place."""
        text = NEIGHBOURS.replace("  cute_nvgpu.cluster_arrive()\n", "", 1)
        with pytest.raises(InterpreterError, match="cluster_wait without cluster_arrive"):
            run_kernel(parse_text(text), "k", [row_major(self.given())], (6, 1, 1))

    def test_a_grid_that_is_not_made_of_clusters(self) -> None:
        """As a launch would say."""
        with pytest.raises(InterpreterError, match="is not made of clusters"):
            run_kernel(parse_text(NEIGHBOURS), "k", [row_major(self.given())], (4, 1, 1))

    def test_a_cubin_is_made(self) -> None:
        """ptxas takes it; it is launched with its threads, its grid counts CTAs."""
        made = compile_module(NEIGHBOURS.encode(), CompileOptions(gpu_name="sm_90"))
        assert made.output.startswith(b"\x7fELF")
        (kernel,) = made.kernels
        assert (kernel.launch, kernel.block, kernel.cluster_size) == ("explicit", (32, 1, 1), 3)


MULTICAST = """cute.func @k(%map: !cute_nvgpu.tma_atom<f16, (64,16), 128>,
             %Y: !cute.tensor<f16, gmem, align<16>, (4,16,64):(1024,64,1)>)
    threads 32 cluster (1,2,1) {
  %zero = cute.static() -> !cute.int<0>
  %x = cute.block_idx<0>()
  %y = cute.block_idx<1>()
  %lane = cute_nvgpu.lane_idx()
  %tile = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (16,64):(64,1)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 1:1>
  %bar = cute.get_iter(%bars)
  %first = cute.equal(%lane, %zero)
  %mask = cute.static() -> !cute.int<3>
  %high = cute.static() -> !cute.int<16>
  %place = cute_nvgpu.block_in_cluster_idx<1>()
  %cluster = cute_nvgpu.cluster_idx<0>()
  %leads = cute.equal(%place, %zero)
  cute.if %first {
    cute_nvgpu.mbarrier_init<1>(%bar)
    cute_nvgpu.mbarrier_init_fence()
    cute_nvgpu.mbarrier_arrive_and_expect_tx<2048>(%bar)
  }
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.if %leads {
    cute.if %first {
      %tma = cute_nvgpu.make_exec_tma(%map)
      %row = cute.tuple_mul(%cluster, %high)
      %corner = cute.make_coord(%row) -> !cute.coord<(0,?)>
      cute_nvgpu.tma_load_multicast(%tma, %tile, %bar, %corner, %mask)
    }
  }
  cute_nvgpu.mbarrier_wait(%bar, %zero)
  %two = cute.static() -> !cute.int<2>
  %before = cute.tuple_mul(%x, %two)
  %number = cute.tuple_add(%before, %y)
  %cn = cute.make_coord(%number) -> !cute.coord<(?,_,_)>
  %out = cute.slice(%cn, %Y)
  %atom = cute.static() -> !cute.copy_atom<universal, 128>
  %threads = cute.static() -> !cute.layout<(4,8),(8,1)>
  %values = cute.static() -> !cute.layout<(1,8),(8,1)>
  %copy = cute.make_tiled_copy(%atom, %threads, %values)
  %s = cute.partition_s(%copy, %tile, %lane)
  %d = cute.partition_d(%copy, %out, %lane)
  %r = cute.make_fragment_like(%s)
  cute.copy(%copy, %s, %r)
  cute.copy(%copy, %r, %d)
  cute_nvgpu.cluster_arrive_relaxed()
  cute_nvgpu.cluster_wait()
  cute.return
}
"""


def test_a_box_comes_to_all_ctas_of_a_mask() -> None:
    """One thread of a cluster loads; two clusters of two."""
    a = np.arange(2048, dtype=np.float16).reshape(32, 64) % 512
    wanted = np.stack([a[:16], a[:16], a[16:], a[16:]])
    y = np.zeros((4, 16, 64), np.float16)
    ptx = compiled(MULTICAST).decode()
    mapped = TensorMap(0, "f16", (64, 32), (128,), (64, 16), swizzle="128B", array=a)
    run_ptx(ptx, [mapped, y], (2, 2, 1))
    assert (y == wanted).all() and ".multicast::cluster" in ptx
    y[:] = 0
    out = tensor_of(y.reshape(-1), Layout((4, 16, 64), (1024, 64, 1)), "f16")
    atom = TmaAtom("f16", (64, 16), 128)
    run_kernel(parse_text(MULTICAST), "k", [MappedTensor(atom, a), out], (2, 2, 1))
    assert (y == wanted).all()


SENT = """cute.func @k(%Y: !cute.tensor<f32, gmem, align<16>, (2,32,2):(64,2,1)>)
    threads 32 cluster (2,1,1) {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %lane = cute_nvgpu.lane_idx()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %next = cute.tuple_add(%rank, %one)
  %two = cute.static() -> !cute.int<2>
  %other = cute.tuple_mod(%next, %two)
  %cells = cute.alloc() -> !cute.tensor<f32, smem, align<16>, (32,2):(2,1)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 2:1>
  %bar = cute.get_iter(%bars)
  %told = cute.add_offset(%bar, %one)
  %first = cute.equal(%lane, %zero)
  cute.if %first {
    cute_nvgpu.mbarrier_init<1>(%bar)
    cute_nvgpu.mbarrier_init<32>(%told)
    cute_nvgpu.mbarrier_init_fence()
    cute_nvgpu.mbarrier_arrive_and_expect_tx<256>(%bar)
  }
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  %cl = cute.make_coord(%lane) -> !cute.coord<(?,_)>
  %place = cute.slice(%cl, %cells)
  %cy = cute.make_coord(%rank, %lane) -> !cute.coord<(?,?,_)>
  %out = cute.slice(%cy, %Y)
  %r = cute.make_fragment_like(%out)
  %pair = cute.static() -> !cute.copy_atom<universal, 64>
  cute.copy(%pair, %out, %r)
  %to = cute.get_iter(%place)
  cute_nvgpu.store_async(%r, %to, %bar, %other)
  cute_nvgpu.mbarrier_wait(%bar, %zero)
  cute.copy(%pair, %place, %r)
  cute.copy(%pair, %r, %out)
  cute_nvgpu.mbarrier_arrive(%told, %other)
  %done = cute_nvgpu.mbarrier_try_wait(%told, %zero)
  cute_nvgpu.mbarrier_wait(%told, %zero)
  cute.return
}
"""


def test_words_and_arrivals_go_to_another_cta() -> None:
    """Two CTAs give each other their rows, and say that they have them."""
    given = np.arange(128, dtype=np.float32).reshape(2, 32, 2)
    y = given.copy()
    ptx = compiled(SENT).decode()
    run_ptx(ptx, [y], (2, 1, 1))
    assert (y == given[::-1]).all()
    assert ptx.count("st.async") == 1 and "mapa" in ptx
    y = given.copy()
    out = tensor_of(y.reshape(-1), Layout((2, 32, 2), (64, 2, 1)), "f32")
    run_kernel(parse_text(SENT), "k", [out], (2, 1, 1))
    assert (y == given[::-1]).all()
    assert compiled(SENT, emit="cubin").startswith(b"\x7fELF")


REGISTERS = """cute.func @k(%Y: !cute.tensor<f32, gmem, align<16>, 256:1>) threads 256 {
  %tid = cute.thread_idx<0>()
  %size = cute.static() -> !cute.int<128>
  %low = cute.elem_less(%tid, %size)
  %one = cute.constant 1.0 : f32
  cute.if %low {
    cute_nvgpu.warpgroup_reg_dealloc<40>()
  }
  %high = cute.elem_less(%size, %tid)
  %last = cute.static() -> !cute.int<127>
  %above = cute.elem_less(%last, %tid)
  cute.if %above {
    cute_nvgpu.warpgroup_reg_alloc<232>()
    cute.store(%one, %Y, %tid)
  }
  cute.return
}
"""


class TestRegisters:
    """One warpgroup gives registers to another."""

    def test_instructions(self) -> None:
        """Which ptxas keeps: it knows how many threads an SM has."""
        ptx, y = compiled(REGISTERS).decode(), np.zeros(256, np.float32)
        run_ptx(ptx, [y], (1, 1, 1))
        assert (y[128:] == 1).all() and not y[:128].any()
        assert "setmaxnreg.dec.sync.aligned.u32 40" in ptx
        assert "setmaxnreg.inc.sync.aligned.u32 232" in ptx
        assert ".minnctapersm 1" in ptx

    def test_in_the_interpreter(self) -> None:
        """Warpgroups meet."""
        y = np.zeros(256, np.float32)
        run_kernel(parse_text(REGISTERS), "k", [tensor_of(y, Layout(256, 1), "f32")])
        assert (y[128:] == 1).all() and not y[:128].any()
        part = REGISTERS.replace("int<128>", "int<64>")
        with pytest.raises(InterpreterError, match="not all threads of the warpgroup come here"):
            run_kernel(parse_text(part), "k", [tensor_of(y, Layout(256, 1), "f32")])

    def test_warpgroups_are_whole(self) -> None:
        """As many threads as four warps have."""
        text = REGISTERS.replace("threads 256", "threads 224")
        with pytest.raises(CompileError, match="224 threads is not made of whole warpgroups"):
            compiled(text)


BODY = "cute.func @k() threads 128{} {{\n{}\ncute.return\n}}".format
POINTER = "%b = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 1:1>\n%p = cute.get_iter(%b)\n"


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("cute_nvgpu.cluster_arrive()", 2, "sm_80 has no cluster_arrive, sm_90, "),
        ("%n = cute_nvgpu.cluster_idx<0>()", 2, "sm_80 has no cluster_idx, sm_90, "),
        ("cute_nvgpu.warpgroup_reg_alloc<232>()", 2, "sm_80 has no warpgroup_reg_alloc, sm_90, "),
        (
            POINTER + "%o = cute.static() -> !cute.int<0>\n%r = cute_nvgpu.mapa(%p, %o)",
            5,
            "sm_80 has no mapa, sm_90, ",
        ),
    ],
)
def test_who_has_it_is_told(body: str, line: int, message: str) -> None:
    """With the place."""
    with pytest.raises(TargetError, match=message) as raised:
        compiled(BODY("", body), "sm_80")
    assert raised.value.location is not None
    assert raised.value.location.line == line


def test_clusters_need_a_target_and_a_rank_of_theirs() -> None:
    """Of the function, and of a number that is beyond it."""
    with pytest.raises(TargetError, match="sm_80 has no clusters, sm_90, "):
        compiled(BODY(" cluster (2,1,1)", ""), "sm_80")
    options = CompileOptions(gpu_name="sm_90", launch="explicit")
    wanted = "a kernel with a cluster is not compiled with --launch=explicit .* leave that out"
    with pytest.raises(TargetError, match=wanted):
        compile_module(BODY(" cluster (2,1,1)", "").encode(), options)
    options = CompileOptions(gpu_name="sm_90", disabled_features=("wgmma",))
    wanted = (
        "wgmma_commit.* of sm_90 is among the disabled features|warpgroup_commit_batch of sm_90"
    )
    with pytest.raises(TargetError, match=wanted):
        compile_module(BODY("", "cute_nvgpu.warpgroup_commit_batch()").encode(), options)
    text = BODY(
        " cluster (2,1,1)",
        POINTER + "%o = cute.static() -> !cute.int<5>\n%r = cute_nvgpu.mapa(%p, %o)",
    )
    with pytest.raises(CompileError, match="there is no CTA 5 in a cluster of 2") as raised:
        compiled(text)
    assert raised.value.location is not None and raised.value.location.line == 5
