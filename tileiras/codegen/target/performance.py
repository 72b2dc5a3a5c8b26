"""How fast a GPU is: latencies, bandwidths, and which units each kind of work keeps busy.

A cycle is one of an SM. What the units do is the reservation table of modulo scheduling: a row a
kind of work, in it the units that it holds and how much of it each does in a cycle. Rows say today
that a warp waits for what it has issued, but for copies and wgmma: every other kind of work holds
the issue slots for as long as the unit that computes it. Rows in which ex2 held the issue slots for
an eighth of the time would let schedules put multiplications beside it; conversions likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Unit(Enum):
    """What an operation may have to wait for; the value is its name in schedules."""

    ISSUE = "issue"
    """Issue slots of the schedulers of an SM, which issue what a warp does in order."""
    FMA = "fma"
    """Adders and multipliers, integer ones included."""
    CONVERT = "convert"
    """Conversions between types."""
    MUFU = "mufu"
    """Special functions: ex2, lg2, rsqrt, tanh and their like."""
    LSU = "lsu"
    """The load and store units, with the ports of shared memory and L1."""
    TENSOR_CORE = "tensor_core"
    """Matrix products."""
    MEMORY = "memory"
    """The way from L2 and memory into an SM, which TMA and cp.async use."""


class Work(Enum):
    """A kind of work, and what it is counted in."""

    ARITHMETIC = "arithmetic"
    """Results of simple operations."""
    CONVERSION = "conversion"
    """Results of conversions."""
    SPECIAL = "special"
    """Results of special functions of f32."""
    ROUTINE = "routine"
    """Results of what takes many instructions: division, sine, special functions of other types."""
    ACCESS = "access"
    """Elements loaded into registers."""
    WGMMA = "wgmma"
    """Multiply-adds of 16-bit elements, asynchronous, operands in shared memory."""
    MMA_SYNC = "mma_sync"
    """Multiply-adds of 16-bit elements that a warp waits for."""
    COPY_FROM_MEMORY = "copy_from_memory"
    """Bytes of asynchronous copies that come from memory, if all SMs ask at once."""
    COPY_FROM_L2 = "copy_from_l2"
    """Bytes of asynchronous copies that other tile blocks read, too."""


@dataclass(frozen=True)
class Hold:
    """A unit, and how much of some work it does in a cycle."""

    unit: Unit
    per_cycle: int


@dataclass(frozen=True)
class Throughput:
    """What the units of an SM do in a cycle if they are busy all the time and in nobody's way.

    Whoever divides work between units asks for it; schedules ask for `Reservations`.
    """

    issued: int = 128
    """Instructions of threads: a warp's from each of four schedulers."""
    special: int = 16
    """Results of special functions of f32."""
    multiply_adds: int = 2048
    """Of 16-bit elements, by asynchronous products."""


Reservations = Mapping[Work, tuple[Hold, ...]]
"""The unit that does the work first, then the others that the work holds meanwhile."""


