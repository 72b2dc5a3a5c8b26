"""Matrix instructions, TMA, wgmma and tcgen05 against numpy, with layouts computed apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.product_programs import (
    FILL,
    RNG,
    TMA,
    small,
    swizzled_rows,
    wgmma_data,
)
from tileiras.interpreter.ptx import PtxRuntimeError, TensorMap, run_ptx

from .small_kernels import HEADER, kernel, run


def fragment_lines(rows: str, name: str, words: int) -> str:
    """Loads `words` words of an array of 32 lanes into registers `%{name}0` and so on."""
    lines = [f"mad.lo.u64 %d9, %w, {4 * words}, {rows};"]
    lines += [f"ld.global.b32 %r{name}{i}, [%d9+{4 * i}];" for i in range(words)]
    return "\n".join(lines)


def test_mma_follows_the_fragments_of_the_isa() -> None:
    """m16n8k16 with operands placed element by element as the ISA's formulas say."""
    a, b = small((16, 16)), small((16, 8))
    c = RNG.integers(-9, 9, (16, 8)).astype(np.float32)
    frag_a, frag_b = np.zeros((32, 8), np.float16), np.zeros((32, 4), np.float16)
    frag_c = np.zeros((32, 4), np.float32)
    for lane in range(32):
        group, member = lane >> 2, lane % 4
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            column = member * 2 + (i & 1) + (8 if i >= 4 else 0)
            frag_a[lane, i] = a[row, column]
        for i in range(4):
            frag_b[lane, i] = b[member * 2 + (i & 1) + (8 if i >= 2 else 0), group]
            frag_c[lane, i] = c[group + (8 if i >= 2 else 0), member * 2 + (i & 1)]
    body = "\n".join(
        [
            fragment_lines("%p1", "1", 4),
            fragment_lines("%p2", "2", 2),
            fragment_lines("%p3", "3", 4),
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r40, %r41, %r42, %r43}, "
            "{%r10, %r11, %r12, %r13}, {%r20, %r21}, {%r30, %r31, %r32, %r33};",
            "mad.lo.u64 %d9, %w, 16, %p0; st.global.v4.b32 [%d9], {%r40, %r41, %r42, %r43};",
        ]
    )
    out = np.zeros((32, 4), np.float32)
    run(kernel(body, 4), [out, frag_a, frag_b, frag_c])
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    for lane in range(32):
        for i in range(4):
            row, column = (lane >> 2) + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1)
            assert out[lane, i] == wanted[row, column]


AWAIT = "W: mbarrier.try_wait.parity.shared.b64 %q2, [%r4], 0; @!%q2 bra W;"


def tensor_load(
    swizzle: str, x: int, y: int, columns: int, wait: str = AWAIT
) -> tuple[np.ndarray, np.ndarray]:
    """The tensor, and the box as it lies in shared memory."""
    data = RNG.integers(1, 1000, (20, 96)).astype(np.uint16)
    out = np.zeros(512, np.uint16)
    rows = 512 // columns
    map_ = TensorMap(
        element="u16",
        shape=(96, 20),
        strides=(192,),
        box=(columns, rows),
        swizzle=swizzle,
        array=data,
    )
    text = HEADER + TMA.replace("WAIT", wait)
    run_ptx(text, [out, map_, x, y], block=(32, 1, 1))
    return data, out


