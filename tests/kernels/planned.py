"""Kernels that are planned in roles of warps, or not, in front of the plan."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from tests.kernels.attention import attention
from tests.kernels.gather import experts
from tests.kernels.gemm import aligned, gemm, persistent, with_ctas
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import FEW_ROWS, aligned_result
from tests.kernels.shared_operands import shared_operands
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import read_source
from tileiras.options import CompileOptions
from tileiras.planning.kernel import plan_kernel
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.strategy import choose_strategy, drop_strategy


def product(element: str, tile: tuple[int, int, int], **form: object) -> bytes:
    """A product that ends in aligned stores."""
    return aligned_result(ProductKernel(element, tile, **form)).encode()  # type: ignore[arg-type]


SPECIALISED: dict[str, Callable[[], bytes]] = {
    "gemm": lambda: gemm(128, 256, 64),
    "gemm of two CTAs an SM": lambda: with_ctas(aligned(gemm(64, 128, 64)), 2),
    "persistent": lambda: persistent(128, 128, 64),
    "two tiles in rounds": lambda: product("f16", (128, 128, 64), form="persistent"),
    "two tiles of the grid": lambda: product("f16", (128, 128, 64), form="numbered"),
    "two tiles as one": lambda: product(
        "f16", (64, 256, 64), form="numbered", order="columns", result="f16"
    ),
    "two small tiles": lambda: product("f16", (64, 128, 64), form="numbered"),
    "stores by a warp": lambda: product("f16", (64, 64, 64), form="persistent", result="f16"),
    "transposed bytes": lambda: product("f8E4M3FN", (128, 128, 128)),
    "transposed words": lambda: product("f32", (128, 128, 32), a="column"),
    "few rows": lambda: FEW_ROWS[0].text().encode(),
    "attention": lambda: with_ctas(attention(2, depth=128), 1),
    "causal softmax": lambda: softmax_attention("causal", 128, 128, 128),
    "gather": lambda: experts(),
    "shared operands": lambda: shared_operands("left").encode(),
}
ALIKE: dict[str, Callable[[], bytes]] = {
    "small gemm": lambda: gemm(32, 32, 64),
    "gemm that stores in its loop": lambda: gemm(128, 128, 64, stores=True),
}


def ready(source: bytes) -> ModuleOp:
    """The module as it is planned, without the plan."""
    module = read_source(source)
    for name, _ in passes(module, (), "sm_90"):
        if name == "tileas-plan-cta":
            break
    drop_strategy(kernel_of(module))
    return module


def planned(func: aa.FuncOp, target: GpuTarget, options: CompileOptions) -> CtaPlan:
    """The plan of a kernel, whose strategy is chosen for that."""
    choose_strategy(func, target)
    return plan_kernel(func, target, options)


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    (func,) = (op for op in module.body.ops if isinstance(op, aa.FuncOp))
    return func
