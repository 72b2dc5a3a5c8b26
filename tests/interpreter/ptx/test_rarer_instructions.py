"""Instructions that few kernels have: equal values of a warp, stores that count bytes, hints."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.small_kernels import kernel, run
from tileiras.interpreter.ptx.errors import PtxError

SHARED = ".shared .align 8 .b64 bar;\n.shared .align 16 .b32 got[4];\n"
STORE = "mad.lo.u64 %d3, %w, 4, %p0; st.global.u32 [%d3], %r5;"


def test_lanes_with_the_same_value_are_found() -> None:
    out = np.zeros(32, np.uint32)
    run(kernel(f"rem.u32 %r1, %i, 5; match.any.sync.b32 %r5, %r1, -1;\n{STORE}", 1), [out])
    groups = [sum(1 << lane for lane in range(at % 5, 32, 5)) for at in range(32)]
    assert out.tolist() == groups


@pytest.mark.parametrize(("divisor", "wanted"), [(32, 0xFFFFFFFF), (16, 0)])
def test_whether_all_lanes_have_one_value(divisor: int, wanted: int) -> None:
    """The flag is false, and the mask 0, where one differs."""
    body = f"div.u32 %r1, %i, {divisor}; match.all.sync.b32 %r5|%q1, %r1, -1;\n"
    body += f"selp.u32 %r6, 1, 0, %q1; setp.ne.u32 %q2, %r6, {int(wanted != 0)};\n@%q2 trap;\n"
    out = np.full(32, 7, np.uint32)
    run(kernel(body + STORE, 1), [out])
    assert out.tolist() == [wanted] * 32


def exchange(send: str, bytes_wanted: int) -> str:
    """Each CTA of two sends to the other one, which waits for the bytes."""
    body = f"""mov.u32 %r10, bar; mov.u32 %r11, got; setp.eq.u32 %q1, %i, 0;
mov.u32 %r9, %cluster_ctarank; xor.b32 %r8, %r9, 1;
@%q1 mbarrier.init.shared.b64 [%r10], 1;
setp.lt.u32 %q2, %i, 4; shl.b32 %r12, %i, 2; add.u32 %r12, %r12, %r11;
mov.u32 %r13, 1000; @%q2 st.shared.u32 [%r12], %r13;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r14, %r11, %r8; mapa.shared::cluster.u32 %r15, %r10, %r8;
@%q1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], {bytes_wanted};
add.u32 %r20, %r9, 40; add.u32 %r21, %r9, 50; add.u32 %r22, %r9, 60; add.u32 %r23, %r9, 70;
@!%q1 bra SENT;
{send}
SENT:
W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q3, [%r10], 0; @!%q3 bra W;
@!%q2 bra READ;
ld.shared.u32 %r5, [%r12];
mad.lo.u32 %r7, %r9, 4, %i; cvt.u64.u32 %w, %r7;
{STORE}
READ: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    return kernel(body, 1, SHARED)


def sent(send: str, bytes_wanted: int) -> list[int]:
    """What both CTAs have got."""
    out = np.zeros(8, np.uint32)
    run(exchange(send, bytes_wanted), [out], grid=(2, 1, 1), cluster=(2, 1, 1))
    return out.tolist()


def test_a_store_to_another_cta_counts_its_bytes() -> None:
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
    assert sent(f"{store}.u32 [%r14], %r20, [%r15];", 4) == [41, 1000, 1000, 1000, 40, *[1000] * 3]
    four = f"{store}.v4.u32 [%r14], {{%r20, %r21, %r22, %r23}}, [%r15];"
    assert sent(four, 16) == [41, 51, 61, 71, 40, 50, 60, 70]


def test_an_addition_to_another_cta_counts_its_bytes() -> None:
    add = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
    assert sent(f"{add} [%r14], %r20, [%r15];", 4) == [1041, *[1000] * 3, 1040, *[1000] * 3]


def test_bytes_that_nobody_sends_are_waited_for_in_vain() -> None:
    with pytest.raises(PtxError, match=r"wait|budget|block"):
        sent("", 4)


def test_hints_change_nothing() -> None:
    body = f"""griddepcontrol.wait;
createpolicy.fractional.L2::evict_first.b64 %d5, 1.0;
cp.async.bulk.prefetch.L2.global [%p0], 64;
prefetch.global.L2 [%p0];
ld.global.L2::cache_hint.u32 %r5, [%p0], %d5; add.u32 %r5, %r5, %i;
griddepcontrol.launch_dependents;
bar.sync 0;
{STORE}"""
    out = np.full(32, 3, np.uint32)
    run(kernel(body, 1), [out])
    assert out.tolist() == [3 + lane for lane in range(32)]
