"""`tcgen05.shift` in the PTX machine: which rows move, and mistakes that are found."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.small_kernels import kernel, run
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import CompileOptions

COLUMNS = 16
THREADS = 128
SHIFT = "tcgen05.shift.cta_group::1.down [%r30];"
COMMIT = """tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r21];
DONE: mbarrier.try_wait.parity.shared.b64 %q2, [%r21], 0; @!%q2 bra DONE;"""


def program(lane: int, column: int, shift: str = SHIFT, wait: str = COMMIT) -> str:
    """Every lane has words of its own in 16 columns; one thread shifts; all are read again."""
    names = [f"%r{40 + at}" for at in range(COLUMNS)]
    words = "\n".join(f"mad.lo.u32 {name}, %i, 100, {at};" for at, name in enumerate(names))
    stores = "\n".join(f"st.global.b32 [%d3+{4 * at}], {name};" for at, name in enumerate(names))
    text = f"""mov.u32 %r20, slot; mov.u32 %r21, bar;
setp.lt.u32 %q0, %i, 32; setp.eq.u32 %q1, %i, 0;
@%q1 mbarrier.init.shared.b64 [%r21], 1;
@!%q0 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 32;
ALLOCATED: bar.sync 0;
ld.shared.b32 %r1, [slot];
shr.u32 %r2, %i, 5; shl.b32 %r2, %r2, 21; add.u32 %r2, %r2, %r1;
{words}
tcgen05.st.sync.aligned.32x32b.x16.b32 [%r2], {{{", ".join(names)}}};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
add.u32 %r30, %r1, {(lane << 16) + column};
@!%q1 bra SHIFTED;
{shift}
{wait}
SHIFTED: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{", ".join(names)}}}, [%r2];
tcgen05.wait::ld.sync.aligned;
mad.lo.u64 %d3, %w, {4 * COLUMNS}, %p0;
{stores}
bar.sync 0;
@!%q0 bra FREED;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
FREED:"""
    return kernel(text, 1, ".shared .align 8 .b64 bar;\n.shared .b32 slot;\n")


def shifted(lane: int, column: int) -> np.ndarray:
    """What is read behind the shift."""
    found = np.zeros((THREADS, COLUMNS), np.uint32)
    run(program(lane, column), [found], THREADS)
    return found


@pytest.mark.parametrize(("lane", "column"), [(0, 0), (32, 4), (96, 8)])
def test_rows_of_a_warp_move_down_by_one(lane: int, column: int) -> None:
    wanted = np.arange(THREADS, dtype=np.uint32)[:, None] * 100 + np.arange(
        COLUMNS, dtype=np.uint32
    )
    moved = wanted[lane : lane + 31, column : column + 8].copy()
    wanted[lane + 1 : lane + 32, column : column + 8] = moved
    np.testing.assert_array_equal(shifted(lane, column), wanted)


def test_a_shift_is_waited_for() -> None:
    """Nobody waits: the columns are freed before the rows have moved."""
    found = np.zeros((THREADS, COLUMNS), np.uint32)
    with pytest.raises(PtxError, match="not allocated"):
        run(program(0, 0, wait=""), [found], THREADS)


@pytest.mark.parametrize(("lane", "column"), [(8, 0), (0, 28)])
def test_what_is_not_allocated_or_begins_within_a_warp_is_refused(lane: int, column: int) -> None:
    with pytest.raises(PtxError, match="tensor memory"):
        run(program(lane, column), [np.zeros((THREADS, COLUMNS), np.uint32)], THREADS)


def test_another_direction_is_refused() -> None:
    text = program(0, 0, shift="tcgen05.shift.cta_group::1.up [%r30];")
    with pytest.raises(PtxError, match="down"):
        run(text, [np.zeros((THREADS, COLUMNS), np.uint32)], THREADS)


def test_ptxas_takes_it() -> None:
    options = CompileOptions(gpu_name="sm_100")
    assert ptx_to_cubin(program(0, 0), get_target("sm_100"), options).cubin
