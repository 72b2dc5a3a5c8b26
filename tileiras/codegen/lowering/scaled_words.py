"""Scales of block-scaled products: a thread's bytes as the words that instructions read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.thread_map import ThreadMap
from tileiras.dialects.layout.scales import WORD_SCALES, ScaleWords
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of, vector_type

_QUADS = (0, 0, 4, 8, 16)
"""By lane bits: the first lane of a quad."""
_BLOCKS = (0, 0x1111, 0, 0, 0)
"""By lane bits: threads 2 and 3 of a quad have the second block of 16 of each 32 elements."""
_SIGN_OF_FIRST = 0x8888
"""The sign of byte 0 in all bits of a word (PTX ISA, "prmt": bit 3 of a selector)."""
_TWO_BLOCKS = 0x2222
"""Added to that: two bytes further on."""
_F4_SIGNS = 0x88888888 - (1 << 32)
"""The signs of eight f4, as a signed word."""
_SCALE_SIGNS = 0x80808080 - (1 << 32)
"""The signs of four scales, as a signed word."""


def scale_words(ctx: KernelLowering, scales: SSAValue, blocks: int) -> SSAValue:
    """Words of four scales each; where K has fewer, those above are zero, and nobody reads them.

    `scales`: bytes in the layout `dialects.layout.scales` of a tile with `blocks` along K.
    """
    each, lanes = min(blocks, WORD_SCALES), lanes_of(scales.type) or 1
    parts = [ctx.b.slice(scales, first, each) for first in range(0, lanes, each)]
    # Word by word: LLVM would make pairs of words of the whole, and take them apart again.
    narrow = ctx.b.build([ctx.b.bitcast(part, integer_type(8 * each)) for part in parts])
    return narrow if each == WORD_SCALES else ctx.b.zext(narrow, i32)


def any_negative(ctx: KernelLowering, words: Sequence[SSAValue]) -> SSAValue:
    """i1: whether a lane of the warp has a negative scale among some words."""
    b = ctx.b
    found: SSAValue = b.i32(0)
    for vector in words:
        for lane in range(lanes_of(vector.type) or 1):
            found = b.or_(found, b.extract(vector, lane))
    return b.vote("any", b.icmp("ne", b.and_(found, b.i32(_SCALE_SIGNS)), b.i32(0)))


@dataclass(frozen=True)
class SignedOperand:
    """Packed f4 `fragments` of a step, the words of all their `scales`, and how these lie."""

    fragments: SSAValue
    scales: SSAValue
    side: ScaleWords


def with_signs(
    ctx: KernelLowering,
    negative: SSAValue,
    operands: Sequence[SignedOperand],
    reps_k: int,
    first: int,
) -> list[SSAValue]:
    """Fragments as words, with the signs of their scales where any is `negative`.

    Scales hardly ever are, so the code for it is out of the way.
    """
    b = ctx.b
    words = [_as_words(ctx, operand.fragments) for operand in operands]
    types = [value.type for value in words]
    turning, after = b.new_block(), b.new_block(types)
    b.cond_br(negative, turning, after, (), words, is_rare=True)
    ctx.start_block(turning)
    turned = [
        _signed(ctx, value, operand, reps_k, first)
        for value, operand in zip(words, operands, strict=True)
    ]
    ctx.b.br(after, turned)
    ctx.start_block(after)
    return list(after.args)


def _as_words(ctx: KernelLowering, fragments: SSAValue) -> SSAValue:
    """Fragments as a vector of i32."""
    return ctx.b.bitcast(fragments, vector_type(i32, bit_width(fragments.type) // 32))


def _signed(
    ctx: KernelLowering, words: SSAValue, operand: SignedOperand, reps_k: int, first: int
) -> SSAValue:
    """Packed f4 fragments with the signs of their scales, which instructions take without a sign.

    A scale of type ue4m3 has 7 bits (PTX ISA, "Alternate floating-point data formats"), one of
    f8E4M3FN has a sign as well. `words`: atoms of `reps_k` steps along K from the `first` on, then
    the others. The scales of a row lie in one lane of its quad; of the
    16 bytes of a lane's row, words 0 and 1 (A) or 0 (B) are K 8 t to 8 t + 7 for thread t of the
    quad, words 2 and 3 or 1 are 32 further on: so a word has elements of one block of 16.
    """
    b, side = ctx.b, operand.side
    rows = 2 if side.which == "A" else 1
    per_atom = 2 * rows
    # Made here, for no register is to be held for what hardly ever runs.
    places = ThreadMap(b, ctx.num_warps)
    result: list[SSAValue] = []
    for atom in range((lanes_of(words.type) or 1) // per_atom):
        fragment, step = divmod(atom, reps_k)
        place = side.select(fragment, (first + step) * WORD_SCALES)
        own = b.extract(operand.scales, place.word)
        for word in range(per_atom):
            half, row = divmod(word, rows)
            lane = places.moved(_QUADS, (), rows * place.thread + row)
            signs = b.shfl("idx", own, lane)
            block = places.moved(_BLOCKS, (), _SIGN_OF_FIRST + half * _TWO_BLOCKS)
            spread = b.unary_intrinsic("llvm.nvvm.prmt", signs, signs, block)
            mask = b.and_(spread, b.i32(_F4_SIGNS))
            result.append(b.xor(b.extract(words, atom * per_atom + word), mask))
    return b.build(result)
