"""What may stand where a pass is named, and options of passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.llvm_backend import load_llvm
from tileiras.errors import UsageError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.pass_names import (
    ELSEWHERE,
    LLVM_PASSES,
    RENAMED,
    check_dumped,
    check_pass,
    make_pass,
    split_pipeline,
)
from tileiras.registry import PASSES


@dataclass(frozen=True)
class TunedPass(IrPass):
    """A pass with options."""

    name = "tuned"
    title = "Tuned"

    num_warps: int = 4
    scheduler: str = "serial"
    is_quick: bool = False
    ratio: float = 0.5

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does nothing: only its options are looked at."""


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers the pass above."""
    monkeypatch.setitem(PASSES, "tuned", f"{__name__}:TunedPass")
    yield


@pytest.mark.parametrize(
    ("entry", "made"),
    [
        ("tuned", TunedPass()),
        ("tuned{num-warps=8}", TunedPass(num_warps=8)),
        ("tuned{num_warps=8,scheduler=modulo}", TunedPass(num_warps=8, scheduler="modulo")),
        ("tuned{is-quick ratio=0.25}", TunedPass(is_quick=True, ratio=0.25)),
        ("tuned{is-quick=false}", TunedPass()),
    ],
)
@pytest.mark.usefixtures("tuned")
def test_options_become_fields(entry: str, made: TunedPass) -> None:
    """By name, with dashes or underscores, separated by commas or spaces."""
    assert make_pass(entry) == made


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("tuned{num-warp=8}", "has no option 'num-warp'\nnote: did you mean 'num-warps'?"),
        ("tuned{zzz=1}", "its options are: num-warps, scheduler, is-quick, ratio"),
        ("canonicalize{zzz=1}", "has no option 'zzz', it has none"),
        ("tuned{num-warps=many}", "is 'many', expected a value of type int"),
        ("tuned{is-quick=2}", "is '2', expected a value of type bool"),
        ("tuned{num-warps=8}x", "expected 'tuned{option=value,...}'"),
        ("tunde", "unknown pass 'tunde'\nnote: did you mean 'tuned'?"),
    ],
)
@pytest.mark.usefixtures("tuned")
def test_mistakes_are_told(entry: str, message: str) -> None:
    """As mistakes on the command line, with the nearest name."""
    with pytest.raises(UsageError) as caught:
        make_pass(entry)
    assert message in caught.value.render()


def test_list_is_split_outside_of_braces() -> None:
    """Commas in braces separate options."""
    assert split_pipeline("a, b{x=1,y=2},c") == ("a", "b{x=1,y=2}", "c")
    for text in ("a{x=1", "a}b", "a{{x}}"):
        with pytest.raises(UsageError, match="do not match"):
            split_pipeline(text)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_names_of_others_are_answered(name: str) -> None:
    """With the pass of ours that does the work, which there is."""
    ours, _ = ELSEWHERE[name]
    assert not ours or ours in PASSES
    if name in PASSES:
        check_pass(name)
        return
    with pytest.raises(UsageError, match=f"'{ours}'" if ours else "nothing does its work"):
        check_pass(name)


def test_passes_of_llvm_can_be_dumped_but_not_run() -> None:
    """They have no place in our list."""
    check_dumped("nvptx-lower-args")
    with pytest.raises(UsageError, match="is a pass of LLVM"):
        check_pass("nvptx-lower-args")
    with pytest.raises(UsageError, match="unknown pass"):
        check_dumped("no-such-pass-anywhere")
    assert not LLVM_PASSES & PASSES.keys()


def test_nearest_needs_some_likeness() -> None:
    """A word like no other gets no guess."""
    with pytest.raises(
        UsageError, match="unknown pass 'qqqq', expected one of canonicalize"
    ) as caught:
        check_pass("qqqq")
    assert "did you mean" not in caught.value.render()


def test_llvm_runs_the_passes_of_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    """Those that its own list of passes names, analyses aside."""
    from tests.kernels.gemm import gemm
    from tileiras.driver import compile_module, with_environment
    from tileiras.options import CompileOptions

    llvm = load_llvm()
    llvm.set_option("-debug-pass=Arguments")
    try:
        options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
        compile_module(gemm(64, 64, 64), options)
    finally:
        llvm.set_option("-debug-pass=Disabled")
    ran = {word[1:] for word in capfd.readouterr().err.split() if word.startswith("-")}
    assert ran >= LLVM_PASSES


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_old_names_are_answered_with_the_new_one(name: str) -> None:
    """Which is a pass; the old one is not."""
    assert name not in PASSES
    check_pass(RENAMED[name])
    with pytest.raises(UsageError, match=f"it is called '{RENAMED[name]}'"):
        check_pass(name)