@pytest.mark.parametrize(
    ("swizzle", "columns"), [("none", 32), ("32B", 16), ("64B", 32), ("128B", 64)]
)
@pytest.mark.parametrize(("x", "y"), [(8, 3), (80, 15), (-8, -2)])
def test_tensor_copies_swizzle_and_fill_edges(swizzle: str, columns: int, x: int, y: int) -> None:
    """Every 16-byte unit lies where the swizzle puts it; outside of the tensor there are zeros."""
    data, out = tensor_load(swizzle, x, y, columns)
    bits = {"none": 0, "32B": 1, "64B": 2, "128B": 3}[swizzle]
    for row in range(512 // columns):
        for column in range(columns):
            inside = 0 <= y + row < 20 and 0 <= x + column < 96
            wanted = data[y + row, x + column] if inside else 0
            place = (row * columns + column) * 2
            place ^= ((place >> 7) & ((1 << bits) - 1)) << 4
            assert out[place // 2] == wanted, (row, column)


@pytest.mark.parametrize("x", [-5, 1, 12])
def test_load_that_starts_within_16_bytes_is_an_error(x: int) -> None:
    """With the line of the copy and the byte."""
    with pytest.raises(PtxRuntimeError, match=rf"byte {2 * x}: not a multiple of 16") as caught:
        tensor_load("none", x, 0, 32)
    text = (HEADER + TMA).splitlines()
    assert "cp.async.bulk.tensor" in text[caught.value.line - 1]


def test_store_that_starts_within_16_bytes_is_done() -> None:
    """Only loads have that rule: nothing is known of stores."""
    store = """
.visible .entry k(.param .align 64 .b8 map[128])
{
.reg .b32 %r<4>; .reg .b64 %d<4>; .shared .align 128 .b8 box[64];
mov.b64 %d2, map; cvta.param.u64 %d3, %d2; mov.u32 %r3, box; mov.u32 %r1, 3; mov.u32 %r2, 0;
st.shared.b32 [%r3], 0x00020001; fence.proxy.async;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d3, {%r1, %r2}], [%r3];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
ret;
}
"""
    data = np.zeros((2, 16), np.uint16)
    map_ = TensorMap(
        element="u16", shape=(16, 2), strides=(32,), box=(8, 2), swizzle="none", array=data
    )
    run_ptx(HEADER + store, [map_], block=(1, 1, 1))
    assert list(data[0, 2:6]) == [0, 1, 2, 0]


def test_reading_a_box_without_waiting_is_an_error() -> None:
    """The bytes are busy until the mbarrier's phase is complete."""
    with pytest.raises(PtxRuntimeError, match="which nobody has waited for"):
        tensor_load("none", 0, 0, 32, wait="")


def wgmma_kernel(fence: str = "fence.proxy.async;", wait: int = 0, first: str = "") -> str:
    """d = a b^T for 64 x 16 and 8 x 16 slices at columns 16 of swizzled tiles of 64 columns."""
    body = FILL.replace("WORDS", "2304").replace("FENCE", fence)
    high = 1 << 62 | (1024 // 16) << 32 | 1 << 16
    body += f"""
    add.u32 %r6, %r1, 32; shr.u32 %r6, %r6, 4; cvt.u64.u32 %d2, %r6; or.b64 %d2, %d2, {high};
    add.u32 %r7, %r1, 8224; shr.u32 %r7, %r7, 4; cvt.u64.u32 %d3, %r7; or.b64 %d3, %d3, {high};
    setp.ne.u32 %q2, %r1, %r1; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    wgmma.fence.sync.aligned;
    {first}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%f0, %f1, %f2, %f3}}, %d2, %d3, %q2, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {wait};
    mad.lo.u64 %d4, %w, 16, %p0; st.global.v4.f32 [%d4], {{%f0, %f1, %f2, %f3}};"""
    return kernel(body, 2, ".shared .align 1024 .b8 s[9216];\n")


def test_wgmma_reads_swizzled_tiles() -> None:
    """The start address moves inside of the swizzle's atom."""
    a, b, data = wgmma_data()
    out = np.zeros((128, 4), np.float32)
    run(wgmma_kernel(), [out, data], threads=128)
    wanted = a[:, 16:32].astype(np.float64) @ b[:, 16:32].astype(np.float64).T
    for thread in range(128):
        for i in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i >> 1)
            assert out[thread, i] == wanted[row, thread % 4 * 2 + (i & 1)]


def test_wgmma_without_a_proxy_fence_is_an_error() -> None:
    """What threads wrote must be made visible to the asynchronous proxy."""
    with pytest.raises(PtxRuntimeError, match="without a fence.proxy.async"):
        run(wgmma_kernel(""), [np.zeros(512, np.float32), wgmma_data()[2]], threads=128)


def test_registers_changed_behind_the_fence_are_an_error() -> None:
    """`wgmma.fence` must follow what threads write into an accumulator."""
    text = wgmma_kernel(first="mov.f32 %f2, 0f3f800000;")
    with pytest.raises(PtxRuntimeError, match="no wgmma.fence since its registers changed"):
        run(text, [np.zeros(512, np.float32), wgmma_data()[2]], threads=128)


def test_accumulators_cannot_be_used_before_the_wait() -> None:
    """`wait_group 1` leaves the product under way."""
    with pytest.raises(PtxRuntimeError, match="unfinished asynchronous work"):
        run(wgmma_kernel(wait=1), [np.zeros(512, np.float32), wgmma_data()[2]], threads=128)


TCGEN05 = """
mov.u32 %r9, slot; setp.lt.u32 %q3, %i, 32; setp.eq.u32 %q4, %i, 0; mov.u32 %r10, done;
@%q3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32;
@%q4 mbarrier.init.shared::cta.b64 [%r10], 1;
bar.sync 0; ld.shared.b32 %r11, [%r9];
shr.u32 %r6, %r1, 4; cvt.u64.u32 %d2, %r6; or.b64 %d2, %d2, {high};
add.u32 %r7, %r1, 16384; shr.u32 %r7, %r7, 4; cvt.u64.u32 %d3, %r7; or.b64 %d3, %d3, {high};
mov.b32 %r12, {instruction}; setp.ne.u32 %q5, %r1, %r1;
@%q4 tcgen05.mma.cta_group::1.kind::f16 [%r11], %d2, %d3, %r12, %q5;
@%q4 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10];
{wait}
and.b32 %r13, %i, 96; shl.b32 %r13, %r13, 16; add.u32 %r13, %r13, %r11;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}}, [%r13];
tcgen05.wait::ld.sync.aligned;
mad.lo.u64 %d4, %w, 32, %p0; st.global.v4.b32 [%d4], {{%r20, %r21, %r22, %r23}};
st.global.v4.b32 [%d4+16], {{%r24, %r25, %r26, %r27}};
bar.sync 0;
{free}
"""
FREE = "@%q3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;"


def tcgen05_kernel(free: str = FREE, mode: int = 2, n: int = 8) -> str:
    """d = a b^T for 128 x 16 and 8 x 16 in tensor memory."""
    high = mode << 61 | 1 << 46 | (1024 // 16) << 32 | 1 << 16
    instruction = 1 << 4 | (n // 8) << 17 | (128 // 16) << 24
    wait = "V: mbarrier.try_wait.parity.shared::cta.b64 %q6, [%r10], 0; @!%q6 bra V;"
    body = FILL.replace("WORDS", "4352").replace("FENCE", "fence.proxy.async;")
    body += TCGEN05.format(high=high, instruction=instruction, wait=wait, free=free)
    shared = ".shared .align 1024 .b8 s[17408]; .shared .align 8 .b8 done[8];\n"
    return kernel(body, 2, shared + ".shared .align 4 .b8 slot[4];\n")


def tcgen05_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and their bytes."""
    a, b = small((128, 64)), small((8, 64))
    return a, b, np.concatenate([swizzled_rows(a), swizzled_rows(b)])


def test_tcgen05_multiplies_into_tensor_memory() -> None:
    """Row r of the accumulator is lane r."""
    a, b, data = tcgen05_data()
    out = np.zeros((128, 8), np.float32)
    run(tcgen05_kernel(), [out, data], threads=128)
    np.testing.assert_array_equal(out, a[:, :16].astype(np.float64) @ b[:, :16].astype("f8").T)


def test_tensor_memory_must_be_freed_and_not_overrun() -> None:
    """A CTA that ends with columns, a product beyond its columns, a descriptor that means
    nothing."""
    arguments = [np.zeros((128, 8), np.float32), tcgen05_data()[2]]
    with pytest.raises(PtxRuntimeError, match="not deallocated when the CTA ends"):
        run(tcgen05_kernel(free=""), arguments, threads=128)
    with pytest.raises(PtxRuntimeError, match="outside of shared|is not allocated"):
        run(tcgen05_kernel(n=64), arguments, threads=128)
    with pytest.raises(PtxRuntimeError, match="swizzle mode 3"):
        run(tcgen05_kernel(mode=3), arguments, threads=128)
