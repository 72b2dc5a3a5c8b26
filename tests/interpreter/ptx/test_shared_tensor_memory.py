"""CTAs that share an SM share its tensor memory: each uses its own columns, and nobody waits for
those that wait for it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.interpreter.ptx.small_kernels import kernel as small_kernel
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tileiras.codegen.lowering import tensor_memory
from tileiras.codegen.occupancy import occupancy
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

ALONE = ProductKernel("f16", (128, 128, 64), whole=True, cluster=1)
CLUSTER = replace(ALONE, cluster=2, result="f16")
PAIR = replace(CLUSTER, tile=(256, 256, 64))
"""A cluster that divides a tile, and allocates by `cta_group::2`."""
ALLOCATION = r"(tcgen05\.alloc\S+ \[\S+\], )(\d+);"
COLUMNS = 512
"""Of an SM (PTX ISA, "Tensor Memory Addressing")."""


def compiled(kernel: ProductKernel) -> str:
    """PTX for sm_100, of a kernel that has one sum."""
    source = aligned_result(kernel).replace("sm_90", "sm_100")
    knobs = {DYNAMIC_PERSISTENT: "0"}
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100", knobs=knobs)
    text = compile_module(source.encode(), options).output.decode()
    assert ("cta_group::2" in text) == (kernel is PAIR)
    return text


def allocated(text: str) -> int:
    """Columns of a CTA."""
    found = re.search(ALLOCATION, text)
    assert found is not None
    return int(found[2])


def with_columns(text: str, columns: int) -> str:
    """The same program with another number of columns."""
    changed = re.sub(ALLOCATION, rf"\g<1>{columns};", text)
    return re.sub(r"(tcgen05\.dealloc\S+ \S+, )\d+;", rf"\g<1>{columns};", changed)


def difference(kernel: ProductKernel, text: str, ctas: int = 2, tiles: int = 4) -> str:
    """What is wrong with a product, of whose CTAs so many share an SM."""
    m, n, k = kernel.tile
    case = dense_case(kernel, (tiles * m, n, 3 * k), tiles, 1, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid, limits=Limits(2_000_000, ctas, ctas))
    return case.difference(arguments[2])


@pytest.mark.parametrize("kernel", [ALONE, CLUSTER, PAIR], ids=lambda kernel: kernel.name)
def test_each_cta_uses_columns_of_its_own(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    ctas = COLUMNS // allocated(text)
    assert ctas >= 2
    assert difference(kernel, text, ctas) == ""


def test_attention_beside_other_ctas_uses_its_own_columns() -> None:
    kernel = ("full", 128, 64, 64, 1)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(softmax_attention(*kernel), options).output.decode()
    assert 2 * allocated(text) <= COLUMNS
    results = []
    for limits in (Limits(ctas_per_sm=1), Limits(resident=2, ctas_per_sm=2)):
        arguments, grid = attention_arguments(128, 192, 64, 1, (2,))
        arguments[-1] = 0.125
        run_ptx(text, arguments, grid, limits=limits)
        results.append(arguments[RESULT].copy())
    assert np.any(results[0]) and np.array_equal(*results)


def test_columns_that_are_not_those_allocated_are_found() -> None:
    text, count = re.subn(r"ld\.shared\.b32\s+(%r\d+), .*;", r"mov.b32 \1, 0;", compiled(ALONE))
    assert count == 2, "the consumers and the product warp read the address"
    assert difference(ALONE, text, ctas=1) == ""
    with pytest.raises(PtxError, match="is (of another CTA|not allocated)"):
        difference(ALONE, text)


def test_who_finds_too_few_columns_waits_for_others() -> None:
    assert difference(ALONE, with_columns(compiled(ALONE), COLUMNS)) == ""


def test_a_cta_that_may_allocate_keeps_others_waiting_until_it_ends() -> None:
    text = re.sub(r"tcgen05\.relinquish\S+;", "", compiled(ALONE))
    assert difference(ALONE, text) == ""


def test_clusters_that_wait_for_each_others_columns_are_found() -> None:
    text = with_columns(compiled(CLUSTER), COLUMNS)
    with pytest.raises(PtxError, match="no CTA gives back 512 columns of tensor memory"):
        difference(CLUSTER, text)


def test_clusters_that_wait_for_a_permit_are_found() -> None:
    text = re.sub(r"tcgen05\.relinquish\S+;", "", compiled(CLUSTER))
    with pytest.raises(PtxError, match="no CTA gives back 128 columns of tensor memory"):
        difference(CLUSTER, text)


def test_a_pair_allocates_together() -> None:
    assert difference(PAIR, with_columns(compiled(PAIR), COLUMNS)) == ""


HOLDS_AND_WAITS = """
.shared .align 4 .b32 cell;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 256;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ld.shared.b32 %r0, [cell];
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %q0, %r1, 0;
@%q0 bra GIVE;
WAIT:
ld.acquire.gpu.global.b32 %r2, [%p0];
setp.eq.u32 %q1, %r2, 0;
@%q1 bra WAIT;
GIVE:
st.release.gpu.global.b32 [%p0], 1;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 256;
"""
"""The first CTA keeps its columns until the second one has come as far."""


@pytest.mark.parametrize("columns", [256, 512])
def test_a_cta_that_waits_for_one_without_columns_never_ends(columns: int) -> None:
    text = small_kernel(HOLDS_AND_WAITS.replace("256", str(columns)), 1)
    limits, flag = Limits(100_000, resident=2, ctas_per_sm=2), np.zeros(1, np.uint32)

    def run() -> None:
        run_ptx(text, [flag], (2, 1, 1), (32, 1, 1), limits=limits)

    if columns == 256:
        run()
        assert flag[0] == 1
        return
    with pytest.raises(PtxError, match="budget"):
        run()


def test_a_grid_that_starts_early_finds_all_columns_allocated() -> None:
    """The next grid's CTAs may wait for columns: nobody of this one will want some any more."""
    waits = "%w = gdc_launch_dependents_tko -> token\n    %sum = for"
    source = aligned_result(ALONE).replace("sm_90", "sm_100").replace("%sum = for", waits)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(source.encode(), options).output.decode()
    assert text.count("launch_dependents") == 1
    consumers = text[text.index("tcgen05.alloc") : text.index("tcgen05.dealloc")]
    assert consumers.index("bar.sync") < consumers.index("launch_dependents")


