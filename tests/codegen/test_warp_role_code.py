"""What warps of several roles run: registers, barriers, copies, in the order of PTX."""

from __future__ import annotations

import re

import pytest

from tests.kernels.compilations import compiled
from tests.kernels.gather import experts
from tests.kernels.gemm import gemm, persistent
from tests.kernels.product_text import ProductKernel, products_in_turn
from tests.kernels.random_products import aligned_result
from tests.kernels.tiles_per_cta import SQUARE
from tileiras.options import DYNAMIC_PERSISTENT

LARGE = ProductKernel("f16", (128, 256, 64), result="f16")
CLUSTERS = (
    ProductKernel("f16", (64, 256, 64), form="persistent"),
    ProductKernel("f16", (128, 128, 64), cluster=2),
    ProductKernel("f16", (256, 256, 64), cluster=2),
)


def test_producer_and_consumer_have_their_own_registers_and_barrier():
    ptx = compiled(gemm(128, 256, 64), emit="ptx")
    assert ".reqntid 384" in ptx
    assert "setmaxnreg.dec.sync.aligned.u32 40" in ptx
    assert "setmaxnreg.inc.sync.aligned.u32 232" in ptx
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16" in ptx
    # Producer and idle warps wait for the mbarriers once; nobody waits for the whole CTA.
    assert len(re.findall(r"bar\.sync\s+8, 384", ptx)) == 2
    assert len(re.findall(r"bar\.arrive\s+8, 384", ptx)) == 1
    computing = ptx[ptx.index("setmaxnreg.inc") :]
    assert not re.search(r"bar\.sync\s+0", computing[: computing.index("ret;")])


def test_nobody_waits_for_a_producer_that_fills_in_maps():
    ptx = compiled(persistent(128, 128, 64), emit="ptx")
    filled, published = ptx.index("tensormap.replace"), ptx.index("tensormap.cp_fenceproxy")
    assert not re.search(r"\bbar\.sync", ptx[filled:published])
    # An idle warp makes the mbarriers, and consumers wait for it behind their first copies.
    made = ptx.index("mbarrier.init")
    assert "bar.arrive \t10, 320;" in ptx[made:]
    assert ptx.index("cp.async.cg") < ptx.index("bar.sync \t10, 320;") < made


def test_threads_arrive_with_their_copies():
    ptx = compiled(experts(), emit="ptx")  # 2 gathers: of two tiles at once
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \[\S+\], \[\S+\], 16, ", ptx)) == 2 * 8
    assert ptx.count("cp.async.mbarrier.arrive.noinc") == 1
    # One more than the threads: who announces TMA's bytes.
    assert len(re.findall(r"mbarrier\.init\S* \[\S+\], 129;", ptx)) > 2
    # Consumers pass the fence between the barrier and the product.
    consumer = ptx[ptx.index("setmaxnreg.inc") :]
    loop = consumer[: consumer.index("wgmma.mma_async")]
    assert loop.rindex("mbarrier.try_wait") < loop.rindex("fence.proxy.async")
    (kept,) = re.findall(r"setmaxnreg\.dec\.sync\.aligned\.u32 (\d+);", ptx)
    assert 40 < int(kept) <= 120


def test_threads_wait_for_nobody_before_their_first_copy():
    ptx = compiled(gemm(128, 256, 64), "ptx")
    copy, landed = ptx.index("cp.async.cg"), ptx.index("cp.async.mbarrier.arrive.shared::cta")
    before = ptx[ptx.index("bar.arrive \t8, 384;") : copy]
    assert "bar.sync" not in before
    assert "atom." not in before
    # The mbarriers, which an idle warp makes meanwhile.
    assert "bar.sync \t10, 352;" in ptx[copy:landed]
    assert "fence.proxy.async" in ptx
    assert "prefetch.tensormap" in ptx


def test_memory_of_the_pipeline_is_used_again_when_all_copies_have_landed():
    ptx = compiled(gemm(128, 256, 64), "ptx")
    loop, after = ptx.index("wgmma.mma_async"), ptx.index("cp.async.wait_group")
    assert loop < after < ptx.index("bar.sync", after)


