"""The base of the thread builder: where ops go, which location they get, and constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from xdsl.dialects.builtin import UNKNOWN_LOC, IntAttr, LocationAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.codegen.llvmir.float_bits import float_to_bits
from tileiras.codegen.llvmir.folding import bits_of
from tileiras.dialects.llvm.constants import BitsAttr, ConstantOp, PoisonOp, UndefOp, ZeroOp
from tileiras.dialects.llvm.types import (
    bit_width,
    integer_type,
    is_float,
    is_integer,
    lanes_of,
    scalar_of,
    vector_type,
)
from tileiras.errors import InternalError


@cache
def string_attr(text: str) -> StringAttr:
    """A `StringAttr` (interned)."""
    return StringAttr(text)


def properties_of(**values: int | str | Attribute | None) -> dict[str, Attribute]:
    """Properties by name: True is a flag, False and None are left out."""
    made: dict[str, Attribute] = {}
    for name, value in values.items():
        match value:
            case None | False:
                pass
            case True:
                made[name] = UnitAttr()
            case int():
                made[name] = IntAttr(value)
            case str():
                made[name] = string_attr(value)
            case _:
                made[name] = value
    return made


class OpEmitter:
    """Appends ops to the end of `block`; every op gets `location`. Both may be set at any time.

    With `before` ops go in front of that op instead. A constant is made once per block, so ops of a
    block must not be erased while its builder is in use.
    """

    def __init__(
        self,
        block: Block,
        location: LocationAttr = UNKNOWN_LOC,
        before: Operation | None = None,
    ):
        self.block = block
        self.location = location
        self.before = before
        self._constants: dict[tuple[Block, Attribute, tuple[int, ...]], SSAValue] = {}

    def at(self, block: Block) -> None:
        """Moves the insertion point to the end of `block`."""
        self.block = block
        self.before = None

    @contextmanager
    def at_definition(self, value: SSAValue) -> Iterator[None]:
        """Inserts behind what defines a value: out of the loops that it does not change in."""
        block, before, owner = self.block, self.before, value.owner
        if isinstance(owner, Block):
            self.block, self.before = owner, owner.first_op
        elif owner.parent is not None:
            self.block, self.before = owner.parent, owner.next_op
        yield
        self.block, self.before = block, before

    def append(
        self,
        op: type[Operation],
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] | None = None,
        successors: Sequence[Block] = (),
    ) -> Operation:
        """Creates an op of any dialect at the insertion point and returns it."""
        created = op.create(
            operands=operands,
            result_types=result_types,
            properties={} if properties is None else properties,
            successors=successors,
            location=self.location,
        )
        if self.before is None:
            self.block.add_op(created)
        else:
            self.block.insert_op_before(created, self.before)
        return created

    def value(
        self,
        op: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """Like `append`, for an op with one result, which is returned."""
        return self.append(op, operands, (result_type,), properties).results[0]

    # constants

    def const_bits(self, type: Attribute, bits: int | Sequence[int]) -> SSAValue:
        """A constant from bit patterns: one for all lanes, or one per lane."""
        patterns = (bits,) if isinstance(bits, int) else tuple(bits)
        if len(patterns) > 1 and all(pattern == patterns[0] for pattern in patterns):
            patterns = patterns[:1]
        if self.before is not None:
            return self.value(ConstantOp, (), type, {"bits": BitsAttr(patterns)})
        key = (self.block, type, patterns)
        known = self._constants.get(key)
        if known is None:
            known = self.value(ConstantOp, (), type, {"bits": BitsAttr(patterns)})
            self._constants[key] = known
        return known

    def const_int(self, type: Attribute, value: int) -> SSAValue:
        """An integer constant, wrapped to the width; on a vector type the same in every lane."""
        if not is_integer(type):
            raise InternalError(f"const_int of type {type}", where="thread builder")
        return self.const_bits(type, value & ((1 << bit_width(scalar_of(type))) - 1))

    def const_float(self, type: Attribute, value: float) -> SSAValue:
        """A float constant rounded to nearest even; on a vector type the same in every lane."""
        return self.const_bits(type, float_to_bits(scalar_of(type), value))

    def dense(self, type: Attribute, values: Sequence[int] | Sequence[float]) -> SSAValue:
        """A vector constant with these lanes. `type` is the vector type or its element type."""
        element = scalar_of(type)
        vector = vector_type(element, len(values))
        if lanes_of(type) not in (None, len(values)):
            raise InternalError(f"{len(values)} values for {type}", where="thread builder")
        if is_float(element):
            return self.const_bits(vector, [float_to_bits(element, value) for value in values])
        mask = (1 << bit_width(element)) - 1
        return self.const_bits(vector, [int(value) & mask for value in values])

    def i1(self, value: bool) -> SSAValue:
        """A scalar i1 constant."""
        return self.const_bits(integer_type(1), int(value))

    def i32(self, value: int) -> SSAValue:
        """A scalar i32 constant."""
        return self.const_int(integer_type(32), value)

    def i64(self, value: int) -> SSAValue:
        """A scalar i64 constant."""
        return self.const_int(integer_type(64), value)

    def poison(self, type: Attribute) -> SSAValue:
        """A value that must not be observed."""
        return self.value(PoisonOp, (), type)

    def undef(self, type: Attribute) -> SSAValue:
        """Some value of `type`."""
        return self.value(UndefOp, (), type)

    def zero(self, type: Attribute) -> SSAValue:
        """All bits zero, for any type."""
        if is_integer(type) or is_float(type):
            return self.const_bits(type, 0)
        return self.value(ZeroOp, (), type)

    def constant_bits_of(self, value: SSAValue) -> tuple[int, ...] | None:
        """Bit patterns if `value` is a constant: one for a scalar or splat, else one per lane."""
        return bits_of(value)
