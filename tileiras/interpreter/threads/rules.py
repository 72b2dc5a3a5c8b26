"""What each operation of the llvm and nvvm dialects does: the rules of all chapters by class."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads.access import RULES as ACCESS_RULES
from tileiras.interpreter.threads.arithmetic import RULES as ARITHMETIC_RULES
from tileiras.interpreter.threads.barriers import RULES as BARRIERS_RULES
from tileiras.interpreter.threads.calls import RULES as CALLS_RULES
from tileiras.interpreter.threads.clusters import RULES as CLUSTERS_RULES
from tileiras.interpreter.threads.copies import RULES as COPIES_RULES
from tileiras.interpreter.threads.map_slots import RULES as MAP_SLOTS_RULES
from tileiras.interpreter.threads.matrix import RULES as MATRIX_RULES
from tileiras.interpreter.threads.state import Rule
from tileiras.interpreter.threads.tma import RULES as TMA_RULES
from tileiras.interpreter.threads.vectors import RULES as VECTORS_RULES
from tileiras.interpreter.threads.warps import RULES as WARPS_RULES
from tileiras.interpreter.threads.wgmma import RULES as WGMMA_RULES

RULES: dict[type[Operation], Rule] = {
    **ARITHMETIC_RULES,
    **VECTORS_RULES,
    **ACCESS_RULES,
    **CALLS_RULES,
    **WARPS_RULES,
    **BARRIERS_RULES,
    **CLUSTERS_RULES,
    **COPIES_RULES,
    **MATRIX_RULES,
    **WGMMA_RULES,
    **MAP_SLOTS_RULES,
    **TMA_RULES,
}
"""Every operation but those that end a block or stand in a module."""


def rule_of(op: Operation) -> Rule:
    """The rule of an operation; raises UnknownOperationError if there is none."""
    rule = RULES.get(type(op))
    if rule is None:
        raise UnknownOperationError("the interpreter does not know this operation")
    return rule
