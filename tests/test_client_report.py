"""benchmarks/client_report.py on small files of pytest-benchmark, and where they come from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import client_report  # noqa: E402
import client_turns  # noqa: E402


def measured(path: Path, **microseconds: float) -> str:
    """A file with medians by name."""
    records = [
        {"name": name, "stats": {"median": time / 1e6}} for name, time in microseconds.items()
    ]
    path.write_text(json.dumps({"benchmarks": records}))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Ours with the library, and the vendor's."""
    ours = {
        "bench_vec_add[1G-f16-cutile-load]": 20.0,
        "bench_vec_add[1G-f16-torch-load]": 30.0,
        "bench_fft[16K-c64-cutile]": 8.0,
    }
    vendor = {"bench_vec_add[1G-f16-cutile-load]": 25.0}
    return (
        measured(tmp_path / "ours.json", **ours),
        measured(tmp_path / "vendor.json", **vendor),
    )


def test_times_stand_side_by_side(files, capsys):
    assert client_report.main([files[0], "--vendor", files[1]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| 1G-f16-load | 20.0 | 25.0 | 30.0 | 1545.0 | 1.25 | 1.50 |" in lines
    assert "| 16K-c64 | 8.0 | - | - | 4.5 | - | - |" in lines
    assert lines.index("## vec_add") < lines.index("## fft")


def test_a_page_keeps_its_title_and_its_notes(files, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIntroduction.\n\n## old\n\nrow\n\n## Notes\n\nWhy.\n")
    for _ in range(2):
        client_report.main([files[0], "--page", str(page)])
    text = page.read_text()
    assert text.startswith("# Title\n\nIntroduction.\n\n## Geometric means\n")
    assert text.count("## Geometric means") == text.count("## vec_add") == 1
    assert text.endswith("\n\n## Notes\n\nWhy.\n")
    assert "old" not in text


def test_tables_that_were_not_measured_stay(files, tmp_path):
    """And so do times of a compiler that was not run again."""
    page = tmp_path / "page.md"
    client_report.main([files[0], "--vendor", files[1], "--page", str(page)])
    faster = measured(tmp_path / "new.json", **{"bench_vec_add[1G-f16-cutile-load]": 10.0})
    client_report.main([faster, "--page", str(page)])
    lines = page.read_text().splitlines()
    assert "| 1G-f16-load | 10.0 | 25.0 | 30.0 | 1545.0 | 2.50 | 3.00 |" in lines
    assert "| 16K-c64 | 8.0 | - | - | 4.5 | - | - |" in lines


def test_means_of_benchmarks_of_files_and_of_rows(tmp_path):
    ours = {
        "bench_matmul[1K-1K-1K-f16-cutile]": 10.0,
        "bench_matmul[8K-8K-8K-f16-cutile]": 2000.0,
        "bench_batch_matmul[2-1K-1K-1K-f8e5m2-cutile]": 10.0,
        "bench_vec_add[1G-f16-cutile-load]": 2000.0,
    }
    vendor = {
        "bench_matmul[1K-1K-1K-f16-cutile]": 40.0,
        "bench_matmul[8K-8K-8K-f16-cutile]": 2000.0,
        "bench_batch_matmul[2-1K-1K-1K-f8e5m2-cutile]": 160.0,
        "bench_vec_add[1G-f16-cutile-load]": 2000.0,
    }
    found = client_report.measured(
        client_report.read_medians(Path(measured(tmp_path / "a.json", **ours))),
        client_report.read_medians(Path(measured(tmp_path / "b.json", **vendor))),
    )
    lines = client_report.means(found)
    assert "| matmul | 2 | 2.00 | - | 3.59 | - |" in lines  # 10 us of 4.5, 2000 of 1378
    assert lines[-3].startswith("| **over benchmarks** | 4 | 3.17 |")  # 2, 16, 1
    assert lines[-2].startswith("| **over files** | 4 | 2.00 |")  # 4, 1, 16 of one file; 1
    assert lines[-1].startswith("| **over rows** | 4 | 2.83 |")


@pytest.mark.parametrize(
    ("kind", "work", "microseconds"),
    [
        ("matmul", "8K-8K-8K-f32", 2 * 8192**3 / 399e6),
        ("batch_matmul", "4-8K-8K-2000-f8e4m3fn", 8 * 8192 * 8192 * 2000 / 1596e6),
        ("rms_norm", "64K-1K-f16-persistent", 4 * 65536 * 1024 / 4.17e6),
        ("layer_norm", "64K-16K-bf16-backward", 6 * 65536 * 16384 / 4.17e6),
        ("fmha", "prefill-1-32-8-8K-8K-128-bf16", 2 * 32 * 8192 * 8192 * 128 / 798e6),
        ("fmha", "decode-8-32-8-1-1K-128-f16", 4 * 8 * (32 + 8 * 1024) * 128 / 4.17e6),
        ("transpose", "1K-1K-f16", 4.5),
    ],
)
def test_floors(kind, work, microseconds):
    assert client_report.floor_us(kind, work) == pytest.approx(microseconds)


def test_results_are_added_to_a_file(tmp_path):
    """By one process after the other; what a run is cut off in leaves the file whole."""
    path = tmp_path / "ours.json"
    for name in ("a", "b"):
        client_turns.add_results(path, [{"name": name, "stats": {"median": 1.0}}])
    client_turns.add_results(path, [])
    names = [record["name"] for record in json.loads(path.read_text())["benchmarks"]]
    assert names == ["a", "b"]


def test_a_name_without_a_backend_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="names no backend"):
        client_report.main([measured(tmp_path / "a.json", **{"bench_x[1]": 1.0})])
