"""`tileiras-tune` and `tileiras-bench` on a GPU: kernels that misbehave, times that repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cuda.tile")

from tileiras.bench.command import run as bench  # noqa: E402
from tileiras.tune.command import run as tune  # noqa: E402

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]


def tuned(path: Path, folder: Path, *more: str) -> dict[str, Any]:
    """What a tuning of a file found."""
    table, numbers = folder / "out.txt", folder / "out.json"
    words = [str(path), "--cache=", "-q", f"--output-file={table}", f"--json={numbers}", *more]
    assert tune(words) == 0
    return json.loads(numbers.read_text())


def test_kernels_that_misbehave_cost_themselves_only(tmp_path: Path) -> None:
    """One hangs, one breaks the context, one is wrong; the first is right."""
    found = tuned(ROOT / "tests/gpu/tuning/misbehaving.py", tmp_path, "--timeout=4")
    kinds = {one["point"]["way"]: one["failure"] for one in found["results"]}
    assert kinds == {0: "", 1: "hang", 2: "error", 3: "wrong"}
    assert found["best"] == {**found["results"][0]["point"], "way": 0} and found["gain"] == 1.0


def test_best_of_a_tuning_is_no_slower_than_the_defaults(tmp_path: Path) -> None:
    found = tuned(ROOT / "examples/tuning/rms_norm.py", tmp_path, "--most=8")
    assert found["gain"] >= 1.0 and len(found["results"]) == 8
    if found["gain"] == 1.0:
        assert found["best"] == found["results"][0]["point"]


def test_same_kernel_takes_the_same_time(tmp_path: Path) -> None:
    """Compared with itself; of 192 MiB that do not stay in the cache."""
    source, numbers = str(ROOT / "examples/vector_add.mlir"), tmp_path / "k.json"
    words = [source, "--grid=16384", "--shape=16777216,16777216,16777216,16777216"]
    assert bench([*words, "--against", source, f"--json={numbers}"]) == 0
    found = json.loads(numbers.read_text())
    assert found["against"]["agrees"] and 0.98 < found["against"]["speedup"] < 1.02
    assert found["spread"] < 0.03
