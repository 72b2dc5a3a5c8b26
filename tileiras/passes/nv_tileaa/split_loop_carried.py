"""Decides which loops without products are run in parts: those that carry too much.

for ... iter(%a: 32x1024 f32, %b: 32x1024 f32)   65536 words
-> 4 parts of 32x256, each with a loop of its own that reads its part of every tile
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.analysis.register_pressure import block_pressure, tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.passes.nv_tileaa.product_loops import build_part_loop
from tileiras.planning.tiling.product_region import ProductRegion, find_region

MAX_CARRIED_WORDS = 45056
"""Policy: words that a loop may carry: 176 registers for each thread of 8 warps."""
PART_WORDS = 32768
"""Policy: words that are live at once in a part: 128 registers of a thread, as `plan_cta` likes
them.
"""
MAX_PARTS = 64
"""Policy: parts at most: each is written out, or a trip of a loop."""


def split_loop_carried(func: aa.FuncOp) -> list[str]:
    """Splits the loops that carry more than the registers hold, if possible; says which."""
    done: list[str] = []
    for loop in [op for op in func.walk() if isinstance(op, aa.ForOp | aa.LoopOp)]:
        if any(isinstance(op, aa.DotOp) for op in loop.walk()):
            continue
        words = sum(tensor_words(result.type) for result in loop.results)
        if words > MAX_CARRIED_WORDS and (region := _best(loop)) is not None:
            done.append(f"loop that carries {words} registers in {region.cut.parts} parts")
            build_part_loop(region)
    return done


def _best(loop: aa.ForOp | aa.LoopOp) -> ProductRegion | None:
    """The cut of the loop that makes its parts small enough, if there is one."""
    largest = max(loop.results, key=_words)
    live = block_pressure(loop.body.block)
    parts = 2
    while live > parts * PART_WORDS:
        parts *= 2
    if parts > MAX_PARTS:
        return None
    dims = range(len(shape_of(largest)))
    found = [region for dim in dims if (region := find_region(largest, dim, parts)) is not None]
    return min(found, key=_combines, default=None)


def _combines(region: ProductRegion) -> bool:
    """Whether parts of a sum are added up: another order than asked for, and more to carry."""
    return any(isinstance(op, aa.ReduceOp) for op in region.cut.sinks)


def _words(value: SSAValue) -> int:
    return tensor_words(value.type)
