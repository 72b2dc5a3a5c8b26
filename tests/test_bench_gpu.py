"""The GPU benchmark's own machinery: figures, pages, and going on after a kernel that hangs."""

from __future__ import annotations

import json
import re
import sys
import time
import xml.dom.minidom
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "benchmarks" / "gpu"
MODULES = ("catalogue", "goals", "report", "run")

WORKER = """
import json, os, sys
def say(**message): print(json.dumps(message), flush=True)
say(device="a GPU", copy=1e12)
for index, skip in json.loads(sys.argv[2]):
    say(begin=index, step="setup")
    for tool in ("ours", "vendor"):
        if tool in skip: continue
        say(begin=index, step=tool)
        if (index, tool) == (1, "ours"): os._exit(41)
        if (index, tool) == (1, "vendor"): say(broken="bad access"); os._exit(42)
    if index == 2: raise ValueError("no memory")
    tools = {tool: {"us": 10.0, "wrong": 0} for tool in ("ours", "library")}
    say(done=index, result={"tools": tools if index != 1 else {}})
"""


def entry(name: str, **ours: object) -> dict[str, object]:
    """An entry of a manifest."""
    made = {"registers": 64, "spills": 0, "specialised": True, "advisories": []} | ours
    facts = {"group": "GEMM", "flops": 10**9, "bytes": 10**6, "rate": "f16"}
    return {"name": name, "ours": made} | facts


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The benchmark's modules, which are scripts beside each other."""
    monkeypatch.syspath_prepend(str(DIRECTORY))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = {name: __import__(name) for name in MODULES}
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name)
    return modules


def test_entries_have_names_of_their_own_and_grids_within_limits(bench):
    entries = bench["catalogue"].entries()
    assert len({entry.name for entry in entries}) == len(entries)
    for item in entries:
        arrays = [argument for argument in item.arguments if hasattr(argument, "fill")]
        outputs = [array for array in arrays if array.fill in ("output", "sum")]
        assert len({(array.dtype, array.shape, array.fill) for array in outputs}) == 1
        assert all(max(array.strides) < 2**31 for array in arrays)
        assert item.grid[1] <= 65535 and item.grid[2] <= 65535


def test_strides_follow_the_order_of_dims(bench):
    array = bench["catalogue"].Array("int8", (8, 16, 32), order=(0, 2, 1))
    assert array.strides == (512, 1, 16)


def test_experts_share_all_stages(bench):
    catalogue = bench["catalogue"]
    assert sum(catalogue.expert_counts()) == catalogue.MOE_TOKENS * catalogue.MOE_CHOSEN


