"""Strategies on kernels: one that stands is true after every pass; who may ask, and who must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.biased_gemm import biased_gemm
from tests.kernels.gemm import gemm
from tests.kernels.pass_runs import passes_between
from tests.kernels.planned import ALIKE, SPECIALISED, kernel_of, product, ready
from tests.kernels.scaled_products import ScaledGemm
from tests.kernels.scaled_products import gemm as scaled_gemm
from tests.kernels.unchanged import Changes
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import NAMES, STRATEGY, StrategyAttr
from tileiras.driver import compile_module, read_source
from tileiras.errors import CompileError, InternalError
from tileiras.ir_pass import CompileContext
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.planning.mma.strategy import PIPELINED
from tileiras.planning.stores import are_stores_decided, plan_with_stores
from tileiras.planning.strategy import (
    choose_strategy,
    drop_strategy,
    refusals_of,
    strategy_of,
    without_strategy,
    would_specialise,
)
from tileiras.registry import load_pass
from tileiras.stages import print_stage

TARGET = get_target("sm_90")
OPTIONS = CompileOptions(gpu_name="sm_90")
KERNELS = {
    **SPECIALISED,
    **ALIKE,
    "long steps of K": lambda: gemm(128, 256, 256),
    "large epilogue": lambda: biased_gemm(128, 256, 64),
    "wide product": lambda: gemm(64, 512, 64),
    "critical section": lambda: product("f16", (64, 64, 64), form="split"),
}
MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
SIZES = (128, 256, 512)
SCALED = {
    "scales": lambda: scaled_gemm(ScaledGemm(*MX8, (128, 256, 256), SIZES)).encode(),
    "scales without room": lambda: scaled_gemm(ScaledGemm(*MX8, (32, 64, 64), SIZES)).encode(),
}
TARGETS = ("sm_90", "sm_100", "sm_120")
CASES = [(name, gpu_name) for name in KERNELS for gpu_name in TARGETS]
CASES += [(name, gpu_name) for name in SCALED for gpu_name in ("sm_100", "sm_120")]
READERS = (
    "split-k",
    "tiles-per-cta",
    "tileas-dynamic-persistent",
    "form-clusters",
    "join-iterations",
    "tileas-generate-schedule",
    "tileas-plan-cta",
)


def standing(source: bytes, gpu_name: str) -> Iterator[tuple[str, aa.FuncOp]]:
    """The kernel after every pass that changes it and leaves a strategy, with the pass's name."""
    target, options = get_target(gpu_name), CompileOptions(gpu_name=gpu_name)
    context, module = CompileContext(target=target, options=options), read_source(source)
    changes = Changes(module)
    for step in select_steps(options, target):
        if step.pass_name == "tileas-plan-cta":
            return
        load_pass(step.pass_name)().apply(context, module)
        if not changes.any():
            continue
        for func in module.body.ops:
            if isinstance(func, aa.FuncOp) and STRATEGY in func.attributes:
                yield step.pass_name, func


def printed(func: aa.FuncOp) -> str:
    """The text of a kernel alone, attributes by their names."""
    copy = func.clone()
    for op in copy.walk():
        op.attributes = dict(sorted(op.attributes.items()))
    return print_stage(ModuleOp([copy]))


@pytest.mark.parametrize(("name", "gpu_name"), CASES)
def test_a_strategy_that_stands_is_true(name: str, gpu_name: str) -> None:
    """After every pass that changes something: choosing again chooses the same."""
    seen: list[str] = []
    for after, func in standing((KERNELS | SCALED)[name](), gpu_name):
        again, target = without_strategy(func), get_target(gpu_name)
        choose_strategy(again, target)
        if are_stores_decided(func):
            plan_with_stores(again, target, CompileOptions(gpu_name=gpu_name))
        assert printed(again) == printed(func), after
        seen.append(after)
    assert seen


def run(text: str, *names: str, gpu_name: str = "sm_90") -> str:
    """What some passes make of a text."""
    options = CompileOptions(gpu_name=gpu_name)
    return compile_module(text.encode(), options, "k.mlir", pass_names=names).output.decode()


@pytest.mark.parametrize("name", READERS)
def test_passes_that_decide_by_it_want_a_strategy(name: str) -> None:
    # Tile blocks are taken over where there is clusterlaunchcontrol.
    gpu_name = "sm_100" if name == "tileas-dynamic-persistent" else "sm_90"
    before = passes_between("canonicalize", name)[:-1]
    names = [other for other in before if other not in ("choose-strategy", *READERS)]
    text = run(KERNELS["two tiles in rounds"]().decode(), *names)
    with pytest.raises(CompileError, match="has no strategy: choose-strategy comes first") as error:
        run(text, name, gpu_name=gpu_name)
    assert error.value.location is not None
    assert run(text, "choose-strategy", name, gpu_name=gpu_name)


@pytest.mark.parametrize("name", ("split-k", "tileas-generate-schedule", "tileas-plan-cta"))
def test_nobody_wants_one_where_nothing_is_multiplied_or_copied_by_tma(name: str) -> None:
    text = print_stage(ready(KERNELS["gemm"]()))
    assert STRATEGY not in run(text, "choose-strategy", name, gpu_name="sm_80")
    empty = "builtin.module { nv_tileaa.func @f() { nv_tileaa.return } }"
    assert STRATEGY not in run(empty, "choose-strategy", name)


def test_a_kernel_of_a_module_is_not_asked_what_it_would_be() -> None:
    module = ready(KERNELS["gemm"]())
    func = kernel_of(module)
    with pytest.raises(InternalError, match="a strategy was asked for that stands on the kernel"):
        would_specialise(func, TARGET)
    copy = without_strategy(func)
    plan = would_specialise(copy, TARGET)
    assert plan is not None and plan == strategy_of(copy, TARGET)
    assert STRATEGY not in func.attributes


def test_strategy_is_taken_away_with_all_that_belongs_to_it() -> None:
    module = ready(KERNELS["gemm"]())
    func, before = kernel_of(module), print_stage(module)
    assert choose_strategy(func, TARGET) is not None
    assert {name for op in func.walk() for name in op.attributes} > {STRATEGY, "plan", "mma"}
    copy = without_strategy(func)
    drop_strategy(func)
    assert print_stage(module) == before
    assert not any(name in op.attributes for op in copy.walk() for name in (STRATEGY, *NAMES))


def test_reasons_are_written_and_read() -> None:
    _, func = next(standing(KERNELS["small gemm"](), "sm_90"))
    assert strategy_of(func, TARGET) is None
    reasons = refusals_of(func)
    assert list(reasons) == ["wgmma"] and " " in reasons["wgmma"]
    assert refusals_of(kernel_of(parse_text(printed(func), "k.mlir"))) == reasons
    drop_strategy(func)
    assert refusals_of(func) == {}


def test_every_strategy_may_be_refused_by_its_name() -> None:
    assert tuple(strategy.name for strategy in PIPELINED) == StrategyAttr.optional


def test_a_strategy_in_text_is_chosen_again_for_the_target_of_the_run() -> None:
    module = ready(KERNELS["gemm"]())
    plain = print_stage(module)
    choose_strategy(kernel_of(module), TARGET)
    options = CompileOptions(gpu_name="sm_120", emit="ptx")
    ptx = [compile_module(text.encode(), options).output for text in (plain, print_stage(module))]
    assert ptx[0] == ptx[1] and b"wgmma" not in ptx[0]
