"""What consumers of products by mma.sync do beside their products: registers, stages, scales."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import IntAttr
from xdsl.utils.exceptions import VerifyException

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.scaled_gemm import ScaledGemm
from tests.kernels.thread_programs import llvm_text
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.dialects.llvm.types import integer_type, vector_type
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.memory import TiledLoadOp
from tileiras.driver import compile_module, read_source
from tileiras.options import CompileOptions

PLAIN = aligned_result(ProductKernel("f16", (128, 128, 64), b="turned", result="f16", whole=True))
SCALED = ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (128, 128, 128)).text()


def compiled(text: str, emit: str, gpu: str = "sm_120") -> str:
    """A kernel at a stage."""
    options = CompileOptions(gpu_name=gpu, emit=emit)
    return compile_module(text.encode(), options).output.decode()


@pytest.mark.parametrize("text", [PLAIN, SCALED], ids=["f16", "nvf4"])
def test_consumers_get_their_registers_first(text: str) -> None:
    ptx = compiled(text, "ptx")
    [entry] = re.findall(r"bra\s+(\S+);\n\t// begin inline asm\n\tsetmaxnreg\.dec", ptx)
    consumers = ptx[ptx.index(f"{entry}:") :]
    before = consumers[: consumers.index("setmaxnreg.inc")]
    assert not re.search(r"bar\.|mbarrier|shl|\band\b|xor", before)


def staged() -> tuple[pl.CreatePipelineOp, pl.ConsumerWaitOp, pl.ConsumerReleaseOp]:
    """The pipeline of a kernel, and where its stages are waited for and handed back."""
    module = read_source(compiled(PLAIN, "nv_tileas").encode())
    [created] = [op for op in module.walk() if isinstance(op, pl.CreatePipelineOp)]
    [wait] = [op for op in module.walk() if isinstance(op, pl.ConsumerWaitOp)]
    [release] = [op for op in module.walk() if isinstance(op, pl.ConsumerReleaseOp)]
    return created, wait, release


def test_one_stage_is_held_where_each_is_handed_back_before_the_next_wait() -> None:
    created, _, _ = staged()
    assert pl.is_handed_back_at_once(created.result)


def test_more_are_held_where_the_newest_is_kept() -> None:
    created, _, release = staged()
    release.properties["keep"] = IntAttr(1)
    assert not pl.is_handed_back_at_once(created.result)


def test_more_are_held_where_two_waits_follow_each_other() -> None:
    created, wait, release = staged()
    block = wait.parent_block()
    assert block is not None
    block.insert_op_before(wait.clone(), wait)
    assert not pl.is_handed_back_at_once(created.result)
    block.insert_op_after(release.clone(), release)
    assert not pl.is_handed_back_at_once(created.result)


def test_more_are_held_where_a_stage_is_handed_back_in_another_block() -> None:
    created, wait, release = staged()
    loop = wait.parent_op()
    assert loop is not None and loop.parent_block() is not None
    release.detach()
    loop.parent_block().insert_op_after(release, loop)
    assert not pl.is_handed_back_at_once(created.result)


def test_a_stage_is_handed_back_by_one_arrival_without_a_question() -> None:
    ptx = compiled(PLAIN, "ptx")
    arrivals = re.findall(r"@%p\d+ mbarrier\.arrive\.release", ptx[ptx.index("ldmatrix") :])
    assert len(arrivals) == 1


def test_lanes_have_read_a_stage_before_tma_may_write_there() -> None:
    """ptxas lets an arrival pass `ldmatrix` otherwise: a stage was filled before it had read."""
    ptx = compiled(SCALED, "ptx")
    behind = ptx[ptx.rindex("ldmatrix") :]
    order = r"fence\.proxy\.async\.shared::cta;.*?bar\.warp\.sync.*?mbarrier\.arrive\.release"
    assert re.search(order, behind, re.DOTALL)


def test_scales_of_unknown_strides_are_loaded_in_words() -> None:
    module = read_source(compiled(SCALED, "nv_tileas").encode())
    loads = [op for op in module.walk() if isinstance(op, TiledLoadOp)]
    assert loads and all(op.in_words is not None and op.vector.data == 1 for op in loads)
    ptx = compiled(SCALED, "ptx")
    first = ptx.index("ldmatrix")
    loop = ptx[ptx.rindex("\n$L_", 0, first) : ptx.rindex("mma.sync")]
    assert "cvt.u32.u16" not in loop and "and.pred" not in loop
    assert len(re.findall(r"ld\.global\.b8 %r\d+, \[%rd\d+\+3\]", loop)) == 8


def test_scales_of_known_strides_are_loaded_four_at_once() -> None:
    text = SCALED.replace("%S = assume div_by<1>", "%S = assume div_by<16>")
    module = read_source(compiled(text, "nv_tileas").encode())
    loads = [op for op in module.walk() if isinstance(op, TiledLoadOp)]
    assert loads and all(op.in_words is None and op.vector.data >= 4 for op in loads)


def test_scales_of_bf16_products_are_loaded_as_any_bytes() -> None:
    options = CompileOptions(
        gpu_name="sm_120", emit="nv_tileas", disabled_features=("block-scaled-mma",)
    )
    text = compile_module(SCALED.encode(), options).output.decode()
    assert "tiled_load" in text and "in_words" not in text


def test_words_are_of_bytes_that_are_loaded_one_by_one() -> None:
    def loads(width: int, align: int) -> None:
        def body(b: ThreadBuilder, args) -> None:
            type = vector_type(integer_type(width), 4)
            loaded = b.masked_load(
                args[0], b.icmp("eq", args[4], b.i32(0)), type, align, in_words=True
            )
            b.store(loaded, args[1], 1)

        llvm_text(body)

    loads(8, 1)
    for width, align in ((16, 1), (8, 4)):
        with pytest.raises(VerifyException, match="not loaded byte by byte"):
            loads(width, align)
