"""Attention on the PTX machine, beside float64."""

from __future__ import annotations

import numpy as np

from tests.kernels.softmax_attention import RESULT, attention_arguments
from tileiras.interpreter.ptx import run_ptx

SCALE = 0.125


def beside_float64(
    kind: str, text: str, length: int, tile: tuple[int, int], blocks: int, share: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel of f16 leaves for two heads, and the same in float64; a tile has rows and a
    depth.
    """
    rows, depth = tile
    arguments, grid = attention_arguments(rows, length, depth, share, (blocks,))
    arguments[-1] = SCALE
    queries, keys, values = (
        bits.view(np.float16).astype(float).reshape(heads, -1, depth)
        for bits, heads in zip(arguments[:RESULT], (2, 2 // share, 2 // share), strict=True)
    )
    keys, values = (np.repeat(each, share, axis=0)[:, :length] for each in (keys, values))
    scores = queries @ keys.transpose(0, 2, 1) * SCALE
    if kind != "full":
        is_seen = np.arange(queries.shape[1])[:, None] >= np.arange(length)
        scores = np.where(is_seen, scores, -np.inf)
    weights = np.exp2(scores - scores.max(axis=2, keepdims=True))
    wanted = weights @ values / weights.sum(axis=2, keepdims=True)
    run_ptx(text, arguments, grid)
    found = arguments[RESULT].view(np.float16).astype(float).reshape(wanted.shape)
    return found, wanted


def difference_of(
    kind: str, text: str, length: int, tile: tuple[int, int], blocks: int, share: int = 1
) -> float:
    """How far the results of two heads are from float64."""
    found, wanted = beside_float64(kind, text, length, tile, blocks, share)
    return float(np.abs(found - wanted).max())
