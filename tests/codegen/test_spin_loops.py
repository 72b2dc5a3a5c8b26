"""Loops that wait for other tile blocks: one thread polls, all learn what it found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.lock_kernels import LOOP
from tests.kernels.locked_loops import LOCKED_LOOP
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.thread_programs import OPTIONS
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile.text import parse_module

ALONE = ("cluster-launch",)
"""Features without which tile blocks have nobody to take a lock for them."""
LOCKED = f"""
cuda_tile.module @kernels {{
  entry @add(%lock: tile<ptr<i32>>, %sums: tile<ptr<f32>>, %x: tile<ptr<f32>>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %t0 = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
    %sp = make_partition_view %s : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [2048], strides = [1] : tensor_view<2048xf32, strides=[1]>
    %vp = make_partition_view %v : partition_view<tile=(512), tensor_view<2048xf32, strides=[1]>>
    %mine, %r0 = load_view_tko weak %vp[%b] token = %t0
      : partition_view<tile=(512), tensor_view<2048xf32, strides=[1]>>, tile<i32>
      -> tile<512xf32>, token{LOOP}
    %there, %read = load_view_tko weak %sp[%c0] token = %held
      : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32>
      -> tile<512xf32>, token
    %more = addf %there, %mine : tile<512xf32>
    %written = store_view_tko weak %more, %sp[%c0] token = %read
      : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32>
      -> token
    %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%written
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }}
}}
"""
ROUNDS = """
cuda_tile.module @kernels {
  entry @count(%turn: tile<ptr<i32>>, %out: tile<ptr<i32>>) {
    %c1 = constant <i32: 1> : tile<i32>
    %c5 = constant <i32: 5> : tile<i32>
    %t0 = make_token : token
    %round, %late, %held = loop iter_values(%n = %c1, %t = %t0) : tile<i32>, token
        -> tile<i32>, tile<i1>, token {
      %old, %taken = atomic_rmw_tko acquire device %turn, add, %c1 token=%t
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %is_early = cmpi less_than %old, %c5, signed : tile<i32> -> tile<i1>
      if %is_early {
      } else {
        %is_late = cmpi greater_than %old, %c5, signed : tile<i32> -> tile<i1>
        break %n, %is_late, %taken : tile<i32>, tile<i1>, token
      }
      %next = addi %n, %c1 : tile<i32>
      continue %next, %taken : tile<i32>, token
    }
    %one = reshape %round : tile<i32> -> tile<1xi32>
    %all = broadcast %one : tile<1xi32> -> tile<256xi32>
    %w0 = exti %late unsigned : tile<i1> -> tile<i32>
    %w1 = reshape %w0 : tile<i32> -> tile<1xi32>
    %w2 = broadcast %w1 : tile<1xi32> -> tile<256xi32>
    %sum = addi %all, %w2 : tile<256xi32>
    %range = iota : tile<256xi32>
    %o1 = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %o2 = broadcast %o1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %o3 = offset %o2, %range : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %done = store_ptr_tko weak %o3, %sum token=%held
      : tile<256xptr<i32>>, tile<256xi32> -> token
    return
  }
}
"""


def ptx_of(text: str, arch: str = "sm_90") -> str:
    """The PTX of a kernel, which ptxas takes; each tile block takes the lock by itself."""
    target = get_target(arch).without(ALONE)
    lowered = lower_to_llvm(parse_module(text), arch, without=ALONE)
    ptx = llvm_ir_to_ptx(print_module(lowered, target, OPTIONS), target, OPTIONS)
    ptx_to_cubin(ptx, target, OPTIONS)
    return ptx


def _behind_the_wait(ptx: str) -> str:
    """From the first barrier to the end of what all threads do."""
    return ptx[ptx.index("bar.sync") : ptx.index("ret;")]


def test_every_tile_block_adds_under_the_lock():
    generator = np.random.default_rng(3)
    lock, sums = np.zeros(1, np.int32), np.arange(512, dtype=np.float32)
    parts = generator.integers(-9, 9, (4, 512)).astype(np.float32)
    wanted = sums + parts.sum(axis=0)
    run_lowered(lower_to_llvm(parse_module(LOCKED)), [lock, sums, parts.reshape(-1)], (4, 1, 1))
    np.testing.assert_array_equal(sums, wanted)
    assert lock[0] == 0


@pytest.mark.parametrize(("start", "rounds"), [(0, 6), (5, 1), (9, 2)])
def test_one_thread_goes_round_and_all_learn_the_result(start: int, rounds: int):
    turn, out = np.array([start], np.int32), np.zeros(256, np.int32)
    run_lowered(lower_to_llvm(parse_module(ROUNDS)), [turn, out])
    np.testing.assert_array_equal(out, rounds)
    assert turn[0] == max(start, 5) + 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_no_thread_waits_for_others_between_two_rounds(arch: str):
    before, after = ptx_of(LOCKED, arch).split("atom.acquire.gpu.global.cas.b32")
    round = before[before.rindex("\n$L") :] + after[: after.index("bra")]
    assert "nanosleep" in after
    assert "bar.sync" not in round and "st.shared" not in round


def test_guarded_accesses_follow_one_barrier_each_way():
    """Barrier, load, store, barrier, release: what a thread stores it has loaded itself."""
    after = _behind_the_wait(ptx_of(LOCKED))
    steps = re.findall(r"bar\.sync|ld\.global|st\.global|atom\.release", after)
    loads, stores = 2 * ["ld.global"], 2 * ["st.global"]
    assert steps == ["bar.sync", *loads, *stores, "bar.sync", "atom.release"]


def test_registers_are_saved_for_two_ctas_where_all_waits_stand_in_loops():
    """Where tile blocks wait once, one CTA on an SM is enough."""
    assert ".minnctapersm 1" in ptx_of(LOCKED)
    alone = LOCKED_LOOP.replace("remi %b, %c2 signed", "andi %b, %c1")  # no neighbour shares it
    assert alone != LOCKED_LOOP and ".minnctapersm 2" in ptx_of(alone)
    wait, release = LOOP.replace("%held", "%last"), "    return\n"
    once_more = alone.replace(release, wait.replace("%t0", "%end") + release)
    assert ".minnctapersm 1" in ptx_of(once_more)


def test_tile_whose_elements_may_share_an_address_is_stored_behind_a_barrier():
    """Two dims, as far as anyone knows of strides that meet: another thread might load it still."""
    text = LOCKED
    for row, plane in (
        ("tensor_view<512xf32, strides=[1]>", "tensor_view<8x64xf32, strides=[64,1]>"),
        ("tensor_view<2048xf32, strides=[1]>", "tensor_view<32x64xf32, strides=[64,1]>"),
        ("shape = [512], strides = [1]", "shape = [8, 64], strides = [64, 1]"),
        ("shape = [2048], strides = [1]", "shape = [32, 64], strides = [64, 1]"),
        ("tile=(512)", "tile=(8x64)"),
        ("tile<512xf32>", "tile<8x64xf32>"),
        ("sp[%c0]", "sp[%c0, %c0]"),
        ("vp[%b]", "vp[%b, %c0]"),
    ):
        text = text.replace(row, plane)
    after = _behind_the_wait(ptx_of(text))
    between = after[after.index("ld.global") : after.index("st.global")]
    assert "bar.sync" in between


def test_addresses_are_there_before_the_lock():
    """Nothing is computed between the barrier behind the wait and the guarded load."""
    after = _behind_the_wait(ptx_of(LOCKED))
    between = after[after.index("bar.sync") : after.index("ld.global")]
    assert not re.search(r"\b(add|mul|mad|shl|cvt)\.", between)


def test_nobody_gets_past_a_loop_without_a_way_out():
    """All threads go round: what stands behind the loop has no barrier before it."""
    way_out = LOCKED[LOCKED.index("if %busy") : LOCKED.index("continue")]
    ptx = ptx_of(LOCKED.replace(way_out, ""))
    assert "atom.acquire" in ptx
    assert "st.global" not in ptx
