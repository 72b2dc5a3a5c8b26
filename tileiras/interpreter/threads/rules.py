"""What each operation of the llvm and nvvm dialects does: the rules of all chapters by class."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads import (
    access,
    arithmetic,
    barriers,
    calls,
    clusters,
    copies,
    map_slots,
    matrix,
    tma,
    vectors,
    warps,
    wgmma,
)
from tileiras.interpreter.threads.state import Rule

RULES: dict[type[Operation], Rule] = {
    **arithmetic.RULES,
    **vectors.RULES,
    **access.RULES,
    **calls.RULES,
    **warps.RULES,
    **barriers.RULES,
    **clusters.RULES,
    **copies.RULES,
    **matrix.RULES,
    **wgmma.RULES,
    **map_slots.RULES,
    **tma.RULES,
}
"""Every operation but those that end a block or stand in a module."""


def rule_of(op: Operation) -> Rule:
    """The rule of an operation; raises UnknownOperationError if there is none."""
    rule = RULES.get(type(op))
    if rule is None:
        raise UnknownOperationError("the interpreter does not know this operation")
    return rule
