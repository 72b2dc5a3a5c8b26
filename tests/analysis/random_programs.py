"""Random cuda_tile programs of the operations that the fact analysis knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tile_programs import entry_of, int_tile, width_of
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerAttr, NoneAttr, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile import attributes as at
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType

WIDTHS = (8, 16, 32, 64)

SHAPES = ((), (1,), (8,), (16,), (4, 8), (1, 8), (4, 1), (1, 1), (2, 2, 4))
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 32, 64, 100, 127, -1, -2, -4, -7, -8, -16, -128)
BINARY = (ct.AddIOp, ct.SubIOp, ct.MulIOp, ct.DivIOp, ct.RemIOp, ct.MinIOp, ct.MaxIOp)
BITWISE = (ct.AndIOp, ct.OrIOp, ct.XOrIOp, ct.ShLIOp, ct.ShRIOp, ct.MulhiIOp)
DIVISORS = (1, 2, 4, 8, 16)
NONE = NoneAttr()


class ProgramBuilder:
    """Adds random operations to a block, on values of the blocks around it."""

    def __init__(self, random: Random, block: Block, values: Sequence[SSAValue]):
        self.random = random
        self.block = block
        self.values = list(values)

    def add(self, op: Operation) -> SSAValue | None:
        """Adds an operation; returns its first result."""
        self.block.add_op(op)
        self.values += op.results
        return op.results[0] if op.results else None

    def of(self, accept: Callable[[SSAValue], bool]) -> SSAValue | None:
        """A value that is accepted, often a recent one."""
        fitting = [value for value in self.values if accept(value)]
        if not fitting:
            return None
        if self.random.random() < 0.6:
            fitting = fitting[-3:]
        return self.random.choice(fitting)

    def integer(self, rank: int | None = None) -> SSAValue | None:
        """An integer tile, of one rank if given."""
        return self.of(lambda v: not is_pointer(v) and (rank is None or len(v.type.shape) == rank))

    def like(self, other: SSAValue) -> SSAValue:
        """A value of the same type: an existing one or a new constant."""
        choice = self.random.random()
        if choice < 0.3:
            return self.constant(other.type)
        if choice < 0.6 and other.type.element_type.width.data > 1:
            return self.pattern(other.type)
        return self.of(lambda v: v.type == other.type) or other

    def constant(self, type_: TileType) -> SSAValue:
        """A splat or, rarely, a tile of random numbers."""
        size = (type_.element_type.width.data + 7) // 8
        count = type_.num_elements if self.random.random() < 0.15 else 1
        numbers = [self.random.choice(NUMBERS) for _ in range(count)]
        if type_.element_type.width.data == 1:
            numbers = [number & 1 for number in numbers]
        raw = b"".join((n & ((1 << 8 * size) - 1)).to_bytes(size, "little") for n in numbers)
        op = ct.ConstantOp.create(properties={"value": DenseAttr(type_, raw)}, result_types=[type_])
        result = self.add(op)
        assert result is not None
        return result

    def grow(self, count: int, depth: int = 2) -> None:
        """Adds `count` random steps."""
        steps = [self.arithmetic] * 6 + [self.shape_change] * 4 + [self.iota, self.assumption]
        steps += [self.comparison, self.selection, self.resizing, self.pointer, self.pointer]
        steps += [self.splat] * 3 + [self.pattern] * 6
        if depth:
            steps += [self.branch, self.counted_loop, self.endless_loop]
        for _ in range(count):
            step = self.random.choice(steps)
            if step in (self.branch, self.counted_loop, self.endless_loop):
                step(depth - 1)
            else:
                step()

    def iota(self) -> None:
        type_ = int_tile(self.random.choice(WIDTHS), self.random.choice(((4,), (8,), (16,))))
        self.add(ct.IotaOp.create(result_types=[type_]))

    def splat(self) -> None:
        """A scalar in a larger shape, as frontends write it."""
        scalar = self.of(lambda v: v.type.shape == ())
        if scalar is None:
            return
        shape = self.random.choice(SHAPES[1:])
        element = scalar.type.element_type
        ones = TileType(element, (1,) * len(shape))
        flat = self.add(ct.ReshapeOp.create(operands=[scalar], result_types=[ones]))
        full = TileType(element, shape)
        self.add(ct.BroadcastOp.create(operands=[flat], result_types=[full]))

    def pattern(self, type_: TileType | None = None) -> SSAValue:
        """`splat(x * number)`, mostly with an iota along one dim added: what addresses are."""
        width = self.random.choice(WIDTHS) if type_ is None else type_.element_type.width.data
        shape = self.random.choice(SHAPES) if type_ is None else type_.shape
        scalar = self.of(lambda v: v.type == int_tile(width))
        scalar = scalar or self.constant(int_tile(width))
        number = self.constant(int_tile(width))
        base = self.added(self.with_flags(ct.MulIOp, [scalar, number], int_tile(width)))
        ones = int_tile(width, (1,) * len(shape))
        result = self.added(ct.ReshapeOp.create(operands=[base], result_types=[ones]))
        full = int_tile(width, shape)
        result = self.added(ct.BroadcastOp.create(operands=[result], result_types=[full]))
        if not shape or self.random.random() < 0.3:
            return result
        dim = self.random.randrange(len(shape))
        count = int_tile(width, (shape[dim],))
        run = self.added(ct.IotaOp.create(result_types=[count]))
        line = int_tile(width, [size if d == dim else 1 for d, size in enumerate(shape)])
        run = self.added(ct.ReshapeOp.create(operands=[run], result_types=[line]))
        run = self.added(ct.BroadcastOp.create(operands=[run], result_types=[full]))
        return self.added(self.with_flags(ct.AddIOp, [result, run], full))

    def added(self, op: Operation) -> SSAValue:
        """Adds an operation with one result."""
        self.add(op)
        return op.results[0]

    def arithmetic(self) -> None:
        left = self.pattern() if self.random.random() < 0.4 else self.integer()
        if left is None:
            return
        kind = self.random.choice(BINARY + BITWISE + (ct.NegIOp, ct.AbsIOp))
        if kind in (ct.NegIOp, ct.AbsIOp):
            self.add(self.with_flags(kind, [left], left.type))
            return
        operands = [left, self.like(left)]
        if self.random.random() < 0.3:
            operands.reverse()
        self.add(self.with_flags(kind, operands, left.type))

    def with_flags(self, kind: Any, operands: list[SSAValue], type_: TileType) -> Operation:
        """An operation with random signedness, rounding and overflow promises."""
        properties: dict[str, Any] = {}
        signedness = self.random.choice(list(at.Signedness))
        if kind in (ct.DivIOp, ct.RemIOp, ct.MinIOp, ct.MaxIOp, ct.ShRIOp, ct.CmpIOp, ct.ExtIOp):
            properties["signedness"] = at.SignednessAttr(signedness)
        if kind is ct.DivIOp:
            roundings = [at.RoundingMode.ZERO, at.RoundingMode.POSITIVE_INF]
            if signedness is at.Signedness.SIGNED:
                roundings.append(at.RoundingMode.NEGATIVE_INF)
            properties["rounding"] = at.RoundingModeAttr(self.random.choice(roundings))
        if kind in (ct.AddIOp, ct.SubIOp, ct.MulIOp, ct.NegIOp, ct.ShLIOp, ct.TruncIOp):
            none = self.random.random() < 0.7
            flag = at.IntegerOverflow.NONE if none else at.IntegerOverflow.NO_SIGNED_WRAP
            properties["overflow"] = at.IntegerOverflowAttr(flag)
        if kind is ct.CmpIOp:
            predicate = self.random.choice(list(at.ComparisonPredicate))
            properties["comparison_predicate"] = at.ComparisonPredicateAttr(predicate)
        return kind.create(operands=operands, properties=properties, result_types=[type_])

    def comparison(self) -> None:
        left = self.pattern() if self.random.random() < 0.4 else self.integer()
        if left is not None:
            operands = [left, self.like(left)]
            if self.random.random() < 0.3:
                operands.reverse()
            self.add(self.with_flags(ct.CmpIOp, operands, int_tile(1, left.type.shape)))

    def selection(self) -> None:
        cond = self.of(lambda v: not is_pointer(v) and width_of(v) == 1)
        left = cond and self.of(lambda v: v.type.shape == cond.type.shape)
        if cond is None or left is None:
            return
        right = left if is_pointer(left) else self.like(left)
        self.add(ct.SelectOp.create(operands=[cond, left, right], result_types=[left.type]))

    def resizing(self) -> None:
        source = self.pattern() if self.random.random() < 0.4 else self.integer()
        if source is None:
            return
        width = self.random.choice((1, *WIDTHS))
        type_ = int_tile(width, source.type.shape)
        if width != width_of(source):
            kind = ct.ExtIOp if width > width_of(source) else ct.TruncIOp
            self.add(self.with_flags(kind, [source], type_))

    def shape_change(self) -> None:
        source = self.of(lambda v: True)
        if source is None:
            return
        shape, element = source.type.shape, source.type.element_type
        match self.random.choice(("reshape", "broadcast", "permute", "cat", "extract")):
            case "reshape":
                new = self.random.choice(shapes_of_size(source.type.num_elements))
                result = TileType(element, new)
                self.add(ct.ReshapeOp.create(operands=[source], result_types=[result]))
            case "broadcast" if 1 in shape:
                dim = shape.index(1)
                result = TileType(element, (*shape[:dim], 4, *shape[dim + 1 :]))
                self.add(ct.BroadcastOp.create(operands=[source], result_types=[result]))
            case "permute" if len(shape) > 1:
                order = list(range(len(shape)))
                self.random.shuffle(order)
                self.add(
                    ct.PermuteOp.create(
                        operands=[source],
                        properties={"permutation": DenseArrayBase.from_list(i32, order)},
                        result_types=[TileType(element, [shape[dim] for dim in order])],
                    )
                )
            case "cat" if shape and source.type.num_elements <= 32:
                self.concatenation(source)
            case "extract" if shape:
                self.extraction(source)

    def concatenation(self, source: SSAValue) -> None:
        other = source if is_pointer(source) else self.like(source)
        shape = list(source.type.shape)
        dim = self.random.randrange(len(shape))
        shape[dim] *= 2
        self.add(
            ct.CatOp.create(
                operands=[source, other],
                properties={"dim": IntegerAttr(dim, i64)},
                result_types=[TileType(source.type.element_type, shape)],
            )
        )

    def extraction(self, source: SSAValue) -> None:
        shape = list(source.type.shape)
        dim = self.random.randrange(len(shape))
        if shape[dim] > 1:
            shape[dim] //= 2
            indices = [self.scalar_i32(0) for _ in shape]
            indices[dim] = self.scalar_i32(self.random.randrange(2))
            self.add(
                ct.ExtractOp.create(
                    operands=[source, *indices],
                    result_types=[TileType(source.type.element_type, shape)],
                )
            )

    def scalar_i32(self, number: int) -> SSAValue:
        value = DenseAttr(int_tile(32), number.to_bytes(4, "little"))
        op = ct.ConstantOp.create(properties={"value": value}, result_types=[int_tile(32)])
        self.block.add_op(op)
        return op.result

    def pointer(self) -> None:
        """Pointer arithmetic or a cast from or to a pointer."""
        source = self.of(is_pointer)
        if source is None or self.random.random() < 0.2:
            integer = self.of(lambda v: not is_pointer(v) and width_of(v) == 64)
            if integer is not None:
                pointee = self.random.choice((8, 16, 32))
                type_ = TileType(PointerType(i_type(pointee)), integer.type.shape)
                self.add(ct.IntToPtrOp.create(operands=[integer], result_types=[type_]))
            return
        if self.random.random() < 0.15:
            type_ = TileType(PointerType(i_type(16)), source.type.shape)
            self.add(ct.PtrToPtrOp.create(operands=[source], result_types=[type_]))
        elif self.random.random() < 0.15:
            type_ = int_tile(64, source.type.shape)
            self.add(ct.PtrToIntOp.create(operands=[source], result_types=[type_]))
        else:
            by = self.of(lambda v: not is_pointer(v) and v.type.shape == source.type.shape)
            if by is not None:
                self.add(ct.OffsetOp.create(operands=[source, by], result_types=[source.type]))

    def assumption(self) -> None:
        value = self.of(lambda v: True)
        if value is None:
            return
        shape = value.type.shape
        divisor = IntAttr(self.random.choice(DIVISORS))
        match self.random.choice(("div", "every", "bounded", "same")):
            case "every" if shape:
                along = self.random.randrange(len(shape))
                every = self.random.randrange(shape[along] + 1)
                predicate: Any = at.DivByAttr(divisor, IntAttr(every), IntAttr(along))
            case "bounded" if not is_pointer(value) and width_of(value) > 1:
                low, high = self.random.choice(((0, None), (None, 100), (0, 63), (-8, 8)))
                ends = [NONE if end is None else IntAttr(end) for end in (low, high)]
                predicate = at.BoundedAttr(*ends)
            case "same":
                groups = [self.random.randrange(size + 1) for size in shape]
                predicate = at.SameElementsAttr(at.IntTupleAttr(groups))
            case _:
                predicate = at.DivByAttr(divisor, NONE, NONE)
        op = ct.AssumeOp.create(
            operands=[value], properties={"predicate": predicate}, result_types=[value.type]
        )
        self.add(op)

    def condition(self) -> SSAValue:
        """A scalar i1."""
        left = self.of(lambda v: v.type.shape == () and not is_pointer(v))
        left = left or self.scalar_i32(1)
        op = self.with_flags(ct.CmpIOp, [left, self.like(left)], int_tile(1))
        self.block.add_op(op)
        return op.results[0]

    def nested(self, depth: int, args: Sequence[SSAValue] = ()) -> ProgramBuilder:
        """A builder for a new block that may use the values so far."""
        block = Block(arg_types=[value.type for value in args])
        inner = ProgramBuilder(self.random, block, [*self.values, *block.args])
        inner.grow(self.random.randrange(1, 5), depth)
        return inner

    def carried(self) -> list[SSAValue]:
        """Up to three values to pass into a loop."""
        count = self.random.randrange(1, 4)
        return [self.random.choice(self.values[-8:]) for _ in range(count)] if self.values else []

    def of_types(self, types: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of the types of others, preferably new ones."""
        return [self.of(lambda v, t=t: v.type == t.type) or t for t in types]

    def branch(self, depth: int) -> None:
        condition, like = self.condition(), self.carried()
        regions: list[Region] = []
        for _ in range(2):
            inner = self.nested(depth)
            inner.block.add_op(ct.YieldOp.create(operands=inner.of_types(like)))
            regions.append(Region(inner.block))
        self.add(
            ct.IfOp.create(
                operands=[condition], regions=regions, result_types=[v.type for v in like]
            )
        )

    def counted_loop(self, depth: int) -> None:
        bounds = [self.scalar_i32(self.random.randrange(8)) for _ in range(2)]
        step = self.scalar_i32(self.random.choice((1, 2, 4)))
        inits = self.carried()
        inner = self.nested(depth, [bounds[0], *inits])
        inner.block.add_op(ct.ContinueOp.create(operands=inner.of_types(inits)))
        self.add(
            ct.ForOp.create(
                operands=[*bounds, step, *inits],
                regions=[Region(inner.block)],
                result_types=[value.type for value in inits],
            )
        )

    def endless_loop(self, depth: int) -> None:
        """A loop left through an if, after a number of rounds that depends on data."""
        inits = self.carried()
        inner = self.nested(depth, inits)
        leaving = inner.nested(0)
        leaving.block.add_op(ct.BreakOp.create(operands=leaving.of_types(inits)))
        going_on = Block()
        going_on.add_op(ct.YieldOp.create())
        inner.block.add_op(
            ct.IfOp.create(
                operands=[inner.condition()],
                regions=[Region(leaving.block), Region(going_on)],
            )
        )
        inner.block.add_op(ct.ContinueOp.create(operands=inner.of_types(inits)))
        self.add(
            ct.LoopOp.create(
                operands=inits,
                regions=[Region(inner.block)],
                result_types=[value.type for value in inits],
            )
        )


