"""Powers of 2 on FMA units: values against float64, and which elements are computed so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.elementwise_body import SIZE, elementwise_kernel
from tileiras.codegen.lowering.elementwise.exp2_on_fma import lanes_on_fma
from tileiras.driver import compile_module
from tileiras.errors import TileirasError
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

TARGETS = ("sm_90", "sm_100")
"""Without packed arithmetic, and with it."""


def in_nv_tileas(target: str) -> str:
    """A kernel of powers."""
    options = CompileOptions(gpu_name=target, emit="nv_tileas")
    body = "%r = exp2 %a flush_to_zero : tile<SIZExf32>"
    return compile_module(elementwise_kernel(body), options).output.decode()


def share(pairs: int) -> str:
    """The attribute of so many of eight pairs, behind `flush_to_zero`."""
    return f"fma_share = #nv_tileaa.fma_share<pairs = {pairs}, of = 8>"


def compiled(target: str, pairs: int) -> str:
    """The PTX of a kernel that computes so many of eight pairs on FMA units."""
    text = in_nv_tileas(target)
    assert text.count("{flush_to_zero}") == 1
    if pairs:
        text = text.replace("{flush_to_zero}", f"{{flush_to_zero, {share(pairs)}}}")
    options = CompileOptions(gpu_name=target, emit="ptx")
    return compile_module(text.encode(), options, filename="k.mlir").output.decode()


def results(text: str, values: np.ndarray) -> np.ndarray:
    """What a kernel leaves for values."""
    found = np.zeros(SIZE, np.float32)
    run_ptx(text, [values, np.zeros(SIZE, np.float32), found], (1, 1, 1))
    return found


def spread() -> np.ndarray:
    """f32 over the range of results, near whole numbers, and at both ends of it."""
    rng = np.random.default_rng(5)
    inside = rng.uniform(-126, 128, SIZE // 2)
    near = rng.integers(-125, 127, SIZE // 4) + rng.choice([-1e-6, 1e-6, 0], SIZE // 4)
    small = rng.uniform(-1, 1, SIZE // 4) * 2.0 ** -rng.integers(0, 60, SIZE // 4)
    return np.concatenate([inside, near, small]).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_as_near_as_those_of_special_functions(target: str) -> None:
    """2 ulp, as PTX promises of `ex2.approx`; a power of 0 is 1."""
    values = spread()
    text = compiled(target, 8)
    assert "ex2.approx" not in text and ("fma.rn.f32x2" in text) == (target == "sm_100")
    found, wanted = results(text, values), np.exp2(values.astype(np.float64))
    ulp = np.spacing(wanted.astype(np.float32)).astype(np.float64)
    assert (np.abs(found - wanted) / ulp).max() <= 2
    assert (found[values == np.floor(values)] == np.exp2(values[values == np.floor(values)])).all()


@pytest.mark.parametrize("target", TARGETS)
def test_ends_are_those_of_the_flushing_instruction(target: str) -> None:
    inf = np.inf
    ends = [-inf, -3e38, -127.5, -127, -126.5, -126, -0.0, 0, 1e-40, 127.99999, 128, 129, 3e38, inf]
    values = np.full(SIZE, np.nan, np.float32)
    values[: len(ends)] = ends
    found, special = results(compiled(target, 8), values), results(compiled(target, 0), values)
    np.testing.assert_allclose(found[: len(ends)], special[: len(ends)], rtol=3e-7)
    zeros, whole = values[: len(ends)] < -126, values[: len(ends)] >= 128
    assert not found[: len(ends)][zeros].any() and (found[: len(ends)][whole] == inf).all()
    assert np.isnan(found[len(ends) :]).all()


@pytest.mark.parametrize("pairs", [2, 4, 6])
def test_a_share_is_computed_and_the_rest_is_not(pairs: int) -> None:
    """Elements keep their places: each is what it is where all are computed in its way."""
    values = spread()
    text = compiled("sm_100", pairs)
    found, special = results(text, values), results(compiled("sm_100", 0), values)
    polynomial = results(compiled("sm_100", 8), values)
    assert ((found == special) | (found == polynomial)).all()
    whole = compiled("sm_100", 0).count("ex2.approx")
    assert text.count("ex2.approx") == whole * (8 - pairs) // 8


def test_pairs_are_spread_evenly() -> None:
    assert lanes_on_fma(16, 2, 8) == (6, 7, 14, 15)
    assert lanes_on_fma(16, 4, 8) == (2, 3, 6, 7, 10, 11, 14, 15)
    assert lanes_on_fma(16, 8, 8) == tuple(range(16))
    assert lanes_on_fma(4, 1, 8) == ()
    assert lanes_on_fma(1, 8, 8) == ()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [(share(1), "flush_to_zero"), (f"flush_to_zero, {share(9)}", "9 pairs of 8")],
)
def test_shares_that_cannot_be_are_refused(attributes: str, message: str) -> None:
    text = in_nv_tileas("sm_100").replace("flush_to_zero", attributes)
    with pytest.raises(TileirasError, match=message):
        compile_module(text.encode(), CompileOptions(emit="ptx"), filename="k.mlir")
