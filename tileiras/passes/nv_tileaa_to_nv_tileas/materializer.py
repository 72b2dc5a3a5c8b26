"""Rebuilds a function with the assigned layouts in its types, converting where two meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.assigned import (
    ARGUMENT_LAYOUTS,
    LAYOUTS,
    OPERAND_LAYOUTS,
    REMATERIALIZE,
)
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.dialects.nv_tileas.pipeline import ReadTileOp
from tileiras.dialects.nv_tileas.plan import PIPELINE
from tileiras.errors import InternalError
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.layouts.rematerialization import LAZY_CLASSES, is_lazy, is_tensor
from tileiras.planning.layouts.written import contradiction, layouts_of
from tileiras.planning.operands.tma import OperandLoad

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan

MaterializeRule = Callable[["Materializer", Any], Sequence[SSAValue]]


class PipelineReader(Protocol):
    """Who places what reads pipelines, in a kernel with a producer: see `roles/consumer.py`."""

    plan: RolePlan
    store_maps: dict[Operation, SSAValue]
    store_pipeline: SSAValue | None

    def held(self, value: SSAValue) -> SSAValue | None:
        """The accumulator in tensor memory in which a value is."""
        ...

    def absorbs(self, op: Operation) -> bool:
        """Whether nothing is left of an operation."""
        ...

    def passes_over(self, op: Operation) -> bool:
        """Whether nothing is left of a loop but its sums."""
        ...

    def brings(self, load: Operation) -> bool:
        """Whether a pipeline brings the tile of a load."""
        ...

    def place_load(self, materializer: Materializer, op: OperandLoad) -> Sequence[SSAValue]:
        """Places such a load."""
        ...

    def place_dot(self, materializer: Materializer, op: aa.ProductOp) -> Sequence[SSAValue]:
        """Places a planned product."""
        ...

    def start(
        self, materializer: Materializer, op: Operation, operands: Sequence[SSAValue]
    ) -> None:
        """Places what comes before a loop or a branch."""
        ...

    def finish_loop(
        self, materializer: Materializer, op: Operation, results: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Places what comes behind a loop."""
        ...

    def release_kept(self, materializer: Materializer, loop: Operation) -> None:
        """Gives back what a loop has read throughout."""
        ...


class Materializer(OpBuilder):
    """One linear rebuild. `values` maps what has been built, in the layout assigned to it."""

    def __init__(
        self,
        num_warps: int,
        rules: Mapping[type[Operation], MaterializeRule],
        consumer: PipelineReader | None = None,
    ):
        super().__init__()
        self.num_warps = num_warps
        self.rules = rules
        self.consumer = consumer
        self.values: dict[SSAValue, SSAValue] = {}
        self._layouts: dict[SSAValue, LinearLayout] = {}
        self._made: list[dict[tuple[SSAValue, LinearLayout], SSAValue]] = [{}]

    def place_block(self, source: Block, target: Block) -> None:
        """Places the operations of a block at the end of another."""
        outer_block, outer_location = self.block, self.location
        self.block = target
        self._made.append({})
        for op in source.ops:
            self.location = op.location
            if op.__class__ in LAZY_CLASSES and is_tensor(op.results[0]):
                continue
            if self.consumer is not None and self.consumer.absorbs(op):
                continue
            self._read_layouts(op)
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

    # layouts

    def _read_layouts(self, op: Operation) -> None:
        """The layouts assigned to the results of an operation, and to what comes into its blocks.

        Tiles that pipelines bring have none. Raises CompileError where others have none.
        """
        for result in op.results:
            if is_tensor(result) and PIPELINE not in op.attributes:
                self._note(op, LAYOUTS, op.results)
                break
        for region in op.regions:
            for block in region.blocks:
                if any(map(is_tensor, block.args)):
                    self._note(op, ARGUMENT_LAYOUTS, block.args)

    def _note(self, op: Operation, name: str, values: Sequence[SSAValue]) -> None:
        layouts = layouts_of(op, name, values, self.num_warps)
        self._layouts.update(zip(filter(is_tensor, values), layouts, strict=True))

    def operand_layouts(
        self, op: Operation, operands: Sequence[SSAValue] | None = None
    ) -> list[LinearLayout]:
        """The layouts in which an operation takes its tensors, or those that threads hold."""
        return layouts_of(op, OPERAND_LAYOUTS, operands or op.operands, self.num_warps)

    def placed_type(self, value: SSAValue) -> Attribute:
        """The type of a value in the layout assigned to it."""
        if not isinstance(value.type, TensorType):
            return value.type
        if self.consumer is not None and (held := self.consumer.held(value)) is not None:
            return held.type
        return encoded(value.type.element_type, self.layout(value))

    def layout(self, value: SSAValue) -> LinearLayout:
        """The layout assigned to a value."""
        found = self._layouts.get(value)
        if found is None:
            raise InternalError("a tensor without a layout of its own is asked for it")
        return found

    # values

    def plain(self, value: SSAValue) -> SSAValue:
        """A scalar (or view, or token) as it has been built."""
        return self.values[value]

    def taken(self, op: Operation) -> list[SSAValue]:
        """The operands, each in the layout in which the operation takes it."""
        if not any(map(is_tensor, op.operands)):
            return [self.values[operand] for operand in op.operands]
        layouts = iter(self.operand_layouts(op))
        return [
            self.in_layout(operand, next(layouts)) if is_tensor(operand) else self.plain(operand)
            for operand in op.operands
        ]

    def in_layout(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """A tensor in a given layout: made there, as it is, or converted."""
        key = (value, layout)
        for made in reversed(self._made):
            if key in made:
                return made[key]
        result = self._make(value, layout)
        self._made[-1][key] = result
        return result

    def settle(self, value: SSAValue, built: SSAValue) -> SSAValue:
        """A freshly built tensor, converted to the layout assigned to `value`."""
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
        if is_in_smem(built.type):
            type = encoded(element_of(value), layout)
            return self.emit(ReadTileOp, [built], [type]).results[0]
        if layout_of(built.type) == layout:
            return built
        if isinstance(value, OpResult) and REMATERIALIZE in value.op.attributes:
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


def place_elementwise(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """Scalars as they are; tensors with all operands in the layout of the result."""
    if not any(is_tensor(value) for value in (*op.operands, *op.results)):
        operands = [materializer.plain(operand) for operand in op.operands]
        types = [result.type for result in op.results]
        return materializer.emit(type_of(op), operands, types, op.properties).results
    if not isinstance(op, ElementwiseOp):
        raise contradiction(op, "is not supported yet on tiles")
    result = op.results[0]
    layout = materializer.layout(result)
    operands = [materializer.in_layout(operand, layout) for operand in op.operands]
    type = encoded(element_of(result), layout)
    return materializer.emit(type_of(op), operands, [type], op.properties).results
