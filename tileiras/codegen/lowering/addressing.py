"""Where a thread's registers lie: coordinates of tiles, offsets in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.llvm.types import vector_type


def thread_coordinate(ctx: KernelLowering, layout: LinearLayout, axis: int) -> SSAValue:
    """Coordinate along `axis` of this thread's register 0, i32."""
    lane = [vector[axis] for vector in layout.basis("lane")]
    warp = [vector[axis] for vector in layout.basis("warp")]
    return ctx.threads.linear(lane, warp)


def register_coordinates(layout: LinearLayout, axis: int) -> list[int]:
    """What each register adds to (`^`) the coordinate of register 0 along `axis`."""
    bases = [vector[axis] for vector in layout.basis("register")]
    return combinations(bases)


def combinations(bases: Sequence[int]) -> list[int]:
    """The `^` of the bases over the set bits of 0, 1, 2, ..."""
    values = [0]
    for basis in bases:
        values += [value ^ basis for value in values]
    return values


def is_disjoint(layout: LinearLayout, axis: int) -> bool:
    """Whether registers and threads use different bits of the coordinate, so that `^` is `+`."""
    thread = 0
    for vector in (*layout.basis("lane"), *layout.basis("warp")):
        thread |= vector[axis]
    register = 0
    for vector in layout.basis("register"):
        register |= vector[axis]
    return thread & register == 0


def combine(ctx: KernelLowering, base: SSAValue, deltas: Sequence[int], disjoint: bool) -> SSAValue:
    """The vector of `base ^ delta` (as `+` when disjoint, which folds into addresses)."""
    b = ctx.b
    vector = b.dense(vector_type(i32, len(deltas)), list(deltas))
    spread = b.splat(base, len(deltas))
    return b.add(spread, vector) if disjoint else b.xor(spread, vector)


def coordinates(ctx: KernelLowering, layout: LinearLayout, axis: int) -> SSAValue:
    """Coordinate of every register along `axis`: a vector of i32."""
    deltas = register_coordinates(layout, axis)
    base = thread_coordinate(ctx, layout, axis)
    return combine(ctx, base, deltas, is_disjoint(layout, axis))
