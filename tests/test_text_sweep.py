"""IR text can be read behind every pass: narrow lines, read back, errors with places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from filetests.ir_case import Case, produce
from sweeps.text_sweep import STAGES, check_kernel, complaints, damage, long_lines, texts

from tileiras.errors import InternalError

ROOT = Path(__file__).resolve().parent.parent
KERNELS = sorted((ROOT / "examples").glob("*.mlir"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_lines_of_examples_are_narrow(path: Path, target: str) -> None:
    """tests/sweeps/text_sweep.py asks the same of a whole corpus."""
    found = texts(path, target)
    assert list(found) == list(STAGES)
    assert {stage: long_lines(text) for stage, text in found.items()} == dict.fromkeys(STAGES, [])


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_dump_of_a_kernel_can_be_read(target: str) -> None:
    """A product; also what is said of damaged text."""
    table: Counter[str] = Counter()
    assert check_kernel(ROOT / "examples" / "matmul.mlir", target, 3, table) == []
    assert table["kernels"] == 1
    assert table["texts"] > 10
    assert table["damaged"] >= 9


def test_plans_are_narrow() -> None:
    """Attributes of functions and operations are broken, too."""
    path = ROOT / "examples" / "experts.mlir"
    text = produce(Case(path, "...,tileas-plan-cta", path.read_text(encoding="utf-8"), 1))
    assert "kernel_plan" in text
    assert long_lines(text) == []


def test_wide_lines_are_found() -> None:
    """But not those of signatures."""
    wide = "x" * 141
    assert long_lines(f"a\n{wide}\n{wide[1:]}") == [wide]
    assert long_lines(f"  nv_tileaa.func @{wide}(\n      @{wide}(%a: i32)") == []


KERNEL = """\
builtin.module {
  nv_tileaa.func @k(%arg0: i32) {
    %0 = nv_tileaa.addi %arg0, %arg0 : i32
    nv_tileaa.return
  }
}
"""
ADDITION = "nv_tileaa.addi %arg0, %arg0 : i32"
GENERIC = (
    '"nv_tileaa.addi"(%arg0, %arg0) <{overflow = #cuda_tile.overflow<none>}> : (i32, i32) -> i32'
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (KERNEL, []),
        (KERNEL.replace("%0 =", f"%{'x' * 141} ="), ["wide", "printed"]),
        (KERNEL.replace(ADDITION, GENERIC), ["generic", "printed"]),
        (KERNEL.replace("addi", "added"), ["read"]),
    ],
)
def test_what_is_wrong_with_a_text_is_found(text: str, kinds: list[str]) -> None:
    """Each kind."""
    assert [found.partition(":")[0] for found in complaints(text)] == kinds


ASSERTION = """\
cuda_tile.module @m {
  entry @k(%x: tile<i1>) {
    assert %x, "no" : tile<i1>
    return
  }
}
"""


def test_other_code_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a stage is the kernel, not one like it; messages may have other places."""
    path = tmp_path / "k.mlir"
    path.write_text(ASSERTION)
    assert check_kernel(path, "sm_90", 0, Counter()) == []
    monkeypatch.setattr("sweeps.text_sweep.makes", lambda *_: False)
    assert all(what.endswith("other PTX") for what in check_kernel(path, "sm_90", 0, Counter()))
    assert len(check_kernel(path, "sm_90", 0, Counter())) > 2


def test_other_exceptions_than_the_users_mistakes_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours, and those of a library."""
    import random

    for error, said in ((InternalError("ours"), "ours"), (KeyError("theirs"), "KeyError")):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("sweeps.text_sweep.compile_module", fails)
        assert said in damage(KERNEL, "sm_90", random.Random(0))
