"""The pass `split-accumulation`: products apart from the additions of their parts, to overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from tileiras.codegen.atoms.wgmma import PARTIAL_K, PARTIAL_REGISTERS, WARPGROUP
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import erase_op, put_in_place

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.dots import PlannedDot
    from tileiras.planning.model.kernel import RolePlan

_ROUNDING = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}
_ZERO = bytes(4)
"""An f32."""


@dataclass(frozen=True)
class SplitAccumulationPass(IrPass):
    """Adds the sums of f8 products in an operation of its own, where the product then overlaps.

    Tensor cores keep few bits of a sum of f8 products, so that parts of it start from zero and are
    added by the threads. As one operation the product has to end where it is issued. As two the
    schedule may put the vector work of the next iteration between them. A sum that is scaled before
    takes one operation for both, which rounds once. Whether the product then overlaps is seen from
    the schedule of the loop, which is written down.

    Before   for { %s = dot %q, %k, 0;  %p = exp %s;  %x = mulf %o, %f;  %o2 = dot %p, %v, %x }
    After    for { %s = dot %q, %k, 0;  %p = exp %s;  %d = dot %p, %v, 0;  %o2 = fma %o, %f, %d }
    Requires nv_tileaa, with the strategies of kernels; a target with wgmma and TMA
    Leaves   products with `fast_acc`, of several parts, or of operands that are all loaded; kernels
             in which no loop would overlap, or fewer CTAs would fit an SM
    """

    name = "split-accumulation"
    title: ClassVar[str] = "Split products from additions"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or not any(map(_may_be_split, func.walk())):
                continue
            split = _split(func, target)
            if split is not None:
                put_in_place(split, func)


def _may_be_split(op: Operation) -> bool:
    """Whether it is a product whose sum is an f32, of operands of 8 bits."""
    if not isinstance(op, aa.DotOp) or op.fast_acc is not None:
        return False
    from tileiras.dialects.nv_tileaa.storage import storage_bits

    lhs = op.lhs.type
    return isinstance(lhs, TensorType) and storage_bits(lhs.element_type) == 8


def _split(func: aa.FuncOp, target: GpuTarget) -> aa.FuncOp | None:
    """A copy in which products are split, with schedules; None if it does not pay."""
    from tileiras.planning.schedule.overlap import overlap_products
    from tileiras.planning.schedule.written import write_overlaps
    from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise

    plan = strategy_of(func, target)
    if plan is None:
        return None
    chosen = {planned.dot for planned in plan.dots.values() if _has_one_part(planned, plan)}
    numbers = [number for number, op in enumerate(func.walk()) if op in chosen]
    if not numbers:
        return None
    copy = without_strategy(func)
    copies = list(copy.walk())
    for number in numbers:
        _take_apart(copies[number])
    after = would_specialise(copy, target)
    if after is None or after.shape.ctas < plan.shape.ctas:
        return None
    return copy if write_overlaps(overlap_products(copy, after, target), after.shape.ctas) else None


def _has_one_part(planned: PlannedDot, plan: RolePlan) -> bool:
    """Whether a product of a computed operand is summed up in one part, with registers for all."""
    sums = planned.rows * planned.columns // (WARPGROUP * plan.warpgroups)
    depth = shape_of(planned.dot.lhs)[-1]
    is_small = depth <= PARTIAL_K and sums <= PARTIAL_REGISTERS
    return planned.is_two_level and planned.lhs is None and is_small


def _take_apart(dot: Operation) -> None:
    """Makes a product start from zero, and adds its sum behind it."""
    block = dot.parent_block()
    if not isinstance(dot, aa.DotOp) or not isinstance(dot.result.type, TensorType) or not block:
        raise InternalError("what is split is no product", where="split-accumulation")
    type, acc = dot.result.type, dot.acc
    value = DenseAttr(TileType(type.element_type, type.get_shape()), _ZERO)
    zero = aa.ConstantOp.create(
        result_types=[type], properties={"value": value}, location=dot.location
    )
    block.insert_op_before(zero, dot)
    scaled, op_class, operands = acc.owner, aa.AddFOp, [acc]
    if isinstance(scaled, aa.MulFOp) and _is_plain(scaled):
        op_class, operands = aa.FmaOp, list(scaled.operands)
    dot.operands[dot.operands.index(acc)] = zero.result
    added = op_class.create(
        operands=[*operands, dot.result],
        result_types=[type],
        properties=dict(_ROUNDING),
        location=dot.location,
    )
    dot.result.replace_uses_with_if(added.results[0], lambda use: use.operation is not added)
    block.insert_op_after(added, dot)
    if op_class is aa.FmaOp and isinstance(scaled, aa.MulFOp):
        erase_op(scaled)


def _is_plain(op: aa.MulFOp) -> bool:
    """Whether nothing but the product reads it, and it rounds as the addition does."""
    is_rounded = op.rounding_mode == _ROUNDING["rounding_mode"] and op.flush_to_zero is None
    return is_rounded and op.result.has_one_use()
