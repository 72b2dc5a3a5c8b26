"""What a GPU of each target could do at most, from documents: for a roofline, not for schedules.

Rates of matrix products are dense, with sums in f32 (i32). The clock is the one that they need.
Where a document gives the rate with sparsity, half of it stands here; where it gives one element
type, the others follow by the powers of two that hold within Blackwell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ISSUED_PER_CYCLE = 4
"""Fixed: instructions of warps that an SM issues in a cycle, one for each of its partitions."""
SHARED_BYTES_PER_CYCLE = 128
"""Fixed: bytes of shared memory that an SM reads in a cycle, 32 banks of 4 (CUDA C++ Programming
Guide, "Shared Memory")."""
L2_BYTES_PER_CYCLE = 47
"""Policy: bytes that an SM gets from L2 in a cycle if all ask: 5120 for the 108 SMs of an A100 (its
architecture's white paper). No document says it of later GPUs, for which this is assumed."""

L2_BYTES_MEASURED = 63
"""Policy: the same of 128 CTAs of a GEMM on an H100, one on an SM, whose neighbours read the same
operands (docs/decisions/0018-ordinary-grids.md). It is shown beside what is predicted."""


@dataclass(frozen=True)
class Rates:
    """One GPU. `tensor`: TFLOP/s by element type; `memory`: GB/s.

    `flops_per_cycle`: of f16 products in an SM. `mma_sync`: the part of that which `mma.sync`
    reaches. `exponentials`: ex2 in a cycle of an SM. `assumed`: what no document says.
    """

    gpu: str
    multiprocessors: int
    tensor: Mapping[str, float]
    memory: int
    flops_per_cycle: int
    source: str
    mma_sync: float = 1.0
    exponentials: int = 16
    assumed: tuple[str, ...] = ()

    @property
    def clock(self) -> float:
        """Cycles of an SM in a nanosecond."""
        return self.tensor["f16"] * 1000 / (self.multiprocessors * self.flops_per_cycle)


_PARTS = "of mma.sync the part of the tensor core's rate that it has on sm_90"

RATES: Mapping[str, Rates] = {
    "sm_90": Rates(
        "H200",
        132,
        {"f16": 989, "f8": 1979},
        4800,
        4096,
        "H200 data sheet; mma.sync: measured, half of wgmma's",
        mma_sync=0.5,
    ),
    "sm_100": Rates(
        "B200",
        148,
        {"f16": 2250, "f8": 4500, "f4": 9000},
        8000,
        8192,
        "NVIDIA Blackwell Architecture Technical Brief, table 3 (HGX B200, per GPU)",
        mma_sync=0.25,
        assumed=("148 SMs", _PARTS),
    ),
    "sm_103": Rates(
        "B300",
        148,
        {"f16": 2250, "f8": 4500, "f4": 14000},
        8000,
        8192,
        "verda.com, 'GB300 NVL72 architecture' (per GPU, from NVIDIA's data sheets); "
        "ex2 at twice the rate of B200",
        mma_sync=0.25,
        exponentials=32,
        assumed=("148 SMs of the chip's 160", _PARTS),
    ),
    "sm_110": Rates(
        "Jetson T5000",
        20,
        {"f16": 258.75, "f8": 517.5, "f4": 1035},
        273,
        8192,
        "Jetson Thor data sheet: 2070 TFLOP/s f4 with sparsity; 20 SMs: NVIDIA's forum, 356355",
        mma_sync=0.25,
        assumed=("f16 and f8 are a quarter and a half of f4", _PARTS),
    ),
    "sm_120": Rates(
        "RTX PRO 6000",
        188,
        {"f16": 500, "f8": 1000, "f4": 2000},
        1792,
        1024,
        "RTX PRO 6000 Blackwell data sheet: 4000 TOPS f4 with sparsity, 188 SMs, 125 TFLOP/s f32",
        assumed=("f16 and f8 are a quarter and a half of f4",),
    ),
    "sm_121": Rates(
        "GB10",
        48,
        {"f16": 125, "f8": 250, "f4": 500},
        273,
        1024,
        "DGX Spark data sheet: 1000 TFLOP/s f4 with sparsity, 6144 cores (128 an SM), 273 GB/s",
        assumed=("f16 and f8 are a quarter and a half of f4",),
    ),
}
"""By target."""
