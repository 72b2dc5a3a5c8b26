"""The kernels that tests are made of, as files: products, attention, gathers, locks, loops."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def kernels_of_tests() -> Iterator[tuple[str, bytes]]:
    """Names, all different, and texts."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    yield from _products()
    yield from _attention()
    yield from _others()


def _products() -> Iterator[tuple[str, bytes]]:
    """Matrix products in every type, tile, placement and form."""
    from tests.kernels.gemm import aligned, gemm, persistent, with_ctas, with_result
    from tests.kernels.random_products import FEW_ROWS, KERNELS, NARROW_KERNELS, WHOLE_CHUNKS

    named = {kernel.name: kernel for kernel in (*KERNELS, *NARROW_KERNELS, *FEW_ROWS)}
    named |= {kernel.name: kernel for kernel in WHOLE_CHUNKS}
    for name, kernel in named.items():
        yield f"product_{name}", kernel.text().encode()
    for tile in ((128, 128, 64), (128, 256, 64), (256, 256, 64), (64, 64, 64), (32, 32, 64)):
        name = "x".join(map(str, tile))
        yield f"gemm_{name}", gemm(*tile)
        yield f"gemm_stores_{name}", gemm(*tile, stores=True)
        yield f"gemm_aligned_2_ctas_{name}", with_ctas(aligned(gemm(*tile)), 2)
        yield f"gemm_persistent_{name}", persistent(*tile)
    for element, mode in (("f32", "addf"), ("f16", "addf"), ("f32", "")):
        source = with_result(aligned(gemm(128, 128, 64)), element, mode)
        yield f"gemm_to_{element}_{mode or 'stored'}", source


def _attention() -> Iterator[tuple[str, bytes]]:
    """Two products a loop, with and without softmax."""
    from tests.kernels.attention import attention
    from tests.kernels.gemm import with_ctas
    from tests.kernels.softmax_attention import KINDS, softmax_attention

    for loops in (1, 2):
        for ctas in (1, 2):
            yield f"attention_{loops}_loops_{ctas}_ctas", with_ctas(attention(loops), ctas)
    for kind in KINDS:
        for sizes in ((128, 128, 128), (128, 64, 64), (64, 64, 128), (64, 64, 64, 2)):
            name = "x".join(map(str, sizes))
            yield f"softmax_{kind}_{name}", softmax_attention(kind, *sizes)
            yield f"softmax_{kind}_{name}_1_cta", with_ctas(softmax_attention(kind, *sizes), 1)


def _others() -> Iterator[tuple[str, bytes]]:
    """Gathers, operands that products share, depths that blocks share, locks, loops over rows."""
    from tests.kernels.gather import LOOPS, experts, gathered_right
    from tests.kernels.lock_kernels import TURNS
    from tests.kernels.loop_products import LOOP, STORE, kernel
    from tests.kernels.row_loops import KERNELS
    from tests.kernels.shared_operands import APART, FORMS, shared_operands
    from tests.kernels.split_gemm import BEFORE, split_gemm

    for loop in LOOPS:
        yield f"experts_{loop}", experts(loop=loop)
    yield "experts_ordered", experts(64, 128, 64, "storing", ordered=True)
    yield "experts_narrow", experts(128, 64, 32, align=4)
    yield "experts_overwrites", experts(overwrites=True)
    for is_transposed in (False, True):
        yield f"gathered_right_{is_transposed}", gathered_right(is_transposed)
    for form in (*FORMS, *APART):
        name = f"shared_{form.replace(' ', '_')}"
        yield name, shared_operands(form).encode()
        yield f"{name}_tf32", shared_operands(form, "f32", 32, "AD").encode()
    for before in BEFORE:
        yield f"split_gemm_after_{before}", split_gemm(before)
    yield "turns", TURNS.encode()
    yield "small_product", kernel(LOOP + STORE).encode()
    for number, row_loop in enumerate(KERNELS):
        yield f"rows_{number}", row_loop.text.encode()
