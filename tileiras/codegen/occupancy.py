"""How many CTAs of a kernel fit an SM at once, and what keeps more of them out.

Source: CUDA C++ Best Practices Guide, "Calculating Occupancy"; CUDA C++ Programming Guide,
"Compute Capabilities". Registers are handed out to warps, each of which belongs to one part of an
SM; of shared memory every CTA takes what the system reserves beside its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.codegen.target.gpu_target import GpuTarget

SHARED_UNIT = 128
"""Fixed: bytes in which shared memory is handed out."""


@dataclass(frozen=True)
class Occupancy:
    """`ctas` of an SM, their `warps`, of `most` that there could be; `limit`: of which resource.

    `allowed`: CTAs that each resource would allow, in the order in which they are told.
    """

    ctas: int
    warps: int
    most: int
    limit: str
    allowed: tuple[tuple[str, int], ...]

    @property
    def percent(self) -> int:
        """Warps that an SM has, of those that it could have."""
        return 100 * self.warps // self.most


def occupancy(
    target: GpuTarget, threads: int, registers: int, shared: int, columns: int = 0
) -> Occupancy:
    """Of CTAs of `threads` with so many `registers` each and `shared` bytes of shared memory.

    `columns`: of tensor memory. No CTA fits where a resource is asked for beyond what there is.
    """
    warps = -(-threads // target.warp_size)
    reserved = target.shared_memory_per_sm - target.shared_memory_per_block
    rounded = -(-(shared + reserved) // SHARED_UNIT) * SHARED_UNIT
    allowed = {
        "warps": target.max_warps_per_sm // warps,
        "registers": _by_registers(target, warps, registers),
        "shared memory": target.shared_memory_per_sm // max(1, rounded),
        "CTAs of an SM": target.max_ctas_per_sm,
    }
    if columns:
        allowed["tensor memory"] = target.tmem_columns // columns
    limit = min(allowed, key=lambda resource: allowed[resource])
    ctas = allowed[limit]
    most = target.max_warps_per_sm
    return Occupancy(ctas, ctas * warps, most, limit, tuple(allowed.items()))


def _by_registers(target: GpuTarget, warps: int, registers: int) -> int:
    """CTAs that have registers: a warp takes them from one part of the SM."""
    each = target.whole_units(registers + target.register_unit - 1) * target.warp_size
    of_part = target.registers_per_sm // target.partitions // max(1, each)
    return of_part * target.partitions // (-(-warps // target.partitions) * target.partitions)
