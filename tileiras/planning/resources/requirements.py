"""What a kernel with planned products asks of the shape of its CTA: registers, pipelines, hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tileiras.analysis.register_pressure import tensor_words, words_behind
from tileiras.codegen.atoms.wgmma import FRAGMENTS_AT_ONCE, PARTIAL_K, PARTIAL_REGISTERS
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.hints import integer_hint
from tileiras.planning.mma.mma_sync import MmaSyncDot
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tmem_columns import is_read_apart, least_columns
from tileiras.planning.model.pipelines import is_read_by_threads, row_bytes
from tileiras.planning.operands.gather import gather_registers
from tileiras.planning.operands.tma import OperandLoad, is_by_tma, is_scale_load
from tileiras.planning.operands.uniform import skipped_bytes
from tileiras.planning.resources.cta import (
    PRODUCER_REGISTERS,
    ROWS_PER_WARPGROUP,
    TMA_REGISTERS,
    WARP_THREADS,
    WARPGROUP_THREADS,
    PipelineRequirements,
    Requirements,
)
from tileiras.planning.resources.smem import least_bytes

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot
    from tileiras.planning.model.pipelines import Pipeline

FRAGMENT_REGISTERS = 4
"""Policy: registers of a thread for a block of 64 rows and an instruction's step of K."""
FRAGMENT_ADDRESSES = 8
"""Policy: registers for reading fragments: addresses, bytes on their way to their places."""
SMEM_TRANSPOSE_REGISTERS = 16
"""Policy: registers for words on their way to where they are transposed."""
CTAS_WITH_IDLE_ONES = 2
"""Policy: CTAs on an SM of a kernel most of whose CTAs leave at once."""
LESS_BESIDE_PARTIAL = 16
"""Policy: registers that a thread with partial sums needs less for other things (measured: no
spills).
"""


