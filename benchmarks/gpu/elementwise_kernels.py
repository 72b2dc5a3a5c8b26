"""Small elementwise kernels as users write them: many tile blocks of little work."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]
ROOT_2_OVER_PI = 0.7978845608028654


@ct.kernel
def matrix_add(a, b, out, rows: Int, columns: Int):
    """out = a + b, in two dims."""
    place = (ct.bid(0), ct.bid(1))
    left, right = ct.load(a, place, (rows, columns)), ct.load(b, place, (rows, columns))
    ct.store(out, place, left + right)


@ct.kernel
def silu(x, out, tile: Int):
    """out = x * sigmoid(x)."""
    value = ct.load(x, (ct.bid(0),), (tile,)).astype(ct.float32)
    ct.store(out, (ct.bid(0),), (value / (1.0 + ct.exp(-value))).astype(out.dtype))


@ct.kernel
def gelu(x, out, tile: Int):
    """GELU by its approximation with tanh."""
    value = ct.load(x, (ct.bid(0),), (tile,)).astype(ct.float32)
    inner = ROOT_2_OVER_PI * (value + 0.044715 * value * value * value)
    ct.store(out, (ct.bid(0),), (0.5 * value * (1.0 + ct.tanh(inner))).astype(out.dtype))


@ct.kernel
def dropout(x, out, seed: int, tile: Int):
    """A quarter of the elements becomes zero, by a hash of their places; the others grow."""
    block = ct.bid(0)
    bits = block * tile + ct.arange(tile, dtype=ct.int32) + seed
    bits = (bits ^ (bits >> 15)) * 0x2C1B3C6D
    bits = (bits ^ (bits >> 12)) * 0x297A2D39
    bits = bits ^ (bits >> 15)
    value = ct.load(x, (block,), (tile,)).astype(ct.float32)
    kept = ct.where((bits & 3) != 0, value * (4.0 / 3.0), 0.0)
    ct.store(out, (block,), kept.astype(out.dtype))


@ct.kernel
def rope(x, cosines, sines, out, heads: Int, half: Int):
    """Rotates the halves of every head by the angles of the token; x is [token, head, 2 * half]."""
    token, group = ct.bid(0), ct.bid(1)
    shape = (1, heads, half)
    first = ct.load(x, (token, group, 0), shape).astype(ct.float32)
    second = ct.load(x, (token, group, 1), shape).astype(ct.float32)
    cosine = ct.load(cosines, (token, 0), (1, half)).astype(ct.float32).reshape((1, 1, half))
    sine = ct.load(sines, (token, 0), (1, half)).astype(ct.float32).reshape((1, 1, half))
    ct.store(out, (token, group, 0), (first * cosine - second * sine).astype(out.dtype))
    ct.store(out, (token, group, 1), (second * cosine + first * sine).astype(out.dtype))


@ct.kernel
def swiglu(gate, up, out, tile: Int):
    """out = silu(gate) * up, a part of a row a block."""
    place = (ct.bid(0), ct.bid(1))
    value = ct.load(gate, place, (1, tile)).astype(ct.float32)
    other = ct.load(up, place, (1, tile)).astype(ct.float32)
    ct.store(out, place, (value / (1.0 + ct.exp(-value)) * other).astype(out.dtype))


@ct.kernel
def sine(x, out, tile: Int):
    """out = sin(x)."""
    ct.store(out, (ct.bid(0),), ct.sin(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def cosine(x, out, tile: Int):
    """out = cos(x)."""
    ct.store(out, (ct.bid(0),), ct.cos(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def tangent(x, out, tile: Int):
    """out = tan(x)."""
    ct.store(out, (ct.bid(0),), ct.tan(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def exponential(x, out, tile: Int):
    """out = exp(x)."""
    ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def logarithm(x, out, tile: Int):
    """out = log(x)."""
    ct.store(out, (ct.bid(0),), ct.log(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def power(x, y, out, tile: Int):
    """out = x ** y."""
    base, exponent = ct.load(x, (ct.bid(0),), (tile,)), ct.load(y, (ct.bid(0),), (tile,))
    ct.store(out, (ct.bid(0),), ct.pow(base, exponent))
