"""The warp role that issues products into tensor memory: its part of the kernel.

It walks its own copy of the loops around products, waits for stages, issues, and lets the tensor
core hand stages back. In front of a loop it waits until the consumers have read the sums of a tile
before, behind it it gives them the new ones; a sum that its loop reads is given in each iteration,
one that consumers scale where it lies in front of the loop and behind each product. What stays in
its stage throughout a loop it waits for in front of that. Products that wait for a left operand of
the consumers come behind those of the next iteration that wait for none.

Where each warpgroup of the consumers has a block of 128 rows, these take turns:

    S0(0) S1(0)  { S0(i + 1) O0(i)   S1(i + 1) O1(i) }     the left operands in columns of their own
                 { O0(i) S0(i + 1)   O1(i) S1(i + 1) }     those of O in the columns of S
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    IntTupleAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.layout.tmem import BLOCK_ROWS
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.memdesc import (
    MemDescType,
    NvmmaSharedAttr,
    PairSharedAttr,
    ScaleChunksAttr,
    ScaleRowsAttr,
    SharedLinearAttr,
    accumulator_type,
)
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.dialects.nv_tileas.warp_roles import PRODUCT
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.producer import ProducerBuilder
from tileiras.planning.layouts.written import scales_of
from tileiras.planning.mma.tcgen05 import Accumulator, Tcgen05Dot
from tileiras.planning.mma.tmem_columns import holding_sum, row_blocks
from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.operands.tma import (
    OperandLoad,
    SharedOperand,
    contiguous_axis,
    halved_dim,
    is_by_tma,
    place_bytes,
    plain_layout,
)
from tileiras.planning.schedule.stage_releases import resident_users


@dataclass
class InTensorMemory:
    """What has been made for the sums of a kernel, and for left operands that consumers compute."""

    sums: dict[Accumulator, SSAValue] = field(default_factory=dict[Accumulator, SSAValue])
    left: dict[Operation, SSAValue] = field(default_factory=dict[Operation, SSAValue])
    """By product."""


class ProductWarpBuilder(ProducerBuilder):
    """Clones the slice, with products from stages in place of those of tensors."""

    def __init__(
        self,
        plan: RolePlan,
        roles: WarpRoles,
        pipelines: Sequence[SSAValue],
        made: InTensorMemory,
    ):
        super().__init__(PRODUCT, plan, roles, pipelines)
        self.sums, self.left = made.sums, made.left
        self.released = roles.releases
        self.ahead = roles.ahead
        self.begun: dict[Operation, list[Accumulator]] = {}
        """The sums that are acquired before an operation."""
        self.given: dict[Operation, list[Accumulator]] = {}
        """The sums that consumers get behind an operation."""
        for op, sums in roles.accumulators.items():
            for own in sums:
                begin = op if own.is_of_iteration else own.places[0][0]
                self.begun.setdefault(begin, []).append(own)
                if not own.is_scaled:
                    self.given.setdefault(op, []).append(own)
        for planned in plan.dots.values():
            if isinstance(planned, Tcgen05Dot) and planned.accumulator.is_scaled:
                self.given.setdefault(planned.dot, []).append(planned.accumulator)
        placed = placed_dots(plan)
        self.blocks = range(row_blocks(placed, plan.warpgroups))
        """Of rows, each with barriers of its own."""
        self.in_place = any(holding_sum(planned, placed) for planned in placed)
        """Whether left operands lie in the columns of sums that products make later."""
        self.tiles: dict[tuple[OperandLoad, MemDescType], SSAValue] = {}
        """The tiles of stages that have been waited for."""
        self.ready: dict[OperandLoad, None] = {}
        """The scales that a product has put in order."""
        self.kept_by: dict[Operation, list[OperandLoad]] = {}
        """What keeps left operands in their stages, the first operation that reads each."""
        for number, pipeline in enumerate(plan.pipelines):
            if users := resident_users(number, plan):
                self.kept_by.setdefault(users[0], []).append(pipeline.loads[0])

    def copy_op(self, op: Operation) -> None:
        """Products, loops around them and the end are the warp role's own."""
        for load in self.kept_by.get(op, ()):
            self._wait(load)
        self._copy(op)
        if op not in self.plan.dots:
            self._release_stages(op)

    def _copy(self, op: Operation) -> None:
        match op:
            case aa.DotOp() | aa.DotScaledOp():
                for number in self.blocks:
                    self._multiply(op, number)
            case aa.ForOp():
                for number in self.blocks:
                    self._acquire_sums(op, number)
                early = [inner for inner in op.body.block.ops if inner in self.ahead]
                if early:
                    self._copy_loop_ahead(op, early)
                else:
                    super().copy_op(op)
                for number in self.blocks:
                    self._commit_sums(op, number)
            case aa.ReturnOp():
                self.emit(aa.ReturnOp)
            case _:
                super().copy_op(op)

    def _copy_loop_ahead(self, op: aa.ForOp, early: Sequence[Operation]) -> None:
        """A loop of nothing but products, some of them for the iteration after."""
        bounds = [self.values[value] for value in (op.lower_bound, op.upper_bound, op.step)]
        lower, upper, step = bounds
        self._multiply_if(self._less(lower, upper, op.unsigned_cmp is not None), early)
        outer, self.block = self.block, Block(arg_types=[lower.type])
        properties = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
        number = self.block.args[0]
        left = self.emit(aa.SubIOp, [upper, number], [number.type], properties).results[0]
        late = [
            inner
            for inner in op.body.block.ops
            if inner in self.plan.dots and inner not in self.ahead
        ]
        self._multiply_both(self._less(step, left, True), early, late)
        self.emit(aa.ContinueOp)
        body, self.block = self.block, outer
        self.emit(aa.ForOp, bounds, (), op.properties, [Region(body)])

    def _multiply_both(
        self, condition: SSAValue, early: Sequence[Operation], late: Sequence[Operation]
    ) -> None:
        """The products of the next iteration, if there is one, and the late ones of this."""
        if len(self.blocks) == 1 and not self.in_place:
            self._multiply_if(condition, early)
            for dot in late:
                self.copy_op(dot)
            return
        for dot in late:
            # Waited for here, both branches read them.
            list(self._operands(self.plan.dots[dot]))
        in_turn = [*late, *early] if self.in_place else [*early, *late]
        self.either(condition, self._turns(in_turn), self._turns(late))

    def _multiply_if(self, condition: SSAValue, early: Sequence[Operation]) -> None:
        """The products of an iteration that are issued ahead, if there is that iteration."""
        self.only_if(condition, self._turns(early))

    def _turns(self, dots: Sequence[Operation]) -> Block:
        """Products, those of a block of rows after those of another.

        What has been waited for here is not what others read.
        """
        outer, self.block = self.block, Block()
        known = dict(self.tiles)
        for number in self.blocks:
            for dot in dots:
                for load in self.kept_by.get(dot, ()) if number == 0 else ():
                    self._wait(load)
                self._multiply(dot, number)
        kept = [load for loads in self.kept_by.values() for load in loads]
        new = {key: tile for key, tile in self.tiles.items() if key[0] in kept}
        self.tiles = known | new
        made, self.block = self.block, outer
        return made

    def _less(self, first: SSAValue, second: SSAValue, is_unsigned: bool) -> SSAValue:
        """i1: whether the first of two numbers is less than the other."""
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(Signedness.UNSIGNED if is_unsigned else Signedness.SIGNED),
        }
        return self.emit(aa.CmpIOp, [first, second], [i1], properties).results[0]

    def _release_stages(self, op: Operation) -> None:
        """Hands back the stages that are no longer needed behind an operation."""
        for number in self.released.get(op, ()):
            self.emit(tc.StageReleaseOp, [self.pipelines[number]])

    def _operands(self, planned: PlannedDot) -> Iterator[SSAValue]:
        """The tiles of a product in stages, which have been waited for or are now."""
        for operand, value in staged_values(planned):
            yield self._tile(operand, value)

    def _of_block(self, number: int) -> dict[str, Attribute]:
        """Which block of rows an operation is for, where there are several."""
        return {"block": IntAttr(number)} if len(self.blocks) > 1 else {}

    def _multiply(self, op: Operation, number: int) -> None:
        """A product for a block of rows; behind the last one stages go back, as it says."""
        planned = self.plan.dots[op]
        if not isinstance(planned, Tcgen05Dot):
            raise InternalError("a product of the warp role has no sum in tensor memory")
        operands, of_block = list(self._operands(planned)), self._of_block(number)
        left = self.left.get(op)
        if left is not None:
            self.emit(tc.LeftOperandWaitOp, [left], (), of_block)
            operands.insert(0, left)
        properties: dict[str, Attribute] = {"kind": StringAttr(planned.kind.name), **of_block}
        if planned.scales:
            properties["column"] = IntAttr(planned.scales_column)
            for name, scale in zip(("lhs_ready", "rhs_ready"), planned.scales, strict=True):
                if scale.load in self.ready:
                    properties[name] = UnitAttr()
                self.ready[scale.load] = None
            if planned.is_in_turn:
                properties["in_turn"] = UnitAttr()
        if planned.is_paired:
            properties["pair"] = UnitAttr()
        for key in ("signedness_lhs", "signedness_rhs", "packed"):
            if key in op.properties:
                properties[key] = op.properties[key]
        accumulator = self.sums[planned.accumulator]
        self._acquire_sums(op, number)
        op_class = Tcgen05DotScaledOp if planned.scales else tc.Tcgen05DotOp
        condition = planned.dot.condition
        if condition is not None and planned.scales:
            operands.append(self.values[condition])
            condition = None
        with self._where(condition):
            self.emit(op_class, [accumulator, *operands], (), properties)
        if number == self.blocks[-1]:
            self._release_stages(op)
        if left is not None:
            self.emit(tc.LeftOperandReleaseOp, [left], (), of_block)
        self._commit_sums(op, number)

    def _where(self, condition: SSAValue | None) -> AbstractContextManager[None]:
        """What is appended meanwhile is done where the condition of a product holds, if any."""
        return nullcontext() if condition is None else self.only_where(self.values[condition])

    def _acquire_sums(self, op: Operation, number: int) -> None:
        """Waits until the sums that an operation makes for a block of rows have been read.

        One that is scaled where it lies consumers get at once.
        """
        of_block = self._of_block(number)
        for own in self.begun.get(op, ()):
            self.emit(tc.AccumulatorAcquireOp, [self.sums[own]], (), of_block)
            if own.is_scaled:
                self.emit(tc.AccumulatorCommitOp, [self.sums[own]], (), of_block)

    def _commit_sums(self, op: Operation, number: int) -> None:
        """Gives the consumers the sums that an operation has made for a block of rows."""
        for own in self.given.get(op, ()):
            self.emit(tc.AccumulatorCommitOp, [self.sums[own]], (), self._of_block(number))

    def _tile(self, operand: SharedOperand, value: SSAValue) -> SSAValue:
        """An operand in its stage, which has been waited for or is now, for all that read it."""
        key = (operand.load, tile_type(operand, value))
        if key not in self.tiles:
            self._wait(operand.load)
        return self.tiles[key]

    def _wait(self, load: OperandLoad) -> None:
        """Waits for a stage. A tile that products read in different ways comes once for each."""
        number = self.plan.pipeline_of(load)
        if number is None:
            raise InternalError("a load without a pipeline was taken for one with")
        loads = self.plan.pipelines[number].content(load)
        reads: dict[tuple[OperandLoad, MemDescType], None] = {}
        for planned in self.plan.dots.values():
            for operand, value in staged_values(planned):
                if operand.load in loads:
                    reads[operand.load, tile_type(operand, value)] = None
        types = [type for _, type in reads]
        offsets = IntTupleAttr([stage_offset(self.plan, read) for read, _ in reads])
        wait = self.emit(pl.ConsumerWaitOp, [self.pipelines[number]], types, {"offsets": offsets})
        self.tiles.update(zip(reads, wait.results, strict=True))
        if not all(map(is_by_tma, loads)):
            self.emit(pl.ProxyFenceOp)


