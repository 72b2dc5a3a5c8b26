"""Rebuilds a kernel so that each CTA of a cluster has some of its columns (`split-reductions`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.nv_tileaa.divided_loops import take_tile_blocks
from tileiras.passes.nv_tileaa.part_builder import PartBuilder, ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.divided_columns import DividedColumns
from tileiras.planning.tiling.slicing import cut_type


def divide_columns(func: aa.FuncOp, found: DividedColumns, size: int, many: int) -> None:
    """Every CTA does all that the kernel does, with one part of `size` of its columns; or, where
    there are `many` tile blocks, with all columns of one.
    """
    old = func.body.block
    written = list(old.ops)
    taken = take_tile_blocks(found.loop, size, many)
    rank, alone = taken.rank, taken.alone
    *ops, end = [op for op in written if op.parent_block() is old]
    parts = _Parts(size, Block(), rank)
    parts.dims = found.dims
    for op in ops:
        parts.do(op)
    both = ScalarBuilder()
    both.location, both.block = found.loop.location, Block() if alone is not None else parts.block
    if alone is not None:
        whole, values = Block(), dict[SSAValue, SSAValue]()
        for op in ops:
            whole.add_op(copy := op.clone(values))
            values.update(zip(op.results, copy.results, strict=True))
        both.either(alone, whole, parts.block)
    both.put_before(end)
    for op in reversed(ops):
        erase_op(op)


class _Parts(PartBuilder):
    """The operations of the kernel, with a part of what is cut. `dims`: where."""

    dims: dict[SSAValue, int]

    def do(self, op: Operation) -> None:
        """An operation as a CTA does it."""
        self.location = op.location
        if isinstance(op, aa.ForOp):
            self._loop(op)
            return
        cut = op.value if isinstance(op, aa.TiledStoreOp) else next(iter(op.results), None)
        if cut is not None and cut in self.dims:
            self.add(op, self.dims[cut])
            return
        copy = op.clone({v: self.part_of(v, self.dims.get(v)) for v in op.operands})
        self.block.add_op(copy)
        self.values.update(zip(op.results, copy.results, strict=True))

    def _loop(self, loop: aa.ForOp) -> None:
        """A loop whose carried tiles are cut."""
        old, around = loop.body.block, self.block
        types = [self._part_type(arg) for arg in old.args]
        self.block = Block(arg_types=types)
        self._hand_on(old.args, self.block.args)
        for op in old.ops:
            self.do(op)
        body, self.block, self.location = self.block, around, loop.location
        operands = [self.part_of(v, self.dims.get(v)) for v in loop.operands]
        made = self.emit(aa.ForOp, operands, types[1:], loop.properties, [Region(body)])
        made.attributes.update(loop.attributes)
        self._hand_on(loop.results, made.results)

    def _part_type(self, value: SSAValue) -> Attribute:
        """The type of a value, or of its part."""
        cut = value in self.dims
        return cut_type(value.type, self.dims[value], self.parts) if cut else value.type

    def _hand_on(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Values stand for others, or for parts of them."""
        for value, made in zip(old, new, strict=True):
            if value in self.dims:
                self.cut_values[value, self.dims[value]] = made
            else:
                self.values[value] = made