def test_consumers_only_wait_for_room():
    ptx = compiled(persistent(128, 256, 64), "ptx")
    consumer = ptx[ptx.index("setmaxnreg.inc") :]
    staged = consumer[consumer.index("stmatrix") : consumer.rindex("stmatrix")]
    assert "bar" not in staged and "wait_group" not in staged
    following = consumer[consumer.rindex("stmatrix") :]
    order = [following.index(text) for text in ("fence.proxy.async", "bar.warp.sync", "arrive")]
    assert order == sorted(order)
    # Who found tensor maps gives them back: the producer, when its copies have landed, and the
    # store warp, when its own are complete.
    loaded, stored = (match.start() for match in re.finditer(r"red\.release\.gpu", ptx))
    assert "mbarrier.try_wait" in ptx[ptx.rindex("cp.async.bulk.tensor", 0, loaded) : loaded]
    assert "cp.async.bulk.wait_group 0" in ptx[loaded:stored]


def products_ptx(*kernels: ProductKernel) -> str:
    """The PTX of a kernel that computes these products."""
    return compiled(products_in_turn(*kernels), "ptx")


@pytest.mark.parametrize(
    ("kernel", "copies"),
    [
        (ProductKernel("f16", (128, 128, 64), chunk=8), 2 * 16),
        (ProductKernel("f32", (64, 64, 32), b="transposed", chunk=4), 2 * (16 + 8)),
    ],
    ids=["f16", "f32"],
)
def test_whole_tiles_are_copied_without_bounds(kernel: ProductKernel, copies: int) -> None:
    """Two instructions for a copy: the address of the next row, and the copy itself."""
    ptx = products_ptx(kernel)
    bare = re.findall(r"cp\.async\.ca\.shared\.global \[[^]]+\], \[[^]]+\], \d;", ptx)
    assert len(bare) == copies
    first = ptx.index(bare[0])
    row = ptx[first : ptx.index(bare[-1])].splitlines()[1:7]
    assert all(re.search(r"add\.s64|cp\.async", line) for line in row)
    assert "ld.global" not in ptx[: ptx.index("wgmma.mma_async")]


def test_one_warp_takes_a_stage_for_tensor_maps() -> None:
    """The producer claims it where consumers are filled by the prologue: one slot is given back."""
    other = ProductKernel("f16", (128, 64, 64), chunk=4)
    ptx = products_ptx(ProductKernel("f16", (128, 128, 64)), other)
    assert ptx.count("CLAIM") and "cp.async.ca" in ptx and "cp.async.bulk" in ptx
    claimed = ptx.rindex("atom.acquire.gpu.global.or")
    assert "\n$L" in ptx[claimed : ptx.index("bar.sync", claimed)]


def test_elements_are_stored_before_threads_arrive() -> None:
    ptx = products_ptx(ProductKernel("f16", (128, 128, 64), is_aligned=False))
    producer = ptx[: ptx.index("wgmma.mma_async")]
    arrival = producer.index("cp.async.mbarrier.arrive")
    stored = producer.rindex("st.shared.b32", 0, arrival)
    assert producer.rindex("fence.acq_rel.cta", 0, arrival) > stored


def test_what_comes_is_announced():
    ptx = compiled(SQUARE.text().encode(), "ptx")
    announced = re.findall(r"expect_tx.release.cta.shared::cta.b64 _, \[%r\d+\], (\S+);", ptx)
    fixed = [size for size in announced if not size.startswith("%")]
    # Two tiles with one in common; in turn, where they have none; the one that is left over.
    assert announced == fixed == ["49152", "32768", "32768", "32768"]
    assert "multicast" not in ptx


@pytest.mark.parametrize("kernel", CLUSTERS, ids=lambda k: k.form + k.name)
def test_shared_copies_reach_all_ctas_and_stages_come_back_from_all(kernel):
    text = compiled(kernel.text().encode(), "ptx")
    assert ".reqnctapercluster 2" in text
    assert ".multicast::cluster" in text
    assert "mbarrier.arrive.release.cta.shared::cluster" in text
    assert "barrier.cluster.arrive.relaxed" in text


def test_idle_clusters_leave_first():
    ptx = compiled(aligned_result(LARGE).encode(), "ptx", knobs={DYNAMIC_PERSISTENT: "0"})
    assert ".blocksareclusters" in ptx
    first = ptx[ptx.index("%nsmid") : ptx.index("ret;")]
    assert "mbarrier" not in first and "bar.sync" not in first
