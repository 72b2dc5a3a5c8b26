"""A sum of a product and what a product may add to is one product that goes on from there.

In which order a product adds up, and how it rounds on the way, is its own business: one that starts
from the other summand rounds once less. `acc = acc + a @ b` in a loop is `mmaf %a, %b, %acc` then,
whose sum stays in its registers, or in tensor memory, while the next operands come.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import IntegerOverflow, RoundingMode
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.passes.canonicalization.constants import splat_bytes
from tileiras.passes.canonicalization.editor import Editor

LEAST_SHARE = 8
"""Policy: times the elements of what is negated a product must have: then that costs little."""
_NEGATED = (Float16Type, BFloat16Type, Float32Type, Float64Type)
_LOOPS = (ct.ForOp, ct.LoopOp)

Product = ct.MmaFOp | ct.MmaIOp


def add_to_product(op: ct.AddFOp | ct.AddIOp, editor: Editor) -> bool:
    """`x + (a @ b + 0)` is `a @ b + x`, for an x that a loop carries or that is a product."""
    if not _is_plain(op):
        return False
    for summand, value in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        product = _product_from_zero(value, op)
        if product is not None and _may_be_sum(summand):
            _go_on(op, product, product.lhs, product.rhs, summand, editor)
            return True
    return False


def subtract_product(op: ct.SubFOp, editor: Editor) -> bool:
    """`x - (a @ b + 0)` is `-a @ b + x` where it costs little to negate a, or else b."""
    product = _product_from_zero(op.rhs, op)
    if product is None or not _is_plain(op) or not _may_be_sum(op.lhs):
        return False
    lhs, rhs = product.lhs, product.rhs
    if _is_cheap(lhs, product):
        lhs = _negated(lhs, editor)
    elif _is_cheap(rhs, product):
        rhs = _negated(rhs, editor)
    else:
        return False
    _go_on(op, product, lhs, rhs, op.lhs, editor)
    return True


def _is_plain(op: ct.AddFOp | ct.SubFOp | ct.AddIOp) -> bool:
    """Whether it rounds as products do, or wraps as they do."""
    if isinstance(op, ct.AddIOp):
        return op.overflow.data is IntegerOverflow.NONE
    return op.rounding_mode.data is RoundingMode.NEAREST_EVEN and op.flush_to_zero is None


def _product_from_zero(value: SSAValue, user: Operation) -> Product | None:
    """The product that only `user` reads, beside which it stands, and that adds to nothing.

    One that may add up cheaply (`fast_acc`) would do so over more.
    """
    product = value.op if isinstance(value, OpResult) else None
    if not isinstance(product, Product) or product.parent is not user.parent:
        return None
    if isinstance(product, ct.MmaFOp) and product.fast_acc is not None:
        return None
    start = splat_bytes(product.acc)
    is_zero = start is not None and not any(start)
    return product if is_zero and product.result.has_one_use() else None


def _may_be_sum(value: SSAValue) -> bool:
    """Whether a value is at hand when a product starts: the last iteration's, or a product."""
    if isinstance(value, BlockArgument):
        return isinstance(value.block.parent_op(), _LOOPS)
    return isinstance(value, OpResult) and isinstance(value.op, Product)


def _go_on(
    op: Operation,
    product: Product,
    lhs: SSAValue,
    rhs: SSAValue,
    start: SSAValue,
    editor: Editor,
) -> None:
    """Puts a product that starts from `start` in the place of the sum."""
    new = type(product).create(
        operands=[lhs, rhs, start],
        result_types=[product.result.type],
        properties=dict(product.properties),
    )
    editor.replace(op, editor.insert_before(op, new).results)


def _is_cheap(operand: SSAValue, product: Product) -> bool:
    """Whether negating an operand is little work, and none of the loop that the product is in."""
    source = _source(operand)
    type, result = source.type, product.result.type
    if not isinstance(type, TileType) or not isinstance(result, TileType):
        return False
    if not isinstance(type.element_type, _NEGATED):
        return False
    if LEAST_SHARE * prod(type.shape) > prod(result.shape):
        return False
    loop = product.parent_op()
    while loop is not None and not isinstance(loop, _LOOPS):
        loop = loop.parent_op()
    return loop is None or (isinstance(source, OpResult) and not loop.is_ancestor(source.op))


def _source(value: SSAValue) -> SSAValue:
    """What is copied along dims to be an operand."""
    while isinstance(value, OpResult) and isinstance(value.op, ct.BroadcastOp):
        value = value.op.operands[0]
    return value


def _negated(value: SSAValue, editor: Editor) -> SSAValue:
    """The negative of an operand, negated where it has the fewest elements."""
    assert isinstance(value, OpResult)  # cheap operands are results
    if isinstance(value.op, ct.BroadcastOp):
        operands = [_negated(value.op.operands[0], editor)]
        copy = ct.BroadcastOp.create(operands=operands, result_types=[value.type])
        return editor.insert_before(_behind(value.op), copy).results[0]
    new = ct.NegFOp.create(operands=[value], result_types=[value.type])
    return editor.insert_before(_behind(value.op), new).results[0]


def _behind(op: Operation) -> Operation:
    """The operation in front of which to put what shall follow another."""
    assert op.next_op is not None  # a terminator makes no operand
    return op.next_op
