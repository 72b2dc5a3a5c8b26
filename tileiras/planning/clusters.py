"""Which copies the CTAs of a cluster make once for all: each brings a part of the tile to all.

A copy can be shared if the CTAs reach it together, which holds for control flow that does not
depend on the rank. Its tile is the same in all of them if its indices do not either; where each CTA
has a tile block of its own (`clustered`), two CTAs find out while they run, each computing the
indices of the other one beside its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.tma_boxes import tile_cut
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.tma import (
    OperandLoad,
    contiguous_axis,
    halved_dim,
    has_renewed_map,
    is_scale_load,
    own_view,
)

_STRUCTURED = (aa.ForOp, aa.LoopOp, aa.IfOp)


@dataclass
class Multicast:
    """Shared loads with their indices that depend on the rank, and what those are made from."""

    cluster_size: int
    loads: dict[OperandLoad, tuple[SSAValue, ...]] = field(
        default_factory=dict[OperandLoad, tuple[SSAValue, ...]]
    )
    ranked: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Scalars whose value in the other CTA is wanted, too."""


def find_multicast(func: aa.FuncOp, plan: RolePlan) -> Multicast:
    """What the CTAs of a cluster share; nothing where a cluster is one CTA."""
    multicast = Multicast(func.cluster_size)
    # Tile blocks that only exchange results (`cluster_axis`) do not keep in step.
    if func.cluster_size == 1 or func.cluster_axis is not None:
        return multicast
    ranked = rank_dependent(func)
    copies = [load for pipeline in plan.pipelines for load in pipeline.loads]
    if not is_in_step(func, copies, ranked):
        return multicast
    for pipeline in plan.pipelines:
        if pipeline.gathers or not pipeline.may_grow:
            continue
        for load in pipeline.loads:
            if isinstance(load, aa.TiledLoadOp):
                _add(multicast, func, load, ranked)
    return multicast


def _add(
    multicast: Multicast, func: aa.FuncOp, load: aa.TiledLoadOp, ranked: dict[SSAValue, None]
) -> None:
    """Adds a load if it can be shared: not one whose map changes, as copies into other CTAs are
    not waited for before that. One of which a pair has halves comes once already, unless there are
    other pairs; scales threads copy, each CTA for itself."""
    sharers = sharing_ctas(load, func.cluster_size)
    if has_renewed_map(load) or sharers == 1 or is_scale_load(load):
        return
    axis = contiguous_axis(load)
    if axis is None or tile_cut(own_view(load), axis, sharers) is None:
        return
    if any(value in ranked for value in (load.view, *memref_of(load.view).operands)):
        return
    indices = tuple(index for index in load.indices if index in ranked)
    needed: dict[SSAValue, None] = {}
    if indices and (func.clustered is None or func.cluster_size != 2):
        return
    if all(_collect(index, ranked, needed) for index in indices):
        multicast.loads[load] = indices
        multicast.ranked |= needed


def sharing_ctas(load: OperandLoad, cluster_size: int) -> int:
    """CTAs of a cluster that a tile is the same for: of halves that pairs have, one of each."""
    return cluster_size if halved_dim(load) is None else cluster_size // 2


def _collect(value: SSAValue, ranked: dict[SSAValue, None], needed: dict[SSAValue, None]) -> bool:
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


def rank_dependent(func: aa.FuncOp) -> dict[SSAValue, None]:
    """The values that may differ between the CTAs of a cluster."""
    found: dict[SSAValue, None] = {}
    while True:
        before = len(found)
        for op in func.walk():
            _follow(op, found)
        if len(found) == before:
            return found


def _follow(op: Operation, found: dict[SSAValue, None]) -> None:
    """What an operation makes depends on the rank if anything that it takes does."""
    if isinstance(op, aa.GetClusterRankOp):
        found.update(dict.fromkeys(op.results))
    if isinstance(op, aa.ContinueOp | aa.BreakOp | aa.YieldOp):
        _follow_end(op, found)
    elif isinstance(op, aa.ForOp | aa.LoopOp):
        bounds = list(op.operands)[: len(op.operands) - len(op.init_values)]
        arguments = op.body.block.args[len(op.body.block.args) - len(op.init_values) :]
        if any(bound in found for bound in bounds):
            found.update(dict.fromkeys((*op.body.block.args, *op.results)))
        for value, argument in zip(op.init_values, arguments, strict=True):
            if value in found:
                found[argument] = None
                if isinstance(op, aa.ForOp):
                    found[op.results[argument.index - 1]] = None
    elif any(operand in found for operand in op.operands):
        found.update(dict.fromkeys(op.results))


def _follow_end(op: Operation, found: dict[SSAValue, None]) -> None:
    """What ends an iteration, a loop or a branch; all of it where a branch on the rank decides."""
    if isinstance(op, aa.ContinueOp):
        target: Operation | None = enclosing(op, aa.ForOp, aa.LoopOp)
    elif isinstance(op, aa.BreakOp):
        target = enclosing(op, aa.LoopOp)
    else:
        target = op.parent_op()
    if not isinstance(target, _STRUCTURED):
        return
    decided = _is_decided_by(op, target, found)
    receivers: list[SSAValue] = []
    positions = range(len(op.operands))
    for position in positions:
        if op.operands[position] in found or decided:
            if isinstance(op, aa.ContinueOp):
                arguments = target.regions[0].block.args
                receivers.append(arguments[len(arguments) - len(op.operands) + position])
            if not isinstance(op, aa.ContinueOp) or isinstance(target, aa.ForOp):
                receivers.append(target.results[position])
    found.update(dict.fromkeys(receivers))


def _is_decided_by(op: Operation, target: Operation, found: dict[SSAValue, None]) -> bool:
    """Whether a condition up to `target`, itself included, depends on the rank."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, aa.IfOp) and parent.condition in found:
            return True
        if parent is target:
            return False
        parent = parent.parent_op()
    return False


def is_in_step(func: aa.FuncOp, copies: list[OperandLoad], ranked: dict[SSAValue, None]) -> bool:
    """Whether all CTAs of a cluster make the copies equally often, in the same order."""
    around: dict[Operation, None] = {}
    for load in copies:
        parent = load.parent_op()
        while parent is not None and parent is not func:
            around[parent] = None
            parent = parent.parent_op()
    for op in around:
        match op:
            case aa.ForOp():
                if any(bound in ranked for bound in (op.lower_bound, op.upper_bound, op.step)):
                    return False
            case aa.IfOp():
                if op.condition in ranked:
                    return False
            case _:
                pass
    return not any(_leaves_by_rank(op, func, ranked) for op in func.walk())


def _leaves_by_rank(op: Operation, func: aa.FuncOp, ranked: dict[SSAValue, None]) -> bool:
    """Whether a loop, an iteration or the program ends under a condition on the rank."""
    if isinstance(op, aa.ReturnOp):
        return _is_decided_by(op, func, ranked)
    if isinstance(op, aa.BreakOp):
        return _is_decided_by(op, enclosing(op, aa.LoopOp), ranked)
    if isinstance(op, aa.ContinueOp):
        return _is_decided_by(op, enclosing(op, aa.ForOp, aa.LoopOp), ranked)
    return False
