"""The kernels under test, written for cuTile Python. Importing this needs the package cuda-tile."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]


@ct.kernel
def vector_add(a, b, out, tile: Int):
    """out = a + b, one tile a block."""
    block = ct.bid(0)
    total = ct.load(a, (block,), (tile,)) + ct.load(b, (block,), (tile,))
    ct.store(out, (block,), total)


@ct.kernel
def vector_add_2d(a, b, out, rows: Int, columns: Int):
    """out = a + b on a grid of two dims."""
    index = (ct.bid(0), ct.bid(1))
    total = ct.load(a, index, (rows, columns)) + ct.load(b, index, (rows, columns))
    ct.store(out, index, total)


@ct.kernel
def vector_add_gather(a, b, out, tile: Int):
    """out = a + b through bounds-checked pointers instead of views."""
    places = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    ct.scatter(out, places, ct.gather(a, places) + ct.gather(b, places))


@ct.kernel
def copy_1d(source, out, tile: Int):
    """A copy with a ragged end."""
    ct.store(out, (ct.bid(0),), ct.load(source, (ct.bid(0),), (tile,)))


@ct.kernel
def copy_2d(source, out, rows: Int, columns: Int):
    """A copy with ragged edges."""
    index = (ct.bid(0), ct.bid(1))
    ct.store(out, index, ct.load(source, index, (rows, columns)))


@ct.kernel
def copy_3d(source, out, depth: Int, rows: Int, columns: Int):
    """A copy with ragged faces."""
    index = (ct.bid(0), ct.bid(1), ct.bid(2))
    ct.store(out, index, ct.load(source, index, (depth, rows, columns)))


def padded_copy(mode: ct.PaddingMode) -> ct.kernel:
    """A kernel that copies into a larger array, so that the padding of its loads is seen."""

    @ct.kernel
    def padded(source, out, rows: Int, columns: Int):
        index = (ct.bid(0), ct.bid(1))
        tile = ct.load(source, index, (rows, columns), padding_mode=mode)
        ct.store(out, index, tile)

    return padded


@ct.kernel
def transpose(source, out, rows: Int, columns: Int):
    """out = source transposed, tile by tile."""
    tile = ct.load(source, (ct.bid(0), ct.bid(1)), (rows, columns))
    ct.store(out, (ct.bid(1), ct.bid(0)), ct.transpose(tile))


@ct.kernel
def row_softmax(source, out, rows: Int, columns: Int):
    """Softmax of each row, the row in one tile; missing columns are minus infinity."""
    index = (ct.bid(0), 0)
    tile = ct.load(source, index, (rows, columns), padding_mode=ct.PaddingMode.NEG_INF)
    wide = ct.astype(tile, ct.float32)
    powers = ct.exp(wide - ct.max(wide, axis=1, keepdims=True))
    result = powers / ct.sum(powers, axis=1, keepdims=True)
    ct.store(out, index, ct.astype(result, out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, mean, rstd, eps, columns: Int):
    """Layer norm of one row a block, in three passes over tiles of the row."""
    row = ct.bid(0)
    length = x.shape[1]
    total = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), padding_mode=ct.PaddingMode.ZERO)
        total += ct.astype(tile, ct.float32)
    centre = ct.sum(total, axis=1) / length
    squares = ct.zeros((1, columns), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.load(x, (row, j), (1, columns), padding_mode=ct.PaddingMode.ZERO)
        is_inside = j * columns + ct.arange(columns, dtype=ct.int32) < length
        distance = ct.where(is_inside, ct.astype(tile, ct.float32) - centre, 0.0)
        squares += distance * distance
    scale = ct.rsqrt(ct.sum(squares, axis=1) / length + eps)
    ct.store(mean, (row,), centre)
    ct.store(rstd, (row,), scale)
    for j in range(ct.cdiv(length, columns)):
        tile = ct.astype(ct.load(x, (row, j), (1, columns)), ct.float32)
        gain = ct.astype(ct.load(weight, (j,), (columns,)), ct.float32)
        shift = ct.astype(ct.load(bias, (j,), (columns,)), ct.float32)
        result = (tile - centre) * scale * gain + shift
        ct.store(out, (row, j), ct.astype(result, out.dtype))


@ct.kernel
def matmul(a, b, out, rows: Int, columns: Int, depth: Int):
    """out = a @ b, summed in f32; missing parts of the last tiles count as zero."""
    zero = ct.PaddingMode.ZERO
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((rows, columns), ct.float32)
    for k in range(ct.cdiv(a.shape[1], depth)):
        left = ct.load(a, (row, k), (rows, depth), padding_mode=zero)
        right = ct.load(b, (k, column), (depth, columns), padding_mode=zero)
        total = ct.mma(left, right, total)
    ct.store(out, (row, column), ct.astype(total, out.dtype))


@ct.kernel
def add_until(data, limit, tile: Int):
    """Adds 0, 1, 2... to every element; stops after `limit` rounds, or after 5."""
    block = ct.bid(0)
    values = ct.load(data, (block,), (tile,))
    step = 0
    while step < limit:
        if step == 5:
            break
        values = values + step
        step += 1
    ct.store(data, (block,), values)


@ct.kernel
def row_reductions(source, sums, tops, places, rows: Int, columns: Int):
    """Sum, maximum and position of the maximum of every row."""
    row = ct.bid(0)
    tile = ct.load(source, (row, 0), (rows, columns))
    ct.store(sums, (row,), ct.sum(tile, axis=1))
    ct.store(tops, (row,), ct.max(tile, axis=1))
    ct.store(places, (row,), ct.argmax(tile, axis=1))


def later_minimum(value_a, place_a, value_b, place_b):
    """The smaller value with its place; of equal ones the later place."""
    wins = (value_a < value_b) | ((value_a == value_b) & (place_a > place_b))
    return ct.where(wins, value_a, value_b), ct.where(wins, place_a, place_b)


@ct.kernel
def last_minimum(source, lows, places, rows: Int, columns: Int):
    """A two-operand reduction with a body of our own: the minimum and its last place."""
    row = ct.bid(0)
    tile = ct.load(source, (row, 0), (rows, columns))
    index = ct.broadcast_to(ct.arange(columns, dtype=ct.int32)[None, :], (rows, columns))
    low, place = ct.reduce((tile, index), 1, later_minimum, (2147483647, -1))
    ct.store(lows, (row,), low)
    ct.store(places, (row,), place)


@ct.kernel
def running_sum(source, out, rows: Int, columns: Int):
    """Inclusive prefix sums along every row."""
    index = (ct.bid(0), 0)
    ct.store(out, index, ct.cumsum(ct.load(source, index, (rows, columns)), axis=1))


@ct.kernel
def histogram(source, counts, tile: Int):
    """Counts values with atomic adds; many elements of a tile hit one address."""
    values = ct.load(source, (ct.bid(0),), (tile,))
    ct.atomic_add(counts, values, 1)
