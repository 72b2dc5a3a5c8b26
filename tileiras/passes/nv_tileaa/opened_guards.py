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

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.nv_tileaa.two_tiles import product_loop
from tileiras.planning.strategy import without_strategy


def with_opened_guard(func: aa.FuncOp) -> aa.FuncOp | None:
    """A copy of a kernel with its loop over K outside of the guard, None if it has none."""
    branch = _guard(func.body.block)
    if branch is None:
        return None
    changed = without_strategy(func)
    block = changed.body.block
    branch = _guard(block)
    if branch is None:
        return None
    if _returns(branch):
        branch = _inverted(branch)
    body = branch.then_region.block
    products = product_loop(body)
    if products is None:
        return None
    moved = list(body.ops)[: list(body.ops).index(products)]
    if any(op.regions or not op.has_trait(Pure) for op in moved):
        return None
    for op in (*moved, products):
        op.detach()
        block.insert_op_before(op, branch)
    before = ScalarBuilder()
    before.location = products.location
    bounds = [branch.condition, products.upper_bound, products.lower_bound]
    products.operands[1] = before.emit(aa.SelectOp, bounds, [bounds[1].type]).results[0]
    before.put_before(products)
    return changed


def guard_of(products: aa.ForOp) -> SSAValue | None:
    """The condition without which a loop over K that was opened has no iterations."""
    select = products.upper_bound.owner
    if not isinstance(select, aa.SelectOp):
        return None
    condition, _, otherwise = select.operands
    guards = any(
        isinstance(use.operation, aa.IfOp) and use.operation.parent_op() is products.parent_op()
        for use in condition.uses
    )
    return condition if otherwise is products.lower_bound and guards else None


def is_of_the_first(guard: SSAValue) -> bool:
    """Whether a guard holds for the first so many tile blocks, or rows or columns of them: a number
    of the tile block's is less than one that all have. A triangle or a band of tiles compares, or
    subtracts, two numbers of a tile block.
    """
    compare = guard.owner
    while isinstance(compare, aa.XOrIOp):  # the guard of what returns early
        compare = compare.operands[0].owner
    if not isinstance(compare, aa.CmpIOp) or isinstance(guard.type, TensorType):
        return False
    how = compare.comparison_predicate.data
    if how in (ComparisonPredicate.EQUAL, ComparisonPredicate.NOT_EQUAL):
        return False
    makers = made_from(guard)
    if makers is None:
        return False
    numbers: set[SSAValue] = set()
    for op in makers:
        own = [value in numbers for value in op.operands]
        if (op is compare or isinstance(op, aa.SubIOp)) and all(own):
            return False
        if isinstance(op, aa.GetProgramIdOp) or any(own):
            numbers.update(op.results)
    return guard in numbers


def made_from(value: SSAValue) -> list[Operation] | None:
    """What a condition is made from in its block, in order; None if not by arithmetic alone."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    wanted: dict[Operation, None] = {}
    pending = [value]
    while pending:
        op = pending.pop().owner
        if isinstance(op, Block) or op in wanted or op.parent_block() is not block:
            continue
        if op.regions or not op.has_trait(Pure):
            return None
        wanted[op] = None
        pending += op.operands
    return [op for op in block.ops if op in wanted] if block is not None else []


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
