"""Cuts what follows a product into slices of its result, one after the other.

%s = for .. { dot };  store(f(%s));  store(g(%s))            256 columns
-> store(f(%s[0]));  store(g(%s[0]));  store(f(%s[1]));  store(g(%s[1]))     128 each

A slice is a choice of the registers that hold the sum. What is computed for it, and loaded, is over
before the next one starts. Loads and stores move to the place of the last store; tokens say whether
they may: no access of the slices may be ordered behind another, stores in place aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, UnitAttr, i32
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.analysis.memory_hazards import same_elements
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.passes.nv_tileaa.part_builder import PartBuilder, ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.operands.tma import is_aligned
from tileiras.planning.tiling.product_cut import is_pure, sources_of
from tileiras.planning.tiling.slicing import Cut, cut_type, operand_dims

LOADS = (aa.LoadOp, aa.TiledLoadOp)
STORES = (aa.StoreOp, aa.TiledStoreOp)
Access = aa.LoadOp | aa.TiledLoadOp | aa.StoreOp | aa.TiledStoreOp


@dataclass(frozen=True)
class EpilogueCut:
    """What is done for every slice of some sums, in program order, the stores included."""

    sums: tuple[SSAValue, ...]
    cut: Cut
    dim: int
    ops: tuple[Operation, ...]
    joins: tuple[Operation, ...]
    """Joins of tokens that move behind the slices."""

    @property
    def stores(self) -> list[aa.StoreOp | aa.TiledStoreOp]:
        """The stores."""
        return [op for op in self.ops if isinstance(op, STORES)]

    @property
    def loads(self) -> list[Operation]:
        """The loads."""
        return [op for op in self.ops if isinstance(op, LOADS)]


def find_epilogue_cut(block: Block, parts: int, dim: int) -> EpilogueCut | None:
    """The cut along `dim` of all that is made and stored of the products' sums of a block."""
    sums = [value for op in block.ops for value in op.results if product_of(value) is not None]
    if not sums:
        return None
    flowing = _flowing(sums, block)
    if flowing is None:
        return None
    cut = Cut(block, parts, dict.fromkeys(sums, dim), repeats_loads=True)
    stores = [op for op in block.ops if isinstance(op, STORES) and op in flowing]
    for store in stores:
        at = _stored_dim(store, dim)
        dims = operand_dims(store, at, parts) if at >= 0 else None
        if dims is None:
            return None
        pairs = zip(store.operands, dims, strict=True)
        if not all(cut.needs(value, at) for value, at in pairs if at is not None):
            return None
    inside = {**cut.ops, **dict.fromkeys(stores)}
    if not stores or any(op not in inside for op in flowing):
        return None
    around = [op for op in cut.ops if op.parent_block() is not block]
    ops = [*around, *(op for op in block.ops if op in inside)]
    joins = _movable_joins(ops, stores[-1], block)
    if joins is None or not _is_in_order(ops, cut):
        return None
    return EpilogueCut(tuple(sums), cut, dim, tuple(ops), tuple(joins))


def product_of(value: SSAValue) -> aa.DotOp | None:
    """The product whose sum a matrix is, made by it or by a loop around it."""
    if not isinstance(value, OpResult) or len(shape_of(value)) != 2:
        return None
    if isinstance(value.op, aa.DotOp):
        return value.op
    loop = value.op
    end = loop.body.block.last_op if isinstance(loop, aa.ForOp) else None
    return product_of(end.operands[value.index]) if isinstance(end, aa.ContinueOp) else None


def _flowing(sums: Sequence[SSAValue], block: Block) -> dict[Operation, None] | None:
    """What sums flow into; None if that is more than elementwise operations and stores."""
    found: dict[Operation, None] = {}
    pending = list(sums)
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            is_simple = isinstance(op, (ElementwiseOp, aa.ReshapeOp, *STORES))
            if op.parent_block() is not block or not is_simple:
                return None
            if op not in found:
                found[op] = None
                pending += [r for r in op.results if isinstance(r.type, TensorType)]
    return found


