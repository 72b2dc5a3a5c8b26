"""What each role of a specialised kernel's warps does."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from tileiras.dialects.nv_tileas.assigned import AccessAttr
from tileiras.dialects.nv_tileas.warp_roles import PRODUCER
from tileiras.planning.clusters import Multicast
from tileiras.planning.mma.tcgen05 import Accumulator
from tileiras.planning.operands.tma import OperandLoad
from tileiras.planning.schedule.prologue import PrologueFill
from tileiras.planning.warp_roles.producer_layouts import ProducerLayouts
from tileiras.planning.warp_roles.producer_slice import ProducerSlice


@dataclass(frozen=True)
class RoleProgram:
    """What a role other than the consumers' runs of a kernel, and how its threads hold tensors."""

    kept: ProducerSlice
    layouts: ProducerLayouts
    accesses: dict[Operation, AccessAttr] = field(default_factory=dict[Operation, AccessAttr])
    """How loads of tensors for the role itself are done; others load element by element."""


@dataclass(frozen=True)
class WarpRoles:
    """The programs of all roles. Consumers run all that is not in `elsewhere`."""

    programs: dict[str, RoleProgram]
    """By role: the producer's, and where there are such warps that of stores and of products."""
    multicast: Multicast
    fills: tuple[PrologueFill, ...]
    uniform: dict[OperandLoad, OperandLoad]
    """Loads that may bring the tile of an earlier one of their stage."""
    exit: tuple[Operation, ...]
    """What all warps run before they have roles: a branch that ends the kernel, its condition."""
    elsewhere: dict[Operation, None]
    """What consumers do not run: what products read through, the exit, products of another role,
    and loops in which there is nothing else.
    """
    tile_order: tuple[int, int, int] | None
    """Which tile block a CTA computes, where that is not the one of its number."""
    keeps_maps: bool = False
    """Whether CTAs look for tensor maps that earlier ones have made."""
    late_start: tuple[Operation, Operation] | None = None
    """The product that warpgroups but the first issue late, and what the first has come to then."""
    pending: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """Products behind which so many may be unfinished."""
    releases: dict[Operation, tuple[int, ...]] = field(
        default_factory=dict[Operation, tuple[int, ...]]
    )
    """The pipelines that get a stage back behind an operation."""
    accumulators: dict[Operation, tuple[Accumulator, ...]] = field(
        default_factory=dict[Operation, tuple[Accumulator, ...]]
    )
    """The sums that are acquired before an operation and committed behind it."""
    ahead: dict[Operation, None] = field(default_factory=dict[Operation, None])
    """The products that are issued an iteration ahead."""

    @property
    def producer(self) -> RoleProgram:
        """The program of the warps that copy."""
        return self.programs[PRODUCER]
