"""What several kernels of the benchmark share: functions that the client inlines."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]
Bool = ct.Constant[bool]
ZERO = ct.PaddingMode.ZERO
LOG2_E = 1.4426950408889634


def tile_of_block(block, row_tiles, column_tiles, group):
    """Row and column of a block's tile: `group` rows at a time, so that blocks share operands."""
    first_row = block // (group * column_tiles) * group
    rows = min(row_tiles - first_row, group)
    place = block % (group * column_tiles)
    return first_row + place % rows, place // rows


def product(a, b, row, column, tm: Int, tn: Int, tk: Int, first, step):
    """One tile of a @ b over every `step`-th tile of the depth, in f32 (f32 operands as tf32)."""
    kind = ct.tfloat32 if a.dtype == ct.float32 else a.dtype
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(first, ct.num_tiles(a, axis=1, shape=(tm, tk)), step):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        total = ct.mma(left.astype(kind), right.astype(kind), total)
    return total


def expert_tile(
    tokens, weights, out, slots, experts, row, column, chosen: Int, tm: Int, tn: Int, tk: Int
):
    """One tile of out[slot] = tokens[slot // chosen] @ weights[expert].T.

    `slots` are sorted by expert, and padded to whole tiles by numbers past the end of `out`.
    """
    mine = ct.gather(slots, row * tm + ct.arange(tm, dtype=ct.int32))
    sources = mine // chosen
    expert = ct.load(experts, index=row, shape=())
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(weights.shape[2], tk)):
        depths = k * tk + ct.arange(tk, dtype=ct.int32)
        left = ct.gather(tokens, (sources[:, None], depths[None, :]))
        right = ct.load(
            weights, (expert, k, column), (1, tk, tn), order=(0, 2, 1), padding_mode=ZERO
        )
        total = ct.mma(left, right.reshape((tk, tn)), total)
    columns = column * tn + ct.arange(tn, dtype=ct.int32)
    ct.scatter(out, (mine[:, None], columns[None, :]), total.astype(out.dtype))


def softmax_step(scores, scale, tops, sums):
    """Softmax over columns that come in parts: powers of 2 of the scores of one more part.

    Gives these, the factor of what was summed before, and the rows' new maxima and sums.
    """
    top = max(tops, ct.max(scores, axis=1, keepdims=True) * scale)
    powers = ct.exp2(scores * scale - top, flush_to_zero=True)
    fade = ct.exp2(tops - top, flush_to_zero=True)
    sums = sums * fade + ct.sum(powers, axis=1, keepdims=True)
    return powers, fade, top, sums


def divided(total, sums):
    """Sums of weighted values by sums of weights."""
    return ct.truediv(total, sums, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
