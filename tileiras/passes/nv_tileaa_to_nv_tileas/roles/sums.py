"""The consumers' side of sums in tensor memory: they are loaded when a loop of products is over.

Those that their loop reads are loaded where the product stood, and added to what threads hold.
A left operand that threads compute they store to tensor memory there.

In the consumers' copy of a loop nothing is left of its products: the value that carried a sum
stands for its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.product_warp import InTensorMemory
from tileiras.planning.mma.scaled_sums import scaling_of
from tileiras.planning.mma.tcgen05 import Accumulator, Tcgen05Dot
from tileiras.planning.mma.tmem_columns import is_read_apart
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.tiling.product_cut import top_of

FLUSH = ("flush_to_zero",)
"""What scaling in tensor memory keeps of a multiplication."""


class SumsInTmem:
    """What consumers have in place of sums; `found` is what has been made for them."""

    def __init__(self, plan: RolePlan, roles: WarpRoles, found: InTensorMemory):
        self.made, self.left = found.sums, found.left
        self.acquired = roles.accumulators
        self.late: list[Operation] = []
        """What loads sums that are needed later than others."""
        self.firsts: dict[Accumulator, Tcgen05Dot] = {}
        """The first product of each sum."""
        self.held: dict[SSAValue, SSAValue] = {}
        """The accumulator by every value that is in it: carried ones, and results of loops."""
        for own, accumulator in self.made.items():
            if own in self.acquired.get(own.loop, ()):
                for loop, position in own.places:
                    self.held[loop.body.block.args[1 + position]] = accumulator
                    self.held[loop.results[position]] = accumulator
        for planned in plan.dots.values():
            if not isinstance(planned, Tcgen05Dot):
                continue
            self.firsts.setdefault(planned.accumulator, planned)
            if planned.dot not in self.acquired:
                self.held[planned.dot.result] = self.made[planned.accumulator]

    def begin(self, materializer: Materializer, op: Operation) -> None:
        """In front of the first loop of a sum: what it starts from, zeros where it is scaled."""
        for own, accumulator in self.made.items():
            loop, position = own.places[0]
            if loop is not op:
                continue
            if own.is_scaled:
                materializer.emit(tc.AccumulatorClearOp, [accumulator])
            elif own.is_filled:
                planned = self.firsts[own]
                layout = self._layout(materializer, planned)
                value = materializer.in_layout(loop.init_values[position], layout)
                shape = {"shape": StringAttr(planned.load_shape)}
                materializer.emit(tc.AccumulatorFillOp, [accumulator, value], (), shape)

    def load(
        self, materializer: Materializer, loop: Operation, results: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """What a loop gives, with its sums in registers."""
        found, sums = list(results), self.acquired.get(loop, ())
        dots = [self.firsts[own] for own in sums]
        for number, own in enumerate(sums):
            made = set(materializer.block.ops)
            any = _always(materializer) if own.is_filled else _runs(materializer, own)
            loaded = self._load(materializer, self.firsts[own], any)
            found[own.position] = materializer.settle(loop.results[own.position], loaded)
            if number and is_read_apart(dots[number], dots):
                self.late += [op for op in materializer.block.ops if op not in made]
        return found

    def load_late(self) -> None:
        """Moves the loads of sums that are needed one after the other to where each is: threads
        have registers for one.
        """
        for op in reversed(self.late):
            block = op.parent_block()
            if block is None:
                raise InternalError("a sum is loaded in no block", where="warp roles")
            uses = [use.operation for result in op.results for use in result.uses]
            users = {top_of(user, block) for user in uses}
            first = next((other for other in block.ops if other in users), None)
            if first is not None:
                op.detach()
                block.insert_op_before(op, first)

    def place_dot(self, materializer: Materializer, planned: Tcgen05Dot) -> Sequence[SSAValue]:
        """What stands in place of a product: the place of its sum, or the sum itself."""
        op = planned.dot
        if planned.accumulator.is_scaled:
            self._scale(materializer, planned)
        if op in self.left:
            layout, _ = materializer.operand_layouts(op, [op.lhs, op.acc])
            tile = materializer.in_layout(op.lhs, layout)
            materializer.emit(tc.LeftOperandStoreOp, [self.left[op], tile])
        if op not in self.acquired:
            return [self.held[op.result]]
        total = self._load(materializer, planned, _always(materializer))
        if not is_zero(op.acc):
            layout = self._layout(materializer, planned)
            acc = materializer.in_layout(op.acc, layout)
            is_integer = isinstance(element_of(op.result), IntegerType)
            properties: dict[str, Attribute] = (
                {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
                if is_integer
                else {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}
            )
            add = aa.AddIOp if is_integer else aa.AddFOp
            total = materializer.emit(add, [acc, total], [total.type], properties).results[0]
        return [materializer.settle(op.result, total)]

    def _scale(self, materializer: Materializer, planned: Tcgen05Dot) -> None:
        """The sum of before is scaled where it lies."""
        scaling, value = scaling_of(planned.dot)
        factors = materializer.in_layout(value, self._layout(materializer, planned))
        kept = {name: scaling.properties[name] for name in FLUSH if name in scaling.properties}
        operands = [self.made[planned.accumulator], factors]
        materializer.emit(tc.AccumulatorScaleOp, operands, (), kept)

    def _layout(self, materializer: Materializer, planned: Tcgen05Dot) -> LinearLayout:
        """Where threads hold the sum."""
        op = planned.dot
        held = [op.lhs] if op in self.left else []
        return materializer.operand_layouts(op, [*held, op.acc])[-1]

    def _load(self, materializer: Materializer, planned: Tcgen05Dot, any: SSAValue) -> SSAValue:
        """The sum in registers; zeros unless there was a product."""
        op = planned.dot
        layout = self._layout(materializer, planned)
        return materializer.emit(
            tc.AccumulatorLoadOp,
            [self.made[planned.accumulator], any],
            [encoded(element_of(op.result), layout)],
            {"shape": StringAttr(planned.load_shape)},
        ).results[0]


def _runs(materializer: Materializer, own: Accumulator) -> SSAValue:
    """i1: whether a loop of a sum has an iteration."""
    found: list[SSAValue] = []
    for loop, _ in own.places:
        is_unsigned = loop.unsigned_cmp is not None
        bounds = [materializer.plain(loop.lower_bound), materializer.plain(loop.upper_bound)]
        found.append(_is_less(materializer, bounds, is_unsigned=is_unsigned))
    any = found[0]
    for other in found[1:]:
        any = materializer.emit(aa.OrIOp, [any, other], [i1]).results[0]
    return any


def _always(materializer: Materializer) -> SSAValue:
    """i1: true, which is folded where it is selected by."""
    bounds = [materializer.integer(0, i32), materializer.integer(1, i32)]
    return _is_less(materializer, bounds, is_unsigned=False)


def _is_less(
    materializer: Materializer, bounds: Sequence[SSAValue], *, is_unsigned: bool
) -> SSAValue:
    """i1: whether the first of two numbers is less than the other."""
    properties = {
        "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        "signedness": SignednessAttr(Signedness.UNSIGNED if is_unsigned else Signedness.SIGNED),
    }
    return materializer.emit(aa.CmpIOp, bounds, [i1], properties).results[0]
