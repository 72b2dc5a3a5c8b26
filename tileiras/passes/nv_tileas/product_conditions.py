"""Conditions of products leave their loops: one loop with all products, one without the last.

    for %k { wgmma_dots .. if %c }   ->   if %c { for %k { wgmma_dots .. } }
                                          else  { for %k { wgmma_dot .. } }

A branch in the loop would part the products from what comes before and after them. Kernels with
one took 6 to 14 % longer (64x64 tiles, K of 32, on an H200), in mails with other changes, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import op_block
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.passes.rewriting import replace_op, replace_op_by

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
        product.properties |= wg.dot_segments()
        return
    made = wg.WgmmaDotsOp.build(
        operands=[product.common, product.tiles, product.accs, []],
        result_types=[[result.type for result in product.sums]],
        properties=settings_of(product),
    )
    made.location = product.location
    replace_op_by(product, made)


def ending_of(loop: aa.ForOp) -> Sequence[Operation]:
    """What finishes the products of a loop, and hands their stages back, right behind it."""
    found: list[Operation] = []
    op = loop.next_op
    while isinstance(op, wg.DotWaitOp | pl.ConsumerReleaseOp):
        found.append(op)
        op = op.next_op
    return found


def copy_of(moved: Sequence[Operation]) -> Block:
    """A branch with a copy of some operations that follow each other, which gives their results."""
    values: dict[SSAValue, SSAValue] = {}
    block = Block([op.clone(values) for op in moved])
    operands = [values[result] for result in _given(moved)]
    block.add_op(aa.YieldOp.create(operands=operands, location=moved[0].location))
    return block


def put_in_branches(
    moved: Sequence[Operation],
    condition: SSAValue,
    branches: Sequence[Block],
    before: Sequence[Operation] = (),
) -> None:
    """A branch in place of operations of which its blocks have copies; `before` makes the
    condition.
    """
    results = _given(moved)
    made = aa.IfOp.create(
        operands=[condition],
        result_types=[result.type for result in results],
        regions=[Region(block) for block in branches],
        location=moved[0].location,
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


def _given(moved: Sequence[Operation]) -> list[SSAValue]:
    """What operations give to others."""
    results = [result for op in moved for result in op.results]
    return [result for result in results if any(u.operation not in moved for u in result.uses)]


def _split(loop: aa.ForOp, product: Product, condition: SSAValue) -> None:
    """The loop with the product, and without it."""
    moved = [loop, *ending_of(loop)]
    place = list(loop.body.block.ops).index(product)
    branches = [copy_of(moved), copy_of(moved)]
    for block, change in zip(branches, (without_condition, _leave_out), strict=True):
        copied = block.first_op
        its = list(copied.body.block.ops)[place] if isinstance(copied, aa.ForOp) else None
        if isinstance(its, Product):
            change(its)
    put_in_branches(moved, condition, branches)


def _leave_out(product: Product) -> None:
    """The loop of a product without it, or without its last tile: that sum stays what it was."""
    loop = product.parent_op()
    if isinstance(product, wg.WgmmaDotOp):
        kept, last = None, product.acc
        selects = [operand.owner for operand in (product.lhs, product.rhs)]
        replace_op(product, [last])
        for select in selects:
            if isinstance(select, pl.SelectTileOp) and not select.result.first_use:
                select.detach()
                select.erase()
        _expect_one_product_less(loop)
    else:
        kept = _first_of(product)
        last = product.accs[1]
        kept.location = product.location
        op_block(product).insert_op_before(kept, product)
        replace_op(product, [kept.result, last])
    _hand_on_nothing(loop, last)


def _first_of(product: wg.WgmmaDotsOp) -> wg.WgmmaDotOp:
    """The product of the first tile alone."""
    lhs, rhs = product.operands_of(0)
    properties = settings_of(product)
    transposed = product.transposed is not None
    if properties.pop("fragments", None) is not None:
        properties["fragments"] = StringAttr("rhs" if transposed else "lhs")
        properties.pop("transposed", None)
    return wg.WgmmaDotOp.build(
        operands=[lhs, rhs, product.accs[0], [], []],
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
    for use in list(loop.results[number].uses):
        if isinstance(use.operation, wg.DotWaitOp):
            replace_op(use.operation, [start])
    loop.results[number].replace_all_uses_with(start)


def settings_of(product: Product) -> dict[str, Attribute]:
    """The properties of a product, the number of its operands aside."""
    return {key: value for key, value in product.properties.items() if "Segment" not in key}


def _is_made_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner.parent_block() if isinstance(owner, Operation) else owner) is block
