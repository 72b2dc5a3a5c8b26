"""Views that TMA cannot take: copied by the producer's threads, multiplied by wgmma."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

KERNELS = (
    (ProductKernel("f16", (64, 64, 64), chunk=8), (4,)),
    (ProductKernel("f16", (64, 128, 64), a="column", b="transposed", chunk=4), (4, 2)),
    (ProductKernel("bf16", (64, 256, 64), form="split", is_aligned=False), (4, 2, 1)),
    (ProductKernel("f16", (128, 64, 64), form="persistent", chunk=4), (4, 2)),
    (ProductKernel("f32", (64, 64, 32), b="transposed", is_aligned=False), (2, 1)),
    (ProductKernel("f32", (64, 64, 32), is_aligned=False), (2, 1)),
    (ProductKernel("i8", (128, 128, 128), b="permuted", is_aligned=False), (8, 4, 1)),
    (ProductKernel("f8E5M2", (64, 128, 128), form="batched", chunk=4), (8, 4)),
)
PLAIN = ProductKernel("f16", (128, 128, 64), chunk=4)


def placed(text: str) -> ModuleOp:
    """The module at the nv_tileas stage."""
    module = read_source(text.encode())
    for _ in passes(module, (), "sm_90"):
        pass
    return module


@pytest.mark.parametrize(
    ("kernel", "chunks"), KERNELS, ids=lambda value: getattr(value, "name", "")
)
def test_products_are_exact(kernel: ProductKernel, chunks: tuple[int, ...]) -> None:
    """Copies of as many bytes as are proven or may turn out; ragged shapes, any start."""
    module = placed(kernel.text())
    loads = [op for op in module.walk() if isinstance(op, pl.CopyLoadOp)]
    assert [load.vectors.data for load in loads] == [chunks, chunks]
    for seed in range(3):
        case = make_case(kernel, seed, tiles=2)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert case.difference(arguments[2]) == "", case.name


def test_one_operand_may_come_by_tma() -> None:
    text = (
        ProductKernel("f16", (128, 128, 64))
        .text()
        .replace("%As1k = assume div_by<8>", "%As1k = assume div_by<4>")
    )
    module = placed(text)
    kinds = [type(op) for op in module.walk() if isinstance(op, pl.CopyLoadOp | pl.TmaLoadOp)]
    assert kinds == [pl.TmaLoadOp, pl.CopyLoadOp]
    [acquire] = [op for op in module.walk() if isinstance(op, pl.ProducerAcquireOp)]
    assert acquire.bytes.data == 128 * 64 * 2


def test_rows_one_element_apart_do_not_come_by_tma() -> None:
    """Rows that overlap: strides of a tensor map are multiples of 16 bytes, but for one."""
    kernel = ProductKernel("f16", (128, 128, 64))
    text = re.sub(
        r"strides = \[%As1k, 1\](.*)\[\?,1\]>", r"strides = [1, 1]\1[1,1]>", kernel.text()
    )
    text = re.sub(r"(tile=\(128x64\).*?)strides=\[\?,1\]", r"\1strides=[1,1]", text)
    kinds = [type(op) for op in placed(text).walk() if isinstance(op, pl.CopyLoadOp | pl.TmaLoadOp)]
    assert kinds == [pl.TmaLoadOp, pl.CopyLoadOp]
    text = text.replace("shape = [%M, %K]", "shape = [1, %K]")
    text = re.sub(r"\?(x\?xf16, strides=\[1,1\])", r"1\1", text)
    made = list(placed(text).walk())
    assert not any(isinstance(op, pl.CopyLoadOp) for op in made)
    assert {op.axis.data for op in made if isinstance(op, pl.TmaLoadOp)} == {1}


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (PLAIN, ("padding_value = zero", "padding_value = nan")),
        (PLAIN, ("load_view_tko weak", "load_view_tko relaxed device")),
        (ProductKernel("f16", (128, 128, 64), a="any", chunk=4), ("", "")),
        (ProductKernel("f16", (128, 128, 8), chunk=4), ("", "")),
    ],
    ids=["padding", "order", "no_rows", "short_rows"],
)
def test_does_not_copy(kernel: ProductKernel, change: tuple[str, str]) -> None:
    text = kernel.text().replace(*change) if change[0] else kernel.text()
    assert not any(isinstance(op, pl.CopyLoadOp) for op in placed(text).walk())


@pytest.mark.parametrize(
    "kernel",
    [
        ProductKernel("f16", (128, 128, 64), chunk=4),
        ProductKernel("f16", (128, 256, 64), is_aligned=False),
        ProductKernel("f32", (128, 128, 32), is_aligned=False),
        ProductKernel("f8E4M3FN", (128, 128, 128), b="transposed", chunk=4),
    ],
    ids=lambda kernel: kernel.name,
)
def test_does_not_spill(kernel: ProductKernel) -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    assert "0 bytes spilled" in compile_module(kernel.text().encode(), options).notes[0]
