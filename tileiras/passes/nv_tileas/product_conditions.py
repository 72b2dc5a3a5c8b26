"""Conditions of products leave their loops: one loop with all products, one without the last.

    for %k { wgmma_dots .. if %c }   ->   if %c { for %k { wgmma_dots .. } }
                                          else  { for %k { wgmma_dot .. } }

A branch in the loop would part the products from what comes before and after them: 80 cycles for
each iteration, seen where a step of K takes 300 (64x64 tiles, K of 32, on an H200).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg

Product = wg.WgmmaDotOp | wg.WgmmaDotsOp


def split_by_conditions(body: Block) -> None:
    """Does so for all loops of the consumers' program with a product under a condition."""
    for loop in [op for op in body.walk() if isinstance(op, aa.ForOp)]:
        found = [op for op in loop.body.block.ops if isinstance(op, Product) and op.condition]
        condition = found[0].condition if len(found) == 1 else None
        if condition is not None and not _is_made_in(condition, loop.body.block):
            _split(loop, found[0], condition)


def without_condition(product: Product) -> None:
    """A product whose condition is known to hold."""
    if isinstance(product, wg.WgmmaDotOp):
        product.operands = [product.lhs, product.rhs, product.acc]
        return
    made = wg.WgmmaDotsOp.build(
        operands=[product.common, product.tiles, product.accs, []],
        result_types=[[result.type for result in product.sums]],
        properties=_kept(product),
    )
    _replace(product, made, made.sums)


def ending_of(loop: aa.ForOp) -> Sequence[Operation]:
    """What finishes the products of a loop, and hands their stages back, right behind it."""
    found: list[Operation] = []
    op = loop.next_op
    while isinstance(op, wg.DotWaitOp | pl.ConsumerReleaseOp):
        found.append(op)
        op = op.next_op
    return found


def put_in_branches(
    moved: Sequence[Operation],
    condition: SSAValue,
    branches: Sequence[tuple[Block, dict[SSAValue, SSAValue]]],
    before: Sequence[Operation] = (),
) -> None:
    """A branch in place of some operations that follow each other.

    Each of its blocks has a copy of them, with what stands for their results there; `before` makes
    the condition.
    """
    results = [
        result
        for op in moved
        for result in op.results
        if any(use.operation not in moved for use in result.uses)
    ]
    location = moved[0].location
    for block, values in branches:
        operands = [values[result] for result in results]
        block.add_op(aa.YieldOp.create(operands=operands, location=location))
    made = aa.IfOp.create(
        operands=[condition],
        result_types=[result.type for result in results],
        regions=[Region(block) for block, _ in branches],
        location=location,
    )
    outer = moved[-1].parent_block()
    if outer is None:
        return
    outer.insert_ops_after([*before, made], moved[-1])
    for result, its in zip(results, made.results, strict=True):
        result.replace_all_uses_with(its)
    for op in reversed(moved):
        op.detach()
        op.erase()


def _split(loop: aa.ForOp, product: Product, condition: SSAValue) -> None:
    """The loop with the product, and without it."""
    moved = [loop, *ending_of(loop)]
    place = list(loop.body.block.ops).index(product)
    branches: list[tuple[Block, dict[SSAValue, SSAValue]]] = []
    for change in (without_condition, _leave_out):
        values: dict[SSAValue, SSAValue] = {}
        block = Block([op.clone(values) for op in moved])
        copied = block.first_op
        if isinstance(copied, aa.ForOp):
            its = list(copied.body.block.ops)[place]
            if isinstance(its, Product):
                change(its)
        branches.append((block, values))
    put_in_branches(moved, condition, branches)


def _leave_out(product: Product) -> None:
    """The loop of a product without it, or without its last tile: that sum stays what it was."""
    loop = product.parent_op()
    if isinstance(product, wg.WgmmaDotOp):
        kept, last = None, product.acc
        selects = [operand.owner for operand in (product.lhs, product.rhs)]
        _replace(product, None, [last])
        for select in selects:
            if isinstance(select, pl.SelectTileOp) and not select.result.first_use:
                select.detach()
                select.erase()
        _expect_one_product_less(loop)
    else:
        kept = _first_of(product)
        last = product.accs[1]
        _replace(product, kept, [kept.result, last])
    _hand_on_nothing(loop, last)


def _first_of(product: wg.WgmmaDotsOp) -> wg.WgmmaDotOp:
    """The product of the first tile alone."""
    lhs, rhs = product.operands_of(0)
    properties = _kept(product)
    transposed = product.transposed is not None
    if properties.pop("fragments", None) is not None:
        properties["fragments"] = StringAttr("rhs" if transposed else "lhs")
        properties.pop("transposed", None)
    return wg.WgmmaDotOp.build(
        operands=[lhs, rhs, product.accs[0], []],
        result_types=[product.sums[0].type],
        properties=properties,
    )


def _expect_one_product_less(loop: Operation | None) -> None:
    """An iteration of the loop issues one group less: so fewer are unfinished."""
    products = loop.walk() if loop is not None else ()
    for op in products:
        if isinstance(op, wg.WgmmaDotOp) and op.pending is not None and op.pending.data > 1:
            op.properties["pending"] = IntAttr(op.pending.data - 1)


def _hand_on_nothing(loop: Operation | None, value: SSAValue) -> None:
    """A value that the loop hands on unchanged is the one that it starts with."""
    if not isinstance(loop, aa.ForOp) or value not in loop.body.block.args:
        return
    number = loop.body.block.args.index(value) - 1
    start = loop.init_values[number]
    value.replace_all_uses_with(start)
    loop.results[number].replace_all_uses_with(start)


def _kept(product: wg.WgmmaDotsOp) -> dict[str, Attribute]:
    """The properties of a product, the number of its operands aside."""
    return {key: value for key, value in product.properties.items() if "Segment" not in key}


def _replace(product: Product, made: Operation | None, results: Sequence[SSAValue]) -> None:
    """Puts an operation in place of another, or nothing."""
    block = product.parent_block()
    if block is not None and made is not None:
        made.location = product.location
        block.insert_op_before(made, product)
    for result, its in zip(product.results, results, strict=True):
        result.replace_all_uses_with(its)
    product.detach()
    product.erase()


def _is_made_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner.parent_block() if isinstance(owner, Operation) else owner) is block
