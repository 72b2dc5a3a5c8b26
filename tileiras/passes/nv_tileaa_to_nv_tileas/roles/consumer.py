"""The consumer's side of pipelines: waits in place of loads, wgmma in place of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, UnitAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr, Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.schedule import PUT_OFF
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, element_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.place_prologue_fill import (
    first_tile_bounds,
    first_tile_values,
    is_at_start,
    is_first_tile,
    one_time,
    place_prologue_fill,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.product_warp import (
    rows_type,
    stage_offset,
    tile_type,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.smem_transpose import (
    smem_transposed_tile,
    transposed_words,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.sums import SumsInTmem
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.uniform_operands import UniformOperands
from tileiras.planning.layouts.written import scales_of
from tileiras.planning.mma.accumulation import running_position
from tileiras.planning.mma.mma_sync import MmaSyncDot
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.operands.tma import (
    OperandLoad,
    SharedOperand,
    is_by_tma,
    is_for_threads,
)
from tileiras.planning.schedule.prologue import (
    PrologueFill,
    first_tile_scalars,
    loop_over_tiles,
    tiles_around,
)

FINISHED = {"pending": IntAttr(0)}
"""Of a wait for a product: it is finished then, as are all before it."""


class ConsumerSide:
    """What the materializer needs to know of the pipelines; `pipelines` are their values, by
    number.
    """

    def __init__(self, plan: RolePlan, roles: WarpRoles, pipelines: Sequence[SSAValue]):
        self.plan = plan
        self.roles = roles
        self.pipelines = pipelines
        self.starts = roles.fills
        self.postponed: list[OperandLoad] = []
        """Loads with a prologue fill that are waited for where their first reader is."""
        self.tiles: dict[tuple[OperandLoad, MemDescType], SSAValue] = {}
        self.uniform = UniformOperands(roles.uniform)
        self.store_maps: dict[Operation, SSAValue] = {}
        self.store_pipeline: SSAValue | None = None
        """Where tiles go that a warp of its own stores."""
        self.sums: SumsInTmem | None = None
        """What is in tensor memory: a warp role of its own issues the products then."""

    def brings(self, load: Operation) -> bool:
        """Whether a pipeline brings the tile of this load."""
        return self.plan.pipeline_of(load) is not None

    def held(self, value: SSAValue) -> SSAValue | None:
        """The accumulator in which a value is, None if it has registers."""
        return self.sums.held.get(value) if self.sums is not None else None

    def absorbs(self, op: Operation) -> bool:
        """Whether products read what is under the operation, so that nothing is left of it."""
        if isinstance(op, aa.ForOp) or op in self.plan.dots:
            return False
        return op in self.roles.elsewhere

    def passes_over(self, op: Operation) -> bool:
        """Whether others run a loop, which gives consumers its sums."""
        return op in self.roles.elsewhere

    def place_load(self, materializer: Materializer, op: OperandLoad) -> Sequence[SSAValue]:
        """Waits for the stage at the last load of the pipeline; the tile stays in shared memory.

        What another warp role multiplies is not waited for.
        """
        started = [start for start in self.starts if start.before is op]
        for start in started:
            pipeline = self.pipelines[start.pipeline]
            place_prologue_fill(materializer, start, pipeline, one_time(materializer), {})
        block, loads = op.parent_block(), self._content(op)
        in_order = [other for other in block.ops if other in loads] if block is not None else []
        if started:
            self.postponed.append(op)
        elif in_order and op is in_order[-1] and self.sums is None:
            self._wait_for_slot(materializer, op)
        token = materializer.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]
        if is_for_threads(op):
            # Read where threads need it, in their layout.
            self._wait_for_slot(materializer, op)
            return [self.tiles[op, rows_type(op)], token]
        return [token, token]

    def _content(self, load: OperandLoad) -> tuple[OperandLoad, ...]:
        """The loads that share a stage with this one."""
        return self.plan.pipelines[self._number(load)].content(load)

    def _number(self, load: OperandLoad) -> int:
        """The number of the pipeline that brings the tile of a load."""
        number = self.plan.pipeline_of(load)
        if number is None:
            raise InternalError("a load without a pipeline was taken for one with")
        return number

    def _wait_for_slot(self, materializer: Materializer, op: OperandLoad) -> None:
        """Waits for the stage with the tile of a load, once: a product may come before other loads.

        A tile that products read in different ways is given once for each.
        """
        loads, pipeline = self._content(op), self.pipelines[self._number(op)]
        reads: dict[tuple[OperandLoad, MemDescType], None] = {}
        for planned in self.plan.dots.values():
            for operand, value in ((planned.lhs, planned.dot.lhs), (planned.rhs, planned.dot.rhs)):
                if operand is not None and operand.load in loads:
                    reads[operand.load, tile_type(operand, value)] = None
        if any(read in self.tiles for read in reads):
            return
        reads |= {(load, rows_type(load)): None for load in loads if is_for_threads(load)}
        in_order = [read for load in loads for read in reads if read[0] is load]
        types = [type for _, type in in_order]
        offsets = IntTupleAttr([stage_offset(self.plan, load) for load, _ in in_order])
        wait = materializer.emit(pl.ConsumerWaitOp, [pipeline], types, {"offsets": offsets})
        self.tiles.update(zip(in_order, wait.results, strict=True))
        if not all(map(is_by_tma, loads)):
            materializer.emit(pl.ProxyFenceOp)

    def _tile(
        self, materializer: Materializer, operand: SharedOperand, value: SSAValue
    ) -> SSAValue:
        """An operand in its stage, which has been waited for or is now.

        One that may be the same as another's is read where that is, if it is.
        """
        self._wait_for_slot(materializer, operand.load)
        type = tile_type(operand, value)
        own = self.tiles[operand.load, type]
        same = self.uniform.conditions.get(operand.load)
        if same is None or operand.load not in self.uniform.firsts:
            return own
        first = replace(operand, load=self.uniform.firsts[operand.load])
        other = self.tiles[first.load, tile_type(first, value)]
        return materializer.emit(pl.SelectTileOp, [same, other, own], [type]).results[0]

    def place_dot(self, materializer: Materializer, op: aa.ProductOp) -> Sequence[SSAValue]:
        """A product from shared memory: finished at once, or as its `pending` says.

        `tileas-optimize-dot-accumulation` puts waits off.
        """
        planned = self.plan.dots[op]
        if isinstance(planned, MmaSyncDot):
            return self._place_mma_sync(materializer, planned)
        if isinstance(planned, Tcgen05Dot):
            if self.sums is None:
                raise InternalError("a sum in tensor memory has no place")
            return self.sums.place_dot(materializer, planned)
        if not isinstance(op.result.type, TensorType):
            raise InternalError("a product gives no tensor")
        *left, layout = materializer.operand_layouts(op, self._in_registers(planned))
        acc = materializer.in_layout(op.acc, layout)
        released = self._released(op)
        right = self._tile(materializer, planned.rhs, planned.dot.rhs)
        is_smem_transposed = planned.fragments == "smem_transpose"
        if planned.is_smem_transposed and not planned.transposes_words:
            early = released if is_smem_transposed else ()
            right = smem_transposed_tile(materializer, right, early)
        operands = [self._left(materializer, planned, left), right]
        if planned.transposes_words:
            smem_transpose = 0 if planned.transposed else 1
            running = acc if self.roles.pending[op] else None
            operands[smem_transpose], finished = transposed_words(
                materializer, operands[smem_transpose], running
            )
            acc = finished or acc
        type = encoded(op.result.type.element_type, layout)
        kept = ("signedness_lhs", "signedness_rhs")
        properties = {key: op.properties[key] for key in kept if key in op.properties}
        if planned.is_two_level:
            properties["two_level"] = UnitAttr()
        if planned.fragments is not None and not is_smem_transposed:
            properties["fragments"] = StringAttr(planned.fragments)
        if planned.transposed and planned.fragments != "rhs":
            properties["transposed"] = UnitAttr()
        if PUT_OFF in op.attributes:
            properties["put_off"] = UnitAttr()
        pending = self.roles.pending.get(op)
        if pending is not None:
            properties["pending"] = IntAttr(pending)
        awaits, starts = self.roles.late_start or (None, None)
        if op is awaits:
            materializer.emit(wg.AwaitFirstOp)
        operands.append(acc)
        condition = op.condition if isinstance(op, aa.DotOp) else None
        if condition is not None:
            operands.append(materializer.plain(condition))
        properties |= wg.dot_segments(condition=condition is not None)
        product = materializer.emit(wg.WgmmaDotOp, operands, [type], properties).results[0]
        if pending is None:
            product = materializer.emit(wg.DotWaitOp, [product], [type], FINISHED).results[0]
        if op is starts:
            materializer.emit(wg.StartOthersOp, [product])
        for pipeline in () if is_smem_transposed else released:
            keep = 0 if planned.transposes_words else min(pending or 0, 1)
            self._release(materializer, pipeline, keep)
        return [materializer.settle(op.result, product)]

    def _place_mma_sync(
        self, materializer: Materializer, planned: MmaSyncDot
    ) -> Sequence[SSAValue]:
        """A product on fragments that each warp reads from the stage, which it then hands back."""
        op, warpgroups = planned.dot, self.plan.warpgroups
        *fragments, layout = materializer.operand_layouts(op, self._in_registers(planned))
        left = self._left(materializer, planned, fragments)
        right = self._tile(materializer, planned.rhs, op.rhs)
        acc = materializer.in_layout(op.acc, layout)
        warps_m, warps_n = planned.grid(warpgroups)
        properties: dict[str, Attribute] = {
            "atom": StringAttr(planned.instruction.atom),
            "warps_m": IntAttr(warps_m),
            "warps_n": IntAttr(warps_n),
        }
        type = encoded(element_of(op.result), layout)
        operands, op_class = [left, right, acc], tas.MmaDotOp
        if isinstance(op, aa.DotScaledOp):
            pairs = zip(scales_of(op), fragments[-2:], strict=True)
            operands += [materializer.in_layout(value, layout) for value, layout in pairs]
            op_class = tas.MmaScaledDotOp
        built = materializer.emit(op_class, operands, [type], properties)
        for pipeline in self._released(op):
            self._release(materializer, pipeline)
        return [materializer.settle(op.result, built.results[0])]

    def _released(self, op: Operation) -> list[SSAValue]:
        """The pipelines that get a stage back behind an operation."""
        return [self.pipelines[number] for number in self.roles.releases.get(op, ())]

    def _release(self, materializer: Materializer, pipeline: SSAValue, keep: int = 0) -> None:
        """Hands stages back; of mma.sync each warp does when all its lanes have read."""
        properties: dict[str, Attribute] = {"keep": IntAttr(keep)}
        if not self.plan.is_asynchronous:
            properties["by_warps"] = UnitAttr()
        materializer.emit(pl.ConsumerReleaseOp, [pipeline], (), properties)

    def _in_registers(self, planned: PlannedDot) -> list[SSAValue]:
        """The operands that threads hold."""
        left = [planned.dot.lhs] if planned.lhs is None else []
        return [*left, *scales_of(planned.dot), planned.dot.acc]

    def _left(
        self, materializer: Materializer, planned: PlannedDot, fragments: Sequence[LinearLayout]
    ) -> SSAValue:
        """The left operand: a tile in shared memory, or this thread's fragments of it."""
        if planned.lhs is not None:
            return self._tile(materializer, planned.lhs, planned.dot.lhs)
        return materializer.in_layout(planned.dot.lhs, fragments[0])

    def start(
        self, materializer: Materializer, op: Operation, operands: Sequence[SSAValue]
    ) -> None:
        """Before a loop with these bounds, or a branch with this condition: copies first tiles.

        Sums of the loop in tensor memory begin, where consumers say from what.
        """
        if self.sums is not None:
            self.sums.begin(materializer, op)
        bounds = operands
        if self.roles.late_start is not None and op is self.roles.late_start[1]:
            materializer.emit(wg.StartOthersOp)
        self._start_last_tile(materializer, op)
        self._start_first_tile(materializer, op)
        apart = [start for start in self.starts if start.at_start or start.first_tile]
        starts = [start for start in self.starts if start.before is op and start not in apart]
        if guarded := [start for start in starts if start.if_taken]:
            self._start_branch(materializer, guarded, operands[0])
        starts = [start for start in starts if not start.if_taken]
        if starts and isinstance(op, aa.IfOp):
            unsigned = {"signedness": SignednessAttr(Signedness.UNSIGNED)}
            count = materializer.emit(aa.ExtIOp, operands, [i32], unsigned).results[0]
            bounds = [materializer.integer(0, i32), count, materializer.integer(1, i32)]
        for load, same in self.uniform.compare(materializer, op, materializer.values).items():
            uniform = materializer.emit(pl.UniformOp, [same], [same.type])
            self.uniform.conditions[load] = uniform.results[0]
        self.uniform.exclude(materializer, self.plan.loads_of(op), materializer.plain)
        for start in starts:
            pipeline, known = self.pipelines[start.pipeline], self.uniform.conditions
            place_prologue_fill(materializer, start, pipeline, bounds, known)
        for load in list(self.postponed):
            if any(op.is_ancestor(planned.dot) for planned in self._readers(load)):
                self.postponed.remove(load)
                self._wait_for_slot(materializer, load)

    def _start_last_tile(self, materializer: Materializer, op: Operation) -> None:
        """Before a loop over tiles: the first tiles for the one behind it, if it does not run."""
        for start in self.starts:
            loop = start.before
            if not start.at_start or not isinstance(loop, aa.ForOp):
                continue
            if loop_over_tiles(loop) is not op:
                continue
            lower, upper, step = map(
                materializer.plain, (loop.lower_bound, loop.upper_bound, loop.step)
            )
            at_start = is_at_start(materializer, loop, materializer.plain)
            until = materializer.emit(aa.SelectOp, [at_start, upper, lower], [upper.type])
            bounds = [lower, until.results[0], step]
            place_prologue_fill(materializer, start, self.pipelines[start.pipeline], bounds, {})

    def _start_first_tile(self, materializer: Materializer, op: Operation) -> None:
        """Before a loop over tiles: the first operands of its first tile, if there is one.

        Where more than the number of the tile says where they lie: before the loop of the product,
        if the tile is the first one.
        """
        for start in self.starts:
            loop, tiles = start.before, tiles_around(start.before)
            if not start.first_tile or not isinstance(loop, aa.ForOp) or tiles is None:
                continue
            scalars, pipeline = first_tile_scalars(start), self.pipelines[start.pipeline]
            if op is tiles and scalars is not None:
                made = first_tile_values(materializer, scalars, tiles)
                bounds = first_tile_bounds(materializer, loop, tiles, made)
                place_prologue_fill(materializer, start, pipeline, bounds, {}, made)
            elif op is loop and scalars is None:
                values = (loop.lower_bound, loop.upper_bound, loop.step)
                bounds = [materializer.plain(value) for value in values]
                is_first = is_first_tile(materializer, tiles, materializer.plain)
                with materializer.only_where(is_first):
                    place_prologue_fill(materializer, start, pipeline, bounds, {})

    def _start_branch(
        self, materializer: Materializer, starts: Sequence[PrologueFill], condition: SSAValue
    ) -> None:
        """Before a branch that is taken under a condition: its first tiles, if it is."""
        with materializer.only_where(condition):
            for start in starts:
                pipeline = self.pipelines[start.pipeline]
                place_prologue_fill(materializer, start, pipeline, one_time(materializer), {})

    def _readers(self, load: OperandLoad) -> Iterator[PlannedDot]:
        """The products that read the tile of a load."""
        for planned in self.plan.dots.values():
            if planned.rhs.load is load or (planned.lhs and planned.lhs.load is load):
                yield planned

    def finish_loop(
        self, materializer: Materializer, op: Operation, results: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """After a loop: finishes the products left unfinished, and hands back their stages."""
        if self.sums is not None:
            return self.sums.load(materializer, op, results)
        finished = list(results)
        for planned in self.plan.dots.values():
            position = running_position(planned) if self.roles.pending.get(planned.dot) else None
            if position is None or planned.dot.parent_op() is not op:
                continue
            acc = finished[position]
            wait = materializer.emit(wg.DotWaitOp, [acc], [acc.type], FINISHED)
            finished[position] = wait.results[0]
            for pipeline in () if planned.transposes_words else self._released(planned.dot):
                self._release(materializer, pipeline)
        self.release_kept(materializer, op)
        return finished

    def release_kept(self, materializer: Materializer, loop: Operation) -> None:
        """After a loop or a branch: hands back left operands that were kept until then."""
        for pipeline in self._released(loop):
            self._release(materializer, pipeline)
