"""Clusters that are taken over before they start, in CuTe text: machine and interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cute_gemms import EXAMPLES, compiled, mapped, matrix, product
from tests.kernels.cute_nvgpu_operations import EXAMPLES as EXAMPLE_ROWS
from tests.kernels.cute_nvgpu_operations import program
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.errors import TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.interpreter.ptx.state import Limits
from tileiras.ir_text import parse_text

GEMM = (EXAMPLES / "clc_gemm.mlir").read_text()


def run_gemm(ptx: str, tiles: tuple[int, int], resident: int) -> tuple[np.ndarray, np.ndarray]:
    """D and what it should be; so many CTAs run at a time."""
    a, b = matrix(128 * tiles[0], 192, 0), matrix(128 * tiles[1], 192, 1)
    d = np.zeros((len(a), len(b)), np.float16)
    maps = [mapped(a, (64, 128)), mapped(b, (64, 128)), mapped(d, (64, 32))]
    grid = (tiles[0] * tiles[1], 1, 1)
    run_ptx(ptx, [*maps, *tiles, 3], grid, limits=Limits(resident=resident))
    return d, product(a, b).astype(np.float16)


class TestGemm:
    """The example: a thread asks for tiles while others are at the one before."""

    @pytest.mark.parametrize("resident", [1, 2, 16])
    def test_in_the_machine(self, resident: int) -> None:
        """One CTA takes over all, two share, or there are more than tiles."""
        found, wanted = run_gemm(compiled(GEMM).decode(), (2, 3), resident)
        assert (found == wanted).all() and found.any()

    def test_interpreted(self) -> None:
        """The first CTA takes over the other one."""
        a, b, d = matrix(128, 128, 0), matrix(256, 128, 1), np.zeros((128, 256), np.float16)
        loads = TmaAtom("f16", (64, 128), 128)
        stores = MappedTensor(TmaAtom("f16", (64, 32), 128), d)
        arguments = [MappedTensor(loads, a), MappedTensor(loads, b), stores]
        numbers = map(np.int32, (1, 2, 2))
        run_kernel(parse_text(GEMM), "clc_gemm", [*arguments, *numbers], (2, 1, 1))
        assert (d == product(a, b)).all() and d.any()

    @pytest.mark.parametrize("target", ["sm_100", "sm_103"])
    def test_ptxas_assembles_it(self, target: str) -> None:
        """With all of its instructions."""
        assert compiled(GEMM, target, "cubin").startswith(b"\x7fELF")

    def test_who_does_not_listen_loses_tiles(self) -> None:
        """A cluster that was asked for never starts."""
        text = compiled(GEMM).decode()
        deaf = text.replace(", 1, 0, p; mov.b32", ", 0, 0, p; mov.b32")
        assert deaf != text
        found, wanted = run_gemm(deaf, (1, 2), 1)
        assert not (found == wanted).all()

    def test_answers_must_be_handed_back(self) -> None:
        """One reader less, and nobody asks a third time."""
        line = "        cutlass.consumer_release(%works, %reading)\n"
        assert line in GEMM
        text = compiled(GEMM.replace(line, "", 1)).decode()
        with pytest.raises(PtxError):
            run_gemm(text, (2, 3), 1)


WORK = """
cute.func @k(%Y: !cute.tensor<i32, gmem, align<4>, (2,?):(1,2)>, %n: i32) threads 64 CLUSTER {
  %zero = cute.static() -> !cute.int<0>
  %one = cute.static() -> !cute.int<1>
  %word = cute.constant 1 : i32
  %warp = cute_nvgpu.warp_idx()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 4:1>
  %answers = cute.alloc() -> !cute.tensor<i32, smem, align<16>, (4,2):(1,4)>
  %p = cutlass.make_pipeline(%bars) -> !cutlass.pipeline<clc, 2, 16, (1,READERS)>
  %tiles = cute.make_shape(%n) -> !cute.shape<(?,1,1)>
  %s = cutlass.make_tile_scheduler(%tiles) -> !cutlass.tile_scheduler<1, m>
  cutlass.pipeline_init_wait()
  %begin = cute_nvgpu.cluster_idx<0>()
  %is = cutlass.is_valid_work(%s, %begin)
  %asks = cute.equal(%warp, %zero)
  %counts = cute.equal(%warp, %one)
  %leads = cute_nvgpu.elect_sync()
  %read = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, consumer>
  cute.if %asks {
    cute.if %leads {
      %ahead = cutlass.make_pipeline_state() -> !cutlass.pipeline_state<2, producer>
      %over, %last, %done = cute.while carries (%more = %is, %a = %ahead, %r = %read) {
        cutlass.request_next_work(%p, %a, %answers)
        cutlass.consumer_wait(%p, %r)
        %next = cutlass.get_next_work(%s, %p, %r, %answers)
        cutlass.consumer_release(%p, %r)
        %valid = cutlass.is_valid_work(%s, %next)
        %a2 = cutlass.advance(%a)
        %r2 = cutlass.advance(%r)
        cute.yield(%valid, %a2, %r2)
      }
      cutlass.producer_tail(%p, %last)
    }
  }
  cute.if %counts {
    cute.if %leads {
      %over, %none, %done = cute.while carries (%more = %is, %w = %begin, %r = %read) {
        %single = cute.static() -> !cute.tile<[1:1;1:1]>
        %at = cute.make_coord(%rank, %w) -> !cute.coord<(?,?)>
        %part = cute.local_tile(%Y, %single, %at)
        %r1 = cute.make_fragment_like(%part)
        cute.fill(%r1, %word)
        %by = cute.static() -> !cute.copy_atom<universal, 32>
        cute.copy(%by, %r1, %part)
        cutlass.consumer_wait(%p, %r)
        %next = cutlass.get_next_work(%s, %p, %r, %answers)
        cutlass.consumer_release(%p, %r)
        %valid = cutlass.is_valid_work(%s, %next)
        %r2 = cutlass.advance(%r)
        cute.yield(%valid, %next, %r2)
      }
    }
  }
  LEAVE
  cute.return
}
"""
PAIRS = WORK.replace("CLUSTER", "cluster (2,1,1)").replace("READERS", "4")
PAIRS = PAIRS.replace("  LEAVE", "  cute_nvgpu.cluster_arrive()\n  cute_nvgpu.cluster_wait()")
ALONE = WORK.replace("CLUSTER", "cluster (1,1,1)").replace("READERS", "2").replace("  LEAVE\n", "")


@pytest.mark.parametrize(("text", "ctas"), [(ALONE, 1), (PAIRS, 2)], ids=["alone", "pairs"])
class TestWork:
    """Each CTA of a cluster notes the work that the cluster has."""

    @pytest.mark.parametrize("resident", [1, 3, 16])
    def test_in_the_machine(self, text: str, ctas: int, resident: int) -> None:
        """All seven are done by somebody."""
        y = np.zeros((7, 2), np.int32)
        limits = Limits(resident=resident)
        run_ptx(compiled(text).decode(), [y, 7, 7], (7 * ctas, 1, 1), limits=limits)
        assert (y[:, :ctas] == 1).all()

    def test_interpreted(self, text: str, ctas: int) -> None:
        """The first cluster takes over the others."""
        y = np.zeros(14, np.int32)
        out = tensor_of(y, Layout((2, 7), (1, 2)), "i32")
        run_kernel(parse_text(text), "k", [out, np.int32(7)], (7 * ctas, 1, 1))
        assert (y.reshape(7, 2)[:, :ctas] == 1).all()

    def test_asking_once_more_than_there_is(self, text: str, ctas: int) -> None:
        """A refusal is the end: to ask again is an error."""
        again = text.replace("cute.yield(%valid, %a2, %r2)", "cute.yield(%is, %a2, %r2)")
        assert again != text
        out = tensor_of(np.zeros(14, np.int32), Layout((2, 7), (1, 2)), "i32")
        with pytest.raises(InterpreterError, match="after the answer that there is none"):
            run_kernel(parse_text(again), "k", [out, np.int32(7)], (7 * ctas, 1, 1))


QUERY = """
cute.func @k(%Y: !cute.tensor<i32, gmem, align<4>, (2,16):(16,1)>) threads 32 cluster (CTAS,1,1) {
  %zero = cute.static() -> !cute.int<0>
  %eight = cute.static() -> !cute.int<8>
  %word = cute.constant 1 : i32
  %tid = cute.thread_idx<0>()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 1:1>
  %bar = cute.get_iter(%bars)
  %answer = cute.alloc() -> !cute.tensor<i32, smem, align<16>, 4:1>
  %first = cute.equal(%tid, %zero)
  %asks = cute.equal(%rank, %zero)
  cute.if %first {
    cute_nvgpu.mbarrier_init<1>(%bar)
    cute_nvgpu.mbarrier_init_fence()
    cute_nvgpu.mbarrier_arrive_and_expect_tx<16>(%bar)
  }
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.if %first {
    cute.if %asks {
      cute_nvgpu.ASK(%answer, %bar)
    }
    cute_nvgpu.mbarrier_wait(%bar, %zero)
    %found = cute_nvgpu.clc_response(%answer)
    %x = cute.get_leaf<0>(%found)
    %y = cute.get_leaf<1>(%found)
    %z = cute.get_leaf<2>(%found)
    %valid = cute.get_leaf<3>(%found)
    %v = cute.tuple_mul(%valid, %eight)
    %xy = cute.tuple_add(%x, %y)
    %xyz = cute.tuple_add(%xy, %z)
    %place = cute.tuple_add(%v, %xyz)
    %single = cute.static() -> !cute.tile<[1:1;1:1]>
    %at = cute.make_coord(%rank, %place) -> !cute.coord<(?,?)>
    %part = cute.local_tile(%Y, %single, %at)
    %r = cute.make_fragment_like(%part)
    cute.fill(%r, %word)
    %by = cute.static() -> !cute.copy_atom<universal, 32>
    cute.copy(%by, %r, %part)
  }
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.return
}
"""


@pytest.mark.parametrize("clusters", [1, 2])
@pytest.mark.parametrize("ctas", [1, 2])
def test_an_answer_says_which_cluster(ctas: int, clusters: int) -> None:
    """The second of two: x is its first CTA's, in all CTAs. Of one alone: there is none."""
    name = "issue_clc_query_multicast" if ctas == 2 else "issue_clc_query"
    text = QUERY.replace("CTAS", str(ctas)).replace("ASK", name)
    wanted = np.zeros((2, 16), np.int32)
    wanted[:ctas, 8 + ctas if clusters == 2 else 0] = 1
    grid = (ctas * clusters, 1, 1)
    y = np.zeros((2, 16), np.int32)
    run_ptx(compiled(text).decode(), [y], grid, limits=Limits(resident=1))
    assert (y == wanted).all()
    flat = np.zeros(32, np.int32)
    out = tensor_of(flat, Layout((2, 16), (16, 1)), "i32")
    run_kernel(parse_text(text), "k", [out], grid)
    assert (flat.reshape(2, 16) == wanted).all()
    assert compiled(text, "sm_120", "cubin").startswith(b"\x7fELF")


@pytest.mark.parametrize("name", ["issue_clc_query", "issue_clc_query_multicast", "clc_response"])
def test_each_operation_says_who_has_it(name: str) -> None:
    """At its line."""
    text = program(*next(each for each in EXAMPLE_ROWS if each[0] == f"cute_nvgpu.{name}"))
    with pytest.raises(TargetError, match=f"sm_90 has no {name}, sm_100, sm_103") as raised:
        compiled(text, "sm_90")
    assert raised.value.location is not None
    assert name in text.splitlines()[raised.value.location.line - 1]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (QUERY.replace("CTAS", "1").replace("ASK", "issue_clc_query"), "sm_90"),
        (ALONE, "sm_90"),
    ],
)
def test_who_has_it_is_told(text: str, target: str) -> None:
    """Hopper has clusters, but none that are taken over."""
    with pytest.raises(TargetError, match=r"sm_90 has no .*, sm_100, sm_103") as raised:
        compiled(text, target)
    assert raised.value.location is not None
