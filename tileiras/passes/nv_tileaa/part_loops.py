"""Replaces a store or a reduction of a large tile by a loop over its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from tileiras.analysis.memory_hazards import same_elements
from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.types import MemTokenType, element_of, shape_of
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa.part_builder import PartBuilder, ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.tiling.combining import can_combine
from tileiras.planning.tiling.slicing import Cut, divides

Sink = aa.TiledStoreOp | aa.StoreOp | aa.ReduceOp


@dataclass(frozen=True)
class Limits:
    """Tiles of more than `whole` words are split into parts of at most `part` words.

    What is made of a scan counts `scanned` times before that.
    """

    whole: int
    part: int
    scanned: int = 1


def split_block(block: Block, limits: Limits) -> bool:
    """Splits stores, which may take reductions along other dims with them, then reductions, twice:
    a store may have waited for a reduction. Returns whether there was anything to split.
    """
    has_split = False
    for _ in range(2):
        for op in list(block.ops):
            if isinstance(op, aa.TiledStoreOp | aa.StoreOp):
                has_split |= _split_sink(op, op.value, limits)
        for op in list(block.ops):
            if isinstance(op, aa.ReduceOp):
                has_split |= _split_sink(op, op.arguments[0], limits)
    return has_split


def _split_sink(sink: Sink, value: SSAValue, limits: Limits) -> bool:
    """Makes a loop of a store or reduction whose tiles are too large, if it can be one."""
    cut = _plan(sink, value, limits)
    if cut is None or not _is_legal(sink, cut):
        return False
    body = _build_loop(sink, cut)
    _erase_dead(cut, sink)
    split_block(body, limits)
    return True


def _plan(sink: Sink, value: SSAValue, limits: Limits) -> Cut | None:
    """The cut along the first dim that makes all parts small, or that makes the most parts."""
    block = sink.parent_block()
    if block is None:
        return None
    found: list[tuple[int, Cut]] = []
    along = sink.dim.value.data if isinstance(sink, aa.ReduceOp) else None
    for dim in range(len(shape_of(value))):
        if along is not None and dim != along:
            continue
        trial = _cut(sink, block, dim, 2)
        if trial is None:
            continue
        words = max(_words(trial), default=0)
        has_scan = any(isinstance(op, aa.ScanOp) for op in trial.ops)
        if words * (limits.scanned if has_scan else 1) <= limits.whole:
            continue
        parts = 2
        while words // parts > limits.part and (more := _cut(sink, block, dim, parts * 2)):
            trial, parts = more, parts * 2
        if words // parts <= limits.part:
            return trial
        found.append((parts, trial))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _words(cut: Cut) -> list[int]:
    """Words of the tensors of a cut that are not made in place."""
    return [
        tensor_words(value.type)
        for value in cut.dims
        if isinstance(value, OpResult) and not isinstance(value.op, aa.SplatOp | aa.ConstantOp)
    ]


def _cut(sink: Sink, block: Block, dim: int, parts: int) -> Cut | None:
    """The cut of everything that a sink consumes."""
    cut = Cut(block, parts)
    match sink:
        case aa.TiledStoreOp():
            consumed = [sink.value] if divides(sink.view, dim, cut.parts) else None
        case aa.StoreOp():
            consumed = list(sink.operands)
        case _:
            consumed = list(sink.arguments) if can_combine(sink) else None
    if consumed is None or not all(cut.needs(value, dim) for value in consumed):
        return None
    return cut


# order of memory


def _is_legal(sink: Sink, cut: Cut) -> bool:
    """Whether loads may move down to the sink, and happen part by part.

    Nothing that writes may be ordered after a load, or stand between it and the sink, except a
    store of the same elements, which only overwrites what its own part has read.
    """
    loads = [op for op in cut.ops if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    if any(op.ordering.data.value != "weak" for op in loads):
        return False
    if not isinstance(sink, aa.ReduceOp) and sink.ordering.data.value != "weak":
        return False
    for load in loads:
        for write in _writes_after(load):
            if write is not sink or not _in_place(load, sink, cut):
                return False
    return True


def _in_place(load: aa.LoadOp | aa.TiledLoadOp, sink: Sink, cut: Cut) -> bool:
    """Whether each part of a store writes just what its own part of the load has read."""
    if isinstance(sink, aa.ReduceOp) or not same_elements(load, sink):
        return False
    return cut.dims[load.result] == cut.dims[sink.value]


def _writes_after(load: aa.LoadOp | aa.TiledLoadOp) -> list[Operation]:
    """Operations that tokens order after a load and that may write; regions count as a whole."""
    seen: dict[Operation, None] = {}
    pending: list[SSAValue] = [load.result_token]
    while pending:
        for use in list(pending.pop().uses):
            op = use.operation
            if op in seen:
                continue
            seen[op] = None
            pending += [r for r in op.results if isinstance(r.type, MemTokenType)]
    return [op for op in seen if not isinstance(op, _HARMLESS)]


_HARMLESS = (aa.JoinMemTokensOp, aa.LoadOp, aa.TiledLoadOp)
"""What may follow a load in token order without caring when the load happens."""


# the loop


def _build_loop(sink: Sink, cut: Cut) -> Block:
    """The loop in place of the sink; returns its body."""
    before = ScalarBuilder()
    before.location = sink.location
    bounds = [before.integer(bound, i32) for bound in (0, cut.parts, 1)]
    initial = initial_values(before, sink)
    types = [value.type for value in initial]
    body = Block(arg_types=[i32, *types])
    builder = PartBuilder(cut.parts, body, body.args[0])
    for op in cut.ops:
        dim = next(cut.dims[r] for r in op.results if r in cut.dims)
        if isinstance(op, aa.LoadOp | aa.TiledLoadOp) and op.token is not None:
            builder.values[op.token] = op.token
        builder.add(op, dim)
    carried = list(body.args[1:])
    builder.location = sink.location
    if isinstance(sink, aa.ReduceOp):
        results = combine(builder, sink, carried)
    else:
        _order_after_loads(builder, sink, cut)
        part = builder.add(sink, cut.dims[sink.value])
        results = [part.results[0]]
    builder.location = sink.location
    builder.emit(aa.ContinueOp, results)
    loop = before.emit(aa.ForOp, [*bounds, *initial], types, {}, [Region(body)])
    before.put_before(sink)
    for old, new in zip(sink.results, loop.results, strict=True):
        old.replace_all_uses_with(new)
    return body


def initial_values(builder: ScalarBuilder, sink: Sink) -> list[SSAValue]:
    """Identities of a reduction; the token of a store."""
    if not isinstance(sink, aa.ReduceOp):
        if sink.token is not None:
            return [sink.token]
        return [builder.emit(aa.CreateMemTokenOp, (), [sink.result_token.type]).results[0]]
    initial = []
    for result, identity in zip(sink.results, sink.identities.data, strict=True):
        scalar = builder.emit(
            aa.ConstantOp, (), [element_of(result)], {"value": _identity(identity)}
        ).results[0]
        if isinstance(result.type, TensorType):
            scalar = builder.emit(aa.SplatOp, [scalar], [result.type]).results[0]
        initial.append(scalar)
    return initial


def _identity(attr: Attribute) -> DenseAttr:
    """An identity as a constant."""
    if isinstance(attr, FloatBitsAttr):
        bits, type = attr.bits.data, attr.type
    elif isinstance(attr, IntegerAttr):
        bits, type = attr.value.data, attr.type
    else:
        raise InternalError(f"an identity that is no number: {attr}")
    size = storage_bytes(type)
    return DenseAttr(TileType(type), (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little"))


def combine(builder: PartBuilder, sink: aa.ReduceOp, carried: Sequence[SSAValue]) -> list[SSAValue]:
    """Reduces a part, then combines with what earlier parts gave, by the body on whole tensors."""
    along = sink.dim.value.data
    operands = [builder.part_of(operand, along) for operand in sink.arguments]
    types = [result.type for result in sink.results]
    regions = [region.clone() for region in sink.regions]
    part = builder.emit(aa.ReduceOp, operands, types, sink.properties, regions).results
    mapped: dict[SSAValue, SSAValue] = {}
    args = sink.body.block.args
    for index, (new, old) in enumerate(zip(part, carried, strict=True)):
        mapped[args[2 * index]], mapped[args[2 * index + 1]] = new, old
    shape = shape_of(sink.results[0])
    for op in sink.body.block.ops:
        if isinstance(op, aa.YieldOp):
            return [mapped.get(value, value) for value in op.operands]
        inputs = [_widened(builder, mapped.get(v, v), shape) for v in op.operands]
        if isinstance(op, aa.ConstantOp):
            inputs = []
        types = [result.type for result in op.results]
        if shape and not isinstance(op, aa.ConstantOp):
            types = [TensorType(type, shape) for type in types]
        built = builder.emit(type(op), inputs, types, op.properties)
        mapped.update(zip(op.results, built.results, strict=True))
    raise InternalError("the body of a reduction does not end in a yield")


def _widened(builder: PartBuilder, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A scalar as a tensor of the shape."""
    if not shape or isinstance(value.type, TensorType):
        return value
    return builder.emit(aa.SplatOp, [value], [TensorType(value.type, shape)]).results[0]


