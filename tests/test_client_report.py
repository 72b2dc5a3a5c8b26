"""benchmarks/client_report.py on small files of pytest-benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import client_report  # noqa: E402


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
    assert "| 1G-f16-load | 20.0 | 25.0 | 30.0 | 1.25 | 1.50 |" in lines
    assert "| 16K-c64 | 8.0 | - | - | - | - |" in lines
    assert lines.index("## vec_add") < lines.index("## fft")


def test_a_page_keeps_its_title_and_its_notes(files, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIntroduction.\n\n## old\n\nrow\n\n## Notes\n\nWhy.\n")
    for _ in range(2):
        client_report.main([files[0], "--page", str(page)])
    text = page.read_text()
    assert text.startswith("# Title\n\nIntroduction.\n\n## vec_add\n")
    assert text.endswith("\n\n## Notes\n\nWhy.\n")
    assert "old" not in text


def test_a_name_without_a_backend_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="names no backend"):
        client_report.main([measured(tmp_path / "a.json", **{"bench_x[1]": 1.0})])