def _stored_dim(store: aa.StoreOp | aa.TiledStoreOp, dim: int) -> int:
    """The dim of what is stored: the matrix may be the last two dims of a tile of higher rank."""
    return len(shape_of(store.value)) - 2 + dim


# order of memory


def _is_in_order(ops: Sequence[Operation], cut: Cut) -> bool:
    """Whether accesses are weak, loads bring something to slices only, and none waits for another.

    A store over just the elements that a slice has loaded may wait for that load.
    """
    accesses = [op for op in ops if isinstance(op, (*LOADS, *STORES))]
    held = dict.fromkeys(ops)
    for op in accesses:
        if op.ordering.data != MemoryOrdering.WEAK:
            return False
        if isinstance(op, LOADS) and any(use.operation not in held for use in op.result.uses):
            return False
        for earlier in _accesses_before(op, accesses):
            if isinstance(op, LOADS) and isinstance(earlier, LOADS):
                continue
            if not (isinstance(earlier, LOADS) and _is_in_place(earlier, op, cut)):
                return False
    return True


def _is_in_place(load: Operation, store: Operation, cut: Cut) -> bool:
    """Whether a store waits for a load of the same elements, with others at most."""
    if not isinstance(load, LOADS) or not isinstance(store, STORES):
        return False
    is_alike = cut.dims.get(load.result) == cut.dims.get(store.value)
    is_direct = store.token is load.result_token or load.result_token in _joined(store.token)
    return is_direct and is_alike and _same_elements(load, store)


def _same_elements(load: Operation, store: Operation) -> bool:
    """Whether two accesses go to the same elements, indices being computed alike at most."""
    if same_elements(load, store):
        return True
    if not isinstance(load, aa.TiledLoadOp) or not isinstance(store, aa.TiledStoreOp):
        return False
    pairs = zip((load.view, *load.indices), (store.view, *store.indices), strict=True)
    known: dict[tuple[SSAValue, SSAValue], bool] = {}
    return all(_is_equal(one, other, known) for one, other in pairs)


def _is_equal(one: SSAValue, other: SSAValue, known: dict[tuple[SSAValue, SSAValue], bool]) -> bool:
    """Whether two values are the same, or made alike of the same by pure operations.

    `known` has the answers so far: operands that are used many times are compared once.
    """
    if one is other:
        return True
    if (one, other) not in known:
        known[one, other] = _are_made_alike(one, other, known)
    return known[one, other]


def _are_made_alike(
    one: SSAValue, other: SSAValue, known: dict[tuple[SSAValue, SSAValue], bool]
) -> bool:
    """Whether pure operations of one kind make two values of equal ones."""
    if not isinstance(one, OpResult) or not isinstance(other, OpResult):
        return False
    first, second = one.op, other.op
    is_alike = type(first) is type(second) and first.properties == second.properties
    if not is_alike or one.index != other.index or one.type != other.type:
        return False
    if first.regions or not is_pure(first) or len(first.operands) != len(second.operands):
        return False
    pairs = zip(first.operands, second.operands, strict=True)
    return all(_is_equal(mine, its, known) for mine, its in pairs)


def _joined(token: SSAValue | None) -> Sequence[SSAValue]:
    """The tokens that a token joins."""
    if isinstance(token, OpResult) and isinstance(token.op, aa.JoinMemTokensOp):
        return tuple(token.op.operands)
    return ()


def _accesses_before(op: Access, accesses: Sequence[Operation]) -> list[Operation]:
    """The accesses of its iteration that the token of an operation comes after."""
    found: dict[Operation, None] = {}
    pending = [] if op.token is None else [op.token]
    seen: dict[SSAValue, None] = {}
    while pending:
        value = pending.pop()
        if value in seen or not isinstance(value.type, MemTokenType):
            continue
        if value.owner is op.parent_block():
            continue
        seen[value] = None
        if isinstance(value, OpResult) and value.op in accesses:
            found[value.op] = None
        pending += sources_of(value)
    return list(found)


