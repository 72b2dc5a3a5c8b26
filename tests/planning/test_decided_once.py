"""Nobody plans twice: what has been decided of a program stands on it, and is read.

No program is planned twice in a compilation: one that is means that an answer was thrown away, or
that somebody did not look for it. And a copy that a pass has planned takes the kernel's place, with
the answer on it: facts have said before that the change pays.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tests.bytecode.files import CORPUS, needs_corpus
from tests.kernels.attention import attention_gradient
from tests.kernels.biased_gemm import biased_gemm
from tests.kernels.gemm import gemm, persistent, with_ctas
from tests.kernels.planned import ALIKE, SPECIALISED, product
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.scaled_products import ScaledGemm
from tests.kernels.scaled_products import gemm as scaled_gemm
from tests.kernels.shared_operands import shared_operands
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa import plan_cta
from tileiras.passes.nv_tileaa.plan_cta import PlanCtaPass
from tileiras.pipeline import PIPELINE
from tileiras.planning.strategy import drop_strategy
from tileiras.planning.warp_roles import plan
from tileiras.registry import load_pass
from tileiras.stages import print_stage

DECISIONS = (
    "planning.warp_roles.plan.plan_roles",
    "planning.schedule.overlap.overlap_products",
    "planning.schedule.prefetch.plan_prefetch",
    "planning.operands.tma_stores.tma_stores",
    "planning.warp_roles.store_warp.with_store_warp",
)
"""What decides something of a whole kernel, which is the first argument."""
MAY_GIVE_UP = {
    "split-accumulation": "a schedule needs the plan of products that are apart (decision 0054)",
    "tileas-expand-schedule": "the CTAs that share an SM are those of the expanded loop (0054)",
}
"""Passes that may plan a copy and leave the kernel as it was."""
TARGETS = ("sm_90", "sm_100", "sm_120")
TILES = [
    replace(ProductKernel("f16", tile, result=result), form=form, is_aligned=is_aligned)
    for tile in ((64, 64, 64), (64, 256, 64), (128, 128, 64), (128, 256, 64))
    for form, result, is_aligned in (
        ("numbered", "f16", True),
        ("plain", "f32", True),
        ("plain", "f16", False),
        ("persistent", "f16", True),
    )
]
"""Kernels whose tile blocks may compute two tiles, be a cluster, or go through the grid."""
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
    **{kernel.name: lambda kernel=kernel: aligned_result(kernel).encode() for kernel in TILES},
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


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that plan copies and drop them, from here on.

    Not those that a copy was made of which took the kernel's place: their plan was read.
    """
    copies: list[aa.FuncOp] = []
    sources: dict[Operation, Operation] = {}
    found: list[str] = []
    plan_roles, clone = plan.plan_roles, aa.FuncOp.clone

    def cloning(self: aa.FuncOp, *args: Any, **named: Any) -> aa.FuncOp:
        copy = clone(self, *args, **named)
        sources[copy] = self
        return copy

    def led_to(copy: Operation, placed: Operation) -> bool:
        return copy is placed or (placed in sources and led_to(copy, sources[placed]))

    def planning(func: aa.FuncOp, target: GpuTarget) -> plan.Choice:
        if func.parent_block() is None:
            copies.append(func)
        return plan_roles(func, target)

    def watched(pass_class: type[IrPass]) -> Callable[[IrPass, CompileContext, ModuleOp], None]:
        apply = pass_class.apply

        def watching(self: IrPass, ctx: CompileContext, op: ModuleOp) -> None:
            copies.clear()
            apply(self, ctx, op)
            placed = list(op.body.ops)
            dropped = (c for c in copies if not any(led_to(c, func) for func in placed))
            found.extend(self.name for _ in dropped)

        return watching

    monkeypatch.setattr(plan, "plan_roles", planning)
    monkeypatch.setattr(aa.FuncOp, "clone", cloning)
    for name in dict.fromkeys(step.pass_name for step in PIPELINE):
        pass_class = load_pass(name)
        monkeypatch.setattr(pass_class, "apply", watched(pass_class))
    return found


def compile_for(source: bytes, gpu_name: str) -> None:
    """As far as anything is planned."""
    compile_module(source, CompileOptions(gpu_name=gpu_name, emit="nv_tileas"))


@pytest.mark.parametrize(("name", "gpu_name"), CASES)
def test_nothing_is_decided_twice(
    name: str, gpu_name: str, asked: Asked, dropped: list[str]
) -> None:
    compile_for((KERNELS | SCALED)[name](), gpu_name)
    assert not asked.twice
    assert set(dropped) <= MAY_GIVE_UP.keys()


@needs_corpus
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_decided_twice_of_files(path: Any, asked: Asked, dropped: list[str]) -> None:
    for gpu_name in TARGETS:
        compile_for(path.read_bytes(), gpu_name)
        assert not asked.twice, gpu_name
        assert set(dropped) <= MAY_GIVE_UP.keys(), gpu_name
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


def test_who_plans_copies_to_see_what_works_is_found(
    dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that tries, and leaves the kernel as it is."""
    from tileiras.planning.strategy import without_strategy, would_specialise

    original = plan_cta.plan_kernel

    def curious(func: aa.FuncOp, target: GpuTarget, *others: Any) -> Any:
        would_specialise(without_strategy(func), target)
        return original(func, target, *others)

    monkeypatch.setattr(plan_cta, "plan_kernel", curious)
    compile_for(KERNELS["gemm"](), "sm_90")
    assert dropped == [PlanCtaPass.name]
