"""Warp roles and pipelines: warps with different programs, joined by circular buffers in shared
memory.

A pipeline has `stages` stages with a full and an empty mbarrier each. The producer acquires a stage
(waits until it is empty, arms the full barrier with the byte count), issues copies into it, and
goes on to the next. The consumer waits until a stage is full, reads it, and releases it. Both keep
their own position. What is done with the stages by wgmma is in `wgmma`, how tiles leave by TMA in
`tma_stores`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerType, TensorType, UnitAttr
from xdsl.ir import Operation, OpResult, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.memdesc import IN_SMEM, WIDE_ATOMS, is_in_smem
from tileiras.dialects.operations import SegmentedOp, operations_in


@irdl_attr_definition
class PipelineType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileas.pipeline`: a circular buffer of stages."""

    name = "nv_tileas.pipeline"


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileas.tensor_map`: a TMA descriptor in global memory."""

    name = "nv_tileas.tensor_map"


PIPELINE = PipelineType()
TENSOR_MAP = TensorMapType()


@irdl_op_definition
class CreatePipelineOp(IRDLOperation):
    """A pipeline of `stages` stages of `stage_bytes`, each released by `consumers` groups of warps.

    The groups are equal parts of the consumer's warps: warpgroups where only wgmma reads the
    stages, which ends for all its warps at once, else single warps. `gather_threads` threads of the
    producer copy into the stages besides TMA, or none. Stages of a `shared` pipeline are filled by
    all CTAs of the cluster: one is empty when the consumers of all CTAs have released it. Stages
    lie in the `storage` of another pipeline where a tile block uses one of both only. Stages of a
    `pair` of CTAs are read by products of both: one of the first CTA is full when both are, and
    both are handed back at once.
    """

    name = "nv_tileas.async.pipeline.create_pipeline"
    storage = opt_operand_def(PipelineType)
    stages = prop_def(IntAttr)
    stage_bytes = prop_def(IntAttr)
    consumers = prop_def(IntAttr)
    gather_threads = prop_def(IntAttr)
    shared = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """There is a stage, and none is handed back before somebody has read it."""
        if min(self.stages.data, self.stage_bytes.data, self.consumers.data) < 1:
            raise VerifyException("a pipeline needs a stage, bytes in it, and a consumer")


@irdl_op_definition
class AgentSwitchOp(IRDLOperation):
    """Splits the warps: `consumer_warps` run the consumer region, `working_warps` the producer's.

    The next warp runs the `store` region, if there is one. `producer_warps`, that one and idle ones
    included, is 1 or 2, or 4 so that setmaxnreg can take their registers:
    `*_registers` are those of a thread of each warp role, 0 if it keeps what it has. `ctas` of the
    kernel shall fit an SM. `longest_tile_first` says which tile block a CTA computes: (axis,
    whether work rises along it, blocks of a group). With `kept_maps` the producer looks for tensor
    maps that an earlier CTA has made.
    """

    name = "nv_tileas.async.pipeline.agent_switch"
    consumer_warps = prop_def(IntAttr)
    producer_warps = prop_def(IntAttr)
    working_warps = prop_def(IntAttr)
    producer_registers = prop_def(IntAttr)
    consumer_registers = prop_def(IntAttr)
    ctas = prop_def(IntAttr)
    longest_tile_first = opt_prop_def(IntTupleAttr)
    kept_maps = opt_prop_def(UnitAttr)
    producer = region_def()
    consumer = region_def()
    store = opt_region_def()
    traits = traits_def(NoTerminator())

    def verify_(self) -> None:
        """The warp that stores is none of those that produce."""
        if self.store is not None and self.producer_warps.data <= self.working_warps.data:
            raise VerifyException("no warp is left to run the store region")


def switches_of(func: Operation) -> list[AgentSwitchOp]:
    """Where the warps of a function part: nowhere, or in one place of its body."""
    ops = func.regions[0].block.ops if func.regions and func.regions[0].blocks else ()
    return [op for op in ops if isinstance(op, AgentSwitchOp)]


@irdl_op_definition
class MakeTensorMapOp(IRDLOperation):
    """A TMA descriptor for boxes of a view; `box` has one extent per memref dim.

    Rows of a box are `swizzle` bytes in shared memory, one swizzle span, which keeps `atom` bytes
    together, if not 16. One that is `renewed` stands in a loop, and is made by the
    `renew_tiled_tma_descs` before its next use.
    """

    name = "nv_tileas.make_tiled_tma_desc"
    view = operand_def()
    box = prop_def(IntTupleAttr)
    swizzle = prop_def(IntAttr)
    atom = opt_prop_def(IntAttr)
    renewed = opt_prop_def(UnitAttr)
    result = result_def()

    def verify_(self) -> None:
        """A swizzle keeps more together in one span alone."""
        if self.atom is not None and (self.swizzle.data, self.atom.data) != WIDE_ATOMS:
            found = f"atoms of {self.atom.data} bytes in a swizzle of {self.swizzle.data}"
            raise VerifyException(f"{self.name}: {found}")


@irdl_op_definition
class RenewTensorMapsOp(SegmentedOp):
    """Descriptors whose `make_tiled_tma_desc` was passed since they were made are made now.

    They take the place of those before, so all copies into the `pipelines` land first: the
    hardware may read a descriptor until then. What nobody copies costs nothing.
    """

    name = "nv_tileas.renew_tiled_tma_descs"
    tensor_maps = var_operand_def(TensorMapType)
    pipelines = var_operand_def(PipelineType)

    def verify_(self) -> None:
        """Only descriptors that are `renewed` change."""
        for value in self.tensor_maps:
            made = value.owner
            if isinstance(made, MakeTensorMapOp) and made.renewed is None:
                raise VerifyException("a descriptor is not 'renewed': nothing changes it")


@irdl_op_definition
class ProducerAcquireOp(IRDLOperation):
    """Waits until the current stage is empty and announces the `bytes` that TMA will bring.

    Of each of the conditions (i1) that holds, so many fewer as `skipped` says.
    """

    name = "nv_tileas.async.pipeline.producer_acquire"
    pipeline = operand_def()
    conditions = var_operand_def()
    bytes = prop_def(IntAttr)
    skipped = opt_prop_def(IntTupleAttr)


@irdl_op_definition
class ProducerCommitOp(IRDLOperation):
    """On to the next stage."""

    name = "nv_tileas.async.pipeline.producer_commit"
    pipeline = operand_def()


@irdl_op_definition
class ProducerTailOp(IRDLOperation):
    """Waits until all copies have landed: nothing is in flight any more.

    With `handed_back` until no consumer reads a stage any more, too: another pipeline gets the
    memory.
    """

    name = "nv_tileas.async.pipeline.producer_tail"
    pipeline = operand_def()
    handed_back = opt_prop_def(UnitAttr)


@irdl_op_definition
class TmaLoadOp(SegmentedOp):
    """Copies one tile of a view into the current stage at byte `offset`, in panels along `axis`.

    Where `multicast_if` (i1) holds, all CTAs of the cluster copy the same tile now, and each brings
    its part of it to all; or all whose ranks agree in the bits of `apart`; or those of a row of
    `row_size` CTAs (i32, a power of two). Boxes of the tensor map may have but a part of a panel.
    Where `skip_if` (i1) holds, nothing is copied: the stage has the tile in another place. Of one
    that is `halved` along a dim each CTA of a pair copies one half, to the same place in its stage.
    """

    name = "nv_tileas.async.tiled_tma_load"
    pipeline = operand_def()
    tensor_map = operand_def()
    view = operand_def()
    indices = var_operand_def()
    multicast_if = opt_operand_def()
    skip_if = opt_operand_def()
    row_size = opt_operand_def()
    axis = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    halved = opt_prop_def(IntAttr)
    apart = opt_prop_def(IntAttr)

    @property
    def rank_bits(self) -> int:
        """The bits of the rank in which CTAs differ that copy different things."""
        apart = 0 if self.apart is None else self.apart.data
        return apart if self.halved is None else apart | 1

    def sharers(self, cluster_size: int) -> int:
        """The CTAs of a cluster that copy the same."""
        return 1 if self.multicast_if is None else cluster_size >> self.rank_bits.bit_count()


@irdl_op_definition
class PrologueFillOp(SegmentedOp):
    """The consumers' threads copy the tiles of the first iterations into the stages of a pipeline.

    As many as there are `stages` (by default all), of a loop from `lower` to `upper` in steps.
    `views` are those of the loads in the order of their tiles in a stage, `indices` theirs in the
    first iteration, one after another; `follows` is 1 for an index that is the iteration's number.
    `by_bytes` copies say how many bytes they read, others at most whether they read any. For views
    that are `skipped` (1) there is one of the `conditions` under which their tiles are not copied.
    `hurried` says that the kernel's first cycles count: its warps make the mbarriers together, and
    the producer looks for tensor maps that are made. `at_start`: where there is no iteration
    nothing is copied, not even zeros: others have the stages. `first_tile`: stages without a tile
    are left alone, since the producer fills them next.
    """

    name = "nv_tileas.async.pipeline.prologue_fill"
    pipeline = operand_def()
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    views = var_operand_def()
    indices = var_operand_def()
    conditions = var_operand_def()
    follows = prop_def(IntTupleAttr)
    skipped = prop_def(IntTupleAttr)
    axes = prop_def(IntTupleAttr)
    offsets = prop_def(IntTupleAttr)
    swizzles = prop_def(IntTupleAttr)
    stages = opt_prop_def(IntAttr)
    by_bytes = opt_prop_def(UnitAttr)
    hurried = opt_prop_def(UnitAttr)
    at_start = opt_prop_def(UnitAttr)
    first_tile = opt_prop_def(UnitAttr)


@irdl_op_definition
class ProducerSkipOp(IRDLOperation):
    """Passes over the iterations of a loop that are filled by the prologue; gives the first one
    after.

    They fill the first `stages` of the pipeline, which nothing has been copied into before; where a
    `condition` is given and does not hold, none are passed over.
    """

    name = "nv_tileas.async.pipeline.producer_skip"
    pipeline = operand_def()
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    condition = opt_operand_def()
    stages = opt_prop_def(IntAttr)
    result = result_def()


@irdl_op_definition
class GatherLoadOp(IRDLOperation):
    """Copies one tile through pointers into the current stage at byte `offset`, panels along
    `axis`.

    Rows of a panel have `swizzle` bytes. `pointers` and `mask` have the first element of every
    chunk of `vector` elements along `axis`, which is copied by the thread that holds it; where the
    mask is false zeros arrive. Pointers of `run` elements along `axis`, from a multiple of that on,
    lie one behind the other.
    """

    name = "nv_tileas.async.gather_load"
    pipeline = operand_def()
    pointers = operand_def()
    mask = opt_operand_def()
    axis = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    vector = prop_def(IntAttr)
    swizzle = prop_def(IntAttr)
    run = prop_def(IntAttr)


@irdl_op_definition
class CopyLoadOp(IRDLOperation):
    """Copies one tile of a view into the current stage at byte `offset`, panels along `axis`.

    The producer's threads do so, `vectors` elements along `axis` at a time (`chunk_layout`): the
    first of these numbers for which all addresses turn out to be aligned, as they are for the last.
    What is out of bounds becomes zero. `inbounds` promises per dim that nothing is.
    """

    name = "nv_tileas.async.tiled_load"
    pipeline = operand_def()
    view = operand_def()
    indices = var_operand_def()
    axis = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    swizzle = prop_def(IntAttr)
    vectors = prop_def(IntTupleAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])


@irdl_op_definition
class ConsumerWaitOp(IRDLOperation):
    """Waits until the next stage is full and gives its tiles: those at `offsets`, in bytes."""

    name = "nv_tileas.async.pipeline.consumer_wait"
    pipeline = operand_def()
    offsets = prop_def(IntTupleAttr)
    tiles = var_result_def(IN_SMEM)

    def verify_(self) -> None:
        """Each tile has its place in the stage."""
        if len(self.offsets.data) != len(self.tiles):
            found = f"{len(self.offsets.data)} offsets for {len(self.tiles)} tiles"
            raise VerifyException(f"{self.name}: {found}")


def stage_offset(tile: SSAValue) -> int | None:
    """The byte of its stage at which a tile starts; None if it is not one that is waited for."""
    wait = tile.owner
    if not isinstance(tile, OpResult) or not isinstance(wait, ConsumerWaitOp):
        return None
    return wait.offsets.data[tile.index]


@irdl_op_definition
class SelectTileOp(IRDLOperation):
    """`first` where the `condition` (i1) holds, else `second`: two tiles of one kind in a stage."""

    name = "nv_tileas.select_tile"
    condition = operand_def()
    first = operand_def(IN_SMEM)
    second = operand_def(IN_SMEM)
    result = result_def(IN_SMEM)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Both have the type of the result."""
        if not self.first.type == self.second.type == self.result.type:
            raise VerifyException(f"{self.name}: two tiles of different types")


@irdl_op_definition
class HeldTileOp(IRDLOperation):
    """The tile at byte `offset` of a stage that has not been handed back.

    With `age` 1 of the one that was waited for before the newest, if that is still held; else the
    newest.
    """

    name = "nv_tileas.async.pipeline.held_tile"
    pipeline = operand_def(PipelineType)
    age = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    result = result_def(IN_SMEM)


@irdl_op_definition
class ReadTileOp(IRDLOperation):
    """The elements of a tile in a stage that each thread holds in the layout of the result.

    The stage must not have been handed back. No thread reads what another one writes.
    """

    name = "nv_tileas.read_tile"
    tile = operand_def(IN_SMEM)
    result = result_def()

    def verify_(self) -> None:
        """The tile lies as a layout says, and threads hold a tile of its type."""
        tile, type = self.tile.type, self.result.type
        if not is_in_smem(tile) or tile.shared_linear is None:
            raise VerifyException(f"{self.name}: needs a tile that lies as a layout says")
        layout = layout_of(type)
        if layout is None or not isinstance(type, TensorType):
            raise VerifyException(f"{self.name}: gives a tile with a layout")
        if layout.shape != tile.shape or type.element_type != tile.element_type:
            raise VerifyException(f"{self.name}: a tile of {tile} is read as one of {type}")


@irdl_op_definition
class UniformOp(IRDLOperation):
    """A scalar that all threads have alike, as lane 0 of each warp has it.

    So the assembler knows it, and keeps what depends on it in uniform registers.
    """

    name = "nv_tileas.uniform"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class ProxyFenceOp(IRDLOperation):
    """Lets wgmma read what threads have copied into the stages that have been waited for."""

    name = "nv_tileas.proxy_fence"


@irdl_op_definition
class ConsumerReleaseOp(IRDLOperation):
    """Hands stages back: all but the newest `keep` (0 or 1) that have been waited for.

    `by_warps`: the lanes of a warp meet first, for each of them has read the stages.
    """

    name = "nv_tileas.async.pipeline.consumer_release"
    pipeline = operand_def()
    keep = prop_def(IntAttr)
    by_warps = opt_prop_def(UnitAttr)


def is_handed_back_at_once(pipeline: SSAValue) -> bool:
    """Whether the stage of each wait is handed back before the next wait, in the same block.

    So no more than one is held, and at a release it is known that there is one.
    """
    users = [use.operation for use in pipeline.uses]
    waits = [user for user in users if isinstance(user, ConsumerWaitOp)]
    releases = [user for user in users if isinstance(user, ConsumerReleaseOp)]
    places = {*waits, *releases}
    ends = [_next_of(wait, places) for wait in waits]
    return len(waits) == len(releases) and all(
        isinstance(end, ConsumerReleaseOp) and not end.keep.data for end in ends
    )


def _next_of(op: Operation, places: set[Operation]) -> Operation | None:
    """The first of `places` behind an operation in its block, or the operation around one."""
    following = op.next_op
    while following is not None and following not in places:
        if following.regions and any(following.is_ancestor(place) for place in places):
            return following
        following = following.next_op
    return following


@irdl_op_definition
class FreePipelinesOp(IRDLOperation):
    """The consumers have read all stages and the producer fills no more: the memory is free.

    What follows has that of `pipeline` for scratch, once `tileas-optimize-alloc-tensor` has said
    which it is. A consumer that uses it meets the others first.
    """

    name = "nv_tileas.async.pipeline.free_pipelines"
    pipeline = opt_operand_def(PipelineType)


PIPELINE_OPS = operations_in(vars())
