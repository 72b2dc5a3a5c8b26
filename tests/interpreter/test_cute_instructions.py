"""Programs with instructions of `cute_nvgpu`, run thread by thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.ir_text import parse_text

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"


def matrix(rows: int, columns: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small numbers, whose sums are exact."""
    values = np.random.default_rng(seed).integers(-4, 5, (rows, columns))
    return values.astype(np.float16)


def row_major(array: np.ndarray[Any, Any], element: str) -> Any:
    """A matrix as an argument."""
    rows, columns = array.shape
    return tensor_of(array.reshape(-1), Layout((rows, columns), (columns, 1)), element)


def product(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A B^T in f32."""
    return a.astype(np.float32) @ b.astype(np.float32).T


def kernel(body: str, arguments: str = "", threads: int = 32) -> str:
    """A kernel whose body begins on line 2."""
    return f"cute.func @k({arguments}) threads {threads} {{\n{body}\ncute.return\n}}"


def run(body: str, arguments: str = "", values: tuple[Any, ...] = (), threads: int = 32) -> None:
    """Runs one CTA."""
    run_kernel(parse_text(kernel(body, arguments, threads)), "k", list(values))


def test_ldmatrix_feeds_warps_through_two_stages() -> None:
    """cp.async, ldmatrix and mma.sync; two CTAs, two steps of K."""
    a, b, d = matrix(128, 64), matrix(64, 64, 1), np.zeros((128, 64), np.float32)
    arguments = [row_major(a, "f16"), row_major(b, "f16"), row_major(d, "f32"), np.int32(2)]
    text = (EXAMPLES / "ldmatrix_gemm.mlir").read_text()
    run_kernel(parse_text(text), "ldmatrix_gemm", arguments, (2, 1, 1))
    assert (d == product(a, b)).all()


def test_a_warp_brings_tiles_that_warpgroups_multiply() -> None:
    """TMA, barriers of three stages, wgmma: one CTA takes two tiles, two steps of K each."""
    a, b, d = matrix(128, 64), matrix(128, 64, 1), np.zeros((128, 128), np.float32)
    arguments = [
        MappedTensor(TmaAtom("f16", (32, 128), 64), a),
        MappedTensor(TmaAtom("f16", (32, 64), 64), b),
        row_major(d, "f32"),
        *map(np.int32, (1, 2, 2)),
    ]
    text = (EXAMPLES / "wgmma_gemm.mlir").read_text()
    run_kernel(parse_text(text), "wgmma_gemm", arguments)
    assert (d == product(a, b)).all()


@pytest.mark.parametrize(
    ("name", "sizes"), [("persistent_gemm", (16, 1, 2)), ("cutlass_gemm", (1, 1, 2))]
)
def test_a_tile_is_stored_by_boxes_of_warps(name: str, sizes: tuple[int, ...]) -> None:
    """The persistent GEMM: products one behind, stmatrix, TMA. Its scheduler goes beyond M."""
    a, b, d = matrix(128, 128), matrix(256, 128, 1), np.zeros((128, 256), np.float16)
    arguments = [
        MappedTensor(TmaAtom("f16", (64, 128), 128), a),
        MappedTensor(TmaAtom("f16", (64, 256), 128), b),
        MappedTensor(TmaAtom("f16", (64, 16), 128), d),
        *map(np.int32, sizes),
    ]
    text = (EXAMPLES / f"{name}.mlir").read_text()
    if name == "cutlass_gemm":
        text = text.replace("tile_scheduler<16, n>", "tile_scheduler<2, n>")
    run_kernel(parse_text(text), name, arguments)
    assert (d == product(a, b).astype(np.float16)).all() and d.any()


def test_one_thread_multiplies_into_tensor_memory() -> None:
    """The GEMM of Blackwell: one CTA takes two tiles, which are summed up beside each other."""
    a, b, d = matrix(128, 128), matrix(256, 128, 1), np.zeros((128, 256), np.float16)
    arguments = [
        MappedTensor(TmaAtom("f16", (64, 128), 128), a),
        MappedTensor(TmaAtom("f16", (64, 128), 128), b),
        MappedTensor(TmaAtom("f16", (64, 32), 128), d),
        *map(np.int32, (1, 2, 2)),
    ]
    text = (EXAMPLES / "tcgen05_gemm.mlir").read_text()
    run_kernel(parse_text(text), "tcgen05_gemm", arguments)
    assert (d == product(a, b).astype(np.float16)).all() and d.any()


BOX = "!cute.tensor<i32, smem, align<1024>, S<3,2,3> o 0 o (4,32):(32,1)>"
MAP = "%t: !cute_nvgpu.tma_atom<i32, (32,4), 128>, %x: i32, %y: i32"
AT = "%c = cute.make_coord(%x, %y) -> !cute.coord<(?,?)>\n%s = cute.alloc() -> " + BOX
FIRST = """%tid = cute.thread_idx<0>()
%one = cute.static() -> !cute.int<1>
%first = cute.elem_less(%tid, %one)
"""
BARRIER = """%bars = cute.alloc() -> !cute.tensor<i64, smem, align<8>, 1:1>
%bar = cute.get_iter(%bars)
%even = cute.static() -> !cute.int<0>
"""


def numbers() -> np.ndarray[Any, Any]:
    """6 x 40 of them."""
    return np.arange(240, dtype=np.int32).reshape(6, 40)


class TestBoxes:
    """TMA."""

    @pytest.mark.parametrize(("x", "y"), [(0, 0), (16, 3), (-8, -2), (64, 0)])
    def test_a_load_gives_zeros_outside(self, x: int, y: int) -> None:
        """And a swizzle is undone by who reads with it."""
        a, d = numbers(), np.full((4, 32), -1, np.int32)
        body = f"""{AT}
        {FIRST}{BARRIER}cute.if %first {{
          cute_nvgpu.mbarrier_init<1>(%bar)
          cute_nvgpu.mbarrier_arrive_and_expect_tx<512>(%bar)
          cute_nvgpu.tma_load(%t, %s, %bar, %c)
          cute_nvgpu.mbarrier_wait(%bar, %even)
          %atom = cute.static() -> !cute.copy_atom<universal, 32>
          cute.copy(%atom, %s, %d)
        }}"""
        mapped = MappedTensor(TmaAtom("i32", (32, 4), 128), a)
        values = (mapped, np.int32(x), np.int32(y), row_major(d, "i32"))
        run(body, MAP + ", %d: !cute.tensor<i32, gmem, align<16>, (4,32):(32,1)>", values)
        wanted = np.zeros((4, 32), np.int32)
        for i in range(4):
            for j in range(32):
                if 0 <= y + i < 6 and 0 <= x + j < 40:
                    wanted[i, j] = a[y + i, x + j]
        assert (d == wanted).all()

    @pytest.mark.parametrize(
        ("name", "combine"),
        [
            ("tma_store", lambda old, new: new),
            ("tma_reduce_add", np.add),
            ("tma_reduce_min", np.minimum),
            ("tma_reduce_max", np.maximum),
            ("tma_reduce_and", np.bitwise_and),
            ("tma_reduce_or", np.bitwise_or),
            ("tma_reduce_xor", np.bitwise_xor),
        ],
    )
    def test_a_store_leaves_what_is_outside(self, name: str, combine: Any) -> None:
        """A box of 77 at (16, 3): 3 rows and 24 columns are inside."""
        a = numbers()
        wanted = a.copy()
        wanted[3:6, 16:40] = combine(wanted[3:6, 16:40], 77)
        body = f"""{AT}
        %v = cute.constant 77 : i32
        {FIRST}cute.if %first {{
          cute.fill(%s, %v)
          cute_nvgpu.fence_proxy_async()
          cute_nvgpu.{name}(%t, %s, %c)
          cute_nvgpu.tma_store_commit()
          cute_nvgpu.tma_store_wait<0>()
        }}"""
        mapped = MappedTensor(TmaAtom("i32", (32, 4), 128), a)
        run(body, MAP, (mapped, np.int32(16), np.int32(3)))
        assert (a == wanted).all()


MATRICES = """
%a = cute_nvgpu.make_warp_mma_atom() -> !cute.mma_atom<warp, (16,8,16), f16, f16, f32>
%l = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
%m = cute.make_tiled_mma(%a, %l)
%tid = cute.thread_idx<0>()
%word = cute.static() -> !cute.copy_atom<universal, 16>
%s = cute.alloc() -> !cute.tensor<f16, smem, align<16>, {layout}>
%mine = cute.partition_a(%m, %A, %tid)
%r = cute.make_fragment_a(%m, %mine)
%atom = cute_nvgpu.make_{name}_atom<4>()
%copy = cute_nvgpu.make_tiled_copy_a(%atom, %m)
%rows = cute.{side}(%copy, %s, %tid)
%words = cute.retile(%copy, %r)
"""
OPERANDS = (
    "%A: !cute.tensor<f16, gmem, align<16>, (16,16):(16,1)>, "
    "%D: !cute.tensor<f16, gmem, align<16>, (16,16):(16,1)>"
)


class TestMatrices:
    """What threads hold of A, against partitions of A."""

    @pytest.mark.parametrize(
        ("name", "layout"), [("ldmatrix", "(16,16):(16,1)"), ("ldmatrix_trans", "(16,16):(1,16)")]
    )
    def test_loads(self, name: str, layout: str) -> None:
        """Rows in shared memory, or columns."""
        a, d = matrix(16, 16), np.zeros((16, 16), np.float16)
        body = MATRICES.format(name=name, layout=layout, side="partition_s") + (
            "cute.copy(%word, %A, %s)\ncute.sync_threads()\ncute.copy(%copy, %rows, %words)\n"
            "%out = cute.partition_a(%m, %D, %tid)\ncute.copy(%word, %r, %out)"
        )
        run(body, OPERANDS, (row_major(a, "f16"), row_major(d, "f16")))
        assert (d == a).all() and a.any()

    @pytest.mark.parametrize(
        ("name", "layout"), [("stmatrix", "(16,16):(16,1)"), ("stmatrix_trans", "(16,16):(1,16)")]
    )
    def test_stores(self, name: str, layout: str) -> None:
        """The other way."""
        a, d = matrix(16, 16), np.zeros((16, 16), np.float16)
        body = MATRICES.format(name=name, layout=layout, side="partition_d") + (
            "cute.copy(%word, %mine, %r)\ncute.copy(%copy, %words, %rows)\ncute.sync_threads()\n"
            "cute.copy(%word, %s, %D)"
        )
        run(body, OPERANDS, (row_major(a, "f16"), row_major(d, "f16")))
        assert (d == a).all() and a.any()


TMEM = """%slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
cute_nvgpu.tmem_alloc<32>(%slot)
%at = cute_nvgpu.tmem_address(%slot)
"""
TCGEN05 = """
%a = cute_nvgpu.make_tcgen05_mma_atom() -> !cute.mma_atom<tcgen05, (128,16,16), f16, f16, f32>
%l = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
%m = cute.make_tiled_mma(%a, %l)
%sA = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<1,3,3> o 0 o (128,16):(16,1)>
%sB = cute.alloc() -> !cute.tensor<f16, smem, align<1024>, S<1,3,3> o 0 o (16,16):(16,1)>
"""


class TestTensorMemory:
    """tcgen05."""

    def test_a_product_is_added_to_the_one_before(self) -> None:
        """The first one is not: `accumulate` is 0."""
        a, b, d = matrix(128, 16), matrix(16, 16, 1), np.zeros((128, 16), np.float32)
        body = f"""{TCGEN05}{FIRST}{BARRIER}
        %zero = cute.static() -> !cute.int<0>
        %warp = cute_nvgpu.warp_idx()
        %word = cute.static() -> !cute.copy_atom<universal, 16>
        %leads = cute.equal(%warp, %zero)
        %slot = cute.alloc() -> !cute.tensor<i32, smem, align<4>, 1:1>
        cute.if %leads {{
          cute_nvgpu.tmem_alloc<32>(%slot)
        }}
        cute.if %first {{
          cute_nvgpu.mbarrier_init<1>(%bar)
          cute.copy(%word, %A, %sA)
          cute.copy(%word, %B, %sB)
        }}
        cute.sync_threads()
        %at = cute_nvgpu.tmem_address(%slot)
        cute.if %first {{
          %fresh = cute_nvgpu.atom_set_value<0>(%m, %zero)
          cute_nvgpu.tcgen05_mma(%fresh, %at, %sA, %sB)
          cute_nvgpu.tcgen05_mma(%m, %at, %sA, %sB)
          cute_nvgpu.tcgen05_commit(%bar)
        }}
        cute_nvgpu.mbarrier_wait(%bar, %even)
        cute_nvgpu.tcgen05_fence_after()
        %row = cute.make_coord(%tid) -> !cute.coord<(?,_)>
        %mine = cute.slice(%row, %D)
        %r = cute.make_fragment_like(%mine)
        cute_nvgpu.tcgen05_load(%at, %r)
        %float = cute.static() -> !cute.copy_atom<universal, 32>
        cute.copy(%float, %r, %mine)
        cute.if %leads {{
          cute_nvgpu.tmem_dealloc<32>(%at)
        }}"""
        arguments = (
            "%A: !cute.tensor<f16, gmem, align<16>, (128,16):(16,1)>, "
            "%B: !cute.tensor<f16, gmem, align<16>, (16,16):(16,1)>, "
            "%D: !cute.tensor<f32, gmem, align<16>, (128,16):(16,1)>"
        )
        values = (row_major(a, "f16"), row_major(b, "f16"), row_major(d, "f32"))
        run(body, arguments, values, 128)
        assert (d == 2 * product(a, b)).all() and d.any()

    def test_columns_that_are_not_free(self) -> None:
        """512 are all."""
        with pytest.raises(InterpreterError, match="512 columns of tensor memory are not free"):
            run(TMEM + "cute_nvgpu.tmem_alloc<512>(%slot)")

    def test_columns_that_are_not_ones_own(self) -> None:
        """A load of 64, a deallocation of 64."""
        with pytest.raises(InterpreterError, match="64 columns from 0 on were not allocated"):
            run(TMEM + "cute_nvgpu.tmem_dealloc<64>(%at)")
        body = TMEM + (
            "%r = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, 64:1>\n"
            "cute_nvgpu.tcgen05_load(%at, %r)"
        )
        with pytest.raises(InterpreterError, match="64 columns from 0 on were not allocated"):
            run(body)

    def test_columns_are_free_again(self) -> None:
        """After a deallocation."""
        run(TMEM + "cute_nvgpu.tmem_dealloc<32>(%at)\ncute_nvgpu.tmem_alloc<512>(%slot)")

    def test_sums_that_are_not_computed(self) -> None:
        """Those of f16."""
        body = (
            TMEM
            + TCGEN05.replace("f16, f16, f32", "f16, f16, f16")
            + ("cute_nvgpu.tcgen05_mma(%m, %at, %sA, %sB)")
        )
        with pytest.raises(InterpreterError, match="sums of f16 in tensor memory are not computed"):
            run(body)


class TestWaiting:
    """Who waits for whom."""

    def test_a_barrier_orders_threads(self) -> None:
        """The last thread arrives for all others, which read what it has written."""
        d = np.zeros((1, 64), np.float32)
        body = f"""{FIRST}{BARRIER}%last = cute.static() -> !cute.int<63>
        %value = cute.constant 5.0 : f32
        %cell = cute.alloc() -> !cute.tensor<f32, smem, align<4>, 1:1>
        %zero = cute.static() -> !cute.int<0>
        cute.if %first {{
          cute_nvgpu.mbarrier_init<1>(%bar)
        }}
        cute.sync_threads()
        %writes = cute.equal(%tid, %last)
        cute.if %writes {{
          cute.store(%value, %cell, %zero)
          cute_nvgpu.mbarrier_arrive(%bar)
        }}
        cute_nvgpu.mbarrier_wait(%bar, %even)
        %x = cute.load(%cell, %zero) : f32
        %at = cute.make_coord(%tid) -> !cute.coord<(0,?)>
        cute.store(%x, %d, %at)"""
        run(
            body,
            "%d: !cute.tensor<f32, gmem, align<16>, (1,64):(64,1)>",
            (row_major(d, "f32"),),
            64,
        )
        assert (d == 5).all()

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (
                BARRIER
                + "cute_nvgpu.mbarrier_init<1>(%bar)\ncute_nvgpu.mbarrier_wait(%bar, %even)",
                "mbarrier_wait: nobody ends the phase that is waited for",
            ),
            (
                BARRIER + "cute_nvgpu.mbarrier_arrive(%bar)",
                "mbarrier_arrive: there is no barrier here, 'mbarrier_init' comes first",
            ),
            (
                BARRIER + "cute_nvgpu.mbarrier_wait(%bar, %even)",
                "mbarrier_wait: there is no barrier here",
            ),
            (
                FIRST + "cute.if %first {\ncute_nvgpu.sync_warp()\n}",
                "sync_warp: not all threads of the warp come here",
            ),
        ],
    )
    def test_who_waits_for_ever_is_told(self, body: str, message: str) -> None:
        """Or for nothing."""
        with pytest.raises(InterpreterError, match=message) as raised:
            run(body)
        assert raised.value.location is not None

    def test_arrivals_of_a_phase_are_counted(self) -> None:
        """Bytes that are missing keep the phase from its end."""
        body = (
            BARRIER
            + FIRST
            + """cute.if %first {
          cute_nvgpu.mbarrier_init<1>(%bar)
          cute_nvgpu.mbarrier_arrive_and_expect_tx<16>(%bar)
          cute_nvgpu.mbarrier_arrive(%bar)
        }"""
        )
        with pytest.raises(
            InterpreterError, match="more than 1 arrivals at a barrier in one phase"
        ):
            run(body)


def test_what_is_not_run_is_said() -> None:
    """A CTA that there is not, a TMA atom of another rank, a warpgroup that has no part."""
    body = f"""{AT}
    {BARRIER}%both = cute.static() -> !cute.int<3>
    cute_nvgpu.mbarrier_init<1>(%bar)
    cute_nvgpu.tma_load_multicast(%t, %s, %bar, %c, %both)"""
    mapped = MappedTensor(TmaAtom("i32", (32, 4), 128), numbers())
    with pytest.raises(InterpreterError, match="there is no CTA 1 in a cluster"):
        run(body, MAP, (mapped, np.int32(0), np.int32(0)))
    flat = MappedTensor(TmaAtom("i32", (32, 4), 128), numbers().reshape(-1))
    body = f"{AT}\ncute_nvgpu.tma_store(%t, %s, %c)"
    with pytest.raises(InterpreterError, match="is run with an array of 2 dims"):
        run(body, MAP, (flat, np.int32(0), np.int32(0)))
    body = TCGEN05.replace("tcgen05", "warpgroup").replace("128,16,16", "64,16,16") + (
        "%d = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, (8,2,1):(1,8,0)>\n"
        "cute.clear(%d)\ncute_nvgpu.warpgroup_mma(%m, %d, %sA, %sB)"
    )
    with pytest.raises(InterpreterError, match="warpgroup 1 is none of the 1 of the product"):
        run(body, threads=256)
