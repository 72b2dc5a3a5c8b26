"""Builds the loop over the parts of a product, from what `tiling/product_region` has found."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import PartBuilder, ScalarBuilder
from tileiras.passes.nv_tileaa.part_loops import combine, initial_values
from tileiras.passes.rewriting import erase_op
from tileiras.planning.tiling.product_cut import STRUCTURED, ProductCut, Structured, first_carried
from tileiras.planning.tiling.product_region import LOADS, ProductRegion
from tileiras.planning.tiling.slicing import cut_type


@dataclass(frozen=True)
class Ranks:
    """CTAs of a cluster along a dim of a tile: number `rank / stride % count` of `size` CTAs."""

    count: int
    stride: int
    size: int


def divide_parts(region: ProductRegion, ranks: Ranks) -> None:
    """Puts the part of a CTA of a cluster in place of what the parts replace.

    There are as many as CTAs along the dim of the cut.
    """
    loop = build_part_loop(region, ranks).parent_op()
    if not isinstance(loop, aa.ForOp) or region.cut.parts != ranks.count:
        raise InternalError("parts are not those of the CTAs of a cluster", where="tileas-slicing")
    _unroll_one(loop)


def _unroll_one(loop: aa.ForOp) -> None:
    """Puts the only iteration of a loop in its place."""
    body, block = loop.body.block, loop.parent_block()
    if block is None:
        raise InternalError("a loop stands in no block")
    for argument, value in zip(body.args, (loop.lower_bound, *loop.init_values), strict=True):
        argument.replace_all_uses_with(value)
    end = body.last_op
    for op in list(body.ops):
        op.detach()
        if op is not end:
            block.insert_op_before(op, loop)
    if end is not None:
        for old, new in zip(loop.results, end.operands, strict=True):
            old.replace_all_uses_with(new)
        end.erase()
    erase_op(loop)


def build_part_loop(region: ProductRegion, ranks: Ranks | None = None) -> Block:
    """Puts the loop in place of what it replaces; returns its body.

    With `ranks` it has one iteration: the part of the CTA.
    """
    block, cut = region.cut.block, region.cut
    before = ScalarBuilder()
    before.location = region.last.location
    bounds = [before.integer(bound, i32) for bound in (0, cut.parts if ranks is None else 1, 1)]
    replaced = list(region.leaving)
    initial = [before.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0] for _ in replaced]
    reductions = [op for op in region.moved if isinstance(op, aa.ReduceOp) and op in cut.sinks]
    for op in reductions:
        replaced += op.results
        initial += initial_values(before, op)
    types = [value.type for value in initial]
    body = Block(arg_types=[i32, *types])
    writer = _RegionWriter(cut, body)
    if ranks is not None:
        writer.part = writer.part_of_rank(ranks)
    writer.write(region)
    carried = list(body.args[1:])
    ends = [
        writer.emit(aa.JoinMemTokensOp, [old, writer.values[token]], [MEM_TOKEN]).results[0]
        for token, old in zip(region.leaving, carried)
    ]
    position = len(region.leaving)
    for op in reductions:
        count = len(op.results)
        ends += combine(writer, op, carried[position : position + count])
        position += count
    writer.emit(aa.ContinueOp, ends)
    loop = before.emit(aa.ForOp, [*bounds, *initial], types, {}, [Region(body)])
    before.put_before(region.last)
    for op in reversed(region.sunk):
        op.detach()
        block.insert_op_after(op, loop)
    for old, new in zip(replaced, loop.results, strict=True):
        old.replace_all_uses_with(new)
    _erase(region)
    return body


def _erase(region: ProductRegion) -> None:
    """Erases what moved, and what nobody uses any more."""
    moved = dict.fromkeys(region.moved)
    for op in reversed(region.ops):
        if op in moved or not any(True for result in op.results for _ in result.uses):
            erase_op(op)


class _RegionWriter(PartBuilder):
    """Writes the operations of a region for one part: cut where they are, else as they were."""

    def __init__(self, cut: ProductCut, block: Block):
        super().__init__(cut.parts, block, block.args[0])
        self.cut = cut

    def part_of_rank(self, ranks: Ranks) -> SSAValue:
        """The part that this CTA has: its number along the dim of the cut."""
        properties: dict[str, Attribute] = {}
        if ranks.count < ranks.size:
            properties = {"stride": IntAttr(ranks.stride), "count": IntAttr(ranks.count)}
        return self.emit(aa.GetClusterRankOp, (), [i32], properties).results[0]

    def write(self, region: ProductRegion) -> None:
        """Writes all operations, reductions along the cut aside."""
        for op in region.ops:
            if isinstance(op, STRUCTURED):
                self._structured(op)
            elif not (isinstance(op, aa.ReduceOp) and op in self.cut.sinks):
                self._plain(op)

    def _plain(self, op: Operation) -> None:
        """An operation once for each way it is cut, and whole if anything needs it so."""
        dims = self.cut.dims_of(op)
        is_whole = not dims or self.cut.is_used_whole(op)
        tokens: list[SSAValue] = []
        for dim in dims:
            built = self.add(op, dim)
            tokens += [r for r in built.results if isinstance(r.type, MemTokenType)]
        if is_whole:
            built = op.clone(self.values)
            self.block.add_op(built)
            tokens += [r for r in built.results if isinstance(r.type, MemTokenType)]
        if len(tokens) > 1 and isinstance(op, LOADS):
            joined = self.emit(aa.JoinMemTokensOp, tokens, [MEM_TOKEN]).results[0]
            self.values[op.result_token] = joined

    # structured control flow

    def _structured(self, op: Structured) -> None:
        """A loop or branch with everything in it."""
        self.location = op.location
        inputs: list[SSAValue] = []
        dims = [self.cut.dim_of(result) for result in op.results]
        if isinstance(op, aa.IfOp):
            inputs = [self.part_of(op.condition, None)]
        else:
            first = first_carried(op)
            carried = [self.cut.dim_of(arg) for arg in op.body.block.args[first:]]
            bounds = list(op.operands)[: len(op.operands) - len(op.init_values)]
            inputs = [self.part_of(value, None) for value in bounds]
            inputs += [self.part_of(v, d) for v, d in zip(op.init_values, carried, strict=True)]
        regions = [self._region(inner) for inner in op.regions]
        self.location = op.location
        types = [self._type(r.type, d) for r, d in zip(op.results, dims, strict=True)]
        built = self.emit(type(op), inputs, types, op.properties, regions)
        for old, dim, new in zip(op.results, dims, built.results, strict=True):
            self._record(old, dim, new)

    def _region(self, old: Region) -> Region:
        """A body or branch; an absent one stays absent."""
        if old.first_block is None:
            return Region()
        args = old.block.args
        dims = [self.cut.dim_of(arg) for arg in args]
        block = Block(arg_types=[self._type(a.type, d) for a, d in zip(args, dims, strict=True)])
        for arg, dim, new in zip(args, dims, block.args, strict=True):
            self._record(arg, dim, new)
        outer, self.block = self.block, block
        for op in old.block.ops:
            self._inner(op)
        self.block = outer
        return Region(block)

    def _inner(self, op: Operation) -> None:
        """An operation of a body or branch."""
        match op:
            case aa.ForOp() | aa.LoopOp() | aa.IfOp():
                self._structured(op)
            case aa.ContinueOp() | aa.BreakOp() | aa.YieldOp():
                self.location = op.location
                ends = zip(op.operands, self.cut.end_dims(op), strict=True)
                self.emit(type(op), [self.part_of(value, dim) for value, dim in ends])
            case _:
                self._plain(op)

    def _type(self, type: Attribute, dim: int | None) -> Attribute:
        return type if dim is None else cut_type(type, dim, self.parts)

    def _record(self, old: SSAValue, dim: int | None, new: SSAValue) -> None:
        if dim is None:
            self.values[old] = new
        else:
            self.cut_values[old, dim] = new
