"""Inputs: edges of every type, random bits, moderate numbers, and small integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from tileiras.interpreter.formats import FloatFormat, Format, format_of, from_bits, to_bits


def generator(name: str) -> np.random.Generator:
    """A random generator that depends on a name alone."""
    return np.random.default_rng(crc32(name.encode()))


def edge_bits(element: Attribute) -> np.ndarray:
    """Bit patterns at the edges of a type: zeros, subnormals, extremes, infinities, NaNs."""
    fmt = format_of(element)
    top = 1 << (8 * fmt.storage.itemsize - 1)
    if fmt.name == "i1":
        return np.array([0, 1], dtype=fmt.storage)
    if isinstance(element, IntegerType):
        patterns = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2]
        return np.array(patterns, dtype=fmt.storage)
    numbers = [0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 7.0, 1e-3, 100.0, np.inf, np.nan]
    with np.errstate(all="ignore"):
        values = np.array(numbers, dtype=np.float64).astype(fmt.dtype).view(fmt.storage)
    tiny = np.array([1, 2, 3], dtype=fmt.storage)
    positive = np.concatenate([values, tiny, values[9:10] - fmt.storage.type(1)])
    return np.concatenate([positive, positive | fmt.storage.type(top)])


def normalized(bits: np.ndarray, fmt: Format) -> np.ndarray:
    """Patterns that memory of the type may hold: what it stands for, written back."""
    return np.ascontiguousarray(to_bits(from_bits(bits, fmt), fmt))


def mixed(element: Attribute, shape: Sequence[int] | int, seed: str, position: int = 0) -> Any:
    """Edges against those of the other operand, random bits, and moderate numbers."""
    fmt = format_of(element)
    rng = generator(f"{seed}/{position}")
    count = int(np.prod(shape, dtype=np.int64))
    edges = edge_bits(element)
    against = np.repeat(edges, len(edges)) if position % 2 == 0 else np.tile(edges, len(edges))
    drawn = rng.integers(0, 256, count * fmt.storage.itemsize, dtype=np.uint8).view(fmt.storage)
    if isinstance(fmt, FloatFormat):
        with np.errstate(all="ignore"):
            moderate = (rng.standard_normal(count) * 8).astype(fmt.dtype).view(fmt.storage)
        drawn = np.where(np.arange(count) % 2 == 0, drawn, moderate)
    elif fmt.name == "i1":
        drawn = drawn & 1
    else:
        small = rng.integers(0, 12, count).astype(fmt.storage)
        drawn = np.where(np.arange(count) % 4 == 0, small, drawn)
    return normalized(np.concatenate([against, drawn])[:count], fmt).reshape(shape)


def small_integers(element: Attribute, shape: Sequence[int], seed: str, limit: int = 4) -> Any:
    """Whole numbers from -limit to limit: sums of them are exact in any order."""
    fmt = format_of(element)
    numbers = generator(seed).integers(-limit, limit + 1, tuple(shape))
    if fmt.name == "i1":
        return (numbers & 1).astype(np.uint8)
    return np.ascontiguousarray(to_bits(numbers.astype(fmt.dtype), fmt))


def gaussian(element: Attribute, shape: Sequence[int], seed: str, scale: float = 1.0) -> Any:
    """Normally distributed numbers."""
    fmt = format_of(element)
    numbers = generator(seed).standard_normal(tuple(shape)) * scale
    values = numbers.astype(np.float32).astype(fmt.dtype)
    return normalized(to_bits(values, fmt), fmt)


def distinct(element: Attribute, shape: Sequence[int]) -> Any:
    """Different elements where the type has enough of them: moves cannot hide."""
    fmt = format_of(element)
    count = int(np.prod(shape, dtype=np.int64))
    if fmt.name == "i1":
        return generator("distinct").integers(0, 2, tuple(shape)).astype(np.uint8)
    bits = np.arange(1, count + 1, dtype=np.uint64)
    if fmt.storage.itemsize >= 4:
        bits = bits << np.uint64(8 * fmt.storage.itemsize - 20)
    return normalized(bits.astype(fmt.storage), fmt).reshape(tuple(shape))


def empty(element: Attribute, shape: Sequence[int]) -> Any:
    """An output to be filled, of a pattern that no result has by chance."""
    fmt = format_of(element)
    pattern = np.full(tuple(shape), 0x5A, dtype=np.uint8)
    if fmt.storage.itemsize == 1:
        return np.asarray(pattern & 1) if fmt.name == "i1" else pattern
    wide = np.full(tuple(shape), 0x5A5A5A5A5A5A5A5A & ((1 << (8 * fmt.storage.itemsize)) - 1))
    return normalized(wide.astype(fmt.storage), fmt)
