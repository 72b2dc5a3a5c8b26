"""Builds small cuda_tile programs and runs them on Python integers, recording every value.

Elements are kept as signed integers of their width (0 or 1 for i1), pointers as 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, IntegerType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.typed_facts import pointee_bytes
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    BoundedAttr,
    ComparisonPredicate,
    DivByAttr,
    IntegerOverflow,
    RoundingMode,
    SameElementsAttr,
    Signedness,
)
from tileiras.dialects.cuda_tile.types import PointerType, TileType

Array = np.ndarray[Any, Any]
ENDS = (ct.YieldOp, ct.ReturnOp, ct.BreakOp, ct.ContinueOp)


class Undefined(Exception):
    """The program did something that has no meaning (division by zero, a broken assumption)."""


class LoopLeft(Exception):
    """A `break` or `continue` on its way to its loop."""

    def __init__(self, op: Operation, values: list[Array]):
        super().__init__(op.name)
        self.op = op
        self.values = values


def int_tile(width: int, shape: Sequence[int] = ()) -> TileType:
    """A tile of integers."""
    return TileType(IntegerType(width), shape)


def entry_of(arguments: Sequence[Attribute], block: Block) -> ct.EntryOp:
    """An entry around a block whose arguments have these types."""
    return ct.EntryOp.create(
        properties={
            "sym_name": StringAttr("kernel"),
            "function_type": FunctionType.from_lists(list(arguments), []),
        },
        regions=[Region(block)],
    )


def width_of(value: SSAValue) -> int:
    """Bits of an element; 64 for pointers."""
    element = value.type.element_type
    return element.width.data if isinstance(element, IntegerType) else 64


def wrapped(values: Array, width: int) -> Array:
    """Elements as they are stored in `width` bits."""
    if width == 1:
        return values & 1
    half = 1 << (width - 1)
    return ((values + half) & ((1 << width) - 1)) - half


def reading(values: Array, width: int, signed: bool) -> Array:
    """Elements read as signed or unsigned integers."""
    if signed:
        return -values if width == 1 else values
    return values & ((1 << width) - 1)


def objects(values: Any, shape: Sequence[int]) -> Array:
    """An array of Python integers."""
    return np.array(values, dtype=object).reshape(tuple(shape))


def is_nsw(overflow: Any) -> bool:
    """Whether signed overflow is excluded."""
    return overflow.data in (IntegerOverflow.NO_SIGNED_WRAP, IntegerOverflow.NO_WRAP)


class Machine:
    """Runs a program; `seen` holds every array that each value was, in order."""

    def __init__(self, max_steps: int = 400):
        self.seen: dict[SSAValue, list[Array]] = {}
        self.now: dict[SSAValue, Array] = {}
        self.steps_left = max_steps

    def set(self, value: SSAValue, array: Array) -> None:
        self.now[value] = array
        self.seen.setdefault(value, []).append(array)

    def run_entry(self, entry: ct.EntryOp, arguments: Sequence[int]) -> None:
        block = entry.body.blocks[0]
        for argument, number in zip(block.args, arguments):
            self.set(argument, objects(number, ()))
        self.run_block(block)

    def run_block(self, block: Block) -> list[Array]:
        """The operands of the `yield` or `return` that ends the block."""
        for op in block.ops:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Undefined("too long")
            inputs = [self.now[value] for value in op.operands if value in self.now]
            is_defined = len(inputs) == len(op.operands)
            if op.regions or isinstance(op, ENDS):
                if not is_defined:
                    raise Undefined(op.name)
                if isinstance(op, ct.YieldOp | ct.ReturnOp):
                    return inputs
                if isinstance(op, ct.BreakOp | ct.ContinueOp):
                    raise LoopLeft(op, inputs)
                arrays = self.region_results(op, inputs)
            else:
                arrays = straight_results(op, inputs) if is_defined else []
            self.set_results(op, arrays)
        return []

    def set_results(self, op: Operation, arrays: list[Array]) -> None:
        """Results of an operation; without arrays they have no value (any more)."""
        if not arrays:
            for result in op.results:
                self.now.pop(result, None)
            return
        for result, array in zip(op.results, arrays, strict=True):
            shape, array = result.type.shape, np.asarray(array, dtype=object)
            assert array.shape == shape or (shape == () and array.size == 1)
            self.set(result, array.reshape(shape))

    def region_results(self, op: Operation, inputs: list[Array]) -> list[Array]:
        match op:
            case ct.IfOp():
                region = op.then_region if inputs[0][()] else op.else_region
                return self.run_block(region.blocks[0])
            case ct.ForOp():
                return self.run_for(op, inputs)
            case ct.LoopOp():
                return self.run_loop(op, inputs)
        raise AssertionError(op.name)

    def run_for(self, op: ct.ForOp, inputs: list[Array]) -> list[Array]:
        at, end, step = (int(array[()]) for array in inputs[:3])
        if step <= 0:
            raise Undefined("step")
        carried = inputs[3:]
        block = op.body.blocks[0]
        while at < end:
            self.set(block.args[0], objects(at, ()))
            carried = self.run_iteration(block, carried, block.args[1:])[1]
            at += step
        return carried

    def run_loop(self, op: ct.LoopOp, inputs: list[Array]) -> list[Array]:
        block = op.body.blocks[0]
        while True:
            ended, inputs = self.run_iteration(block, inputs, block.args)
            if ended:
                return inputs

    def run_iteration(
        self, block: Block, carried: list[Array], values: Sequence[SSAValue]
    ) -> tuple[bool, list[Array]]:
        for value, array in zip(values, carried, strict=True):
            self.set(value, array)
        try:
            self.run_block(block)
        except LoopLeft as left:
            return isinstance(left.op, ct.BreakOp), left.values
        raise AssertionError("a loop body ends in break or continue")


def straight_results(op: Operation, inputs: list[Array]) -> list[Array]:
    """Results of an operation without regions; none where they are undefined."""
    if isinstance(op, ct.GetTileBlockIdOp):
        return [objects(number, ()) for number in (0, 3, (1 << 24) - 2)]
    try:
        return [elementwise_result(op, inputs)]
    except Undefined:
        return []


def elementwise_result(op: Operation, inputs: list[Array]) -> Array:
    """The result of an operation without regions and with one result.

    Rank 0 becomes rank 1 on the way: numpy turns object arrays of rank 0 into machine numbers.
    """
    inputs = [np.atleast_1d(array) for array in inputs]
    result = op.results[0]
    shape, width = result.type.shape, width_of(result)
    match op:
        case ct.ConstantOp():
            raw, size = op.value.raw.data, (width + 7) // 8
            numbers = [
                int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)
            ]
            count = int(np.prod(shape, dtype=int))
            return wrapped(objects(numbers * (count if len(numbers) == 1 else 1), shape), width)
        case ct.IotaOp():
            return wrapped(objects(range(shape[0]), shape), width)
        case ct.ReshapeOp():
            return inputs[0].reshape(shape)
        case ct.BroadcastOp():
            return np.broadcast_to(inputs[0], shape or (1,))
        case ct.PermuteOp():
            return inputs[0].transpose(op.permutation.get_values())
        case ct.CatOp():
            return np.concatenate(inputs, axis=op.dim.value.data)
        case ct.ExtractOp():
            return extracted(inputs[0], [int(index[0]) for index in inputs[1:]], shape)
        case ct.SelectOp():
            return np.where(inputs[0] != 0, inputs[1], inputs[2])
        case ct.AssumeOp():
            check_assumption(op, inputs[0], width)
            return inputs[0]
        case ct.OffsetOp():
            size = pointee_bytes(result.type.element_type.pointee)
            return wrapped(inputs[0] + inputs[1] * size, 64)
        case ct.PtrToIntOp() | ct.IntToPtrOp() | ct.PtrToPtrOp():
            return inputs[0]
        case ct.ExtIOp():
            signed = op.signedness.data is Signedness.SIGNED
            return wrapped(reading(inputs[0], width_of(op.source), signed), width)
        case ct.TruncIOp():
            return flagged(op, reading(inputs[0], width_of(op.source), True), width)
        case _:
            return arithmetic_result(op, inputs, width_of(op.operands[0]))


def extracted(source: Array, indices: list[int], shape: tuple[int, ...]) -> Array:
    """One slice of a grid of slices."""
    slices = []
    for index, size, whole in zip(indices, shape, source.shape):
        if not 0 <= index < whole // size:
            raise Undefined("slice index")
        slices.append(slice(index * size, (index + 1) * size))
    return source[tuple(slices)]


def flagged(op: Any, values: Array, width: int) -> Array:
    """A result in `width` bits, undefined if the operation promises that it fits."""
    result = wrapped(values, width)
    if is_nsw(op.overflow) and np.any(reading(result, width, True) != values):
        raise Undefined("overflow")
    return result


def arithmetic_result(op: Operation, inputs: list[Array], width: int) -> Array:
    """Integer arithmetic, comparison and bitwise operations."""
    signed = getattr(op, "signedness", None) is None or op.signedness.data is Signedness.SIGNED
    values = [reading(array, width, signed) for array in inputs]
    match op:
        case ct.AddIOp():
            return flagged(op, values[0] + values[1], width)
        case ct.SubIOp():
            return flagged(op, values[0] - values[1], width)
        case ct.MulIOp():
            return flagged(op, values[0] * values[1], width)
        case ct.NegIOp():
            return flagged(op, -values[0], width)
        case ct.AbsIOp():
            return wrapped(np.abs(values[0]), width)
        case ct.MulhiIOp():
            left, right = (reading(array, width, False) for array in inputs)
            return wrapped((left * right) >> width, width)
        case ct.DivIOp() | ct.RemIOp():
            return division_result(op, values[0], values[1], width)
        case ct.MinIOp():
            return wrapped(np.minimum(values[0], values[1]), width)
        case ct.MaxIOp():
            return wrapped(np.maximum(values[0], values[1]), width)
        case ct.CmpIOp():
            return compared(op.comparison_predicate.data, values[0], values[1])
        case ct.AndIOp():
            return inputs[0] & inputs[1]
        case ct.OrIOp():
            return inputs[0] | inputs[1]
        case ct.XOrIOp():
            return inputs[0] ^ inputs[1]
        case ct.ShLIOp() | ct.ShRIOp():
            amounts = reading(inputs[1], width, False)
            if np.any(amounts >= width):
                raise Undefined("shift")
            if isinstance(op, ct.ShRIOp):
                return wrapped(values[0] >> amounts, width)
            return flagged(op, values[0] << amounts, width)
    raise AssertionError(op.name)


def division_result(op: Any, left: Array, right: Array, width: int) -> Array:
    """Quotient or remainder; truncated unless the rounding says otherwise."""
    if np.any(right == 0):
        raise Undefined("division by zero")
    quotient = np.abs(left) // np.abs(right)
    truncated = np.where((left < 0) != (right < 0), -quotient, quotient)
    if isinstance(op, ct.RemIOp):
        return wrapped(left - truncated * right, width)
    rounded = {
        RoundingMode.ZERO: truncated,
        RoundingMode.NEGATIVE_INF: left // right,
        RoundingMode.POSITIVE_INF: -(-left // right),
    }[op.rounding.data]
    signed = op.signedness.data is Signedness.SIGNED
    result = wrapped(rounded, width)
    if np.any(reading(result, width, signed) != rounded):
        raise Undefined("overflow")
    return result


def compared(predicate: ComparisonPredicate, left: Array, right: Array) -> Array:
    """An i1 tile."""
    answer = {
        ComparisonPredicate.EQUAL: left == right,
        ComparisonPredicate.NOT_EQUAL: left != right,
        ComparisonPredicate.LESS_THAN: left < right,
        ComparisonPredicate.LESS_THAN_OR_EQUAL: left <= right,
        ComparisonPredicate.GREATER_THAN: left > right,
        ComparisonPredicate.GREATER_THAN_OR_EQUAL: left >= right,
    }[predicate]
    return np.asarray(answer, dtype=object) + 0


def check_assumption(op: ct.AssumeOp, values: Array, width: int) -> None:
    """Raises Undefined unless the predicate holds."""
    match op.predicate:
        case BoundedAttr(lb=lower, ub=upper):
            low, high = getattr(lower, "data", None), getattr(upper, "data", None)
            signed = reading(values, width, True)
            holds = (low is None or np.all(signed >= low)) and (
                high is None or np.all(signed <= high)
            )
        case SameElementsAttr(values=groups):
            holds = all(
                equal_in_groups(values, dim, group) for dim, group in enumerate(groups.data)
            )
        case DivByAttr(divisor=divisor, every=every, along=along):
            if not hasattr(every, "data"):
                holds = np.all(values % divisor.data == 0)
            else:
                element = op.value.type.element_type
                step = pointee_bytes(element.pointee) if isinstance(element, PointerType) else 1
                holds = divisible_groups(values, divisor.data, every.data, along.data, step, width)
        case _:
            raise AssertionError("predicate")
    if not holds:
        raise Undefined("assumption")


def equal_in_groups(values: Array, dim: int, group: int) -> bool:
    """Whether groups along a dim hold equal elements."""
    if group == 0:
        return True
    along = np.moveaxis(values, dim, 0)
    return all(np.all(along[i] == along[i - i % group]) for i in range(len(along)))


def divisible_groups(
    values: Array, divisor: int, every: int, dim: int, step: int, width: int
) -> bool:
    """Whether groups along a dim start at a multiple of `divisor` and go up in steps."""
    if every == 0:
        return True
    along = np.moveaxis(values, dim, 0)
    for i in range(len(along)):
        expected = wrapped(along[i - i % every] + step * (i % every), width)
        if np.any(along[i] != expected) or np.any(along[i - i % every] % divisor):
            return False
    return True
