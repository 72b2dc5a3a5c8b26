"""Scales of block-scaled products, which the producer's threads copy into stages.

They lie there as `tcgen05.cp` takes them to tensor memory (`dialects/layout/scale_factors`): four
scales of a row that follow each other along K are a word. Where these four lie side by side in
memory, too, cp.async copies words; else a thread loads the scales one by one and stores a word.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.view_copies import GROUP, Bounds, Chunk, ViewCopies, thread_chunks
from tileiras.codegen.lowering.views import ViewAddressing
from tileiras.dialects.layout.scale_factors import WORD_BLOCKS, scale_terms
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.chunks import chunk_layout
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp


def lower_scales_load(ctx: KernelLowering, op: ScalesLoadOp) -> None:
    """Every thread copies its words."""
    ScaleCopies(ctx, op).copy_tile()


class ScaleCopies(ViewCopies):
    """A thread's copies of one tile of scales, of one byte each."""

    def __init__(self, ctx: KernelLowering, op: ScalesLoadOp):
        shape, axis = view_type_of(op.view).tile_shape, op.axis.data
        self.count = min(WORD_BLOCKS, shape[axis])
        layout = chunk_layout(shape, axis, self.count, ctx.roles.working_warps)
        promised = [int(flag) for flag in op.inbounds.get_values()]
        ViewAddressing.__init__(
            self, ctx, op.view, op.indices, promised or [0] * layout.rank, layout
        )
        self.op, self.axis = op, axis
        self.piece, self.bytes = op.vector.data, WORD_BLOCKS
        self.terms = scale_terms(layout, op.rows.data, axis)
        self.chunks = thread_chunks(self)

    def _copy(self, source: SSAValue, places: dict[int, SSAValue], bounds: Bounds | None) -> None:
        """All words; scales that are loaded in groups, for all loads of one to be under way."""
        b = self.ctx.b
        loaded: list[tuple[SSAValue, SSAValue]] = []
        for chunk in self.chunks:
            word = b.gep(source, self._row_bytes(chunk.steps)) if any(chunk.steps) else source
            place = b.gep(places[chunk.mixed], chunk.added)
            if self.piece == self.bytes:
                self._copy_chunk(word, place, chunk, bounds)
                continue
            loaded.append((self._loaded(word, chunk, bounds), place))
            if len(loaded) == GROUP or chunk is self.chunks[-1]:
                for value, target in loaded:
                    b.store(value, target, self.bytes)
                loaded = []

    def _loaded(self, source: SSAValue, chunk: Chunk, bounds: Bounds | None) -> SSAValue:
        """The scales of a word, loaded one by one; bytes that have none are zero."""
        b, whole, part = self.ctx.b, integer_type(8 * self.bytes), integer_type(8)
        step = self._stride_bytes(self.axis)
        total: SSAValue | None = None
        place = source
        for number in range(self.count):
            exists = None if bounds is None else self._exists(chunk, bounds, number)
            value = b.zext(b.masked_load(place, exists, part, 1, b.zero(part)), whole)
            moved = b.shl(value, b.const_int(whole, 8 * number)) if number else value
            total = moved if total is None else b.or_(total, moved)
            place = b.gep(place, step)
        return b.zero(whole) if total is None else total


RULES: LoweringRules = {
    ScalesLoadOp: lower_scales_load,
}
"""Copies of scales by class."""
