"""The comparisons by which warp roles find out, while they run, which loads bring nothing new.

They bring the same tile as another one, or the product that would read it is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.operands.tma import OperandLoad, is_by_tma
from tileiras.planning.operands.uniform import condition_of, differing_indices

TRUE = DenseAttr(TileType(i1), b"\x01")

_EQUAL = {
    "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.EQUAL),
    "signedness": SignednessAttr(Signedness.SIGNED),
}


def all_equal(builder: OpBuilder, pairs: Iterable[tuple[SSAValue, SSAValue]]) -> SSAValue | None:
    """i1: whether the integers of each pair are equal; None if there is no pair."""
    same: SSAValue | None = None
    for pair in pairs:
        equal = builder.emit(aa.CmpIOp, pair, [i1], _EQUAL).results[0]
        same = equal if same is None else builder.emit(aa.AndIOp, [same, equal], [i1]).results[0]
    return same


@dataclass
class UniformOperands:
    """One warp role's knowledge of which loads bring the same tile; `conditions` has an i1 for
    each.
    """

    firsts: dict[OperandLoad, OperandLoad]
    conditions: dict[OperandLoad, SSAValue] = field(default_factory=dict[OperandLoad, SSAValue])

    def compare(
        self, builder: OpBuilder, loop: Operation, values: Mapping[SSAValue, SSAValue]
    ) -> dict[OperandLoad, SSAValue]:
        """Before a loop: whether its loads bring the same tile. `values` are what the warp role has
        built.
        """
        made: dict[OperandLoad, SSAValue] = {}
        for load, first in self.firsts.items():
            if load.parent_op() is not loop or not isinstance(load, aa.TiledLoadOp):
                continue
            if not isinstance(first, aa.TiledLoadOp):
                continue
            pairs = differing_indices(first, load)
            same = all_equal(builder, [(values[one], values[other]) for one, other in pairs])
            if same is not None:
                made[load] = same
        self.conditions |= made
        return made

    def exclude(
        self,
        builder: OpBuilder,
        loads: Iterable[OperandLoad],
        value_of: Callable[[SSAValue], SSAValue],
    ) -> None:
        """Before their loop: loads whose tiles no product reads where a condition does not hold.

        Those that bring the same tile as others then are known to by `compare`.
        """
        known: dict[SSAValue, SSAValue] = {}
        for load in loads:
            condition = condition_of(load)
            if condition is None or load in self.firsts or not is_by_tma(load):
                continue
            if condition not in known:
                true = builder.emit(aa.ConstantOp, (), [i1], {"value": TRUE}).results[0]
                operands = [value_of(condition), true]
                known[condition] = builder.emit(aa.XOrIOp, operands, [i1]).results[0]
            self.conditions[load] = known[condition]
