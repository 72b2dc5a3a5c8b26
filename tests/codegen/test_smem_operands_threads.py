"""Operands of mma.sync that threads read where they have copied them to, thread by thread."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.gemm import gemm
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tests.kernels.softmax_attention import (
    RESULT,
    attention_arguments,
    run_attention,
    softmax_attention,
)
from tileiras.dialects.nv_tileas.memory import AllocTensorOp, buffer_type
from tileiras.driver import read_source
from tileiras.ir_text import parse_text

KERNELS = (
    ProductKernel("f16", (32, 32, 32), whole=True),
    ProductKernel("f16", (64, 32, 64), b="transposed", form="persistent", whole=True),
    ProductKernel("bf16", (32, 64, 32), a="column", whole=True),
    ProductKernel("f16", (16, 64, 32), a="column", b="transposed", form="batched", whole=True),
    ProductKernel("f16", (64, 64, 32), b="permuted", whole=True),
    ProductKernel("f16", (16, 16, 16), chunk=4, whole=True),
    ProductKernel("f16", (32, 32, 64), form="split", whole=True),
    ProductKernel("i8", (32, 32, 64), b="transposed", whole=True),
)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_threads_compute_the_product(kernel: ProductKernel) -> None:
    module = lower_to_llvm(parse_text(kernel.text(), "kernel.mlir"), "sm_80")
    assert any(op.name == "nvvm.cp_async" for op in module.walk())
    for seed in range(2):
        case = make_case(kernel, seed, tiles=2)
        arguments = case.arguments()
        run_lowered(module, arguments, case.grid)
        assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize(("rows", "keys", "depth"), [(16, 64, 32), (32, 32, 64)])
def test_threads_compute_attention(kind: str, rows: int, keys: int, depth: int) -> None:
    source = softmax_attention(kind, rows, keys, depth)
    wanted = run_attention(read_source(source), rows, 152, depth, blocks=(2,))
    module = lower_to_llvm(read_source(source), "sm_80")
    assert any(op.name == "nvvm.cp_async" for op in module.walk())
    arguments, grid = attention_arguments(rows, 152, depth, blocks=(2,))
    run_lowered(module, arguments, grid)
    found = arguments[RESULT].view(np.float16).astype(np.float64)
    np.testing.assert_allclose(found, wanted.view(np.float16), rtol=0.01, atol=0.004)


def test_what_follows_the_loop_has_the_memory_of_the_stages() -> None:
    module = lower_to_llvm(read_source(gemm(64, 64, 64)), "sm_80")
    sizes = {
        str(op.properties["sym_name"]): op.size.data
        for op in module.body.ops
        if op.name == "llvm.mlir.global"
    }
    assert not any("scratch" in name for name in sizes), sizes


ADDS_UP = """%zp = constant <f32: 0.0> : tile<32x32xf32>
    %pre = for %k in (%c0 to %space#1, step %c1) : tile<i32>
        iter_values(%pb = %zp) -> (tile<32x32xf32>) {
      %Pv, %Pt = load_view_tko weak %pC[%x, %k] token = %t0 : VIEW, tile<i32>
        -> tile<32x32xf32>, token
      %pn = addf %Pv, %pb : tile<32x32xf32>
      continue %pn : tile<32x32xf32>
    }
    %sum = for"""
VIEW = "partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>"


def test_threads_meet_between_a_loop_of_their_own_copies_and_one_of_stages() -> None:
    """Both loops have the same memory; the simulator finds races."""
    kernel = ProductKernel("f16", (32, 32, 32), whole=True)
    text = kernel.text().replace("%sum = for", ADDS_UP.replace("VIEW", VIEW))
    last = "%last = store_view_tko weak %pre, %pC[%x, %c0] token = %stored"
    text = text.replace(
        "    return\n", f"    {last} : tile<32x32xf32>, {VIEW}, tile<i32> -> token\n    return\n"
    )
    buffers: list[bool] = []

    def note(module: ModuleOp) -> None:
        found = (op for op in module.walk() if isinstance(op, AllocTensorOp))
        buffers[:] = (buffer_type(op.result).shared_linear is not None for op in found)

    module = lower_to_llvm(parse_text(text, "kernel.mlir"), "sm_80", after_placement=note)
    assert sorted(buffers) == [False, True, True]
    case = make_case(kernel, 0, tiles=2)
    run_lowered(module, case.arguments(), case.grid)