def staged_values(planned: PlannedDot) -> Iterator[tuple[SharedOperand, SSAValue]]:
    """What a product reads in stages, operands first: how it comes, and the value."""
    values = (planned.dot.lhs, planned.dot.rhs, *scales_of(planned.dot))
    for operand, value in zip((planned.lhs, planned.rhs, *planned.scales), values, strict=False):
        if operand is not None:
            yield operand, value


def tile_type(operand: SharedOperand, value: SSAValue) -> MemDescType:
    """The tile of an operand in its stage, as a product reads it."""
    if not isinstance(value.type, TensorType):
        raise InternalError("an operand is no tensor")
    shape, element = value.type.get_shape(), value.type.element_type
    if not operand.swizzle:
        scales = ScaleRowsAttr if is_by_tma(operand.load) else ScaleChunksAttr
        return MemDescType(shape, element, scales(operand.major_axis))
    if halved_dim(operand.load) is not None:
        # The columns of a right operand, whatever dim of the load they are.
        halves = PairSharedAttr(operand.swizzle, operand.major_axis, 1, operand.atom)
        return MemDescType(shape, element, halves)
    panels = NvmmaSharedAttr(operand.swizzle, operand.major_axis, operand.atom)
    return MemDescType(shape, element, panels)


def rows_type(load: OperandLoad) -> MemDescType:
    """The tile of a load for threads in its stage."""
    axis = contiguous_axis(load)
    if axis is None or not isinstance(load.result.type, TensorType):
        raise InternalError("a tile brought to shared memory has no contiguous dim")
    shape, element = load.result.type.get_shape(), load.result.type.element_type
    layout = LayoutEncodingAttr(plain_layout(load, axis))
    return MemDescType(shape, element, SharedLinearAttr(layout))


