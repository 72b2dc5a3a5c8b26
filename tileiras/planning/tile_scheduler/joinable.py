"""Which kernels' tile blocks may do each other's work, and which gain by doing more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.planning.tiling.product_region import STORES

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot
    from tileiras.planning.model.kernel import RolePlan

TILES = 2
"""Fixed: how many are computed at once."""
LARGE_TILE = 128 * 256
"""Policy: elements of a tile whose CTA leaves no room for another one on an SM."""


def product_loop(block: Block) -> aa.ForOp | None:
    """The only loop with products in a block, which has no other products."""
    found = [op for op in block.ops if any(isinstance(i, aa.ProductOp) for i in op.walk())]
    if len(found) != 1 or not isinstance(found[0], aa.ForOp):
        return None
    inner = found[0]
    products = [op for op in inner.walk() if isinstance(op, aa.ProductOp)]
    return inner if all(op.parent_op() is inner for op in products) else None


def is_same_for_both(op: Operation) -> bool:
    """Whether an operation does the same for both tiles if its operands are the same."""
    if isinstance(op, aa.TiledLoadOp | aa.LoadOp):
        return op.ordering.data == MemoryOrdering.WEAK
    return op.has_trait(Pure) and not op.regions


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


def may_loop_over_tiles(
    func: aa.FuncOp, *, may_have_several: bool = False, may_be_guarded: bool = False
) -> bool:
    """Whether a kernel of one tile a block has the form of one that loops over tiles: a loop over
    K, the numbers of the tile block in front of it, and one end.

    It may have several loops with products, one after another, or under a condition, only if that
    is said.
    """
    operations = list(func.walk())
    loops = [op for op in operations if isinstance(op, aa.ForOp | aa.LoopOp)]
    numbers = [op for op in operations if isinstance(op, aa.GetProgramIdOp)]
    if may_have_several:
        if not loops or not all(_multiplies_in(op, func, may_be_guarded) for op in loops):
            return False
    elif loops != [product_loop(func.body.block)]:
        return False
    if not numbers or any(op.parent_op() is not func for op in numbers):
        return False
    return sum(isinstance(op, aa.ReturnOp) for op in operations) == 1


def _multiplies_in(loop: Operation, func: aa.FuncOp, may_be_guarded: bool) -> bool:
    """Whether a loop stands in the body of a kernel, and has products in its own."""
    around = loop.parent_op()
    while may_be_guarded and isinstance(around, aa.IfOp):
        around = around.parent_op()
    if not isinstance(loop, aa.ForOp) or around is not func:
        return False
    return any(isinstance(op, aa.ProductOp) for op in loop.body.block.ops)


def varying_operations(func: aa.FuncOp) -> dict[Operation, None]:
    """What a kernel of one tile a block does for each tile: all that depends on its numbers, and
    whatever is no pure computation.
    """
    found: dict[Operation, None] = {}
    for op in func.body.block.ops:
        makers = (value.owner for inner in op.walk() for value in inner.operands)
        is_number = isinstance(op, aa.GetProgramIdOp)
        if is_number or op.regions or not op.has_trait(Pure) or any(o in found for o in makers):
            found[op] = None
    return found
