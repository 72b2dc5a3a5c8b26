"""Layouts as attributes: readable text of them, what the conversion refuses, and planning again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from tests.kernels.attention import attention
from tests.kernels.gather import experts
from tests.kernels.gemm import gemm
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.nv_tileas.assigned import (
    ACCESS,
    ARGUMENT_LAYOUTS,
    FRAGMENTS,
    LAYOUTS,
    OPERAND_LAYOUTS,
    AccessAttr,
    FmaAttr,
    MmaSyncAttr,
    access_attribute,
)
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.plan import MMA, PLAN
from tileiras.driver import compile_module, read_source
from tileiras.errors import CompileError, SourceLocation
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.stages import print_stage

LAST = "tileas-assign-load-store-layouts"
BORDER = "convert-tileaa-to-tileas"
REST = ("tileas-assign-warp-roles", BORDER)
KERNELS: dict[str, tuple[Callable[[], bytes], str]] = {
    "gemm": (lambda: gemm(128, 256, 64), "sm_90"),
    "gemm by mma.sync": (lambda: gemm(64, 64, 64), "sm_80"),
    "attention": (lambda: attention(2), "sm_90"),
    "attention by mma.sync": (lambda: attention(2), "sm_80"),
    "causal softmax": (lambda: softmax_attention("causal", 128, 128, 128), "sm_90"),
    "gather": (lambda: experts(), "sm_90"),
}


def assigned(name: str) -> ModuleOp:
    """A kernel with layouts beside its operations."""
    source, target = KERNELS[name]
    module = read_source(source())
    for done, _ in passes(module, (), target):
        if done == LAST:
            return module
    raise AssertionError(f"there is no pass {LAST}")


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    (func,) = (op for op in module.body.ops if isinstance(op, aa.FuncOp))
    return func


def converted(module: ModuleOp, target: str = "sm_80") -> str:
    """What the conversion makes of the text of a module."""
    text, options = print_stage(module), CompileOptions(gpu_name=target)
    return compile_module(text.encode(), options, "k.mlir", pass_names=REST).output.decode()


@pytest.mark.parametrize("name", KERNELS)
def test_layouts_survive_text(name: str) -> None:
    module = assigned(name)
    text = print_stage(module)
    again = parse_text(text, "layouts.mlir")
    assert print_stage(again) == text
    assert '"nv_tileaa' not in text  # nothing falls back to generic form
    assert converted(again, KERNELS[name][1]) == converted(module, KERNELS[name][1])


def test_layouts_are_called_after_what_they_are_for() -> None:
    text = print_stage(assigned("gemm by mma.sync"))
    assert "fragments = [#operand0, #operand1, #mma0]" in text.replace("\n", "")
    assert "layout = #blocked0>, layouts = [#blocked0]" in text


@pytest.mark.parametrize("name", KERNELS)
def test_conversion_leaves_no_attributes(name: str) -> None:
    text = converted(assigned(name), KERNELS[name][1])
    assert not any(f"{word} = [" in text for word in (LAYOUTS, OPERAND_LAYOUTS, FRAGMENTS))
    assert "#nv_tileas.access" not in text and "rematerialize" not in text


def first(module: ModuleOp, name: str, kind: type[Operation] | None = None) -> Operation:
    """The first operation with an attribute of a name."""
    return next(
        op
        for op in module.walk()
        if name in op.attributes and (kind is None or isinstance(op, kind))
    )


def without(name: str) -> Callable[[ModuleOp], Operation]:
    """Takes an attribute away."""

    def change(module: ModuleOp) -> Operation:
        op = first(module, name)
        del op.attributes[name]
        return op

    return change


def with_layouts(
    name: str, change: Callable[[LayoutEncodingAttr], list[Attribute]]
) -> Callable[[ModuleOp], Operation]:
    """Replaces the layouts of the first operation that has some of a name."""

    def changed(module: ModuleOp) -> Operation:
        op = first(module, name)
        layouts = op.attributes[name]
        assert isinstance(layouts, ArrayAttr)
        op.attributes[name] = ArrayAttr(change(layouts.data[0]))
        return op

    return changed


def with_mma(mma: Attribute) -> Callable[[ModuleOp], Operation]:
    """Computes the first product otherwise."""

    def change(module: ModuleOp) -> Operation:
        op = first(module, MMA)
        op.attributes[MMA] = mma
        return op

    return change


def with_narrow_access(module: ModuleOp) -> Operation:
    """An access by the threads of one warp."""
    op = first(module, ACCESS)
    access = op.attributes[ACCESS]
    assert isinstance(access, AccessAttr)
    shape = access.layout.data.shape
    op.attributes[ACCESS] = access_attribute(1, 0, blocked(shape, (1, 0), 1, 1))
    return op


ATOM = {"atom": "m16n8k16_f32_f16", "warps_m": 2, "warps_n": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without(LAYOUTS), "has no 'layouts': tileas-assign-load-store-layouts comes first"),
        (without(OPERAND_LAYOUTS), "'dot' op has no 'operand_layouts': tileas-assign-load"),
        (without(ARGUMENT_LAYOUTS), "'for' op has no 'argument_layouts'"),
        (without(ACCESS), "has no 'access': tileas-assign-load-store-layouts comes first"),
        (without(MMA), "'dot' op has no 'mma': tileas-assign-dot-layouts comes first"),
        (with_layouts(LAYOUTS, lambda old: [old, old]), "has 2 of 'layouts', expected 1"),
        (
            with_layouts(LAYOUTS, lambda _: [MmaSyncAttr.of(**ATOM)]),
            "has among its 'layouts' what is no layout",
        ),
        (
            with_layouts(LAYOUTS, lambda _: [LayoutEncodingAttr(blocked((8,), (0,), 1, 4))]),
            "has 'layouts' and a tensor of other sizes: 8 and 64x64",
        ),
        (with_narrow_access, "has 'access' for 1 warps in a kernel of 4"),
        (
            with_mma(FmaAttr.of(lhs_batches="one", rhs_batches="all")),
            "'dot' op is to read one batch of an operand that is no broadcast",
        ),
        (
            with_mma(MmaSyncAttr.of(**ATOM, before_loop="acc")),
            "'dot' op has before_loop = acc, expected lhs, rhs or both",
        ),
    ],
)
def test_missing_and_contradicting_layouts_are_errors_at_their_operation(
    change: Callable[[ModuleOp], Operation], message: str
) -> None:
    module = assigned("gemm by mma.sync")
    changed = change(module)
    with pytest.raises(CompileError, match=message) as caught:
        converted(module)
    place = caught.value.location
    assert isinstance(place, SourceLocation)
    assert changed.name in print_stage(module).splitlines()[place.line - 1]


def test_products_come_before_what_follows_from_them() -> None:
    module = assigned("gemm by mma.sync")
    without(FRAGMENTS)(module)
    text, options = print_stage(module), CompileOptions(gpu_name="sm_80")
    with pytest.raises(CompileError, match="has no 'fragments': tileas-assign-dot-layouts"):
        compile_module(text.encode(), options, pass_names=(LAST,))


@pytest.mark.parametrize("name", ["tileas-assign-dot-layouts", LAST])
def test_plan_comes_before_layouts(name: str) -> None:
    module = assigned("gemm by mma.sync")
    del kernel_of(module).attributes[PLAN]
    text, options = print_stage(module), CompileOptions(gpu_name="sm_80")
    with pytest.raises(CompileError, match=f"is not planned: {name} comes after tileas-plan-cta"):
        compile_module(text.encode(), options, pass_names=(name,))


def test_accesses_know_their_dims() -> None:
    layout = blocked((8, 8), (1, 0), 1, 4)
    with pytest.raises(VerifyException, match="axis 2 of a tile of rank 2"):
        access_attribute(1, 2, layout)
    with pytest.raises(VerifyException, match="0 elements at once"):
        access_attribute(0, 1, layout)
