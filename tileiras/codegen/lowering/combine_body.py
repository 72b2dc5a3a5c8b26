"""The body of a reduce or scan, applied to whole vectors of elements at once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.lowering.constants import element_bits
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import lanes_of, vector_type
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.errors import CompileError, InternalError


class CombineBody:
    """`apply(later, earlier)`: the body on vectors of equal length, one pair per operand."""

    def __init__(self, ctx: KernelLowering, op: aa.ReduceOp | aa.ScanOp):
        self.ctx = ctx
        self.op = op
        self.block: Block = op.body.block

    def apply(self, later: Sequence[SSAValue], earlier: Sequence[SSAValue]) -> list[SSAValue]:
        """Elements `later` along the axis combined into the accumulators of `earlier` ones."""
        pairs = [value for pair in zip(later, earlier, strict=True) for value in pair]
        values: dict[SSAValue, SSAValue] = dict(zip(self.block.args, pairs, strict=True))
        location = self.ctx.b.location
        results = self._run(self.block, values, lanes_of(pairs[0].type) or 1)
        self.ctx.b.location = location
        return results

    def _run(self, block: Block, values: dict[SSAValue, SSAValue], count: int) -> list[SSAValue]:
        """Evaluates a block on vectors of `count` lanes; what its yield names."""
        b = self.ctx.b
        for op in block.ops:
            b.location = op.location
            match op:
                case aa.YieldOp():
                    return [self._value(operand, values, count) for operand in op.operands]
                case aa.ConstantOp():
                    type = vector_type(register_type(op.result.type), count)
                    values[op.result] = b.const_bits(type, element_bits(op.value)[0])
                case ElementwiseOp():
                    args = [self._value(operand, values, count) for operand in op.operands]
                    result = lower_elementwise(b, op, args, self.ctx.target)
                    values[op.results[0]] = result
                case aa.IfOp():
                    self._run_if(op, values, count)
                case _:
                    raise self._unsupported(op)
        raise InternalError("a block of a reduction's body has no yield", where="lowering")

    def _run_if(self, op: aa.IfOp, values: dict[SSAValue, SSAValue], count: int) -> None:
        """Both branches, which have no effects, then a choice per lane."""
        condition = self._value(op.condition, values, count)
        if not op.results:
            return
        branches = [op.then_region.first_block, op.else_region.first_block]
        outcomes = []
        for block in branches:
            if block is None or not isinstance(block.last_op, aa.YieldOp):
                raise self._unsupported(op)
            outcomes.append(self._run(block, values, count))
        for result, chosen, other in zip(op.results, *outcomes, strict=True):
            values[result] = self.ctx.b.select(condition, chosen, other)

    def _value(self, value: SSAValue, values: dict[SSAValue, SSAValue], count: int) -> SSAValue:
        """A value of the body, or an outer scalar in every lane."""
        known = values.get(value)
        if known is None:
            known = self.ctx.b.splat(self.ctx.value(value), count)
            values[value] = known
        return known

    def _unsupported(self, inner: Operation) -> CompileError:
        outer, name = (op.name.partition(".")[2] for op in (self.op, inner))
        return CompileError(
            f"'{outer}' op: '{name}' in the body is not supported yet", place_of(inner)
        )
