"""Strategies: the ways to compute matrix products, in order, chosen by what a target has.

    strategy    operands             accumulator   waited for
    tcgen05     stages               tmem          by the consumers, of a whole loop
    wgmma       stages, registers    registers     later, by groups of instructions
    mma_sync    stages, registers    registers     not at all: fragments are read, then multiplied
    fma         (no pipelines)       registers     not at all

What copies operands (TMA, cp.async gathers) and which warps do so does not depend on the strategy:
it says where operands may lie, how many registers a product takes, and whether it can be done.
What tcgen05 refuses mma.sync is asked for. A kernel whose products all strategies of its target
refuse has no warp roles: all its warps do the same (`planning/mma/dots`), by mma.sync without
pipelines or by fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from xdsl.ir import Operation

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.hints import is_tma_preferred
from tileiras.planning.mma.instructions import find_instruction
from tileiras.planning.mma.mma_sync import WARPS_PER_WARPGROUP, MmaSyncDot, unread_operand
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tcgen05_dots import placed_sums, tcgen05_dot
from tileiras.planning.mma.tcgen05_scaled import tcgen05_scaled_dot
from tileiras.planning.mma.wgmma_dots import holds_operands, is_of_few_rows, wgmma_dot
from tileiras.planning.model.dots import PlannedDot, WgmmaDot
from tileiras.planning.operands.staged import staged_operands
from tileiras.planning.operands.swap_ab import oriented
from tileiras.planning.operands.tma import is_by_tma, rounds_to_tf32, transparent_users
from tileiras.planning.resources.cta import TMA_REGISTERS, CtaConfig, launched_registers

SIGN_REGISTERS = 72
"""Policy: of a thread of the producer's warpgroup where one of its warps moves signs of scales, or
puts scales in order.
"""
LEAST_ELEMENTS = 128 * 128
"""Policy: see the next one."""
LEAST_ELEMENTS_COMPUTED = 64 * 64
"""Policy: of the largest product of a kernel, and of one whose left operands are computed: the
smallest that were measured against cp.async (decision 0021). Of smaller ones all warps copy the
operands, unless TMA is preferred.
"""

Loops = Mapping[Operation | None, list[PlannedDot]]
"""The planned products by what they stand in."""


class MmaStrategy(Protocol):
    """A way to compute products whose operands come through pipelines."""

    name: ClassVar[str]
    features: ClassVar[frozenset[Feature]]
    """What a target needs for it, beside the copies."""
    has_product_warp: ClassVar[bool]
    """Whether a warp of its own issues the products."""

    def plan(self, dots: Sequence[aa.ProductOp], target: GpuTarget) -> list[PlannedDot] | str:
        """The products of a kernel as this strategy computes them, or the reason why not."""
        ...

    def oriented(self, func: aa.FuncOp, loops: Loops) -> dict[Operation | None, list[PlannedDot]]:
        """The products with A and B swapped where that is better."""
        ...

    def shaped(
        self, shape: CtaConfig, target: GpuTarget, gathers: bool, dots: Sequence[PlannedDot]
    ) -> CtaConfig:
        """The CTA as this strategy divides its registers between the warp roles.

        `gathers`: the producer's warps copy, not TMA alone.
        """
        ...

    def allotted(
        self, dots: Sequence[PlannedDot], shape: CtaConfig, target: GpuTarget
    ) -> list[PlannedDot] | str:
        """The products with what they need of an SM beside registers, or why it has not enough."""
        ...


class Tcgen05Strategy:
    """Instructions of one thread that read shared memory and add up in tensor memory."""

    name: ClassVar[str] = "tcgen05"
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.TCGEN05})
    has_product_warp: ClassVar[bool] = True

    def plan(self, dots: Sequence[aa.ProductOp], target: GpuTarget) -> list[PlannedDot] | str:
        """All products, or why one of them has no place in tensor memory."""
        found: list[PlannedDot] = []
        for op in dots:
            has_scales = isinstance(op, aa.DotScaledOp)
            planned = tcgen05_scaled_dot(op, target) if has_scales else tcgen05_dot(op, target)
            if isinstance(planned, str):
                return planned
            found.append(planned)
        return found

    def oriented(self, func: aa.FuncOp, loops: Loops) -> dict[Operation | None, list[PlannedDot]]:
        """As they are: an instruction has 128 rows, and up to 256 columns."""
        return dict(loops)

    def shaped(
        self, shape: CtaConfig, target: GpuTarget, gathers: bool, dots: Sequence[PlannedDot]
    ) -> CtaConfig:
        """With a warp for the products beside those of the copies.

        Of a warpgroup that copies nothing one warp copies; it keeps more where the other one works
        on scales (40 registers: nvf4 128x64x256 spilled 80 bytes, mxf4 256x256x512 120). One that
        gathers is busy, and with a warp beside it registers are not traded: a warpgroup trades them
        as a whole.
        """
        if shape.producer_warps > 1 and not gathers:
            moves = any(isinstance(dot, Tcgen05Dot) and dot.touches_scales for dot in dots)
            return _with_producer_registers(shape, SIGN_REGISTERS, target) if moves else shape
        warps = shape.consumer_warps + shape.producer_warps + 1
        launched = launched_registers(warps, shape.ctas, target)
        registers = launched if gathers else min(shape.registers, launched)
        return CtaConfig(shape.warpgroups, shape.ctas, shape.producer_warps + 1, registers)

    def allotted(
        self, dots: Sequence[PlannedDot], shape: CtaConfig, target: GpuTarget
    ) -> list[PlannedDot] | str:
        """With columns of tensor memory."""
        placed = placed_sums([p for p in dots if isinstance(p, Tcgen05Dot)], shape, target)
        return placed if isinstance(placed, str) else list(placed)


class WgmmaStrategy:
    """Instructions of a warpgroup that read shared memory themselves, issued and waited for."""

    name: ClassVar[str] = "wgmma"
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.WGMMA})
    has_product_warp: ClassVar[bool] = False

    def plan(self, dots: Sequence[aa.ProductOp], target: GpuTarget) -> list[PlannedDot] | str:
        """All products, or that there are no instructions for one.

        Where a left operand of few rows is computed, warps have copies of it in all products.
        """
        few_rows = any(isinstance(op, aa.DotOp) and is_of_few_rows(op) for op in dots)
        holds = holds_operands(dots)
        found: list[PlannedDot] = []
        for op in dots:
            if isinstance(op, aa.DotScaledOp):
                return "wgmma multiplies without scales"
            planned = wgmma_dot(op, few_rows=few_rows, holds=holds)
            if isinstance(planned, str):
                return planned
            found.append(planned)
        return found

    def oriented(self, func: aa.FuncOp, loops: Loops) -> dict[Operation | None, list[PlannedDot]]:
        """As `operands/swap_ab` says."""
        own: dict[Operation | None, list[WgmmaDot]] = {
            loop: [planned for planned in dots if isinstance(planned, WgmmaDot)]
            for loop, dots in loops.items()
        }
        return {loop: list(dots) for loop, dots in oriented(func, own).items()}

    def shaped(
        self, shape: CtaConfig, target: GpuTarget, gathers: bool, dots: Sequence[PlannedDot]
    ) -> CtaConfig:
        """Consumers have what a producer that only issues TMA can do without, where they hold
        partial sums and fragments of columns beside the accumulators (decision 77).
        """
        holds = not gathers and any(dot.is_two_level and dot.fragments == "rhs" for dot in dots)
        return _with_producer_registers(shape, TMA_REGISTERS, target) if holds else shape

    def allotted(
        self, dots: Sequence[PlannedDot], shape: CtaConfig, target: GpuTarget
    ) -> list[PlannedDot] | str:
        """As they are."""
        return list(dots)


class MmaSyncStrategy:
    """Instructions of a warp on fragments in registers, which it reads from stages (ldmatrix)."""

    name: ClassVar[str] = "mma_sync"
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.MMA_SYNC, Feature.LDMATRIX})
    has_product_warp: ClassVar[bool] = False

    def plan(self, dots: Sequence[aa.ProductOp], target: GpuTarget) -> list[PlannedDot] | str:
        """All products, or why one of them cannot read its stages.

        Where a left operand is computed, warps have whole rows in all products of the kernel.
        """
        found: list[MmaSyncDot] = []
        for op in dots:
            planned = _mma_sync_dot(op, target)
            if isinstance(planned, str):
                return planned
            found.append(planned)
        if any(planned.lhs is None for planned in found):
            found = [replace(planned, by_rows=True) for planned in found]
        if not all(is_by_tma(load) for planned in found for load in planned.loads):
            return "an operand would be gathered into its stage"
        is_computed = any(planned.lhs is None for planned in found)
        least = LEAST_ELEMENTS_COMPUTED if is_computed else LEAST_ELEMENTS
        is_asked = all(is_tma_preferred(load) for planned in found for load in planned.loads)
        largest = max((planned.rows * planned.columns for planned in found), default=0)
        if largest < least and not is_asked:
            return f"no product has {least} elements"
        if not all(planned.suits(1) for planned in found):
            return f"a product is too small for {WARPS_PER_WARPGROUP} warps"
        return list(found)

    def oriented(self, func: aa.FuncOp, loops: Loops) -> dict[Operation | None, list[PlannedDot]]:
        """As they are: fragments of both operands are read alike."""
        return dict(loops)

    def shaped(
        self, shape: CtaConfig, target: GpuTarget, gathers: bool, dots: Sequence[PlannedDot]
    ) -> CtaConfig:
        """Consumers have what a producer that only issues TMA can do without: they hold fragments,
        and scales on their way.
        """
        return _with_producer_registers(shape, TMA_REGISTERS, target)

    def allotted(
        self, dots: Sequence[PlannedDot], shape: CtaConfig, target: GpuTarget
    ) -> list[PlannedDot] | str:
        """As they are."""
        return list(dots)


def _with_producer_registers(shape: CtaConfig, registers: int, target: GpuTarget) -> CtaConfig:
    """The shape with so many registers for the warps beside consumers, who have the others.

    What a CTA gives to its producer beyond its share it must have to itself.
    """
    more = registers - shape.producer_registers
    if not shape.producer_registers or (shape.ctas > 1 and more > 0):
        return shape
    given = -(-more // shape.warpgroups // target.register_unit) * target.register_unit
    left = shape.registers - given
    return replace(shape, registers=left, producer_registers=registers, consumer_registers=left)


PIPELINED: tuple[MmaStrategy, ...] = (Tcgen05Strategy(), WgmmaStrategy(), MmaSyncStrategy())
"""The strategies for kernels with warp roles, the preferred first."""


def pipelined_strategies(target: GpuTarget) -> tuple[MmaStrategy, ...]:
    """The strategies to ask, one after another: wgmma's where there is wgmma, and no other.

    What wgmma refuses is better computed by warps that all do the same.
    """
    found = [strategy for strategy in PIPELINED if all(map(target.has, strategy.features))]
    if any(isinstance(strategy, WgmmaStrategy) for strategy in found):
        found = [strategy for strategy in found if not isinstance(strategy, MmaSyncStrategy)]
    return tuple(found)


def _mma_sync_dot(op: aa.ProductOp, target: GpuTarget) -> MmaSyncDot | str:
    """The product with fragments read from stages, or why not."""
    shape, depth = shape_of(op.result), shape_of(op.lhs)[-1]
    instruction = find_instruction(op, target)
    if len(shape) != 2:
        return "mma.sync reads no batches from stages"
    if instruction is None:
        return f"no mma.sync for the types of a product of {shape[0]}x{shape[1]}x{depth}"
    if instruction.widens_to_f16:
        return "operands of 8 bits are widened in registers"
    operands = staged_operands(op)
    if operands is None:
        return "an operand does not come through a pipeline"
    for operand in (operands.lhs, operands.rhs):
        # mma.sync would cut what is to be rounded (decision 0009).
        if operand is not None and any(map(rounds_to_tf32, transparent_users(operand.load))):
            return "f32 is rounded to tf32 in registers"
    planned = MmaSyncDot(op, operands.lhs, operands.rhs, instruction)
    return unread_operand(planned) or planned
