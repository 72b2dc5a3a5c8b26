"""Products of two CTAs of a cluster in CuTe text: right in the PTX machine and interpreted."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.cute_gemms import EXAMPLES, compiled, mapped, matrix, product
from tests.kernels.cute_nvgpu_operations import EXAMPLES as EXAMPLE_ROWS
from tests.kernels.cute_nvgpu_operations import program
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.values import CONTAINERS
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.errors import CompileError, TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.ir_text import parse_text

GEMM = (EXAMPLES / "tcgen05_2sm_gemm.mlir").read_text()


def run_gemm(text: str, sizes: tuple[int, int, int], clusters: int) -> Any:
    """D and what it should be, by the PTX machine."""
    m, n, k = sizes
    a, b, d = matrix(m, k, 0), matrix(n, k, 1), np.zeros((m, n), np.float16)
    maps = [mapped(a, (64, 128)), mapped(b, (64, 128)), mapped(d, (64, 32))]
    ptx = compiled(text).decode()
    run_ptx(ptx, [*maps, m // 256, n // 256, k // 64], (2 * clusters, 1, 1))
    return d, product(a, b).astype(np.float16)


class TestGemm:
    """The example: a persistent GEMM with tiles of 256 x 256 of a pair."""

    def test_in_the_machine(self) -> None:
        """Two pairs take three tiles, five steps turn through four stages."""
        found, wanted = run_gemm(GEMM, (256, 768, 320), 2)
        assert (found == wanted).all() and found.any()

    def test_its_instructions_are_those_of_two(self) -> None:
        """All of them: a kernel has no others beside."""
        ptx = compiled(GEMM).decode()
        assert ptx.count("tcgen05.mma.cta_group::2.kind::f16") == 4
        assert "cta_group::1" not in ptx
        assert ptx.count("mbarrier::complete_tx::bytes.cta_group::2") == 2
        assert ptx.count("tcgen05.commit.cta_group::2.mbarrier::arrive::one") == 2
        for name in ("alloc", "dealloc", "relinquish_alloc_permit"):
            assert ptx.count(f"tcgen05.{name}.cta_group::2") == 1

    def test_interpreted(self) -> None:
        """One tile of one pair."""
        a, b, d = matrix(256, 128, 0), matrix(256, 128, 1), np.zeros((256, 256), np.float16)
        loads = TmaAtom("f16", (64, 128), 128)
        arguments = [
            MappedTensor(loads, a),
            MappedTensor(loads, b),
            MappedTensor(TmaAtom("f16", (64, 32), 128), d),
            *map(np.int32, (1, 1, 2)),
        ]
        run_kernel(parse_text(GEMM), "tcgen05_2sm_gemm", arguments, (2, 1, 1))
        assert (d == product(a, b).astype(np.float16)).all() and d.any()

    @pytest.mark.parametrize("target", ["sm_100", "sm_103"])
    def test_ptxas_assembles_it(self, target: str) -> None:
        """With all of its instructions."""
        assert compiled(GEMM, target, "cubin").startswith(b"\x7fELF")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("            cutlass.consumer_wait(%loads, %state)\n", "is being copied to by line"),
            ("      cute_nvgpu.fence_proxy_async()\n", "without a fence.proxy.async"),
        ],
    )
    def test_a_line_that_is_missing_is_found_by_the_machine(self, line: str, message: str) -> None:
        """A wait for operands of both CTAs, a fence before a store."""
        assert GEMM.count(line) == 1
        with pytest.raises(PtxRuntimeError, match=message):
            run_gemm(GEMM.replace(line, ""), (256, 256, 320), 1)

    def test_boxes_that_the_other_one_does_not_count(self) -> None:
        """The first CTA expects the bytes of both: without `<2>` half of them never come."""
        with pytest.raises(PtxRuntimeError):
            run_gemm(GEMM.replace("tma_load<2>", "tma_load"), (256, 256, 64), 1)


TILE = """
cute.func @tile(
    %A: !cute.tensor<EL, gmem, align<16>, (2,ROWS,KK):(PART,KK,1)>,
    %B: !cute.tensor<EL, gmem, align<16>, (2,64,KK):(PARTB,KK,1)>,
    %D: !cute.tensor<f32, gmem, align<16>, (MM,128):(128,1)>) threads 128 cluster (2,1,1) {
  %tid = cute.thread_idx<0>()
  %rank = cute_nvgpu.block_idx_in_cluster()
  %warp = cute_nvgpu.warp_idx()
  %zero = cute.static() -> !cute.int<0>
  %sA = cute.alloc() -> !cute.tensor<EL, smem, align<1024>, SWIZZLE o 0 o (ROWS,KK):(KK,1)>
  %sB = cute.alloc() -> !cute.tensor<EL, smem, align<1024>, SWIZZLE o 0 o (64,KK):(KK,1)>
  %bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 1:1>
  %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
SCALES
  %bar = cute.get_iter(%bars)
  %first = cute.equal(%warp, %zero)
  %start = cute.equal(%tid, %zero)
  %leads = cute.equal(%rank, %zero)
  cute.if %first {
    cute_nvgpu.tmem_alloc<256,2>(%slot)
    cute.if %start {
      cute_nvgpu.mbarrier_init<1>(%bar)
      cute_nvgpu.mbarrier_init_fence()
    }
  }
  %vectors = cute.static() -> !cute.copy_atom<universal, 128>
  %cr = cute.make_coord(%rank) -> !cute.coord<(?,_,_)>
  %gA = cute.slice(%cr, %A)
  %gB = cute.slice(%cr, %B)
  %threads = cute.static() -> !cute.layout<(32,4),(4,1)>
  %values = cute.static() -> !cute.layout<(1,VV),(0,1)>
  %copy = cute.make_tiled_copy(%vectors, %threads, %values)
  %fromA = cute.partition_s(%copy, %gA, %tid)
  %toA = cute.partition_d(%copy, %sA, %tid)
  %rA = cute.make_fragment_like(%fromA)
  cute.copy(%copy, %fromA, %rA)
  cute.copy(%copy, %rA, %toA)
  %fromB = cute.partition_s(%copy, %gB, %tid)
  %toB = cute.partition_d(%copy, %sB, %tid)
  %rB = cute.make_fragment_like(%fromB)
  cute.copy(%copy, %fromB, %rB)
  cute.copy(%copy, %rB, %toB)
  cute_nvgpu.fence_proxy_async()
  cute_nvgpu.tcgen05_fence_before()
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute_nvgpu.tcgen05_fence_after()
  %sums = cute_nvgpu.tmem_address(%slot)
  %atom = cute_nvgpu.make_tcgen05_mma_atom() -> ATOM
  %once = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
  %mma = cute.make_tiled_mma(%atom, %once)
  %both = cute.static() -> !cute.int<3>
  cute.if %leads {
    cute.if %start {
      %fresh = cute_nvgpu.atom_set_value<0>(%mma, %zero)
MULTIPLY
      cute_nvgpu.tcgen05_commit_multicast<2>(%bar, %both)
    }
  }
  cute_nvgpu.mbarrier_wait(%bar, %zero)
  cute_nvgpu.tcgen05_fence_after()
  // The pair's threads have D as the atom's layout says.
  %line = cute.static() -> !cute.int<128>
  %before = cute.tuple_mul(%rank, %line)
  %who = cute.tuple_add(%before, %tid)
  %mine = cute.partition_c(%mma, %D, %who)
  %words = cute.make_fragment_c(%mma, %mine)
  cute_nvgpu.tcgen05_load(%sums, %words)
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  cute.copy(%word, %words, %mine)
  cute_nvgpu.tcgen05_fence_before()
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute.if %first {
    cute_nvgpu.tmem_dealloc<256,2>(%sums)
  }
  cute.return
}
"""
SCALES = """
  %sSA = cute.alloc() -> !cute.tensor<f8E8M0FNU, smem, align<128>, ((32,4),4):((16,4),1)>
  %sSB = cute.alloc() -> !cute.tensor<f8E8M0FNU, smem, align<128>, ((32,4),4):((16,4),1)>
  %byte = cute.static() -> !cute.copy_atom<universal, 128>
  %lanes = cute.static() -> !cute.layout<32,1>
  %bytes = cute.static() -> !cute.layout<16,1>
  %copyS = cute.make_tiled_copy(%byte, %lanes, %bytes)
  %flat = cute.static() -> !cute.layout<512,1>
  %lane = cute_nvgpu.lane_idx()
  %pSA = cute.get_iter(%sSA)
  %pSB = cute.get_iter(%sSB)
  %flatA = cute.make_tensor(%pSA, %flat)
  %flatB = cute.make_tensor(%pSB, %flat)
  %cS = cute.make_coord(%rank) -> !cute.coord<(_,?)>
  %chunkA = cute.slice(%cS, %SFA)
  %fromSA = cute.partition_s(%copyS, %chunkA, %lane)
  %toSA = cute.partition_d(%copyS, %flatA, %lane)
  %rSA = cute.make_fragment_like(%fromSA)
  %fromSB = cute.partition_s(%copyS, %SFB, %lane)
  %toSB = cute.partition_d(%copyS, %flatB, %lane)
  %rSB = cute.make_fragment_like(%fromSB)
  %brings = cute.equal(%warp, %zero)
  cute.if %brings {
    cute.copy(%copyS, %fromSA, %rSA)
    cute.copy(%copyS, %rSA, %toSA)
    cute.copy(%copyS, %fromSB, %rSB)
    cute.copy(%copyS, %rSB, %toSB)
  }
