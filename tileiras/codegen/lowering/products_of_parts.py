"""Products of f32 by mma.sync on bf16: each operand is a sum of three parts.

An f32 has 24 bits, a bf16 has 8: x is x0 + x1 + x2 exactly. x0 is cut, so that it is finite where x
is; x1 and x2 are rounded to nearest. Of nine products six are formed; the others are smaller than
2^-22 of the whole, and than 2^-25 as a rule.

    small = x2*y0 + x0*y2 + x1*y1 + x1*y0 + x0*y1          main = x0*y0
    x * y = main + small, where small is at most the largest f32

Both sums start from zero and are added to the accumulator by adders that round to nearest: tensor
cores cut what they add up. Parts of infinities are not numbers; main, which has the infinities
themselves, says what comes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import bf16, f32, i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.mma import MmaAtom
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.dot_operands import unsigned
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.llvm.types import lanes_of, vector_type
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.errors import required

MOST_DEPTH = 64
"""Policy: so much of K is summed by tensor cores before adders go on."""
MOST_SUMS = 32
"""Policy: registers of a product's sums of which both are kept for the next product."""
_LARGEST = 0x7F7FFFFF
"""The largest f32."""
_HALF_BITS = 16
_HIGH_HALF = 0xFFFF0000
"""The bits of an f32 that are a bf16."""
_HIGH_HALVES = 0x7632
"""The bytes that `prmt` takes of two words: the upper halves of both."""
_SMALL = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1))
"""The products of parts beside the main one, smallest first."""
_COLUMNS = 2
"""Policy: instructions along N whose sums are live at once, twice."""

Parts = Sequence[SSAValue]
"""An operand's three parts, vectors of bf16, the largest first."""
Product = tas.MmaDotOp | tas.MmaScaledDotOp
"""Products by mma.sync; those with scales have no parts."""


@dataclass(frozen=True)
class PartSums:
    """What tensor cores have summed of products over `depth` elements of K, not added up yet."""

    main: SSAValue
    small: SSAValue
    depth: int

    def total(self, b: ThreadBuilder) -> SSAValue:
        """The sum."""
        return b.fadd(self.main, _finite(b, self.small))


def no_sums(b: ThreadBuilder, count: int) -> PartSums:
    """Sums of nothing, for so many elements of a thread."""
    zero = b.zero(vector_type(f32, count))
    return PartSums(zero, zero, 0)


