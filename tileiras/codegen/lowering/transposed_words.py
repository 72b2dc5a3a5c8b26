"""A right operand of wgmma in 32-bit words whose columns are contiguous, written with K contiguous.

The consumers share the work: each thread loads four words of a column and stores them at once
(`dialects/layout/transposed_words`), while the product of the tile before runs, which reads another
copy. Then that product is waited for, and the threads meet: the tile is written, and nobody reads
the other copy any more, where the next one goes.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import Variable
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import offset_terms
from tileiras.dialects.layout.shared import swizzled_panels
from tileiras.dialects.layout.transposed_words import CHUNK_WORDS, transposed_words
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.dialects.nv_tileas.wgmma import SmemTransposeOp
from tileiras.errors import InternalError

COPIES = 2
"""Tiles transposed through shared memory that there is memory for."""
WORD = 4
_AT_ONCE = 16
"""Words that a thread loads before it stores the first."""


def transpose_words(ctx: KernelLowering, op: SmemTransposeOp, memory: SSAValue, each: int) -> None:
    """Transposes a tile into the copy in `memory` whose turn it is, for all consumers.

    Copies are `each` bytes apart, a power of two.
    """
    b, type = ctx.b, op.tile.type
    if not is_in_smem(type) or not is_in_smem(op.result.type):
        raise InternalError("what is transposed is no tile", where="wgmma")
    if ctx.roles.next_copy is None:
        ctx.roles.next_copy = Variable(ctx, 0)
    place = ctx.roles.next_copy.get(b)
    ctx.roles.next_copy.set(b, b.xor(place, b.i32(each)))
    k_axis = op.result.type.major
    k, columns = type.shape[k_axis], type.shape[1 - k_axis]
    shared = swizzled_panels((k, columns), 1, 8 * WORD, type.swizzle)
    smem_transpose = SharedOperand("k", columns, k, 8 * WORD, op.result.type.swizzle).layout(0)
    words = transposed_words((k, columns), ctx.num_warps)
    source = _Places(ctx, ctx.value(op.tile), words, shared)
    target = _Places(ctx, b.gep(memory, place), words, smem_transpose)
    registers = range(words.in_size("register"))
    for first in registers[::_AT_ONCE]:
        together = registers[first : first + _AT_ONCE]
        loaded = [b.load(source.of(register), i32, WORD) for register in together]
        for start in range(0, len(loaded), CHUNK_WORDS):
            chunk = b.build(loaded[start : start + CHUNK_WORDS])
            b.store(chunk, target.of(first + start), WORD * CHUNK_WORDS)
    b.fence_proxy_async()
    if op.running is not None and op.finished is not None:
        (ctx.values[op.finished],) = b.wgmma_wait(0, ctx.value(op.running))
    b.barrier()
    ctx.values[op.result] = target.start


class _Places:
    """Where this thread's words lie in a tile at `start` that is laid out as `shared`."""

    def __init__(
        self, ctx: KernelLowering, start: SSAValue, words: LinearLayout, shared: LinearLayout
    ):
        self._ctx = ctx
        self.start = start
        terms = offset_terms(words, shared)
        self._registers, self._lane, self._warp = (
            [WORD * offset for offset in part] for part in (terms.register, terms.lane, terms.warp)
        )
        self._mixed = 0
        for offset in (*self._lane, *self._warp):
            self._mixed |= offset

    def of(self, register: int) -> SSAValue:
        """The address of a word; what no bit of the thread's number moves is added to a base."""
        offset = self._registers[register]
        moved = self._ctx.threads.moved(self._lane, self._warp, offset & self._mixed)
        return self._ctx.b.gep(self._ctx.b.gep(self.start, moved), offset & ~self._mixed)
