"""Races, unfinished copies, addresses, mbarriers and atomics of the PTX machine."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.interpreter.ptx import PtxRuntimeError

from .small_kernels import kernel, run

SHARED = ".shared .align 1024 .b8 s[4096];\n"
AT = "mov.u32 %r1, s; shl.b32 %r2, %i, 2; add.u32 %r3, %r1, %r2;\n"
NEXT = "xor.b32 %r4, %r2, 128; add.u32 %r4, %r1, %r4;\n"
OUT = "\nmad.lo.u64 %d1, %w, 4, %p0; st.global.u32 [%d1], %r5;\n"


def test_a_barrier_orders_accesses() -> None:
    """With `bar.sync` between them, a warp reads what another wrote."""
    body = AT + NEXT + "st.shared.u32 [%r3], %i; bar.sync 0; ld.shared.u32 %r5, [%r4];" + OUT
    out = np.zeros(64, np.uint32)
    run(kernel(body, 1, SHARED), [out], threads=64)
    assert out.tolist() == [i ^ 32 for i in range(64)]


@pytest.mark.parametrize("order", ["write first", "read first"])
def test_missing_barrier_is_a_race(order: str) -> None:
    """Both the read after the write and the write after the read are found, with both lines."""
    lines = ["st.shared.u32 [%r3], %i;", "ld.shared.u32 %r5, [%r4];"]
    if order == "read first":
        lines.reverse()
    text = kernel(AT + NEXT + "\n".join(lines) + OUT, 1, SHARED)
    with pytest.raises(PtxRuntimeError, match="race: a") as caught:
        run(text, [np.zeros(64, np.uint32)], threads=64)
    first, second = (text.split("\n").index(line) + 1 for line in lines)
    assert caught.value.line == second
    assert f"line {first}" in caught.value.message


def test_one_warp_needs_no_barrier() -> None:
    """Lanes of a warp are one agent."""
    body = AT + "xor.b32 %r4, %r2, 4; add.u32 %r4, %r1, %r4;\n"
    body += "st.shared.u32 [%r3], %i; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];" + OUT
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1, SHARED), [out])
    assert out.tolist() == [i ^ 1 for i in range(32)]


COPY = "mad.lo.u64 %d2, %w, 16, %p1; shl.b32 %r6, %i, 4; add.u32 %r6, %r1, %r6;\n"
COPY += "cp.async.cg.shared.global [%r6], [%d2], 16;\ncp.async.commit_group;\n"


def test_copies_arrive_when_they_are_waited_for() -> None:
    """`cp.async` and `wait_group`."""
    body = AT + COPY + "cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r5, [%r3];" + OUT
    data, out = np.arange(256, dtype=np.uint32), np.zeros(64, np.uint32)
    run(kernel(body, 2, SHARED), [out, data], threads=64)
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 1;"])
def test_reading_an_unfinished_copy_is_an_error(wait: str) -> None:
    """Without a wait, or with a wait for another group."""
    body = AT + COPY + wait + "bar.sync 0;\nld.shared.u32 %r5, [%r3];" + OUT
    with pytest.raises(PtxRuntimeError, match="which nobody has waited for"):
        run(kernel(body, 2, SHARED), [np.zeros(64, np.uint32), np.zeros(256, np.uint32)])


def test_ignored_bytes_are_zero() -> None:
    """The fourth operand of `cp.async` says how many bytes are read."""
    body = AT + COPY.replace("16;\ncp", "16, 4;\ncp") + "cp.async.wait_all;\n"
    body += "bar.sync 0; ld.shared.u32 %r5, [%r3];" + OUT
    out = np.zeros(32, np.uint32)
    run(kernel(body, 2, SHARED), [out, np.arange(1, 257, dtype=np.uint32)])
    assert out.tolist() == [i + 1 if i % 4 == 0 else 0 for i in range(32)]


def test_faults_name_the_address_and_the_line() -> None:
    """Outside of shared memory, outside of every allocation, misaligned."""
    cases = {
        "ld.shared.u32 %r5, [%r1+8192];": "is outside of the CTA's",
        "ld.global.u32 %r5, [%p0+4096];": "is in no allocation",
        "ld.global.u32 %r5, [%p0+2];": "is not a multiple of 4",
    }
    for line, message in cases.items():
        text = kernel(AT + "\n" + line, 1, SHARED)
        with pytest.raises(PtxRuntimeError, match=message) as caught:
            run(text, [np.zeros(16, np.uint32)])
        assert caught.value.line == text.split("\n").index(line) + 1


def test_atomics_of_one_place_add_up() -> None:
    """Every thread sees another old value; the sum is whole."""
    body = "atom.global.add.u32 %r5, [%p1], 1;" + OUT
    out, total = np.zeros(96, np.uint32), np.zeros(1, np.uint32)
    run(kernel(body, 2), [out, total], threads=96)
    assert total[0] == 96 and sorted(out.tolist()) == list(range(96))


def test_a_lock_between_ctas() -> None:
    """CTAs that spin on a lock take turns."""
    body = """
    setp.ne.u32 %q1, %i, 0; @%q1 bra END;
    TRY: atom.acquire.gpu.global.cas.b32 %r1, [%p0], 0, 1;
    setp.ne.u32 %q2, %r1, 0; @%q2 bra TRY;
    ld.global.u32 %r2, [%p0+4]; add.u32 %r2, %r2, 1; st.global.u32 [%p0+4], %r2;
    atom.release.gpu.global.exch.b32 %r1, [%p0], 0;
    END:"""
    state = np.zeros(2, np.uint32)
    run(kernel(body, 1), [state], grid=(20, 1, 1))
    assert state.tolist() == [0, 20]


PIPE = SHARED + ".shared .align 8 .b8 bar[16];\n"


def handover(wait: str) -> str:
    """Warp 0 writes and arrives; warp 1 waits (or not) and reads."""
    return (
        AT
        + "mov.u32 %r10, bar; setp.eq.u32 %q1, %i, 0;\n@%q1 mbarrier.init.shared.b64 [%r10], 32;\n"
        + "bar.sync 0; setp.ge.u32 %q2, %i, 32; @%q2 bra READ;\n"
        + "st.shared.u32 [%r3], %i; mbarrier.arrive.shared.b64 _, [%r10]; bra END;\n"
        + f"READ:\n{wait}\n"
        + "sub.u32 %r4, %r3, 128; ld.shared.u32 %r5, [%r4];"
        + OUT
        + "END:"
    )


WAIT = "W: mbarrier.try_wait.parity.shared.b64 %q3, [%r10], 0; @!%q3 bra W;"


def test_an_mbarrier_hands_data_over() -> None:
    """`try_wait` returns when the phase is complete."""
    out = np.zeros(64, np.uint32)
    run(kernel(handover(WAIT), 1, PIPE), [out], threads=64)
    assert out[32:].tolist() == list(range(32))


def test_a_missing_wait_is_a_race() -> None:
    """The reader that does not wait is found whatever comes first."""
    with pytest.raises(PtxRuntimeError, match="race"):
        run(kernel(handover(""), 1, PIPE), [np.zeros(64, np.uint32)], threads=64)


def test_a_wait_that_nobody_ends_is_a_deadlock() -> None:
    """The wrong parity: the phase after the next never comes."""
    body = handover(WAIT.replace(", 0;", ", 1;") + WAIT.replace("W", "V"))
    body = body.replace("mbarrier.arrive.shared.b64 _, [%r10];", "")
    with pytest.raises(PtxRuntimeError, match="deadlock: nobody can end the wait of the mbarrier"):
        run(kernel(body, 1, PIPE), [np.zeros(64, np.uint32)], threads=64)


def test_an_mbarrier_must_be_initialised() -> None:
    """Once, and must not get more arrivals than it expects."""
    text = kernel("mov.u32 %r10, bar; mbarrier.arrive.shared.b64 _, [%r10];", 0, PIPE)
    with pytest.raises(PtxRuntimeError, match="no mbarrier was initialised"):
        run(text, [])
    body = "mov.u32 %r10, bar; setp.eq.u32 %q1, %i, 0; @%q1 mbarrier.init.shared.b64 [%r10], 8;\n"
    body += "bar.sync 0; mbarrier.arrive.shared.b64 _, [%r10];"
    with pytest.raises(PtxRuntimeError, match="32 arrivals where 8 are pending"):
        run(kernel(body, 0, PIPE), [])
    twice = "mov.u32 %r10, bar; mbarrier.init.shared.b64 [%r10], 8;\n"
    with pytest.raises(PtxRuntimeError, match="there is an mbarrier at .* already"):
        run(kernel(twice, 0, PIPE), [])


def test_ctas_of_a_cluster_read_each_other() -> None:
    """`mapa`, `ld.shared::cluster` and the cluster's barrier."""
    body = (
        AT
        + """
    mov.u32 %r9, %cluster_ctarank; xor.b32 %r8, %r9, 1;
    mad.lo.u32 %r7, %r9, 100, %i; st.shared.u32 [%r3], %r7;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r4, %r3, %r8; ld.shared::cluster.u32 %r5, [%r4];
    mad.lo.u32 %r7, %r9, 32, %i; cvt.u64.u32 %w, %r7;"""
        + OUT
    )
    out = np.zeros(64, np.uint32)
    run(kernel(body, 1, SHARED), [out], grid=(2, 1, 1), cluster=(2, 1, 1))
    assert out.tolist() == [*range(100, 132), *range(32)]


def test_without_the_cluster_barrier_it_is_a_race() -> None:
    """The other CTA's write is not ordered before the read."""
    body = (
        AT
        + """
    mov.u32 %r9, %cluster_ctarank; xor.b32 %r8, %r9, 1; st.shared.u32 [%r3], %i;
    mapa.shared::cluster.u32 %r4, %r3, %r8; ld.shared::cluster.u32 %r5, [%r4];"""
        + OUT
    )
    with pytest.raises(PtxRuntimeError, match="race"):
        run(kernel(body, 1, SHARED), [np.zeros(64, np.uint32)], grid=(2, 1, 1), cluster=(2, 1, 1))
