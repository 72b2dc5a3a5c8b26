"""The list of passes and the registry: complete, ordered, documented."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.ir import Dialect

from tileiras.codegen.target import Feature, get_target
from tileiras.errors import InternalError, UsageError
from tileiras.ir_pass import IrPass
from tileiras.options import STAGES, CompileOptions
from tileiras.pipeline import PIPELINE, Step, select_steps
from tileiras.registry import DIALECTS, PASSES, load_pass, resolve

ROOT = Path(__file__).resolve().parent.parent
TARGET = get_target("sm_90")


@pytest.mark.parametrize("name", PASSES)
def test_registered_pass_is_a_documented_pass(name: str) -> None:
    """It has its name, a title, and says Before, After, Requires and Leaves."""
    pass_class = load_pass(name)
    assert issubclass(pass_class, IrPass)
    assert pass_class.name == name
    assert pass_class.title
    documentation = pass_class.__doc__ or ""
    for word in ("Before", "After", "Requires", "Leaves"):
        assert re.search(rf"^\s*{word}\b", documentation, re.MULTILINE), (
            f"{name} does not say {word}"
        )


@pytest.mark.parametrize("name", PASSES)
def test_registered_pass_is_in_the_documentation(name: str) -> None:
    """docs/passes.md has a row for it."""
    assert f"`{name}`" in (ROOT / "docs" / "passes.md").read_text()


def test_documentation_names_no_pass_that_does_not_exist() -> None:
    """An item of the list is a registered pass."""
    text = (ROOT / "docs" / "passes.md").read_text()
    assert re.findall(r"^- \[`([\w-]+)`\]\(passes/", text, re.MULTILINE) == list(PASSES)


@pytest.mark.parametrize("name", DIALECTS)
def test_registered_dialect_has_its_name(name: str) -> None:
    """The string leads to the dialect."""
    dialect = resolve(DIALECTS[name])
    assert isinstance(dialect, Dialect)
    assert dialect.name == name


def test_pipeline_goes_down_and_gives_reasons() -> None:
    """Stages never go back, every stage of IR is reached, every step is registered."""
    ranks = [STAGES.index(step.stage) for step in PIPELINE]
    assert ranks == sorted(ranks)
    assert {step.stage for step in PIPELINE} >= {"nv_tileaa", "nv_tileas", "llvm-dialect"}
    for step in PIPELINE:
        assert step.pass_name in PASSES
        assert step.reason


def test_unknown_pass_is_a_usage_error() -> None:
    """That lists the known ones."""
    with pytest.raises(UsageError, match="convert-cudatile-to-tileaa"):
        load_pass("no-such-pass")


def test_pass_under_a_wrong_name_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names in dumps must be those of the options."""
    first = next(iter(PASSES.values()))
    monkeypatch.setitem(PASSES, "alias", first)
    with pytest.raises(InternalError, match="alias"):
        load_pass("alias")


def names(steps: tuple[Step, ...]) -> list[str]:
    """The names of the steps' passes."""
    return [step.pass_name for step in steps]


def test_steps_stop_at_the_stage_that_is_asked_for() -> None:
    """--emit=cuda_tile runs nothing that leaves cuda_tile."""
    options = CompileOptions(emit="nv_tileas")
    chosen = select_steps(options, TARGET)
    assert chosen
    assert all(STAGES.index(step.stage) <= STAGES.index("nv_tileas") for step in chosen)
    everything = select_steps(replace(options, emit="cubin"), TARGET)
    assert names(everything)[: len(chosen)] == names(chosen)


def test_steps_start_at_the_stage_of_the_input() -> None:
    """Text of a later stage skips what came before it."""
    options = CompileOptions(emit="cubin")
    assert "convert-cudatile-to-tileaa" in names(select_steps(options, TARGET, "cuda_tile"))
    assert "convert-cudatile-to-tileaa" not in names(select_steps(options, TARGET, "nv_tileaa"))
    assert select_steps(options, TARGET, "llvm-dialect") == ()


def test_steps_are_selected_by_level_and_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step can ask for an -O level and for target features."""
    steps = (
        Step("always", "cuda_tile", "r"),
        Step("optimizes", "cuda_tile", "r", min_opt=2),
        Step("uses-tma", "cuda_tile", "r", needs=(Feature.TMA.name,)),
    )
    monkeypatch.setattr("tileiras.pipeline.PIPELINE", steps)
    high, low = CompileOptions(opt_level=3), CompileOptions(opt_level=1)
    assert names(select_steps(high, TARGET)) == ["always", "optimizes", "uses-tma"]
    assert names(select_steps(low, TARGET)) == ["always", "uses-tma"]
    assert names(select_steps(high, TARGET.without([Feature.TMA]))) == ["always", "optimizes"]
    assert names(select_steps(high, None)) == ["always", "optimizes"]
