"""Makes small arguments for a kernel that nobody described, from what the kernel does with them.

Sizes cover a tile and a half of every view, strides are those of a dense array, scalars are small
and grow from one to the next (`start`, `stop`); all keep what `assume` promises of them. Arrays
hold small numbers: floats are quarters, of which sums are exact in most formats; integers do for
indices and are not zero (divisors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr
from tileiras.dialects.cuda_tile.types import DYNAMIC, PointerType
from tileiras.interpreter.formats import FloatFormat, format_of, to_bits

PLAIN_SIZE = 24
"""Size for parameters of which nothing else is known but that they follow a pointer."""

PLAIN_ELEMENTS = 1 << 16
"""Elements behind a pointer that is in no view."""

MAX_ELEMENTS = 1 << 21
"""Largest array that is made."""


@dataclass
class _Parameter:
    """What is found out about one parameter."""

    type: Any
    divisor: int = 1
    low: int = 0
    value: int | None = None
    elements: int = 0
    rank: int | None = None
    pointee: Any = None


def root(value: SSAValue) -> SSAValue:
    """The value that assumes and integer casts only pass on."""
    while isinstance(value, OpResult) and isinstance(
        value.op, ct.AssumeOp | ct.ExtIOp | ct.TruncIOp | ct.ReshapeOp
    ):
        value = value.op.operands[0]
    return value


def _moved_from(value: SSAValue) -> SSAValue:
    """The pointer that offsets start from."""
    value = root(value)
    while isinstance(value, OpResult) and isinstance(value.op, ct.OffsetOp):
        value = root(value.op.operands[0])
    return value


class _Maker:
    """Collects facts about the parameters of one entry, then makes values."""

    def __init__(self, entry: ct.EntryOp, rng: np.random.Generator):
        self.entry = entry
        self.rng = rng
        self.scalars = 0
        self.parameters = [_Parameter(arg.type.element_type) for arg in entry.body.block.args]  # type: ignore[attr-defined]

    def parameter(self, value: SSAValue) -> _Parameter | None:
        """The parameter that a value is, if it is one."""
        found = root(value)
        if isinstance(found, BlockArgument) and found.block is self.entry.body.block:
            return self.parameters[found.index]
        return None

    def make(self) -> list[Any]:
        """One argument per parameter."""
        for op in self.entry.walk():
            if isinstance(op, ct.AssumeOp):
                self._note_promise(op)
        for op in self.entry.walk():
            if isinstance(op, ct.MakeTensorViewOp):
                self._shape_view(op)
        self._fill_groups()
        return [self._argument(parameter) for parameter in self.parameters]

    def _note_promise(self, op: ct.AssumeOp) -> None:
        parameter = self.parameter(op.operands[0])
        if parameter is None:
            return
        match op.predicate:
            case DivByAttr() as promise:
                parameter.divisor = max(parameter.divisor, promise.divisor.data)
            case BoundedAttr() as promise if isinstance(promise.lb, IntAttr):
                parameter.low = max(parameter.low, promise.lb.data)

    def _shape_view(self, op: ct.MakeTensorViewOp) -> None:
        type_: Any = op.result.type
        extents = _tile_extents(op)
        shape = self._resolved(type_.shape, op.dynamic_shape, extents)
        strides = self._dense_strides(shape, type_.strides, op.dynamic_strides)
        base = self.parameter(op.base)
        if base is None:
            moved = self.parameter(_moved_from(op.base))
            if moved is not None:
                moved.rank = len(shape)
            return
        last = sum((size - 1) * stride for size, stride in zip(shape, strides))
        base.elements = max(base.elements, last + 1)
        base.pointee = type_.element_type

    def _dense_strides(
        self, shape: Sequence[int], static: Sequence[int], dynamic: Sequence[SSAValue]
    ) -> list[int]:
        """Strides of an array without overlap; dims with a known stride are the inner ones."""
        extent = 1 + sum(
            (size - 1) * stride for size, stride in zip(shape, static) if stride != DYNAMIC
        )
        result, values = list(static), list(dynamic)
        for dim in reversed(range(len(shape))):
            if static[dim] == DYNAMIC:
                result[dim] = self._resolved([DYNAMIC], [values.pop()], [extent])[0]
                extent = max(extent, result[dim] * shape[dim])
        return result

    def _resolved(
        self, static: Sequence[int], dynamic: Sequence[SSAValue], wanted: Sequence[int]
    ) -> list[int]:
        """Static sizes, and for the dynamic ones what their parameters are or become."""
        values = iter(dynamic)
        result = []
        for size, wish in zip(static, wanted):
            if size != DYNAMIC:
                result.append(size)
                continue
            parameter = self.parameter(next(values))
            if parameter is None:
                result.append(wish)
                continue
            if parameter.value is None:
                parameter.value = _aligned(max(wish, parameter.low), parameter.divisor)
            result.append(parameter.value)
        return result

    def _fill_groups(self) -> None:
        """Integers behind a pointer that is in no view are taken as sizes, then dense strides."""
        position = 0
        while position < len(self.parameters):
            parameter = self.parameters[position]
            position += 1
            if not isinstance(parameter.type, PointerType) or parameter.elements:
                continue
            group = []
            while position < len(self.parameters) and _is_free_integer(self.parameters[position]):
                group.append(self.parameters[position])
                position += 1
            rank = len(group) // 2 if parameter.rank is None else parameter.rank
            for size in group[:rank]:
                size.value = _aligned(max(PLAIN_SIZE, size.low), size.divisor)
            step = 1
            for size, stride in zip(reversed(group[:rank]), reversed(group[rank : 2 * rank])):
                stride.value = _aligned(step, stride.divisor)
                step = stride.value * (size.value or 1)

    def _argument(self, parameter: _Parameter) -> Any:
        if isinstance(parameter.type, PointerType):
            pointee = parameter.pointee or parameter.type.pointee
            return self._array(pointee, parameter.elements or PLAIN_ELEMENTS)
        fmt = format_of(parameter.type)
        if isinstance(fmt, FloatFormat):
            return 0.5
        if parameter.value is not None:
            return parameter.value
        if fmt.bits == 1:
            return 1
        self.scalars += 1
        return _aligned(max(3 * self.scalars - 1, parameter.low), parameter.divisor)

    def _array(self, pointee: Any, elements: int) -> np.ndarray:
        """Elements of the type, as their bits."""
        if elements > MAX_ELEMENTS:
            raise ValueError(f"{elements} elements")
        if isinstance(pointee, PointerType):
            return np.zeros(elements, np.uint64)
        fmt = format_of(pointee)
        if fmt.bits == 4:
            return self.rng.integers(0, 256, -(-elements // 2)).astype(np.uint8)
        if isinstance(fmt, FloatFormat):
            values = (self.rng.integers(-8, 9, elements) / 4).astype(fmt.dtype)
            return np.array(to_bits(values, fmt))
        return np.array(to_bits(fmt.wrap(self.rng.integers(1, 8, elements)), fmt))


def _is_free_integer(parameter: _Parameter) -> bool:
    is_integer = isinstance(parameter.type, builtin.IntegerType)
    return is_integer and parameter.value is None


def _tile_extents(view: ct.MakeTensorViewOp) -> list[int]:
    """For every dim a tile and a half of the largest tile that accesses go by, or a few."""
    rank = len(view.result.type.shape)  # type: ignore[attr-defined]
    extents = [3] * rank
    stack = [view.result]
    while stack:
        for use in stack.pop().uses:
            op = use.operation
            if isinstance(op, ct.AssumeOp):
                stack.append(op.results[0])
                continue
            type_: Any = op.results[0].type if op.results else None
            tile = getattr(type_, "tile_shape", None)
            if tile is None:
                continue
            dims = getattr(type_, "dim_map", range(rank))
            for extent, dim in zip(tile, dims):
                extents[dim] = max(extents[dim], extent + extent // 2)
    return extents


def _aligned(value: int, divisor: int) -> int:
    return -(-value // divisor) * divisor


def make_arguments(entry: ct.EntryOp, seed: int = 0) -> list[Any]:
    """Arguments for an entry; ValueError if they would be too large."""
    return _Maker(entry, np.random.default_rng(seed)).make()
