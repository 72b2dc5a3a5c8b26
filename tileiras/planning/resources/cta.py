"""How many threads a specialised tile block gets, and how many of its kind share an SM.

One consumer warpgroup and one producer warp leave room for a second CTA on the SM, whose products
run beside the first one's set-up and epilogue. Larger tiles need a CTA with the SM to itself: two
consumer warpgroups, and a warpgroup for the producer that gives its registers away (setmaxnreg).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tileiras.codegen.target import GpuTarget

WARPGROUP_THREADS = 128
"""Fixed: threads of four warps, which issue a wgmma together (PTX ISA)."""
MOST_WARPGROUPS = 2
"""Policy: consumer warpgroups of a CTA."""
ROWS_PER_WARPGROUP = 64
"""Fixed: of one wgmma; a warpgroup takes as many such blocks of rows as it must."""
WARP_THREADS = 32
"""Fixed: threads of a warp (PTX ISA)."""
MAX_CTAS = 3
"""Policy: CTAs per SM: beyond, pipelines are too short to hide what memory takes."""
MAX_ACCUMULATORS = 128
"""Policy: f32 registers of a thread for one accumulator."""
MAX_REGISTERS = 176
"""Policy: registers of a thread for accumulators and left operands, where a CTA has the SM to
itself.
"""
MOST_REGISTERS = 200
"""Policy: the same where left operands take the place of what they are made of: attention of 64
rows and 256 keys has 192 and others, and takes 239 registers in all.
"""
OTHER_SHARE = 7
"""Policy: one in so many registers is for addresses, barriers and work, in a kernel with few of
them.
"""
LEAST_OTHER = 24
"""Policy: registers for these in any kernel: with 80 registers 64 for accumulators spill."""
LAUNCHED_BESIDE = 26
"""Fixed: ptxas wants so many registers beside the accumulators of one wgmma from the launch on
(C7602).
"""
MAX_STAGES = 8
"""Policy: stages of a pipeline at most; short ones have up to twice as many."""
SHORT_PIPELINE_BYTES = 64 * 1024
"""Policy: what a pipeline may take with up to twice as many stages: small ones come too late
otherwise. An SM gets some 60 bytes a cycle, a thousand cycles after they are asked for.
"""
DEEP_STAGES = 4
"""Policy: stages that a pipeline has at most where all pipelines together take more than
`FREE_PIPELINE_BYTES`.
"""
FREE_PIPELINE_BYTES = 128 * 1024
"""Policy: what all pipelines may take with more stages than `DEEP_STAGES`."""
MOST_PIPELINE_BYTES = 160 * 1024
"""Policy: what all pipelines of a CTA may take. With more on its way SMs drift apart, and L2 no
longer answers several of them at once: f16 8192^3, TFLOP/s on one H100, 128x128 with 3, 4, 5, 6
stages of 32 KB 535, 635, 554, 540; 128x256 with 3 and 4 of 48 KB 742, 729; 64x256 with 3, 4 and 5
of 40 KB 528, 606, 461.
"""
MOST_READ_BYTES = 192 * 1024
"""Policy: the same where threads read the stages: int8 8192^3 row-major, 128x256 tile, TOP/s with 3
and 4 stages of 48 KB 1231, 1399. And where the producer's threads gather: experts of 128x128, two
tiles at once, 938 and 915 us.
"""
FIXED_BYTES = 1024
"""Policy: shared memory of a CTA for mbarriers, for making tensor maps, and for handing a scalar
around.
"""
STAGE_BARRIER_BYTES = 16
"""Fixed: of a stage's full and empty mbarrier."""
LEAST_SCRATCH = 4096
"""Policy: shared memory for layout changes and reductions beside the pipelines: less takes many
rounds.
"""
SMALL_TILE = 128 * 128
"""Policy: products of up to so many elements (one warpgroup has 128 accumulators) share
an SM with another CTA, if the threads compute between them: two CTAs of 64x128 attention ran at 553
TFLOP/s, one at 478. Plain products lose by it (128x128: 547, 636 alone), since more SMs than before
read the same at once.
"""
DEFAULT_CTAS = 2
"""Policy: CTAs per SM for such products."""

PRODUCER_REGISTERS = 40
"""Policy: registers that a producer keeps where it gives the others away."""
TMA_REGISTERS = 24
"""Policy: the same of one that only issues TMA, as few as there are (PTX ISA, "setmaxnreg"). Bytes
that ptxas spills of nvf4 128x128x128 and 128x256x128 on sm_120: 80 and 104 where consumers have 216
registers, none with 232 and more.
"""

