"""wgmma is one operation of four warps: who has waited for it may speak for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.product_programs import FILL, wgmma_data
from tileiras.interpreter.ptx import PtxRuntimeError

from .small_kernels import kernel, run

ARRIVE = "@%q4 mbarrier.arrive.shared.b64 _, [%r10];"
"""The first thread says that the operands have been read."""
SHARED = ".shared .align 1024 .b8 s[9216];\n.shared .align 8 .b8 free[8];\n"


def product_then_overwrite(early: str = "", late: str = ARRIVE, warps: int = 4) -> str:
    """A product of a warpgroup, and a fifth warp that writes over B when it is told to.

    `early` stands before `wgmma.wait_group`, `late` behind it; `warps` of four issue the product.
    """
    high = 1 << 62 | (1024 // 16) << 32 | 1 << 16
    fill = FILL.replace("WORDS", "2304").replace("FENCE", "fence.proxy.async;")
    body = f"""
    mov.u32 %r10, free; setp.eq.u32 %q4, %i, 0; mov.u32 %r1, s;
    @%q4 mbarrier.init.shared.b64 [%r10], 1;
    bar.sync 0;
    setp.ge.u32 %q5, %i, 128; @%q5 bra OTHER;
    {fill.replace("bar.sync 0;", "bar.sync 1, 128;")}
    add.u32 %r6, %r1, 32; shr.u32 %r6, %r6, 4; cvt.u64.u32 %d2, %r6; or.b64 %d2, %d2, {high};
    add.u32 %r7, %r1, 8224; shr.u32 %r7, %r7, 4; cvt.u64.u32 %d3, %r7; or.b64 %d3, %d3, {high};
    setp.ne.u32 %q2, %r1, %r1; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    setp.ge.u32 %q6, %i, {32 * warps}; @%q6 bra DONE;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%f0, %f1, %f2, %f3}}, %d2, %d3, %q2, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    {early}
    wgmma.wait_group.sync.aligned 0;
    {late}
    mad.lo.u64 %d4, %w, 16, %p0; st.global.v4.f32 [%d4], {{%f0, %f1, %f2, %f3}};
    DONE: ret;
    OTHER: mbarrier.try_wait.parity.shared.b64 %q7, [%r10], 0; @!%q7 bra OTHER;
    shl.b32 %r8, %i, 2; add.u32 %r8, %r8, %r1; mov.u32 %r9, 0; st.shared.b32 [%r8+7680], %r9;"""
    return kernel(body, 2, SHARED)


def test_one_thread_says_for_all_that_operands_have_been_read() -> None:
    """The fifth warp overwrites row 0 of B, and every row of the result is that of before."""
    a, b, data = wgmma_data()
    out = np.zeros((128, 4), np.float32)
    run(product_then_overwrite(), [out, data], threads=160)
    wanted = a[:, 16:32].astype(np.float64) @ b[:, 16:32].astype(np.float64).T
    for thread in range(128):
        for i in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i >> 1)
            assert out[thread, i] == wanted[row, thread % 4 * 2 + (i & 1)]


def test_who_has_not_waited_cannot_say_so() -> None:
    with pytest.raises(PtxRuntimeError, match="race: .* nothing orders them"):
        text = product_then_overwrite(early=ARRIVE, late="")
        run(text, [np.zeros(512, np.float32), wgmma_data()[2]], threads=160)


def test_a_product_of_three_warps_never_ends() -> None:
    """The instruction is one of all four warps of a warpgroup."""
    with pytest.raises(PtxRuntimeError, match="other warps of the warpgroup do not issue"):
        text = product_then_overwrite(early=ARRIVE, late="", warps=3)
        run(text, [np.zeros(512, np.float32), wgmma_data()[2]], threads=160)
