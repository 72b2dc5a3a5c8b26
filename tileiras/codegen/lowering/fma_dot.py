"""Matrix products without matrix instructions: fused multiply-adds from shared memory.

A thread holds a block of the result (`layout.outer_product`). For each k it reads its rows of A and
its columns of B and multiplies each with each. Products next to each other that have operands in
common are computed together: every operand is staged once and read once for each k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float64Type, IntegerType, f32, i32
from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.fma_operands import Factor, plan_factor
from tileiras.codegen.lowering.scratch import aligned
from tileiras.codegen.lowering.types import element_type, register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of, vector_type

_UNROLLED = 512
"""Multiply-adds of a thread in one iteration over k: enough to hide what the loop itself costs."""


_Key = tuple[SSAValue, int, bool]
"""What tells operands apart: the value, the position of K from the end, whether it is unsigned."""


@dataclass(frozen=True)
class _Product:
    """One operation of a group: its operands and its sum, by their numbers in the group.

    `negates`: the product is subtracted; a multiply-add takes a sign for nothing.
    """

    op: tas.FmaDotOp
    lhs: int
    rhs: int
    total: int
    negates: bool


def lower_fma_dot(ctx: KernelLowering, op: tas.FmaDotOp) -> None:
    """For each k: every thread multiplies its rows of A with its columns of B.

    The operands lie in shared memory, in the accumulator's type, as many parts of K at a time as
    fit; the loop over k is a loop of the program, so that code size does not depend on K.
    """
    if op.result not in ctx.values:
        _Group(ctx, op).lower()


class _Group:
    """A product and those behind it that are computed with it."""

    def __init__(self, ctx: KernelLowering, first: tas.FmaDotOp):
        self._ctx = ctx
        self._result = ctx.layout(first.result.type)
        self._acc = element_type(first.acc.type)
        self._depth = ctx.layout(first.lhs.type).shape[-1]
        self._keys: dict[_Key, int] = {}
        self._products: list[_Product] = []
        self._totals: list[SSAValue] = []
        self._add(first)
        following = first.next_op
        while isinstance(following, tas.FmaDotOp) and self._takes(following):
            self._add(following)
            following = following.next_op

    # which products

    def _takes(self, op: tas.FmaDotOp) -> bool:
        """Whether a further product can be computed with the others."""
        keys = _keys(op)
        made = {product.op.result: None for product in self._products}
        size = sum(self._bytes(key) for key in dict.fromkeys([*self._keys, *keys]))
        return (
            op.result.type == self._products[0].op.result.type
            and self._ctx.layout(op.lhs.type).shape[-1] == self._depth
            and (op.acc in made or any(key in self._keys for key in keys))
            and op.lhs not in made
            and op.rhs not in made
            and (op.acc not in made or op.acc.has_one_use())
            and size <= self._ctx.scratch.limit
        )

    def _add(self, op: tas.FmaDotOp) -> None:
        """Adds a product, to the sum of the one that it continues."""
        lhs, rhs = (self._keys.setdefault(key, len(self._keys)) for key in _keys(op))
        for product in self._products:
            if product.op.result is op.acc:
                total = product.total
                break
        else:
            total = len(self._totals)
            self._totals.append(op.acc)
        negates = _is_negated(op.lhs) != _is_negated(op.rhs)
        self._products.append(_Product(op, lhs, rhs, total, negates))

    # how

    def lower(self) -> None:
        """Stages part by part of K, and multiplies."""
        ctx, b = self._ctx, self._ctx.b
        parts = self._parts()
        factors = [self._factor(key, parts) for key in self._keys]
        narrow = [ctx.value(acc) for acc in self._totals]
        compute = vector_type(self._compute, lanes_of(narrow[0].type) or 1)
        is_wider = compute != narrow[0].type
        totals = [b.fpext(acc, compute) if is_wider else acc for acc in narrow]
        for part in range(parts):
            # One region: asking for a second one may recycle the first.
            region = ctx.scratch.region(sum(aligned(factor.bytes) for factor in factors))
            offset = 0
            for factor in factors:
                factor.stage(b.gep(region, offset), part)
                offset += aligned(factor.bytes)
            b.barrier()
            totals = self._multiply(factors, totals, self._depth // parts)
        if is_wider:
            totals = [b.fptrunc(total, narrow[0].type) for total in totals]
        for product in self._products:
            ctx.values[product.op.result] = totals[product.total]

    @property
    def _compute(self) -> Attribute:
        """f16 accumulators are kept in f32 over the whole product."""
        return self._acc if isinstance(self._acc, Float64Type | IntegerType) else f32

    def _bytes(self, key: _Key) -> int:
        """Bytes of an operand in shared memory."""
        return aligned(self._ctx.layout(key[0].type).size * bit_width(self._compute) // 8)

    def _parts(self) -> int:
        """Into how many parts of K the products fall so that the operands fit."""
        limit, parts = self._ctx.scratch.limit, 1
        sizes = [self._bytes(key) for key in self._keys]
        while (needed := sum(aligned(size // parts) for size in sizes)) > limit:
            if parts >= self._depth:
                raise self._ctx.too_large(needed, limit)
            parts *= 2
        return parts

    def _factor(self, key: _Key, parts: int) -> Factor:
        """An operand in the type that the products are formed in."""
        value, position, is_unsigned = key
        source = self._ctx.layout(value.type)
        bits = bit_width(self._compute)
        layout = plan_factor(source, self._result, position, bits, parts)
        return Factor(self._ctx, self._widened(value, is_unsigned), source, layout)

    def _widened(self, value: SSAValue, is_unsigned: bool) -> SSAValue:
        """The elements of an operand as numbers of the type that is computed in."""
        b, vector, element = self._ctx.b, self._ctx.value(value), element_type(value.type)
        target = vector_type(self._compute, lanes_of(vector.type) or 1)
        if vector.type == target:
            return vector
        if isinstance(element, IntegerType):
            return b.zext(vector, target) if is_unsigned else b.sext(vector, target)
        if bit_width(register_type(element)) == 16:
            return b.fpext(vector, target)
        raise self._ctx.unsupported(f"a matrix product of {element} elements on this target")

    def _multiply(
        self, factors: Sequence[Factor], totals: Sequence[SSAValue], depth: int
    ) -> list[SSAValue]:
        """Adds the products of what is staged: a loop of steps of a few k."""
        ctx, b = self._ctx, self._ctx.b
        count = len(self._products) * (lanes_of(totals[0].type) or 1)
        bits = depth.bit_length() - 1
        while bits and count << bits > _UNROLLED:
            bits -= 1
        if depth >> bits == 1:
            return self._step(factors, totals, None, bits)
        body, done = b.new_block([i32, *(total.type for total in totals)]), b.new_block()
        b.br(body, [b.i32(0), *totals])
        ctx.start_block(body)
        step, *carried = body.args
        sums = self._step(factors, carried, step, bits)
        following = b.add(step, b.i32(1))
        goes_on = b.icmp("slt", following, b.i32(depth >> bits))
        b.cond_br(goes_on, body, done, [following, *sums], no_unroll=True)
        ctx.start_block(done)
        return sums

    def _step(
        self,
        factors: Sequence[Factor],
        totals: Sequence[SSAValue],
        step: SSAValue | None,
        bits: int,
    ) -> list[SSAValue]:
        """The products for the 2 to the power of `bits` values of k of a step."""
        sums = list(totals)
        for factor in factors:
            factor.start_step(step, bits)
        for k in range(1 << bits):
            values = [factor.read(k) for factor in factors]
            for product in self._products:
                left, right = values[product.lhs], values[product.rhs]
                if product.negates:
                    left = self._ctx.b.fneg(left)
                sums[product.total] = self._multiply_add(left, right, sums[product.total])
        return sums

    def _multiply_add(self, left: SSAValue, right: SSAValue, total: SSAValue) -> SSAValue:
        """`left * right + total`, element by element."""
        b = self._ctx.b
        if isinstance(scalar_of(total.type), IntegerType):
            return b.add(total, b.mul(left, right))
        return b.unary_intrinsic("llvm.fma", left, right, total)


def _keys(op: tas.FmaDotOp) -> list[_Key]:
    """The operands of a product, what is negated without its sign."""
    signs = (op.signedness_lhs, op.signedness_rhs)
    return [
        (
            _plain(value),
            position,
            isinstance(sign, SignednessAttr) and sign.data == Signedness.UNSIGNED,
        )
        for value, position, sign in zip((op.lhs, op.rhs), (1, 2), signs, strict=True)
    ]


def _is_negated(value: SSAValue) -> bool:
    """Whether an operand is another tile with the other sign."""
    return isinstance(value, OpResult) and isinstance(value.op, aa.NegFOp)


def _plain(value: SSAValue) -> SSAValue:
    """An operand without its sign."""
    if isinstance(value, OpResult) and isinstance(value.op, aa.NegFOp):
        return value.op.operands[0]
    return value


RULES: LoweringRules = {
    tas.FmaDotOp: lower_fma_dot,
}
"""Products by class."""
