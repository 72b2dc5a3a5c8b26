"""What bounds say of an operation on integers: a comparison that is decided, a plain division.

    c = cmpi less_than signed i, 0       i is known to be in [0, 1023]     ->  c = false
    q = divi i, n signed rounding<negative_inf>       both are not negative  ->  unsigned

Frontends print the remainder of a sign that a language rounds down in ten operations, and kernels
find their tile by some of these in their first cycles.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.facts import Facts
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type


def known_value(converter: Converter, op: Operation) -> SSAValue | None:
    """The scalar that an operation on integers is, if that is a number or one of two that exist."""
    facts, result = converter.facts, op.results[0]
    found, type = facts[result], convert_type(result.type)
    if found.rank or not isinstance(type, IntegerType):
        return None
    if found.constant is not None:
        return converter.integer(found.constant & ((1 << found.width) - 1), type)
    if isinstance(op, ct.SelectOp) and (holds := facts[op.cond].constant) is not None:
        return converter.value(op.val_if_true if holds else op.val_if_false)
    return None


def plain_properties(facts: Facts, op: Operation) -> Mapping[str, Attribute]:
    """The properties of an operation; unsigned ones of a division of what is not negative."""
    if not isinstance(op, ct.DivIOp | ct.RemIOp) or op.signedness.data is Signedness.UNSIGNED:
        return op.properties
    if any(facts[value].range()[0] < 0 for value in op.operands):
        return op.properties
    changed: dict[str, Attribute] = {"signedness": SignednessAttr(Signedness.UNSIGNED)}
    if isinstance(op, ct.DivIOp) and op.rounding.data is RoundingMode.NEGATIVE_INF:
        changed["rounding"] = RoundingModeAttr(RoundingMode.ZERO)
    return {**op.properties, **changed}
