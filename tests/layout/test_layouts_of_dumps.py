"""`tileiras-layout --dump`: the layouts of tensors and tiles, as they stand in the dump."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_strategies import distributed, examples, shapes

from tests.kernels.softmax_attention import softmax_attention
from tileiras.dialects.assembly.aliases import collect_aliases
from tileiras.dialects.cute.algebra.banks import bank_conflicts, vector_width
from tileiras.dialects.cute.algebra.coordinates import crd2idx
from tileiras.dialects.cute.algebra.drawing import (
    bank_grid,
    cropped,
    held_grid,
    offset_grid,
    thread_grid,
)
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import Value, evaluate
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Basis
from tileiras.dialects.cute.algebra.linear import distributed_from_linear, distributed_linear
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileas.cute_layouts import decomposed
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.driver import compile_module, read_source
from tileiras.layout_command.command import main
from tileiras.layout_command.dump import REGISTERS, SMEM, TMEM, Entry, entries
from tileiras.layout_command.shown import access_notes, grid_of
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {
    "gemm": (EXAMPLES / "matmul.mlir").read_bytes(),
    "attention": softmax_attention("causal", 128, 128, 128),
}
LAYOUTS = st.tuples(shapes(6), st.integers(0, 2), st.booleans()).flatmap(
    lambda drawn: distributed(drawn[0], drawn[1], 3, units=drawn[2])
)
SHOWN = list(product(KERNELS, ("sm_80", "sm_90", "sm_100")))


@cache
def dumped(name: str, target: str, stage: str = "nv_tileas") -> str:
    """A kernel's text."""
    return compile_module(
        KERNELS[name], CompileOptions(gpu_name=target, emit=stage)
    ).output.decode()


