"""The benchmark of compile times: which kernels, what is summed, what the tables say."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import bench_compile as bench  # noqa: E402


def kernel(name: str, ours: float, vendor: float) -> bench.Kernel:
    """A kernel with one slow and one quick run of each compiler."""
    runs = {
        key: [bench.Run(3 * s, 2 * s, 5_000_000), bench.Run(2 * s, s, 4_000_000)]
        for key, s in (("ours", ours), ("vendor", vendor))
    }
    return bench.Kernel(name, runs, dict.fromkeys(bench.PARTS, 10.0))


def test_every_nth_kernel_of_files_and_folders(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.tileirbc").write_text("")
    (tmp_path / "other.txt").write_text("")
    alone = tmp_path / "x.bc"
    found = bench.find_kernels([tmp_path, alone], 1)
    assert [path.name for path in found] == ["a.tileirbc", "b.tileirbc", "c.tileirbc", "x.bc"]
    assert [path.name for path in bench.find_kernels([tmp_path], 2)] == ["a.tileirbc", "c.tileirbc"]


def test_process_is_measured_and_failure_is_told() -> None:
    busy = [sys.executable, "-c", "sum(range(2_000_000))"]
    run = bench.run_once(busy)
    assert run is not None and run.cpu > 0.01 and run.wall > 0.01 and run.memory > 1_000_000
    assert bench.run_once([sys.executable, "-c", "raise SystemExit(3)"]) is None


def test_ratio_is_of_the_quickest_runs() -> None:
    assert kernel("k", 0.2, 0.1).ratio("cpu") == pytest.approx(2.0)


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10)])
def test_quantiles(part: float, value: int) -> None:
    assert bench.quantile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], part) == value


def test_geometric_mean() -> None:
    assert bench.geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)


def test_kernel_that_one_compiler_rejects_is_left_out(tmp_path: Path) -> None:
    good = [sys.executable, "-c", "pass"]
    bad = [sys.executable, "-c", "raise SystemExit(1)"]
    paths = [tmp_path / "k.tileirbc"]
    assert list(bench.measure(paths, {"ours": good, "vendor": bad}, [], 1)) == []
    (found,) = bench.measure(paths, {"ours": good, "vendor": good}, [], 2)
    assert [len(runs) for runs in found.runs.values()] == [2, 2]


def test_report_has_means_and_the_worst_first() -> None:
    console = Console(file=io.StringIO(), width=160)
    kernels = [kernel("small", 0.3, 0.1), kernel("large", 0.3, 0.6)]
    bench.report(kernels, ["ours", "vendor"], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "geometric mean of ours / vendor, cpu: 1.22" in text
    assert text.index("small") < text.index("large")
    assert "ptxas 17%" in text
    assert bench.plot(kernels).count("<circle") == 2
