"""Whole kernels: the text of every stage reads back, is the same every time, and fits a screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, NameLoc, StringAttr

from tests.kernels.attention import attention
from tests.kernels.gather import experts
from tests.kernels.gemm import gemm, persistent
from tileiras.dialects.assembly import print_module
from tileiras.dialects.assembly.wrapping import WIDTH
from tileiras.driver import compile_module, find_target, read_source, with_environment
from tileiras.ir_pass import CompileContext
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions, TextStyle
from tileiras.pass_manager import ScheduledPass, run_passes
from tileiras.pipeline import select_steps
from tileiras.registry import load_pass

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
FILES = sorted(CORPUS.glob("*.tileirbc"))
SAMPLE = FILES[:: max(1, len(FILES) // 10)][:10]
needs_corpus = pytest.mark.skipif(not FILES, reason=f"no corpus at {CORPUS.name}")

KERNELS = {
    "gemm": gemm(128, 256, 64),
    "persistent": persistent(128, 128, 64),
    "attention": attention(),
    "experts": experts(),
}
LOWER_STAGES = ("nv_tileaa", "nv_tileas", "llvm-dialect")


def at_stage(source: bytes, stage: str, gpu: str) -> ModuleOp:
    """The module of a program when it has reached a stage."""
    options = CompileOptions(gpu_name=gpu, emit=stage)
    target = find_target(options)
    module = read_source(source)
    steps = select_steps(options, target)
    passes = tuple(ScheduledPass(load_pass(step.pass_name)()) for step in steps)
    run_passes(module, passes, CompileContext(target=target, options=options))
    return module


def check_text(module: ModuleOp) -> None:
    """The text reads back to the same module, and says nothing in generic form."""
    text = print_module(module)
    assert print_module(module) == text
    generic = [line for line in text.splitlines() if '"(' in line and "call_intrinsic" not in line]
    assert generic == []
    again = parse_text(text)
    assert module.is_structurally_equivalent(again)
    assert print_module(again) == text
    long = [line for line in text.splitlines() if len(line) > WIDTH]
    assert all(line.strip().startswith(("@", "nv_tileaa.func", "llvm.func")) for line in long)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("stage", LOWER_STAGES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_reads_back_at_every_stage(name: str, stage: str, gpu: str) -> None:
    """Products, attention and gathers, with warp roles and without."""
    check_text(at_stage(KERNELS[name], stage, gpu))


@needs_corpus
@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_corpus_reads_back_at_every_stage(path: Path) -> None:
    """A sample of real kernels."""
    for stage in LOWER_STAGES:
        check_text(at_stage(path.read_bytes(), stage, "sm_90"))


@pytest.mark.parametrize("stage", LOWER_STAGES)
def test_generic_form_reads_back(stage: str) -> None:
    """As before there were other forms."""
    module = at_stage(KERNELS["gemm"], stage, "sm_90")
    text = print_module(module, TextStyle(generic=True))
    assert '= "' in text
    assert module.is_structurally_equivalent(parse_text(text))


@pytest.mark.parametrize("stage", LOWER_STAGES)
def test_text_of_a_stage_compiles_to_the_same_code(stage: str) -> None:
    """With names of values in it, which mean nothing."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    direct = compile_module(KERNELS["gemm"], options).output
    text = print_module(at_stage(KERNELS["gemm"], stage, "sm_90"))
    assert compile_module(text.encode(), options).output == direct


def test_layouts_and_views_are_declared_once() -> None:
    """At the top, with dynamic extents as question marks; constants are decimal."""
    text = print_module(at_stage(KERNELS["gemm"], "nv_tileas", "sm_90"))
    aliases, _, body = text.partition("builtin.module {")
    assert "#mma0 = #nv_tileas.layout<{register = [[" in aliases
    assert "!memref0 = !nv_tileaa.memref<?x?xf16, strides = [?, 1]>" in aliases
    assert "tiled_view<" not in body
    assert "layout<" not in body
    assert "constant 0 : i32" in body


KERNEL = """\
builtin.module {
  nv_tileaa.func @k(%arg0: i32) {
    %0 = nv_tileaa.addi %arg0, %arg0 : i32
    %1 = nv_tileaa.addi %0, %0 : i32
    nv_tileaa.return
  }
}
"""


def test_values_have_the_names_that_the_user_gave_them() -> None:
    """Where a location is a name; a second value of that name gets a number."""
    module = parse_text(KERNEL)
    place = FileLineColLoc(StringAttr("k.py"), IntAttr(3), IntAttr(1))
    for op in module.walk():
        if op.name == "nv_tileaa.addi":
            op.location = NameLoc(StringAttr("total"), place)
    text = print_module(module)
    assert "%total = nv_tileaa.addi %arg0" in text
    assert "%total_1 = nv_tileaa.addi %total, %total" in text
    assert print_module(parse_text(text)) == text


def test_places_are_comments_or_locations_on_requirements() -> None:
    """Neither is there unasked; locations are read back, comments are not."""
    module = parse_text(KERNEL.replace(": i32\n", ': i32 loc("k.py":7:2)\n', 1))
    assert "k.py" not in print_module(module)
    assert ": i32  // k.py:7\n" in print_module(module, TextStyle(locations="comment"))
    with_locations = print_module(module, TextStyle(locations="loc"))
    assert ': i32 loc("k.py":7:2)' in with_locations
    again = parse_text(with_locations)
    assert print_module(again, TextStyle(locations="loc")) == with_locations


def test_functions_can_be_picked() -> None:
    """Others are left out, and with them their aliases."""
    second = KERNEL.replace("@k", "@other").removeprefix("builtin.module {\n")
    module = parse_text(KERNEL.removesuffix("}\n") + second)
    text = print_module(module, TextStyle(functions=("other",)))
    assert "@other(" in text
    assert "@k(" not in text