def parts_of(b: ThreadBuilder, value: SSAValue) -> Parts:
    """Vectors of bf16 whose sum is a vector of f32."""
    lanes = lanes_of(value.type) or 1
    if lanes % 2:
        value = b.concat([value, value])
        return [b.slice(part, 0, lanes) for part in parts_of(b, value)]
    words = vector_type(i32, lanes)
    bits = b.bitcast(value, words)
    halves = (b.shuffle(bits, None, range(first, lanes, 2)) for first in (0, 1))
    selector = b.const_int(vector_type(i32, lanes // 2), _HIGH_HALVES)
    first = b.unary_intrinsic("llvm.nvvm.prmt", *halves, selector)
    mask = b.const_int(words, _HIGH_HALF)
    rest = b.fsub(value, b.bitcast(b.and_(bits, mask), value.type))
    second = _rounded_pairs(b, rest)
    third = _rounded_pairs(b, b.fsub(rest, _unpacked(b, second)))
    half = vector_type(bf16, lanes)
    return b.bitcast(first, half), b.bitcast(second, half), b.bitcast(third, half)


def _rounded_pairs(b: ThreadBuilder, value: SSAValue) -> SSAValue:
    """Pairs of elements as bf16: LLVM would convert one by one what is unpacked again."""
    lanes = lanes_of(value.type) or 1
    low, high = (b.shuffle(value, None, range(first, lanes, 2)) for first in (0, 1))
    made = b.inline_asm(
        "cvt.rn.bf16x2.f32 $0, $1, $2;",
        "=r,f,f",
        vector_type(i32, lanes // 2),
        [high, low],
        elementwise=True,
    )
    return required(made, "inline PTX without a result", "products of parts")


def _unpacked(b: ThreadBuilder, words: SSAValue) -> SSAValue:
    """The f32 of pairs of bf16."""
    lanes = lanes_of(words.type) or 1
    low = b.shl(words, b.const_int(words.type, _HALF_BITS))
    high = b.and_(words, b.const_int(words.type, _HIGH_HALF))
    order = [half * lanes + pair for pair in range(lanes) for half in (0, 1)]
    return b.bitcast(b.shuffle(low, high, order), vector_type(f32, 2 * lanes))


def multiply_parts(
    b: ThreadBuilder,
    atom: MmaAtom,
    operands: tuple[Parts, Parts],
    acc: SSAValue | PartSums,
    reps: tuple[int, int, int],
) -> SSAValue | PartSums:
    """A grid of repeats of an atom of f32, in the order of `mma_tile`, added to `acc`."""
    depth = reps[2] * atom.k
    if isinstance(acc, PartSums):
        if acc.depth + depth <= MOST_DEPTH:
            small = _small(b, atom, *operands, acc.small, reps)
            main = b.mma_tile(atom.parts, operands[0][0], operands[1][0], acc.main, reps)
            return PartSums(main, small, acc.depth + depth)
        acc = acc.total(b)
    reps_m, reps_n, reps_k = reps
    rows, columns = (inner * reps_k for inner in (atom.a_elements, atom.b_elements))
    found: list[SSAValue] = []
    for m in range(reps_m):
        left = [b.slice(part, m * rows, rows) for part in operands[0]]
        for first in range(0, reps_n, _COLUMNS):
            count = min(_COLUMNS, reps_n - first)
            right = [b.slice(part, first * columns, count * columns) for part in operands[1]]
            sums = count * atom.c_elements
            shape, zero = (1, count, reps_k), b.zero(vector_type(f32, sums))
            small = _finite(b, _small(b, atom, left, right, zero, shape))
            total = b.mma_tile(atom.parts, left[0], right[0], small, shape)
            before = b.slice(acc, (m * reps_n + first) * atom.c_elements, sums)
            found.append(b.fadd(before, total))
    return b.concat(found)


def _small(
    b: ThreadBuilder,
    atom: MmaAtom,
    left: Sequence[SSAValue],
    right: Sequence[SSAValue],
    total: SSAValue,
    reps: tuple[int, int, int],
) -> SSAValue:
    """A sum with all products of parts added but the main one."""
    for i, j in _SMALL:
        total = b.mma_tile(atom.parts, left[i], right[j], total, reps)
    return total


def _finite(b: ThreadBuilder, small: SSAValue) -> SSAValue:
    """The largest f32 where a small sum is no number or infinite: main is so, too."""
    most = b.const_int(vector_type(i32, lanes_of(small.type) or 1), _LARGEST)
    limit = b.bitcast(most, small.type)
    finite = b.inline_asm(
        "min.xorsign.abs.f32 $0, $1, $2;", "=f,f,f", small.type, [small, limit], elementwise=True
    )
    return required(finite, "inline PTX without a result", "products of parts")


class ProductsOfParts:
    """Products with operands in common whose operands are multiplied in parts.

    Sums that start from zero stay with the tensor cores, and go on where a product adds to another
    one's sum alone.
    """

    def __init__(self, ctx: KernelLowering, atom: MmaAtom, products: Sequence[Product]):
        self._ctx, self._atom, self._products = ctx, atom, products
        shape = ctx.layout(products[0].result.type).shape
        self._batches = shape[0] if len(shape) == 3 else 1
        self._sums: dict[SSAValue, list[SSAValue | PartSums]] = {}
        self._negated: dict[SSAValue, SSAValue] = {}
        for product in products:
            before = self._sums.get(product.acc)
            self._sums[product.result] = self._start(product) if before is None else before

    def _start(self, op: Product) -> list[SSAValue | PartSums]:
        """What is added to, batch by batch."""
        b, acc = self._ctx.b, self._ctx.value(op.acc)
        count = lanes_of(acc.type) or 1
        each = count // self._batches
        if is_zero(op.acc) and count <= MOST_SUMS:
            return [no_sums(b, each)] * self._batches
        kept = self._ctx.sums_of_parts.get(op.acc)
        if kept is not None and op.acc.has_one_use():
            return list(kept)
        return [b.slice(acc, batch * each, each) for batch in range(self._batches)]

    def fragments(self, values: Sequence[SSAValue]) -> Parts:
        """The parts of an operand's fragments: of fragments as they are, or those of its parts."""
        return parts_of(self._ctx.b, values[0]) if len(values) == 1 else values

    def add(self, op: Product, left: Parts, right: Parts, reps_k: int) -> None:
        """Adds a product of fragments along `reps_k` instructions of K."""
        b, atom, sums = self._ctx.b, self._atom, self._sums[op.result]
        if (unsigned(op.lhs) is op.lhs) != (unsigned(op.rhs) is op.rhs):
            left = self._negative(left)
        counts = [(lanes_of(parts[0].type) or 1) // self._batches for parts in (left, right)]
        reps_m = counts[0] // (atom.a_elements * reps_k)
        reps_n = counts[1] // (atom.b_elements * reps_k)
        for batch in range(self._batches):
            x, y = (
                [b.slice(part, batch * count, count) for part in parts]
                for parts, count in zip((left, right), counts, strict=True)
            )
            sums[batch] = multiply_parts(b, atom, (x, y), sums[batch], (reps_m, reps_n, reps_k))

    def _negative(self, parts: Parts) -> Parts:
        """The parts with the other sign."""
        for part in parts:
            if part not in self._negated:
                self._negated[part] = self._ctx.b.fneg(part)
        return [self._negated[part] for part in parts]

    def totals(self) -> list[SSAValue]:
        """The results; of sums that are with the tensor cores LLVM leaves out what nobody reads."""
        found: list[SSAValue] = []
        for product in self._products:
            sums = self._sums[product.result]
            kept = [each for each in sums if isinstance(each, PartSums)]
            if len(kept) == len(sums):
                self._ctx.sums_of_parts[product.result] = kept
            b = self._ctx.b
            whole = [each.total(b) if isinstance(each, PartSums) else each for each in sums]
            found.append(b.concat(whole))
        return found
