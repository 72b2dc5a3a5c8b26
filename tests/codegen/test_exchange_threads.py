"""Tiles that CTAs of a cluster send to one of them: thread by thread, and as PTX."""

from __future__ import annotations

import re

import pytest

from tests.kernels.lock_kernels import TURNS, SmemTransposeCase
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.product_text import ProductKernel
from tests.kernels.thread_programs import OPTIONS
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.ir_text import parse_text

TARGET = get_target("sm_90")


@pytest.mark.parametrize("parts", [3, 9])
def test_threads_find_what_those_of_other_ctas_have_sent(parts: int):
    case = SmemTransposeCase(parts, 1)
    run_lowered(lower_to_llvm(parse_text(TURNS, "kernel.mlir")), case.arguments, case.grid)
    case.check()


@pytest.mark.parametrize(
    "text",
    [TURNS, ProductKernel("f16", (64, 64, 64), form="split").text()],
    ids=["loaded", "product"],
)
def test_nothing_that_is_sent_waits_for_a_fence(text: str):
    lowered = lower_to_llvm(parse_text(text, "kernel.mlir"))
    ptx = llvm_ir_to_ptx(print_module(lowered, TARGET, OPTIONS), TARGET, OPTIONS)
    assert ptx_to_cubin(ptx, TARGET, OPTIONS)
    assert re.search(r"\.reqnctapercluster\s+4, 1, 1", ptx)
    # All meet once the reader's mbarrier is there and knows what comes; then tiles are sent.
    order = [
        "mbarrier.init.shared::cta.b64",
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64",
        "barrier.cluster.arrive.relaxed.aligned",
        "barrier.cluster.wait.acquire.aligned",
    ]
    places = [ptx.rindex(step) for step in order]
    assert places == sorted(places)
    assert ptx.count(order[2]) == ptx.count(order[3]) == 1
    sends = ptx.index("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32")
    reads = ptx.index("mbarrier.try_wait.parity.acquire.cluster")
    assert places[-1] < sends and places[-1] < reads
    assert "barrier.cluster.arrive.release" not in ptx
    assert ptx.count("atom.acquire.gpu.global.cas") == 1
    assert ptx.count("atom.release.gpu.global.exch") == 1


def test_one_thread_of_all_roles_makes_the_mbarrier():
    """The producer's first thread, which consumers need not wait for, might make it once more."""
    text = ProductKernel("f16", (64, 64, 64), form="split").text()
    lowered = lower_to_llvm(parse_text(text, "kernel.mlir"))
    ptx = llvm_ir_to_ptx(print_module(lowered, TARGET, OPTIONS), TARGET, OPTIONS)
    [thread] = re.findall(r"mov\.u32\s+(%r\d+), %tid\.x;", ptx)
    [guard] = re.findall(r"@(%p\d+) bra\s+\$L\w+;\s+mov\.b64\s+%rd\d+, arrived;", ptx)
    [tested] = re.findall(rf"setp\.ne\.b32\s+{guard}, (%r\d+), 0;", ptx)
    # The consumers are the first 128 threads, and the producer does not come here.
    assert tested == thread or re.search(rf"and\.b32\s+{tested}, {thread}, 127;", ptx)
