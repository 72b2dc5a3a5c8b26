"""Kernels with one tile a block whose CTAs take over tile blocks that have not started."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import (
    DELAY_TMA_STORE_WAIT,
    DYNAMIC_PERSISTENT,
    PREFER_TMA,
    CompileOptions,
)
from tileiras.pipeline import PIPELINE

TARGET = "sm_100"
LARGE = ProductKernel("f16", (128, 256, 64), result="f16")


def text_of(kernel: ProductKernel) -> str:
    """A kernel whose result is aligned, with hints for the target."""
    return aligned_result(kernel).replace("sm_90", TARGET)


def kernel_behind(text: str, last: str = "tileas-dynamic-persistent") -> aa.FuncOp:
    """The only kernel, behind a pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), TARGET):
        if name == last:
            return next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    raise AssertionError("the pass did not run")


def takes_over(text: str) -> bool:
    """Whether the CTAs of the kernel take over tile blocks."""
    func = kernel_behind(text)
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp) and op.takes_over is not None]
    assert len(loops) == int(func.dynamic_tile_scheduler is not None)
    return bool(loops)


@pytest.mark.parametrize("cluster", [1, 2])
def test_every_tile_is_computed_by_one_block(cluster: int):
    kernel = replace(LARGE, cluster=cluster)
    module: ModuleOp = parse_text(text_of(kernel), "kernel.mlir")
    seen: list[str] = []
    for name, _ in passes(module, (), TARGET):
        if name not in ("form-clusters", "tileas-plan-cta"):
            continue
        seen.append(name)
        case = dense_case(kernel, (384, 500, 96), 3, 2)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert not case.difference(arguments[2])
    assert seen == ["form-clusters", "tileas-plan-cta"]


@pytest.mark.parametrize("cluster", [1, 2])
def test_clusters_are_formed_of_what_takes_over(cluster: int):
    func = kernel_behind(text_of(replace(LARGE, cluster=cluster)), "form-clusters")
    assert func.dynamic_tile_scheduler is not None and func.cluster_size == cluster


def test_what_all_tiles_have_alike_stands_before_the_loop():
    func = kernel_behind(text_of(LARGE))
    [loop] = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    assert loop.takes_over is not None and loop.step is loop.upper_bound
    assert not [op for op in loop.walk() if isinstance(op, aa.MakeMemRefOp)]


@pytest.mark.parametrize(
    "kernel",
    [
        ProductKernel("f16", (128, 128, 64), result="f16"),
        replace(LARGE, form="persistent"),
        replace(LARGE, form="split"),
        replace(LARGE, is_aligned=False),
        ProductKernel("f32", (128, 256, 32), a="column", is_aligned=False),
    ],
    ids=lambda kernel: kernel.name,
)
def test_other_kernels_stay(kernel: ProductKernel):
    assert not takes_over(text_of(kernel))


@pytest.mark.parametrize("switch", [DYNAMIC_PERSISTENT, PREFER_TMA, DELAY_TMA_STORE_WAIT])
def test_switches_keep_a_tile_a_block(switch: str):
    text, names = text_of(LARGE).encode(), [step.pass_name for step in PIPELINE]
    passes = tuple(names[: names.index("form-clusters")])
    for knobs, expected in (({}, True), ({switch: "0"}, False)):
        options = CompileOptions(gpu_name=TARGET, opt_level=3, knobs=knobs)
        found = compile_module(text, options, filename="k.mlir", pass_names=passes).output
        assert (b"takes_over" in found) == expected
