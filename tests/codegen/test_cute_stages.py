"""Programs in CuTe's dialects go through passes of their own, which are seen as others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.driver import compile_module
from tileiras.errors import CompileError, TileirasError, UsageError
from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

EXAMPLES = Path(__file__).parents[2] / "examples"
SAXPY = (EXAMPLES / "cute" / "saxpy.mlir").read_bytes()
TILES = (EXAMPLES / "matmul.mlir").read_bytes()


def options(**fields: object) -> CompileOptions:
    """For sm_90."""
    return CompileOptions(gpu_name="sm_90", **fields)  # pyright: ignore[reportArgumentType]


class TestStages:
    """What can be looked at."""

    def test_every_stage_is_a_file(self, tmp_path: Path) -> None:
        """Input, folded, one thread's program, LLVM IR, PTX."""
        compile_module(SAXPY, options(emit="ptx", dump_dir=str(tmp_path)), "saxpy.mlir")
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "00-input.mlir",
            "01-cute-fold.mlir",
            "02-convert-cute-to-llvm.mlir",
            "03-llvm.ll",
            "04-llvm.ptx",
        ]
        assert "cute.func @saxpy" in (tmp_path / "01-cute-fold.mlir").read_text()
        assert "llvm.func @saxpy" in (tmp_path / "02-convert-cute-to-llvm.mlir").read_text()

    def test_every_pass_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Before and after, as tiles' passes are."""
        compile_module(SAXPY, options(emit="llvm-dialect", print_before_all=True))
        compile_module(SAXPY, options(emit="llvm-dialect", print_after=("convert-cute-to-llvm",)))
        heads = [line for line in capsys.readouterr().err.split("\n") if line.startswith("***")]
        assert [head.partition("(")[2].partition(")")[0] for head in heads] == [
            "cute-fold",
            "convert-cute-to-llvm",
            "convert-cute-to-llvm",
        ]

    def test_every_pass_is_timed(self) -> None:
        """`--time-passes`; at -O0 nothing is folded."""
        made = compile_module(SAXPY, options(emit="ptx"))
        assert {"cute-fold", "convert-cute-to-llvm", "LLVM"} <= {n for n, _ in made.timings.parts}
        made = compile_module(SAXPY, options(emit="ptx", opt_level=0))
        assert "cute-fold" not in {name for name, _ in made.timings.parts}

    def test_passes_are_chosen_by_name(self) -> None:
        """`--pass-pipeline`: the text after the last of them."""
        text = compile_module(SAXPY, options(), pass_names=("cute-fold",)).output.decode()
        assert "cute.func @saxpy" in text

    def test_instructions_have_lines(self) -> None:
        """`--lineinfo`: those of the program's text."""
        ptx = compile_module(SAXPY, options(emit="ptx", line_info=True), "saxpy.mlir").output
        lines = SAXPY.decode().split("\n")
        named = [int(line.split()[2]) for line in ptx.decode().split("\n") if "\t.loc" in line]
        assert any("cute.copy" in lines[number - 1] for number in named)
        assert len(named) > 5

    def test_resources_are_a_remark(self) -> None:
        """Of the cubin."""
        remarks = RemarkCollector(RemarkFilter({RemarkKind.ANALYSIS: "all"}))
        compile_module(SAXPY, options(), remarks=remarks)
        assert [remark.name for remark in remarks.remarks] == ["Resources"]


class TestMistakes:
    """A pass of the other kind of program."""

    @pytest.mark.parametrize("name", ["cse", "convert-nv-tileas-to-llvm"])
    def test_a_pass_of_tiles_takes_no_cute(self, name: str) -> None:
        """Nothing is dropped in silence."""
        with pytest.raises(CompileError, match=f"pass '{name}' takes no input of stage cute"):
            compile_module(SAXPY, options(), pass_names=(name,))

    def test_the_conversion_takes_no_tiles(self) -> None:
        """With the place of what it does not know."""
        with pytest.raises(TileirasError, match="is no kernel of CuTe's dialects") as raised:
            compile_module(TILES, options(), pass_names=("convert-cute-to-llvm",))
        assert raised.value.location is not None

    def test_the_name_that_others_use_says_where_the_work_is_done(self) -> None:
        """There is no way over tiles."""
        with pytest.raises(UsageError, match="its work is done by 'convert-cute-to-llvm'"):
            compile_module(SAXPY, options(), pass_names=("convert-cute-to-tileas",))
