"""How tiles leave by TMA: pieces, buffers that are written and read, fences, in PTX."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_ctas, with_result
from tests.kernels.tma_store_programs import AT_ONCE, STORE, built
from tileiras.codegen.atoms.store_pieces import PIECE_BYTES, Held, loaded_layouts, stored_layout
from tileiras.codegen.lowering.tile_pieces import ROWS, cut_tile
from tileiras.driver import compile_module, with_environment
from tileiras.options import PREFER_TMA, CompileOptions

REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"


@pytest.mark.parametrize("held", [Held.ROWS, Held.COLUMNS, Held.PAIRS])
@pytest.mark.parametrize(("rows", "columns", "warpgroups"), [(128, 256, 2), (128, 128, 1)])
def test_pieces_are_what_a_warpgroup_holds_of_a_tile(rows, columns, warpgroups, held):
    """Of a transposed product it holds columns."""
    layout, transposed = stored_layout((rows, columns), warpgroups, held), held is not Held.ROWS
    cut = cut_tile(layout, warpgroups, 16)
    assert cut.is_across == transposed
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


@pytest.mark.parametrize("load", ["16x256b", "32x32b"])
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize(
    ("rows", "columns", "warpgroups"),
    [(128, 256, 2), (128, 128, 1), (256, 64, 2), (256, 64, 1), (512, 32, 2), (64, 64, 2)],
)
def test_pieces_of_what_comes_from_tensor_memory_make_up_the_tile(
    rows, columns, warpgroups, bits, load
):
    """Each element is in one place of one piece, where its warpgroup holds it."""
    layouts = loaded_layouts((rows, columns), warpgroups)
    if load not in layouts:
        assert rows == ROWS
        return
    cut = cut_tile(layouts[load], warpgroups, bits)
    height, width = cut.layout.shape
    assert height == min(rows, 128) and width * bits // 8 == cut.swizzle
    stored: set[tuple[int, int]] = set()
    for piece, group in itertools.product(cut.pieces, range(warpgroups)):
        own = (0, group * cut.step) if cut.is_across else (group * cut.step, 0)
        for lane, warp in itertools.product(range(32), range(4)):
            for number, register in enumerate(piece.registers):
                place = layouts[load].apply(register=register, lane=lane, warp=4 * group + warp)
                inner = cut.layout.apply(register=number, lane=lane, warp=warp)
                corner = (piece.row + own[0], piece.column + own[1])
                assert tuple(place) == (corner[0] + inner[0], corner[1] + inner[1])
                stored.add(tuple(place))
    assert len(stored) == rows * columns


def test_consumers_store_by_tma_and_wait_before_the_next_tile():
    ptx = built(persistent(128, 256, 64), "ptx", **AT_ONCE)
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
    ptx = built(persistent(128, 128, 64), "ptx", **AT_ONCE)
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
    ptx = built(persistent(128, columns, 64), "ptx", **AT_ONCE)
    assert check_copies(ptx) == 2 * columns // 64


@pytest.mark.parametrize("removed", ["cp.async.bulk.wait_group.read 0;", "bar.sync \t1, 256;"])
def test_the_check_of_buffers_finds_what_is_missing(removed):
    ptx = built(persistent(128, 256, 64), "ptx", **AT_ONCE)
    assert removed in ptx
    with pytest.raises(AssertionError):
        check_copies(ptx.replace(removed, ""))


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_tile_of_one_block_goes_through_stages_that_are_free(ctas: int):
    """A warpgroup holds 64 rows of 128 columns, a CTA alone two tiles: pieces are 64x64."""
    source = with_ctas(aligned(gemm(64, 128, 64)), ctas)
    ptx = built(source, "ptx", **{PREFER_TMA: "1"})
    assert ptx.count(STORE) == 4 // ctas
    assert "pieces[" not in ptx


def test_consumers_that_store_at_once_wait_until_the_copy_has_read():
    source = persistent(128, 128, 64)
    later, at_once = built(source, "ptx"), built(source, "ptx", **AT_ONCE)
    consumer = at_once[at_once.index("setmaxnreg.inc") :]
    assert "cp.async.bulk.wait_group.read 0" in consumer[consumer.rindex(STORE) :]
    assert STORE not in later[later.index("setmaxnreg.inc") : later.index("expect_tx")]


@pytest.mark.parametrize(
    ("element", "mode", "code", "pieces"),
    [("f32", "", STORE, 8), ("f32", "addf", REDUCE, 8), ("f16", "addf", REDUCE, 4)],
)
def test_a_tile_is_cut_into_pieces(element: str, mode: str, code: str, pieces: int):
    """Two warpgroups of 64 rows, 32 columns of f32 a piece or 64 of f16; one warp stores all."""
    ptx = built(with_result(persistent(128, 128, 64), element, mode), "ptx")
    assert ptx.count(code) == pieces
    assert ("st.shared.v2.b32" in ptx) == (element == "f32") == ("stmatrix" not in ptx)
    if code == REDUCE:
        # Complete before the next tile's are issued, as token order wants it.
        assert "cp.async.bulk.wait_group 0" in ptx[: ptx.index(REDUCE)]
        assert "red.relaxed" not in ptx


@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("element", ["f16", "f32"])
def test_kernels_with_a_store_warp_fit_and_do_not_spill(element: str, columns: int):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    source = with_result(persistent(128, columns, 64), element)
    notes = compile_module(source, options).notes
    assert "0 bytes spilled" in notes[0] and not any("C75" in note for note in notes)
    sizes = re.findall(r"pieces\[(\d+)\]", built(source, "ptx"))
    assert len(sizes) == 1 and int(sizes[0]) >= 2 * PIECE_BYTES
