"""Operations of `cute_nvgpu`: the instruction of each, and targets that lack it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels.cute_nvgpu_operations import EXAMPLES, GROUPS, A, B, D, program
from tileiras.codegen.cute.instructions import INSTRUCTIONS
from tileiras.driver import compile_module
from tileiras.errors import CompileError, TargetError
from tileiras.options import CompileOptions

REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{}.tile.bulk_group"
WRITTEN = {
    "elect_sync": ("sm_90", "elect.sync", ""),
    "warp_idx": ("sm_80", ".entry k", ""),
    "lane_idx": ("sm_80", ".entry k", ""),
    "mbarrier_init": ("sm_90", "mbarrier.init.shared::cta.b64 [%r1], 1;", "sm_80"),
    "mbarrier_init_fence": ("sm_90", "fence.mbarrier_init.release.cluster", "sm_80"),
    "mbarrier_arrive": ("sm_90", "mbarrier.arrive.release.cta.shared::cta.b64", "sm_80"),
    "mbarrier_arrive_and_expect_tx": ("sm_90", "mbarrier.arrive.expect_tx", "sm_80"),
    "mbarrier_wait": ("sm_90", "mbarrier.try_wait.parity", "sm_80"),
    "mbarrier_try_wait": ("sm_90", "mbarrier.try_wait.parity", "sm_80"),
    "mbarrier_arrive_copies": ("sm_90", "cp.async.mbarrier.arrive.noinc", "sm_80"),
    "fence_proxy_async": ("sm_90", "fence.proxy.async.shared::cta", "sm_80"),
    "sync_warp": ("sm_80", "bar.warp.sync", ""),
    "cp_async_commit_group": ("sm_80", "cp.async.commit_group", ""),
    "cp_async_wait_group": ("sm_80", "cp.async.wait_group \t0;", ""),
    "make_exec_tma": ("sm_90", "fence.proxy.tensormap::generic.acquire", "sm_80"),
    "prefetch_tma_desc": ("sm_90", "prefetch.tensormap", "sm_80"),
    "tma_load": ("sm_90", "cp.async.bulk.tensor.2d.shared::cluster.global.tile", "sm_80"),
    "tma_load_multicast": ("sm_90", ".multicast::cluster", "sm_80"),
    "tma_store": ("sm_90", "cp.async.bulk.tensor.2d.global.shared::cta.tile", "sm_80"),
    **{
        f"tma_reduce_{kind}": ("sm_90", REDUCE.format(kind), "sm_80")
        for kind in ("add", "min", "max", "and", "or", "xor")
    },
    "tma_store_commit": ("sm_90", "cp.async.bulk.commit_group", "sm_80"),
    "tma_store_wait": ("sm_90", "cp.async.bulk.wait_group 7;", "sm_80"),
    "tma_store_wait_read": ("sm_90", "cp.async.bulk.wait_group.read 1;", "sm_80"),
    "warpgroup_arrive": ("sm_90", "wgmma.fence.sync.aligned", "sm_100"),
    "warpgroup_mma": ("sm_90", "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "sm_100"),
    "warpgroup_commit_batch": ("sm_90", "wgmma.commit_group", "sm_100"),
    "warpgroup_wait": ("sm_90", "wgmma.wait_group.sync.aligned 1;", "sm_100"),
    "tmem_alloc": ("sm_100", "tcgen05.alloc.cta_group::1", "sm_90"),
    "tmem_address": ("sm_80", ".entry k", ""),
    "tmem_dealloc": ("sm_100", "tcgen05.dealloc.cta_group::1.sync.aligned.b32", "sm_120"),
    "tcgen05_mma": ("sm_100", "tcgen05.mma.cta_group::1.kind::f16", "sm_120"),
    "tcgen05_commit": ("sm_100", "tcgen05.commit.cta_group::1", "sm_90"),
    "tcgen05_load": ("sm_100", "tcgen05.ld.sync.aligned.32x32b.x32.b32", "sm_90"),
    "tcgen05_commit_multicast": ("sm_100", ".shared::cluster.multicast::cluster.b64", "sm_90"),
    "tcgen05_store": ("sm_100", "tcgen05.st.sync.aligned.32x32b.x32.b32", "sm_90"),
    "tcgen05_fence_before": ("sm_100", "tcgen05.fence::before_thread_sync", "sm_90"),
    "tcgen05_fence_after": ("sm_100", "tcgen05.fence::after_thread_sync", "sm_90"),
}
"""Operation -> a target that has it, what its PTX has, and a target that lacks it."""


@cache
def ptx_of(text: str, target: str) -> str:
    """The PTX of a program."""
    return compile_module(
        text.encode(), CompileOptions(gpu_name=target, emit="ptx")
    ).output.decode()


def text_of(name: str) -> str:
    """A kernel with the example of an operation; registers that it reads are written before."""
    found = next(each for each in EXAMPLES if each[0] == f"cute_nvgpu.{name}")
    text = program(*found)
    if name == "tcgen05_store":
        return text.replace(found[0], f"cute.clear(%v0)\n{found[0]}")
    if name != "warpgroup_mma":
        return text
    call = "cute_nvgpu.warpgroup_mma"
    before, _, after = text.partition(call)
    rest, _, end = after.partition("\n")
    return f"{before}cute.clear(%v1)\n{call}{rest}\ncute_nvgpu.warpgroup_wait<0>()\n{end}"


def test_every_instruction_is_here() -> None:
    """So that none goes untested."""
    assert {f"cute_nvgpu.{name}" for name in WRITTEN} == set(INSTRUCTIONS)


@pytest.mark.parametrize("name", WRITTEN)
def test_becomes_its_instruction(name: str) -> None:
    """And nothing of it is there without the operation."""
    target, wanted, _ = WRITTEN[name]
    text = text_of(name)
    assert wanted in ptx_of(text, target)
    lines = [line for line in text.splitlines() if f"cute_nvgpu.{name}" not in line]
    if wanted != ".entry k" and name != "warpgroup_wait":
        without = "\n".join(line for line in lines if "warpgroup_wait" not in line)
        assert wanted not in ptx_of(without, target)


@pytest.mark.parametrize("name", [name for name in WRITTEN if WRITTEN[name][2]])
def test_a_target_that_lacks_it_is_told_who_has_it(name: str) -> None:
    """With the place of the operation, or of the tiled MMA that it is given."""
    has, _, lacks = WRITTEN[name]
    text = text_of(name)
    with pytest.raises(TargetError) as raised:
        ptx_of(text, lacks)
    assert f"{lacks} has no " in raised.value.message
    assert has in raised.value.message.partition(",")[2]
    assert raised.value.location is not None
    line = text.splitlines()[raised.value.location.line - 1]
    assert f"cute_nvgpu.{name}" in line or "tiled_mma" in line


def paths(before: str, inside: str) -> str:
    """A loop whose bounds and a condition that are known at run time only, after products."""
    lines = (
        "%first = cute_nvgpu.elect_sync()",
        f"%a = cute.alloc() -> {A}",
        f"%b = cute.alloc() -> {B}",
        f"%d = cute.alloc() -> {D}",
        f"%m = cute.static() -> {GROUPS}",
        "%one = cute.static() -> !cute.int<1>",
        f"cute.clear(%d){before}",
        "cute.for %i = %one to %n step %one {",
        inside,
        "}",
        "cute_nvgpu.warpgroup_wait<0>()",
        "cute.copy(%word, %d, %out)",
        "cute.return",
    )
    word = "%word = cute.static() -> !cute.copy_atom<universal, 32>"
    out = f"%out: {D.replace('rmem', 'gmem')}"
    return "\n".join([f"cute.func @k(%n: i32, {out}) threads 256 {{", word, *lines, "}"])


START = "\ncute_nvgpu.warpgroup_mma(%m, %d, %a, %b)"
WAIT = "\ncute_nvgpu.warpgroup_wait<0>()"
WITHIN = "cute.if %first {{{}\n}}".format


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        (START + WAIT, WITHIN("\ncute_nvgpu.fence_proxy_async()")),
        (START, WITHIN("\ncute_nvgpu.fence_proxy_async()")),
        (START, START),
        ("", START + WAIT),
        ("", WITHIN(START + WAIT)),
    ],
)
def test_paths_meet_with_the_same_products_unfinished(before: str, inside: str) -> None:
    """None, or one that writes the same registers; sums are read after the last wait."""
    assert "wgmma.mma_async" in ptx_of(paths(before, inside), "sm_90")


@pytest.mark.parametrize(
    ("before", "inside", "line", "message"),
    [
        ("", START, 10, "paths meet with 0 and 1 products unfinished or with others"),
        (START, WAIT, 11, "paths meet with 1 and 0 products unfinished or with others"),
        ("", WITHIN(START), 11, "paths meet with 0 and 1 products unfinished or with others"),
        (START, "cute.copy(%word, %d, %out)", 12, "a register is read that a product still writes"),
    ],
)
def test_paths_do_not_meet_with_other_products_unfinished(
    before: str, inside: str, line: int, message: str
) -> None:
    """Registers that a product still writes are no values that a block may be given."""
    text = paths(before, inside)
    with pytest.raises(CompileError) as raised:
        ptx_of(text, "sm_90")
    assert message in raised.value.message
    assert "'warpgroup_wait<0>' " in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == line


PREPARED = f"""%a = cute.alloc() -> {A}
%b = cute.alloc() -> {B}
%d = cute.alloc() -> {D}
%m = cute.static() -> {GROUPS}
%t = cute.thread_idx<0>()
cute.clear(%d)
"""
CALL = "cute_nvgpu.warpgroup_mma(%m, %d, %a, %b)\ncute_nvgpu.warpgroup_wait<0>()"
PLAIN = A.replace("S<2,3,3> o 0 o ", "")
BESIDE = (
    PREPARED.replace(GROUPS, GROUPS.replace("(2,1,1):(1,0,0)", "(1,2,1):(0,1,0)"))
    .replace("(128,32)", "(rows,32)")
    .replace("(64,32)", "(128,32)")
    .replace("(rows,32)", "(64,32)")
)
BYTES = (
    PREPARED.replace("f16", "f8E4M3FN")
    .replace("(64,64,16)", "(64,64,32)")
    .replace("S<2,3,3> o 0 o (128,32):(32,1)", "S<3,4,3> o 0 o (128,32):(1,128)")
    .replace("S<2,3,3> o 0 o (64,32):(32,1)", "S<1,4,3> o 0 o (64,32):(32,1)")
)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (PREPARED.replace(A, PLAIN) + CALL, 8, "is no operand: rows of 128, 64 or 32 bytes"),
        (BESIDE + CALL, 8, "warpgroups are compiled side by side along M only"),
        (BYTES + CALL, 8, "operands of m64n64k32_f32_e4m3 are K-major"),
        (
            PREPARED + "%c = cute.make_coord(%t, %t) -> !cute.coord<(?,?)>\n"
            "%s = cute.static() -> !cute.shape<(4,4)>\n%i = cute.elem_less(%c, %s)\n"
            "cute.if %i {\n}",
            11,
            "the condition is not known at run time",
        ),
    ],
)
def test_what_is_right_and_not_compiled_is_told(text: str, line: int, message: str) -> None:
    """With its place; what is prepared compiles."""
    whole = "cute.func @k() threads 256 {{\n{}\ncute.return\n}}".format
    assert "wgmma.mma_async" in ptx_of(whole(PREPARED + CALL), "sm_90")
    with pytest.raises(CompileError) as raised:
        ptx_of(whole(text), "sm_90")
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == line