@dataclass(frozen=True)
class Performance:
    """The speed of one family of targets. Latencies are cycles; `source` says where from."""

    source: str
    """What was measured, where and how, or what stands for a measurement."""
    multiprocessors: int
    """SMs of the largest GPU of the family that one buys (NVIDIA's data sheets)."""
    memory_latency: int
    """From a load to its use, where memory is busy as it usually is."""
    l2_latency: int
    """The same for a load that finds in L2 what another tile block has loaded."""
    product_latency: int
    """From the end of an asynchronous product to the first instruction that reads it."""
    combine_latency: int
    """Of a reduction or scan beside its arithmetic: shuffles, a meeting in shared memory."""
    loop_overhead: int
    """Issue cycles of an iteration for counters, guards and branches."""
    memory_bytes_in_flight: int
    """Bytes that an SM must have asked for at any time to keep memory busy."""
    two_tiles_wave: int
    """Time of a wave of CTAs that compute two tiles at once, in the unit of `single_wave`."""
    single_wave: int
    """Time of a wave of CTAs that compute one tile. Only the two together mean something."""
    reservations: Reservations
    """Which units work holds, and for how long."""
    throughput: Throughput = Throughput()
    """Which units are the limit where work may be divided between them."""

    def cycles(self, work: Work, amount: int, unit: Unit) -> int:
        """Cycles for which an amount of work holds a unit, 0 where it does not."""
        return dict(self.uses(work, amount)).get(unit, 0)

    def uses(self, work: Work, amount: int) -> tuple[tuple[Unit, int], ...]:
        """The units that an amount of work holds, with the cycles of each."""
        return tuple((hold.unit, amount // hold.per_cycle) for hold in self.reservations[work])


def _waited_for(unit: Unit, per_cycle: int) -> tuple[Hold, ...]:
    """Work for which warps wait: it holds the issue slots as well."""
    return Hold(unit, per_cycle), Hold(Unit.ISSUE, per_cycle)


_H100_UNITS: Reservations = {
    Work.ARITHMETIC: _waited_for(Unit.FMA, 128),
    Work.CONVERSION: _waited_for(Unit.CONVERT, 64),
    Work.SPECIAL: _waited_for(Unit.MUFU, 16),
    Work.ROUTINE: _waited_for(Unit.FMA, 4),
    Work.ACCESS: _waited_for(Unit.LSU, 64),
    Work.WGMMA: (Hold(Unit.TENSOR_CORE, 2048),),
    Work.MMA_SYNC: _waited_for(Unit.TENSOR_CORE, 1024),
    Work.COPY_FROM_MEMORY: (Hold(Unit.MEMORY, 13),),
    Work.COPY_FROM_L2: (Hold(Unit.MEMORY, 24),),
}
"""CUDA C++ Programming Guide, "Arithmetic Instructions", compute capability 9.0: results a cycle.

Routines: our estimate. wgmma: 989 TFLOP/s f16 dense, 132 SMs, 1.755 GHz (H100 data sheet); mma.sync
reaches half of it there. Memory: 3.0 TB/s, L2: 5.5 TB/s, 132 SMs at 1.7 GHz (one H100, measured).
"""

HOPPER = Performance(
    source="one H100 SXM, measured; NVIDIA's documents where the table of units says so",
    multiprocessors=132,
    memory_latency=800,  # 600 from an idle memory, more from a busy one
    l2_latency=300,
    product_latency=128,
    combine_latency=150,
    loop_overhead=60,
    memory_bytes_in_flight=64 * 1024,  # 13 a cycle, for 1500 cycles, three times over
    two_tiles_wave=9,  # f16 on one H100: 1.9 times as long for 128x128, 1.5 for 64x128
    single_wave=5,
    reservations=_H100_UNITS,
)


_TCGEN05 = Throughput(multiply_adds=4096)
"""B200: 2250 TFLOP/s f16 dense, 148 SMs, 1.86 GHz (`rates.py` has the documents); special functions
as compute capability 9.0 (CUDA C++ Programming Guide, "Arithmetic Instructions")."""
_TCGEN05_ULTRA = replace(_TCGEN05, special=32)
"""B300: ex2 at twice the rate of B200 (`rates.py`)."""


def _as_hopper(
    multiprocessors: int, gpu: str, throughput: Throughput = HOPPER.throughput
) -> Performance:
    """A family on which nobody has measured: only the number of its SMs is its own.

    Of the units, NVIDIA's table of arithmetic instructions says 64 results of f32 arithmetic in a
    cycle for sm_80 where sm_90 has 128: such rows come with measurements, since they change
    schedules.
    """
    source = f"as sm_90, not measured; the number of SMs is that of {gpu}"
    return replace(HOPPER, source=source, multiprocessors=multiprocessors, throughput=throughput)


PERFORMANCE: Mapping[str, Performance] = {
    "sm_80": _as_hopper(108, "an A100"),
    "sm_86": _as_hopper(84, "an A40"),
    "sm_87": _as_hopper(16, "a Jetson AGX Orin"),
    "sm_88": _as_hopper(16, "a Jetson AGX Orin"),
    "sm_89": _as_hopper(142, "an L40S"),
    "sm_90": HOPPER,
    "sm_100": _as_hopper(148, "a B200", _TCGEN05),
    "sm_103": _as_hopper(148, "a B300 (of 160 on its chip; assumed)", _TCGEN05_ULTRA),
    "sm_110": _as_hopper(20, "a Jetson Thor", _TCGEN05),
    "sm_120": _as_hopper(188, "an RTX PRO 6000"),
    "sm_121": _as_hopper(48, "a GB10"),
}
"""The row of each target; what is newer than this table has that of the target it is built on."""