def _order_after_loads(builder: PartBuilder, sink: aa.TiledStoreOp | aa.StoreOp, cut: Cut) -> None:
    """The store's token within the loop: also after the loads of its own part, if it was before."""
    if sink.token is None:
        return
    before = _tokens_before(sink.token)
    loads = [op for op in cut.ops if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    tokens = [builder.values[op.result_token] for op in loads if op.result_token in before]
    if tokens:
        joined = builder.emit(
            aa.JoinMemTokensOp, [*tokens, *_outside(sink.token, cut)], [sink.token.type]
        )
        builder.values[sink.token] = joined.results[0]


def _tokens_before(token: SSAValue) -> dict[SSAValue, None]:
    """A token and the tokens that it joins."""
    found = {token: None}
    pending = [token]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, aa.JoinMemTokensOp):
            new = [operand for operand in owner.operands if operand not in found]
            found.update(dict.fromkeys(new))
            pending += new
    return found


def _outside(token: SSAValue, cut: Cut) -> list[SSAValue]:
    """What a token stands for beside the loads that move into the loop."""
    return [
        value
        for value in _tokens_before(token)
        if not isinstance(value.owner, aa.JoinMemTokensOp) and value.owner not in cut.ops
    ]


def _erase_dead(cut: Cut, sink: Sink) -> None:
    """Erases the sink and what it alone used; the token of a load becomes the one it waited for."""
    erase_op(sink)
    for op in reversed(list(cut.ops)):
        data = [r for r in op.results if not isinstance(r.type, MemTokenType)]
        if any(True for result in data for _ in result.uses):
            continue
        if isinstance(op, aa.LoadOp | aa.TiledLoadOp) and any(True for _ in op.result_token.uses):
            op.result_token.replace_all_uses_with(_earlier_token(op))
        erase_op(op)


def _earlier_token(op: aa.LoadOp | aa.TiledLoadOp) -> SSAValue:
    """The token that a load waits for, or one that nothing precedes."""
    if op.token is not None:
        return op.token
    made = aa.CreateMemTokenOp.create(result_types=[op.result_token.type], location=op.location)
    block = required(op.parent_block(), "a load stands in no block")
    block.insert_op_before(made, op)
    return made.results[0]
