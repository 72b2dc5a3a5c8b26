"""A right operand of wgmma whose columns are contiguous, written again with K contiguous.

For operands of 8 bits, where the left one comes from registers. Each warpgroup has a copy of its
own and transposes the whole tile: 32 K of 16 columns at a time go through registers, by a
transposing `ldmatrix`, four byte permutations, and `stmatrix`. The order of K is that of
`dialects/layout/wgmma_k_order`. Operands of 32 bits are transposed in another way
(`transposed_words`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.transposed_words import COPIES, transpose_words
from tileiras.codegen.lowering.types import storage_bits, storage_bytes
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.shared import swizzled_panels
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import SHARED
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import MemDescType, is_in_smem
from tileiras.errors import InternalError, required

WARPGROUP_BARRIER = 2
"""Named barrier of the first warpgroup; 0 is that of the CTA, 1 that of the consumers."""
WARPGROUP = 128
ALIGNMENT = 1024
_MATRIX_K, _COLUMNS = 32, 16
"""What four matrices hold: 8 lines of 16 bytes each."""
_AT_ONCE = 4
"""Blocks that are loaded before the first is stored: four registers each."""
_SELECTORS = (0x6420, 0x7531)
"""Bytes of two words (PTX ISA, "prmt") that are four K of the even column, of the odd one."""
STORED_COLUMNS = (2, 4, 9, 1)
"""The columns that the bits of a lane's number add for `stmatrix`, but for the last bit.

A matrix has the even ones of columns 0 to 7 and the odd ones of 8 to 15, the next matrix the
others: eight lines whose chunks of 16 bytes a swizzle puts on different banks. Of eight even
columns two would share the banks of one.
"""
_UPPER_LANES = 16
"""Lanes that hold columns 8 to 15 after a transposing `ldmatrix`."""

Bases = tuple[list[int], list[int]]
"""Byte offsets by the bits of the lane and of the warp."""


def lower_smem_transpose(ctx: KernelLowering, op: Operation) -> None:
    """Turns a tile of (K, columns); its pointer is where this warpgroup has it."""
    if not isinstance(op, wg.SmemTransposeOp) or not is_in_smem(op.tile.type):
        raise InternalError("the rule of smem_transpose got another operation")
    b, type, pointer = ctx.b, op.tile.type, ctx.value(op.tile)
    k, columns = type.shape
    if not is_in_smem(op.result.type):
        raise InternalError("a transposed tile is no tile", where="wgmma")
    bits, swizzle = storage_bits(type.element_type), op.result.type.swizzle
    if bits == 32:
        transpose_words(ctx, op, *_memory(ctx, op, COPIES))
        return
    operand = SharedOperand("k", columns, k, bits, swizzle)
    group = b.lshr(b.thread_id(), b.i32(7))
    target, each = _memory(ctx, op, ctx.num_warps // 4)
    # The other warps may still multiply by what was here before.
    b.group_barrier(WARPGROUP_BARRIER, group, WARPGROUP)
    Transposition(ctx, pointer, target, type, operand, 4, each).run()
    b.fence_proxy_async()
    b.group_barrier(WARPGROUP_BARRIER, group, WARPGROUP)
    first = b.shfl("idx", b.mul(group, b.i32(each)), 0)
    ctx.values[op.result] = b.gep(target, first)


def _memory(ctx: KernelLowering, op: wg.SmemTransposeOp, copies: int) -> tuple[SSAValue, int]:
    """Memory of all copies, and its bytes for each: room for the largest tile.

    Tiles are transposed through shared memory one after another in the same place. A warpgroup
    keeps to its own: the others may still multiply by a tile of another size.
    """
    each = max(map(_tile_bytes, _all_transposes(op)))
    if ctx.roles.smem_transpose is None:
        total = each * copies
        memory = llvm_memory.GlobalOp.make(ctx.symbols.unique("turned"), total, SHARED, ALIGNMENT)
        ctx.add_globals(memory)
        ctx.scratch.reserve(total)
        ctx.roles.smem_transpose = ctx.prologue.address_of(memory)
    return ctx.roles.smem_transpose, each


def _all_transposes(op: wg.SmemTransposeOp) -> Iterator[wg.SmemTransposeOp]:
    """All operations that transpose tiles in the consumers' program."""
    program: Operation = op
    while (parent := program.parent_op()) is not None and not isinstance(parent, pl.AgentSwitchOp):
        program = parent
    block = required(program.parent_block(), "a tile is transposed in no program", "wgmma")
    for first in block.ops:
        yield from (found for found in first.walk() if isinstance(found, wg.SmemTransposeOp))


