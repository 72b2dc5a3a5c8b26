"""Reductions beside each other that go through shared memory: threads meet once for all of them.

%a = reduce %x dim 1 {..}                  %a, %b = reduce %x, %y dim 1 {.. ; ..}
%b = reduce %y dim 1 {..}           ->
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.ways import STEPS
from tileiras.errors import InternalError

MOST_OPERANDS = 16
"""Policy: partial results of a thread at once: they are in registers, and in shared memory."""


def merge_reductions(ops: Iterable[aa.ReduceOp | aa.ScanOp]) -> list[aa.ReduceOp | aa.ScanOp]:
    """Merges reductions of a block that go over warps; returns what there is then.

    Of tiles alike, along one dim, none of which needs what another one gives.
    """
    left: list[aa.ReduceOp | aa.ScanOp] = []
    groups: list[list[aa.ReduceOp]] = []
    for op in ops:
        if not isinstance(op, aa.ReduceOp) or not _goes_over_warps(op):
            left.append(op)
            continue
        group = next((group for group in groups if _may_join(group, op)), None)
        if group is None:
            groups.append([op])
        else:
            group.append(op)
    return [*left, *(_merged(group) if len(group) > 1 else group[0] for group in groups)]


def _goes_over_warps(op: aa.ReduceOp) -> bool:
    """Whether rows lie in several warps, and elements are combined by plain operations."""
    layout, axis = layout_of(op.operands[0].type), op.dim.value.data
    if layout is None or STEPS in op.attributes:
        return False
    if not all(isinstance(inner, ElementwiseOp | aa.YieldOp) for inner in op.body.block.ops):
        return False
    return any(vector[axis] for vector in layout.basis("warp"))


def _may_join(group: Sequence[aa.ReduceOp], op: aa.ReduceOp) -> bool:
    """Whether a reduction may be performed where the first one of a group is."""
    first = group[0]
    if first.parent is not op.parent or first.dim != op.dim:
        return False
    types = {operand.type for operand in (*first.operands, *op.operands)}
    if len(types) > 1 or sum(len(each.operands) for each in (*group, op)) > MOST_OPERANDS:
        return False
    return all(_is_before(operand, first) for operand in op.operands)


def _is_before(value: SSAValue, place: Operation) -> bool:
    """Whether a value is there before an operation of the block, or comes from outside."""
    owner = value.owner
    if isinstance(owner, Block) or owner.parent is not place.parent:
        return True
    before = place.prev_op
    while before is not None and before is not owner:
        before = before.prev_op
    return before is not None


def _merged(group: Sequence[aa.ReduceOp]) -> aa.ReduceOp:
    """One reduction with the operands of all, where the first one is."""
    first = group[0]
    args = [arg.type for op in group for arg in op.body.block.args]
    body, values = Block(arg_types=args), dict[SSAValue, SSAValue]()
    values.update(zip((a for op in group for a in op.body.block.args), body.args, strict=True))
    yielded: list[SSAValue] = []
    for op in group:
        *inner, last = op.body.block.ops
        for each in inner:
            body.add_op(copy := each.clone(values))
            values.update(zip(each.results, copy.results, strict=True))
        yielded += [values.get(value, value) for value in last.operands]
    body.add_op(aa.YieldOp.create(operands=yielded, location=first.location))
    identities = [each for op in group for each in op.identities.data]
    made = aa.ReduceOp.create(
        operands=[operand for op in group for operand in op.operands],
        result_types=[result.type for op in group for result in op.results],
        properties=dict(first.properties) | {"identities": ArrayAttr(identities)},
        attributes=dict(first.attributes),
        regions=[Region(body)],
        location=first.location,
    )
    block = first.parent
    if block is None:
        raise InternalError("a reduction stands in no block", where="tileas-legalize-reduce")
    block.insert_op_before(made, first)
    results = iter(made.results)
    for op in group:
        for result in op.results:
            result.replace_all_uses_with(next(results))
        op.detach()
        op.erase()
    return made
