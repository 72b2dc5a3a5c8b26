"""Rebuilds a function with a layout on every tensor, converting where layouts meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.errors import CompileError, InternalError
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.layouts.classes import LAZY_OPS, LayoutClasses, is_lazy, is_tensor
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.operands.tma import OperandLoad

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import HopperPlan

MAX_REMATERIALIZED_OPS = 12
"""Index arithmetic up to so many operations is cheaper to repeat than to move between threads."""

PlaceRule = Callable[["Placer", Operation], Sequence[SSAValue]]


class PipelineReader(Protocol):
    """Who places what reads pipelines, in a kernel with a producer: see `hopper/consumer`."""

    plan: HopperPlan
    store_maps: dict[Operation, SSAValue]
    store_pipeline: SSAValue | None

    def absorbs(self, op: Operation) -> bool:
        """Whether nothing is left of an operation."""
        ...

    def brings(self, load: Operation) -> bool:
        """Whether a pipeline brings the tile of a load."""
        ...

    def place_load(self, placer: Placer, op: OperandLoad) -> Sequence[SSAValue]:
        """Places such a load."""
        ...

    def place_dot(self, placer: Placer, op: aa.ProductOp) -> Sequence[SSAValue]:
        """Places a planned product."""
        ...

    def start(self, placer: Placer, op: Operation, operands: Sequence[SSAValue]) -> None:
        """Places what comes before a loop or a branch."""
        ...

    def finish_loop(
        self, placer: Placer, op: Operation, results: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Places what comes behind a loop."""
        ...

    def release_kept(self, placer: Placer, loop: Operation) -> None:
        """Gives back what a loop has read throughout."""
        ...


class Placer(OpBuilder):
    """One linear rebuild. `values` maps what has been built, in the layout of its class."""

    def __init__(
        self,
        classes: LayoutClasses,
        plan: CtaPlan,
        rules: Mapping[type[Operation], PlaceRule],
        consumer: PipelineReader | None = None,
    ):
        super().__init__()
        self.classes = classes
        self.plan = plan
        self.rules = rules
        self.consumer = consumer
        self.values: dict[SSAValue, SSAValue] = {}
        self._made: list[dict[tuple[SSAValue, LinearLayout], SSAValue]] = [{}]

    def place_block(self, source: Block, target: Block) -> None:
        """Places the operations of a block at the end of another."""
        outer_block, outer_location = self.block, self.location
        self.block = target
        self._made.append({})
        for op in source.ops:
            self.location = op.location
            if isinstance(op, LAZY_OPS) and is_tensor(op.results[0]):
                continue
            if self.consumer is not None and self.consumer.absorbs(op):
                continue
            results = self.rules.get(type(op), place_elementwise)(self, op)
            self.values.update(zip(op.results, results, strict=True))
        self._made.pop()
        self.block, self.location = outer_block, outer_location

    def place_region(self, region: Region) -> Region:
        """A placed copy of a region of one block (or none)."""
        source = region.first_block
        if source is None:
            return Region()
        block = Block(arg_types=[self.placed_type(arg) for arg in source.args])
        self.values.update(zip(source.args, block.args, strict=True))
        self.place_block(source, block)
        return Region(block)

    # values

    def placed_type(self, value: SSAValue) -> Attribute:
        """The type of a value in the layout of its class."""
        if not isinstance(value.type, TensorType):
            return value.type
        return encoded(value.type.element_type, self.layout(value))

    def layout(self, value: SSAValue) -> LinearLayout:
        """The layout that a value has, or would be made in if nothing else is asked."""
        return self.classes.settled(value)

    def plain(self, value: SSAValue) -> SSAValue:
        """A scalar (or view, or token) as it has been built."""
        return self.values[value]

    def any_layout(self, value: SSAValue) -> SSAValue:
        """A value in the layout that costs least."""
        return self.in_layout(value, self.layout(value)) if is_tensor(value) else self.plain(value)

    def in_layout(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """A tensor in a given layout: made there, as it is, or converted."""
        key = (value, layout)
        for made in reversed(self._made):
            if key in made:
                return made[key]
        result = self._make(value, layout)
        self._made[-1][key] = result
        return result

    def is_made(self, value: SSAValue, layout: LinearLayout) -> bool:
        """Whether a tensor has been made in a layout, here or around."""
        return any((value, layout) in made for made in self._made)

    def settle(self, value: SSAValue, built: SSAValue) -> SSAValue:
        """A freshly built tensor, converted to the layout of the class of `value`."""
        if not is_tensor(value):
            return built
        wanted = self.layout(value)
        if layout_of(built.type) == wanted:
            return built
        return self._convert(built, wanted)

    def _convert(self, source: SSAValue, layout: LinearLayout) -> SSAValue:
        if not isinstance(source.type, TensorType):
            raise InternalError("only tensors have layouts")
        type = encoded(source.type.element_type, layout)
        return self.emit(tas.ConvertLayoutOp, [source], [type]).results[0]

    def _make(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        if is_lazy(value) and isinstance(value, OpResult):
            return self._make_lazy(value.op, layout)
        built = self.values[value]
        if layout_of(built.type) == layout:
            return built
        if rematerialization_cost(value) <= MAX_REMATERIALIZED_OPS and isinstance(value, OpResult):
            op = value.op
            operands = [self.in_layout(operand, layout) for operand in op.operands]
            type = encoded(element_of(value), layout)
            return self.emit(type_of(op), operands, [type], op.properties).results[0]
        return self._convert(built, layout)

    def _make_lazy(self, op: Operation, layout: LinearLayout) -> SSAValue:
        """A constant, range or splat in place; a reshaped value from its source there."""
        result = op.results[0]
        type = encoded(element_of(result), layout)
        match op:
            case aa.SplatOp():
                operands = [self.plain(op.source)]
            case aa.BroadcastOp() | aa.ReshapeOp() | aa.PermuteOp():
                operands = [self.in_layout(op.source, source_layout(op, layout))]
            case _:
                operands = []
        return self.emit(type_of(op), operands, [type], op.properties).results[0]


def type_of(op: Operation) -> type[Operation]:
    """The class of an operation."""
    return type(op)


def rematerialization_cost(value: SSAValue, limit: int = MAX_REMATERIALIZED_OPS) -> int:
    """Operations to repeat for making a value elsewhere; more than `limit` if it cannot be."""
    if not is_tensor(value):
        return 0
    if not isinstance(value, OpResult):
        return limit + 1
    op = value.op
    if isinstance(op, aa.ConstantOp | aa.SplatOp | aa.MakeRangeOp):
        return 0
    if not isinstance(op, (ElementwiseOp, *LAZY_OPS)):
        return limit + 1
    cost = 1
    for operand in op.operands:
        cost += rematerialization_cost(operand, limit - cost)
        if cost > limit:
            return limit + 1
    return cost


def place_elementwise(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Scalars as they are; tensors with all operands in the layout of the result."""
    if not any(is_tensor(value) for value in (*op.operands, *op.results)):
        operands = [placer.plain(operand) for operand in op.operands]
        types = [result.type for result in op.results]
        return placer.emit(type_of(op), operands, types, op.properties).results
    if not isinstance(op, ElementwiseOp):
        name = op.name.removeprefix("nv_tileaa.")
        raise CompileError(f"'{name}' op is not supported yet on tiles", place_of(op))
    result = op.results[0]
    layout = placer.layout(result)
    operands = [placer.in_layout(operand, layout) for operand in op.operands]
    type = encoded(element_of(result), layout)
    return placer.emit(type_of(op), operands, [type], op.properties).results
