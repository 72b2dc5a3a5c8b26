"""Which copies the CTAs of a cluster make once for all: each brings a part of the tile to all.

A copy can be shared if the CTAs reach it together, which holds for control flow that does not
depend on the rank. Its tile is the same in all of them if its indices do not either. Where CTAs lie
in rows and columns (`get_cluster_rank` with a stride), it is the same in those whose ranks agree in
the bits that its indices depend on. Where they lie in rows whose size the kernel finds out
(`get_cluster_place`), a tile that depends on the row alone is a row's. Where each CTA has a tile
block of its own (`clustered`), two CTAs find out while they run, each computing the indices of the
other one beside its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.tma_boxes import tile_cut
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.swap_ab import VariationRate, rate_of
from tileiras.planning.operands.tma import (
    OperandLoad,
    contiguous_axis,
    halved_dim,
    has_renewed_map,
    is_by_tma,
    is_scale_load,
    own_view,
)

_ROW, _COLUMN = 1 << 16, 1 << 17
"""Fixed: in place of bits of the rank, for what depends on a CTA's row or on its place in it."""
_STRUCTURED = (aa.ForOp, aa.LoopOp, aa.IfOp)


@dataclass
class Multicast:
    """Shared loads with their indices that differ in the other CTA, and what those are made from.

    `apart`: bits of the rank in which CTAs differ that load different tiles, of which each is
    shared.
    """

    cluster_size: int
    rows: aa.GetClusterPlaceOp | None = None
    """Says in rows of how many CTAs tiles are shared, if not in the whole cluster."""
    loads: dict[OperandLoad, tuple[SSAValue, ...]] = field(
        default_factory=dict[OperandLoad, tuple[SSAValue, ...]]
    )
    apart: dict[OperandLoad, int] = field(default_factory=dict[OperandLoad, int])
    ranked: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Scalars whose value in the other CTA is wanted, too."""

    def sharers(self, load: OperandLoad) -> int:
        """CTAs that a shared tile is the same for: of halves that pairs have, one of each."""
        return _sharers(load, self.cluster_size, self.apart.get(load, 0))


def find_multicast(func: aa.FuncOp, plan: RolePlan) -> Multicast:
    """What the CTAs of a cluster share; nothing where a cluster is one CTA."""
    multicast = Multicast(func.cluster_size, place_in_rows(func))
    # Tile blocks that only exchange results (`cluster_axis`) do not keep in step.
    if func.cluster_size == 1 or func.cluster_axis is not None:
        return multicast
    ranked = rank_dependent(func)
    return _found(multicast, func, plan, ranked, {}, has_own_blocks=func.clustered is not None)


@dataclass(frozen=True)
class FutureCluster:
    """What makes the CTAs of a cluster that is not formed yet differ: numbers of tile blocks, and
    loops over tiles, which start for both CTAs at the number of the first one.
    """

    size: int
    numbers: tuple[SSAValue, ...]
    loops: tuple[aa.ForOp, ...] = ()


def would_share(
    func: aa.FuncOp, plan: RolePlan, cluster: FutureCluster, *, mostly: bool = False
) -> bool:
    """Whether the CTAs would share a tile if neighbouring tile blocks were a cluster.

    `mostly`: not only in the few places where rows of tiles end. Of products in groups the right
    operand is looked up, so that only rows of the left one could be shared: f16 8192x4096x4096,
    128x256x64, 378 us with clusters, without 370 (H200).
    """
    numbers = (*cluster.numbers, *(loop.body.block.args[0] for loop in cluster.loops))
    seeds = dict.fromkeys(numbers, 1)
    ranked = _dependent(func, seeds, cluster.size - 1, cluster.loops)
    multicast = Multicast(cluster.size)
    found = _found(multicast, func, plan, ranked, seeds, cluster.loops, has_own_blocks=True)
    if not mostly:
        return bool(found.loads)
    return any(rate_of(indices) < VariationRate.OFTEN for indices in found.loads.values())


def _found(
    multicast: Multicast,
    func: aa.FuncOp,
    plan: RolePlan,
    ranked: dict[SSAValue, int],
    numbers: Mapping[SSAValue, int],
    loops: Collection[Operation] = (),
    *,
    has_own_blocks: bool,
) -> Multicast:
    """The same with the loads that are shared; of `numbers` the other CTA's are known."""
    copies = [load for pipeline in plan.pipelines for load in pipeline.loads]
    if not is_in_step(func, copies, ranked, loops):
        return multicast
    for pipeline in plan.pipelines:
        if pipeline.gathers or not pipeline.may_grow:
            continue
        for load in pipeline.loads:
            if not isinstance(load, aa.TiledLoadOp):
                continue
            if func.in_rows is not None:
                _add_if_of_row(multicast, load, ranked)
            else:
                _add(multicast, load, ranked, numbers, has_own_blocks=has_own_blocks)
    return multicast


