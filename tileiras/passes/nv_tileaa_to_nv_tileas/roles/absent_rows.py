"""Warpgroups whose rows nobody stores do nothing between the first wait and the last release.

    %t = consumer_wait %p; ..; for { .. }; consumer_release %p; free_pipelines; store
    ->  %h = has_rows %both
        %r = if %h { %t = consumer_wait %p; ..; for { .. }; consumer_release %p; yield }
             else { leave_pipelines %p; yield zeros }
        free_pipelines; store

A tile block that computes the rows of two (`rows_of_blocks`) has those of one in a small grid, and
at the end of an odd one. What the threads of the other warpgroup copy before, and how they store,
stays: of their rows nothing is stored, since the memory's rows end before.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.errors import InternalError

_HELD = (pl.ConsumerWaitOp, pl.ConsumerReleaseOp, wg.WgmmaDotOp, wg.AwaitFirstOp)
"""What only warpgroups with rows do."""


def leave_out_absent_rows(body: Block) -> None:
    """Does so in a consumers' program that says where rows end."""
    ends = [op for op in body.ops if isinstance(op, aa.SelectOp) and op.end_of_rows is not None]
    if not ends:
        return
    both = ends[0].first
    inside = _inside(body)
    first, place = inside[0], inside[-1].next_op
    if place is None:
        raise InternalError("a program has no end", where="warp roles")
    given = [
        result
        for op in inside
        for result in op.results
        if any(not _is_in(use.operation, inside) for use in result.uses)
    ]
    pipelines = _pipelines(inside)
    then, other = Block(), Block()
    for op in inside:
        op.detach()
        then.add_op(op)
    then.add_op(aa.YieldOp.create(operands=given, location=first.location))
    other.add_op(wg.LeavePipelinesOp.create(operands=pipelines, location=first.location))
    zeros = [_zero(other, value, first) for value in given]
    other.add_op(aa.YieldOp.create(operands=zeros, location=first.location))
    has = wg.HasRowsOp.create(operands=[both], result_types=[i1], location=first.location)
    branch = aa.IfOp.create(
        operands=[has.result],
        result_types=[value.type for value in given],
        regions=[Region(then), Region(other)],
        location=first.location,
    )
    body.insert_ops_before([has, branch], place)
    for value, made in zip(given, branch.results, strict=True):
        value.replace_uses_with_if(made, lambda use: not _is_in(use.operation, [branch]))


def _inside(body: Block) -> list[Operation]:
    """What comes between the first wait and the last release; scalars and constants that depend on
    nothing there go before.
    """
    operations = list(body.ops)
    held = [n for n, op in enumerate(operations) if any(isinstance(i, _HELD) for i in op.walk())]
    found: dict[Operation, None] = {}
    for op in operations[held[0] : held[-1] + 1]:
        is_free = op.has_trait(Pure) and not op.regions
        if not is_free or any(value.owner in found for value in op.operands):
            found[op] = None
            continue
        op.detach()
        body.insert_op_before(op, next(iter(found)))
    return list(found)


def _is_in(op: Operation, outer: list[Operation]) -> bool:
    """Whether an operation is in one of others, however deep."""
    return any(other.is_ancestor(op) for other in outer)


def _pipelines(inside: list[Operation]) -> list[SSAValue]:
    """The pipelines that are waited for."""
    waits = (i for op in inside for i in op.walk() if isinstance(i, pl.ConsumerWaitOp))
    return list(dict.fromkeys(wait.pipeline for wait in waits))


def _zero(block: Block, value: SSAValue, place: Operation) -> SSAValue:
    """Zeros of the type of a value."""
    tile = TileType(element_of(value), shape_of(value))
    properties = {"value": DenseAttr(tile, bytes(storage_bytes(tile.element_type)))}
    made = aa.ConstantOp.create(
        properties=properties, result_types=[value.type], location=place.location
    )
    block.add_op(made)
    return made.result