def requirements_of(
    func: aa.FuncOp,
    loops: dict[Operation | None, list[PlannedDot]],
    pipelines: Sequence[Pipeline],
) -> Requirements:
    """What the kernel asks of the shape of its CTA."""
    dots = [planned for together in loops.values() for planned in together]
    counts = [n for n in (1, 2) if all(planned.suits(n) for planned in dots)]
    brought = {load for pipeline in pipelines for load in pipeline.loads}
    accumulators = {n: max(_accumulators(planned, n) for planned in dots) for n in counts}
    tiles = {n: max(_tile_registers(together, n) for together in loops.values()) for n in counts}
    with_others = {
        n: max(
            _tile_registers(together, n)
            + max(_fragments(planned, n) for planned in together)
            + _other_words(loop, together, brought) * together[0].copies // (WARPGROUP_THREADS * n)
            for loop, together in loops.items()
        )
        for n in counts
    }
    if all(isinstance(planned, MmaSyncDot) and planned.lhs is not None for planned in dots):
        behind = max(map(_words_behind, loops))
        with_others = {n: max(with_others[n], behind // (WARPGROUP_THREADS * n)) for n in counts}
    saved = {n: min(_saved_in_place(together, n) for together in loops.values()) for n in counts}
    at_work = {n: max(_at_work(together, n) for together in loops.values()) for n in counts}
    gathered = [load for load in brought if not (is_by_tma(load) or is_scale_load(load))]
    warps = integer_hint(func, "num_worker_warps_per_cta")
    return Requirements(
        accumulators,
        tiles,
        with_others,
        at_work,
        pipeline_requirements(pipelines, dots),
        max(prod(shape_of(planned.dot.result)) for planned in dots),
        any(loop is not None and aa.loop_around(loop) is not None for loop in loops),
        integer_hint(func, "occupancy") or _with_idle_ctas(func),
        None if warps is None else warps * WARP_THREADS // WARPGROUP_THREADS,
        gather_registers(gathered) if gathered else None,
        max(planned.columns if _is_in_registers(planned) else 0 for planned in dots),
        max(least_bytes(op) for op in func.walk()),
        {n: max(planned.smem_transpose_bytes(n) for planned in dots) for n in counts},
        any(_keeps_threads_busy(planned) for planned in dots),
        {n: with_others[n] - saved[n] for n in counts} if any(saved.values()) else {},
        least_columns([planned for planned in dots if isinstance(planned, Tcgen05Dot)]),
        TMA_REGISTERS if _only_issues(dots, gathered) else PRODUCER_REGISTERS,
    )


def _only_issues(dots: Sequence[PlannedDot], gathered: Sequence[OperandLoad]) -> bool:
    """Whether the producer's warps do no more than to issue TMA: they gather nothing, and there is
    nothing that they could transpose, or multiply.
    """
    return not gathered and not any(
        planned.is_in_tmem or planned.is_smem_transposed for planned in dots
    )


def _is_in_registers(planned: PlannedDot) -> bool:
    """Whether one instruction writes a whole row of the sum to registers."""
    return planned.is_asynchronous and not planned.is_in_tmem


def _keeps_threads_busy(planned: PlannedDot) -> bool:
    """Whether threads do more for a product than issue it, so that a second CTA fills gaps."""
    return planned.lhs is None or planned.transposes_words or not planned.is_asynchronous


def _with_idle_ctas(func: aa.FuncOp) -> int | None:
    """CTAs of a kernel that shall fit an SM where most leave at once, for clusters take a lock.

    They need room until they do; those that wait for room would take some microseconds more.
    """
    return None if func.cluster_axis is None else CTAS_WITH_IDLE_ONES


def pipeline_requirements(
    pipelines: Iterable[Pipeline], dots: Sequence[PlannedDot]
) -> tuple[PipelineRequirements, ...]:
    """The pipelines that have memory of their own, as the plan knows them."""
    return tuple(
        PipelineRequirements(
            pipeline.bytes,
            pipeline.least,
            pipeline.may_grow,
            is_read_by_threads(pipeline, dots) or pipeline.gathers,
            skipped_bytes=skipped_bytes(pipeline),
            rows=row_bytes(pipeline),
        )
        for pipeline in pipelines
        if pipeline.within is None
    )


def _tile_registers(dots: list[PlannedDot], warpgroups: int) -> int:
    """Registers of a thread for what the products of one loop take, partial sums included."""
    partial = max(
        max(0, _partial(planned, warpgroups) - _spent(planned, dots, warpgroups))
        for planned in dots
    )
    held = sum(_operand(planned, warpgroups) for planned in dots)
    sums = [planned for planned in dots if not _goes_on(planned, dots)]
    apart = [planned for planned in sums if is_read_apart(planned, sums)]
    together = sum(_in_loop(planned, warpgroups) for planned in sums if planned not in apart)
    one = max((_in_loop(planned, warpgroups) for planned in apart), default=0)
    in_loop = partial + held + together + one
    return max([in_loop, *(_behind_loop(planned, warpgroups) for planned in sums)])


def _in_loop(planned: PlannedDot, warpgroups: int) -> int:
    """Registers of a thread for a sum in its loop."""
    if isinstance(planned, Tcgen05Dot):
        return planned.loop_registers(warpgroups)
    return _accumulators(planned, warpgroups)


def _behind_loop(planned: PlannedDot, warpgroups: int) -> int:
    """Registers of a thread for a sum that is loaded when its loop is over."""
    return planned.epilogue_registers(warpgroups) if isinstance(planned, Tcgen05Dot) else 0


def _goes_on(planned: PlannedDot, dots: list[PlannedDot]) -> bool:
    """Whether the product adds to the sum of another one that nothing else reads: in place."""
    acc = planned.dot.acc
    return any(acc is other.dot.result for other in dots) and len(list(acc.uses)) == 1


def _spent(planned: PlannedDot, dots: list[PlannedDot], warpgroups: int) -> int:
    """Registers free while the product runs: of results that its left operand is made of."""
    if planned.lhs is not None:
        return 0
    made_of = (p for p in dots if p is not planned and not _is_made(p) and p.starts_at_zero)
    return sum(_accumulators(other, warpgroups) for other in made_of)


def _is_made(planned: PlannedDot) -> bool:
    """Whether the left operand comes from registers, and not from before the loop."""
    lhs, loop = planned.dot.lhs, planned.dot.parent_block()
    return planned.lhs is None and (
        lhs.owner is loop if isinstance(lhs, BlockArgument) else lhs.owner.parent is loop
    )


def _saved_in_place(dots: list[PlannedDot], warpgroups: int) -> int:
    """Registers saved by left operands in the place of results that they are made of."""
    return sum(
        min(_operand(planned, warpgroups), _spent(planned, dots, warpgroups))
        for planned in dots
        if planned.lhs is None and not _is_carried(planned.dot.lhs)
    )


def _partial(planned: PlannedDot, warpgroups: int) -> int:
    """Registers of a thread for partial sums, which need less beside them than other tiles do."""
    if not planned.is_two_level:
        return 0
    return max(0, min(PARTIAL_REGISTERS, _accumulators(planned, warpgroups)) - LESS_BESIDE_PARTIAL)


def _fragments(planned: PlannedDot, warpgroups: int) -> int:
    """Registers of a thread for fragments that it reads itself, and to get there.

    Those of two steps of K: one is multiplied while the next is read. A step is an instruction's
    for all blocks of rows, or what is summed up by itself for one block.
    """
    if isinstance(planned, MmaSyncDot):
        return planned.fragment_registers(warpgroups)
    if planned.fragments is None:
        return 0
    blocks, steps = planned.rows // (ROWS_PER_WARPGROUP * warpgroups), 1
    if planned.transposes_words:
        # Words are transposed while the fragments of the product before are read.
        whole = blocks * shape_of(planned.dot.lhs)[-1] // planned.family.k
        held = whole if whole <= FRAGMENTS_AT_ONCE else 2 * blocks
        return FRAGMENT_REGISTERS * held + SMEM_TRANSPOSE_REGISTERS + 2 * FRAGMENT_ADDRESSES
    if planned.is_two_level:
        depth = min(PARTIAL_K, shape_of(planned.dot.lhs)[-1])
        blocks, steps = 1, depth // planned.family.k
    return 2 * FRAGMENT_REGISTERS * blocks * steps + FRAGMENT_ADDRESSES


def _at_work(dots: list[PlannedDot], warpgroups: int) -> int:
    """Registers of a thread for making left operands: what they are made of, and themselves."""
    # Where a loop carries them, they are among the tiles already.
    if all(planned.lhs is not None or _is_carried(planned.dot.lhs) for planned in dots):
        return 0
    least = min(_accumulators(planned, warpgroups) for planned in dots)
    return least + max(_operand(planned, warpgroups) for planned in dots)


def _is_carried(value: SSAValue) -> bool:
    """Whether a loop hands the tile on, to its next iteration or to what follows."""
    return isinstance(value.owner, Block | aa.ForOp)


def _words_behind(loop: Operation | None) -> int:
    """Words of tiles that are there at once when the loop is over: the sum, and what is added to it
    or computed of it.
    """
    return words_behind(loop) if isinstance(loop, aa.ForOp | aa.LoopOp) else 0


def _other_words(loop: Operation | None, dots: list[PlannedDot], brought: set[OperandLoad]) -> int:
    """Words of the other tiles around the products of a loop: carried, or loaded to registers."""
    if not isinstance(loop, aa.ForOp):
        return 0
    held = {planned.dot.acc for planned in dots}
    held.update(planned.dot.lhs for planned in dots if planned.lhs is None)
    carried = [
        arg
        for arg in loop.body.block.args[1:]
        if arg not in held and not _only_addresses(arg, loop, brought)
    ]
    loaded = [
        op.results[0]
        for op in loop.body.block.ops
        if isinstance(op, aa.LoadOp | aa.TiledLoadOp) and op not in brought
    ]
    # An accumulator that is scaled before the product into it is carried, too.
    scaled = sum(tensor_words(planned.dot.acc.type) for planned in dots if is_rescaled(planned))
    return max(0, sum(tensor_words(value.type) for value in [*carried, *loaded]) - scaled)


def _only_addresses(carried: SSAValue, loop: aa.ForOp, brought: set[OperandLoad]) -> bool:
    """Whether a carried tile is only needed to bring operands: it is the producer's alone."""
    pending, seen = [carried], {carried}
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, aa.LoadOp) and op in brought:
                continue
            if isinstance(op, aa.ContinueOp) and op.parent_op() is loop:
                reached: list[SSAValue] = [loop.body.block.args[use.index + 1]]
                reached.append(loop.results[use.index])
            elif isinstance(op, ElementwiseOp | aa.BroadcastOp | aa.ReshapeOp | aa.PermuteOp):
                reached = list(op.results)
            else:
                return False
            pending += [value for value in reached if value not in seen]
            seen.update(reached)
    return True


def is_rescaled(planned: PlannedDot) -> bool:
    """Whether the product adds to something computed in the loop, not to a carried value."""
    acc = planned.dot.acc
    return isinstance(acc.owner, Operation) and not isinstance(
        acc.owner, aa.ConstantOp | aa.SplatOp
    )


def _operand(planned: PlannedDot, warpgroups: int) -> int:
    """Registers of a thread for a left operand in registers."""
    return planned.left_registers(warpgroups)


def _accumulators(planned: PlannedDot, warpgroups: int) -> int:
    """Accumulator registers of one thread."""
    return planned.accumulator_registers(warpgroups)