def _tile_bytes(op: wg.SmemTransposeOp) -> int:
    """Bytes of a tile that is transposed."""
    if not is_in_smem(op.tile.type):
        raise InternalError("what is transposed is no tile", where="wgmma")
    return prod(op.tile.type.shape) * storage_bytes(op.tile.type.element_type)


class Transposition:
    """Reads from the tile at `source`, writes the copy behind `target`; `warps` divide the columns.

    Groups of so many warps have copies of their own, `copy_bytes` apart.
    """

    def __init__(
        self,
        ctx: KernelLowering,
        source: SSAValue,
        target: SSAValue,
        type: MemDescType,
        operand: SharedOperand,
        warps: int,
        copy_bytes: int = 0,
        at_once: int = _AT_ONCE,
    ):
        self.ctx = ctx
        self.source = source
        self.target = target
        self.at_once = at_once
        self.k, self.columns = type.shape
        bits = operand.element_bits
        self.read = swizzled_panels(type.shape, 1, bits, type.swizzle).invert()
        self.written = operand.layout(0).invert()
        groups = ctx.num_warps // warps if copy_bytes else 1
        self.together = warps * _COLUMNS
        columns = [_COLUMNS << bit for bit in range(warps.bit_length() - 1)]
        copies = [copy_bytes << bit for bit in range(groups.bit_length() - 1)]
        self.read_bases: Bases = (
            [_offset(self.read, k=k) for k in (1, 2, 4, 8, 16)],
            [*(_offset(self.read, column=column) for column in columns), *(0 for _ in copies)],
        )
        self.written_bases: Bases = (
            [*(_offset(self.written, column=column) for column in STORED_COLUMNS)],
            [*(_offset(self.written, column=column) for column in columns), *copies],
        )
        self.written_bases[0].append(_offset(self.written, k=_MATRIX_K // 2))
        b = ctx.prologue
        even, odd = (b.i32(selector) for selector in _SELECTORS)
        upper = b.and_(b.thread_id(), b.i32(_UPPER_LANES))
        is_lower = b.icmp("eq", upper, b.i32(0))
        self._selectors = (b.select(is_lower, even, odd), b.select(is_lower, odd, even))

    def run(self) -> None:
        """All blocks of this warp, as many at once as there are registers for."""
        blocks = [
            (k, column)
            for k in range(0, self.k, _MATRIX_K)
            for column in range(0, self.columns, self.together)
        ]
        for first in range(0, len(blocks), self.at_once):
            together = blocks[first : first + self.at_once]
            loaded = [self._load(k, column) for k, column in together]
            for (k, column), value in zip(together, loaded, strict=True):
                self._store(k, column, value)

    def _load(self, k: int, column: int) -> SSAValue:
        place = _offset(self.read, k=k, column=column)
        pointer = self._at(self.source, self.read_bases, place)
        return self.ctx.b.ldmatrix(pointer, 4, transposed=True)

    def _store(self, k: int, column: int, loaded: SSAValue) -> None:
        b = self.ctx.b
        selectors = self._selectors
        lines = [b.extract(loaded, index) for index in range(4)]
        words = [
            b.unary_intrinsic("llvm.nvvm.prmt", lines[half], lines[half + 1], selector)
            for half in (0, 2)
            for selector in selectors
        ]
        place = _offset(self.written, k=k, column=column)
        b.stmatrix(b.build(words), self._at(self.target, self.written_bases, place))

    def _at(self, pointer: SSAValue, bases: Bases, offset: int) -> SSAValue:
        """This thread's address moved (`^`) by an offset in bytes; what is disjoint is added."""
        used = 0
        for vector in (*bases[0], *bases[1]):
            used |= vector
        base = self.ctx.threads.moved(bases[0], bases[1], offset & used)
        return self.ctx.b.gep(self.ctx.b.gep(pointer, base), offset & ~used)


def _offset(places: LinearLayout, k: int = 0, column: int = 0) -> int:
    """The byte of an element, from the inverse of a layout of (K, columns)."""
    return places.apply_index(dim0=k, dim1=column)
