"""Globals, allocations, prints and assertions on the device; children print to be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

FOLDER = Path(__file__).resolve().parent
LAUNCHER = """
import sys
sys.path.insert(0, sys.argv[1])
from launch import launch_cubin
launch_cubin(open(sys.argv[2], "rb").read(), "k", [], (int(sys.argv[3]), 1, 1))
"""


def run_child(tmp_path: Path, body: str, blocks: int = 1) -> subprocess.CompletedProcess[str]:
    """Launches an entry without parameters in a process of its own."""
    text = f"cuda_tile.module @m {{ entry @k() {{ {body}\n return }} }}"
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compile_for_this_gpu(text.encode()))
    command = [sys.executable, "-c", LAUNCHER, str(FOLDER), str(cubin), str(blocks)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_prints_of_scalars_and_tiles(tmp_path: Path) -> None:
    done = run_child(
        tmp_path,
        """%i = iota : tile<8xi32>
        %r = reshape %i : tile<8xi32> -> tile<2x4xi32>
        %f = itof %i signed : tile<8xi32> -> tile<8xf16>
        %m = constant <i8: -3> : tile<i8>
        %t = print_tko "%d 100%% %.2f %u|%5i\\n", %r, %f, %m, %m
            : tile<2x4xi32>, tile<8xf16>, tile<i8>, tile<i8> -> token""",
    )
    assert done.returncode == 0, done.stderr
    numbers = ", ".join(f"{number}.00" for number in range(8))
    assert done.stdout == f"[[0, 1, 2, 3], [4, 5, 6, 7]] 100% [{numbers}] 253|   -3\n"


def test_long_prints_of_many_tile_blocks_stay_together(tmp_path: Path) -> None:
    done = run_child(
        tmp_path,
        """%x, %y, %z = get_tile_block_id : tile<i32>
        %i = iota : tile<128xi32>
        %r = reshape %i : tile<128xi32> -> tile<2x64xi32>
        %t = print_tko "block %d: %d\\n", %x, %r : tile<i32>, tile<2x64xi32> -> token""",
        blocks=64,
    )
    assert done.returncode == 0, done.stderr
    rows = [list(range(64)), list(range(64, 128))]
    assert sorted(done.stdout.splitlines()) == sorted(f"block {x}: {rows}" for x in range(64))


def test_assertion_that_holds(tmp_path: Path) -> None:
    done = run_child(
        tmp_path, '%c = constant <i1: true> : tile<256xi1>\n assert %c, "no" : tile<256xi1>'
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("shape", ["4x64", "1024"])
def test_assertion_that_fails(tmp_path: Path, shape: str) -> None:
    count = int(np.prod([int(dim) for dim in shape.split("x")]))
    done = run_child(
        tmp_path,
        f"""%i = iota : tile<{count}xi32>
        %r = reshape %i : tile<{count}xi32> -> tile<{shape}xi32>
        %e = constant <i32: 70> : tile<{shape}xi32>
        %c = cmpi not_equal %r, %e, signed : tile<{shape}xi32> -> tile<{shape}xi1>
        assert %c, "100% wrong" : tile<{shape}xi1>""",
    )
    assert done.returncode != 0
    (line,) = done.stdout.splitlines()
    place = [1, 6] if "x" in shape else [70]
    assert f"100% wrong (element {place} of tile block [0, 0, 0])" in line
    assert "CUDA_ERROR_ASSERT" in done.stderr


def test_global_keeps_its_value_between_tile_blocks() -> None:
    text = """cuda_tile.module @m {
      global @counter <i32: [40]> : tile<1xi32>
      entry @k(%out: tile<ptr<i32>>) {
        %g = get_global @counter : tile<ptr<i32>>
        %two = constant <i32: 2> : tile<i32>
        %x, %y, %z = get_tile_block_id : tile<i32>
        %old, %t = atomic_rmw_tko relaxed device %g, add, %two
            : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        %p = offset %out, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        store_ptr_tko weak %p, %old : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }"""
    out = np.zeros(16, np.int32)
    launch_cubin(compile_for_this_gpu(text.encode()), "k", [out], (16, 1, 1))
    assert sorted(out.tolist()) == list(range(40, 72, 2))


@pytest.mark.parametrize("sharing", ["", "global"])
def test_reversal_through_an_allocation(sharing: str) -> None:
    pointers = "tile<256xptr<f32>>"
    tile = "tile<256xf32>"

    def spread(name: str) -> str:
        return f"""%{name}1 = reshape %{name} : tile<ptr<f32>> -> tile<1xptr<f32>>
        %{name}2 = broadcast %{name}1 : tile<1xptr<f32>> -> {pointers}
        %{name}p = offset %{name}2, %i : {pointers}, tile<256xi32> -> {pointers}"""

    text = f"""cuda_tile.module @m {{ entry @k(%in: tile<ptr<f32>>, %out: tile<ptr<f32>>) {{
        %a = alloca num_elem = 256, alignment = 64 {sharing} : tile<ptr<f32>>
        %i = iota : tile<256xi32>
        %last = constant <i32: 255> : tile<256xi32>
        %j = subi %last, %i : tile<256xi32>
        {spread("a")}
        {spread("in")}
        {spread("out")}
        %back = offset %a2, %j : {pointers}, tile<256xi32> -> {pointers}
        %v, %t = load_ptr_tko weak %inp : {pointers} -> {tile}, token
        %u = store_ptr_tko weak %ap, %v token=%t : {pointers}, {tile} -> token
        %w, %s = load_ptr_tko weak %back token=%u : {pointers} -> {tile}, token
        %r = store_ptr_tko weak %outp, %w token=%s : {pointers}, {tile} -> token
        return }} }}"""
    data = np.random.default_rng(1).normal(size=256).astype(np.float32)
    out = np.zeros_like(data)
    launch_cubin(compile_for_this_gpu(text.encode()), "k", [data, out], (8, 1, 1))
    np.testing.assert_array_equal(out, data[::-1])
