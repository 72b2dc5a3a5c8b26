"""The pass `tileaa-expand-scaled-dot`: products with scales for which a plan has no room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.legalize_scaled_dot import (
    expanded_product,
    replace_product,
    scaled_remark,
)
from tileiras.passes.nv_tileaa.pack_operands import unpacked_operand
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import put_in_place
from tileiras.planning.kernel import plan_kernel
from tileiras.planning.mma.tcgen05_scaled import scaled_kind
from tileiras.planning.strategy import refusals_of, without_strategy, would_specialise
from tileiras.remarks import RemarkKind


@dataclass(frozen=True)
class ExpandScaledDotPass(IrPass):
    """Multiplies scales into bf16 operands where the kernel cannot be planned with tcgen05.

    Whether there is room depends on how the kernel stores, which is decided here then
    (`planning/stores.py`).

    Before   %d = dot_scaled %bytes_a by %sa, %bytes_b by %sb, %c {packed}
    After    the same; where the plan of the kernel has no room for it in tensor memory:
             %a = unpack %bytes_a; .. %d = dot (bf16(a * sa)), (bf16(b * sb)), %c
    Requires nv_tileaa that no other pass changes before the CTA is planned, with the strategies of
             kernels
    Leaves   targets with block-scaled mma.sync, which takes what tcgen05 does not
    """

    name = "tileaa-expand-scaled-dot"
    title: ClassVar[str] = "Expand products with scales that have no room"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks by the strategy of every kernel with such products who computes them."""
        target = ctx.require_target()
        if target.has(Feature.BLOCK_SCALED_MMA):
            return
        for func in [inner for inner in op.body.ops if isinstance(inner, aa.FuncOp)]:
            dots = _scaled_products(func)
            if not dots:
                continue
            roles = plan_kernel(func, target, ctx.options).roles
            if roles is not None and roles.is_in_tmem:
                for dot in dots:
                    kind = scaled_kind(dot)
                    text = f"scaled by tcgen05.mma.kind::{kind.name if kind is not None else ''}"
                    ctx.remarks.add(scaled_remark(func, dot, RemarkKind.PASSED, text))
                continue
            why = refusals_of(func).get("tcgen05", "the kernel has no warp roles")
            for dot in dots:
                text = f"scales are multiplied in bf16: {why}"
                ctx.remarks.add(scaled_remark(func, dot, RemarkKind.MISSED, text))
            expanded = without_strategy(func)
            for dot in _scaled_products(expanded):
                _expand(dot)
            if ctx.options.opt_level > 0:
                would_specialise(expanded, target)
            put_in_place(expanded, func)


def _scaled_products(func: aa.FuncOp) -> list[aa.DotScaledOp]:
    """The products with scales, in order."""
    return [op for op in func.walk() if isinstance(op, aa.DotScaledOp)]


def _expand(dot: aa.DotScaledOp) -> None:
    """Puts a product of bf16 operands in the place of one."""
    builder = ScalarBuilder()
    builder.location = dot.location
    lhs, rhs = dot.lhs, dot.rhs
    if dot.packed is not None:
        rank = len(shape_of(lhs))
        lhs = unpacked_operand(builder, lhs, rank - 1)
        rhs = unpacked_operand(builder, rhs, rank - 2)
    replace_product(builder, dot, expanded_product(builder, dot, lhs, rhs))
