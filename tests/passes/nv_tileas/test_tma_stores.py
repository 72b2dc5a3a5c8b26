"""Tiles that leave by TMA: which, through which memory, and when they are waited for."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_ctas
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.stage_comparison import compare_entry
from tests.passes.nv_tileas.tma_store_programs import AT_ONCE, STORE, built
from tileiras.codegen.atoms.store_pieces import stored_layout
from tileiras.codegen.lowering.tile_pieces import ROWS, cut_tile
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "columns", "warpgroups"), [(128, 256, 2), (128, 128, 1)])
def test_pieces_are_what_a_warpgroup_holds_of_a_tile(rows, columns, warpgroups, transposed):
    """Of a transposed product it holds columns."""
    layout = stored_layout((rows, columns), warpgroups, transposed)
    cut = cut_tile(layout, warpgroups, 16)
    assert cut.transposed == transposed
    stored: set[tuple[int, int]] = set()
    for piece in cut.pieces:
        for lane, warp in itertools.product((0, 1, 5, 31), range(4 * warpgroups)):
            own = warp // 4 * ROWS
            origin = (
                (piece.row, piece.column + own) if transposed else (piece.row + own, piece.column)
            )
            for number, register in enumerate(piece.registers):
                place = layout.apply(register=register, lane=lane, warp=warp)
                inner = cut.layout.apply(register=number, lane=lane, warp=warp % 4)
                assert tuple(place) == (origin[0] + inner[0], origin[1] + inner[1])
        stored |= {(piece.row, piece.column)}
    assert len(stored) == rows * columns // (ROWS * warpgroups * 64)


def test_consumers_store_by_tma_and_wait_before_the_next_tile():
    ptx = built(persistent(128, 256, 64), **AT_ONCE)
    first = ptx.index(STORE)
    # Complete, not only read: stores keep their order. Then pieces, two in memory at once.
    assert "cp.async.bulk.wait_group 0" in ptx[:first]
    assert ptx.count(STORE) == 4
    assert ptx.count("cp.async.bulk.wait_group.read 0") == 3
    # The consumers release the maps when all is complete.
    release = ptx.index("red.release.gpu")
    assert ptx.count("red.release.gpu") == 1
    assert "cp.async.bulk.wait_group 0" in ptx[:release]
    assert re.search(r"pieces\[32768\]", ptx)


def test_writers_fence_and_meet_before_the_copy():
    ptx = built(persistent(128, 128, 64), **AT_ONCE)
    events = re.findall(r"stmatrix|fence\.proxy\.async\.shared|bar\.sync|" + STORE, ptx)
    for position, event in enumerate(events):
        if event == STORE:
            assert events[position - 2 : position] == ["fence.proxy.async.shared", "bar.sync"]


EVENT = re.compile(
    r"stmatrix\S* \[%\w+(?:\+(?P<offset>\d+))?\]"
    r"|(?P<fence>fence\.proxy\.async\.shared)"
    r"|cp\.async\.bulk\.wait_group(?P<read>\.read)? (?P<left>\d+)"
    r"|(?P<meet>bar\.sync\s+1)"
    r"|(?P<copy>" + STORE + r")"
)
PIECE = 8192


def check_copies(ptx: str) -> int:
    """Follows the consumers over two tiles; the number of copies.

    A buffer may be written when the thread that issues copies has waited until the last one from
    there was read, and all have met since. A copy may start when all have written their part,
    fenced, and met since.
    """
    consumer = ptx[ptx.index("mbarrier.try_wait", ptx.index("setmaxnreg.inc")) :]
    body = list(EVENT.finditer(consumer))
    last = max(i for i, match in enumerate(body) if match.group("copy"))
    tile = body[: last + 1]
    reading: list[int] = []
    known: list[int] = []
    written: int | None = None
    is_fenced = has_met = False
    copies = 0
    for match in [*tile, *tile]:
        if match.group("fence"):
            is_fenced = True
        elif match.group("left"):
            left = int(match.group("left"))
            reading = reading[len(reading) - left :] if left else []
        elif match.group("meet"):
            known, has_met = list(reading), is_fenced
        elif match.group("copy"):
            assert written is not None and has_met
            reading.append(written)
            known.append(written)
            copies += 1
            written, is_fenced, has_met = None, False, False
        else:
            buffer = int(match.group("offset") or 0) // PIECE
            assert buffer not in known
            assert written in (None, buffer)
            written, is_fenced, has_met = buffer, False, False
    return copies


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_no_buffer_is_written_while_it_is_read(columns):
    ptx = built(persistent(128, columns, 64), **AT_ONCE)
    assert check_copies(ptx) == 2 * columns // 64


@pytest.mark.parametrize("removed", ["cp.async.bulk.wait_group.read 0;", "bar.sync \t1, 256;"])
def test_the_check_of_buffers_finds_what_is_missing(removed):
    ptx = built(persistent(128, 256, 64), **AT_ONCE)
    assert removed in ptx
    with pytest.raises(AssertionError):
        check_copies(ptx.replace(removed, ""))


@pytest.mark.parametrize(("ctas", "pieces"), [(1, 4), (2, 4)])
def test_a_kernel_of_one_tile_stores_by_tma_if_that_is_preferred(ctas, pieces):
    """Two warpgroups hold 64 rows of 128 columns each, one holds 128: pieces are 64x64.

    A CTA alone on its SM stores the tile of its neighbour, too.
    """
    source = with_ctas(aligned(gemm(128, 128, 64)), ctas)
    assert STORE not in built(source)
    preferred = built(source, **{PREFER_TMA: "1"})
    assert preferred.count(STORE) == pieces
    # Through the stages, which are free: no memory of its own.
    assert "pieces[" not in preferred
    assert STORE not in built(persistent(128, 128, 64), **{PREFER_TMA: "0"})


def test_the_wait_can_follow_the_store_at_once():
    source = persistent(128, 128, 64)
    later, at_once = built(source), built(source, **AT_ONCE)
    wait = "cp.async.bulk.wait_group.read 0"
    # The consumers' own, where a warp role would do it for them.
    consumer = at_once[at_once.index("setmaxnreg.inc") :]
    assert wait in consumer[consumer.rindex(STORE) :]
    assert STORE not in later[later.index("setmaxnreg.inc") : later.index("expect_tx")]
    assert later == built(source, **{DELAY_TMA_STORE_WAIT: "1"})


@pytest.mark.parametrize(
    "source",
    [gemm(128, 128, 64), aligned(gemm(128, 128, 64)).replace(b"weak %h", b"relaxed device %h")],
    ids=["unaligned", "relaxed"],
)
def test_other_stores_stay_with_the_threads(source):
    assert STORE not in built(source, **{PREFER_TMA: "1"})


def test_a_persistent_kernel_computes_the_same_at_every_stage():
    module = read_source(persistent(128, 128, 64))
    assert compare_entry(module, "persistent", "gemm").kind == "same"


def test_does_not_spill():
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    artefacts = compile_module(persistent(128, 256, 64), options)
    assert "0 bytes spilled" in artefacts.notes[0]


def test_a_tile_may_come_from_a_branch_whose_other_side_leaves():
    kernel = ProductKernel("f16", (64, 64, 64), form="persistent", result="f16")
    text = aligned_result(kernel)
    narrow = next(line for line in text.splitlines() if "%narrow =" in line)
    branch = """
    %leaves = cmpi equal %tile, %c1, signed : tile<i32> -> tile<i1>
    %kept = if %leaves -> (tile<64x64xf16>) {
      continue
    } else {
      yield %narrow : tile<64x64xf16>
    }"""
    text = text.replace(narrow, narrow + branch).replace("weak %narrow,", "weak %kept,")
    assert "wgmma" in built(text.encode())
