"""The body of a reduce or scan, applied to whole vectors of elements at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.codegen.lowering.choosing_body import chooses_alike
from tileiras.codegen.lowering.constants import element_bits
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.llvm.types import lanes_of, vector_type
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.errors import CompileError, InternalError

_COMMUTATIVE = (
    *(aa.AddFOp, aa.AddIOp, aa.MulFOp, aa.MulIOp, aa.MaxFOp, aa.MinFOp, aa.MaxIOp, aa.MinIOp),
    *(aa.AndIOp, aa.OrIOp, aa.XOrIOp),
)
_PACKED = (aa.AddFOp, aa.MulFOp)
"""What packed arithmetic computes for two f32 at once (PTX ISA, `add.f32x2`, `mul.f32x2`)."""
_REDUX_KINDS: dict[type[Operation], str] = {
    aa.AddIOp: "add",
    aa.MaxIOp: "max",
    aa.MinIOp: "min",
    aa.AndIOp: "and",
    aa.OrIOp: "or",
    aa.XOrIOp: "xor",
}


class CombineBody:
    """`apply(later, earlier)`: the body on vectors of equal length, one pair per operand."""

    def __init__(self, ctx: KernelLowering, op: aa.ReduceOp | aa.ScanOp):
        self.ctx = ctx
        self.op = op
        self.block: Block = op.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """What the body leaves, one accumulator per operand."""
        last = self.block.last_op
        if not isinstance(last, aa.YieldOp):
            raise InternalError("the body of a reduction has no yield", where="lowering")
        return last.operands

    @cached_property
    def is_commutative(self) -> bool:
        """Whether the order of two elements does not matter.

        Each operand is combined by itself with an operation that is known to commute, or one of the
        two elements is chosen, whichever comes first.
        """
        own = (self._own_op(index, _COMMUTATIVE) for index in range(len(self.yielded)))
        return all(op is not None for op in own) or chooses_alike(self.block)

    @cached_property
    def is_packed(self) -> bool:
        """Whether one instruction combines two pairs of neighbouring elements."""
        if not self.ctx.target.has(Feature.F32X2_NATIVE):
            return False
        own = [self._own_op(index, _PACKED) for index in range(len(self.yielded))]
        return all(op is not None and isinstance(op.results[0].type, Float32Type) for op in own)

    def _own_op(self, index: int, classes: tuple[type[Operation], ...]) -> Operation | None:
        """The operation of one of the classes that combines operand `index` alone, if it does."""
        value = self.yielded[index]
        if not isinstance(value, OpResult) or not isinstance(value.op, classes):
            return None
        pair = self.block.args[2 * index : 2 * index + 2]
        lhs, rhs = value.op.operands
        is_own = (lhs is pair[0] and rhs is pair[1]) or (lhs is pair[1] and rhs is pair[0])
        return value.op if is_own else None

    def redux_kind(self) -> str | None:
        """The kind of `redux.sync` that does the same as the body on i32, or None."""
        if len(self.yielded) != 1 or self.yielded[0].type != IntegerType(32):
            return None
        op = self._own_op(0, tuple(_REDUX_KINDS))
        if op is None:
            return None
        kind = _REDUX_KINDS[type(op)]
        signedness = op.properties.get("signedness")
        is_unsigned = (
            isinstance(signedness, SignednessAttr) and signedness.data is Signedness.UNSIGNED
        )
        return f"u{kind}" if is_unsigned and kind in ("min", "max") else kind

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
