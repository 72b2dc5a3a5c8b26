"""Our kernels in the PTX machine for targets that are not at hand, and that the table can fail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.machine_page import page
from tests.kernels.machine_table import (
    ROWS,
    TARGETS,
    Launch,
    Result,
    Row,
    applies,
    run_row,
    unit_of,
)
from tileiras.codegen.target import get_target

ROOT = Path(__file__).resolve().parents[3]
QUICK = [row for row in ROWS if row.quick]
SCALED = next(row for row in QUICK if row.family == "block-scaled")


@pytest.mark.parametrize("target", ["sm_100", "sm_120"])
@pytest.mark.parametrize("row", QUICK, ids=lambda row: f"{row.family}-{row.name}".replace(" ", "_"))
def test_kernel_computes_what_float64_does(row: Row, target: str) -> None:
    result = run_row(row, target)
    assert (result.kind, result.detail) == ("right", "")


def test_every_family_has_a_quick_row() -> None:
    assert {row.family for row in ROWS} == {row.family for row in QUICK}
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_rows_apply_where_their_types_exist() -> None:
    assert all(applies(SCALED, target) for target in TARGETS)
    assert not applies(SCALED, "sm_90")
    assert get_target("sm_90").name not in TARGETS


def test_wrong_results_and_refusals_are_told_apart() -> None:
    """An operand changed behind the table's back; a type that the target lacks."""

    def changed() -> Launch:
        launch = QUICK[0].make()
        launch.arguments[0][:] = 0
        return launch

    assert run_row(replace(QUICK[0], make=changed), "sm_120").kind == "wrong"
    assert run_row(SCALED, "sm_90").kind == "refused"


def test_units_are_read_off_the_ptx() -> None:
    assert unit_of("mma.sync.aligned.m16n8k16.row.col.f32\ncp.async.cg.shared") == (
        "mma.sync and cp.async"
    )
    scaled = "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32"
    assert unit_of(f"{scaled}\ncp.async.bulk.tensor.2d") == "mma.sync, block scales and TMA"
    assert unit_of("tcgen05.mma.cta_group::1.kind::f16 [%r1]") == "tcgen05"
    assert unit_of("tcgen05.mma.cta_group::1.kind::mxf4.block_scale") == "tcgen05, block scales"
    assert unit_of("add.f32 %f1, %f2, %f3;") == "fma"


def test_page_says_what_was_not_right() -> None:
    results = {"sm_100": Result("right", "tcgen05"), "sm_120": Result("wrong", "mma.sync", "x")}
    text = page({("GEMM", "k"): results}, ["sm_100", "sm_110", "sm_120"])
    assert "## GEMM\n\n- k: tcgen05 (sm_100); - (sm_110); **wrong** (sm_120)\n" in text
    assert text.endswith("1 of 2 right.\n")


def test_script_exits_with_1_where_nothing_ran() -> None:
    script = [sys.executable, str(ROOT / "tests/sweeps/machine_table.py")]
    none = subprocess.run([*script, "--rows", "no such row"], capture_output=True, text=True)
    assert (none.returncode, none.stdout) == (1, "0 of 0 right\n")
