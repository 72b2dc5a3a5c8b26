"""Two CTAs of a cluster that compute one product (`cta_group::2`), and multicast copies."""

from __future__ import annotations

import numpy as np

from tests.interpreter.ptx.product_programs import FILL, TMA, small, swizzled_rows
from tileiras.interpreter.ptx import TensorMap, run_ptx

from .small_kernels import HEADER, kernel, run

PAIR = """
mov.u32 %r9, slot; setp.lt.u32 %q3, %i, 32; setp.eq.u32 %q4, %i, 0; mov.u32 %r10, done;
@%q3 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r9], 32;
@%q4 mbarrier.init.shared::cta.b64 [%r10], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.b32 %r11, [%r9];
and.b32 %r15, %r1, 0x3ffff; shr.u32 %r6, %r15, 4; cvt.u64.u32 %d2, %r6; or.b64 %d2, %d2, {high};
add.u32 %r7, %r15, 16384; shr.u32 %r7, %r7, 4; cvt.u64.u32 %d3, %r7; or.b64 %d3, %d3, {high};
mov.b32 %r12, {instruction}; setp.ne.u32 %q5, %r1, %r1;
setp.eq.and.u32 %q7, %r14, 0, %q4; mov.b16 %h1, 3;
@%q7 tcgen05.mma.cta_group::2.kind::f16 [%r11], %d2, %d3, %r12, %q5;
@%q7 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
  [%r10], %h1;
V: mbarrier.try_wait.parity.shared::cta.b64 %q6, [%r10], 0; @!%q6 bra V;
and.b32 %r13, %i, 96; shl.b32 %r13, %r13, 16; add.u32 %r13, %r13, %r11;
tcgen05.ld.sync.aligned.16x256b.x2.b32
  {{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}}, [%r13];
add.u32 %r13, %r13, 0x100000;
tcgen05.ld.sync.aligned.16x256b.x2.b32
  {{%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37}}, [%r13];
tcgen05.wait::ld.sync.aligned;
mad.lo.u64 %d4, %w, 64, %p0;
st.global.v4.b32 [%d4], {{%r20, %r21, %r22, %r23}};
st.global.v4.b32 [%d4+16], {{%r24, %r25, %r26, %r27}};
st.global.v4.b32 [%d4+32], {{%r30, %r31, %r32, %r33}};
st.global.v4.b32 [%d4+48], {{%r34, %r35, %r36, %r37}};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%q3 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r11, 32;
"""


def test_two_ctas_compute_one_product() -> None:
    """M = 256: each CTA brings its rows of A and half of B, and gets its rows of the result.

    The loads are of shape 16x256b, whose fragments are those of mma.sync's accumulators.
    """
    high = 2 << 61 | 1 << 46 | (1024 // 16) << 32 | 1 << 16
    instruction = 1 << 4 | (16 // 8) << 17 | (256 // 16) << 24
    body = "mov.u32 %r14, %cluster_ctarank; cvt.u64.u32 %d20, %r14;\n"
    body += "mad.lo.u64 %p1, %d20, 17408, %p1; mad.lo.u64 %p0, %d20, 8192, %p0;\n"
    body += FILL.replace("WORDS", "4352").replace("FENCE", "fence.proxy.async;")
    body += PAIR.format(high=high, instruction=instruction)
    shared = ".shared .align 1024 .b8 s[17408]; .shared .align 8 .b8 done[8];\n"
    shared += ".shared .align 4 .b8 slot[4];\n"
    a, b = small((256, 64)), small((16, 64))
    halves = [(a[:128], b[:8]), (a[128:], b[8:])]
    data = np.concatenate([swizzled_rows(part) for half in halves for part in half])
    out = np.zeros((2, 4, 32, 2, 2, 4), np.float32)
    run(kernel(body, 2, shared), [out, data], 128, grid=(2, 1, 1), cluster=(2, 1, 1))
    wanted = a[:, :16].astype(np.float64) @ b[:, :16].astype(np.float64).T
    for place in np.ndindex(out.shape):
        cta, warp, lane, upper, repeat, i = place
        row = cta * 128 + warp * 32 + upper * 16 + lane // 4 + 8 * (i >> 1)
        assert out[place] == wanted[row, repeat * 8 + lane % 4 * 2 + (i & 1)]


def test_a_multicast_copy_reaches_all_ctas_of_the_mask() -> None:
    """One CTA asks for the box; both get it at the same offset, and their own mbarriers count."""
    data = np.random.default_rng(4).integers(1, 1000, (20, 96)).astype(np.uint16)
    map_ = TensorMap(element="u16", shape=(96, 20), strides=(192,), box=(32, 16), array=data)
    text = TMA.replace(".shared::cta.global", ".shared::cluster.global")
    text = text.replace("bytes\n  [%r3]", "bytes.multicast::cluster\n  [%r3]")
    text = text.replace("{%r1, %r2}], [%r4];", "{%r1, %r2}], [%r4], %h1;")
    text = text.replace("@%q1 cp", "mov.b16 %h1, 3; @%q3 cp").replace(
        ".reg", ".reg .b16 %h<2>; .reg", 1
    )
    both = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    text = text.replace("bar.sync 0;", "mov.u32 %r13, %cluster_ctarank; " + both)
    text = text.replace("mov.b16 %h1", "setp.eq.and.u32 %q3, %r13, 0, %q1; mov.b16 %h1")
    wait = "W: mbarrier.try_wait.parity.shared.b64 %q2, [%r4], 0; @!%q2 bra W;\n"
    wait += "cvt.u64.u32 %d5, %r13; mad.lo.u64 %d1, %d5, 1024, %d1;"
    out = np.zeros((2, 16, 32), np.uint16)
    arguments = [out, map_, 8, 3]
    run_ptx(
        HEADER + text.replace("WAIT", wait), arguments, (2, 1, 1), (32, 1, 1), cluster=(2, 1, 1)
    )
    for cta in (0, 1):
        np.testing.assert_array_equal(out[cta], data[3:19, 8:40])