def _add_if_of_row(
    multicast: Multicast, load: aa.TiledLoadOp, ranked: Mapping[SSAValue, int]
) -> None:
    """Adds a load that depends on a CTA's row at most."""
    made_from = (*load.indices, load.view, *memref_of(load.view).operands)
    if all(ranked.get(value, 0) == _ROW for value in made_from if value in ranked):
        _add_for_row(multicast, load)


def _add(
    multicast: Multicast,
    load: aa.TiledLoadOp,
    ranked: dict[SSAValue, int],
    numbers: Mapping[SSAValue, int],
    *,
    has_own_blocks: bool,
) -> None:
    """Adds a load if it can be shared: not one whose map changes, as copies into other CTAs are
    not waited for before that. One of which a pair has halves comes once already, unless there are
    other pairs; scales that threads copy come to each CTA for itself."""
    indices = tuple(index for index in load.indices if index in ranked)
    apart = 0
    if not has_own_blocks:
        for index in indices:
            apart |= ranked[index]
        indices = ()
    sharers = _sharers(load, multicast.cluster_size, apart)
    by_threads = is_scale_load(load) and not is_by_tma(load)
    if has_renewed_map(load) or sharers == 1 or by_threads:
        return
    axis = contiguous_axis(load)
    if axis is None or tile_cut(own_view(load), axis, sharers) is None:
        return
    if any(value in ranked for value in (load.view, *memref_of(load.view).operands)):
        return
    needed: dict[SSAValue, None] = dict.fromkeys(numbers)
    if indices and multicast.cluster_size != 2:
        return
    if all(_collect(index, ranked, needed) for index in indices):
        multicast.loads[load] = indices
        multicast.ranked |= needed
        if apart:
            multicast.apart[load] = apart


def _add_for_row(multicast: Multicast, load: aa.TiledLoadOp) -> None:
    """Adds a load that the CTAs of a row share, cut into as many parts as the longest row has."""
    axis = contiguous_axis(load)
    is_fixed = not has_renewed_map(load) and not is_scale_load(load) and halved_dim(load) is None
    if is_fixed and axis is not None and tile_cut(own_view(load), axis, multicast.cluster_size):
        multicast.loads[load] = ()


def place_in_rows(func: aa.FuncOp) -> aa.GetClusterPlaceOp | None:
    """What says where a CTA lies in a cluster that lies in rows, None if it does not."""
    if func.in_rows is None:
        return None
    return next((op for op in func.walk() if isinstance(op, aa.GetClusterPlaceOp)), None)


def _sharers(load: OperandLoad, cluster_size: int, apart: int) -> int:
    """CTAs of a cluster whose ranks agree in the bits `apart`, and which have the same half."""
    different = apart if halved_dim(load) is None else apart | 1
    return cluster_size >> different.bit_count()


def _collect(value: SSAValue, ranked: dict[SSAValue, int], needed: dict[SSAValue, None]) -> bool:
    """Notes what a scalar is made from as far as it depends on the rank; False if by more than
    arithmetic."""
    if value not in ranked or value in needed:
        return True
    op = value.owner
    is_arithmetic = isinstance(op, ElementwiseOp | aa.GetClusterRankOp)
    if not isinstance(op, Operation) or not is_arithmetic or isinstance(value.type, TensorType):
        return False
    needed[value] = None
    return all(_collect(operand, ranked, needed) for operand in op.operands)


def rank_dependent(func: aa.FuncOp) -> dict[SSAValue, int]:
    """The values that may differ between the CTAs of a cluster, by the bits of the rank that they
    depend on.
    """
    return _dependent(func, {}, func.cluster_size - 1)


def _dependent(
    func: aa.FuncOp,
    known: Mapping[SSAValue, int],
    everything: int,
    loops: Collection[Operation] = (),
) -> dict[SSAValue, int]:
    """The same, with some that are `known` to; `loops` start with the same number in all CTAs."""
    found = dict(known)
    while True:
        before = dict(found)
        for op in func.walk():
            _follow(op, found, everything, op in loops)
        if found == before:
            return found


