"""How many neighbouring tile blocks a CTA with tensor memory computes at once: by facts, before.

    for %k { %a = load %A[%x, %k]          common to tile blocks (%x, %y), (%x, %y + 1), ...
             %b = load %B[%k, %y]          each has its own
             %sum = dot %a, %b, %sum }     columns of tensor memory for each

Where the bytes that come from L2 take longer than the products, each tile block more brings its
own operand, and not the common one. How long both take is known from documents and from one
measurement (`codegen/target/rates.py`): it has to be too long by what was measured, where an SM got
most; tile blocks are added until it is not by what is documented, where it gets less.

Products with scales are so fast that shared memory would be the limit if each read both operands.
The tensor core keeps a left one, so that is what their tile blocks have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tileiras.codegen.atoms.tcgen05 import allocated_columns
from tileiras.codegen.target.rates import (
    L2_BYTES_MEASURED,
    L2_BYTES_PER_CYCLE,
    RATES,
)
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.clusters import find_multicast
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tcgen05_pairs import halves_of
from tileiras.planning.operands.swap_ab import VariationRate
from tileiras.planning.operands.tma import OperandLoad, is_by_tma, place_bytes, tile_bytes
from tileiras.planning.stores import plan_of_loop
from tileiras.planning.tile_scheduler.joinable import is_plain, may_loop_over_tiles, product_loop
from tileiras.planning.tile_scheduler.neighbours import differing_values

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.options import CompileOptions
    from tileiras.planning.model.kernel import RolePlan

MOST_TILES = 4
"""Policy: tile blocks at once at most: each has an epilogue of its own."""
TOO_LONG = 1.1
"""Policy: copies that take so much longer than products are worth a change."""
_ELEMENTS = {16: "f16", 8: "f8", 4: "f4"}
"""Whose rate products have, by the bits of an element."""


@dataclass(frozen=True)
class TilesAtOnce:
    """`count` neighbours along an axis of the grid; `at_once`: clusters that the GPU runs.

    `one`, `all`: cycles of a step of K of one tile block, and of all of them together.
    """

    axis: int
    count: int
    at_once: int
    one: int
    all: int


@dataclass(frozen=True)
class _Step:
    """A step of K of one tile block: cycles of its products, bytes that neighbours have in common,
    and its own.
    """

    products: float
    common: float
    own: float

    def cycles(self, count: int, rate: int) -> float:
        """What a step of so many tile blocks takes, where an SM gets `rate` bytes a cycle."""
        return max(count * self.products, (self.common + count * self.own) / rate)

    def is_too_long(self, count: int, rate: int) -> bool:
        """Whether its copies take too long for its products."""
        return self.cycles(count, rate) > TOO_LONG * count * self.products


def tiles_at_once(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> TilesAtOnce | None:
    """The neighbours that a cluster which divides a tile block shall compute at once; None if that
    gains nothing, there is no room, or the kernel is not of this form.
    """
    kernel = _kernel(func, plan, target, options)
    if kernel is None:
        return None
    found: list[tuple[float, TilesAtOnce]] = []
    for axis, numbers in _numbers(func).items():
        own = kernel.own_loads(numbers)
        step = kernel.step(own) if own else None
        count = kernel.count(own, step) if step is not None else 1
        if step is None or count == 1:
            continue
        one, all = (round(step.cycles(n, L2_BYTES_MEASURED)) for n in (1, count))
        at_once = max(1, target.performance.multiprocessors // func.cluster_size)
        tiles = TilesAtOnce(axis, count, at_once, one, all)
        found.append((step.cycles(count, L2_BYTES_PER_CYCLE) / count, tiles))
    return min(found, key=lambda item: item[0])[1] if found else None


def _kernel(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> _Kernel | None:
    """The kernel if a cluster divides its tile blocks, for one product, whose copies are by TMA."""
    loop = product_loop(func.body.block)
    divides = func.cluster_size > 1 and func.clustered is None and func.in_rows is None
    if loop is None or not divides or func.cluster_axis is not None or len(plan.dots) != 1:
        return None
    [planned] = plan.dots.values()
    if not isinstance(planned, Tcgen05Dot) or not _is_simple(planned):
        return None
    if not may_loop_over_tiles(func) or any(not is_by_tma(load) for load in plan.loads_of(loop)):
        return None
    # With scales CTAs that multiply by themselves spill: nvf4 128x512 by four, 24 bytes.
    if planned.scales and isinstance(halves_of(func, plan), str):
        return None
    return _Kernel(func, plan, loop, planned, target, options)


def _is_simple(planned: Tcgen05Dot) -> bool:
    """Whether a product adds up in tensor memory, from zero, for a whole loop."""
    own = planned.accumulator
    is_whole = not own.is_of_iteration and not own.is_scaled and not own.is_filled
    return is_whole and not own.before and is_plain(planned) and not planned.is_lhs_resident


def _numbers(func: aa.FuncOp) -> dict[int, list[SSAValue]]:
    """What says where a tile block is, by axis."""
    found: dict[int, list[SSAValue]] = {}
    for op in func.body.block.ops:
        if isinstance(op, aa.GetProgramIdOp) and op.result.first_use is not None:
            found.setdefault(op.axis.value.data, []).append(op.result)
    return found


@dataclass(frozen=True)
class _Kernel:
    """A kernel whose tile blocks may be computed several at once, by the plan for one."""

    func: aa.FuncOp
    plan: RolePlan
    loop: aa.ForOp
    planned: Tcgen05Dot
    target: GpuTarget
    options: CompileOptions

    def own_loads(self, numbers: list[SSAValue]) -> list[OperandLoad]:
        """The loads of what neighbours have of their own; none where they have nothing in common,
        or loops of other lengths.
        """
        planned, loop = self.planned, self.loop
        rates = dict.fromkeys(numbers, VariationRate.OFTEN)
        differing = differing_values(self.func.body.block, loop, rates, None)
        if any(bound in differing for bound in (loop.lower_bound, loop.upper_bound, loop.step)):
            return []
        loads = self.plan.loads_of(loop)
        own = [load for load in loads if load.result in differing]
        has_own_left = planned.lhs is not None and planned.lhs.load in own
        return [] if len(own) == len(loads) or (planned.scales and has_own_left) else own

    def step(self, own: list[OperandLoad]) -> _Step | None:
        """What a step takes; None where no rates are known."""
        planned, dot = self.planned, self.planned.dot
        rates, element = RATES.get(self.target.name), _ELEMENTS.get(planned.operand_bits)
        if rates is None or element is None or element not in rates.tensor:
            return None
        multicast = find_multicast(self.func, self.plan)
        bytes_of = {
            load: tile_bytes(load) / (multicast.sharers(load) if load in multicast.loads else 1)
            for load in self.plan.loads_of(self.loop)
        }
        depth = dot.depth if isinstance(dot, aa.DotScaledOp) else shape_of(dot.lhs)[-1]
        flops = 2 * planned.rows * planned.columns * depth
        per_cycle = rates.flops_per_cycle * rates.tensor[element] / rates.tensor["f16"]
        all, mine = sum(bytes_of.values()), sum(bytes_of[load] for load in own)
        return _Step(flops / per_cycle, all - mine, mine)

    def count(self, own: list[OperandLoad], step: _Step) -> int:
        """The fewest tile blocks whose copies do not take too long, or as many as there is room
        for; 1 where one is enough.
        """
        best = 1
        if not step.is_too_long(best, L2_BYTES_MEASURED):
            return best
        for count in _possible(self.planned, self.target):
            if not self._has_room(count, own):
                break
            best = count
            if not step.is_too_long(count, L2_BYTES_PER_CYCLE):
                break
        return best

    def _has_room(self, count: int, own: list[OperandLoad]) -> bool:
        """Whether stages for so many have room beside what a warp of its own stores."""
        more = (count - 1) * sum(map(place_bytes, own))
        pipelines = tuple(
            replace(pipeline, bytes=pipeline.bytes + more) for pipeline in self.plan.pipelines
        )
        many = replace(self.plan, pipelines=pipelines)
        return plan_of_loop(self.func, self.plan, many, self.target, self.options) is not None


def _possible(planned: Tcgen05Dot, target: GpuTarget) -> Iterator[int]:
    """Numbers of tile blocks whose sums have room in tensor memory, beside scales."""
    for count in range(2, MOST_TILES + 1):
        columns = count * planned.tmem_columns + planned.scale_columns
        if allocated_columns(columns) > target.tmem_columns:
            return
        yield count