def stage_offset(plan: RolePlan, load: OperandLoad) -> int:
    """Where the tile of a load starts in its stage, in bytes."""
    number = required(plan.pipeline_of(load), "an operand comes through no pipeline")
    loads = plan.pipelines[number].content(load)
    return sum(place_bytes(before) for before in loads[: loads.index(load)])


def placed_dots(plan: RolePlan) -> list[Tcgen05Dot]:
    """The products whose sums lie in tensor memory."""
    return [planned for planned in plan.dots.values() if isinstance(planned, Tcgen05Dot)]


def create_in_tensor_memory(entry: Block, plan: RolePlan) -> InTensorMemory:
    """The sums at the start of the kernel, in program order, and the left operands.

    Those of different loops with the same columns are the same.
    """
    found = InTensorMemory()
    known: dict[int, SSAValue] = {}
    left: dict[int, SSAValue] = {}
    dots = placed_dots(plan)
    blocks = row_blocks(dots, plan.warpgroups)
    for planned in dots:
        _create_sum(entry, plan, planned, found.sums, known, blocks)
        if planned.lhs is not None:
            continue
        if planned.left_column not in left:
            lhs = planned.dot.lhs
            numbers = {"column": planned.left_column, "writers": plan.shape.consumer_warps}
            if (own := holding_sum(planned, dots)) is not None:
                numbers["stride"] = own.columns // max(1, planned.rows // BLOCK_ROWS)
            if blocks > 1:
                numbers["blocks"] = blocks
            op = tc.CreateLeftOperandOp.create(
                result_types=[accumulator_type(shape_of(lhs), element_of(lhs))],
                properties={name: IntAttr(number) for name, number in numbers.items()},
            )
            entry.add_op(op)
            left[planned.left_column] = op.result
        found.left[planned.dot] = left[planned.left_column]
    return found


