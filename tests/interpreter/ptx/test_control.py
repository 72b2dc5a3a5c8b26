"""Threads that part and meet, calls, loops, budget, and what is refused with its line."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.interpreter.ptx import Limits, PtxRuntimeError, PtxSyntaxError, run_ptx

from .small_kernels import HEADER, kernel, run

STORE = "mad.lo.u64 %d1, %w, 4, %p0; st.global.u32 [%d1], %r1;"


def test_threads_that_parted_meet_again() -> None:
    """A loop whose length differs from thread to thread, then a shuffle of the whole warp."""
    body = f"""
    mov.u32 %r1, 0;
    mov.u32 %r2, %i;
    LOOP: setp.eq.u32 %q1, %r2, 0;
    @%q1 bra DONE;
    add.u32 %r1, %r1, %r2;
    sub.u32 %r2, %r2, 1;
    bra LOOP;
    DONE: shfl.sync.bfly.b32 %r1, %r1, 1, 31, 0xffffffff;
    {STORE}"""
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1), [out])
    wanted = [sum(range((i ^ 1) + 1)) for i in range(32)]
    assert out.tolist() == wanted


def test_blocks_in_any_order_meet_at_their_sync() -> None:
    """The block behind both branches stands before them in the text."""
    body = f"""
    mov.u32 %r1, 0;
    bra START;
    END: bar.warp.sync 0xffffffff;
    vote.sync.ballot.b32 %r3, %q1, 0xffffffff;
    add.u32 %r1, %r1, %r3;
    {STORE}
    ret;
    START: and.b32 %r2, %i, 1;
    setp.eq.u32 %q1, %r2, 0;
    @%q1 bra EVEN;
    mov.u32 %r1, 1;
    bra END;
    EVEN: mov.u32 %r1, 2;
    bra END;"""
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1), [out])
    assert out.tolist() == [0x55555555 + (2 if i % 2 == 0 else 1) for i in range(32)]


def test_calls_take_parameters_and_give_results() -> None:
    """A function with a branch of its own, called twice."""
    function = """