def test_goes_on_after_kernels_that_end_the_worker(bench, tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    run = bench["run"]
    monkeypatch.setattr(run, "WORKER", worker)
    entries = [entry(name) for name in ("good", "bad", "large", "last")]
    output = tmp_path / "out.json"
    session = run.Session(
        tmp_path / "manifest.json", entries, output, "ours", time.monotonic() + 60, [0, 1, 2, 3]
    )
    while session.todo:
        session.run_worker()
    good, bad, large, last = session.outcome()["rows"]
    assert good["faults"] == [] and last["faults"] == []
    assert good["of_library"] == pytest.approx(1.0)
    assert bad["faults"] == ["hangs"]
    assert bad["tools"]["vendor"]["error"] == "breaks the context: bad access"
    assert "ValueError" in large["tools"]["vendor"]["error"]
    assert json.loads(output.read_text())["machine"]["device"] == "a GPU"


@pytest.mark.parametrize(
    ("ours", "result", "fault"),
    [
        ({"spills": 8}, {}, "8 bytes spilled"),
        ({"error": "no"}, {}, "does not compile"),
        ({"advisories": ["(C7510) wgmma"]}, {}, "products serialised"),
        ({}, {"wrong": 3}, "3 elements wrong"),
        ({}, {"error": "CUDA\nmore"}, "CUDA"),
    ],
)
def test_faults_are_what_must_not_be(bench, ours, result, fault):
    row = bench["report"].figures(entry("x", **ours), {"tools": {"ours": result}}, {})
    assert row["faults"] == [fault]


def test_floor_is_arithmetic_or_memory(bench):
    figures, result = bench["report"].figures, {"tools": {"ours": {"us": 2.0}}}
    row = figures(entry("x"), result, {"copy": 1e12})
    assert row["unit"] == "TFLOP/s"
    assert row["floor_us"] == pytest.approx(1e9 / 798e12 * 1e6)
    row = figures(entry("x") | {"bytes": 10**7}, result, {"copy": 1e12})
    assert (row["unit"], row["floor_us"]) == ("GB/s", pytest.approx(10.0))
    assert row["of_floor"] == pytest.approx(5.0)


def test_a_new_page_keeps_the_notes_of_the_old_one(bench, tmp_path):
    page = tmp_path / "performance.md"
    assert bench["report"].kept_notes(page) == ""
    page.write_text("# Performance\n\nold\n\n## Notes\n\nWhy.\n")
    assert bench["report"].kept_notes(page) == "\n## Notes\n\nWhy.\n"


def test_page_and_chart_name_every_entry(bench):
    tools = {"ours": {"us": 2.0}, "library": {"us": 1.0}}
    row = bench["report"].figures(entry("a <b>"), {"tools": tools}, {"copy": 1e12})
    outcome = {"machine": {"device": "a GPU", "copy": 1e12}, "rows": [row]}
    page = bench["report"].markdown(outcome, "chart.svg")
    assert "| a <b> | 2.0 us 500 | - | 1.0 us 1000 | 0.50 | - |" in page
    assert "chart.svg" in page
    chart = xml.dom.minidom.parseString(bench["report"].svg(outcome))
    assert "a <b>" in "".join(
        node.firstChild.nodeValue for node in chart.getElementsByTagName("text")
    )


GOALS = """
[[goal]]
names = "f16 "
library = 1.00
vendor = 1.30

[[goal]]
names = "f16 small"
library = 0.90
why = "few tile blocks"
tried = ["0018"]

[[goal]]
names = "f16 (small|large)"
library = 1.05
best = true
why = "power"
"""


def test_goals_of_an_entry_and_of_the_best_of_some(bench, tmp_path):
    goals = bench["goals"]
    path = tmp_path / "goals.toml"
    path.write_text(GOALS)
    known = goals.read_goals(path)
    asked = {measure: goal.asked for measure, goal in goals.goals_of("f16 small", known).items()}
    assert asked == {"library": 0.9, "vendor": 1.3}
    assert goals.goals_of("bf16 small", known) == {}
    rows = [
        {"name": "f16 small", "speed": {}, "of_library": 0.894, "of_vendor": 1.296},
        {"name": "f16 large", "speed": {}, "of_library": 1.02},
    ]
    found = {(one.name, one.goal.measure): one for one in goals.outcomes(rows, known)}
    assert {key: one.is_reached for key, one in found.items()} == {
        ("f16 small", "library"): False,
        ("f16 small", "vendor"): True,
        ("f16 large", "library"): True,
        ("best of 2: f16 large", "library"): False,
    }


def test_a_goal_without_a_measure_is_an_error(bench, tmp_path):
    path = tmp_path / "goals.toml"
    path.write_text('[[goal]]\nnames = "x"\n')
    with pytest.raises(ValueError, match="has no measure"):
        bench["goals"].read_goals(path)


def test_each_goal_is_of_an_entry_and_its_decisions_exist(bench):
    names = [entry.name for entry in bench["catalogue"].entries()]
    for goal in bench["goals"].read_goals():
        assert any(re.match(goal.names, name) for name in names), goal.names
        for number in goal.tried:
            assert list((ROOT / "docs" / "decisions").glob(f"{number}-*.md")), (goal.names, number)


def test_what_is_not_reached_has_a_reason_on_the_page(bench):
    page = (ROOT / "docs" / "performance.md").read_text()
    section = page[page.index("## Goals") : page.index(bench["report"].NOTES)]
    assert bench["report"].NO_REASON not in section
