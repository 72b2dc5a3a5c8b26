"""PTX that brings tiles to shared memory and multiplies them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

RNG = np.random.default_rng(1)


EXACT = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}


def small(shape: tuple[int, ...], name: str = "f16") -> np.ndarray:
    """Quarters, whose products and sums are exact."""
    return (RNG.integers(-6, 7, shape) / 4).astype(EXACT[name])


TMA = """
.visible .entry k(.param .u64 out, .param .align 64 .b8 map[128], .param .u32 x, .param .u32 y)
{
.reg .pred %q<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
.shared .align 1024 .b8 box[1024]; .shared .align 8 .b8 bar[8];
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];
mov.b64 %d2, map; cvta.param.u64 %d3, %d2; mov.u32 %r3, box; mov.u32 %r4, bar; mov.u32 %r5, %tid.x;
setp.eq.u32 %q1, %r5, 0;
@%q1 mbarrier.init.shared.b64 [%r4], 1;
bar.sync 0;
@%q1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 1024;
@%q1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
  [%r3], [%d3, {%r1, %r2}], [%r4];
WAIT
shl.b32 %r6, %r5, 5; add.u32 %r7, %r3, %r6; cvt.u64.u32 %d4, %r6; add.u64 %d4, %d4, %d1;
ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r7]; st.global.v4.b32 [%d4], {%r8, %r9, %r10, %r11};
ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r7+16];
st.global.v4.b32 [%d4+16], {%r8, %r9, %r10, %r11};
ret;
}
"""


def swizzled_rows(matrix: np.ndarray) -> np.ndarray:
    """A K-major matrix of 64 columns of 16 bits with the 128-byte swizzle, as bytes."""
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(-1, 8, 16)
    result = np.zeros_like(raw)
    for row in range(len(raw)):
        for unit in range(8):
            result[row, unit ^ (row % 8)] = raw[row, unit]
    return result.reshape(-1)


def wgmma_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and their bytes in shared memory."""
    a, b = small((64, 64)), small((8, 64))
    return a, b, np.concatenate([swizzled_rows(a), swizzled_rows(b)])


FILL = """
mov.u32 %r1, s; mov.u32 %r2, %i;
FILL: shl.b32 %r3, %r2, 2; cvt.u64.u32 %d1, %r3; add.u64 %d1, %d1, %p1; ld.global.b32 %r4, [%d1];
add.u32 %r5, %r1, %r3; st.shared.b32 [%r5], %r4; add.u32 %r2, %r2, 128;
setp.lt.u32 %q1, %r2, WORDS; @%q1 bra FILL;
FENCE bar.sync 0;
"""