.func (.param .b32 out) twice(.param .b32 in) {
.reg .b32 %r<3>;
.reg .pred %q;
ld.param.b32 %r1, [in];
setp.gt.u32 %q, %r1, 20;
@%q bra BIG;
shl.b32 %r2, %r1, 1;
st.param.b32 [out], %r2;
ret;
BIG: st.param.b32 [out], 0;
ret;
}
"""
    call = """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a);
    ld.param.b32 %r1, [b]; }"""
    body = f"mov.u32 %r1, %i; {call} {call} {STORE}"
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1, function), [out])

    def twice(x: int) -> int:
        return 0 if x > 20 else 2 * x

    assert out.tolist() == [twice(twice(i)) for i in range(32)]


def test_recursion_is_an_error() -> None:
    """A function that calls itself cannot be copied into its caller."""
    function = ".func f() { call f; ret; }\n"
    with pytest.raises(PtxSyntaxError, match="recursion"):
        run(kernel("call f;", 0, function), [])


def test_branches_by_index() -> None:
    """`brx.idx` through a list of targets; an index beyond it is an error."""
    body = f"""
    LIST: .branchtargets A, B;
    and.b32 %r2, %i, 1;
    brx.idx %r2, LIST;
    A: mov.u32 %r1, 10; bra END;
    B: mov.u32 %r1, 20;
    END: {STORE}"""
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1), [out])
    assert out.tolist() == [10, 20] * 16
    with pytest.raises(PtxRuntimeError, match="index 31 of 2 branch targets"):
        run(kernel(body.replace("and.b32 %r2, %i, 1", "mov.u32 %r2, %i"), 1), [out])


def test_budget_ends_what_does_not_end() -> None:
    """An endless loop is an error with its line."""
    with pytest.raises(PtxRuntimeError, match="budget of 1000 instructions"):
        run(kernel("L: bra L;", 0), [], limits=Limits(1000))


def test_deadlock_is_reported() -> None:
    """Half of the warps never come to the barrier with a count of all."""
    body = "setp.lt.u32 %q1, %i, 32;\n@%q1 bra END;\nbar.sync 1, 64;\nEND:"
    with pytest.raises(PtxRuntimeError, match="deadlock: nobody can end the wait of a barrier"):
        run(kernel(body, 0), [], threads=64)


def test_exited_threads_do_not_hold_up_a_barrier() -> None:
    """`bar.sync 0` waits for the warps that still live."""
    body = f"setp.ge.u32 %q1, %i, 32;\n@%q1 ret;\nbar.sync 0;\nmov.u32 %r1, 7;\n{STORE}"
    out = np.zeros(32, np.uint32)
    run(kernel(body, 1), [out], threads=64)
    assert (out == 7).all()


WRONG = {
    "frobnicate.u32 %r1, %r2;": "unknown instruction 'frobnicate.u32'",
    "add.u32 %r1, %r2;": "2 operands, expected 3",
    "add.u32.frob %r1, %r2, %r3;": "'.frob' is no type",
    "add.frob.u32 %r1, %r2, %r3;": "unknown modifier '.frob'",
    "add.u32 %r1, %d2, %q1;": "register of type .pred where .u32 is expected",
    "add.u64 %d1, %r2, %d1;": "register of type .b32 where .u64 is expected",
    "mov.u32 %r1, %nosuch;": "unknown special register '%nosuch'",
    "mov.u32 %r1, nosuch;": "'nosuch' is declared nowhere",
    "bra nowhere;": "'nowhere' is declared nowhere",
    "@%r1 bra END;": "'%r1' is no predicate",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r0}, {%f0};": "expected 4",
    "add.u32 %r1, %r2, %r3": "expected",
}


@pytest.mark.parametrize("line", WRONG)
def test_malformed_instructions_are_errors_with_their_line(line: str) -> None:
    """The message says what is wrong, the location where."""
    text = kernel(f"{line}\nEND:", 0)
    with pytest.raises(PtxSyntaxError) as caught:
        run_ptx(text, [], block=(32, 1, 1), filename="k.ptx")
    assert WRONG[line] in caught.value.message
    number = text.split("\n").index(line) + 1
    assert caught.value.line in (number, number + 1)
    assert caught.value.render().startswith('loc("k.ptx":')


def test_text_without_a_version_is_not_ptx() -> None:
    """Anything that is not PTX is refused."""
    for text, message in (
        ("", "no .version"),
        ("hello", "unknown directive"),
        (HEADER + "`", "no"),
    ):
        with pytest.raises(PtxSyntaxError, match=message):
            run_ptx(text, [])


def test_arguments_must_fit_the_parameters() -> None:
    """A wrong number of arguments, and an array for a number."""
    text = kernel("", 1)
    with pytest.raises(PtxRuntimeError, match="has 1 parameters, found 0 arguments"):
        run(text, [])
    with pytest.raises(PtxRuntimeError, match="argument of type str"):
        run(text, ["x"])


def test_a_cluster_takes_over_what_has_not_started() -> None:
    """`clusterlaunchcontrol`: the first CTA does the work of all, and the others never run."""
    body = """
    mov.u32 %r9, bar; mov.u32 %r8, answer; setp.eq.u32 %q1, %i, 0; mov.u32 %r7, 0;
    @%q1 mbarrier.init.shared.b64 [%r9], 1;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0; bar.sync 0;
    WORK: mad.lo.u32 %r3, %r1, 4, 0; cvt.u64.u32 %d1, %r3; add.u64 %d1, %d1, %p0;
    @%q1 red.global.add.u32 [%d1], 1; add.u32 %r2, %r2, 1;
    @%q1 mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 16;
    @%q1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
      [%r8], [%r9];
    W: mbarrier.try_wait.parity.shared.b64 %q2, [%r9], %r7; @!%q2 bra W;
    xor.b32 %r7, %r7, 1; ld.shared.b128 %x, [%r8]; bar.sync 0;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q3, %x;
    @!%q3 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r4, %r5, _}, %x;
    bra WORK;
    END: @%q1 red.global.add.u32 [%p1], 1;"""
    shared = ".shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];\n"
    text = kernel(body, 2, shared).replace(".reg .b64 %w;", ".reg .b64 %w; .reg .b128 %x;")
    done, ctas = np.zeros(12, np.uint32), np.zeros(1, np.uint32)
    run(text, [done, ctas], grid=(12, 1, 1), limits=Limits(resident=1))
    assert (done == 1).all() and ctas[0] == 1
