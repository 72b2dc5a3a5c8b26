"""Nobody plans twice: what has been decided of a program stands on it, and is read.

A copy that is planned takes the kernel's place, with the answer on it, or it was of a change that
is not made. So no program is planned twice in a compilation: one that is means that an answer was
thrown away, or that somebody did not look for it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.bytecode.files import CORPUS, needs_corpus
from tests.kernels.attention import attention_gradient
from tests.kernels.biased_gemm import biased_gemm
from tests.kernels.gemm import gemm, persistent, with_ctas
from tests.kernels.planned import ALIKE, SPECIALISED, product
from tests.kernels.scaled_products import ScaledGemm
from tests.kernels.scaled_products import gemm as scaled_gemm
from tests.kernels.shared_operands import shared_operands
from tests.kernels.softmax_attention import softmax_attention
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa.plan_cta import PlanCtaPass
from tileiras.planning.strategy import drop_strategy
from tileiras.stages import print_stage

DECISIONS = (
    "planning.warp_roles.plan.plan_roles",
    "planning.schedule.overlap.overlap_products",
    "planning.schedule.prefetch.plan_prefetch",
    "planning.operands.tma_stores.tma_stores",
    "planning.warp_roles.store_warp.with_store_warp",
)
"""What decides something of a whole kernel, which is the first argument."""
TARGETS = ("sm_90", "sm_100", "sm_120")
KERNELS: dict[str, Callable[[], bytes]] = {
    **SPECIALISED,
    **ALIKE,
    "attention of more rows than registers hold": lambda: softmax_attention("full", 256, 128, 128),
    "attention of f8": lambda: softmax_attention("full", 128, 64, 64, element="f8E4M3FN"),
    "attention of few rows": lambda: softmax_attention("full", 64, 64, 64),
    "gradient of attention": lambda: with_ctas(attention_gradient(), 1),
    "long steps of K": lambda: gemm(128, 256, 256),
    "large epilogue": lambda: biased_gemm(128, 256, 64),
    "wide product": lambda: gemm(64, 512, 64),
    "wide product of long steps of K": lambda: gemm(64, 512, 512),
    "tile of two CTAs": lambda: with_ctas(gemm(256, 256, 64), 2),
    "persistent and wide": lambda: persistent(128, 256, 64),
    "critical section": lambda: product("f16", (64, 64, 64), form="split"),
    "sums that go on": lambda: shared_operands("one goes on").encode(),
}
MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
SIZES = (128, 256, 512)
SCALED: dict[str, Callable[[], bytes]] = {
    "scales": lambda: scaled_gemm(ScaledGemm(*MX8, (128, 256, 256), SIZES)).encode(),
    "scales without room": lambda: scaled_gemm(ScaledGemm(*MX8, (32, 64, 64), SIZES)).encode(),
}
CASES = [(name, gpu_name) for name in KERNELS for gpu_name in TARGETS]
CASES += [(name, gpu_name) for name in SCALED for gpu_name in ("sm_100", "sm_120")]
FILES = [
    path
    for path in sorted(CORPUS.glob("*.tileirbc"))
    if any(word in path.name for word in ("matmul", "fmha", "moe", "gemm", "mma", "softmax"))
]


@dataclass
class Asked:
    """The programs that decisions were asked of, in order."""

    programs: dict[str, list[str]] = field(default_factory=dict)

    @property
    def twice(self) -> dict[str, int]:
        """Decision -> programs that it was asked of more than once."""
        counts = {name: Counter(texts).values() for name, texts in self.programs.items()}
        return {name: n for name, c in counts.items() if (n := sum(count > 1 for count in c))}


def program_of(func: aa.FuncOp) -> str:
    """The text of a kernel without what has been decided of it."""
    copy = func.clone()
    drop_strategy(copy)
    for op in copy.walk():
        op.attributes = dict(sorted(op.attributes.items()))
    return print_stage(ModuleOp([copy]))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Takes down who is planned from here on."""
    found = Asked()

    def watched(path: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def watching(func: aa.FuncOp, *args: Any, **named: Any) -> Any:
            found.programs.setdefault(path, []).append(program_of(func))
            return original(func, *args, **named)

        return watching

    for path in DECISIONS:
        module, _, name = f"tileiras.{path}".rpartition(".")
        original = getattr(import_module(module), name)
        watching = watched(path, original)
        for known in list(sys.modules.values()):
            if getattr(known, name, None) is original:
                monkeypatch.setattr(known, name, watching)
    return found


def compile_for(source: bytes, gpu_name: str) -> None:
    """As far as anything is planned."""
    compile_module(source, CompileOptions(gpu_name=gpu_name, emit="nv_tileas"))


@pytest.mark.parametrize(("name", "gpu_name"), CASES)
def test_nothing_is_decided_twice(name: str, gpu_name: str, asked: Asked) -> None:
    compile_for((KERNELS | SCALED)[name](), gpu_name)
    assert not asked.twice


@needs_corpus
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_decided_twice_of_files(path: Any, asked: Asked) -> None:
    for gpu_name in TARGETS:
        compile_for(path.read_bytes(), gpu_name)
        assert not asked.twice, gpu_name
        asked.programs.clear()


def test_decisions_are_asked_for(asked: Asked) -> None:
    """Each of the list by some kernel: names are those of today."""
    for name in ("causal softmax", "stores by a warp", "small gemm", "two tiles of the grid"):
        compile_for(KERNELS[name](), "sm_90")
    assert set(asked.programs) == set(DECISIONS)


def test_who_plans_on_a_copy_and_drops_it_is_found(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that asks again of what stands."""
    from tileiras.planning.strategy import without_strategy, would_specialise

    original = PlanCtaPass.apply

    def forgetful(self: PlanCtaPass, ctx: CompileContext, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                would_specialise(without_strategy(func), ctx.require_target())
        original(self, ctx, op)

    monkeypatch.setattr(PlanCtaPass, "apply", forgetful)
    compile_for(KERNELS["gemm"](), "sm_90")
    assert asked.twice == {DECISIONS[0]: 1}
