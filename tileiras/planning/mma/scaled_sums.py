"""Sums that consumers scale where they lie, in tensor memory, before each product is added.

    for { ...; %b = mulf %carried, %factor; %o = dot %p, %v, %b; continue %o }

So attention does it, whose left operand consumers compute: they store that behind the scaled sum,
so that the warp that issues products needs nothing else to wait for. Loops may follow each other,
the next one going on with what the one before leaves (causal attention has two).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.errors import InternalError
from tileiras.planning.mma.tcgen05 import Accumulator
from tileiras.planning.operands.staged import staged_operands


@dataclass(frozen=True)
class _Scaled:
    """A product whose sum its loop carries, and scales before."""

    loop: aa.ForOp
    position: int
    dot: aa.DotOp

    @property
    def before(self) -> _Scaled | None:
        """The product of the loop whose result this one goes on with."""
        value = self.loop.init_values[self.position]
        maker = value.owner
        if not isinstance(value, OpResult) or not isinstance(maker, aa.ForOp):
            return None
        found = _carried_to(maker, value.index)
        return found if found is not None and found.behind == self else None

    @property
    def behind(self) -> _Scaled | None:
        """The product of the loop that goes on with the result of this one, and nothing else."""
        use = _only_use(self.loop.results[self.position])
        if use is None or not isinstance(loop := use[0], aa.ForOp):
            return None
        position = use[1] - (len(loop.operands) - len(loop.init_values))
        if loop.parent_block() is not self.loop.parent_block() or position < 0:
            return None
        found = _carried_to(loop, position)
        return found if found is not None and found.dot.lhs.type == self.dot.lhs.type else None


def scaled_sum(op: aa.DotOp) -> Accumulator | None:
    """The sum of a product and of those that go on with it, None if it is not scaled so."""
    product = _scaled(op)
    if product is None:
        return None
    first, last = product, product
    while (before := first.before) is not None:
        first = before
    if not is_zero(first.loop.init_values[first.position]):
        return None
    places = [(first.loop, first.position)]
    while (behind := last.behind) is not None:
        last = behind
    while first.loop is not last.loop and (following := first.behind) is not None:
        first = following
        places.append((first.loop, first.position))
    return Accumulator(last.loop, last.position, before=tuple(places[:-1]), is_scaled=True)


def scaling_of(op: aa.ProductOp) -> tuple[aa.MulFOp, SSAValue]:
    """What scales the sum of a product, and the factors. The sum is one that is scaled."""
    maker = op.acc.owner
    if not isinstance(maker, aa.MulFOp):
        raise InternalError("a sum is not scaled", where="tcgen05")
    is_left = isinstance(maker.lhs, BlockArgument) and maker.lhs.block is maker.parent_block()
    return maker, maker.rhs if is_left else maker.lhs


def _carried_to(loop: aa.ForOp, position: int) -> _Scaled | None:
    """The product that makes a value that a loop carries, if that is scaled."""
    last = loop.body.block.last_op
    if not isinstance(last, aa.ContinueOp):
        return None
    maker = last.operands[position].owner
    found = _scaled(maker) if isinstance(maker, aa.DotOp) else None
    return found if found is not None and (found.loop, found.position) == (loop, position) else None


def _scaled(op: aa.DotOp) -> _Scaled | None:
    """The product with its loop, if that carries its sum and scales it, and does nothing else."""
    loop, block, maker = op.parent_op(), op.parent_block(), op.acc.owner
    if not isinstance(loop, aa.ForOp) or not isinstance(maker, aa.MulFOp):
        return None
    if not _is_plain(maker, block) or not isinstance(element_of(op.result), Float32Type):
        return None
    operands, use = staged_operands(op), _only_use(op.result)
    if operands is None or operands.lhs is not None or use is None:
        return None
    if not isinstance(use[0], aa.ContinueOp) or use[0].parent_op() is not loop:
        return None
    carried = loop.body.block.args[1 + use[1]]
    is_scaled = carried in maker.operands and _only_use(carried) is not None
    return _Scaled(loop, use[1], op) if is_scaled else None


def _is_plain(op: aa.MulFOp, block: Block | None) -> bool:
    """Whether it rounds as products do, and only the product beside it reads the result."""
    is_nearest = op.rounding_mode.data is RoundingMode.NEAREST_EVEN
    return is_nearest and op.parent_block() is block and _only_use(op.result) is not None


def _only_use(value: SSAValue) -> tuple[object, int] | None:
    """The only reader of a value, and as which operand; None if there are several."""
    uses = list(value.uses)
    return (uses[0].operation, uses[0].index) if len(uses) == 1 else None
