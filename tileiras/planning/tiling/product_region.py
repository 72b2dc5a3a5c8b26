"""What moves into the loop over the parts of a product, and whether memory order allows it.

Operations that hold anything cut move to the place of the last of them. Tokens say what that may
change: an access keeps its place behind what its token names, since tokens are values that have
to be there; but part 1 of an access now follows part 0 of everything else in the loop. So no
access of the loop may be ordered behind another one, except where one of them only writes: a store
of just the elements that its own part has loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.analysis.memory_hazards import same_elements
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.types import MemTokenType, shape_of
from tileiras.planning.tiling.combining import can_combine
from tileiras.planning.tiling.product_cut import (
    STRUCTURED,
    TERMINATORS,
    CannotCutError,
    ProductCut,
    Seed,
    is_pure,
    sources_of,
    target_of,
    top_of,
)

LOADS = (aa.LoadOp, aa.TiledLoadOp)
STORES = (aa.StoreOp, aa.TiledStoreOp)
_TOKENS = (aa.CreateMemTokenOp, aa.JoinMemTokensOp)
Load = aa.LoadOp | aa.TiledLoadOp
Store = aa.StoreOp | aa.TiledStoreOp


@dataclass(frozen=True)
class ProductRegion:
    """What the loop over the parts holds, in program order.

    `moved`: operations of the block that are in the loop only; the others of `ops` are pure and
    stay where somebody else uses them. `sunk`: what goes behind the loop; `leaving`: tokens that
    something there waits for.
    """

    cut: ProductCut
    ops: tuple[Operation, ...]
    moved: tuple[Operation, ...]
    sunk: tuple[Operation, ...]
    leaving: tuple[SSAValue, ...]

    @property
    def last(self) -> Operation:
        """The operation in whose place the loop stands."""
        return self.moved[-1]


def find_region(value: SSAValue, dim: int, parts: int) -> ProductRegion | None:
    """The region of the cut of a value, in the innermost block in which it is possible."""
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    while block is not None:
        region = _try([(value, dim)], block, parts)
        if region is not None:
            return region
        parent = block.parent_op()
        block = None if parent is None or isinstance(parent, aa.FuncOp) else parent.parent_block()
    return None


def _try(seeds: list[Seed], block: Block, parts: int) -> ProductRegion | None:
    """The region of a cut of one block; what must be cut beside the seeds becomes one."""
    cut = ProductCut(block, parts, can_combine)
    try:
        cut.cut(seeds)
        uncut = _uncut(cut)
        if uncut is None:
            return region_of(cut)
    except CannotCutError:
        return None
    dims = sorted(range(len(shape_of(uncut))), key=lambda dim: dim != seeds[0][1])
    for dim in dims:
        region = _try([*seeds, (uncut, dim)], block, parts)
        if region is not None:
            return region
    return None


def _uncut(cut: ProductCut) -> SSAValue | None:
    """A product that all parts would compute, or a result of a loop that something else needs."""
    for op in cut.block.ops:
        if not isinstance(op, STRUCTURED) or not cut.has_cut(op):
            continue
        for inner in op.walk():
            if isinstance(inner, aa.ProductOp) and inner.result not in cut.dims:
                return inner.result
        for result in op.results:
            if isinstance(result.type, TensorType) and result not in cut.dims and result.uses:
                return result
    return None


def region_of(cut: ProductCut) -> ProductRegion:
    """The operations that a cut takes into the loop; raises CannotCutError."""
    held = [op for op in cut.block.ops if cut.has_cut(op)]
    moved = [op for op in held if not is_pure(op) or _flows(op, cut)]
    if not moved:
        raise CannotCutError("nothing is moved")
    _check_content(moved, cut)
    sunk = _between(moved, cut)
    leaving = _leaving(moved, _vanishing(held, moved, cut), cut)
    _check_order(moved, cut)
    inside = dict.fromkeys([*held, *moved])
    ops = [*_around(cut), *(op for op in cut.block.ops if op in inside)]
    return ProductRegion(cut, tuple(ops), tuple(moved), tuple(sunk), tuple(leaving))


def _around(cut: ProductCut) -> list[Operation]:
    """Pure operations from around the block that are made anew, in program order."""
    found = dict.fromkeys(
        value.op
        for value in cut.dims
        if isinstance(value, OpResult) and top_of(value.op, cut.block) is None
    )
    func: Operation | None = cut.block.parent_op() if found else None
    while func is not None and not isinstance(func, aa.FuncOp):
        func = func.parent_op()
    return [] if func is None else [op for op in func.walk() if op in found]


def _flows(op: Operation, cut: ProductCut) -> bool:
    return op in cut.sinks or any(result in cut.flowing for result in op.results)


def _vanishing(
    held: list[Operation], moved: list[Operation], cut: ProductCut
) -> dict[Operation, None]:
    """The operations of the block that nobody uses once the loop stands."""
    found = dict.fromkeys(moved)
    for op in reversed(held):
        users = [top_of(use.operation, cut.block) for r in op.results for use in r.uses]
        if all(user in found for user in users):
            found[op] = None
    return found


# content


def _check_content(moved: list[Operation], cut: ProductCut) -> None:
    """All parts may run what moves: no product that is not cut, no other effect, no way out."""
    for op in moved:
        if _may_leave(op, cut):
            raise CannotCutError("a way out of the loop")
        for inner in op.walk():
            match inner:
                case aa.DotOp() | aa.DotScaledOp() if inner.result not in cut.dims:
                    raise CannotCutError("a product that all parts would compute")
                case aa.LoadOp() | aa.TiledLoadOp():
                    if not _is_weak(inner):
                        raise CannotCutError("a load in stronger than weak order")
                case aa.StoreOp() | aa.TiledStoreOp():
                    if inner not in cut.sinks or not _is_weak(inner):
                        raise CannotCutError("a store that is not cut, or not weak")
                case _:
                    known = isinstance(inner, (*STRUCTURED, *TERMINATORS, *_TOKENS))
                    if not known and not is_pure(inner):
                        raise CannotCutError(f"'{inner.name}' in the loop")


def has_no_effect(op: Operation) -> bool:
    """Whether an operation may as well happen in several CTAs: no product, no store."""
    known = isinstance(op, (aa.FuncOp, aa.ReturnOp, *STRUCTURED, *TERMINATORS, *_TOKENS))
    is_load = isinstance(op, LOADS) and _is_weak(op)
    return known or is_load or (is_pure(op) and not isinstance(op, aa.ProductOp))


def _may_leave(op: Operation, cut: ProductCut) -> bool:
    """Whether what follows an operation of the block may be skipped from within it."""
    for inner in op.walk():
        if isinstance(inner, aa.ReturnOp):
            return True
        ends_loop = isinstance(inner, aa.ContinueOp | aa.BreakOp)
        if ends_loop and top_of(target_of(inner), cut.block) is not op:
            return True
    return False


def _is_weak(op: Operation) -> bool:
    """Whether an operation is a load or store without effect on the order of others."""
    return isinstance(op, LOADS + STORES) and op.ordering.data == MemoryOrdering.WEAK


def _between(moved: list[Operation], cut: ProductCut) -> list[Operation]:
    """Takes joins in that stand between moved operations; returns what goes behind the loop.

    That is what uses results of the loop and stood before its end. Tokens being values, nothing
    is overtaken that it would have to wait for.
    """
    block_ops = list(cut.block.ops)
    place = {op: number for number, op in enumerate(block_ops)}
    first, last = place[moved[0]], place[moved[-1]]
    inside = {op: None for op in block_ops if op in moved or cut.has_cut(op)}
    if any(_may_leave(op, cut) for op in block_ops[first:last] if op not in inside):
        raise CannotCutError("what moves would come behind a way out")
    dependent: dict[Operation, None] = {}
    for op in block_ops[: last + 1]:
        if op not in inside and _uses_any(op, {**dict.fromkeys(moved), **dependent}):
            dependent[op] = None
    sunk: list[Operation] = []
    for op in reversed(list(dependent)):
        users = [top_of(use.operation, cut.block) for result in op.results for use in result.uses]
        if any(user in inside for user in users):
            if not isinstance(op, aa.JoinMemTokensOp):
                raise CannotCutError(f"'{op.name}' between what moves")
            inside[op] = None
            moved.append(op)
        else:
            if not is_pure(op) and not _is_weak(op):
                raise CannotCutError(f"'{op.name}' would move behind the loop")
            sunk.insert(0, op)
    moved.sort(key=place.__getitem__)
    return sunk


def _uses_any(op: Operation, makers: dict[Operation, None]) -> bool:
    """Whether an operation, or one in it, uses what others of the block make."""
    for inner in op.walk():
        for operand in inner.operands:
            if isinstance(operand, OpResult) and operand.op in makers:
                return True
    return False


def _leaving(
    moved: list[Operation], vanishing: dict[Operation, None], cut: ProductCut
) -> list[SSAValue]:
    """The tokens used behind the loop; other values may not be, results of reductions aside."""
    held = dict.fromkeys(moved)
    leaving: list[SSAValue] = []
    for op in moved:
        for result in op.results:
            users = [top_of(use.operation, cut.block) for use in result.uses]
            if isinstance(op, aa.ReduceOp) and op in cut.sinks:
                if any(user in vanishing for user in users):
                    raise CannotCutError("a reduction along the cut, needed within a part")
            elif isinstance(result.type, MemTokenType):
                if any(user not in held for user in users):
                    leaving.append(result)
            elif any(user not in vanishing for user in users):
                raise CannotCutError(f"a result of '{op.name}' needed behind the loop")
    return leaving


# order of memory


def _check_order(moved: list[Operation], cut: ProductCut) -> None:
    """No access of the loop may be ordered behind another, but for stores in place."""
    accesses = [op for top in moved for op in top.walk() if isinstance(op, LOADS + STORES)]
    if not any(isinstance(op, STORES) for op in accesses):
        return
    held: dict[Operation, None] = dict.fromkeys(accesses)
    for op in accesses:
        if not isinstance(op, LOADS + STORES) or op.token is None:
            continue
        for earlier in _accesses_before(op.token, held, cut):
            if isinstance(op, LOADS) and isinstance(earlier, LOADS):
                continue
            if not _in_place(earlier, op, cut):
                raise CannotCutError(f"'{op.name}' is ordered behind '{earlier.name}'")


def _in_place(earlier: Operation, op: Operation, cut: ProductCut) -> bool:
    """Whether each part of a store overwrites just what its own part of a load has read."""
    if not isinstance(earlier, LOADS) or not isinstance(op, STORES):
        return False
    if earlier.parent_block() is not cut.block or not same_elements(earlier, op):
        return False
    is_cut_alike = cut.dims.get(earlier.result) == [cut.sinks[op]]
    return is_cut_alike and not cut.is_used_whole(earlier)


def _accesses_before(
    token: SSAValue, held: dict[Operation, None], cut: ProductCut
) -> list[Operation]:
    """The accesses among `held` that a token follows."""
    found: dict[Operation, None] = {}
    pending, seen = [token], {token: None}
    while pending:
        value = pending.pop()
        maker = value.block.parent_op() if isinstance(value, BlockArgument) else value.owner
        if not isinstance(maker, Operation) or top_of(maker, cut.block) is None:
            continue
        if maker in held:
            found[maker] = None
        for source in sources_of(value):
            if isinstance(source.type, MemTokenType) and source not in seen:
                seen[source] = None
                pending.append(source)
    return list(found)
