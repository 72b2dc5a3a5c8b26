"""Random small Tile IR programs whose results are exact, in any order of evaluation.

Integers wrap. Floats hold whole numbers whose size is tracked, so that no operation rounds: every
sum may be reassociated and every product fused, and still the answer is one. A seed gives the same
program on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    IntegerType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute

from tests.kernels.exact_program import BLOCKS, EXACT_UP_TO, INPUT_SIZE, Held, Program
from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNSIGNED, Kernel, rounding
from tests.kernels.view_kernels import load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    PaddingValue,
    PaddingValueAttr,
)
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PartitionViewType, PointerType, TensorViewType
from tileiras.dialects.cuda_tile.types import TileType as Tile
from tileiras.interpreter.formats import format_of, to_bits

i1, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
INTEGERS = (i8, i16, i32, i64)
INPUT_COUNT = 4
MAX_ELEMENTS = 1024
PAD = PaddingValueAttr(PaddingValue.ZERO)

Step = tuple[Callable[[], Held | None], int]
"""Adds an operation, or does nothing where no tile suits it; and its weight."""


def make_program(seed: int) -> Program:
    """The program of a seed."""
    return Generator(seed).program()


def _predicate(name: str) -> ComparisonPredicateAttr:
    return ComparisonPredicateAttr(ComparisonPredicate(name))


class Generator:
    """Adds random operations to a kernel; `live` are the tiles that later operations may use."""

    leaves_index_space = True
    """Whether views are read outside of their index space, which the specification leaves open:
    here padding comes from there."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = random.Random(seed)
        floats = tuple(EXACT_UP_TO)
        self.input_types = [
            self.random.choice(floats if number % 2 else INTEGERS) for number in range(INPUT_COUNT)
        ]
        self.input_counts = [0] * INPUT_COUNT
        self.kernel = Kernel(*map(PointerType, self.input_types))
        self.live: list[Held] = []
        self.block_id = self.kernel.add(ct.GetTileBlockIdOp, [], [Tile(i32)] * 3)[0]

    def program(self) -> Program:
        """Loads, computes, stores every tile that nothing uses."""
        for number in range(INPUT_COUNT):
            self.live.append(self.load(number))
        choices, weights = zip(*self.steps())
        for _ in range(self.random.randrange(4, 14)):
            held = self.random.choices(choices, weights)[0]()
            if held is not None:
                self.live.append(held)
        outputs = self.outputs()
        self.kernel.add(ct.ReturnOp, [[]])
        types = [argument.type for argument in self.kernel.args]
        self.kernel.entry.properties["function_type"] = FunctionType.from_lists(types, [])
        inputs = tuple(zip(self.input_types, self.input_counts))
        return Program(self.kernel, inputs, tuple(outputs), self.seed)

    def steps(self) -> tuple[Step, ...]:
        """What a program is made of, and how often each is chosen."""
        return (
            (self.elementwise, 8),
            (self.convert, 3),
            (self.permute, 3),
            (self.reshape, 2),
            (self.broadcast, 3),
            (self.fold, 4),
            (self.slice_or_join, 3),
            (self.iota, 1),
            (self.product, 2),
            (self.loop, 3),
            (self.branch, 1),
        )

    def outputs(self) -> list[tuple[Attribute, int]]:
        """Stores every tile that nothing uses; element types and lengths of the output arrays."""
        unused = [held for held in self.live if held.value.first_use is None]
        return [self.store(held) for held in (unused or self.live[-1:])]

    # --- memory ---------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        """Dims of a random tile."""
        left, dims = MAX_ELEMENTS, []
        for _ in range(self.random.choice((1, 1, 2, 2, 2, 3, 4))):
            size = self.random.choice([s for s in (1, 2, 4, 8, 16, 32, 64, 128) if s <= left])
            dims.append(size)
            left //= size
        return tuple(dims)

    def load(self, number: int) -> Held:
        """A tile of an input: by pointers, or through a view that it may hang over."""
        shape, pointer = self.shape(), self.kernel.args[number]
        count = int(np.prod(shape))
        if self.random.random() < 0.5:
            value = self.kernel.load(self.advanced(pointer, count), shape)
            self.input_counts[number] = BLOCKS * count
        else:
            view, sizes, index = self.view(pointer, shape)
            value = load_view(self.kernel, view, index)
            self.input_counts[number] = int(np.prod(sizes))
        return Held(value, INPUT_SIZE if self.input_types[number] in EXACT_UP_TO else 0)

    def store(self, held: Held) -> tuple[Attribute, int]:
        """Stores a tile into an output of its own; the output's element type and length."""
        if held.element == i1:
            wide = Tile(i32, held.shape)
            held = Held(self.kernel.add(ct.ExtIOp, [held.value], wide, signedness=UNSIGNED), 0)
        kernel, entry = self.kernel, self.kernel.block
        pointer = entry.insert_arg(Tile(PointerType(held.element)), len(entry.args))
        count = int(np.prod(held.shape))
        if self.random.random() < 0.5 or not held.shape:
            kernel.store(self.advanced(pointer, count), held.value)
            return held.element, BLOCKS * count
        view, sizes, index = self.view(pointer, held.shape)
        store_view(kernel, held.value, view, index)
        return held.element, int(np.prod(sizes))

    def advanced(self, pointer: Any, count: int) -> Any:
        """This block's part of an array."""
        step = self.kernel.constant(i32, count)
        distance = self.kernel.add(
            ct.MulIOp, [self.block_id, step], Tile(i32), overflow=NO_OVERFLOW
        )
        return self.kernel.add(ct.OffsetOp, [pointer, distance], pointer.type)

    def view(self, pointer: Any, shape: Sequence[int]) -> tuple[Any, list[int], list[Any]]:
        """A partition view with ragged edges, the sizes of its array, this block's index."""
        sizes = [self.random.randint(max(1, size // 2), size) for size in shape]
        sizes[0] = self.random.randint(shape[0] + 1, BLOCKS * shape[0])
        strides = [int(np.prod(sizes[dim + 1 :], dtype=np.int64)) for dim in range(len(sizes))]
        element = pointer.type.element_type.pointee
        type_ = TensorViewType(element, tuple(sizes), tuple(strides))
        parts = PartitionViewType(tuple(shape), type_, tuple(range(len(sizes))), PAD)
        base = tensor_view(self.kernel, pointer, type_)
        zero = self.kernel.constant(i32, 0)
        index = [self.block_id, *[zero] * (len(sizes) - 1)]
        return self.kernel.add(ct.MakePartitionViewOp, [base], parts), sizes, index

    # --- one operation each; None where the chosen tile does not suit it ---------------------

    def pick(self, accepts: Callable[[Held], bool] = lambda held: True) -> Held | None:
        """A live tile, rather a late one."""
        suitable = [held for held in self.live if accepts(held)]
        if not suitable:
            return None
        return self.random.choice(suitable[-4:] if self.random.random() < 0.7 else suitable)

    def like(self, held: Held) -> Held:
        """A live tile of the same type, or a constant."""
        other = self.pick(lambda tile: tile.value.type == held.value.type)
        if other is not None and (other is not held or self.random.random() < 0.3):
            return other
        number = self.random.randint(
            0 if held.element == i1 else -3, 1 if held.element == i1 else 3
        )
        value = self.kernel.constant(held.element, number, held.shape)
        return Held(value, 3 if held.is_float else 0)

    def elementwise(self) -> Held | None:
        """Arithmetic, logic, comparison with selection."""
        held = self.pick()
        return None if held is None else self.combined(held, self.like(held))

    def combined(self, a: Held, b: Held, limit: int | None = None) -> Held:
        """A tile of the type of both, whose floats do not exceed `limit`."""
        type_, add = a.value.type, self.kernel.add
        if self.random.random() < 0.2:
            return Held(
                add(ct.SelectOp, [self.compared(a, b), a.value, b.value], type_),
                max(a.size, b.size),
            )
        if a.is_float:
            return self.combined_floats(a, b, limit or EXACT_UP_TO[a.element])
        if a.element == i1:
            op = self.random.choice((ct.AndIOp, ct.OrIOp, ct.XOrIOp))
            return Held(add(op, [a.value, b.value], type_), 0)
        sign = {"signedness": self.random.choice((SIGNED, UNSIGNED))}
        wraps = {"overflow": NO_OVERFLOW}
        ops: tuple[tuple[Any, dict[str, Any]], ...] = (
            (ct.AddIOp, wraps),
            (ct.SubIOp, wraps),
            (ct.MulIOp, wraps),
            (ct.MinIOp, sign),
            (ct.MaxIOp, sign),
            (ct.AndIOp, {}),
            (ct.OrIOp, {}),
            (ct.XOrIOp, {}),
            (ct.ShRIOp, sign),
            (ct.RemIOp, sign),
            (ct.NegIOp, wraps),
        )
        op, properties = self.random.choice(ops)
        operands = [a.value, b.value]
        if op in (ct.ShRIOp, ct.RemIOp):
            operands[1] = self.kernel.constant(a.element, self.random.randint(1, 7), a.shape)
        if op is ct.NegIOp:
            operands.pop()
        return Held(add(op, operands, type_, **properties), 0)

    def combined_floats(self, a: Held, b: Held, limit: int) -> Held:
        """Sums and products where they stay exact, else extremes."""
        type_, operands = a.value.type, [a.value, b.value]
        ops: list[tuple[Any, dict[str, Any], int]] = [
            (ct.AddFOp, {"rounding_mode": rounding()}, a.size + b.size),
            (ct.SubFOp, {"rounding_mode": rounding()}, a.size + b.size),
            (ct.MulFOp, {"rounding_mode": rounding()}, a.size * b.size),
            (ct.FmaOp, {"rounding_mode": rounding()}, a.size * b.size + a.size),
            (ct.MinFOp, {}, max(a.size, b.size)),
            (ct.MaxFOp, {}, max(a.size, b.size)),
            (ct.NegFOp, {}, a.size),
            (ct.AbsFOp, {}, a.size),
        ]
        fitting = [choice for choice in ops if choice[2] <= limit] or ops[-1:]
        op, properties, size = self.random.choice(fitting)
        if op is ct.FmaOp:
            operands.append(a.value)
        if op in (ct.NegFOp, ct.AbsFOp):
            operands.pop()
        return Held(self.kernel.add(op, operands, type_, **properties), size)

    def compared(self, a: Held, b: Held) -> Any:
        """An i1 tile."""
        result = Tile(i1, a.shape)
        predicate = _predicate(self.random.choice(("less_than", "equal", "greater_than_or_equal")))
        operands = [a.value, b.value]
        if not a.is_float:
            sign = self.random.choice((SIGNED, UNSIGNED))
            return self.kernel.add(
                ct.CmpIOp, operands, result, comparison_predicate=predicate, signedness=sign
            )
        ordering = ComparisonOrderingAttr(ComparisonOrdering.ORDERED)
        return self.kernel.add(
            ct.CmpFOp,
            operands,
            result,
            comparison_predicate=predicate,
            comparison_ordering=ordering,
        )

    def convert(self) -> Held | None:
        """To another element type, without rounding."""
        held = self.pick()
        if held is None:
            return None
        add, value, shape = self.kernel.add, held.value, held.shape
        if held.is_float:
            exact = [t for t in EXACT_UP_TO if EXACT_UP_TO[t] >= held.size and t != held.element]
            if exact and self.random.random() < 0.6:
                result = Tile(self.random.choice(exact), shape)
                return Held(add(ct.FToFOp, [value], result, rounding_mode=rounding()), held.size)
            result = Tile(i64 if held.size >= 2**31 else self.random.choice((i32, i64)), shape)
            mode = rounding("nearest_int_to_zero")
            return Held(add(ct.FToIOp, [value], result, signedness=SIGNED, rounding_mode=mode), 0)
        width = held.element.width.data  # pyright: ignore
        if width == 8 and self.random.random() < 0.5:
            result = Tile(self.random.choice((f16, f32, f64)), shape)
            properties = {"signedness": SIGNED, "rounding_mode": rounding()}
            return Held(add(ct.IToFOp, [value], result, **properties), 128)
        other = self.random.choice([t for t in INTEGERS if t != held.element])
        if other.width.data < width:
            return Held(add(ct.TruncIOp, [value], Tile(other, shape), overflow=NO_OVERFLOW), 0)
        sign = self.random.choice((SIGNED, UNSIGNED))
        return Held(add(ct.ExtIOp, [value], Tile(other, shape), signedness=sign), 0)

    def permute(self) -> Held | None:
        """The dims in another order."""
        held = self.pick(lambda tile: len(tile.shape) > 1)
        if held is None:
            return None
        order = self.random.sample(range(len(held.shape)), len(held.shape))
        result = Tile(held.element, [held.shape[dim] for dim in order])
        attribute = DenseArrayBase.from_list(i32, order)
        return Held(
            self.kernel.add(ct.PermuteOp, [held.value], result, permutation=attribute), held.size
        )

    def reshape(self) -> Held | None:
        """The same elements in other dims."""
        held = self.pick()
        if held is None:
            return None
        left, dims = int(np.prod(held.shape, dtype=np.int64)), []
        for _ in range(self.random.randrange(3)):
            size = 1 << self.random.randrange(left.bit_length())
            dims.append(size)
            left //= size
        dims.insert(self.random.randrange(len(dims) + 1), left)
        return Held(
            self.kernel.add(ct.ReshapeOp, [held.value], Tile(held.element, dims)), held.size
        )

    def broadcast(self) -> Held | None:
        """A new dim or dims of one element repeated."""
        held = self.pick(lambda tile: int(np.prod(tile.shape)) <= MAX_ELEMENTS // 2)
        if held is None:
            return None
        value, shape = held.value, list(held.shape)
        if 1 not in shape:
            shape.insert(self.random.randrange(len(shape) + 1), 1)
            value = self.kernel.add(ct.ReshapeOp, [value], Tile(held.element, shape))
        left = MAX_ELEMENTS // int(np.prod(shape))
        dim = self.random.choice([dim for dim, size in enumerate(shape) if size == 1])
        shape[dim] = self.random.choice([s for s in (2, 4, 8, 16, 64) if s <= left])
        return Held(self.kernel.add(ct.BroadcastOp, [value], Tile(held.element, shape)), held.size)

    def fold(self) -> Held | None:
        """A reduction or a scan along one dim."""
        held = self.pick(lambda tile: len(tile.shape) > 0 and tile.element != i1)
        if held is None:
            return None
        dim = self.random.randrange(len(held.shape))
        type_ = held.element
        body, identity, size = self.folding(held, held.shape[dim])
        properties: dict[str, Any] = {
            "dim": IntegerAttr(dim, i32),
            "identities": ArrayAttr([identity]),
        }
        is_scan = self.random.random() < 0.35
        shape = [s for d, s in enumerate(held.shape) if is_scan or d != dim]
        if is_scan:
            properties["reverse"] = IntegerAttr(self.random.randrange(2), i1)
        region = self.kernel.region(
            [Tile(type_), Tile(type_)],
            lambda a, b: self.kernel.add(
                ct.YieldOp, [[self.kernel.add(body[0], [a, b], Tile(type_), **body[1])]]
            ),
        )
        op = ct.ScanOp if is_scan else ct.ReduceOp
        result = self.kernel.add(op, [[held.value]], [[Tile(type_, shape)]], [region], **properties)
        return Held(result, size)

    def folding(self, held: Held, count: int) -> tuple[tuple[Any, Any], Attribute, int]:
        """A body's operation with its properties, the identity, the size of the result."""
        if held.is_float:
            sum_size = held.size * count
            if sum_size <= EXACT_UP_TO[held.element] and self.random.random() < 0.7:
                zero = FloatBitsAttr(0, held.element)
                return (ct.AddFOp, {"rounding_mode": rounding()}), zero, sum_size
            fmt = format_of(held.element)
            bits = int(to_bits(np.array([-np.inf]).astype(fmt.dtype), fmt)[0])
            return (ct.MaxFOp, {}), FloatBitsAttr(bits, held.element), held.size
        width = held.element.width.data  # pyright: ignore
        choices = (
            ((ct.AddIOp, {"overflow": NO_OVERFLOW}), 0),
            ((ct.MulIOp, {"overflow": NO_OVERFLOW}), 1),
            ((ct.XOrIOp, {}), 0),
            ((ct.AndIOp, {}), -1),
            ((ct.MaxIOp, {"signedness": SIGNED}), -(2 ** (width - 1))),
            ((ct.MinIOp, {"signedness": SIGNED}), 2 ** (width - 1) - 1),
        )
        body, identity = self.random.choice(choices)
        return body, IntegerAttr(identity, held.element), 0

    def slice_or_join(self) -> Held | None:
        """A part of a tile, or two tiles side by side."""
        held = self.pick(lambda tile: len(tile.shape) > 0)
        if held is None:
            return None
        dim = self.random.randrange(len(held.shape))
        shape = list(held.shape)
        if shape[dim] > 1 and self.random.random() < 0.6:
            parts = self.random.choice([p for p in (2, 4) if p <= shape[dim]])
            shape[dim] //= parts
            index = [self.kernel.constant(i32, 0) for _ in shape]
            index[dim] = self.block_id
            result = Tile(held.element, shape)
            return Held(self.kernel.add(ct.ExtractOp, [held.value, index], result), held.size)
        if 2 * int(np.prod(shape)) > MAX_ELEMENTS:
            return None
        other = self.like(held)
        shape[dim] *= 2
        value = self.kernel.add(
            ct.CatOp,
            [held.value, other.value],
            Tile(held.element, shape),
            dim=IntegerAttr(dim, i64),
        )
        return Held(value, max(held.size, other.size))

    def iota(self) -> Held:
        """0, 1, 2..."""
        type_ = Tile(self.random.choice((i32, i64)), (2 ** self.random.randrange(9),))
        return Held(self.kernel.add(ct.IotaOp, [], type_), 0)

    def product(self) -> Held | None:
        """A matrix product of a float tile with its own transpose, summed in f32."""
        held = self.pick(
            lambda tile: (
                tile.element in (f16, bf16, f32)
                and len(tile.shape) == 2
                and tile.shape[0] <= 32
                and tile.size <= 2**8
                and tile.size**2 * tile.shape[1] <= EXACT_UP_TO[f32]
            )
        )
        if held is None:
            return None
        rows, columns = held.shape
        swapped = self.kernel.add(
            ct.PermuteOp,
            [held.value],
            Tile(held.element, (columns, rows)),
            permutation=DenseArrayBase.from_list(i32, [1, 0]),
        )
        zero = self.kernel.constant(f32, 0, (rows, rows))
        result = self.kernel.add(ct.MmaFOp, [held.value, swapped, zero], Tile(f32, (rows, rows)))
        return Held(result, held.size**2 * columns)

    # --- control flow -----------------------------------------------------------------------

    def loop(self) -> Held | None:
        """A loop that carries a tile; how often it runs depends on the block."""
        start = self.pick()
        if start is None:
            return None
        times, load = self.random.randrange(3), self.loop_load(start)
        if load is None:
            tile = self.pick(lambda tile: tile.value.type == start.value.type)
            size = INPUT_SIZE if tile is None else tile.size
        else:
            tile, size = None, INPUT_SIZE
        most = start.size + (times + 1) * size
        adds = start.is_float and (load or tile) and most <= EXACT_UP_TO[start.element]
        limit = most if adds else start.size
        type_ = start.value.type

        def body(index: Any, carried: Any) -> None:
            outside = list(self.live)
            held = Held(carried, limit)
            self.live.append(held)
            other = load(index, times) if load is not None else tile
            if adds and other is not None:
                operands = [carried, other.value]
                result = self.kernel.add(ct.AddFOp, operands, type_, rounding_mode=rounding())
            else:
                other = other or self.like(held)
                fits = other if other.size <= limit else held
                result = self.combined(held, fits, max(limit, 1)).value
            self.live = outside
            self.kernel.add(ct.ContinueOp, [[result]])

        region = self.kernel.region([Tile(i32), type_], body)
        first, one = self.kernel.constant(i32, -times), self.kernel.constant(i32, 1)
        bounds = [first, self.block_id, one]
        result = self.kernel.add(ct.ForOp, [*bounds, [start.value]], [[type_]], [region])
        return Held(result, limit)

    def loop_load(self, like: Held) -> Callable[[Any, int], Held] | None:
        """Sometimes: what loads a tile of an input in each round, perhaps from outside of it."""
        numbers = [n for n, element in enumerate(self.input_types) if element == like.element]
        if not numbers or not like.shape or self.random.random() < 0.3:
            return None
        number = self.random.choice(numbers)
        view, sizes, index = self.view(self.kernel.args[number], like.shape)
        self.input_counts[number] = max(self.input_counts[number], int(np.prod(sizes)))

        def load(round_: Any, start: int) -> Held:
            first = self.kernel.constant(i32, start)
            operands = [round_, first]
            place = self.kernel.add(ct.AddIOp, operands, Tile(i32), overflow=NO_OVERFLOW)
            if not self.leaves_index_space:
                last = self.kernel.constant(i32, BLOCKS - 1)
                place = self.kernel.add(ct.AndIOp, [place, last], Tile(i32))
            value = load_view(self.kernel, view, [place, *index[1:]])
            return Held(value, INPUT_SIZE if like.is_float else 0)

        return load

    def branch(self) -> Held | None:
        """One of two tiles, made in the branches."""
        held = self.pick(lambda tile: tile.element != i1)
        if held is None:
            return None
        other, type_ = self.like(held), held.value.type
        sizes = []

        def body() -> None:
            made = self.combined(held, other)
            sizes.append(made.size)
            self.kernel.add(ct.YieldOp, [[made.value]])

        zero = self.kernel.constant(i32, 0)
        is_first = self.kernel.add(
            ct.CmpIOp,
            [self.block_id, zero],
            Tile(i1),
            comparison_predicate=_predicate("equal"),
            signedness=SIGNED,
        )
        regions = [self.kernel.region([], body), self.kernel.region([], body)]
        result = self.kernel.add(ct.IfOp, [is_first], [[type_]], regions)
        return Held(result, max(sizes))
