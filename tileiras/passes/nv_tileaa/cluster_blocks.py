"""The tile blocks that a cluster of CTAs takes where the grid counts one for each cluster."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder


@dataclass(frozen=True)
class ClusterBlocks:
    """Numbers along an axis of the grid: how many CTAs there are, and what each of them knows.

    `base` is the number of the first tile block, `count` how many the grid has, `rank` the CTA's,
    `exists` whether there is a tile block for it. `own` is its number, or the first one's.
    """

    size: int
    base: SSAValue
    count: SSAValue
    rank: SSAValue
    exists: SSAValue
    own: SSAValue


def compared(
    predicate: ComparisonPredicate, signedness: Signedness = Signedness.SIGNED
) -> dict[str, ComparisonPredicateAttr | SignednessAttr]:
    """The properties of a comparison of integers."""
    return {
        "comparison_predicate": ComparisonPredicateAttr(predicate),
        "signedness": SignednessAttr(signedness),
    }


LESS = compared(ComparisonPredicate.LESS_THAN)


def number_blocks(
    first: Operation, axis: int, size: int
) -> tuple[ClusterBlocks, dict[Operation, None]]:
    """Computes in front of the first operation of a kernel what its CTA is; the operations, too."""
    start = ScalarBuilder()
    start.location = first.location
    rank = start.emit(aa.GetClusterRankOp, (), [i32]).results[0]
    count = start.place(aa.GetNumProgramsOp, axis)
    cluster = start.place(aa.GetProgramIdOp, axis)
    base = start.scaled(cluster, size)
    number = start.binary(aa.AddIOp, base, rank)
    exists = start.emit(aa.CmpIOp, [number, count], [i1], LESS).results[0]
    own = start.emit(aa.SelectOp, [exists, number, base], [i32]).results[0]
    return ClusterBlocks(size, base, count, rank, exists, own), start.put_before(first)


def only_if(op: aa.StoreOp | aa.TiledStoreOp, exists: SSAValue) -> None:
    """Puts a store under a condition."""
    before = ScalarBuilder()
    before.location = op.location
    token = op.token
    if token is None:
        token = before.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]
    then, other = Block(), Block()
    branch = before.emit(aa.IfOp, [exists], [MEM_TOKEN], {}, [Region(then), Region(other)])
    before.put_before(op)
    op.result_token.replace_all_uses_with(branch.results[0])
    op.detach()
    then.add_op(op)
    then.add_op(aa.YieldOp.create(operands=[op.result_token], location=op.location))
    other.add_op(aa.YieldOp.create(operands=[token], location=op.location))
