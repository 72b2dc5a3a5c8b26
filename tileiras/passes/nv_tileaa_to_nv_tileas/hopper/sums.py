"""The consumers' side of sums in tensor memory: they are loaded when a loop of products is over.

In the consumers' copy of a loop nothing is left of its products: the value that carried a sum
stands for its place. A loop with nothing else in it goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.product_agent import Accumulators
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import HopperPlan


class SumsInTmem:
    """What consumers have in place of sums; `made` are the accumulators."""

    def __init__(self, plan: HopperPlan, made: Accumulators):
        self.plan = plan
        self.made = made
        self.held: dict[SSAValue, SSAValue] = {}
        """The accumulator by every value that is in it: carried ones, and results of loops."""
        for own, accumulator in made.items():
            self.held[own.loop.body.block.args[1 + own.position]] = accumulator
            self.held[own.loop.results[own.position]] = accumulator
        for planned in plan.dots.values():
            if isinstance(planned, Tcgen05Dot):
                self.held[planned.dot.result] = made[planned.accumulator]

    def load(
        self, materializer: Materializer, loop: Operation, results: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """What a loop gives, with its sums in registers."""
        found = list(results)
        for planned in self.plan.dots.values():
            if not isinstance(planned, Tcgen05Dot):
                continue
            own = planned.accumulator
            position = own.position
            if own.loop is not loop or not isinstance(found[position].type, tc.AccumulatorType):
                continue
            result = loop.results[position]
            (layout,) = materializer.operand_layouts(planned.dot, [planned.dot.acc])
            loaded = materializer.emit(
                tc.AccumulatorLoadOp,
                [self.made[own], _runs(materializer, own.loop)],
                [encoded(element_of(result), layout)],
                {"shape": StringAttr(planned.load_shape)},
            )
            found[position] = materializer.settle(result, loaded.results[0])
        return found


def _runs(materializer: Materializer, loop: aa.ForOp) -> SSAValue:
    """i1: whether a loop has an iteration."""
    is_unsigned = loop.unsigned_cmp is not None
    properties = {
        "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        "signedness": SignednessAttr(Signedness.UNSIGNED if is_unsigned else Signedness.SIGNED),
    }
    bounds = [materializer.plain(loop.lower_bound), materializer.plain(loop.upper_bound)]
    return materializer.emit(aa.CmpIOp, bounds, [i1], properties).results[0]


def drop_empty_loops(body: Block) -> None:
    """Takes loops away of which nothing is left but the products of another warp role."""
    for loop in [op for op in body.walk() if isinstance(op, aa.ForOp)]:
        if not all(map(_is_without_effect, loop.body.block.ops)):
            continue
        if any(result.uses for result in _computed(loop)):
            continue
        for result, initial in zip(loop.results, loop.init_values, strict=True):
            result.replace_all_uses_with(initial)
        loop.detach()
        loop.erase()


def _is_without_effect(op: Operation) -> bool:
    is_plain = isinstance(op, aa.ContinueOp | aa.CreateMemTokenOp) or op.has_trait(Pure)
    return is_plain and not op.regions


def _computed(loop: aa.ForOp) -> list[SSAValue]:
    """What a loop computes: its results, but for tokens and places of sums."""
    placeholders = (tc.AccumulatorType, aa.MemTokenType)
    return [result for result in loop.results if not isinstance(result.type, placeholders)]
