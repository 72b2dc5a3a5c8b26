"""Products by mma.sync that read operands where they are copied to, on a GPU that has wgmma."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import WHOLE_CHUNKS, make_case  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name, launch_cubin, launch_repeatedly  # noqa: E402
from .restrictions import IMITATED, missing_features  # noqa: E402

RESULT = 2
"""The position of the result among the arguments."""


@cache
def compiled(kernel: ProductKernel, without: tuple[str, ...], arch: str) -> bytes:
    """The cubin."""
    options = with_environment(CompileOptions(gpu_name=arch, disabled_features=without))
    return compile_module(kernel.text().encode(), options).output


@pytest.mark.gpu
@pytest.mark.parametrize("like", ["", *IMITATED])
@pytest.mark.parametrize("kernel", WHOLE_CHUNKS, ids=lambda kernel: kernel.name)
def test_product_is_exact(kernel: ProductKernel, like: str) -> None:
    """Without wgmma, and as another target would do it."""
    arch = gpu_name()
    without = missing_features(arch, like) if like else ("wgmma",)
    if like == "sm_80" and kernel.element.startswith("f8"):
        pytest.skip("sm_80 has no f8")
    cubin = compiled(kernel, without, arch)
    for seed in range(5):
        case = make_case(kernel, seed)
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert case.difference(arguments[RESULT]) == "", case.name


@pytest.mark.gpu
def test_repeated_launches_give_the_same_bits() -> None:
    """A thread that reads before another one's copies are there would not."""
    kernel = WHOLE_CHUNKS[0]
    case = next(case for seed in range(100) if max((case := make_case(kernel, seed)).extents) > 300)
    cubin = compiled(kernel, ("wgmma",), gpu_name())
    results = launch_repeatedly(cubin, "product", case.arguments(), case.grid, RESULT, 200)
    assert {case.difference(result) for result in results} == {""}
