"""Memory that a tensor store reads may be written again when its group was waited for."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.interpreter.ptx import PtxRuntimeError, TensorMap, run_ptx

from .small_kernels import HEADER

STORE_AND_OVERWRITE = """
.visible .entry k(.param .align 64 .b8 map[128])
{
.reg .pred %q<4>; .reg .b32 %r<8>; .reg .b64 %d<4>; .shared .align 128 .b8 box[64];
mov.b64 %d2, map; cvta.param.u64 %d3, %d2; mov.u32 %r3, box; mov.u32 %r1, 0; mov.u32 %r5, %tid.x;
setp.eq.u32 %q1, %r5, 0; setp.eq.u32 %q2, %r5, 32;
@%q1 st.shared.b32 [%r3], 0x00020001;
@%q1 fence.proxy.async;
@%q1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d3, {%r1, %r1}], [%r3];
@%q1 cp.async.bulk.commit_group;
WAIT
bar.sync 0;
@%q2 st.shared.b32 [%r3], 0x00040003;
ret;
}
"""
"""The first warp stores a box, the second one writes over it."""


def stored(wait: str) -> np.ndarray:
    """The array that the box was stored to."""
    data = np.zeros((2, 16), np.uint16)
    map_ = TensorMap(
        element="u16", shape=(16, 2), strides=(32,), box=(8, 2), swizzle="none", array=data
    )
    run_ptx(HEADER + STORE_AND_OVERWRITE.replace("WAIT", wait), [map_], block=(64, 1, 1))
    return data


@pytest.mark.parametrize("read", ["", ".read"])
def test_another_warp_writes_over_what_was_waited_for(read: str) -> None:
    assert list(stored(f"@%q1 cp.async.bulk.wait_group{read} 0;")[0, :2]) == [1, 2]


@pytest.mark.parametrize("wait", ["", "@%q1 cp.async.bulk.wait_group.read 1;"])
def test_writing_over_what_nobody_waited_for_is_a_race(wait: str) -> None:
    with pytest.raises(PtxRuntimeError, match="race: .*nothing orders them"):
        stored(wait)