"""
SCALE_ARGUMENTS = (
    ", %SFA: !cute.tensor<f8E8M0FNU, gmem, align<16>, (512,2):(1,512)>, "
    "%SFB: !cute.tensor<f8E8M0FNU, gmem, align<16>, (512):(1)>) threads 128 cluster"
)
SCALED_PRODUCT = """
      %columns = cute.static() -> !cute.int<128>
      %four = cute.static() -> !cute.int<4>
      %tSA = cute.tuple_add(%sums, %columns)
      %tSB = cute.tuple_add(%tSA, %four)
      cute_nvgpu.tcgen05_cp<2>(%tSA, %sSA)
      cute_nvgpu.tcgen05_cp<2>(%tSB, %sSB)
      cute_nvgpu.tcgen05_mma_block_scaled(%fresh, %sums, %tSA, %tSB, %sA, %sB)
"""


def tile_text(rows: int, element: str, *, scaled: bool = False) -> str:
    """One tile of `rows` x 128 of a pair, K of 128 bytes; operands come through registers."""
    size = 2 if element == "f16" else 1
    k = 128 // size
    text = TILE.replace("SCALES\n", SCALES if scaled else "").replace(
        "MULTIPLY\n",
        SCALED_PRODUCT if scaled else "      cute_nvgpu.tcgen05_mma(%fresh, %sums, %sA, %sB)\n",
    )
    if scaled:
        text = text.replace(") threads 128 cluster", SCALE_ARGUMENTS)
    values = {
        "ATOM": "!cute.mma_atom<tcgen05_2sm, (MM,128,AK), EL, EL, f32SCALED>",
        "PARTB": 64 * k,
        "PART": rows // 2 * k,
        "ROWS": rows // 2,
        "AK": 32 // size,
        "KK": k,
        "MM": rows,
        "VV": 16 // size,
        "SWIZZLE": "S<3,3,3>" if size == 2 else "S<3,4,3>",
        "f32SCALED": "f32, f8E8M0FNU, 32" if scaled else "f32",
        "EL": element,
    }
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


NUMBERS = {
    "f6E2M3FN_unpacksmem": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN_unpacksmem": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN_unpacksmem": ml_dtypes.float4_e2m1fn,
}


def contained(rows: int, columns: int, element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of numbers of which 16 share 16 bytes, and the numbers."""
    bits = CONTAINERS[element]
    codes = np.random.default_rng(seed).integers(0, 1 << bits, (rows, columns)).astype(np.uint8)
    parts = codes.reshape(rows, -1, 16, 1) >> np.arange(bits, dtype=np.uint8) & 1
    packed = np.packbits(parts.reshape(rows, -1, 16 * bits), axis=2, bitorder="little")
    full = np.zeros((rows, columns // 16, 16), np.uint8)
    full[:, :, : 2 * bits] = packed
    numbers = codes.view(NUMBERS[element]).astype(np.float64)
    return full.reshape(rows, columns), numbers


def small(rows: int, columns: int, element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of random numbers, and the numbers."""
    if element in CONTAINERS:
        return contained(rows, columns, element, seed)
    values = np.random.default_rng(seed).integers(-8, 9, (rows, columns))
    codes = values.astype(ml_dtypes.float8_e4m3fn)
    return codes.view(np.uint8), codes.astype(np.float64)


def chunked(powers: np.ndarray) -> np.ndarray:
    """Scales (rows, 4) as chunks of 128 rows: 16 (r mod 32) + 4 (r / 32) + b."""
    codes = powers.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    parts = codes.reshape(len(codes) // 128, 4, 32, 4)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(-1)


PAIR = "!cute.mma_atom<tcgen05_2sm, (256,128,16), f16, f16, f32>"


class TestTiles:
    """A tile of a pair: what the atom's layout says of sums, scales, numbers of 6 and 4 bits."""

    @pytest.mark.parametrize("rows", [256, 128])
    def test_sums_lie_as_the_layout_says(self, rows: int) -> None:
        """128 rows take both halves of the lanes of each CTA, for half of the columns."""
        a, b = matrix(rows, 64, 0), matrix(128, 64, 1)
        text, wanted = tile_text(rows, "f16"), product(a, b)
        d = np.zeros((rows, 128), np.float32)
        run_ptx(compiled(text).decode(), [a, b, d], (2, 1, 1))
        assert (d == wanted).all()
        d[:] = 0
        whole = [
            tensor_of(each.reshape(-1), Layout(shape, stride), kind)
            for each, shape, stride, kind in (
                (a, (2, rows // 2, 64), (rows * 32, 64, 1), "f16"),
                (b, (2, 64, 64), (4096, 64, 1), "f16"),
                (d, (rows, 128), (128, 1), "f32"),
            )
        ]
        run_kernel(parse_text(text), "tile", whole, (2, 1, 1))
        assert (d == wanted).all() and d.any()

    @pytest.mark.parametrize("element", [*NUMBERS, "f8E4M3FN"])
    @pytest.mark.parametrize("scaled", [False, True])
    def test_small_numbers(self, element: str, scaled: bool) -> None:
        """Of 6 and 4 bits 16 lie in 16 bytes; with scales a CTA has those of its rows."""
        numbers = [small(rows, 128, element, rows) for rows in (256, 128)]
        text = tile_text(256, element, scaled=scaled)
        wides = [wide for _, wide in numbers]
        d, chunks = np.zeros((256, 128), np.float32), []
        if scaled:
            powers = [
                2.0 ** np.random.default_rng(rows).integers(-3, 4, (rows, 4)) for rows in (256, 128)
            ]
            wides = [w * np.repeat(p, 32, axis=1) for w, p in zip(wides, powers, strict=True)]
            chunks = [chunked(each) for each in powers]
        wanted = wides[0] @ wides[1].T
        a, b = (codes for codes, _ in numbers)
        ptx = compiled(text).decode()
        # Sums are rounded to f32 once for each step of 32 along K.
        limit = np.abs(wanted).max() * 2.0**-22
        run_ptx(ptx, [a, b, d, *chunks], (2, 1, 1))
        assert np.abs(d - wanted).max() <= limit and d.any()
        assert ("mxf8f6f4.block_scale" if scaled else "kind::f8f6f4") in ptx
        d[:] = 0
        held = ml_dtypes.float8_e4m3fn if element == "f8E4M3FN" else np.uint8
        whole = [
            tensor_of(
                a.reshape(-1).view(held), Layout((2, 128, 128), (128 * 128, 128, 1)), element
            ),
            tensor_of(b.reshape(-1).view(held), Layout((2, 64, 128), (64 * 128, 128, 1)), element),
            tensor_of(d.reshape(-1), Layout((256, 128), (128, 1)), "f32"),
        ]
        for each, count in zip(chunks, (2, 1), strict=False):
            codes = each.view(ml_dtypes.float8_e8m0fnu)
            layout = Layout((512, 2), (1, 512)) if count == 2 else Layout((512,), (1,))
            whole.append(tensor_of(codes, layout, "f8E8M0FNU"))
        run_kernel(parse_text(text), "tile", whole, (2, 1, 1))
        assert np.abs(d - wanted).max() <= limit and d.any()

    @pytest.mark.parametrize("scaled", [False, True])
    @pytest.mark.parametrize("element", [*NUMBERS, "f16"])
    def test_ptxas_assembles_them(self, element: str, scaled: bool) -> None:
        """With the instructions of two CTAs."""
        if scaled and element == "f16":
            return
        text = tile_text(256, element, scaled=scaled)
        assert compiled(text, "sm_100", "cubin").startswith(b"\x7fELF")


BAD = [
    ("cluster (2,1,1)", "", "two CTAs of a cluster act together, the cluster is"),
    ("cluster (2,1,1)", "cluster (1,2,1)", "two CTAs of a cluster act together, the cluster is"),
    ("tmem_alloc<256,2>", "tmem_alloc<256>", "is of one CTA, others of the kernel are of two"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_what_does_not_go_together_is_said(old: str, new: str, message: str) -> None:
    """With the place of the operation."""
    text = tile_text(256, "f16")
    assert old in text
    with pytest.raises(CompileError, match=message) as raised:
        compiled(text.replace(old, new))
    assert raised.value.location is not None


def test_a_pair_is_a_pair_in_the_interpreter_too() -> None:
    """The product of one CTA alone is none."""
    text = tile_text(256, "f16").replace("cluster (2,1,1)", "cluster (1,2,1)")
    values = [
        tensor_of(np.zeros(16384, np.float16), Layout((2, 128, 64), (8192, 64, 1)), "f16"),
        tensor_of(np.zeros(8192, np.float16), Layout((2, 64, 64), (4096, 64, 1)), "f16"),
        tensor_of(np.zeros(32768, np.float32), Layout((256, 128), (128, 1)), "f32"),
    ]
    with pytest.raises(InterpreterError, match="two CTAs of a cluster act together"):
        run_kernel(parse_text(text), "tile", values, (1, 2, 1))


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_who_has_it_is_told(target: str) -> None:
    """Tensor memory comes first; without it the products are asked for."""
    with pytest.raises(TargetError, match="sm_100, sm_103") as raised:
        compiled(tile_text(256, "f16"), target)
    assert raised.value.location is not None


@pytest.mark.parametrize("name", ["tma_load", "tma_load_multicast"])
def test_hopper_has_clusters_but_no_pairs(name: str) -> None:
    """A box that another CTA counts."""
    rows = [each for each in EXAMPLE_ROWS if each[0] == f"cute_nvgpu.{name}" and each[3] == "2"]
    text = program(*rows[0]).replace("threads 256", "threads 256 cluster (2,1,1)")
    assert "cta_group::2" in compiled(text).decode()
    with pytest.raises(TargetError, match="sm_90 has no box for one of a pair of CTAs, sm_100"):
        compiled(text, "sm_90")


@pytest.mark.parametrize("element", list(NUMBERS))
def test_containers_lie_along_k(element: str) -> None:
    """An operand whose contiguous dim is M has none."""
    text = tile_text(256, element).replace(
        "smem, align<1024>, S<3,4,3> o 0 o (128,128):(128,1)",
        "smem, align<1024>, S<3,4,3> o 0 o (128,128):(1,128)",
    )
    text = text.replace("cute.copy(%copy, %rA, %toA)\n", "")
    with pytest.raises(CompileError, match="are K-major"):
        compiled(text)


def test_sums_begin_with_what_was_stored() -> None:
    """A thread stores its lane, the product is added to it: the machine and the interpreter."""
    text = tile_text(256, "f16")
    before = """  %start0 = cute.static() -> !cute.int<128>
  %own = cute.tuple_mul(%rank, %start0)
  %me = cute.tuple_add(%own, %tid)
  %atom0 = cute_nvgpu.make_tcgen05_mma_atom() -> ATOM0
  %once0 = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
  %mma0 = cute.make_tiled_mma(%atom0, %once0)
  %mine0 = cute.partition_c(%mma0, %D, %me)
  %words0 = cute.make_fragment_c(%mma0, %mine0)
  %word0 = cute.static() -> !cute.copy_atom<universal, 32>
  cute.copy(%word0, %mine0, %words0)
  %sums0 = cute_nvgpu.tmem_address(%slot)
  cute_nvgpu.tcgen05_store(%words0, %sums0)
  cute_nvgpu.tcgen05_fence_before()
  cute_nvgpu.cluster_arrive()
  cute_nvgpu.cluster_wait()
  cute_nvgpu.tcgen05_fence_after()
  %sums = """
    before = before.replace("ATOM0", PAIR)
    text = text.replace("  %sums = ", before, 1).replace("tcgen05_mma(%fresh", "tcgen05_mma(%mma")
    a, b = matrix(256, 64, 0), matrix(128, 64, 1)
    first = matrix(256, 128, 2).astype(np.float32)
    d, wanted = first.copy(), first + product(a, b)
    run_ptx(compiled(text).decode(), [a, b, d], (2, 1, 1))
    assert (d == wanted).all()
    d[:] = first
    values = [
        tensor_of(a.reshape(-1), Layout((2, 128, 64), (8192, 64, 1)), "f16"),
        tensor_of(b.reshape(-1), Layout((2, 64, 64), (4096, 64, 1)), "f16"),
        tensor_of(d.reshape(-1), Layout((256, 128), (128, 1)), "f32"),
    ]
    run_kernel(parse_text(text), "tile", values, (2, 1, 1))
    assert (d == wanted).all()