def _create_sum(
    entry: Block,
    plan: RolePlan,
    planned: Tcgen05Dot,
    found: dict[Accumulator, SSAValue],
    known: dict[int, SSAValue],
    blocks: int,
) -> None:
    """The sum of a product, unless it is there; `known`: what begins at a column."""
    own, result = planned.accumulator, planned.dot.result
    if own in found:
        return
    if own.column not in known:
        numbers = {
            "stages": own.buffers,
            "column": own.column,
            "columns": own.columns,
            "readers": plan.shape.consumer_warps,
        }
        properties: dict[str, Attribute] = {n: IntAttr(number) for n, number in numbers.items()}
        if own.is_scaled:
            properties["scaled"] = UnitAttr()
        if own.is_filled:
            properties["filled"] = UnitAttr()
        if planned.is_paired:
            properties["pair"] = UnitAttr()
        if blocks > 1:
            properties["blocks"] = IntAttr(blocks)
        op = tc.CreateAccumulatorOp.create(
            result_types=[accumulator_type(shape_of(result), element_of(result))],
            properties=properties,
        )
        entry.add_op(op)
        known[own.column] = op.result
    found[own] = known[own.column]


def build_product_warp(
    func: aa.FuncOp,
    plan: RolePlan,
    roles: WarpRoles,
    entry: Block,
    pipelines: Sequence[SSAValue],
    made: InTensorMemory,
) -> tc.ProductWarpOp:
    """The warp role's program; `entry` has the kernel's arguments."""
    builder = ProductWarpBuilder(plan, roles, pipelines, made)
    region = builder.build(func.body.block, list(entry.args))
    return tc.ProductWarpOp.create(regions=[region], location=func.location)
