"""Which rule gives the facts of which cuda_tile operation: one row each.

A rule takes the operation and a lookup of facts and returns one `ValueFacts` per result. Operations
without a row (loads, conversions from float, reductions, ..) have results that are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis import bit_rules, integer_rules, pointer_rules, shape_rules
from tileiras.analysis.lattice import ValueFacts, constant_facts, make_facts, type_range
from tileiras.analysis.typed_facts import pointee_bytes, unknown_facts
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import Signedness
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)

MAX_TILE_BLOCKS = (1 << 24) - 1
"""Fixed: largest grid size along an axis (Tile IR specification, get_num_tile_blocks)."""


class Lookup(Protocol):
    """Facts by value."""

    def __getitem__(self, value: SSAValue, /) -> ValueFacts: ...


Rule = Callable[[Any, Lookup], Sequence[ValueFacts]]


def _unary(function: Callable[[Any, ValueFacts], ValueFacts]) -> Rule:
    """A rule for operations on one integer tile."""
    return lambda op, facts: (function(op, facts[op.source]),)


def _binary(function: Callable[[Any, ValueFacts, ValueFacts], ValueFacts]) -> Rule:
    """A rule for operations on two integer tiles."""
    return lambda op, facts: (function(op, facts[op.operands[0]], facts[op.operands[1]]),)


def _width(value: SSAValue) -> int:
    """Bits of the integers of a tile; 0 for other elements."""
    element = value.type.element_type if isinstance(value.type, TileType) else None
    return element.width.data if isinstance(element, IntegerType) else 0


def _shape(value: SSAValue) -> tuple[int, ...]:
    """Shape of a tile; () for what is none."""
    return value.type.shape if isinstance(value.type, TileType) else ()


def _pointee_bytes(value: SSAValue) -> int:
    """Size of what a tile of pointers points to; 0 for 4-bit types."""
    element = value.type.element_type if isinstance(value.type, TileType) else None
    return pointee_bytes(element.pointee) if isinstance(element, PointerType) else 0


def _constant(op: ct.ConstantOp, facts: Lookup) -> Sequence[ValueFacts]:
    width = _width(op.result)
    if not width:
        return (unknown_facts(op.result.type),)
    return (shape_rules.constant(op.value, width),)


def _select(op: ct.SelectOp, facts: Lookup) -> Sequence[ValueFacts]:
    operands = (facts[op.cond], facts[op.val_if_true], facts[op.val_if_false])
    return (integer_rules.select(op, *operands),)


def _extend(op: ct.ExtIOp, facts: Lookup) -> Sequence[ValueFacts]:
    signed = op.signedness.data is Signedness.SIGNED
    return (bit_rules.extend(facts[op.source], _width(op.result), signed),)


def _truncate(op: ct.TruncIOp, facts: Lookup) -> Sequence[ValueFacts]:
    source = facts[op.source]
    wraps = integer_rules.may_wrap(op.overflow, source)
    return (bit_rules.truncate(source, _width(op.result), wraps),)


def _bitcast(op: ct.BitcastOp, facts: Lookup) -> Sequence[ValueFacts]:
    if _width(op.source) and _width(op.result):
        return (facts[op.source],)
    return (unknown_facts(op.result.type),)


def _iota(op: ct.IotaOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.iota(_shape(op.result)[0], _width(op.result)),)


def _reshape(op: ct.ReshapeOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.reshape(facts[op.source], _shape(op.result)),)


def _broadcast(op: ct.BroadcastOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.broadcast(facts[op.source], _shape(op.result)),)


def _permute(op: ct.PermuteOp, facts: Lookup) -> Sequence[ValueFacts]:
    permutation = cast("DenseArrayBase[IntegerType]", op.permutation).get_values()
    return (shape_rules.permute(facts[op.source], permutation, _shape(op.result)),)


def _extract(op: ct.ExtractOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.extract(facts[op.source], _shape(op.result)),)


def _cat(op: ct.CatOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.merge(facts[op.lhs], facts[op.rhs], _shape(op.result)),)


def _insert(op: ct.InsertOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (shape_rules.merge(facts[op.source], facts[op.destination], _shape(op.result)),)


def _assume(op: ct.AssumeOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (pointer_rules.assume(facts[op.value], op.predicate),)


def _offset(op: ct.OffsetOp, facts: Lookup) -> Sequence[ValueFacts]:
    size = _pointee_bytes(op.ptr)
    return (pointer_rules.offset(facts[op.ptr], facts[op.offset], size),)


def _cast(op: ct.IntToPtrOp | ct.PtrToIntOp | ct.PtrToPtrOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (pointer_rules.restep(facts[op.source], _pointee_bytes(op.result) or 1),)


def _tile_block_id(op: ct.GetTileBlockIdOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (make_facts((), 32, bounds=(0, MAX_TILE_BLOCKS - 1)),) * 3


def _num_tile_blocks(op: ct.GetNumTileBlocksOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (make_facts((), 32, bounds=(1, MAX_TILE_BLOCKS)),) * 3


def _tensor_view(op: ct.MakeTensorViewOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (pointer_rules.alignment(facts[op.base].element_divisor),)


def _view(op: Any, facts: Lookup) -> Sequence[ValueFacts]:
    return (facts[op.tensor_view],)


def _alloca(op: ct.AllocaOp, facts: Lookup) -> Sequence[ValueFacts]:
    return (_address(op.alignment.value.data, op.result),)


def _get_global(op: ct.GetGlobalOp, facts: Lookup) -> Sequence[ValueFacts]:
    module = op
    while not isinstance(module, ct.ModuleOp):
        parent = module.parent_op()
        if parent is None:
            return (unknown_facts(op.result.type),)
        module = parent
    name = op.symbol.root_reference.data
    for global_ in module.body.block.ops:
        if isinstance(global_, ct.GlobalOp) and global_.sym_name.data == name:
            natural = storage_bytes(global_.value.type.element_type)
            return (_address(max(global_.alignment.value.data, natural), op.result),)
    return (unknown_facts(op.result.type),)


def _address(alignment: int, result: SSAValue) -> ValueFacts:
    """A scalar pointer of which only the alignment in bytes is known."""
    facts = pointer_rules.alignment(alignment)
    return make_facts(
        (), 64, element_divisor=facts.element_divisor, step=_pointee_bytes(result) or 1
    )


def _made_from(view: SSAValue) -> ct.MakeTensorViewOp | None:
    """The operation that made a (tensor) view, seen through assumptions and views."""
    owner = view.owner
    while isinstance(owner, Operation):
        match owner:
            case ct.MakeTensorViewOp():
                return owner
            case ct.AssumeOp():
                owner = owner.value.owner
            case ct.MakePartitionViewOp() | ct.MakeStridedViewOp() | ct.MakeGatherScatterViewOp():
                owner = owner.tensor_view.owner
            case _:
                return None
    return None


def _sizes(view: SSAValue, type_: TensorViewType, width: int, facts: Lookup) -> list[ValueFacts]:
    """Facts of the sizes of a tensor view, as integers of `width` bits, never negative."""
    maker = _made_from(view)
    dynamic = iter(maker.dynamic_shape if maker is not None else ())
    sizes: list[ValueFacts] = []
    for size in type_.shape:
        if size != DYNAMIC:
            fits = size <= type_range(width)[1]
            sizes.append(constant_facts((), width, size) if fits else make_facts((), width))
            continue
        operand = next(dynamic, None)
        known = make_facts((), width)
        if operand is not None:
            known = bit_rules.resize(facts[operand], width, signed=True)
        low, high = known.range()
        bounds = (max(low, 0), high)
        sizes.append(make_facts((), width, element_divisor=known.element_divisor, bounds=bounds))
    return sizes


def _tensor_shape(op: ct.GetTensorShapeOp, facts: Lookup) -> Sequence[ValueFacts]:
    type_ = op.src.type
    if not isinstance(type_, TensorViewType) or not op.results:
        return ()
    return _sizes(op.src, type_, _width(op.results[0]), facts)


def _index_space_shape(op: ct.GetIndexSpaceShapeOp, facts: Lookup) -> Sequence[ValueFacts]:
    """Rounded-up quotients of the sizes by the steps between tiles."""
    type_ = op.src.type
    match type_:
        case PartitionViewType():
            steps = type_.tile_shape
        case StridedViewType():
            steps = type_.traversal_strides
        case _:
            return ()
    width = _width(op.results[0])
    if width <= 1:
        return ()
    sizes = _sizes(op.src, type_.tensor_view, width, facts)
    counts: list[ValueFacts] = []
    for dim, step in zip(type_.dim_map, steps):
        low, high = sizes[dim].range()
        counts.append(make_facts((), width, bounds=(-(-low // step), -(-high // step))))
    return counts


RULES: dict[type[Operation], Rule] = {
    ct.AbsIOp: _unary(integer_rules.absolute),
    ct.AddIOp: _binary(integer_rules.add),
    ct.AllocaOp: _alloca,
    ct.AndIOp: _binary(bit_rules.bitwise),
    ct.AssumeOp: _assume,
    ct.BitcastOp: _bitcast,
    ct.BroadcastOp: _broadcast,
    ct.CatOp: _cat,
    ct.CmpIOp: _binary(integer_rules.compare),
    ct.ConstantOp: _constant,
    ct.DivIOp: _binary(integer_rules.divide),
    ct.ExtIOp: _extend,
    ct.ExtractOp: _extract,
    ct.GetGlobalOp: _get_global,
    ct.GetIndexSpaceShapeOp: _index_space_shape,
    ct.GetNumTileBlocksOp: _num_tile_blocks,
    ct.GetTensorShapeOp: _tensor_shape,
    ct.GetTileBlockIdOp: _tile_block_id,
    ct.InsertOp: _insert,
    ct.IntToPtrOp: _cast,
    ct.IotaOp: _iota,
    ct.MakeGatherScatterViewOp: _view,
    ct.MakePartitionViewOp: _view,
    ct.MakeStridedViewOp: _view,
    ct.MakeTensorViewOp: _tensor_view,
    ct.MaxIOp: _binary(integer_rules.minimum),
    ct.MinIOp: _binary(integer_rules.minimum),
    ct.MulIOp: _binary(integer_rules.multiply),
    ct.MulhiIOp: _binary(integer_rules.multiply_high),
    ct.NegIOp: _unary(integer_rules.negate),
    ct.OffsetOp: _offset,
    ct.OrIOp: _binary(bit_rules.bitwise),
    ct.PermuteOp: _permute,
    ct.PtrToIntOp: _cast,
    ct.PtrToPtrOp: _cast,
    ct.RemIOp: _binary(integer_rules.remainder),
    ct.ReshapeOp: _reshape,
    ct.SelectOp: _select,
    ct.ShLIOp: _binary(bit_rules.shift_left),
    ct.ShRIOp: _binary(bit_rules.shift_right),
    ct.SubIOp: _binary(integer_rules.subtract),
    ct.TruncIOp: _truncate,
    ct.XOrIOp: _binary(bit_rules.bitwise),
}
