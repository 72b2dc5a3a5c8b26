"""The pass `coarsen-locks`: one CTA of a cluster performs the critical sections of all of them.

    %mine = ...                                %mine = ...
    loop { take %lock }                        %sent = share_tiles %mine {reader = last}
    %c = load %out; %d = %c + %mine     ->     if last of the cluster {
    store %d, %out                               loop { take %lock }
    give %lock back                              %c = load %out; await_shared %sent
                                                 %d = (%c + %mine_0) + %mine_1 ..
                                                 store %d, %out
                                                 give %lock back } else { send_shared %sent }

Tile blocks that take the same lock wait for each other, a trip to memory and back for each of load,
store and lock. That one takes the lock right after another one has given it back is one of the ways
in which things can happen; here it is made to happen for the tile blocks of a cluster (lock
coarsening), and what one stores for the next to load stays in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, UnitAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.memory import LoadBase, TiledLoadBase
from tileiras.dialects.nv_tileaa.storage import storage_bits, value_bytes
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.hints import integer_hint
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.critical_sections import Section

AXES = range(3)
MOST_BYTES = 64 * 1024
"""Policy: shared memory for the tiles of all tile blocks of a cluster, at most half of a CTA's."""
LEAST_BYTES = 4 * 1024
"""Policy: of a tile, so that each thread of the largest tile block sends whole registers."""
USUAL_BLOCKS = 4
"""Policy: tile blocks that take one lock, where nothing is known of them."""
FEW_BLOCKS = 4
"""Policy: so many get a cluster for all of them."""
BYTE_BITS = 8
"""Fixed: bits of a byte."""


@dataclass(frozen=True)
class CoarsenLocksPass(IrPass):
    """Makes clusters of tile blocks that take the same lock; one of their CTAs takes it for all.

    Before   %p = get_program_id 1; %t = f(%p); loop { atomic_cas %lock .. }; section(%t);
             atomic_rmw xchg %lock
    After    %p = cluster's first + rank; %t = f(%p); %s = share_tiles %t; if last rank { loop {
             atomic_cas %lock .. }; loads; await_shared %s; section(read_shared %s, ..); stores;
             atomic_rmw xchg %lock } else { send_shared %s }
    Requires nv_tileaa, with the strategies of kernels; a target with clusters
    Leaves   kernels that do not end with a critical section (`planning/critical_sections.py`), or
             whose section uses scalars that differ between tile blocks; tiles too small to be worth
             it, or too large for shared memory
    """

    name = "coarsen-locks"
    title: ClassVar[str] = "Take locks once for several tile blocks"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or not _has_lock(func) or func.cluster_size > 1:
                continue
            turn = _find_turn(func, target)
            if turn is not None:
                from tileiras.passes.nv_tileaa.split_steps import split_function

                _coarsen(func, turn, target)
                ctx.remarks.add(_remark(func, turn.size))
                # Pipelines get half of the shared memory now (`planning/resources`).
                split_function(ctx, func)


@dataclass(frozen=True)
class _Turn:
    """A critical section that a cluster can perform at once: what differs between its CTAs."""

    section: Section
    axis: int
    tiles: list[SSAValue]
    size: int


def _find_turn(func: aa.FuncOp, target: GpuTarget) -> _Turn | None:
    """What a cluster would do at once, None if nothing."""
    from tileiras.planning.critical_sections import find_section

    section = find_section(func)
    found = _contributions(func, section) if section is not None else None
    if section is None or found is None:
        return None
    axis, tiles = found
    size = _cluster_size(func, axis, tiles, target)
    return _Turn(section, axis, tiles, size) if size > 1 else None


def _has_lock(func: aa.FuncOp) -> bool:
    """Whether a loop of the function's body might wait for a lock."""
    return any(isinstance(op, aa.LoopOp) for op in func.body.block.ops)


def _remark(func: aa.FuncOp, size: int) -> Remark:
    return remark_about(
        func,
        CoarsenLocksPass.name,
        "Locks",
        f"{size} tile blocks are a cluster of CTAs, whose last one takes the lock for all of them",
    )


