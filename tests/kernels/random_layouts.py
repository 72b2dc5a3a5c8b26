"""Layouts with their bits dealt at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tileiras.dialects.layout import LinearLayout


def random_layout(
    shape: Sequence[int], like: LinearLayout, generator: random.Random, mixed: bool
) -> LinearLayout:
    """Index bits dealt to registers, lanes and warps at random; `mixed` adds up some of them."""
    size = int(np.prod(shape, dtype=np.int64))
    bits = [1 << bit for bit in range(size.bit_length() - 1)]
    threads = like.in_bits("lane") + like.in_bits("warp")
    moving = bits + [0] * max(0, threads - len(bits) + generator.randrange(3))
    generator.shuffle(moving)
    if mixed:
        for _ in range(len(moving)):
            first, second = generator.randrange(len(moving)), generator.randrange(len(moving))
            if first != second:
                moving[first] ^= moving[second]
    lanes, warps = like.in_bits("lane"), like.in_bits("warp")
    bases = {
        "register": moving[threads:],
        "lane": moving[:lanes],
        "warp": moving[lanes : lanes + warps],
    }
    return LinearLayout.from_index_bases(bases, shape).without_register_duplicates()