def i_type(width: int) -> Any:
    """The integer type of a width."""
    return int_tile(width).element_type


def is_pointer(value: SSAValue) -> bool:
    """Whether a tile holds pointers."""
    return isinstance(value.type.element_type, PointerType)


def shapes_of_size(count: int) -> list[tuple[int, ...]]:
    """Some shapes with this many elements."""
    shapes: list[tuple[int, ...]] = [(count,), (1, count), (count, 1)]
    half = 1 << (count.bit_length() // 2)
    if half <= count:
        shapes += [(half, count // half), (count // half, half), (half, 1, count // half)]
    if count == 1:
        shapes.append(())
    return shapes


def random_entry(random: Random, steps: int) -> ct.EntryOp:
    """A kernel of about this many operations, with scalar arguments of every width."""
    types = [int_tile(width) for width in (*WIDTHS, 32, 64)]
    types += [TileType(PointerType(i_type(width)), ()) for width in (8, 32)]
    block = Block(arg_types=types)
    builder = ProgramBuilder(random, block, block.args)
    builder.grow(steps)
    block.add_op(ct.ReturnOp.create())
    return entry_of(types, block)


def aimed_entry(random: Random, count: int) -> ct.EntryOp:
    """A kernel of separate operations on address-like operands of 8 bits, where much can wrap.

    Long programs rarely bring together the operands that a wrong rule needs to be seen.
    """
    types = [int_tile(8), int_tile(8), int_tile(1), TileType(PointerType(i_type(32)), ())]
    block = Block(arg_types=types)
    builder = ProgramBuilder(random, block, block.args)
    kinds = (*BINARY, *BITWISE, ct.CmpIOp, ct.CmpIOp, ct.SelectOp, ct.ExtIOp, ct.OffsetOp)
    for _ in range(count):
        builder.values = list(block.args)
        shape = random.choice(((16,), (16,), (8,), (4, 8)))
        left, right = (aimed_operand(builder, int_tile(8, shape)) for _ in range(2))
        builder.values = [left, right]
        kind = random.choice(kinds)
        match kind:
            case ct.SelectOp:
                flag = builder.with_flags(ct.CmpIOp, [left, right], int_tile(1, shape))
                builder.add(flag)
                other = aimed_operand(builder, left.type)
                operands = [flag.results[0], left, random.choice((right, other))]
                builder.add(ct.SelectOp.create(operands=operands, result_types=[left.type]))
            case ct.ExtIOp:
                builder.add(builder.with_flags(kind, [left], int_tile(32, shape)))
            case ct.OffsetOp:
                builder.add(
                    ct.OffsetOp.create(
                        operands=[aimed_pointer(builder, block.args[3], shape), left],
                        result_types=[TileType(types[3].element_type, shape)],
                    )
                )
            case ct.CmpIOp:
                builder.add(builder.with_flags(kind, [left, right], int_tile(1, shape)))
            case _:
                builder.add(builder.with_flags(kind, [left, right], left.type))
        for step in (builder.shape_change, builder.shape_change, builder.resizing):
            step()
    block.add_op(ct.ReturnOp.create())
    return entry_of(types, block)


def aimed_operand(builder: ProgramBuilder, type_: TileType) -> SSAValue:
    """An address-like tile or a constant next to a multiple of a power of two."""
    random = builder.random
    if random.random() < 0.4:
        number = random.choice((1, 2, 4, 8, 16, 32, 64)) * random.choice((-3, -1, 1, 1, 1, 3))
        number += random.choice((0, 0, 0, -1, 1))
        raw = bytes([number & 255])
        op = ct.ConstantOp.create(properties={"value": DenseAttr(type_, raw)}, result_types=[type_])
        return builder.added(op)
    tile = builder.pattern(type_)
    if random.random() < 0.3:
        ends = random.choice(((0, NONE), (1, NONE), (NONE, 100), (0, 63)))
        ends = [end if end is NONE else IntAttr(end) for end in ends]
        predicate = at.BoundedAttr(*ends)
        op = ct.AssumeOp.create(
            operands=[tile], properties={"predicate": predicate}, result_types=[tile.type]
        )
        return builder.added(op)
    return tile


def aimed_pointer(builder: ProgramBuilder, scalar: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A pointer in all elements, assumed to be aligned."""
    divisor = IntAttr(builder.random.choice(DIVISORS))
    predicate = at.DivByAttr(divisor, NONE, NONE)
    op = ct.AssumeOp.create(
        operands=[scalar], properties={"predicate": predicate}, result_types=[scalar.type]
    )
    scalar = builder.added(op)
    element = scalar.type.element_type
    ones = TileType(element, (1,) * len(shape))
    flat = builder.added(ct.ReshapeOp.create(operands=[scalar], result_types=[ones]))
    full = TileType(element, shape)
    return builder.added(ct.BroadcastOp.create(operands=[flat], result_types=[full]))


def random_arguments(random: Random, entry: ct.EntryOp) -> list[int]:
    """Numbers for the arguments: often multiples of powers of two, often near the ends."""
    numbers: list[int] = []
    for argument in entry.body.blocks[0].args:
        width = width_of(argument)
        half = 1 << (width - 1)
        number = random.choice(
            (random.choice(NUMBERS), random.randrange(-half, half), half - 1, -half, 16 * 7)
        )
        number = number & ~(random.choice((1, 4, 16)) - 1)
        wrapped = ((number + half) & (2 * half - 1)) - half
        numbers.append(number & 1 if width == 1 else wrapped)
    return numbers
