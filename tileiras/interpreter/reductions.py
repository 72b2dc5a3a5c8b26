"""`reduce` and `scan`: any associative body, applied to whole slices of the tiles at once.

Neighbours are combined pairwise, in log2(n) steps; the body's arguments alternate per operand
between the later element and what was accumulated before it. The identities are not needed for
that and not looked at. A body that is not elementwise (nested control flow, slices) runs once per
element pair instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile import reductions as ct
from tileiras.dialects.cuda_tile.control_flow import YieldOp
from tileiras.dialects.cuda_tile.conversions import PackOp, UnpackOp
from tileiras.dialects.cuda_tile.tiles import AssumeOp, ConstantOp
from tileiras.interpreter.conversions import RULES as CONVERSIONS_RULES
from tileiras.interpreter.equivalent_ops import ELEMENTWISE as EQUIVALENTS
from tileiras.interpreter.float_arithmetic import RULES as FLOAT_ARITHMETIC_RULES
from tileiras.interpreter.formats import Array
from tileiras.interpreter.integer_arithmetic import RULES as INTEGER_ARITHMETIC_RULES
from tileiras.interpreter.math_functions import RULES as MATH_FUNCTIONS_RULES
from tileiras.interpreter.state import BlockRun, EffectRule

ELEMENTWISE: frozenset[type[Operation]] = frozenset(
    {
        *FLOAT_ARITHMETIC_RULES,
        *INTEGER_ARITHMETIC_RULES,
        *MATH_FUNCTIONS_RULES,
        *CONVERSIONS_RULES,
        AssumeOp,
        ConstantOp,
        YieldOp,
        *EQUIVALENTS,
        aa.ConstantOp,
        aa.YieldOp,
    }
    - {PackOp, UnpackOp}
)
"""Operations whose rule gives the same on a stack of scalars as on each scalar."""

Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]
"""`combine(later, earlier)`, one array per operand."""


def _combiner(run: BlockRun, op: Any) -> Combine:
    def whole(later: Sequence[Array], earlier: Sequence[Array]) -> list[Array]:
        shape = later[0].shape
        arguments = [part for pair in zip(later, earlier) for part in pair]
        results = run.run_region(op.body, arguments).values
        return [np.broadcast_to(result, shape) for result in results]

    def one_by_one(later: Sequence[Array], earlier: Sequence[Array]) -> list[Array]:
        results = [np.empty_like(part) for part in later]
        for place in np.ndindex(later[0].shape):
            pairs = zip(later, earlier)
            arguments = [np.asarray(part[place]) for pair in pairs for part in pair]
            for result, value in zip(results, run.run_region(op.body, arguments).values):
                result[place] = value
        return results

    is_elementwise = all(type(inner) in ELEMENTWISE for inner in op.body.block.ops)
    return whole if is_elementwise else one_by_one


def reduce_rule(run: BlockRun, op: ct.ReduceOp | aa.ReduceOp) -> list[Array]:
    """Combines along an axis."""
    combine = _combiner(run, op)
    axis = op.dim.value.data
    parts = [np.moveaxis(tile, axis, 0) for tile in run.values(op.arguments)]
    while parts[0].shape[0] > 1:
        parts = combine([part[1::2] for part in parts], [part[0::2] for part in parts])
    return [part[0] for part in parts]


def scan_rule(run: BlockRun, op: ct.ScanOp | aa.ScanOp) -> list[Array]:
    """Inclusive prefixes along an axis."""
    combine = _combiner(run, op)
    axis = op.dim.value.data
    is_reversed = bool(op.reverse.value.data)
    parts = [np.moveaxis(tile, axis, 0) for tile in run.values(op.arguments)]
    if is_reversed:
        parts = [part[::-1] for part in parts]
    distance, size = 1, parts[0].shape[0]
    while distance < size:
        combined = combine(
            [part[distance:] for part in parts], [part[:-distance] for part in parts]
        )
        parts = [np.concatenate((old[:distance], new)) for old, new in zip(parts, combined)]
        distance *= 2
    if is_reversed:
        parts = [part[::-1] for part in parts]
    return [np.moveaxis(part, 0, axis) for part in parts]


EFFECT_RULES: dict[type[Operation], EffectRule] = {
    ct.ReduceOp: reduce_rule,
    ct.ScanOp: scan_rule,
}
"""Reductions by class."""
