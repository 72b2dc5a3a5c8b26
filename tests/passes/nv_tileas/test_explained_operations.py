"""Remarks about single operations: which instruction, where, why, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.gemm import gemm
from tests.kernels.row_loops import RowLoop
from tests.kernels.softmax_attention import softmax_attention
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions
from tileiras.remarks import Remark, RemarkCollector, RemarkFilter, RemarkKind

ROOT = Path(__file__).resolve().parents[3]
VECTOR_ADD = (ROOT / "examples" / "vector_add.mlir").read_bytes()

COPY = """
cuda_tile.module @m {
  entry @copy(%A: tile<ptr<f32>>, %B: tile<ptr<f32>>, %N: tile<i32>, %S: tile<i32>) {
    %A1 = assume div_by<BASE>, %A : tile<ptr<f32>>
    %B1 = assume div_by<16>, %B : tile<ptr<f32>>
    %N1 = assume div_by<EXTENT>, %N : tile<i32>
    %S1 = assume div_by<STRIDE>, %S : tile<i32>
    %ta = make_tensor_view %A1, shape = [%N1, %N1], strides = [ROW]
      : tile<i32> -> tensor_view<?x?xf32, strides=[TYPE]>
    %tb = make_tensor_view %B1, shape = [%N, %N], strides = [%N, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %ta
      : partition_view<tile=(8x128), tensor_view<?x?xf32, strides=[TYPE]>>
    %pb = make_partition_view %tb
      : partition_view<tile=(8x128), tensor_view<?x?xf32, strides=[?,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %ka = load_view_tko weak %pa[%x, %y]
      : partition_view<tile=(8x128), tensor_view<?x?xf32, strides=[TYPE]>>, tile<i32>
        -> tile<8x128xf32>, token
    %s = store_view_tko weak %a, %pb[%x, %y]
      : tile<8x128xf32>, partition_view<tile=(8x128), tensor_view<?x?xf32, strides=[?,1]>>,
        tile<i32> -> token
    return
  }
}
"""


def copy(base: int = 16, extent: int = 4, stride: int = 4, unit: bool = True) -> bytes:
    """A kernel that copies tiles of a matrix of which so much is known."""
    text = COPY.replace("BASE", str(base)).replace("EXTENT", str(extent))
    row, type = ("%S1, 1", "?,1") if unit else ("%S1, %S1", "?,?")
    text = text.replace("ROW", row).replace("TYPE", type).replace("STRIDE", str(stride))
    return text.encode()


def remarks(source: bytes, target: str = "sm_90", emit: str = "ptx") -> list[Remark]:
    """All remarks about a kernel."""
    options = with_environment(CompileOptions(gpu_name=target, emit=emit))
    collector = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    compile_module(source, options, "k.mlir", collector)
    return collector.remarks


def named(found: list[Remark], name: str) -> list[Remark]:
    """Those of a name."""
    return [remark for remark in found if remark.name == name]


def fact(remark: Remark, key: str) -> str:
    """An argument of a remark."""
    return dict(remark.arguments)[key]


def test_aligned_load_is_wide_and_nothing_is_missed() -> None:
    (load,) = named(remarks(copy()), "RemarkMemoryLoadInstructionSelected")
    assert load.message.startswith("Load instruction selected: ld.global, 16 bytes a thread")
    assert (fact(load, "Shape"), fact(load, "BytesPerThread")) == ("[8, 128]", "16")
    assert load.location is not None and load.location.line == 17
    missed = [each for each in named(remarks(copy()), "AccessWidth") if each.message[:4] == "load"]
    assert missed == []


@pytest.mark.parametrize(
    ("known", "bytes", "limit", "words"),
    [
        ({"base": 8}, "8", "base", "the base pointer is proven to be 8-byte aligned"),
        ({"extent": 2}, "8", "extent", "the extent of dim 1 is proven to be a multiple of 2"),
        ({"stride": 1}, "4", "stride", "the stride of dim 0 is proven to be a multiple of 1"),
        ({"unit": False}, "4", "no unit stride", "the stride of dim 1 is not one"),
    ],
)
def test_what_is_not_proven_is_named(
    known: dict[str, int], bytes: str, limit: str, words: str
) -> None:
    """With its place, its width, and what would change it."""
    found = named(remarks(copy(**known)), "AccessWidth")
    load = next(each for each in found if each.message.startswith("load"))
    assert load.kind is RemarkKind.MISSED and words in load.message
    assert (fact(load, "BytesPerThread"), fact(load, "Limit")) == (bytes, limit)
    assert fact(load, "Change") and load.location is not None


def test_short_tile_is_no_reason_to_complain() -> None:
    """There is nothing more to load at once."""
    source = copy().replace(b"8x128", b"128x2")
    assert not [
        each for each in named(remarks(source), "AccessWidth") if each.message[:4] == "load"
    ]


def test_proof_widens_the_load_of_the_documentation() -> None:
    """As docs/remarks.md tells: the length of the vectors is a multiple of four."""
    assert fact(named(remarks(VECTOR_ADD), "AccessWidth")[0], "Limit") == "extent"
    proven = VECTOR_ADD.replace(
        b"%count = assume bounded<0, ?>, %n : tile<i32>",
        b"%n4 = assume div_by<4>, %n : tile<i32>\n%count = assume bounded<0, ?>, %n4 : tile<i32>",
    )
    assert proven != VECTOR_ADD
    found = remarks(proven)
    loads = named(found, "RemarkMemoryLoadInstructionSelected")
    assert {fact(load, "BytesPerThread") for load in loads} == {"16"}
    assert named(found, "AccessWidth") == []


@pytest.mark.parametrize(
    ("target", "instruction", "shape"),
    [
        ("sm_80", "Tensor-core SM80", "[16, 8, 16]"),
        ("sm_90", "Tensor-core SM90", "[64, 128, 16]"),
        ("sm_100", "Tensor-core SM100", "[128, 128, 16]"),
        ("sm_120", "Tensor-core SM80", "[16, 8, 16]"),
    ],
)
def test_product_names_its_instruction(target: str, instruction: str, shape: str) -> None:
    found = named(remarks(gemm(128, 128, 64), target), "RemarkTensorCoreMMA")
    assert {fact(product, "Instruction") for product in found} == {instruction}
    assert shape in {fact(product, "Shape") for product in found}
    assert {remark.location.line for remark in found if remark.location is not None} == {30}


def test_named_instructions_stand_in_the_ptx() -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    source = gemm(128, 128, 64)
    ptx = compile_module(source, options).output.decode()
    for product in named(remarks(source), "RemarkTensorCoreMMA"):
        shape = fact(product, "Ptx").rpartition(" ")[2]
        assert f"wgmma.mma_async.sync.aligned.{shape}.f32.f16.f16" in ptx
    (load, *_) = named(remarks(source), "RemarkMemoryLoadInstructionSelected")
    assert fact(load, "Ptx") in ptx


def test_tma_is_named_with_its_box() -> None:
    loads = named(remarks(gemm(128, 128, 64)), "RemarkMemoryLoadInstructionSelected")
    assert {fact(load, "Instruction") for load in loads} == {"TMA Load instruction"}
    assert {(fact(load, "Box"), fact(load, "SwizzleBytes")) for load in loads} == {
        ("[128, 64]", "128"),
        ("[64, 64]", "128"),
    }


def test_unaligned_operand_tells_why_it_has_no_tma() -> None:
    found = remarks(gemm(128, 128, 64, align=4))
    (failed,) = named(found, "RemarkMemoryTmaLoadFailed")
    assert failed.kind is RemarkKind.FAILED
    assert fact(failed, "reason") == "the base pointer is not proven to be 16-byte aligned"
    copies = named(found, "RemarkMemoryLoadInstructionSelected")
    assert any("no TMA, for the base pointer" in copy.message for copy in copies)
    assert named(remarks(gemm(128, 128, 64)), "RemarkMemoryTmaLoadFailed") == []


def test_store_of_a_result_tells_why_it_has_no_tma() -> None:
    (failed,) = named(remarks(gemm(128, 128, 64)), "RemarkMemoryTmaStoreFailed")
    assert fact(failed, "reason") == "the base pointer is not proven to be 16-byte aligned"
    assert named(remarks(copy(base=4)), "RemarkMemoryTmaStoreFailed") == []


def test_small_product_tells_why_it_has_no_wgmma() -> None:
    (missed,) = named(remarks(gemm(32, 32, 64)), "Wgmma")
    assert fact(missed, "reason").startswith("a tile of 32x32 is no whole number of instructions")
    assert missed.location is not None
    assert missed.location.line == 30
    assert named(remarks(gemm(128, 128, 64)), "Wgmma") == []
    assert named(remarks(gemm(32, 32, 64), "sm_80"), "Wgmma") == []
    (narrow,) = named(remarks(gemm(16, 4, 16)), "Wgmma")
    assert fact(narrow, "reason") == "the right operand has no contiguous dim of 16 bytes or more"


def test_product_without_instruction_is_told_to_fail() -> None:
    (failed,) = named(remarks(gemm(4, 4, 4)), "RemarkTensorCoreMMA")
    assert failed.kind is RemarkKind.FAILED
    assert "it is using FMA instructions instead: sm_90 has no instruction" in failed.message
    assert fact(failed, "Instruction") == "FMA"


def test_loop_says_whether_its_loads_start_early() -> None:
    (loop, *_) = named(remarks(gemm(128, 128, 64)), "Loop")
    assert loop.kind is RemarkKind.ANALYSIS and int(fact(loop, "Stages")) > 1
    (waiting,) = named(remarks(softmax_attention("full", 128, 64, 128), "sm_80"), "Loop")
    assert waiting.kind is RemarkKind.MISSED
    assert fact(waiting, "LoadsWaitedFor") == "2"


def test_copies_of_an_operation_are_told_of_once() -> None:
    """Loops that start loads early have each of them several times."""
    found = remarks(gemm(128, 128, 64), "sm_80")
    assert len(found) == len(set(found))


def test_reduction_says_who_combines() -> None:
    found = named(remarks(RowLoop().text.encode()), "Reduction")
    assert found and all("in registers of a thread" in each.message for each in found)
    parts = [int(fact(found[0], key)) for key in ("Registers", "Lanes", "Warps")]
    assert parts[0] * parts[1] * parts[2] > 1


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_remarks_change_no_output(target: str) -> None:
    options = with_environment(CompileOptions(gpu_name=target, emit="ptx"))
    source = gemm(128, 128, 64)
    silent = compile_module(source, options)
    collector = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    assert silent.output == compile_module(source, options, "k", collector).output
    assert silent.remarks.remarks == [] and silent.remarks.facts == {}


def test_resources_name_the_limit() -> None:
    (found,) = named(remarks(gemm(128, 128, 64), emit="cubin"), "Resources")
    assert fact(found, "Limit") in found.message and "limited by" in found.message
    assert int(fact(found, "Threads")) == 384 and int(fact(found, "CTAsPerSM")) == 1
    allowed = fact(found, "Allowed")
    assert "registers 1" in allowed and "shared memory 1" in allowed
    assert named(remarks(gemm(128, 128, 64)), "Resources") == []


def test_options_filter_by_kind() -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    collector = RemarkCollector(RemarkFilter({RemarkKind.MISSED: "memory"}))
    compile_module(VECTOR_ADD, replace(options), "k", collector)
    assert {remark.name for remark in collector.remarks} == {"AccessWidth"}