def _contributions(func: aa.FuncOp, section: Section) -> tuple[int, list[SSAValue]] | None:
    """An axis along which tile blocks have the same section but for some tiles, and those tiles."""
    outside = section.outside_operands()
    for axis in AXES:
        numbered = _made_from(func, section, lambda op, axis=axis: _is_number(op, axis))
        if not any(value in numbered for value in outside):
            continue
        varying = numbered | _made_from(func, section, _is_load)
        found = [value for value in outside if value in varying]
        if all(map(_can_be_sent, found)) and section.are_places_common(found):
            return axis, found
    return None


def _is_number(op: Operation, axis: int) -> bool:
    return isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == axis


def _can_be_sent(value: SSAValue) -> bool:
    """Whether a value is a tile of whole bytes, and of some size."""
    type = value.type
    if not isinstance(type, TensorType) or isinstance(type.element_type, aa.PointerType):
        return False
    return storage_bits(type.element_type) % BYTE_BITS == 0 and value_bytes(value) >= LEAST_BYTES


def _is_load(op: Operation) -> bool:
    """Whether an operation looks at memory, which may be different when another one looks."""
    return isinstance(op, LoadBase | TiledLoadBase)


def _made_from(
    func: aa.FuncOp, section: Section, is_source: Callable[[Operation], bool]
) -> set[SSAValue]:
    """What is made before the section from what some operations give, tokens aside."""
    found: set[SSAValue] = set()
    for op in func.body.block.ops:
        if op is section.acquire:
            break
        if any(
            is_source(inner) or any(value in found for value in inner.operands)
            for inner in op.walk()
        ):
            found.update(v for v in op.results if not isinstance(v.type, MemTokenType))
    return found


def _expected_blocks(func: aa.FuncOp, axis: int) -> int:
    """Tile blocks along an axis, as far as a loop that they divide tells.

    Each begins with the iteration of its own number, and passes over those of the others.
    """
    from tileiras.planning.critical_sections import constant_scalar

    for op in func.body.block.ops:
        if not isinstance(op, aa.ForOp) or not isinstance(op.lower_bound.owner, Operation):
            continue
        step = constant_scalar(op.step)
        if step is not None and _is_number(op.lower_bound.owner, axis):
            return step
    return USUAL_BLOCKS


def _cluster_size(func: aa.FuncOp, axis: int, tiles: list[SSAValue], target: GpuTarget) -> int:
    """CTAs of a cluster: what the target can launch, hints allow, and shared memory holds.

    Not many more than there are tile blocks for: whatever else is launched has to leave again. Half
    as many if there are more than `FEW_BLOCKS`: the last turn that is saved costs the most.
    """
    from tileiras.codegen.target import Feature

    if not (target.has(Feature.CLUSTER_LAUNCH) and target.has(Feature.MBARRIER_TRY_WAIT)):
        return 1
    most = integer_hint(func, "num_cta_in_cga") or target.max_cluster
    size, total = target.max_cluster, sum(map(value_bytes, tiles))
    blocks = _expected_blocks(func, axis)
    blocks = blocks if blocks <= FEW_BLOCKS else blocks // 2
    room = min(MOST_BYTES, target.static_shared_limit // 2)
    while size > 1 and (size > most or size * total > room or size >= 2 * blocks):
        size //= 2
    return size


def _coarsen(func: aa.FuncOp, turn: _Turn, target: GpuTarget) -> None:
    """Makes clusters of a kernel's tile blocks that take the lock once."""
    from tileiras.passes.nv_tileaa.lock_clusters import renumber_tile_blocks, share_section
    from tileiras.planning.strategy import choose_again, drop_strategy

    drop_strategy(func)
    blocks = renumber_tile_blocks(func, turn.section, turn.axis, turn.size)
    share_section(turn.section, turn.tiles, blocks)
    func.properties["cluster"] = IntegerAttr(turn.size, i32)
    func.properties["clustered"] = UnitAttr()
    func.properties["cluster_axis"] = IntegerAttr(turn.axis, i32)
    choose_again(func, target)


__all__ = ["CoarsenLocksPass"]
