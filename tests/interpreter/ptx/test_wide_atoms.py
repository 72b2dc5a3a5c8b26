"""tf32 products by tcgen05 whose operands have K contiguous in neither, or in one of them.

Such operands lie under a swizzle of 128 bytes that keeps 32 together. TMA writes it, descriptors
say it; a program that says another one reads other numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case, make_case
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

ATOMS = r"tensormap\.replace\.tile\.swizzle_atomicity\.shared::cta\.b1024\.b32 \[map\], 1;"
ROWS = ProductKernel("f32", (128, 128, 32), a="column", whole=True)
"""A by columns, B by rows: K runs across both."""
KERNELS = (
    ("sm_100", ROWS),
    ("sm_103", replace(ROWS, a="row")),
    ("sm_110", replace(ROWS, b="transposed")),
    ("sm_100", replace(ROWS, tile=(64, 64, 8))),
    ("sm_100", replace(ROWS, tile=(256, 128, 16), a="permuted")),
    ("sm_100", replace(ROWS, tile=(256, 256, 32), cluster=2)),
    ("sm_100", replace(ROWS, tile=(512, 256, 32), cluster=4)),
    ("sm_100", replace(ROWS, tile=(128, 256, 32), form="persistent", cluster=2)),
)


def compiled(kernel: ProductKernel, gpu: str = "sm_100") -> str:
    """PTX of a kernel whose hints are for the target."""
    source = aligned_result(kernel).replace("sm_90", gpu).encode()
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=gpu)
    return compile_module(source, options).output.decode()


@pytest.mark.parametrize(
    ("gpu", "kernel"), KERNELS, ids=lambda value: getattr(value, "name", value)
)
def test_products_are_right(gpu: str, kernel: ProductKernel) -> None:
    text = compiled(kernel, gpu)
    assert "tcgen05.mma" in text and re.search(ATOMS, text)
    assert ("cta_group::2.kind" in text) == (kernel.cluster > 1 and kernel.form == "plain")
    m, n, k = kernel.tile
    case = dense_case(kernel, (m, 2 * n, 5 * k), 1, 2, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid, limits=Limits(resident=4))
    assert case.difference(arguments[2]) == ""
    result = ptx_to_cubin(text, get_target(gpu), CompileOptions(gpu_name=gpu))
    assert result.cubin and result.spills == 0


def test_ragged_batches_are() -> None:
    kernel = ProductKernel("f32", (128, 64, 16), a="column", form="batched")
    text, case = compiled(kernel), make_case(kernel, 3, tiles=2)
    assert "tcgen05.mma" in text and re.search(ATOMS, text)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


def test_maps_with_other_atoms_bring_other_numbers() -> None:
    text = re.sub(ATOMS, lambda found: found[0].replace("1;", "0;"), compiled(ROWS))
    case = dense_case(ROWS, (128, 128, 64), 1, 1, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) != ""


def test_descriptors_with_other_swizzles_are_refused() -> None:
    """The usual swizzle has code 2, in the three highest bits; no operand of 32 bits has it."""
    text = compiled(ROWS)
    [words] = {w for w in re.findall(r"\d{19}", text) if int(w) >> 61 == 1}
    usual = str((int(words) & ~(7 << 61) | 2 << 61) - (0 if 2 << 61 < 1 << 63 else 1 << 64))
    case = dense_case(ROWS, (128, 128, 64), 1, 1, 1)
    with pytest.raises(PtxError, match="32 bits want a swizzle of 128 bytes by 32"):
        run_ptx(text.replace(words, usual), case.arguments(), case.grid)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (replace(ROWS, tile=(128, 16, 16)), "its rows are no multiples of 128 bytes"),
        (replace(ROWS, is_aligned=False, whole=False), "the operand does not come by TMA"),
    ],
    ids=["narrow", "unaligned"],
)
def test_others_say_why_not(kernel: ProductKernel, reason: str) -> None:
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    found = compile_module(aligned_result(kernel).encode(), options, remarks=remarks)
    assert "tcgen05.mma" not in found.output.decode()
    assert any(reason in remark.message for remark in remarks.remarks)
