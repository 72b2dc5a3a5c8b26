"""Lowering of elementwise ops: one rule per op, on scalars and on vectors alike."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.elementwise import (
    conversions,
    division,
    floats,
    integers,
    math,
    trigonometry,
)
from tileiras.codegen.lowering.elementwise.request import Request, Rule
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.nv_tileaa import arithmetic as arithmetic_ops
from tileiras.dialects.nv_tileaa import conversions as conversion_ops
from tileiras.dialects.nv_tileaa import math as math_ops
from tileiras.dialects.operations import operations_of
from tileiras.errors import InternalError

_ELSEWHERE: dict[type[Operation], Rule] = {
    conversion_ops.IntToPtrOp: conversions.lower_address_cast,
    conversion_ops.PtrToIntOp: conversions.lower_address_cast,
    conversion_ops.PtrToPtrOp: conversions.lower_address_cast,
}
"""Rules that do not have the name of their operation."""


def _rules() -> dict[type[Operation], Rule]:
    """`nv_tileaa.cos` becomes what `lower_cos` says, in one of the files of this package."""
    modules = (conversions, division, floats, integers, math, trigonometry)
    known = {name: rule for module in modules for name, rule in vars(module).items()}
    found: dict[type[Operation], Rule] = {}
    for op in operations_of(arithmetic_ops, math_ops, conversion_ops):
        rule = known.get(f"lower_{op.name.partition('.')[2]}", _ELSEWHERE.get(op))
        if rule is None:
            raise InternalError(f"nothing says how to lower {op.name}", where="elementwise")
        found[op] = rule
    return found


RULES: dict[type[Operation], Rule] = _rules()
"""How each elementwise op becomes LLVM ops."""


def is_elementwise(op: Operation) -> bool:
    """Whether `lower_elementwise` knows the op."""
    return type(op) in RULES


def lower_elementwise(
    b: ThreadBuilder, op: Operation, args: Sequence[SSAValue], target: GpuTarget
) -> SSAValue:
    """Appends what `op` computes on `args` and returns the result's registers.

    `args` stand for the op's operands: all scalars, or vectors of one length that hold a thread's
    elements, in the types of `lowering.types`. Raises CompileError, with the op's place, for what
    the target or this compiler cannot do.
    """
    rule = RULES.get(type(op))
    if rule is None:
        raise InternalError(f"{op.name} is not elementwise", where="elementwise lowering")
    return rule(Request(b, op, tuple(args), target))
