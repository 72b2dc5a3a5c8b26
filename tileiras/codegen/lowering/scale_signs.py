"""Signs of scales that instructions take without one: they go to the f4 that the scales are of.

A scale of type ue4m3 has 7 bits (PTX ISA, "Alternate floating-point data formats"), one of
f8E4M3FN has a sign as well. Scales are hardly ever negative, so the warp that issues products looks
at the signs of all scales of a stage. Only where it finds any it turns the signs of f4 in the stage
around, and takes those of the scales away: then other products may read both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, SSAValue

from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pipelines import Variable
from tileiras.codegen.lowering.tensors import cluster_rank
from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    WORD_BLOCKS,
    chunks,
    row_chunks,
)
from tileiras.dialects.llvm.types import vector_type

_LANES = 32
_ROW_BYTES = 16
"""Of a lane, in a chunk."""
_SIGNS = 0x80808080 - (1 << 32)
"""The signs of four scales, as a signed word."""
_F4_SIGNS = 0x8888888888888888 - (1 << 64)
"""The signs of 16 f4, as a signed word of 64 bits."""
_BLOCK_BYTES = 8
"""Bytes of 16 f4, which share a scale."""
_SWIZZLE_SHIFT = 3
"""The number of a row, in units of 128 bytes, is exchanged with that of 16 bytes in it."""


@dataclass(frozen=True)
class SignedOperand:
    """An operand of f4 in a stage, at `tile`, K contiguous, with its `scales`: `blocks` a row."""

    tile: SSAValue
    operand: SharedOperand
    scales: SSAValue
    blocks: int
    is_halved: bool = False
    """Whether this CTA of a pair has but its half of the f4, with the scales of both halves."""
    is_unseen: bool = True
    """Whether nobody has looked at the signs of its scales."""
    condition: SSAValue | None = None
    """i1: whether there is such an operand, if that is not known."""

    @property
    def rows(self) -> int:
        """Rows of A, or columns of B, that have scales here."""
        return self.operand.extent * (2 if self.is_halved else 1)

    @property
    def words(self) -> int:
        """Words of a lane in a chunk."""
        return min(CHUNK_ROWS, self.rows) // _LANES


def start_where(ctx: KernelLowering, condition: SSAValue | None) -> Block | None:
    """What is built from here on is done where a condition (i1) holds, if there is one: up to
    `end_where` of the block.
    """
    if condition is None:
        return None
    inside, after = ctx.b.new_block(), ctx.b.new_block()
    ctx.b.cond_br(condition, inside, after)
    ctx.start_block(inside)
    return after


def end_where(ctx: KernelLowering, after: Block | None) -> None:
    """What follows is done in any case."""
    if after is not None:
        ctx.b.br(after)
        ctx.start_block(after)


def apply_signs(
    ctx: KernelLowering, operands: Sequence[SignedOperand], seen: SSAValue | None
) -> None:
    """Moves the signs of scales to the f4 in stages, by all lanes of a warp, if there are any.

    `seen` (i32) has those of the scales that are not `unseen`; those with a condition are seen.
    """
    b = ctx.b
    lane = b.and_(b.thread_id(), b.i32(_LANES - 1))
    found: SSAValue = b.i32(0) if seen is None else seen
    for operand in operands:
        if not operand.is_unseen:
            continue
        place = b.gep(operand.scales, b.zext(b.mul(lane, b.i32(_ROW_BYTES)), i64))
        for chunk in range(chunks(operand.rows, operand.blocks)):
            words = b.load(b.gep(place, chunk * CHUNK_BYTES), vector_type(i32, 4), _ROW_BYTES)
            for word in range(operand.words):
                found = b.or_(found, b.extract(words, word))
    negative = b.icmp("ne", b.and_(found, b.i32(_SIGNS)), b.i32(0))
    turning, after = b.new_block(), b.new_block()
    b.cond_br(b.vote("any", negative), turning, after)
    ctx.start_block(turning)
    for operand in operands:
        behind = start_where(ctx, operand.condition)
        _turn_signs(ctx, operand, lane)
        end_where(ctx, behind)
    ctx.b.fence_proxy_async()
    ctx.b.warp_barrier()
    ctx.b.br(after)
    ctx.start_block(after)


def _turn_signs(ctx: KernelLowering, operand: SignedOperand, lane: SSAValue) -> None:
    """A loop over the words of scales of a lane."""
    b, number = ctx.b, Variable(ctx, 0)
    number.set(b, b.i32(0))
    head, body, after = (b.new_block() for _ in range(3))
    b.br(head)
    ctx.start_block(head)
    current = number.get(b)
    count = chunks(operand.rows, operand.blocks) * operand.words
    b.cond_br(b.icmp("ult", current, b.i32(count)), body, after)
    ctx.start_block(body)
    number.set(b, b.add(current, b.i32(1)))
    _turn_word(ctx, operand, lane, current)
    b.br(head)
    ctx.start_block(after)


def _turn_word(
    ctx: KernelLowering, operand: SignedOperand, lane: SSAValue, number: SSAValue
) -> None:
    """The f4 of the four blocks of a row whose scales are in one word."""
    b, swizzle, across = ctx.b, operand.operand.swizzle, row_chunks(operand.rows)
    after: Block | None = None
    chunk, word = b.udiv(number, b.i32(operand.words)), b.urem(number, b.i32(operand.words))
    at = b.add(b.mul(chunk, b.i32(CHUNK_BYTES)), b.mul(lane, b.i32(_ROW_BYTES)))
    place = b.gep(operand.scales, b.zext(b.add(at, b.mul(word, b.i32(WORD_BLOCKS))), i64))
    scales = b.load(place, i32, WORD_BLOCKS)
    b.store(b.and_(scales, b.i32(~_SIGNS)), place, WORD_BLOCKS)
    row = b.add(b.mul(b.urem(chunk, b.i32(across)), b.i32(CHUNK_ROWS)), lane)
    row = b.add(row, b.mul(word, b.i32(_LANES)))
    if operand.is_halved:
        # Unsigned: those of the first half are larger than any, seen from the second one.
        row = b.sub(row, b.mul(b.and_(cluster_rank(ctx), b.i32(1)), b.i32(operand.operand.extent)))
        own, after = b.new_block(), b.new_block()
        b.cond_br(b.icmp("ult", row, b.i32(operand.operand.extent)), own, after)
        ctx.start_block(own)
    along = b.mul(b.udiv(chunk, b.i32(across)), b.i32(WORD_BLOCKS * _BLOCK_BYTES))
    panel = b.mul(b.udiv(along, b.i32(swizzle)), b.i32(operand.operand.panel_bytes))
    start = b.add(b.add(b.mul(row, b.i32(swizzle)), panel), b.urem(along, b.i32(swizzle)))
    for block in range(min(WORD_BLOCKS, operand.blocks)):
        plain = b.add(start, b.i32(block * _BLOCK_BYTES))
        mixed = b.and_(b.lshr(plain, b.i32(_SWIZZLE_SHIFT)), b.i32(swizzle - _ROW_BYTES))
        target = b.gep(operand.tile, b.zext(b.xor(plain, mixed), i64))
        sign = b.and_(b.lshr(scales, b.i32(8 * block + 7)), b.i32(1))
        mask = b.and_(b.sub(b.i64(0), b.zext(sign, i64)), b.i64(_F4_SIGNS))
        b.store(b.xor(b.load(target, i64, _BLOCK_BYTES), mask), target, _BLOCK_BYTES)
    if after is not None:
        b.br(after)
        ctx.start_block(after)
