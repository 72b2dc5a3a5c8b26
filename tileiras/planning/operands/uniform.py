"""Loads of a stage that may turn out, while the kernel runs, to bring the same tile.

Two tiles that a kernel with two tiles per CTA computes at once mostly share an operand; which,
their indices say:

    %a = load %A[%i, %k];  %b = load %A[%j, %k]      the same tile if %i = %j

Both warp roles compare such indices before the loop. Where all are equal the producer copies the
first tile only, and products read it in place of the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.operands.tma import (
    OperandLoad,
    is_by_tma,
    place_bytes,
    shared_operand,
    tile_uses,
)

if TYPE_CHECKING:
    from tileiras.planning.model.pipelines import Pipeline

DIFFERS = "differs"
"""On a load of a second tile: it is known to bring another tile than that of the first."""


def may_be_uniform(first: OperandLoad, second: OperandLoad) -> bool:
    """Whether two loads of a two-tile kernel's loop bring the same tile in all iterations or none.

    They read tiles of one kind from one tensor, and indices that differ are made before the loop.
    Products read both tiles in the same ways.
    """
    if not is_by_tma(first) or not is_by_tma(second):
        return False
    block = first.parent_block()
    if first is second or block is None or second.parent_block() is not block:
        return False
    if DIFFERS in second.attributes:
        return False
    func = enclosing(first, aa.FuncOp)
    if not isinstance(func, aa.FuncOp) or func.two_tiles is None:
        return False
    if not isinstance(first.parent_op(), aa.ForOp):
        return False
    if view_type_of(first.view) != view_type_of(second.view):
        return False
    if memref_of(first.view) is not memref_of(second.view):
        return False
    differing = differing_indices(first, second)
    if not differing or _ways(first) != _ways(second):
        return False
    return all(
        one.type == other.type and not _is_made_in(one, block) and not _is_made_in(other, block)
        for one, other in differing
    )


def differing_indices(
    first: aa.TiledLoadOp, second: aa.TiledLoadOp
) -> list[tuple[SSAValue, SSAValue]]:
    """The indices of two loads that are not the same value."""
    pairs = zip(first.indices, second.indices, strict=True)
    return [(one, other) for one, other in pairs if one is not other]


def _is_made_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of the block or made in it (or deeper, which none sees)."""
    owner = value.owner
    return (owner.parent_block() if isinstance(owner, Operation) else owner) is block


def uniform_loads(content: Sequence[OperandLoad]) -> dict[OperandLoad, OperandLoad]:
    """Loads of a stage that may turn out to be an earlier one of it, with that one.

    None where two products read a load in common already: neighbours share one operand, not all.
    """
    if any(len(products_of(load)) > 1 for load in content):
        return {}
    found: dict[OperandLoad, OperandLoad] = {}
    for position, load in enumerate(content):
        for earlier in content[:position]:
            if earlier not in found and may_be_uniform(earlier, load):
                found[load] = earlier
                break
    return found


def uniform_loads_of(pipelines: Iterable[Pipeline]) -> dict[OperandLoad, OperandLoad]:
    """Those of all stages of some pipelines."""
    contents = (content for pipeline in pipelines for content in pipeline.contents)
    return {load: to for content in contents for load, to in uniform_loads(content).items()}


def condition_of(load: OperandLoad) -> SSAValue | None:
    """The condition (i1) of all products that read a loaded tile; None if one has none."""
    products = products_of(load)
    conditions = {op.condition for op in products if isinstance(op, aa.ProductOp)}
    return conditions.pop() if len(conditions) == 1 else None


def products_of(load: OperandLoad) -> dict[Operation, None]:
    """The products that read a loaded tile."""
    return {use.operation: None for use in _reads(load)}


def _reads(load: OperandLoad) -> list[Use]:
    """The products' operands that are a loaded tile."""
    return [use for use in tile_uses(load) if isinstance(use.operation, aa.ProductOp)]


def _ways(load: OperandLoad) -> set[tuple[int, int | None, Attribute]]:
    """As which operands products read a loaded tile, as tiles of which kind."""
    ways: set[tuple[int, int | None, Attribute]] = set()
    for use in _reads(load):
        value = use.operation.operands[use.index]
        operand = shared_operand(value)
        ways.add((use.index, None if operand is None else operand.major_axis, value.type))
    return ways


def skipped_bytes(pipeline: Pipeline) -> int:
    """Bytes of a stage that mostly need not come: neighbours share one operand, not all."""
    coming = 0
    for content in pipeline.contents:
        skipped = max(map(place_bytes, uniform_loads(content)), default=0)
        coming = max(coming, sum(map(place_bytes, content)) - skipped)
    return pipeline.bytes - coming
