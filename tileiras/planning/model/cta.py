"""How a kernel is computed: by how many warps, all alike or specialised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileiras.codegen.target import GpuTarget

if TYPE_CHECKING:  # other kernels than those with products need none
    from tileiras.planning.model.kernel import RolePlan


@dataclass(frozen=True)
class CtaPlan:
    """What is decided for a whole kernel: warps of a tile block, and the target."""

    num_warps: int
    target: GpuTarget
    roles: RolePlan | None = None
    """How the kernel is specialised, None for a kernel whose warps all do the same."""