# Penalties of the cost model, in no unit: which lack is worse than which.
_UNWANTED_CTA = 4
"""Policy: for each CTA per SM more or less than is wanted."""
_NO_SPARE_STAGE = 3
"""Policy: a pipeline that has no stage more than it must have."""
_ALONE = 3
"""Policy: one warpgroup alone on an SM."""
_TIGHT = 2
"""Policy: fewer registers left than what is computed beside products takes."""
_IDLE_WARPS = 1
"""Policy: warps of the producer that do nothing."""
_TRADED = ((1, 2), (2, 1))
"""Policy: consumer warpgroups and CTAs per SM of the shapes that trade registers."""


@dataclass(frozen=True)
class CtaConfig:
    """Warps and registers of a specialised CTA; `ctas` of its kind fit an SM.

    `producer_registers` and `consumer_registers` are 0 where all threads keep what they are
    launched with.
    """

    warpgroups: int
    ctas: int
    producer_warps: int
    registers: int
    producer_registers: int = 0
    consumer_registers: int = 0

    @property
    def consumer_warps(self) -> int:
        """Warps that compute."""
        return 4 * self.warpgroups

    @property
    def tile_registers(self) -> int:
        """Registers of a consumer thread that accumulators and left operands may take."""
        return min(MAX_REGISTERS, self.free_registers)

    @property
    def free_registers(self) -> int:
        """Registers of a consumer thread that addresses, barriers and work do not need."""
        return self.registers - max(LEAST_OTHER, self.registers // OTHER_SHARE)


@dataclass(frozen=True)
class PipelineRequirements:
    """A pipeline as the choice needs to know it: bytes of a stage, and how many stages it has at
    least.

    A pipeline of a tile that is loaded once has one stage and gains nothing from more. `is_read`:
    threads read tiles into registers before they multiply, and keep a stage that much longer; or
    they gather tiles, row by row, which takes longer to fill a stage.
    `is_shared`: CTAs of a cluster fill it together, so that it takes longer to fill.
    `extra_stages`: stages that it may have more than others, since its loads are said to take long.
    `skipped_bytes`: bytes of a stage that mostly do not come, their tile being in the stage
    already. `held`: stages that consumers keep for a product that is an iteration late, so that
    nothing is on its way to them. `rows`: bytes of a stage for the small tiles of threads.
    """

    stage_bytes: int
    least: int
    may_grow: bool = True
    is_read: bool = False
    is_shared: bool = False
    extra_stages: int = 0
    skipped_bytes: int = 0
    held: int = 0
    rows: int = 0

    @property
    def counted(self) -> int:
        """The bytes of a stage by which it is told how much is on its way."""
        return self.stage_bytes - self.rows


@dataclass(frozen=True)
class Requirements:
    """What a kernel asks of a CTA. Registers are those of a thread, for 1 and 2 warpgroups.

    `accumulators`: of the largest product; `tiles`: what the products of a loop take together;
    `with_others`: and what else is held around them; `at_work`: what is computed beside that.
    `elements`: of the largest product. `is_persistent`: each CTA makes many tiles, so that one per
    SM is launched. `wanted_*`: what hints ask for. `gather_registers`: registers that a thread of
    the producer needs more where its whole warpgroup gathers, None if one warp is enough.
    `columns`: of the widest product. `scratch`: shared memory that one operation needs at once.
    `smem_transpose`: and what warpgroups need to transpose operands in. `is_busy`: threads compute
    left operands between products, or transpose words. `tmem_columns`: of tensor memory,
    where fewer CTAs than an SM has room for otherwise may have to share it. `producer_registers`:
    the fewest with which a thread of a producer does that gathers nothing.
    """

    accumulators: dict[int, int]
    tiles: dict[int, int]
    with_others: dict[int, int]
    at_work: dict[int, int]
    pipelines: tuple[PipelineRequirements, ...]
    elements: int
    is_persistent: bool = False
    wanted_ctas: int | None = None
    wanted_warpgroups: int | None = None
    gather_registers: int | None = None
    columns: int = 0
    scratch: int = 0
    smem_transpose: dict[int, int] = field(default_factory=dict[int, int])
    is_busy: bool = False
    in_place: dict[int, int] = field(default_factory=dict[int, int])
    tmem_columns: int = 0
    producer_registers: int = PRODUCER_REGISTERS


def cta_configs(
    target: GpuTarget,
    gather_registers: int | None = None,
    producer_registers: int = PRODUCER_REGISTERS,
) -> tuple[CtaConfig, ...]:
    """All shapes: with one producer warp, or with a warpgroup of them that gives registers away.

    The latter only for few CTAs: ptxas wants enough registers for wgmma from the launch on. Two
    consumer warpgroups on their own are launched with the same registers either way. A producer
    that gathers is a warpgroup in any case.
    """
    shapes: list[CtaConfig] = []
    least = producer_registers + (gather_registers or 0)
    for warpgroups in (1, 2):
        for ctas in range(1, MAX_CTAS + 1):
            launched = launched_registers(4 * warpgroups + 4, ctas, target)
            if (warpgroups, ctas) in _TRADED and launched >= least:
                shapes.append(_traded(warpgroups, ctas, least, target))
            if gather_registers is not None:
                if (warpgroups, ctas) not in _TRADED and launched >= least:
                    shapes.append(CtaConfig(warpgroups, ctas, 4, launched))
            elif (warpgroups, ctas) != (2, 1):
                registers = launched_registers(4 * warpgroups + 1, ctas, target)
                shapes.append(CtaConfig(warpgroups, ctas, 1, registers))
    return tuple(shapes)


def launched_registers(warps: int, ctas: int, target: GpuTarget) -> int:
    """Registers of a thread where `ctas` of so many warps are to fit an SM.

    One part of the SM gets more warps than the others, if they cannot be dealt out evenly.
    """
    together = -(-warps * ctas // target.partitions)
    registers = target.registers_per_sm // (target.partitions * WARP_THREADS * together)
    return min(target.whole_units(registers), target.max_registers_per_thread)


def _traded(warpgroups: int, ctas: int, least: int, target: GpuTarget) -> CtaConfig:
    """Consumers that get the registers of the producer's warpgroup, who keep `least`."""
    launched = launched_registers(4 * warpgroups + 4, ctas, target)
    given = target.whole_units((launched - least) // warpgroups)
    registers = launched + given
    return CtaConfig(warpgroups, ctas, 4, registers, least, registers)


def choose_cta_config(requirements: Requirements, target: GpuTarget) -> CtaConfig | None:
    """The shape of least cost that holds the kernel's tiles and pipelines; None if none does.

    Only where none does, left operands are made in place: nothing is computed beside products then,
    and the producer keeps as few registers as it can.
    """
    shapes = cta_configs(target, requirements.gather_registers)
    fitting = [shape for shape in shapes if _holds_tiles(shape, requirements)]
    best = _cheapest(fitting, requirements, target)
    if best is None and requirements.in_place:
        shapes = cta_configs(target, requirements.gather_registers, requirements.producer_registers)
        fitting = [shape for shape in shapes if _holds_tiles_in_place(shape, requirements)]
        best = _cheapest(fitting, requirements, target)
    return best


def _holds_tiles(shape: CtaConfig, requirements: Requirements) -> bool:
    """Whether there are registers for all tiles of a loop, left operands beside the others."""
    tiles = requirements.tiles if shape.ctas == 1 else requirements.with_others
    return tiles.get(shape.warpgroups, MAX_REGISTERS + 1) <= shape.tile_registers


def _holds_tiles_in_place(shape: CtaConfig, requirements: Requirements) -> bool:
    """Whether one CTA on an SM has registers for its tiles, left operands in place of others."""
    tiles = requirements.in_place.get(shape.warpgroups, MOST_REGISTERS + 1)
    return shape.ctas == 1 and tiles <= min(MOST_REGISTERS, shape.free_registers)


def _cheapest(
    shapes: Iterable[CtaConfig], requirements: Requirements, target: GpuTarget
) -> CtaConfig | None:
    """The first of the shapes with the least penalties, None if none fits otherwise."""
    costs = ((_cost(shape, requirements, target), shape) for shape in shapes)
    fitting = ((cost, shape) for cost, shape in costs if cost is not None)
    best = min(fitting, key=lambda found: found[0], default=None)
    return best[1] if best is not None else None


def _cost(shape: CtaConfig, requirements: Requirements, target: GpuTarget) -> int | None:
    """The penalties of a shape with registers enough for tiles, None if it does not fit."""
    if shape.warpgroups not in requirements.accumulators:
        return None
    if requirements.accumulators[shape.warpgroups] > MAX_ACCUMULATORS:
        return None
    if requirements.tmem_columns * shape.ctas > target.tmem_columns:
        return None
    launched = launched_registers(shape.consumer_warps + shape.producer_warps, shape.ctas, target)
    if launched < requirements.columns // 2 + LAUNCHED_BESIDE:
        return None
    other = FIXED_BYTES + max(LEAST_SCRATCH, requirements.scratch)
    other += requirements.smem_transpose.get(shape.warpgroups, 0)
    stages = stages_of_pipelines(requirements.pipelines, shared_bytes(shape, target) - other)
    if stages is None:
        return None
    is_busy = requirements.is_busy or any(requirements.at_work.values())
    is_small = is_busy and requirements.elements <= SMALL_TILE and not requirements.is_persistent
    default = DEFAULT_CTAS if is_small else 1
    cost = _UNWANTED_CTA * abs(shape.ctas - (requirements.wanted_ctas or default))
    wanted = requirements.wanted_warpgroups
    if wanted is not None and wanted != shape.warpgroups:
        cost += _UNWANTED_CTA
    pairs = zip(requirements.pipelines, stages, strict=True)
    if any(count <= pipeline.least for pipeline, count in pairs if pipeline.may_grow):
        cost += _NO_SPARE_STAGE
    if shape.warpgroups * shape.ctas == 1:
        cost += _ALONE
    room = shape.tile_registers - requirements.with_others[shape.warpgroups]
    if requirements.at_work[shape.warpgroups] > room:
        cost += _TIGHT
    if shape.producer_warps > 1:
        cost += _IDLE_WARPS
    return cost + shape.warpgroups


def shared_bytes(shape: CtaConfig, target: GpuTarget) -> int:
    """Shared memory that each CTA may have."""
    return target.shared_memory_of_each(shape.ctas)


def stages_of_pipelines(
    pipelines: Iterable[PipelineRequirements], available: int, most: int = 0
) -> tuple[int, ...] | None:
    """Stages of every pipeline: the least, then one more in turn while there is room; None if
    none.

    `most`: bytes that they may take in any case, however many stages these are.
    """
    pipelines = tuple(pipelines)
    stages = [pipeline.least for pipeline in pipelines]
    taken = sum(pipeline.stage_bytes * pipeline.least for pipeline in pipelines)
    skipped_bytes = sum(
        (pipeline.skipped_bytes + pipeline.rows) * pipeline.least for pipeline in pipelines
    )
    if taken > available:
        return None
    deep = (
        MOST_READ_BYTES if any(pipeline.is_read for pipeline in pipelines) else MOST_PIPELINE_BYTES
    )
    held = sum(pipeline.counted * pipeline.held for pipeline in pipelines)
    deep, free = max(deep + held, most), max(FREE_PIPELINE_BYTES + held, most)
    if any(pipeline.is_shared for pipeline in pipelines):
        deep = free = available
    by_latency = sorted(enumerate(pipelines), key=lambda item: -item[1].extra_stages)
    grown = True
    while grown:
        grown = False
        fewest = min(
            (s for s, pipeline in zip(stages, pipelines, strict=True) if pipeline.may_grow),
            default=0,
        )
        for number, pipeline in by_latency:
            more = pipeline.extra_stages + pipeline.held
            if not pipeline.may_grow or stages[number] > fewest + more:
                continue
            # With one stage a pipeline would wait for each of its loads.
            is_single = stages[number] == 1
            wanted = stages[number] + 1
            is_short = pipeline.stage_bytes * wanted <= SHORT_PIPELINE_BYTES
            most = available if is_single else _most_bytes(wanted, deep, free, is_short)
            larger = taken + pipeline.stage_bytes
            coming = skipped_bytes + pipeline.skipped_bytes + pipeline.rows
            if larger <= available and larger - coming <= most:
                stages[number] += 1
                taken, skipped_bytes = larger, coming
                grown = True
    return tuple(stages)


def most_stages(pipeline: PipelineRequirements) -> int:
    """The stages that a pipeline has at most, whatever room there is."""
    if not pipeline.may_grow:
        return pipeline.least
    of_short_pipeline = min(2 * MAX_STAGES, SHORT_PIPELINE_BYTES // pipeline.stage_bytes)
    return max(pipeline.least, MAX_STAGES, of_short_pipeline)


def _most_bytes(stages: int, deep: int, free: int, is_short: bool) -> int:
    """What all pipelines may take when one of them gets so many stages; `deep` with a few of
    them.
    """
    if stages > MAX_STAGES * (1 + is_short):
        return 0
    return deep if stages <= DEEP_STAGES else free
