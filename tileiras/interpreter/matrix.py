"""Matrix multiply-accumulate: exact products, summed in float64 with the accumulator, rounded once.

Hardware sums in another order and, for 8- and 16-bit operands, with fewer bits; whoever compares
must allow for it. Integer products are exact and wrap at 32 bits. A scaled operand is multiplied by
its block's scale before the product.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import mma as ct
from tileiras.dialects.cuda_tile.attributes import RoundingMode, Signedness, SignednessAttr
from tileiras.interpreter.float_arithmetic import result_float_format
from tileiras.interpreter.formats import Array, int_format_of
from tileiras.interpreter.rounding import round_to
from tileiras.interpreter.state import PureRule


def _wide(values: Array) -> Array:
    return values.astype(np.float64)


def _mmaf_rule(op: ct.MmaFOp, lhs: Array, rhs: Array, acc: Array) -> Array:
    total = np.matmul(_wide(lhs), _wide(rhs)) + _wide(acc)
    return round_to(total, result_float_format(op), RoundingMode.NEAREST_EVEN)


def _mmai_rule(op: ct.MmaIOp, lhs: Array, rhs: Array, acc: Array) -> Array:
    products = np.matmul(_read(lhs, op.signedness_lhs, op, 0), _read(rhs, op.signedness_rhs, op, 1))
    return int_format_of(op.result.type.element_type).wrap(  # pyright: ignore
        products + acc.astype(np.int64)
    )


def _read(values: Array, signedness: SignednessAttr, op: ct.MmaIOp, position: int) -> Array:
    fmt = int_format_of(op.operands[position].type.element_type)  # pyright: ignore
    return fmt.read(values, signedness.data is Signedness.SIGNED).astype(np.int64)


def _mmaf_scaled_rule(
    op: ct.MmaFScaledOp,
    lhs: Array,
    rhs: Array,
    acc: Array,
    lhs_scale: Array,
    rhs_scale: Array,
) -> Array:
    block = lhs.shape[-1] // lhs_scale.shape[-1]
    scaled_lhs = _wide(lhs) * np.repeat(_wide(lhs_scale), block, axis=-1)
    scaled_rhs = _wide(rhs) * np.repeat(_wide(rhs_scale), block, axis=-2)
    total = np.matmul(scaled_lhs, scaled_rhs) + _wide(acc)
    return round_to(total, result_float_format(op), RoundingMode.NEAREST_EVEN)


RULES: dict[type[Operation], PureRule] = {
    ct.MmaFOp: _mmaf_rule,
    ct.MmaFScaledOp: _mmaf_scaled_rule,
    ct.MmaIOp: _mmai_rule,
}
"""Matrix operations by class."""
