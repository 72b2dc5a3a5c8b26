"""Which loops compute powers of 2 on FMA units, and how many of them."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import get_target
from tileiras.codegen.target.performance import PERFORMANCE
from tileiras.codegen.target.rates import RATES
from tileiras.driver import compile_module
from tileiras.errors import UsageError
from tileiras.options import EXP2_ON_FMA, CompileOptions
from tileiras.planning.schedule.exp2_share import MOST, LoopWork, fma_share
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind


def shares(
    target: str, source: bytes, opt_level: int = 3, **knobs: str
) -> tuple[list[int], list[str]]:
    """Eighths of the powers that FMA units compute, of each power that is shared; remarks."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = CompileOptions(gpu_name=target, emit="nv_tileas", knobs=knobs, opt_level=opt_level)
    text = compile_module(source, options, remarks=remarks).output.decode()
    found = re.findall(r"fma_share = #nv_tileaa.fma_share<pairs = (\d+), of = 8>", text)
    said = [remark.message for remark in remarks.remarks if remark.name == "PowersOnFma"]
    return [int(pairs) for pairs in found], said


@pytest.mark.parametrize(
    ("target", "tile", "eighths"),
    [
        ("sm_100", (256, 128, 64), 2),
        ("sm_100", (128, 64, 64), 2),
        ("sm_100", (256, 128, 128), 1),
        ("sm_100", (128, 128, 256), 0),
        ("sm_103", (256, 128, 64), 0),
        ("sm_110", (256, 128, 64), 1),
        ("sm_110", (128, 64, 64), 0),
        ("sm_90", (128, 128, 64), 0),
        ("sm_120", (128, 64, 64), 0),
    ],
)
def test_special_functions_are_relieved_where_they_are_the_limit(
    target: str, tile: tuple[int, int, int], eighths: int
) -> None:
    """sm_103 computes twice as many powers; sm_90 and sm_110 have no packed arithmetic."""
    found, said = shares(target, softmax_attention("full", *tile))
    assert found == [eighths] * bool(eighths)
    assert said == [f"{eighths} of 8 powers of 2 are computed on FMA units"] * bool(eighths)


def test_every_loop_of_a_kernel_is_looked_at_alone() -> None:
    """That with the mask has so much to compute for each score that it waits for no power."""
    found, said = shares("sm_100", softmax_attention("causal", 128, 64, 64))
    assert found == [2] and len(said) == 1
    found, _ = shares("sm_100", softmax_attention("causal", 128, 64, 64), **{EXP2_ON_FMA: "2"})
    assert found == [2, 2]


def test_powers_that_keep_subnormal_numbers_stay() -> None:
    source = softmax_attention("full", 128, 64, 64).replace(b" flush_to_zero", b"")
    assert shares("sm_100", source) == ([], [])


def test_nothing_is_shared_without_optimization() -> None:
    assert shares("sm_100", softmax_attention("full", 128, 64, 64), opt_level=0) == ([], [])


@pytest.mark.parametrize(("knob", "expected"), [("0", []), ("4", [4]), ("8", [8])])
def test_the_environment_says_how_many(knob: str, expected: list[int]) -> None:
    for target in ("sm_90", "sm_100"):
        found, _ = shares(target, softmax_attention("full", 128, 64, 64), **{EXP2_ON_FMA: knob})
        assert sorted(set(found)) == expected


def test_a_number_that_is_none_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="TILEIR_EXP2_ON_FMA is 'half', expected a number"):
        shares("sm_90", softmax_attention("full", 128, 64, 64), **{EXP2_ON_FMA: "half"})


def work(special: int, issued: int, tensor: int) -> LoopWork:
    """Cycles of each unit on sm_100; all powers may be shared."""
    return LoopWork((), special * 16, special * 16, Fraction(issued * 128), Fraction(tensor))


@pytest.mark.parametrize(
    ("cycles", "eighths"),
    [((800, 100, 100), MOST), ((800, 700, 100), 0), ((800, 100, 1600), 0), ((800, 300, 800), 1)],
)
def test_the_slowest_unit_decides(cycles: tuple[int, int, int], eighths: int) -> None:
    """Of special functions, issue slots and tensor cores; what has no need is not moved."""
    assert fma_share(work(*cycles), get_target("sm_100")) == eighths


def test_rates_are_those_of_the_roofline() -> None:
    for name, rates in RATES.items():
        throughput = PERFORMANCE[name].throughput
        assert throughput.special == rates.exponentials
        if name < "sm_12":
            assert 2 * throughput.multiply_adds == rates.flops_per_cycle
