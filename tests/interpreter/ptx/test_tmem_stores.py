"""Tiles that leave tensor memory by TMA: values in the PTX machine, and what the PTX says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.kernels.gemm import aligned, gemm, persistent, with_result
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions

STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"
AT_ONCE = {DELAY_TMA_STORE_WAIT: "0"}


@dataclass(frozen=True)
class Case:
    """A product whose tiles leave by TMA, by a store warp or by those who computed them."""

    tile: tuple[int, int, int]
    result: str = "f16"
    mode: str = ""
    is_persistent: bool = True
    knobs: tuple[tuple[str, str], ...] = ()
    gpu: str = "sm_100"

    def __str__(self) -> str:
        """What distinguishes it."""
        knobs = [f"{name.rsplit('_', 2)[-2]}{value}" for name, value in self.knobs]
        form = "persistent" if self.is_persistent else "plain"
        parts = ["x".join(map(str, self.tile)), self.result, self.mode, form, self.gpu, *knobs]
        return "-".join(filter(None, parts))

    def source(self) -> bytes:
        """The kernel."""
        made = persistent(*self.tile) if self.is_persistent else aligned(gemm(*self.tile))
        return with_result(made, self.result, self.mode) if self.result != "f16" else made

    def ptx(self) -> str:
        """Its PTX."""
        options = with_environment(CompileOptions(gpu_name=self.gpu, emit="ptx"))
        options = replace(options, knobs={**options.knobs, **dict(self.knobs)})
        return compile_module(self.source(), options).output.decode()


CONSUMERS = tuple(AT_ONCE.items())
PREFERRED = ((PREFER_TMA, "1"),)
CASES = (
    Case((128, 128, 64)),
    Case((128, 256, 64)),
    Case((256, 128, 64)),
    Case((64, 128, 64)),
    Case((128, 64, 64), "f32"),
    Case((128, 128, 64), "f32", "addf"),
    Case((128, 128, 64), gpu="sm_103"),
    Case((128, 128, 64), gpu="sm_110"),
    Case((128, 128, 64), knobs=CONSUMERS),
    Case((128, 256, 64), "f32", knobs=CONSUMERS),
    Case((128, 128, 64), is_persistent=False, knobs=PREFERRED),
    Case((128, 128, 64), is_persistent=False, knobs=(*PREFERRED, *CONSUMERS)),
)


def check(case: Case, text: str) -> None:
    """Ragged rows and columns, some steps of K, against float64."""
    rows, columns, depth = case.tile
    m, n, k = 3 * rows - 40, 2 * columns - 16, 3 * depth
    rng = np.random.default_rng(1)
    a, b = ((rng.integers(-6, 7, s) / 4).astype(np.float16) for s in ((m, k), (k, n)))
    c = rng.integers(-3, 4, (m, n)).astype({"f16": np.float16, "f32": np.float32}[case.result])
    wanted = a.astype(np.float64) @ b.astype(np.float64) + (c if case.mode else 0)
    blocks = (2 if case.is_persistent else 3, 2, 1)
    run_ptx(text, [a, b, c, *map(np.int32, (m, n, k))], blocks)
    np.testing.assert_array_equal(c, wanted.astype(c.dtype))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_leave_tensor_memory_by_tma(case: Case) -> None:
    text = case.ptx()
    assert "tcgen05.mma" in text and "st.global" not in text
    assert (REDUCE if case.mode else STORE) in text
    check(case, text)


def test_threads_store_where_tma_is_not_wanted() -> None:
    case = Case((128, 128, 64), knobs=((PREFER_TMA, "0"),))
    text = case.ptx()
    assert "tcgen05.mma" in text and STORE not in text and "st.global" in text


def test_the_wait_for_a_store_follows_it_at_once_where_it_is_not_to_be_delayed() -> None:
    """Then nobody but the consumers stores; a delayed store is one of a warp of its own."""
    wait = re.compile(r"cp\.async\.bulk\.wait_group\.read 0")
    last = STORE, "cp.async.bulk.commit_group"
    for knobs, own_warp in ((CONSUMERS, False), ((), True)):
        text = Case((128, 128, 64), knobs=knobs).ptx()
        behind = text[text.rindex(last[0]) :]
        assert ("store_barriers" in text) == own_warp
        assert wait.search(behind) is not None


def test_pieces_have_the_rows_of_tensor_memory() -> None:
    """128 rows of 128 bytes: two of them for a tile of 128 columns of 16 bits."""
    text = Case((128, 128, 64), knobs=CONSUMERS).ptx()
    assert text.count(STORE) == 1  # a warpgroup has half of the columns
    assert "stmatrix" in text
    sizes = {int(size) for size in re.findall(r"pieces\w*\[(\d+)\]", text)}
    assert sizes == {2 * 2 * 128 * 128}


@pytest.mark.parametrize("knobs", [(), CONSUMERS], ids=["store warp", "consumers"])
def test_a_missing_fence_before_the_store_is_found(knobs: tuple[tuple[str, str], ...]) -> None:
    case = Case((128, 128, 64), knobs=knobs)
    cut = re.sub(r"fence\.proxy\.async\.shared::cta;", "", case.ptx())
    with pytest.raises(PtxRuntimeError, match="fence.proxy.async"):
        check(case, cut)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptxas_takes_it_and_spills_nothing(case: Case) -> None:
    target = get_target(case.gpu)
    result = ptx_to_cubin(case.ptx(), target, CompileOptions(gpu_name=case.gpu))
    assert result.cubin and result.spills == 0
