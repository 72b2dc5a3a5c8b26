"""Custom forms of memory operations: loads, stores, atomics, printing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
    MultimemReductionKind,
    MultimemReductionKindAttr,
)
from tileiras.dialects.cuda_tile.text.op_parsers import OpParser
from tileiras.dialects.cuda_tile.text.values import Use, ValueParser, flattened, segment_sizes
from tileiras.dialects.cuda_tile.types import TOKEN

_SCOPES = tuple(scope.value for scope in MemoryScope)


def _ordering(p: ValueParser) -> dict[str, Attribute]:
    """`relaxed device`."""
    ordering = p.enum(MemoryOrdering, "a memory ordering")
    found: dict[str, Attribute] = {"memory_ordering_semantics": MemoryOrderingAttr(ordering)}
    if p.peek().text in _SCOPES:
        found["memory_scope"] = MemoryScopeAttr(p.enum(MemoryScope, "a memory scope"))
    return found


def _tail(p: ValueParser, properties: dict[str, Attribute], rank: int | None) -> SSAValue | None:
    """Token, hints and inbounds flags, which go into the properties; returns the token.

    `rank` is the number of flags of a view access, and None for accesses without flags.
    """
    token: SSAValue | None = None
    if p.accept("token"):
        p.expect("=")
        token = p.check_type(p.use(), TOKEN)
    if p.accept("optimization_hints"):
        p.expect("=")
        properties["optimization_hints"] = p.hints()
    flags = [False] * (rank or 0)
    if rank is not None and p.accept("inbounds"):
        p.expect("=")
        words = p.listed("[", "]", lambda: p.choice(("true", "false"), "a flag"))
        flags = [word == "true" for word in words]
    if rank is not None:
        properties["inbounds"] = DenseArrayBase.from_list(i1, [int(flag) for flag in flags])
    return token


def _check_indices(p: ValueParser, indices: Sequence[Use], types: Sequence[Attribute]) -> None:
    """One type for all indices, or one for each."""
    if len(types) == 1:
        types = list(types) * len(indices)
    p.check_types(indices, types)


def _view_access(p: ValueParser) -> tuple[Use, list[Use]]:
    """`%view[%i, %j]`."""
    view = p.use()
    return view, p.use_list()


def _values(uses: Sequence[Use]) -> list[SSAValue]:
    return [use.value for use in uses]


def _load_view(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    view, index = _view_access(p)
    token = _tail(p, properties, len(index))
    if cls is ct.MultimemLoadReduceViewTkoOp:
        properties["reduction"] = _reduction(p)
    p.expect(":")
    types = p.types()
    if cls is ct.MultimemLoadReduceViewTkoOp and token is not None and types[-1] == TOKEN:
        types.pop()
    p.check_type(view, types[0])
    _check_indices(p, index, types[1:])
    p.expect("->")
    results = p.types()
    properties["operandSegmentSizes"] = segment_sizes(view.value, _values(index), token)
    return cls.create(
        operands=flattened(view.value, _values(index), token),
        result_types=results,
        properties=properties,
    )


def _store_view(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    tile = p.use()
    p.expect(",")
    view, index = _view_access(p)
    token = _tail(p, properties, len(index))
    p.expect(":")
    types = p.types()
    p.check_types([tile, view], types[:2])
    _check_indices(p, index, types[2:])
    return _tokened(p, cls, properties, (tile.value, view.value, _values(index), token))


def _tokened(p: ValueParser, cls: Any, properties: Any, groups: Any) -> Operation:
    """`-> token`, and the operation with its groups of operands."""
    p.expect("->")
    properties["operandSegmentSizes"] = segment_sizes(*groups)
    return cls.create(operands=flattened(*groups), result_types=p.types(), properties=properties)


def _load_ptr(p: ValueParser, cls: Any) -> Operation:
    """Trap: a mask and a padding value look alike; a second operand is the mask if it is of i1.

    So a padding value of i1 without a mask is read as a mask: the text form cannot tell.
    """
    properties = _ordering(p)
    uses = p.uses()
    token = _tail(p, properties, None)
    operands = p.typed(uses)
    p.expect("->")
    results = p.types()
    source, *rest = operands
    mask = padding = None
    if len(rest) > 2:
        p.fail(f"found {len(operands)} operands, expected at most 3", uses[0].token)
    if len(rest) == 2:
        mask, padding = rest
    elif rest:
        element = getattr(rest[0].type, "element_type", None)
        if element == i1:
            mask = rest[0]
        else:
            padding = rest[0]
    groups = (source, mask, padding, token)
    properties["operandSegmentSizes"] = segment_sizes(*groups)
    return cls.create(operands=flattened(*groups), result_types=results, properties=properties)


def _store_ptr(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    uses = p.uses()
    token = _tail(p, properties, None)
    operands = p.typed(uses)
    if len(operands) not in (2, 3):
        p.fail(f"found {len(operands)} operands, expected 2 or 3", uses[0].token)
    mask = operands[2] if len(operands) == 3 else None
    return _tokened(p, cls, properties, (operands[0], operands[1], mask, token))


def _atomic_rmw(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    pointers = p.use()
    p.expect(",")
    properties["mode"] = AtomicRMWModeAttr(p.enum(AtomicRMWMode, "an atomic operation"))
    p.expect(",")
    uses = [pointers, *p.uses()]
    token = _tail(p, properties, None)
    operands = p.typed(uses)
    if len(operands) not in (2, 3):
        p.fail(f"found {len(operands)} operands, expected 2 or 3", pointers.token)
    mask = operands[2] if len(operands) == 3 else None
    return _tokened(p, cls, properties, (operands[0], operands[1], mask, token))


def _atomic_cas(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    uses = p.uses()
    if len(uses) not in (3, 4):
        p.fail(f"found {len(uses)} operands, expected 3 or 4", uses[0].token)
    token = _tail(p, properties, None)
    p.expect(":")
    types = p.types()
    operands = p.check_types(uses, [*types[:2], *types[1:]])
    mask = operands[3] if len(operands) == 4 else None
    return _tokened(p, cls, properties, (*operands[:3], mask, token))


def _atomic_red_view(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    view, index = _view_access(p)
    p.expect(",")
    properties["mode"] = AtomicRMWModeAttr(p.enum(AtomicRMWMode, "an atomic operation"))
    p.expect(",")
    value = p.use()
    token = _tail(p, properties, len(index))
    p.expect(":")
    types = p.types()
    p.check_types([value, view], types[:2])
    _check_indices(p, index, types[2:])
    return _tokened(p, cls, properties, (view.value, _values(index), value.value, token))


def _print(p: ValueParser, cls: Any) -> Operation:
    properties: dict[str, Attribute] = {"str": StringAttr(p.string("a format"))}
    uses = []
    while p.accept(","):
        uses.append(p.use())
    token = _tail(p, properties, None)
    values = p.typed(uses) if uses else []
    return _tokened(p, cls, properties, (values, token))


def _reduction(p: ValueParser) -> MultimemReductionKindAttr:
    """`attributes {reduction = #cuda_tile.multimem_reduction_kind<max>}`, or add."""
    token = p.peek()
    if not p.accept("attributes"):
        return MultimemReductionKindAttr(MultimemReductionKind.ADD)
    kind = p.dictionary().data.get("reduction")
    if not isinstance(kind, MultimemReductionKindAttr):
        p.fail("attributes have no reduction", token)
    return kind


def _multimem_write(p: ValueParser, cls: Any) -> Operation:
    properties = _ordering(p)
    view = p.use()
    p.expect(",")
    tile = p.use()
    index = p.use_list()
    token = _tail(p, properties, len(index))
    if cls is ct.MultimemReduceViewTkoOp:
        properties["reduction"] = _reduction(p)
    p.expect(":")
    types = p.types()
    if token is not None and types[-1] == TOKEN:
        types.pop()
    p.check_types([view, tile], types[:2])
    _check_indices(p, index, types[2:])
    return _tokened(p, cls, properties, (view.value, tile.value, _values(index), token))


MEMORY_PARSERS: dict[str, tuple[OpParser, Any]] = {
    cls.name: (parser, cls)
    for parser, cls in (
        (_load_view, ct.LoadViewTkoOp),
        (_store_view, ct.StoreViewTkoOp),
        (_load_ptr, ct.LoadPtrTkoOp),
        (_store_ptr, ct.StorePtrTkoOp),
        (_atomic_rmw, ct.AtomicRMWTkoOp),
        (_atomic_cas, ct.AtomicCASTkoOp),
        (_atomic_red_view, ct.AtomicRedViewTkoOp),
        (_print, ct.PrintTkoOp),
        (_load_view, ct.MultimemLoadReduceViewTkoOp),
        (_multimem_write, ct.MultimemReduceViewTkoOp),
        (_multimem_write, ct.MultimemStoreViewTkoOp),
    )
}