SMALL = (
    ProductKernel("f16", (64, 256, 16), form="persistent", whole=True, chunk=8),
    ProductKernel("i8", (64, 256, 32), form="persistent", whole=True, chunk=8),
    ProductKernel("f16", (128, 256, 16), form="persistent", whole=True),
    ProductKernel("f16", (64, 256, 16), whole=True, chunk=8),
    ProductKernel("f16", (128, 128, 16), whole=True),
    ProductKernel("f16", (64, 32, 32), whole=True),
    ALONE,
)
"""With little shared memory, or few registers, for the columns that they have."""


def columns_together(kernel: ProductKernel) -> int:
    """Columns of all CTAs for which an SM has registers and shared memory.

    Registers count where warps trade them: otherwise ptxas may need fewer tomorrow.
    """
    source = kernel.text().replace("sm_90", "sm_100")
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text, target = compile_module(source.encode(), options).output.decode(), get_target("sm_100")
    used = ptx_to_cubin(text, target, options).kernels[0]
    threads = re.search(r"\.reqntid (\d+)", text)
    assert threads is not None
    registers = used.registers if "setmaxnreg" in text else 1
    fitting = occupancy(target, int(threads[1]), registers, used.shared).ctas
    return fitting * allocated(text)


@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_no_more_ctas_fit_than_there_are_columns_for(kernel: ProductKernel) -> None:
    assert columns_together(kernel) <= COLUMNS


def test_more_would_fit_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_memory, "keep_apart", lambda ctx, variables: None)
    assert columns_together(SMALL[0]) > COLUMNS
