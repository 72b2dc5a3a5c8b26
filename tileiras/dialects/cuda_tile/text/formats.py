"""The custom form of every cuda_tile operation without regions, one entry each.

An entry gives the text after the mnemonic. Double spaces are the vendor's: a directive that prints
nothing still separates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr, PointerKindAttr
from tileiras.dialects.cuda_tile.elementwise import UniformOp
from tileiras.dialects.cuda_tile.text.attributes import (
    dense_text,
    hints_text,
    predicate_text,
    quoted,
)
from tileiras.dialects.cuda_tile.type_text import type_text
from tileiras.dialects.cuda_tile.types import DYNAMIC


class Uses(Protocol):
    """What a format needs to know: how a value is called."""

    def use(self, value: SSAValue) -> str:
        """The value as an operand."""
        ...


Format = Callable[[Any, Uses], str]
"""From an operation and the names to the text after the mnemonic."""

DEFAULT_ROUNDING = {
    "cuda_tile.exp": "full",
    "cuda_tile.tanh": "full",
    "cuda_tile.ftoi": "nearest_int_to_zero",
    "cuda_tile.divi": "zero",
}
"""The rounding mode that is not printed; nearest_even for all other operations."""


def default_rounding(op: Operation) -> str:
    """The rounding mode that an operation has if none is written."""
    return DEFAULT_ROUNDING.get(op.name, "nearest_even")


def _type(value: SSAValue) -> str:
    return type_text(value.type)


def _operands(values: Any, names: Uses) -> str:
    return ", ".join(names.use(value) for value in values)


def _types(values: Any) -> str:
    return ", ".join(_type(value) for value in values)


def _rounding(op: Any) -> str:
    attr = op.properties.get("rounding_mode") or op.properties["rounding"]
    mode = attr.data.value
    return "" if mode == default_rounding(op) else f"rounding<{mode}>"


def _flag(op: Any, name: str) -> str:
    return f" {name}" if name in op.properties else ""


def _same_type(op: Any, names: Uses) -> str:
    return f"{_operands(op.operands, names)} : {_type(op.operands[0])}"


def _rounded(op: Any, names: Uses) -> str:
    operands = _operands(op.operands, names)
    return f"{operands} {_rounding(op)}{_flag(op, 'flush_to_zero')} : {_type(op.results[0])}"


def _flushable(op: Any, names: Uses) -> str:
    flags = _flag(op, "flush_to_zero") + _flag(op, "propagate_nan")
    return f"{_operands(op.operands, names)}{flags} : {_type(op.results[0])}"


def _overflow(op: Any) -> str:
    mode = op.overflow.data.value
    return "" if mode == "none" else f" overflow<{mode}>"


def _overflowing(op: Any, names: Uses) -> str:
    return f"{_operands(op.operands, names)}{_overflow(op)} : {_type(op.results[0])}"


def _signed(op: Any, names: Uses) -> str:
    sign = op.signedness.data.value
    return f"{_operands(op.operands, names)} {sign} : {_type(op.results[0])}"


def _divi(op: Any, names: Uses) -> str:
    sign = op.signedness.data.value
    rounding = _rounding(op)
    suffix = f" {rounding}" if rounding else ""
    return f"{_operands(op.operands, names)} {sign}{suffix} : {_type(op.result)}"


def _cmpi(op: Any, names: Uses) -> str:
    relation, sign = op.comparison_predicate.data.value, op.signedness.data.value
    types = f"{_type(op.lhs)} -> {_type(op.result)}"
    return f"{relation} {_operands(op.operands, names)}, {sign} : {types}"


def _cmpf(op: Any, names: Uses) -> str:
    relation, ordering = op.comparison_predicate.data.value, op.comparison_ordering.data.value
    types = f"{_type(op.lhs)} -> {_type(op.result)}"
    return f"{relation} {ordering} {_operands(op.operands, names)} : {types}"


def _select(op: Any, names: Uses) -> str:
    types = f"{_type(op.cond)}, {_type(op.val_if_true)}"
    return f"{_operands(op.operands, names)} : {types}"


def _all_types(op: Any, names: Uses) -> str:
    return f"{_operands(op.operands, names)} : {_types(op.operands)}"


def _converted(op: Any, names: Uses) -> str:
    return f"{_operands(op.operands, names)} : {_types(op.operands)} -> {_type(op.results[0])}"


def _exti(op: Any, names: Uses) -> str:
    sign = op.signedness.data.value
    return f"{names.use(op.source)} {sign} : {_type(op.source)} -> {_type(op.result)}"


def _trunci(op: Any, names: Uses) -> str:
    return f"{names.use(op.source)}{_overflow(op)} : {_type(op.source)} -> {_type(op.result)}"


def _itof(op: Any, names: Uses) -> str:
    middle = f"{op.signedness.data.value} {_rounding(op)}{_flag(op, 'saturating')}"
    return f"{names.use(op.source)} {middle} : {_type(op.source)} -> {_type(op.result)}"


def _ftof(op: Any, names: Uses) -> str:
    return f"{names.use(op.source)} {_rounding(op)} : {_type(op.source)} -> {_type(op.result)}"


def _cat(op: Any, names: Uses) -> str:
    dim = op.dim.value.data
    types = f"{_types(op.operands)} -> {_type(op.result)}"
    return f"{_operands(op.operands, names)} dim = {dim} : {types}"


def _extract(op: Any, names: Uses) -> str:
    indices = _operands(op.indices, names)
    return f"{names.use(op.source)}[{indices}] : {_type(op.source)} -> {_type(op.result)}"


def _insert(op: Any, names: Uses) -> str:
    target = f"{names.use(op.destination)}[{_operands(op.indices, names)}]"
    return f"{names.use(op.source)}, {target} : {_type(op.source)}, {_type(op.destination)}"


def _permute(op: Any, names: Uses) -> str:
    dims = ", ".join(map(str, op.permutation.get_values()))
    return f"{names.use(op.source)} [{dims}] : {_type(op.source)} -> {_type(op.result)}"


def _result_type(op: Any, names: Uses) -> str:
    return f": {_type(op.results[0])}"


def _constant(op: Any, names: Uses) -> str:
    return f"<{dense_text(op.value)}> : {_type(op.result)}"


def _mmaf(op: Any, names: Uses) -> str:
    return f"{_operands(op.operands, names)}{_flag(op, 'fast_acc')} : {_types(op.operands)}"


def _mmai(op: Any, names: Uses) -> str:
    signs = f"{op.signedness_lhs.data.value} {op.signedness_rhs.data.value}"
    return f"{_operands(op.operands, names)} {signs} : {_types(op.operands)}"


def _assume(op: Any, names: Uses) -> str:
    return f"{predicate_text(op.predicate)}, {names.use(op.value)} : {_type(op.value)}"


def _assert(op: Any, names: Uses) -> str:
    message = quoted(op.message.data)
    return f"{names.use(op.condition)}, {message} : {_type(op.condition)}"


def _alloca(op: Any, names: Uses) -> str:
    sizes = f"num_elem = {op.num_elem.value.data}, alignment = {op.alignment.value.data}"
    return f"{sizes}{_flag(op, 'global')} : {_type(op.result)}"


def _get_global(op: Any, names: Uses) -> str:
    return f"@{op.symbol.root_reference.data} : {_type(op.result)}"


def _get_shape(op: Any, names: Uses) -> str:
    result = f" -> {_type(op.results[0])}" if op.results else ""
    return f"{names.use(op.src)} : {_type(op.src)}{result}"


def _sizes(sizes: tuple[int, ...], operands: Any, names: Uses) -> str:
    dynamic = iter(operands)
    return ", ".join(names.use(next(dynamic)) if size == DYNAMIC else str(size) for size in sizes)


def _make_tensor_view(op: Any, names: Uses) -> str:
    view = op.result.type
    shape = _sizes(view.shape, op.dynamic_shape, names)
    strides = _sizes(view.strides, op.dynamic_strides, names)
    dynamic = (*op.dynamic_shape, *op.dynamic_strides)
    types = [_type(op.base)] if isinstance(view.kind, PointerKindAttr) else []
    types.extend([_type(dynamic[0])] if dynamic else [])
    index = f"{', '.join(types)} -> " if types else ""
    sizes = f"shape = [{shape}], strides = [{strides}]"
    return f"{names.use(op.base)}, {sizes} : {index}{type_text(view)}"


def _make_view(op: Any, names: Uses) -> str:
    return f"{names.use(op.tensor_view)} : {_type(op.result)}"


def _join_tokens(op: Any, names: Uses) -> str:
    return f"{_operands(op.tokens, names)} : token"


def _gdc(op: Any, names: Uses) -> str:
    token = f"token = {names.use(op.token)} " if op.token is not None else ""
    return f"{token}-> token"


def _fence(op: Any, names: Uses) -> str:
    return names.use(op.token)


def _ordering(op: Any) -> str:
    scope = op.properties.get("memory_scope")
    ordering = op.memory_ordering_semantics.data.value
    return ordering if scope is None else f"{ordering} {scope.data.value}"


def _token(op: Any, names: Uses, spaced: bool) -> str:
    if op.token is None:
        return ""
    return f" token{' = ' if spaced else '='}{names.use(op.token)}"


def _hints(op: Any) -> str:
    hints = op.properties.get("optimization_hints")
    if not isinstance(hints, OptimizationHintsAttr) or not hints.value.data:
        return ""
    return f" optimization_hints = {hints_text(hints)}"


def _inbounds(op: Any) -> str:
    inbounds = op.properties.get("inbounds")
    flags = inbounds.get_values() if isinstance(inbounds, DenseArrayBase) else ()
    if not any(flags):
        return ""
    return f" inbounds = [{', '.join('true' if flag else 'false' for flag in flags)}]"


def _index_types(indices: Any) -> str:
    texts = [_type(index) for index in indices]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _place(op: Any, names: Uses) -> str:
    return f"{names.use(op.view)}[{_operands(op.index, names)}]"


def _load_view(op: Any, names: Uses) -> str:
    tail = _token(op, names, True) + _hints(op) + _inbounds(op)
    types = f"{_type(op.view)}, {_index_types(op.index)} -> {_type(op.tile)}, token"
    return f"{_ordering(op)} {_place(op, names)}{tail} : {types}"


def _store_view(op: Any, names: Uses) -> str:
    tail = _token(op, names, True) + _hints(op) + _inbounds(op)
    types = f"{_type(op.tile)}, {_type(op.view)}, {_index_types(op.index)} -> token"
    return f"{_ordering(op)} {names.use(op.tile)}, {_place(op, names)}{tail} : {types}"


def _present(*values: SSAValue | None) -> list[SSAValue]:
    return [value for value in values if value is not None]


def _load_ptr(op: Any, names: Uses) -> str:
    operands = _present(op.source, op.mask, op.padding_value)
    tail = _token(op, names, False) + _hints(op)
    types = f"{_types(operands)} -> {_type(op.result)}, token"
    return f"{_ordering(op)} {_operands(operands, names)}{tail} : {types}"


def _store_ptr(op: Any, names: Uses) -> str:
    operands = _present(op.destination, op.value, op.mask)
    tail = _token(op, names, False) + _hints(op)
    return f"{_ordering(op)} {_operands(operands, names)}{tail} : {_types(operands)} -> token"


def _atomic_rmw(op: Any, names: Uses) -> str:
    rest = _present(op.arg, op.mask)
    head = f"{_ordering(op)} {names.use(op.pointers)}, {op.mode.data.value}"
    types = f"{_type(op.pointers)}, {_types(rest)} -> {_type(op.result)}, token"
    return f"{head}, {_operands(rest, names)}{_token(op, names, False)} : {types}"


def _atomic_cas(op: Any, names: Uses) -> str:
    operands = _present(op.pointers, op.cmp, op.val, op.mask)
    types = f"{_types(_present(op.pointers, op.val, op.mask))} -> {_type(op.result)}, token"
    head = f"{_ordering(op)} {_operands(operands, names)}"
    return f"{head}{_token(op, names, False)} : {types}"


def _atomic_red_view(op: Any, names: Uses) -> str:
    head = f"{_ordering(op)} {_place(op, names)}, {op.mode.data.value}, {names.use(op.value)}"
    types = f"{_type(op.value)}, {_type(op.view)}, {_index_types(op.index)} -> token"
    return f"{head}{_token(op, names, True)}{_inbounds(op)} : {types}"


def _print(op: Any, names: Uses) -> str:
    arguments = "".join(f", {names.use(value)}" for value in op.args)
    types = f" : {_types(op.args)}" if op.args else ""
    return f"{quoted(op.format.data)}{arguments}{_token(op, names, False)}{types} -> token"


def _multimem_tail(op: Any, names: Uses) -> str:
    kind = op.properties.get("reduction")
    text = _token(op, names, True) + (_inbounds(op) or " ")
    if kind is None or kind.data.value == "add":
        return text
    return f"{text} attributes {{reduction = #{kind.name}<{kind.data.value}>}}"


def _multimem_load_reduce(op: Any, names: Uses) -> str:
    token = ", token" if op.token is not None else ""
    types = f"{_type(op.view)}, {_index_types(op.index)}{token} -> {_type(op.tile)}, token"
    return f"{_ordering(op)} {_place(op, names)}{_multimem_tail(op, names)} : {types}"


def _multimem_write(op: Any, names: Uses) -> str:
    place = f"{names.use(op.view)}, {names.use(op.tile)}[{_operands(op.index, names)}]"
    token = ", token" if op.token is not None else ""
    types = f"{_type(op.view)}, {_type(op.tile)}, {_index_types(op.index)}{token} -> token"
    return f"{_ordering(op)} {place}{_multimem_tail(op, names)} : {types}"


def _terminator(op: Any, names: Uses) -> str:
    if not op.operands:
        return ""
    return f"{_operands(op.operands, names)} : {_types(op.operands)}"


_SHARED: tuple[tuple[Format, str], ...] = (
    (_same_type, "pow atan2"),
    (_rounded, "exp tanh sqrt addf subf mulf divf fma"),
    (_flushable, "exp2 rsqrt maxf minf"),
    (_overflowing, "negi addi subi muli shli"),
    (_signed, "maxi mini remi shri"),
    (_all_types, "fpowi mmaf_scaled"),
    (
        _converted,
        "bitcast ptr_to_int int_to_ptr ptr_to_ptr broadcast reshape pack unpack offset",
    ),
    (_itof, "itof ftoi"),
    (_result_type, "iota get_tile_block_id get_num_tile_blocks make_token"),
    (_get_shape, "get_tensor_shape get_index_space_shape"),
    (_make_view, "make_partition_view make_strided_view make_gather_scatter_view"),
    (_gdc, "gdc_wait_tko gdc_launch_dependents_tko"),
    (_multimem_write, "multimem_reduce_view_tko multimem_store_view_tko"),
    (_terminator, "break continue yield return"),
)
_OWN: dict[str, Format] = {
    "divi": _divi,
    "cmpi": _cmpi,
    "cmpf": _cmpf,
    "select": _select,
    "exti": _exti,
    "trunci": _trunci,
    "ftof": _ftof,
    "cat": _cat,
    "extract": _extract,
    "insert": _insert,
    "permute": _permute,
    "constant": _constant,
    "mmaf": _mmaf,
    "mmai": _mmai,
    "assume": _assume,
    "assert": _assert,
    "alloca": _alloca,
    "get_global": _get_global,
    "make_tensor_view": _make_tensor_view,
    "join_tokens": _join_tokens,
    "memory_fence_alias_tko": _fence,
    "load_view_tko": _load_view,
    "store_view_tko": _store_view,
    "load_ptr_tko": _load_ptr,
    "store_ptr_tko": _store_ptr,
    "atomic_rmw_tko": _atomic_rmw,
    "atomic_cas_tko": _atomic_cas,
    "atomic_red_view_tko": _atomic_red_view,
    "print_tko": _print,
    "multimem_load_reduce_view_tko": _multimem_load_reduce,
}
FORMATS: dict[str, Format] = {
    **{op.name: _same_type for op in ct.CudaTile.operations if issubclass(op, UniformOp)},
    **{
        f"cuda_tile.{name}": entry
        for name, entry in (
            *((name, entry) for entry, names in _SHARED for name in names.split()),
            *_OWN.items(),
        )
    },
}
"""Operation name -> format. Operations with regions are in `printer.py`."""