def _movable_joins(
    ops: Sequence[Operation], last: Operation, block: Block
) -> list[Operation] | None:
    """The joins before the last store that use tokens of the slices; None if anything else does."""
    place = {op: number for number, op in enumerate(block.ops)}
    inside = dict.fromkeys(ops)
    first = min(place[op] for op in ops if op in place and isinstance(op, (*LOADS, *STORES)))
    between = [op for op in block.ops if first <= place[op] < place[last] and op not in inside]
    if any(op.regions for op in between):
        return None
    joins: list[Operation] = []
    tokens = {r for op in ops for r in op.results if isinstance(r.type, MemTokenType)}
    for op in between:
        if not any(operand in tokens for operand in op.operands):
            continue
        if not isinstance(op, aa.JoinMemTokensOp):
            return None
        joins.append(op)
        tokens.add(op.result)
    if any(
        value.owner in joins and not _is_for_store(value, op) for op in ops for value in op.operands
    ):
        return None
    return joins


def _is_for_store(token: SSAValue, op: Operation) -> bool:
    """Whether an operation is a store that waits for a token made in place for every slice."""
    return isinstance(op, STORES) and op.token is token


# the slices


def build_epilogue_slices(found: EpilogueCut) -> None:
    """Puts the slices in place of the last store."""
    block, last = found.cut.block, found.stores[-1]
    tokens = [
        result
        for op in (*found.loads, *found.stores)
        for result in op.results
        if isinstance(result.type, MemTokenType)
    ]
    slices = Block()
    ends: dict[SSAValue, list[SSAValue]] = {token: [] for token in tokens}
    for number in range(found.cut.parts):
        builder = _slice_builder(found, slices, number)
        for op in found.ops:
            if isinstance(op, STORES):
                dim = _stored_dim(op, found.dim)
                each = [builder.part_of(value, None) for value in _joined(op.token)]
                if op.token is not None and op.token.owner in found.joins:
                    joined = builder.emit(aa.JoinMemTokensOp, each, [MEM_TOKEN])
                    builder.values[op.token] = joined.results[0]
            else:
                dim = next(found.cut.dims[r] for r in op.results if r in found.cut.dims)
            built = builder.add(op, dim)
            if isinstance(built, aa.TiledLoadOp | aa.TiledStoreOp) and not _is_wide(built):
                built.properties["is_apart"] = UnitAttr()
        for token in tokens:
            ends[token].append(builder.values[token])
    after = ScalarBuilder()
    after.block, after.location = slices, last.location
    for token, each in ends.items():
        users = [use for use in token.uses if use.operation not in found.ops]
        if users:
            whole = after.emit(aa.JoinMemTokensOp, each, [MEM_TOKEN]).results[0]
            for use in users:
                use.operation.operands[use.index] = whole
    for op in [*slices.ops, *found.joins]:
        op.detach()
        block.insert_op_before(op, last)
    order = {op: number for number, op in enumerate(block.ops)}
    replaced = [*found.ops, *found.joins]
    for op in sorted(replaced, key=lambda op: order.get(op, -1), reverse=True):
        used = any(True for result in op.results for _ in result.uses)
        if not used:
            erase_op(op)


def _is_wide(access: aa.TiledLoadOp | aa.TiledStoreOp) -> bool:
    """Whether threads access whole vectors: many small accesses have many addresses."""
    return is_aligned(view_type_of(access.view), memref_of(access.view))


def _slice_builder(found: EpilogueCut, block: Block, number: int) -> PartBuilder:
    """A builder for one slice, whose sums are there."""
    builder = PartBuilder(found.cut.parts, block, found.sums[0])
    builder.location = found.stores[-1].location
    builder.part = builder.integer(number, i32)
    zero = builder.integer(0, i32)
    for value in found.sums:
        indices = [builder.part if at == found.dim else zero for at in (0, 1)]
        types = [cut_type(value.type, found.dim, found.cut.parts)]
        part = builder.emit(aa.ExtractOp, [value, *indices], types)
        builder.cut_values[value, found.dim] = part.results[0]
    return builder
