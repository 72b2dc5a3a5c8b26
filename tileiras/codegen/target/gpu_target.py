"""The record that describes one GPU architecture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tileiras.codegen.target.features import Feature
from tileiras.codegen.target.performance import HOPPER, Performance
from tileiras.errors import TargetError
from tileiras.suggestions import did_you_mean


@dataclass(frozen=True)
class GpuTarget:
    """One architecture. Shared memory is in bytes, registers are 32-bit.

    `shared_memory_per_block` is what a launch may ask for (opt-in, dynamic and static together);
    `static_shared_limit` is what ptxas accepts in a module's `.shared` variables.
    `register_unit`: registers are handed out to threads in such units. `partitions`: parts of an SM
    with registers of their own, to which the warps of a CTA are dealt out.
    `tmem_lanes` and `tmem_columns`: tensor memory of an SM, in cells of 32 bits; none without
    tcgen05 (PTX ISA, "Tensor Memory").
    `max_cluster`: CTAs of a cluster that every launch allows; `largest_cluster`: of one that the
    hardware has (CUDA Programming Guide, "Thread Block Clusters").
    `performance`: how fast it is, for those who choose between correct programs.
    `llvm_processor` and `llvm_ptx_version` are what LLVM compiles for: `ptx_target` and
    `ptx_version` where LLVM knows these, else an older processor's. `ptxas_release` is the first
    ptxas that reads `ptx_version`.
    """

    name: str
    ptx_target: str
    ptx_version: int
    llvm_processor: str
    llvm_ptx_version: int
    ptxas_release: tuple[int, int]
    features: frozenset[Feature]
    shared_memory_per_block: int
    shared_memory_per_sm: int
    static_shared_limit: int
    max_warps_per_sm: int
    max_ctas_per_sm: int
    max_cluster: int
    largest_cluster: int
    performance: Performance = HOPPER
    tmem_lanes: int = 0
    tmem_columns: int = 0
    registers_per_sm: int = 65536
    max_registers_per_thread: int = 255
    register_unit: int = 8
    partitions: int = 4
    warp_size: int = 32

    @property
    def number(self) -> int:
        """The number in the name, 90 for Hopper; a cubin has it in its flags."""
        return int(self.name.rpartition("_")[2])

    def has(self, feature: Feature) -> bool:
        """Can this target do that (and has the user not disabled it)?"""
        return feature in self.features

    @property
    def warps_with_all_registers(self) -> int:
        """Warps whose threads have all the registers that they can have, and the SM's together."""
        each = self.whole_units(self.max_registers_per_thread + self.register_unit - 1)
        return self.registers_per_sm // (each * self.warp_size)

    def whole_units(self, registers: int) -> int:
        """So many registers of a thread, or fewer: as they are handed out."""
        return registers // self.register_unit * self.register_unit

    def shared_memory_of_each(self, ctas: int) -> int:
        """What one CTA may have if `ctas` of its kind are to fit an SM."""
        taken = self.shared_memory_per_sm - self.shared_memory_per_block
        return min(self.static_shared_limit, self.shared_memory_per_sm // ctas - taken)

    def too_much_shared_memory(self, size: int) -> str:
        """What to say of a kernel that needs `size` bytes of shared memory.

        Begins with ptxas's words for it: autotuners look for these and try another configuration.
        """
        limit = self.static_shared_limit
        words = f"uses too much shared data ({size:#x} bytes, {limit:#x} max)"
        return f"{words}: {size} bytes of shared memory, {self.name} has {limit}"

    def with_large_clusters(self) -> GpuTarget:
        """The same target for launches that allow clusters which are not portable
        (`CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`).
        """
        return replace(self, max_cluster=self.largest_cluster)

    def without(self, features: Iterable[Feature | str]) -> GpuTarget:
        """The same target with capabilities taken away, given as members or by name.

        Raises TargetError for a name that is no feature. Used to exercise older targets' paths.
        """
        removed = frozenset(_feature(feature) for feature in features)
        return replace(self, features=self.features - removed)


def _feature(feature: Feature | str) -> Feature:
    if isinstance(feature, Feature):
        return feature
    try:
        return Feature(feature)
    except ValueError:
        known = ", ".join(member.value for member in Feature)
        label = did_you_mean(feature, [member.value for member in Feature])
        message = f"unknown feature '{feature}', expected one of {known}"
        raise TargetError(message, label=label) from None
