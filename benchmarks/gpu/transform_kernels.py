"""Transforms as users write them: small products by matrices that all tile blocks share."""

from __future__ import annotations

import cuda.tile as ct

Int = ct.Constant[int]


def complex_product(real, imaginary, x, y):
    """Both parts of a complex matrix times one of x + iy."""
    first = ct.matmul(real, x) - ct.matmul(imaginary, y)
    return first, ct.matmul(imaginary, x) + ct.matmul(real, y)


def parts(array, rows: Int, columns: Int, shape):
    """The real and the imaginary part of a matrix of pairs."""
    pairs = ct.load(array, (0, 0, 0), (rows, columns, 2))
    real = ct.extract(pairs, (0, 0, 0), (rows, columns, 1)).reshape(shape)
    return real, ct.extract(pairs, (0, 0, 1), (rows, columns, 1)).reshape(shape)


@ct.kernel
def fourier(x, out, first, second, third, twiddles, inner, rows: Int, n: Int, packed: Int):
    """The Fourier transform of n ** 3 points: one along each of three dims, twiddled in between."""
    count, place = n * n * n, (ct.bid(0), 0, 0)
    pairs = ct.load(x, place, (rows, 2 * count // packed, packed)).reshape((rows, count, 2))
    real = ct.extract(pairs, (0, 0, 0), (rows, count, 1)).reshape((rows, n, n * n))
    imaginary = ct.extract(pairs, (0, 0, 1), (rows, count, 1)).reshape((rows, n, n * n))
    a, b = parts(first, n, n, (1, n, n))
    real, imaginary = complex_product(a, b, real, imaginary)
    real, imaginary = real.reshape((rows, count, 1)), imaginary.reshape((rows, count, 1))
    c, s = parts(twiddles, n, n * n, (count, 1))
    real, imaginary = real * c - imaginary * s, real * s + imaginary * c
    real = real.reshape((rows, n, n, n)).permute((0, 2, 3, 1)).reshape((rows, n, n * n))
    imaginary = imaginary.reshape((rows, n, n, n)).permute((0, 2, 3, 1))
    a, b = parts(second, n, n, (1, n, n))
    real, imaginary = complex_product(a, b, real, imaginary.reshape((rows, n, n * n)))
    real, imaginary = real.reshape((rows, n * n, n)), imaginary.reshape((rows, n * n, n))
    c, s = parts(inner, n, n, (n * n, 1))
    real, imaginary = real * c - imaginary * s, real * s + imaginary * c
    real = real.reshape((rows, n, n, n)).permute((0, 2, 3, 1)).reshape((rows, n, n * n))
    imaginary = imaginary.reshape((rows, n, n, n)).permute((0, 2, 3, 1))
    a, b = parts(third, n, n, (1, n, n))
    real, imaginary = complex_product(a, b, real, imaginary.reshape((rows, n, n * n)))
    real = real.reshape((rows, n, n, n)).permute((0, 1, 3, 2)).reshape((rows, count, 1))
    imaginary = imaginary.reshape((rows, n, n, n)).permute((0, 1, 3, 2)).reshape((rows, count, 1))
    pairs = ct.cat((real, imaginary), axis=-1)
    ct.store(out, place, pairs.reshape((rows, 2 * count // packed, packed)))
