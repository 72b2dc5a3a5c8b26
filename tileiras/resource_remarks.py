"""What remarks tell of a kernel once ptxas has made it: registers, spills, memory, occupancy."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.codegen.occupancy import Occupancy, occupancy
from tileiras.codegen.ptxas_log import KernelResources
from tileiras.codegen.target import GpuTarget
from tileiras.launch_info import KernelLaunch
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind, counted

PASS_NAME = "ptxas"

CHANGES = {
    "registers": "smaller tiles, or more warps for the same tile (hint num_worker_warps)",
    "shared memory": "smaller tiles, or fewer stages",
    "warps": "nothing: the SM is full",
    "CTAs of an SM": "larger tiles: the SM holds no more CTAs, however small",
    "tensor memory": "narrower tiles: sums take fewer columns of tensor memory",
}
"""What an author would do about each resource."""


def explain_resources(
    remarks: RemarkCollector,
    kernels: Iterable[KernelLaunch],
    resources: Iterable[KernelResources],
    target: GpuTarget,
) -> None:
    """A remark about the resources of each kernel; one more if registers were spilled."""
    launches = {kernel.name: kernel for kernel in kernels}
    for used in resources:
        _report_spills(remarks, used)
        if (launch := launches.get(used.name)) is not None:
            _report_resources(remarks, used, launch, target)


def _report_resources(
    remarks: RemarkCollector, used: KernelResources, launch: KernelLaunch, target: GpuTarget
) -> None:
    facts = remarks.facts.get(used.name, {})
    columns, stages = int(facts.get("tensor_memory_columns", 0)), int(facts.get("stages", 0))
    threads = launch.threads_per_block
    found = occupancy(target, threads, used.registers, used.shared, columns)
    spilled = used.spill_stores + used.spill_loads
    memory = f"{used.shared} bytes of shared memory"
    if stages:
        memory += f" ({counted(stages, 'stage')})"
    if columns:
        memory += f", {columns} columns of tensor memory"
    message = (
        f"{threads} threads of {used.registers} registers, {memory}, {spilled} bytes spilled: "
        f"{counted(found.ctas, 'CTA')} per SM, {found.warps} of {found.most} warps "
        f"({found.percent} %), limited by {found.limit}"
    )
    numbers: dict[str, object] = {
        "Registers": used.registers,
        "SpilledBytes": spilled,
        "SharedMemory": used.shared,
        "Stages": stages,
        "Threads": threads,
        "CTAsPerSM": found.ctas,
        "Occupancy": found.percent,
        "Limit": found.limit,
        "Allowed": _allowed(found),
        "Change": CHANGES[found.limit],
    }
    arguments = tuple((key, str(value)) for key, value in numbers.items())
    remarks.add(
        Remark(
            RemarkCategory.SCHEDULE,
            RemarkKind.ANALYSIS,
            PASS_NAME,
            "Resources",
            message,
            used.name,
            None,
            arguments,
        )
    )


def _allowed(found: Occupancy) -> str:
    """How many CTAs each resource would allow."""
    return ", ".join(f"{resource} {ctas}" for resource, ctas in found.allowed)


def _report_spills(remarks: RemarkCollector, used: KernelResources) -> None:
    """A remark for a kernel whose values did not fit into registers."""
    size = used.spill_stores + used.spill_loads
    if not size:
        return
    facts = remarks.facts.get(used.name, {})
    message = f"{size} bytes of registers spilled to local memory: smaller tiles are faster"
    arguments = [("Bytes", str(size))]
    if "tile" in facts:
        tile, registers = str(facts["tile"]), str(facts["tile_registers"])
        message += f"; the largest tile, {tile}, takes {registers} registers of a thread"
        arguments += [("Tile", tile), ("TileRegisters", registers)]
    remarks.add(
        Remark(
            RemarkCategory.MEMORY,
            RemarkKind.MISSED,
            PASS_NAME,
            "RegisterSpills",
            message,
            used.name,
            None,
            tuple(arguments),
        )
    )