def _note(found: dict[SSAValue, int], values: Iterable[SSAValue], bits: int) -> None:
    """Notes that values depend on bits of the rank."""
    if bits:
        for value in values:
            found[value] = found.get(value, 0) | bits


def _bits(found: dict[SSAValue, int], values: Iterable[SSAValue]) -> int:
    """The bits of the rank that any of the values depends on."""
    bits = 0
    for value in values:
        bits |= found.get(value, 0)
    return bits


def _follow(
    op: Operation, found: dict[SSAValue, int], everything: int, starts_the_same: bool
) -> None:
    """What an operation makes depends on the rank if anything that it takes does."""
    if isinstance(op, aa.GetClusterRankOp):
        _note(found, op.results, op.bits & everything)
    if isinstance(op, aa.GetClusterPlaceOp):
        _note(found, [op.row], _ROW)
        _note(found, [op.column], _COLUMN)
    if isinstance(op, aa.ContinueOp | aa.BreakOp | aa.YieldOp):
        _follow_end(op, found)
    elif isinstance(op, aa.ForOp | aa.LoopOp):
        bounds = list(op.operands)[int(starts_the_same) : len(op.operands) - len(op.init_values)]
        arguments = op.body.block.args[len(op.body.block.args) - len(op.init_values) :]
        _note(found, (*op.body.block.args, *op.results), _bits(found, bounds))
        for value, argument in zip(op.init_values, arguments, strict=True):
            bits = found.get(value, 0)
            _note(found, [argument], bits)
            if isinstance(op, aa.ForOp):
                _note(found, [op.results[argument.index - 1]], bits)
    else:
        _note(found, op.results, _bits(found, op.operands))


def _follow_end(op: Operation, found: dict[SSAValue, int]) -> None:
    """What ends an iteration, a loop or a branch; all of it where a branch on the rank decides."""
    if isinstance(op, aa.ContinueOp):
        target: Operation | None = enclosing(op, aa.ForOp, aa.LoopOp)
    elif isinstance(op, aa.BreakOp):
        target = enclosing(op, aa.LoopOp)
    else:
        target = op.parent_op()
    if not isinstance(target, _STRUCTURED):
        return
    decided = _deciding_bits(op, target, found)
    for position, operand in enumerate(op.operands):
        receivers: list[SSAValue] = []
        if isinstance(op, aa.ContinueOp):
            arguments = target.regions[0].block.args
            receivers.append(arguments[len(arguments) - len(op.operands) + position])
        if not isinstance(op, aa.ContinueOp) or isinstance(target, aa.ForOp):
            receivers.append(target.results[position])
        _note(found, receivers, found.get(operand, 0) | decided)


def _deciding_bits(op: Operation, target: Operation, found: dict[SSAValue, int]) -> int:
    """The bits of the rank that a condition up to `target`, itself included, depends on."""
    parent, bits = op.parent_op(), 0
    while parent is not None:
        if isinstance(parent, aa.IfOp):
            bits |= found.get(parent.condition, 0)
        if parent is target:
            break
        parent = parent.parent_op()
    return bits


def is_in_step(
    func: aa.FuncOp,
    copies: list[OperandLoad],
    ranked: dict[SSAValue, int],
    loops: Collection[Operation] = (),
) -> bool:
    """Whether all CTAs of a cluster make the copies equally often, in the same order.

    `loops` start with the same number in all CTAs.
    """
    around: dict[Operation, None] = {}
    for load in copies:
        parent = load.parent_op()
        while parent is not None and parent is not func:
            around[parent] = None
            parent = parent.parent_op()
    for op in around:
        match op:
            case aa.ForOp():
                bounds = (op.lower_bound, op.upper_bound, op.step)[int(op in loops) :]
                if any(bound in ranked for bound in bounds):
                    return False
            case aa.IfOp():
                if op.condition in ranked:
                    return False
            case _:
                pass
    return not any(_leaves_by_rank(op, func, ranked) for op in func.walk())


def _leaves_by_rank(op: Operation, func: aa.FuncOp, ranked: dict[SSAValue, int]) -> bool:
    """Whether a loop, an iteration or the program ends under a condition on the rank."""
    if isinstance(op, aa.ReturnOp):
        return bool(_deciding_bits(op, func, ranked))
    if isinstance(op, aa.BreakOp):
        return bool(_deciding_bits(op, enclosing(op, aa.LoopOp), ranked))
    if isinstance(op, aa.ContinueOp):
        return bool(_deciding_bits(op, enclosing(op, aa.ForOp, aa.LoopOp), ranked))
    return False