def entries_of(text: str) -> list[Entry]:
    """The layouts of a dump."""
    return entries(read_source(text.encode(), "k.mlir"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that the command prints."""
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def gemm(tmp_path: Path) -> str:
    """A file with the dump of a product for sm_80."""
    path = tmp_path / "gemm.mlir"
    path.write_text(dumped("gemm", "sm_80"))
    return str(path)


def coordinate(layout: Value, number: int, rank: int) -> list[int]:
    """The coordinates that a layout with basis strides gives."""
    assert isinstance(layout, Layout)
    found = crd2idx(number, layout)
    terms = {path[0]: step for path, step in found.terms} if isinstance(found, Basis) else {}
    return [int(str(terms.get(axis, 0))) for axis in range(rank)]


class TestDecomposition:
    """A layout taken apart is still that layout."""

    @examples(100)
    @given(LAYOUTS)
    def test_coordinates_of_the_parts_add_up(self, layout: LinearLayout) -> None:
        """Lane, warp and value; bits that strides cannot say are given as they are."""
        parts = dict(decomposed(layout))
        names = ("lane", "warp", "value")
        if any(parts[name].startswith("bits") for name in names):
            with pytest.raises(AlgebraError, match="adds bits by"):
                distributed_from_linear(layout)
            return
        lane, warp, value = (evaluate(parts[name]) for name in names)
        sizes = [range(layout.in_size(name)) for name in ("lane", "warp", "register")]
        for numbers in product(*sizes):
            found = [
                coordinate(part, number, layout.rank)
                for part, number in zip((lane, warp, value), numbers, strict=True)
            ]
            place = dict(zip(("lane", "warp", "register"), numbers, strict=True))
            assert tuple(map(sum, zip(*found, strict=True))) == layout.apply(**place)

    def test_copies_are_counted(self) -> None:
        """Four lanes hold each element."""
        text = "{register: [(1,0)], lane: [(0,0), (2,0), (0,1), (0,0), (0,2)], warp: []} -> 4x4"
        parts = dict(decomposed(LinearLayout.parse(text)))
        assert parts["copies"] == "4"
        assert parts["lane"] == "(2,2,2,2,2):(0,2@0,1@1,0,2@1)"

    @examples(60)
    @given(LAYOUTS)
    def test_cells_are_those_of_the_algebra(self, layout: LinearLayout) -> None:
        """Where strides say the layout, both ways to draw it agree."""
        try:
            tv = distributed_from_linear(layout)
        except AlgebraError:
            return
        rows = layout.shape[0] if layout.rank > 1 else 1
        assert held_grid(layout) == thread_grid(tv, (rows, layout.size // rows))


@pytest.mark.parametrize(("name", "target"), SHOWN)
class TestEveryKernel:
    """Two kernels, for Ampere, Hopper and Blackwell."""

    def test_layouts_are_those_of_the_text(self, name: str, target: str) -> None:
        """Each value with a layout is found under its name in the text, with that layout."""
        text = dumped(name, target)
        module = read_source(text.encode(), "k.mlir")
        aliases = collect_aliases(list(module.body.block.ops))
        named = {
            alias: attribute.data
            for attribute, alias in aliases.items()
            if isinstance(attribute, LayoutEncodingAttr)
        }
        found = entries(module)
        tensors = [one for one in found if one.kind == REGISTERS and ", #" in one.title]
        assert tensors
        for one in tensors:
            value, alias = one.title.split()[0], one.title.rpartition(", ")[2]
            assert re.search(rf"{re.escape(value.partition('#')[0])}\b", text)
            assert one.linear == named[alias]
            tv = evaluate(dict(one.parts())["tv"])
            assert isinstance(tv, Layout)
            again = distributed_linear(tv, one.tile)
            for dim in ("register", "lane", "warp"):
                assert again.vectors(dim) == named[alias].vectors(dim)

    def test_every_layout_is_drawn(self, name: str, target: str) -> None:
        """With a cell for each element, and somebody in it."""
        kinds: dict[str, None] = {}
        for one in {entry.place: entry for entry in entries_of(dumped(name, target))}.values():
            grid = grid_of(one)
            assert grid is not None and all(cell.text for line in grid for cell in line)
            size = 1
            for extent in one.tile:
                size *= extent
            assert sum(map(len, grid)) == size
            kinds[one.kind] = None
        assert REGISTERS in kinds
        assert SMEM in kinds
        assert (TMEM in kinds) == (target == "sm_100")

    def test_tiles_in_shared_memory_agree_with_the_algebra(self, name: str, target: str) -> None:
        """Cells, vectors and conflicts, counted by ranks and address by address."""
        compared = 0
        for one in entries_of(dumped(name, target)):
            if one.kind != SMEM or one.layout is None or one.linear is None:
                continue
            if len(one.tile) == 2:
                assert grid_of(one) == bank_grid(one.layout, one.bits)
            for access, note in zip(one.accesses, access_notes(one, None), strict=True):
                tv = distributed_from_linear(access.layout)
                vector = access.vector or vector_width(tv, one.layout, one.bits)
                fronts = bank_conflicts(tv, one.layout, one.bits, vector)
                assert f"vectors of {vector} elements" in note
                assert ("no bank conflicts" in note) == (fronts == 1)
                assert fronts == 1 or f", {fronts} wavefronts" in note
                compared += 1
        assert compared or target != "sm_80"


class TestOneValue:
    """What is printed of a value, an operation, an alias."""

    @pytest.mark.parametrize("word", ["%tile", "tile", "@matmul:%tile", "read_stage"])
    def test_a_value_has_many_names(
        self, word: str, gemm: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its layout is taken apart, then drawn."""
        lines = said(capsys, "--dump", gemm, word)
        assert lines[0] == "@matmul %tile = nv_tileas.read_stage : 64x32xf16, #blocked0"
        assert lines[1] == "  tv     ((4,32),(8,2)):((512,1),(64,32))"
        assert lines[4] == "  value  (8,2):(1@1,32@0)"
        assert lines[5].split()[:6] == ["T0", "V0", "T0", "V1", "T0", "V2"]
        assert lines[37].split()[:4] == ["T0", "V8", "T0", "V9"]

    def test_stages_show_their_swizzle_and_their_readers(
        self, gemm: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The layout that read_stage names, and who reaches it how."""
        lines = said(capsys, "--dump", gemm, "%tile", "--no-table")
        at = lines.index("@matmul %tile = nv_tileas.read_stage shared")
        assert lines[at + 1].startswith("  smem   S<")
        assert lines[at + 2] == "  access %tile: vectors of 8 elements, no bank conflicts"

    def test_conversions_show_the_tile_that_they_go_through(
        self, gemm: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As planned: swizzled, with the vectors of both sides."""
        lines = said(capsys, "--dump", gemm, "convert_layout", "--no-table")
        at = next(i for i, line in enumerate(lines) if line.endswith("through shared memory"))
        assert "S<" in lines[at + 1]
        assert re.search(r"access stored from %\d+: vectors of \d elements", lines[at + 2])
        assert re.search(r"access loaded to %\d+: vectors of 8 elements, no bank", lines[at + 3])

    def test_an_access_may_be_another_value(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Rows of 128 bytes, read by columns: the swizzle helps as far as it reaches."""
        path = tmp_path / "k.mlir"
        path.write_text(dumped("gemm", "sm_90"))
        access = "(32,2):(1,32)"
        lines = said(capsys, "--dump", str(path), "!smem1", "--access", access, "--no-table")
        tile = evaluate(lines[1].split(maxsplit=1)[1])
        tv = evaluate(access)
        assert isinstance(tv, Layout)
        fronts = bank_conflicts(tv, tile, 16, 1)  # type: ignore[arg-type]
        assert fronts > 1 and f"{fronts} wavefronts where 1 would do" in lines[2]

    def test_all_are_listed_where_none_is_named(
        self, gemm: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without tables."""
        lines = said(capsys, "--dump", gemm)
        heads = [line for line in lines if line.startswith("@matmul ")]
        assert len(heads) == len(entries_of(dumped("gemm", "sm_80")))
        assert not [line for line in lines if "T0" in line]

    def test_pages_draw_what_is_alike_once(self, gemm: str, tmp_path: Path) -> None:
        """A section for each layout."""
        page = tmp_path / "k.html"
        assert main(["--dump", gemm, "--html", str(page)]) == 0
        places = {one.place for one in entries_of(dumped("gemm", "sm_80"))}
        assert page.read_text().count("<section>") == len(places) > 3

    def test_a_large_tile_is_cut(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """And the command says so."""
        grid = held_grid(
            LinearLayout.parse(
                "{register: [(1,0), (2,0), (4,0), (8,0)], lane: [(0,1), (0,2), (0,4), (0,8), "
                "(0,16)], warp: []} -> 16x32"
            )
        )
        small = cropped(grid, 100)
        assert (len(small), len(small[0])) == (8, 8)
        assert small[3] == grid[3][:8]


class TestOtherStages:
    """Layouts beside operations, and programs in CuTe's dialects."""

    def test_layouts_beside_operations_are_found(self) -> None:
        """nv_tileaa after planning: the same layouts that nv_tileas has in its types."""
        before = {one.linear for one in entries_of(dumped("gemm", "sm_80", "nv_tileaa"))}
        after = [one for one in entries_of(dumped("gemm", "sm_80")) if one.kind == REGISTERS]
        assert {one.linear for one in after} <= before

    def test_programs_of_cute_have_theirs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Layouts, tensors in shared memory, copies, and the fragments of products."""
        path = str(EXAMPLES / "cute" / "ldmatrix_gemm.mlir")
        lines = said(capsys, "--dump", path)
        text = "\n".join(lines)
        assert re.search(r"%\w+ = cute\.\w+ : !cute\.tiled_mma<.*, of an atom, A\n  tv ", text)
        assert re.search(r"!cute\.tiled_copy<.*>\n  tv ", text)
        assert re.search(r"smem, align<.*\n  smem   S<", text)
        copy = re.search(r"(%\w+) = \S+ : !cute\.tiled_copy", text)
        assert copy is not None
        drawn = said(capsys, "--dump", path, copy[1])
        assert "T0" in drawn[2]

    def test_offsets_are_drawn_alike(self) -> None:
        """Over bits, and index by index."""
        layout = LinearLayout.parse("{offset: [(0,1), (0,2), (1,1), (2,2)]} -> 4x4")
        wanted = evaluate("S<2,0,2> o 0 o (4,4):(4,1)")
        assert offset_grid(layout, 32) == bank_grid(wanted, 32)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dump", "{gemm}", "%tiles"], "nothing that has a layout is called '%tiles'"),
        (["--dump", "{gemm}", "@other:%tile"], "nothing that has a layout is called"),
        (["--dump", "/no/such/file"], "unable to read input file '/no/such/file'"),
        (["--dump", str(EXAMPLES / "matmul.mlir")], "a program of stage cuda_tile has no layouts"),
        (["--dump", "{gemm}", "--svg", "x.svg"], "--svg draws one layout, found"),
        (["--dump", "{gemm}", "--bits", "8"], "a dump knows its own"),
        (["--dump", "{gemm}", "%tile", "--access", "%none"], "is called '%none'"),
    ],
)
def test_a_mistake_is_told(
    arguments: list[str], message: str, gemm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1."""
    assert main([one.format(gemm=gemm) for one in arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and message in err
