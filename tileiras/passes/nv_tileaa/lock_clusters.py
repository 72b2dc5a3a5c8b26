"""Builds what `coarsen-locks` decides: clusters of tile blocks, one section for all of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import IntAttr, i1, i32
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa.cluster_blocks import LESS, ClusterBlocks, compared, number_blocks
from tileiras.passes.nv_tileaa.merged_critical_sections import MergedCriticalSections
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import replace_op
from tileiras.planning.critical_sections import Section

_EQUAL = compared(ComparisonPredicate.EQUAL)


def renumber_tile_blocks(func: aa.FuncOp, section: Section, axis: int, size: int) -> ClusterBlocks:
    """Tile blocks `base + rank` in place of those of the grid, along one axis.

    A CTA beyond the grid takes the place of the cluster's first tile block, so that it finds what
    it loads; its loops have no iterations.
    """
    first = required(func.body.block.first_op, "an empty function", "coarsen-locks")
    blocks, made = number_blocks(first, axis, size)
    for op in list(func.walk()):
        if isinstance(op, aa.GetProgramIdOp) and op not in made and op.axis.value.data == axis:
            replace_op(op, [blocks.own])
    op = section.acquire.prev_op
    while op is not None:
        if isinstance(op, aa.ForOp):
            _only_if(op, blocks.exists)
        op = op.prev_op
    return blocks


def _only_if(loop: aa.ForOp, exists: SSAValue) -> None:
    """A loop without iterations where the condition does not hold."""
    before = ScalarBuilder()
    before.location = loop.location
    values = [exists, loop.upper_bound, loop.lower_bound]
    upper = before.emit(aa.SelectOp, values, [loop.upper_bound.type]).results[0]
    before.put_before(loop)
    loop.operands[1] = upper


def share_section(section: Section, tiles: Sequence[SSAValue], blocks: ClusterBlocks) -> None:
    """The last CTA of the cluster performs the section of all tile blocks, in order.

    The last one, for it is the one that is missing first.
    """
    section = _without_common(section, tiles)
    outer = ScalarBuilder()
    outer.location = section.acquire.location
    reader = {"reader": IntAttr(blocks.size - 1)}
    sent = outer.emit(aa.ShareTilesOp, tiles, [EXCHANGE], reader).results[0]
    last = outer.integer(blocks.size - 1, i32)
    is_last = outer.emit(aa.CmpIOp, [blocks.rank, last], [i1], _EQUAL).results[0]
    exists = [_exists(outer, blocks, rank) for rank in range(blocks.size)]
    inner, others = ScalarBuilder(), ScalarBuilder()
    inner.location = others.location = outer.location
    MergedCriticalSections(section, inner, sent).build(tiles, exists)
    inner.emit(aa.YieldOp)
    others.emit(aa.SendSharedOp, [sent])
    others.emit(aa.YieldOp)
    outer.emit(aa.IfOp, [is_last], (), {}, [Region(inner.block), Region(others.block)])
    outer.put_before(section.acquire)
    _erase([section.acquire, *section.body, section.release])


def _without_common(section: Section, tiles: Sequence[SSAValue]) -> Section:
    """What is the same for all tile blocks is computed before the section."""
    common = dict.fromkeys(section.common(tiles))
    block = section.acquire.parent_block()
    if block is None:
        raise InternalError("a section stands in no block", where="coarsen-locks")
    for op in common:
        op.detach()
        block.insert_op_before(op, section.acquire)
    return replace(section, body=tuple(op for op in section.body if op not in common))


def _exists(builder: ScalarBuilder, blocks: ClusterBlocks, rank: int) -> SSAValue | None:
    """i1: whether the tile block of a CTA exists; None for the first one, which does."""
    if rank == 0:
        return None
    number = builder.binary(aa.AddIOp, blocks.base, builder.integer(rank, i32))
    return builder.emit(aa.CmpIOp, [number, blocks.count], [i1], LESS).results[0]


def _erase(ops: Iterable[Operation]) -> None:
    """Takes operations away whose results only they themselves use, and what follows in tokens."""
    members = list(ops)
    last = members[-1].next_op
    while last is not None and not isinstance(last, aa.ReturnOp):
        members.append(last)
        last = last.next_op
    for op in reversed(members):
        op.detach()
        op.erase(safe_erase=False)


__all__ = ["ClusterBlocks", "renumber_tile_blocks", "share_section"]
