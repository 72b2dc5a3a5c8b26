"""Which kernels' tile blocks may do each other's work, and which gain by doing more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.planning.tiling.product_region import STORES

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot
    from tileiras.planning.model.kernel import RolePlan

LARGE_TILE = 128 * 256
"""Policy: elements of a tile whose CTA leaves no room for another one on an SM."""


def is_repeatable(op: Operation) -> bool:
    """Whether an operation may run once more for a tile block that does not exist."""
    if isinstance(op, STORES):
        return op.ordering.data == MemoryOrdering.WEAK
    effects = (aa.AllocaOp, aa.PrintOp, aa.AssertOp, aa.GridDependencyOp)
    return not isinstance(op, effects)


def carries(loop: Operation) -> bool:
    """Whether iterations of a loop hand on anything but tokens."""
    return not all(isinstance(result.type, MemTokenType) for result in loop.results)


def is_large_and_plain(plan: RolePlan) -> bool:
    """Whether a kernel has one product, of a large tile, no operand of which threads transpose."""
    if len(plan.dots) != 1 or plan.warpgroups == 1:
        return False
    [planned] = plan.dots.values()
    return planned.rows * planned.columns >= LARGE_TILE and is_plain(planned)


def is_plain(planned: PlannedDot) -> bool:
    """Whether no operand of a product comes from registers or is transposed, nor the product, but
    where threads read its right operand.
    """
    if planned.lhs is None:
        return False
    return planned.fragments == "rhs" or (planned.fragments is None and not planned.transposed)
