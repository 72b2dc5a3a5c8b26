"""Rebuilds a loop with pipelined loads: each is started in an earlier iteration.

    Before   for i in [lower, upper) { %x = load(i); use(%x) }
    After    %buffer = circular_buffer of 2 stages
             async_copy(lower) into stage 0 if lower < upper; commit
             for i in [lower, upper) carrying %stage = 0 {
               async_copy(i + step) into the other stage if more than step is left; commit
               %x = read_stage(i) from %stage, 1 pending; use(%x); continue %other
             }
             async_wait_group

Every load is executed for the iterations of the loop, and for no other: a counter of its own runs
ahead. It stops at the last iteration, so that it never overflows.

Where threads read what others have copied, they meet once in an iteration, before it starts loads:
then the tiles of this iteration are there, and nobody reads those of the one before any more.

             for i in [lower, upper) carrying %stage = 0 {
               async_wait_group, 0 pending, meet
               async_copy(i + step) ..; %x = read_stage(i) from %stage; use(%x); continue %other
             }
             async_wait_group, meet
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerType, UnitAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.schedule import (
    REMAINDER,
    PrefetchAttr,
    erase_schedule,
    loop_schedule,
    prefetch_of,
)
from tileiras.errors import BytecodeError, required
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.op_builder import OpBuilder
from tileiras.passes.rewriting import replace_op, replace_op_by
from tileiras.planning.resources.warps import only_combines_tiles
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad, find_pipelined_loads
from tileiras.planning.schedule.resident_tiles import ResidentBuffer, has_span, span_of_stages


def pipeline_loads(loop: aa.ForOp, buffers: dict[int, SSAValue]) -> aa.AsyncWaitGroupOp:
    """Puts the rebuilt loop in the place of one with prefetched loads; returns the wait behind it.

    `buffers`: by number those of resident tiles, which loops share; the first loop makes them.
    Raises BytecodeError for a load that cannot be prefetched.
    """
    return _PipelinedLoop(loop, _prefetched(loop, buffers), buffers).run()


def _prefetched(
    loop: aa.ForOp, buffers: dict[int, SSAValue]
) -> list[tuple[PipelinedLoad, PrefetchAttr]]:
    """The prefetched loads of a loop, in program order, with what they have to follow."""
    known = {load.op: load for load in find_pipelined_loads(loop)}
    found: list[tuple[PipelinedLoad, PrefetchAttr]] = []
    for op in loop.body.block.ops:
        prefetch = prefetch_of(op)
        if prefetch is None:
            continue
        if not isinstance(op, aa.TiledLoadOp) or op not in known:
            raise BytecodeError(
                f"'{op.name}' is prefetched, expected a weak load whose indices follow from the "
                "loop's counter and that follows no write of the loop",
                place_of(op),
            )
        if prefetch.has("resident"):
            made = buffers.get(prefetch.integer("resident"))
            is_beside = made is None or made.owner.parent is loop.parent
            if not is_beside or not has_span(loop, prefetch.integer("resident_stages")):
                raise BytecodeError(
                    "tiles are resident from loop to loop, expected loops beside each other with a "
                    "constant step",
                    place_of(op),
                )
        found.append((known[op], prefetch))
    return found


@dataclass(frozen=True)
class _Span:
    """By how much the counter grows in as many iterations as there are stages, and how far a row
    reaches beyond that.
    """

    room: SSAValue
    beyond: SSAValue


class _PipelinedLoop(ScalarBuilder):
    """The rebuild. `newest`, `is_valid`: the counter furthest ahead, and whether it is in bounds.

    The stage of the present iteration goes round; the loads of the iteration that is `distance`
    later go to the stage before it, whose tile the iteration before has used.

    The circular buffer of resident tiles has more stages: tile number n of the loop is in stage n,
    going round. There nothing may be written but tiles, so that copies of nothing are not started.
    Where it has no room for all tiles of a row, those stay that have a stage for themselves: the
    last ones of as many as there are stages.
    """

    def __init__(
        self,
        loop: aa.ForOp,
        loads: Sequence[tuple[PipelinedLoad, PrefetchAttr]],
        resident_buffers: dict[int, SSAValue],
    ):
        super().__init__()
        self.resident = [
            ResidentBuffer(prefetch.integer("resident"), prefetch.integer("resident_stages"))
            if prefetch.has("resident")
            else None
            for _, prefetch in loads
        ]
        self.resident_buffers = resident_buffers
        self.spans: list[_Span | None] = []
        self.loop = loop
        self.old = loop.body.block
        self.loads = [load for load, _ in loads]
        self.distance = loads[0][1].integer("distance")
        shared = {load.op: p for load, p in loads if p.integer("smem_operand")}
        self.shared: dict[Operation, int | None] = {
            op: p.optional_integer("ctas") for op, p in shared.items()
        }
        self.location = loop.location
        self.streams = only_combines_tiles(loop) or any(
            isinstance(op, aa.ScanOp) for op in loop.body.block.ops
        )
        schedule = loop_schedule(loop)
        self.frees = schedule is not None and schedule.integer("frees_stages") > 0
        erase_schedule(loop)
        self.buffers: list[SSAValue] = []
        self.newest: SSAValue = loop.lower_bound
        self.is_valid: SSAValue = loop.lower_bound

    def run(self) -> aa.AsyncWaitGroupOp:
        """Builds the first loads and the loop; moves the body into it."""
        around = required(self.loop.parent_block(), "a loop is in no block")
        before = self.block = Block()
        self._first_loads()
        initial = [self.integer(0, i32), self.newest, self.is_valid]
        if any(self.resident):
            initial.append(initial[0])
        new = self._new_loop(initial)
        place = _earliest_place(self.loop, before)
        for op in list(before.ops):
            op.detach()
            around.insert_op_before(op, place)
        # The last iterations start copies of nothing, to stages that another loop may have next.
        last = aa.AsyncWaitGroupOp.create(properties=self._meeting(), location=self.location)
        if self.frees:
            last.properties["frees"] = UnitAttr()
        around.insert_ops_before([new, last], self.loop)
        replace_op(self.loop, new.results)
        return last

    # counters

    def _first_loads(self) -> None:
        """The circular buffers, and the loads of as many iterations as there are ahead."""
        loop = self.loop
        for load, resident in zip(self.loads, self.resident, strict=True):
            self.spans.append(self._span(resident) if resident is not None else None)
            self.buffers.append(self._buffer(resident, load.op))
        is_signed = loop.unsigned_cmp is None
        self.is_valid = self._less(loop.lower_bound, loop.upper_bound, is_signed)
        for number in range(self.distance):
            if number:
                self._advance()
            self._start(self.integer(number, i32), self.integer(number, i32))

    def _meeting(self) -> dict[str, Attribute]:
        """That threads meet when they have waited, if they read what others have copied."""
        return {"meet": UnitAttr()} if self.shared else {}

    def _buffer(self, resident: ResidentBuffer | None, load: Operation) -> SSAValue:
        """A circular buffer of one's own, or the one that loops share."""
        if resident is not None and resident.number in self.resident_buffers:
            return self.resident_buffers[resident.number]
        stages = self.distance + 1 if resident is None else resident.stages
        properties: dict[str, Attribute] = {"stages": IntAttr(stages)}
        if load in self.shared:
            properties |= {"shared": UnitAttr(), "ctas": IntAttr(self.shared[load] or 1)}
        buffer = self.emit(aa.CircularBufferOp, (), [aa.CIRCULAR_BUFFER], properties).results[0]
        if resident is not None:
            self.resident_buffers[resident.number] = buffer
        return buffer

    def _span(self, resident: ResidentBuffer) -> _Span | None:
        """What the buffer has room for, and what is beyond; None in the first loop."""
        loop, type = self.loop, self.loop.step.type
        if resident.number not in self.resident_buffers or not isinstance(type, IntegerType):
            return None
        room = self.integer(span_of_stages(loop, resident.stages), type)
        total = self.binary(aa.SubIOp, loop.upper_bound, loop.lower_bound)
        is_short = self._less(room, total, False)
        beyond = self.binary(aa.SubIOp, total, room)
        return _Span(room, self._select(is_short, beyond, self.integer(0, type)))

    def _is_reloaded(self, span: _Span) -> SSAValue:
        """Whether the newest tile shares its stage with another one, so that it is not there."""
        place = self.binary(aa.SubIOp, self.newest, self.loop.lower_bound)
        is_replaced = self._less(place, span.beyond, False)
        is_there = self._less(place, span.room, False)
        is_later = self.emit(aa.XOrIOp, [is_there, self._true()], [i1]).results[0]
        return self.emit(aa.OrIOp, [is_replaced, is_later], [i1]).results[0]

    def _less(self, lhs: SSAValue, rhs: SSAValue, signed: bool) -> SSAValue:
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(Signedness.SIGNED if signed else Signedness.UNSIGNED),
        }
        return self.emit(aa.CmpIOp, [lhs, rhs], [i1], properties).results[0]

    def _select(self, condition: SSAValue, first: SSAValue, second: SSAValue) -> SSAValue:
        return self.emit(aa.SelectOp, [condition, first, second], [first.type]).results[0]

    def _advance(self) -> None:
        """The counter of one more iteration; it stays where it is if there is none.

        What is left, `upper - counter`, is positive and fits the type without its sign.
        """
        loop, last = self.loop, self.newest
        left = self.binary(aa.SubIOp, loop.upper_bound, last)
        more = self._less(loop.step, left, False)
        self.is_valid = self.emit(aa.AndIOp, [self.is_valid, more], [i1]).results[0]
        following = self.binary(aa.AddIOp, last, loop.step)
        self.newest = self._select(self.is_valid, following, last)

    # loads

    def _start(self, stage: SSAValue, resident_stage: SSAValue) -> None:
        """Starts the loads of the newest iteration, if there is one; they are one group."""
        values: dict[SSAValue, SSAValue] = {self.old.args[0]: self.newest}
        for load, buffer, resident, span in zip(
            self.loads, self.buffers, self.resident, self.spans, strict=True
        ):
            op = load.op
            location, self.location = self.location, op.location
            view = self._copy(op.view, values)
            indices = [self._copy(index, values) for index in op.indices]
            token = [self._token(load.tokens)] if load.tokens else []
            sizes = (1, 1, 1, 1, len(indices), len(token))
            properties = _access_properties(op) | {"operandSegmentSizes": _segments(sizes)}
            if resident is None:
                if self.streams and not load.shared:
                    properties["streamed"] = UnitAttr()
                operands = [buffer, stage, self.is_valid, view, *indices, *token]
                self.emit(aa.AsyncCopyOp, operands, (), properties)
            else:
                self._start_if_needed(
                    span, [buffer, resident_stage], [view, *indices, *token], properties
                )
            self.location = location
        self.emit(aa.AsyncCommitGroupOp)

    def _start_if_needed(
        self,
        span: _Span | None,
        place: Sequence[SSAValue],
        access: Sequence[SSAValue],
        properties: dict[str, Attribute],
    ) -> None:
        """Starts a load into the buffer of resident tiles, in a branch: nothing is written if
        not.
        """
        condition = self.is_valid
        if span is not None:
            reload = self._is_reloaded(span)
            condition = self.emit(aa.AndIOp, [condition, reload], [i1]).results[0]
        around, self.block = self.block, Block()
        self.emit(aa.AsyncCopyOp, [*place, self._true(), *access], (), properties)
        self.emit(aa.YieldOp)
        branch, self.block = self.block, around
        self.emit(aa.IfOp, [condition], (), None, [Region(branch), Region()])

    def _true(self) -> SSAValue:
        true = {"value": DenseAttr(TileType(IntegerType(1)), b"\x01")}
        return self.emit(aa.ConstantOp, (), [i1], true).results[0]

    def _copy(self, value: SSAValue, values: dict[SSAValue, SSAValue]) -> SSAValue:
        """A value of the iteration that is loaded for; made where it is not there."""
        if value in values:
            return values[value]
        if not isinstance(value, OpResult) or value.op.parent_block() is not self.old:
            return value
        mapper = {operand: self._copy(operand, values) for operand in value.op.operands}
        self.block.add_op(copy := value.op.clone(mapper))
        values.update(zip(value.op.results, copy.results, strict=True))
        return values[value]

    def _token(self, tokens: Sequence[SSAValue]) -> SSAValue:
        """One token behind all of these."""
        if len(tokens) == 1:
            return tokens[0]
        return self.emit(aa.JoinMemTokensOp, tokens, [aa.MemTokenType()]).results[0]

    # the loop

    def _new_loop(self, initial: list[SSAValue]) -> Operation:
        """The loop over the body, which is moved."""
        loop, old = self.loop, self.old
        types = [*(arg.type for arg in old.args), *(value.type for value in initial)]
        block = self.block = Block(arg_types=types)
        stage, self.newest, self.is_valid = block.args[len(old.args) : len(old.args) + 3]
        if self.shared:
            waiting = self._meeting() | {"pending": IntAttr(self.distance - 1)}
            self.emit(aa.AsyncWaitGroupOp, (), (), waiting)
        if self.distance == 1:
            self.newest = block.args[0]
            self.is_valid = self._true()
        self._advance()
        resident_stage, resident_start, resident_following = stage, stage, list[SSAValue]()
        stages = next((resident.stages for resident in self.resident if resident is not None), None)
        if stages is not None:
            resident_stage = block.args[-1]
            resident_start = self._round(resident_stage, self.distance, stages)
            resident_following = [self._round(resident_stage, 1, stages)]
        zero, last = self.integer(0, i32), self.integer(self.distance, i32)
        one, minus_one = self.integer(1, i32), self.integer((1 << 32) - 1, i32)
        is_first, is_last = self._less(stage, one, True), self._less(stage, last, True)
        before = self._select(is_first, last, self.binary(aa.AddIOp, stage, minus_one))
        self._start(before, resident_start)
        following = self._select(is_last, self.binary(aa.AddIOp, stage, one), zero)
        carried = [following, self.newest, self.is_valid, *resident_following]
        self._move_body(block, stage, resident_stage, carried)
        operands = [loop.lower_bound, loop.upper_bound, loop.step, *loop.init_values, *initial]
        return aa.ForOp.create(
            operands=operands,
            result_types=[*(result.type for result in loop.results), *(v.type for v in initial)],
            properties=dict(loop.properties),
            attributes={k: v for k, v in loop.attributes.items() if k == REMAINDER},
            regions=[Region(block)],
            location=loop.location,
        )

    def _round(self, stage: SSAValue, distance: int, stages: int) -> SSAValue:
        """The stage so many further on, the first one after the last."""
        further = self.binary(aa.AddIOp, stage, self.integer(distance, i32))
        is_inside = self._less(further, self.integer(stages, i32), True)
        wrapped = self.binary(aa.AddIOp, stage, self.integer((1 << 32) + distance - stages, i32))
        return self._select(is_inside, further, wrapped)

    def _move_body(
        self, block: Block, stage: SSAValue, resident_stage: SSAValue, following: Sequence[SSAValue]
    ) -> None:
        """The body, with loads that are finished where they stood."""
        ends = [op for op in self.old.walk() if isinstance(op, aa.ContinueOp)]
        ends = [op for op in ends if enclosing(op, aa.ForOp, aa.LoopOp) is self.loop]
        for old, new in zip(self.old.args, block.args):
            old.replace_all_uses_with(new)
        for op in list(self.old.ops):
            op.detach()
            block.add_op(op)
        for end in ends:
            end.operands = [*end.operands, *following]
        for number, (load, buffer) in enumerate(zip(self.loads, self.buffers, strict=True)):
            place = stage if self.resident[number] is None else resident_stage
            self._finish(load, buffer, place, waits=not number and not self.shared)

    def _finish(self, load: PipelinedLoad, buffer: SSAValue, stage: SSAValue, waits: bool) -> None:
        """The tile that was loaded earlier, in the place of the load."""
        op, builder = load.op, OpBuilder()
        builder.location = op.location
        token = [] if op.token is None else [op.token]
        sizes = (1, 1, 1, len(op.indices), len(token))
        properties = _access_properties(op) | {"operandSegmentSizes": _segments(sizes)}
        if waits:
            properties["pending"] = IntAttr(self.distance)
        operands = [buffer, stage, op.view, *op.indices, *token]
        types = [result.type for result in op.results]
        made = builder.emit(aa.ReadStageOp, operands, types, properties)
        made.detach()
        replace_op_by(op, made)


def _access_properties(op: aa.TiledLoadOp) -> dict[str, Attribute]:
    """What a load says beside its operands."""
    return {key: value for key, value in op.properties.items() if key != "operandSegmentSizes"}


def _segments(sizes: Sequence[int]) -> Attribute:
    """How many operands belong to each name."""
    return DenseArrayBase.from_list(i32, sizes)


def _earliest_place(loop: aa.ForOp, moved: Block) -> Operation:
    """Where the first loads go: before what is computed right before the loop.

    A reduction, say, whose result the loop needs, but not its loads. Not before other loops and
    memory accesses.
    """
    needed = {v.owner for op in moved.walk() for v in op.operands if isinstance(v, OpResult)}
    place: Operation = loop
    while (before := place.prev_op) is not None:
        is_passed = before.has_trait(Pure) or isinstance(before, aa.ReduceOp | aa.ScanOp)
        if before in needed or not is_passed:
            break
        place = before
    return place
