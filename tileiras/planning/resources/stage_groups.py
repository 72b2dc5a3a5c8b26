"""Which products share stages: those of one block that read a loaded tile in common.

%a = load;  %b = load;  %c = load;  %x = dot %a, %b, ..;  %y = dot %a, %c, ..
-> one circular buffer of stages with a, b and c, handed back after both products

So do those whose tiles may turn out to be the same (`operands/uniform`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.operands.tma import OperandLoad, SharedOperand, tile_uses
from tileiras.planning.operands.uniform import may_be_uniform

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot

Dot = TypeVar("Dot", bound="PlannedDot")
"""Products of one strategy, or of any."""


OPERANDS = 2
"""Fixed: left and right one come first, then what is added to, then scales."""


def is_for_products(load: OperandLoad) -> bool:
    """Whether products of the load's own block read the tile, as an operand, and nothing else."""
    for use in tile_uses(load):
        op = use.operation
        is_operand = isinstance(op, aa.ProductOp) and use.index < OPERANDS
        is_operand = is_operand and op.operands[OPERANDS] is not op.operands[use.index]
        if not is_operand or op.parent_block() is not load.parent_block():
            return False
    return True


def stage_groups(dots: Sequence[Dot]) -> list[list[Dot]]:
    """The products of a loop, those that share stages together, in program order."""
    groups: list[list[int]] = []
    brought = [list(stage_operands([planned])) for planned in dots]
    for number, loads in enumerate(brought):
        two_tiles = [group for group in groups if any(_share(loads, brought[i]) for i in group)]
        groups = [group for group in groups if group not in two_tiles]
        groups.append(sorted([*(i for group in two_tiles for i in group), number]))
    return [[dots[i] for i in group] for group in sorted(groups)]


def _share(loads: Sequence[OperandLoad], others: Sequence[OperandLoad]) -> bool:
    """Whether two products read a tile in common, or may turn out to."""
    return any(load is other or may_be_uniform(load, other) for load in loads for other in others)


def stage_operands(group: Sequence[PlannedDot]) -> dict[OperandLoad, SharedOperand]:
    """The loads that fill a stage for these products, in its order, each with one that reads it.

    Left operands lie one behind the other, then right ones: one instruction may read several.
    Scales come last.
    """
    left = [None if planned.is_lhs_resident else planned.lhs for planned in group]
    found: dict[OperandLoad, SharedOperand] = {}
    scales = (scale for planned in group for scale in planned.scales)
    for operand in (*left, *(planned.rhs for planned in group), *scales):
        if operand is not None:
            found.setdefault(operand.load, operand)
    return found
