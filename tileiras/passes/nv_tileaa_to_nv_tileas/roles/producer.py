"""Builds the producer's program: its slice of the kernel, with copies in place of the loads."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, TensorType, UnitAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.codegen.atoms.tma_boxes import tile_cut
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.dialects.nv_tileaa.nesting import comes_before, enclosing, op_block
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp
from tileiras.dialects.nv_tileas.warp_roles import PRODUCER
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.place_prologue_fill import (
    is_at_start,
    is_first_tile,
    one_time,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.producer_tensors import ProducerTensors
from tileiras.passes.nv_tileaa_to_nv_tileas.roles.uniform_operands import (
    TRUE,
    UniformOperands,
    all_equal,
)
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.clusters import Multicast
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.operands.gather import chunk_elements, chunk_layout, run_elements
from tileiras.planning.operands.scales import scale_dims, scale_vector
from tileiras.planning.operands.tma import (
    OperandLoad,
    contiguous_axis,
    has_renewed_map,
    is_by_tma,
    is_scale_load,
    load_swizzle,
    own_view,
    place_bytes,
    tile_bytes,
)
from tileiras.planning.operands.view_copy import view_chunks
from tileiras.planning.schedule.prologue import PrologueFill, tiles_around


class ProducerBuilder(OpBuilder):
    """Clones the slice of a role; `pipelines` are the pipelines' values, by number."""

    def __init__(self, role: str, plan: RolePlan, roles: WarpRoles, pipelines: Sequence[SSAValue]):
        super().__init__()
        program, is_producer = roles.programs[role], role == PRODUCER
        self.kept = program.kept
        self.plan = plan
        self.multicast = roles.multicast if is_producer else Multicast(1)
        self.starts = roles.fills if is_producer else ()
        self.brings_operands = is_producer
        self.uniform = UniformOperands(roles.uniform if is_producer else {})
        self.peers: dict[SSAValue, SSAValue] = {}
        """What values that depend on the rank are in the other CTA of the cluster."""
        self.pipelines = pipelines
        self.values: dict[SSAValue, SSAValue] = {}
        self.tensors = ProducerTensors(program, self.values, self.emit)
        self.maps: dict[tuple[SSAValue, Attribute, tuple[int, ...], int], SSAValue] = {}
        """Descriptors by memref, type of the view, box, and bytes that the swizzle keeps together.
        """
        self.renewed: dict[SSAValue, None] = {}
        """Descriptors that copies of the loop that is being built need, and that may change."""

    def build(self, source: Block, arguments: Sequence[SSAValue]) -> Region:
        """The program for a function body whose arguments are given as values from outside."""
        self.values.update(zip(source.args, arguments, strict=True))
        block = Block()
        self.copy_block(source, block)
        return Region(block)

    def copy_block(self, source: Block, target: Block) -> None:
        """What is kept of a block, at the end of another."""
        outer = self.block
        self.block = target
        for op in source.ops:
            self.location = op.location
            if isinstance(op, aa.YieldOp) or self.kept.keeps(op):
                self.copy_op(op)
        self.block = outer

    def copy_op(self, op: Operation) -> None:
        """The producer's version of one operation."""
        match op:
            case aa.TiledLoadOp() | aa.LoadOp() if self.plan.pipeline_of(op) is not None:
                self._copy_load(op)
            case aa.LoadOp() | aa.UnsplatOp():
                self.tensors.make(op)
            case aa.ForOp() | aa.LoopOp():
                self._copy_loop(op)
            case aa.IfOp():
                self._copy_if(op)
            case aa.YieldOp():
                parent = op.parent_op()
                if parent is not None and self.kept.keeps(parent):
                    self._leave(op, parent.results)
            case aa.ContinueOp():
                loop = enclosing(op, aa.ForOp, aa.LoopOp)
                skip = 1 if isinstance(loop, aa.ForOp) else 0
                self._leave(op, loop.regions[0].block.args[skip:])
            case aa.BreakOp():
                self._leave(op, enclosing(op, aa.LoopOp).results)
            case aa.ReturnOp():
                for pipe in self.pipelines:
                    self.emit(pl.ProducerTailOp, [pipe])
                self.emit(aa.ReturnOp)
            case _ if op.results and isinstance(op.results[0].type, TensorType):
                self.tensors.make(op)
            case _:
                operands = [self.values[operand] for operand in op.operands]
                types = [result.type for result in op.results]
                copy = self.emit(type_of(op), operands, types, op.properties)
                self.values.update(zip(op.results, copy.results, strict=True))
                if op.results and op.results[0] in self.multicast.ranked:
                    self._compute_for_peer(op)

    def _compute_for_peer(self, op: Operation) -> None:
        """Computes for the other CTA what depends on the rank."""
        result = op.results[0]
        if isinstance(op, aa.GetClusterRankOp):
            operands = [self.values[result], self.integer(1, i32)]
            peer = self.emit(aa.XOrIOp, operands, [i32])
        else:
            operands = [self.peers.get(value, self.values[value]) for value in op.operands]
            peer = self.emit(type_of(op), operands, [result.type], op.properties)
        self.peers[result] = peer.results[0]

    def _is_same(self, op: aa.TiledLoadOp) -> SSAValue:
        """i1: whether all CTAs of the cluster load the same tile."""
        indices = self.multicast.loads[op]
        same = all_equal(self, [(self.values[index], self.peers[index]) for index in indices])
        return same or self.emit(aa.ConstantOp, (), [i1], {"value": TRUE}).results[0]

    def _row_size(self) -> SSAValue:
        """i32: how many CTAs of a cluster share a tile."""
        if self.multicast.rows is None:
            raise InternalError("CTAs of a cluster do not lie in rows", where="assign-warp-roles")
        return self.values[self.multicast.rows.size]

    def _leave(self, op: Operation, receivers: Sequence[SSAValue]) -> None:
        """A terminator with the values whose receivers the producer carries."""
        pairs = zip(op.operands, receivers, strict=True)
        values = [self.tensors.carried(v, to) for v, to in pairs if self.kept.carries(to)]
        self.emit(type_of(op), values)

    def _copy_loop(self, op: aa.ForOp | aa.LoopOp) -> None:
        bounds = [op.lower_bound, op.upper_bound, op.step] if isinstance(op, aa.ForOp) else []
        source = op.body.block
        arguments = source.args[1:] if isinstance(op, aa.ForOp) else source.args
        carried = [i for i, arg in enumerate(arguments) if self.kept.carries(arg)]
        operands = [self.values[value] for value in bounds]
        self._await_memory(op)
        self.uniform.compare(self, op, self.values)
        if self.brings_operands:
            self.uniform.exclude(self, self.plan.loads_of(op), self.values.__getitem__)
        skipped = [self._skip(start, operands) for start in self.starts if start.before is op]
        operands[:1] = skipped[:1] or operands[:1]
        operands += [self.tensors.carried(op.init_values[i], arguments[i]) for i in carried]
        own = source.args[:1] if isinstance(op, aa.ForOp) else ()
        kept_args = [*own, *(arguments[i] for i in carried)]
        block = Block(arg_types=[self.tensors.type_of(arg) for arg in kept_args])
        for arg, made in zip(kept_args, block.args, strict=True):
            self.tensors.receive(arg, made)
        self.copy_block(source, block)
        if self.renewed:
            self.renew(list(self.renewed))
            self.renewed = {}
        if isinstance(op, aa.ForOp):
            results = [op.results[i] for i in carried]
            types = [arg.type for arg in block.args[1:]]
        else:
            results = [result for result in op.results if self.kept.carries(result)]
            types = [self.tensors.type_of(result) for result in results]
        copy = self.emit(type_of(op), operands, types, op.properties, [Region(block)])
        self._receive_needed(results, copy.results)

    def _await_memory(self, loop: Operation) -> None:
        """Waits until pipelines whose memory the loop's own have are empty, if they were in use."""
        pipes = self._in_the_same_memory(loop)
        start = next((start for start in self.starts if start.before is loop), None)
        outer, waiting = self.block, Block()
        is_conditional = bool(pipes) and start is not None and start.at_start
        self.block = waiting if is_conditional else outer
        for pipe in pipes:
            self.emit(pl.ProducerTailOp, [pipe], (), {"handed_back": UnitAttr()})
        self.block = outer
        if is_conditional:
            self.either(is_at_start(self, loop, self.values.__getitem__), Block(), waiting)

    def _in_the_same_memory(self, loop: Operation) -> list[SSAValue]:
        """Pipelines whose memory one of the loop's own has, filled by operations before it, or in
        earlier iterations of a loop around it.
        """
        pipelines = self.plan.pipelines
        places = [n if p.within is None else p.within for n, p in enumerate(pipelines)]
        own = {n for n, p in enumerate(pipelines) for load in p.loads if load.parent_op() is loop}
        shared = [
            n
            for n in range(len(pipelines))
            if n not in own and places[n] in {places[i] for i in own}
        ]
        return [
            self.pipelines[n]
            for n in shared
            if any(comes_before(x, loop) or _are_in_one_loop(x, loop) for x in pipelines[n].loads)
        ]

    def renew(self, maps: Sequence[SSAValue]) -> None:
        """Makes descriptors whose views are new, behind all copies of before."""
        sizes = DenseArrayBase.from_list(i32, [len(maps), len(self.pipelines)])
        properties = {"operandSegmentSizes": sizes}
        self.emit(pl.RenewTensorMapsOp, [*maps, *self.pipelines], (), properties)

    def _skip(self, start: PrologueFill, bounds: Sequence[SSAValue]) -> SSAValue:
        """Leaves stages to the consumers; gives the first iteration that they leave."""
        stages = {} if start.stages is None else {"stages": IntAttr(start.stages)}
        if start.at_start:
            lower, upper, step = bounds
            at_start = is_at_start(self, start.before, self.values.__getitem__)
            until = self.emit(aa.SelectOp, [at_start, upper, lower], [upper.type]).results[0]
            bounds = [lower, until, step]
        operands = [self.pipelines[start.pipeline], *bounds]
        if start.first_tile:
            tiles = required(tiles_around(start.before), "a first tile is in no loop over tiles")
            operands.append(is_first_tile(self, tiles, self.values.__getitem__))
        return self.emit(pl.ProducerSkipOp, operands, [bounds[0].type], stages).results[0]

    def _receive_needed(self, results: Sequence[SSAValue], made: Sequence[SSAValue]) -> None:
        """Notes the results of control flow that the producer uses."""
        for old, new in zip(results, made, strict=True):
            if self.kept.carries(old):
                self.tensors.receive(old, new)

    def _copy_if(self, op: aa.IfOp) -> None:
        regions: list[Region] = []
        for region in op.regions:
            source = region.first_block
            if source is None:
                regions.append(Region())
                continue
            block = Block()
            self.copy_block(source, block)
            regions.append(Region(block))
        results = [result for result in op.results if self.kept.carries(result)]
        types = [self.tensors.type_of(result) for result in results]
        copy = self.emit(aa.IfOp, [self.values[op.condition]], types, op.properties, regions)
        self._receive_needed(results, copy.results)

    def _copy_load(self, op: OperandLoad) -> None:
        """Acquire before the first load of a pipeline, advance after its last."""
        number = self.plan.pipeline_of(op)
        if number is None:
            raise InternalError("the producer keeps a load that no pipeline brings")
        loads = self.plan.pipelines[number].content(op)
        pipe = self.pipelines[number]
        in_order = [other for other in op_block(op).ops if other in loads]
        started = [start for start in self.starts if op in start.loads]
        if started and not isinstance(started[0].before, aa.ForOp):
            if op is in_order[0]:
                self._skip(started[0], one_time(self))
            return
        if op is in_order[0]:
            self._renew_at_once(loads)
            self._acquire(pipe, loads)
        offset = sum(place_bytes(other) for other in loads[: loads.index(op)])
        if isinstance(op, aa.TiledLoadOp) and is_scale_load(op) and not is_by_tma(op):
            self._copy_scales(op, pipe, offset)
        else:
            self._copy_tile(op, pipe, offset)
        if op is in_order[-1]:
            self.emit(pl.ProducerCommitOp, [pipe])

    def _renew_at_once(self, loads: Sequence[OperandLoad]) -> None:
        """Makes descriptors of what comes once for each tile, which no loop over copies is for."""
        alone = [
            load
            for load in loads
            if isinstance(load, aa.TiledLoadOp) and is_by_tma(load) and has_renewed_map(load)
        ]
        loops = [enclosing(load, aa.ForOp, aa.LoopOp) for load in alone]
        if any(isinstance(loop, aa.ForOp) and loop.takes_over is not None for loop in loops):
            self.renew([self._tensor_map(load, self.values[load.view]) for load in alone])

    def _copy_scales(self, op: aa.TiledLoadOp, pipe: SSAValue, offset: int) -> None:
        """A tile of scales, which threads arrange as the tensor core wants it."""
        dims = scale_dims(op)
        numbers = {"axis": dims.k, "rows": dims.rows, "offset": offset}
        numbers["vector"] = scale_vector(op)
        properties: dict[str, Attribute] = {name: IntAttr(n) for name, n in numbers.items()}
        properties["inbounds"] = op.inbounds
        operands = [pipe, *(self.values[value] for value in (op.view, *op.indices))]
        self.emit(ScalesLoadOp, operands, (), properties)

    def _copy_tile(self, op: OperandLoad, pipe: SSAValue, offset: int) -> None:
        """A tile to its place in the stage."""
        axis = contiguous_axis(op)
        if axis is None:
            raise InternalError("a tile brought to shared memory has no contiguous dim")
        properties: dict[str, Attribute] = {"axis": IntAttr(axis), "offset": IntAttr(offset)}
        if isinstance(op, aa.LoadOp):
            operands = [value for value in (op.pointers, op.mask) if value is not None]
            layout = chunk_layout(op)
            tiles = [self.tensors.get(value, layout) for value in operands]
            properties["vector"] = IntAttr(chunk_elements(op))
            properties["swizzle"] = IntAttr(load_swizzle(op))
            properties["run"] = IntAttr(run_elements(op, axis))
            self.emit(pl.GatherLoadOp, [pipe, *tiles], (), properties)
        elif not is_by_tma(op):
            operands = [pipe, *(self.values[value] for value in (op.view, *op.indices))]
            properties["vectors"] = IntTupleAttr(view_chunks(op, axis))
            properties["swizzle"] = IntAttr(load_swizzle(op))
            properties["inbounds"] = op.inbounds
            self.emit(pl.CopyLoadOp, operands, (), properties)
        else:
            view = self.values[op.view]
            tensor_map = self._tensor_map(op, view)
            loop = enclosing(op, aa.ForOp, aa.LoopOp) if has_renewed_map(op) else None
            if loop is not None and not (isinstance(loop, aa.ForOp) and loop.takes_over):
                self.renewed[tensor_map] = None
            operands = [pipe, tensor_map, view]
            operands += [self.values[index] for index in op.indices]
            is_shared = op in self.multicast.loads
            if is_shared:
                operands.append(self._is_same(op))
            skip_if = self.uniform.conditions.get(op)
            if skip_if is not None:
                operands.append(skip_if)
            if op.halved is not None:
                properties["halved"] = op.halved
            if op in self.multicast.apart:
                properties["apart"] = IntAttr(self.multicast.apart[op])
            in_row = is_shared and self.multicast.rows is not None
            if in_row:
                operands.append(self._row_size())
            sizes = [1, 1, 1, len(op.indices), *map(int, (is_shared, skip_if is not None, in_row))]
            properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
            self.emit(pl.TmaLoadOp, operands, (), properties)

    def _acquire(self, pipe: SSAValue, loads: Sequence[OperandLoad]) -> None:
        """Waits for a stage and announces what TMA will bring, less what turns out to be there."""
        by_tma = sum(tile_bytes(load) for load in loads if is_by_tma(load))
        properties: dict[str, Attribute] = {"bytes": IntAttr(by_tma)}
        found = [load for load in loads if load in self.uniform.conditions]
        if found:
            properties["skipped"] = IntTupleAttr([tile_bytes(load) for load in found])
        conditions = [self.uniform.conditions[load] for load in found]
        self.emit(pl.ProducerAcquireOp, [pipe, *conditions], (), properties)

    def _tensor_map(self, op: aa.TiledLoadOp, view: SSAValue) -> SSAValue:
        """The descriptor of the view, made where the view's memref is: before any loop.

        So all stand before the first copy as a rule, and are made together. Views that are alike
        share one.
        """
        type, axis = own_view(op), contiguous_axis(op)
        if axis is None:
            raise InternalError("a tile brought to shared memory has no contiguous dim")
        is_shared = op in self.multicast.loads
        parts = self.multicast.sharers(op) if is_shared else 1
        extents = tile_cut(type, axis, parts) if load_swizzle(op) else type.tile_shape
        if extents is None:
            raise InternalError("a tile cannot be cut into boxes")
        atom = self.plan.atom_of(op)
        key = (memref_of(view).result, type, extents, atom)
        known = self.maps.get(key)
        if known is not None:
            moved_to_its_memref(view)
            return known
        box = [0] * len(type.dim_map)
        for extent, dim in zip(extents, type.dim_map, strict=True):
            box[dim] = extent
        owner = moved_to_its_memref(view)
        properties: dict[str, Attribute] = {"box": IntTupleAttr(box)}
        properties["swizzle"] = IntAttr(load_swizzle(op))
        if atom != ATOM_BYTES:
            properties["atom"] = IntAttr(atom)
        if has_renewed_map(op):
            properties["renewed"] = UnitAttr()
        made = pl.MakeTensorMapOp.create(
            operands=[view],
            result_types=[pl.TENSOR_MAP],
            properties=properties,
            location=owner.location,
        )
        block = required(owner.parent_block(), "a view is in no block")
        block.insert_op_after(made, owner)
        self.maps[key] = made.result
        return made.result


def moved_to_its_memref(view: SSAValue) -> Operation:
    """The maker of a view, moved to where its memref is made, out of loops and before all copies.

    Building a descriptor costs a microsecond, building several at once hardly more.
    """
    owner, memref = view.owner, memref_of(view)
    if not isinstance(owner, Operation):
        raise InternalError("a view has no maker")
    block = op_block(memref)
    if list(owner.operands) == list(memref.results):
        owner.detach()
        block.insert_op_after(owner, memref)
    return owner


def type_of(op: Operation) -> type[Operation]:
    """The class of an operation."""
    return type(op)


def _are_in_one_loop(op: Operation, loop: Operation) -> bool:
    """Whether a loop stands around both, so that one may follow the other in a later iteration."""
    parent = op.parent_op()
    while parent is not None:
        is_around = parent is not loop and parent.is_ancestor(loop)
        if isinstance(parent, aa.ForOp | aa.LoopOp) and is_around:
            return True
        parent = parent.parent_op()
    return False
