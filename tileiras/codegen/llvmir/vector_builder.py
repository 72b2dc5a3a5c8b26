"""Vector and struct methods of the thread builder: extract, insert, shuffle, concat, slice."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.arithmetic_builder import ArithmeticBuilder
from tileiras.codegen.llvmir.folding import bits_of, splat_bits_of
from tileiras.dialects.llvm import vectors as ops
from tileiras.dialects.llvm.constants import PoisonOp, ZeroOp
from tileiras.dialects.llvm.types import lanes_of, scalar_of, vector_type
from tileiras.errors import InternalError


def lane_count(value: SSAValue) -> int:
    """Number of lanes of a vector value."""
    lanes = lanes_of(value.type)
    if lanes is None:
        raise InternalError(f"expected a vector, found {value.type}", where="thread builder")
    return lanes


class VectorBuilder(ArithmeticBuilder):
    """Moves elements; looks through shuffles, inserts and constants, so that IR stays small."""

    def extract(self, vector: SSAValue, index: int | SSAValue) -> SSAValue:
        """One element. Trap: a dynamic index costs a round trip through local memory."""
        lanes = lane_count(vector)
        if not isinstance(index, int):
            known = splat_bits_of(index)
            if known is None:
                return self.value(ops.ExtractElementOp, (vector, index), scalar_of(vector.type))
            index = known
        if not 0 <= index < lanes:
            raise InternalError(f"lane {index} of {vector.type}", where="thread builder")
        return self._extract_lane(vector, index)

    def _extract_lane(self, vector: SSAValue, index: int) -> SSAValue:
        element = scalar_of(vector.type)
        bits = bits_of(vector)
        if bits is not None:
            return self.const_bits(element, bits[0] if len(bits) == 1 else bits[index])
        match vector.owner:
            case PoisonOp():
                return self.poison(element)
            case ZeroOp():
                return self.zero(element)
            case ops.InsertElementOp() as insert:
                position = splat_bits_of(insert.index)
                if position == index:
                    return insert.value
                if position is not None:
                    return self._extract_lane(insert.vector, index)
            case ops.ShuffleVectorOp() as shuffle:
                source = shuffle.indices.data[index]
                if source < 0:
                    return self.poison(element)
                lanes = lane_count(shuffle.lhs)
                if source < lanes:
                    return self._extract_lane(shuffle.lhs, source)
                return self._extract_lane(shuffle.rhs, source - lanes)
            case _:
                pass
        return self.value(ops.ExtractElementOp, (vector, self.i32(index)), element)

    def insert(self, vector: SSAValue, value: SSAValue, index: int | SSAValue) -> SSAValue:
        """`vector` with one element replaced."""
        position = self.i32(index) if isinstance(index, int) else index
        return self.value(ops.InsertElementOp, (vector, value, position), vector.type)

    def splat(self, value: SSAValue, count: int) -> SSAValue:
        """A vector with `value` in every lane."""
        type = vector_type(value.type, count)
        bits = bits_of(value)
        if bits is not None:
            return self.const_bits(type, bits)
        single = self.insert(self.poison(type), value, 0)
        if count == 1:
            return single
        return self._shuffle_op(single, self.poison(type), (0,) * count)

    def broadcast(self, value: SSAValue, like: Attribute) -> SSAValue:
        """`value` as is if `like` is a scalar type, else splat over its lanes."""
        lanes = lanes_of(like)
        return value if lanes is None or lanes_of(value.type) else self.splat(value, lanes)

    def build(self, values: Sequence[SSAValue], element: Attribute | None = None) -> SSAValue:
        """A vector from scalars, lane by lane (`element` is needed for an empty list only)."""
        type = vector_type(element or values[0].type, len(values))
        constants = [bits_of(value) for value in values]
        if all(bits is not None for bits in constants):
            return self.const_bits(type, [bits[0] for bits in constants if bits is not None])
        if all(value is values[0] for value in values):
            return self.splat(values[0], len(values))
        gathered = self._common_source(values)
        if gathered is not None:
            return self.shuffle(gathered[0], None, gathered[1])
        vector = self.poison(type)
        for index, value in enumerate(values):
            vector = self.insert(vector, value, index)
        return vector

    def _common_source(self, values: Sequence[SSAValue]) -> tuple[SSAValue, list[int]] | None:
        """If all are constant-index extracts of one vector: that vector and the indices."""
        source: SSAValue | None = None
        indices: list[int] = []
        for value in values:
            extract = value.owner
            if not isinstance(extract, ops.ExtractElementOp):
                return None
            index = splat_bits_of(extract.index)
            if index is None or (source is not None and extract.vector is not source):
                return None
            source = extract.vector
            indices.append(index)
        return None if source is None else (source, indices)

    def _shuffle_op(self, lhs: SSAValue, rhs: SSAValue, indices: Sequence[int]) -> SSAValue:
        type = vector_type(scalar_of(lhs.type), len(indices))
        properties = {"indices": ops.IndicesAttr(tuple(indices))}
        return self.value(ops.ShuffleVectorOp, (lhs, rhs), type, properties)

    def shuffle(self, lhs: SSAValue, rhs: SSAValue | None, indices: Sequence[int]) -> SSAValue:
        """`result[i] = concat(lhs, rhs)[indices[i]]`; index -1: any value."""
        lanes = lane_count(lhs)
        if rhs is None or all(index < lanes for index in indices):
            return self._shuffle_one(lhs, indices)
        if all(index >= lanes or index < 0 for index in indices):
            return self._shuffle_one(rhs, [max(index - lanes, -1) for index in indices])
        left, right = bits_of(lhs), bits_of(rhs)
        if left is not None and right is not None:
            table = self._lanes(left, lanes) + self._lanes(right, lanes)
            type = vector_type(scalar_of(lhs.type), len(indices))
            return self.const_bits(type, [table[max(index, 0)] for index in indices])
        return self._shuffle_op(lhs, rhs, indices)

    @staticmethod
    def _lanes(bits: tuple[int, ...], lanes: int) -> tuple[int, ...]:
        return bits * lanes if len(bits) == 1 else bits

    def _shuffle_one(self, vector: SSAValue, indices: Sequence[int]) -> SSAValue:
        lanes = lane_count(vector)
        if len(indices) == lanes and all(index in (i, -1) for i, index in enumerate(indices)):
            return vector
        bits = bits_of(vector)
        if bits is not None:
            table = self._lanes(bits, lanes)
            type = vector_type(scalar_of(vector.type), len(indices))
            return self.const_bits(type, [table[max(index, 0)] for index in indices])
        inner = vector.owner
        if isinstance(inner, ops.ShuffleVectorOp):
            through = inner.indices.data
            composed = [through[index] if index >= 0 else -1 for index in indices]
            return self.shuffle(inner.lhs, inner.rhs, composed)
        return self._shuffle_op(vector, self.poison(vector.type), indices)

    def slice(self, vector: SSAValue, start: int, count: int) -> SSAValue:
        """Lanes `start` to `start + count - 1`."""
        return self.shuffle(vector, None, range(start, start + count))

    def concat(self, vectors: Sequence[SSAValue]) -> SSAValue:
        """All lanes of the vectors one after another (vectors of any lengths, one element type)."""
        if len(vectors) == 1:
            return vectors[0]
        pieces = list(vectors)
        while len(pieces) > 1:
            pairs = [self._concat_two(*pieces[i : i + 2]) for i in range(0, len(pieces) - 1, 2)]
            pieces = pairs + pieces[len(pieces) & ~1 :]
        return pieces[0]

    def _concat_two(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        left, right = lane_count(lhs), lane_count(rhs)
        widest = max(left, right)
        padded_left = self._widen(lhs, widest)
        padded_right = self._widen(rhs, widest)
        return self.shuffle(
            padded_left, padded_right, [*range(left), *range(widest, widest + right)]
        )

    def _widen(self, vector: SSAValue, lanes: int) -> SSAValue:
        extra = lanes - lane_count(vector)
        if extra == 0:
            return vector
        return self.shuffle(vector, None, [*range(lane_count(vector)), *([-1] * extra)])
