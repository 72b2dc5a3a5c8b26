"""A kernel whose whole work is under a condition, as one whose loop over K may be empty.

    if %c {                                    views
      views                                    %end = select %c, %upper, %lower
      %s = for [%lower, %upper) { dot }   ->   %s = for [%lower, %end) { dot }
      store %s                                 if %c { store %s }
    }

So does a kernel that returns early, where %c does not hold. Tile blocks beyond the last tile are
guarded so: those of a grid that is rounded up, or as large as it may have to be. What joins tiles
and makes kernels persistent looks for the loop in the kernel's body, and gives each tile its own
condition.
"""

from __future__ import annotations

from itertools import takewhile

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, Region
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.tile_scheduler.joinable import product_loop


def with_opened_guard(func: aa.FuncOp) -> aa.FuncOp | None:
    """A copy of a kernel with its loop over K outside of the guard, None if it has none.

    The plan of the kernel stands on it: of the products nothing is changed that a plan looks at.
    """
    branch = _guard(func.body.block)
    if branch is None or any(op.regions or not op.has_trait(Pure) for op in _before(branch)):
        return None
    changed = func.clone()
    block = changed.body.block
    branch = _guard(block)
    if branch is None:
        raise InternalError("a copy has another guard", where="tiles-per-cta")
    if _returns(branch):
        branch = _inverted(branch)
    moved, products = _before(branch), product_loop(branch.then_region.block)
    if products is None:
        raise InternalError("a guard has no products", where="tiles-per-cta")
    for op in (*moved, products):
        op.detach()
        block.insert_op_before(op, branch)
    before = ScalarBuilder()
    before.location = products.location
    bounds = [branch.condition, products.upper_bound, products.lower_bound]
    products.operands[1] = before.emit(aa.SelectOp, bounds, [bounds[1].type]).results[0]
    before.put_before(products)
    return changed


def without_early_return(func: aa.FuncOp) -> aa.FuncOp:
    """A copy of a kernel in which what follows an early return is under the opposite condition; the
    kernel itself if it has none.
    """
    if not any(map(_is_early_return, func.body.block.ops)):
        return func
    changed = func.clone()
    block: Block | None = changed.body.block
    while block is not None:
        found = next((op for op in block.ops if _is_early_return(op)), None)
        block = _inverted(found).then_region.first_block if isinstance(found, aa.IfOp) else None
    return changed


def _is_early_return(op: Operation) -> bool:
    return isinstance(op, aa.IfOp) and _returns(op)


def _guard(block: Block) -> aa.IfOp | None:
    """The branch that all products are under, or that returns before them; nothing else has an
    effect.
    """
    for op in block.ops:
        if isinstance(op, aa.IfOp):
            rest = _behind(op)
            if _returns(op):
                return op if product_loop(block) in rest else None
            has_products = product_loop(op.then_region.block) is not None
            is_all = _is_empty(op.else_region) and all(map(_has_no_effect, rest[:-1]))
            return op if has_products and is_all and not op.results else None
        if op.regions or not _has_no_effect(op):
            return None
    return None


def _before(branch: aa.IfOp) -> list[Operation]:
    """What is under a guard in front of the loop over K."""
    work = _behind(branch) if _returns(branch) else list(branch.then_region.block.ops)
    return list(takewhile(lambda op: not _has_products(op), work))


def _has_products(op: Operation) -> bool:
    return any(isinstance(inner, aa.ProductOp) for inner in op.walk())


def _behind(op: Operation) -> list[Operation]:
    found: list[Operation] = []
    following = op.next_op
    while following is not None:
        found.append(following)
        following = following.next_op
    return found


def _has_no_effect(op: Operation) -> bool:
    return op.has_trait(Pure) or isinstance(
        op, aa.GetProgramIdOp | aa.GetNumProgramsOp | aa.TiledLoadOp | aa.LoadOp
    )


def _is_empty(region: Region) -> bool:
    block = region.first_block
    return block is None or isinstance(block.first_op, aa.YieldOp)


def _returns(branch: aa.IfOp) -> bool:
    """Whether all that a branch does is to end the kernel."""
    then = branch.then_region.first_block
    returns = then is not None and isinstance(then.first_op, aa.ReturnOp)
    return returns and _is_empty(branch.else_region) and not branch.results


def _inverted(branch: aa.IfOp) -> aa.IfOp:
    """What follows a return that is under a condition, under the opposite one."""
    block = branch.parent_block()
    rest = _behind(branch)[:-1]
    builder = ScalarBuilder()
    builder.location = branch.location
    true = builder.integer(1, i1)
    opposite = builder.emit(aa.XOrIOp, [branch.condition, true], [i1]).results[0]
    then = Block()
    for op in rest:
        op.detach()
        then.add_op(op)
    builder.only_if(opposite, then)
    guard = builder.block.last_op
    builder.put_before(branch)
    branch.detach()
    branch.erase()
    if not isinstance(guard, aa.IfOp) or block is None:
        raise InternalError("a guard was not made", where="tiles-per-cta")
    return guard
