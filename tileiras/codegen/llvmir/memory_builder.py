"""Memory methods of the thread builder: addresses, plain, guarded and ordered accesses.

Guarded (predicated) and ordered accesses are inline PTX: LLVM's masked load makes a branch per
element, and LLVM drops the order and scope that PTX can express (PTX ISA, "ld", "st").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.folding import constant_int, splat_bits_of
from tileiras.codegen.llvmir.vector_builder import VectorBuilder
from tileiras.dialects.llvm import memory as ops
from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.dialects.llvm.constants import AddressOfOp
from tileiras.dialects.llvm.types import (
    PointerType,
    StructType,
    bit_width,
    integer_type,
    is_pointer,
    lanes_of,
    pointer_type,
    scalar_of,
    vector_type,
)
from tileiras.errors import InternalError

MAX_ACCESS_BYTES = 16
"""Widest single access that every target has (v4.b32)."""

STATE_SPACES = {0: "", 1: ".global", 3: ".shared", 4: ".const", 5: ".local"}
LOAD_ORDERS = ("weak", "relaxed", "acquire", "volatile")
STORE_ORDERS = ("weak", "relaxed", "release", "volatile")
SCOPES = ("", "cta", "cluster", "gpu", "sys")


@dataclass(frozen=True)
class MemoryOrder:
    """PTX memory semantics of an access: `weak`, or an order with its scope.

    `cache` is an eviction or cache operator suffix for weak accesses, such as `.cs` or `.nc`.
    """

    order: str = "weak"
    scope: str = ""
    cache: str = ""

    def suffix(self, orders: Sequence[str]) -> str:
        """What stands between `ld`/`st` and the state space."""
        if self.order not in orders or self.scope not in SCOPES:
            raise InternalError(f"memory order {self.order}.{self.scope}", where="thread builder")
        if self.order in ("weak", "volatile"):
            return "" if self.order == "weak" else ".volatile"
        return f".{self.order}.{self.scope or 'sys'}"


WEAK = MemoryOrder()


class MemoryBuilder(VectorBuilder):
    """Addresses are byte-based; alignments and offsets are in bytes."""

    def gep(self, pointer: SSAValue, offset: SSAValue | int) -> SSAValue:
        """`pointer + offset` bytes; a vector on either side gives a vector of pointers."""
        if isinstance(offset, int):
            offset = self.i64(offset)
        known = constant_int(offset)
        if known == 0 and lanes_of(offset.type) in (None, lanes_of(pointer.type)):
            return pointer
        inner = pointer.owner
        if known is not None and lanes_of(offset.type) is None and isinstance(inner, ops.GEPOp):
            first = constant_int(inner.offset)
            if first is not None and lanes_of(inner.offset.type) is None:
                return self.gep(inner.base, first + known)
        lanes = lanes_of(pointer.type) or lanes_of(offset.type)
        element = scalar_of(pointer.type)
        type = element if lanes is None else vector_type(element, lanes)
        return self.value(ops.GEPOp, (pointer, offset), type)

    def address_of(self, global_op: ops.GlobalOp) -> SSAValue:
        """Pointer to a module-level global, in its address space."""
        properties = {"global_name": global_op.sym_name}
        return self.value(AddressOfOp, (), pointer_type(global_op.space.data), properties)

    def load(
        self,
        pointer: SSAValue,
        type: Attribute,
        align: int,
        *,
        volatile: bool = False,
        invariant: bool = False,
    ) -> SSAValue:
        """A weak load of a scalar or vector; LLVM picks the widest instructions `align` allows."""
        properties: dict[str, Attribute] = {"align": IntAttr(align)}
        if volatile:
            properties["volatile"] = UnitAttr()
        if invariant:
            properties["invariant"] = UnitAttr()
        return self.value(ops.LoadOp, (pointer,), type, properties)

    def store(
        self, value: SSAValue, pointer: SSAValue, align: int, *, volatile: bool = False
    ) -> None:
        """A weak store of a scalar or vector."""
        properties: dict[str, Attribute] = {"align": IntAttr(align)}
        if volatile:
            properties["volatile"] = UnitAttr()
        self.append(ops.StoreOp, (value, pointer), (), properties)

    def fence(self, ordering: str, scope: str = "") -> None:
        """A fence: acquire, release, acq_rel or seq_cst at "" (system), device, cluster, block."""
        properties = {"ordering": StringAttr(ordering), "scope": StringAttr(scope)}
        self.append(ops.FenceOp, (), (), properties)

    # guarded and ordered accesses

    def masked_load(
        self,
        pointer: SSAValue,
        predicate: SSAValue | None,
        type: Attribute,
        align: int,
        passthru: SSAValue | None = None,
        order: MemoryOrder = WEAK,
    ) -> SSAValue:
        """`predicate ? *pointer : passthru`; no memory is touched if the scalar i1 is false.

        `type` is a scalar or vector whose size in bytes is a power of two; it is read in pieces of
        `min(align, 16)` bytes. Without `passthru` a false predicate gives unspecified bits.
        """
        known = None if predicate is None else splat_bits_of(predicate)
        if known == 0 and passthru is not None:
            return passthru
        if known == 1:
            predicate = None
        if predicate is None and order == WEAK:
            return self.load(pointer, type, align)
        pieces = _pieces(type, align)
        guard = () if predicate is None else (predicate,)
        units = [] if passthru is None else self._to_units(passthru, pieces)
        loaded: list[SSAValue] = []
        for index in range(pieces.count):
            address = self.gep(pointer, index * pieces.bytes)
            first = index * pieces.units
            old = units[first : first + pieces.units] if guard else []
            loaded += self._load_piece(address, guard, pieces, old, order)
        return self._from_units(loaded, type, pieces)

    def masked_store(
        self,
        value: SSAValue,
        pointer: SSAValue,
        predicate: SSAValue | None,
        align: int,
        order: MemoryOrder = WEAK,
    ) -> None:
        """Stores if the scalar i1 holds (None: always), in pieces of `min(align, 16)` bytes."""
        known = None if predicate is None else splat_bits_of(predicate)
        if known == 0:
            return
        if known == 1:
            predicate = None
        if predicate is None and order == WEAK:
            self.store(value, pointer, align)
            return
        pieces = _pieces(value.type, align)
        units = self._to_units(value, pieces)
        guard = () if predicate is None else (predicate,)
        for index in range(pieces.count):
            address = self.gep(pointer, index * pieces.bytes)
            first = index * pieces.units
            self._store_piece(address, guard, pieces, units[first : first + pieces.units], order)

    def _load_piece(
        self,
        address: SSAValue,
        guard: Sequence[SSAValue],
        pieces: _Pieces,
        old: Sequence[SSAValue],
        order: MemoryOrder,
    ) -> list[SSAValue]:
        """One `ld`; outputs are tied to `old`, which is what they keep if the guard is false."""
        count = pieces.units
        at = f"@${count} " if guard else ""
        space = STATE_SPACES[_space(address)]
        target = _registers(range(count))
        template = (
            f"{at}ld{order.suffix(LOAD_ORDERS)}{space}{order.cache}{pieces.vector}"
            f".b{pieces.memory_bits} {target}, [${count + len(guard)}];"
        )
        constraints = [f"={pieces.constraint}"] * count + ["b"] * len(guard) + ["l"]
        constraints += [str(index) for index in range(len(old))]
        if order != WEAK:
            constraints.append("~{memory}")
        unit = integer_type(pieces.register_bits)
        result_type = unit if count == 1 else StructType([unit] * count)
        result = self.value(
            InlineAsmOp,
            (*guard, address, *old),
            result_type,
            _asm(template, constraints),
        )
        if count == 1:
            return [result]
        return [self.extract_value(result, index) for index in range(count)]

    def _store_piece(
        self,
        address: SSAValue,
        guard: Sequence[SSAValue],
        pieces: _Pieces,
        units: Sequence[SSAValue],
        order: MemoryOrder,
    ) -> None:
        skip = len(guard)
        at = "@$0 " if guard else ""
        source = _registers(range(skip + 1, skip + 1 + len(units)))
        template = (
            f"{at}st{order.suffix(STORE_ORDERS)}{STATE_SPACES[_space(address)]}{order.cache}"
            f"{pieces.vector}.b{pieces.memory_bits} [${skip}], {source};"
        )
        constraints = ["b"] * skip + ["l"] + [pieces.constraint] * len(units) + ["~{memory}"]
        self.append(InlineAsmOp, (*guard, address, *units), (), _asm(template, constraints))

    def _to_units(self, value: SSAValue, pieces: _Pieces) -> list[SSAValue]:
        """The value cut into registers of the accesses."""
        total = pieces.count * pieces.units
        bits = pieces.memory_bits
        if is_pointer(value.type):
            lanes = lanes_of(value.type)
            flat = integer_type(64) if lanes is None else vector_type(integer_type(64), lanes)
            value = self.ptrtoint(value, flat)
        units = self.bitcast(value, vector_type(integer_type(bits), total))
        if bits < pieces.register_bits:
            units = self.zext(units, integer_type(pieces.register_bits))
        return [self.extract(units, index) for index in range(total)]

    def _from_units(self, units: Sequence[SSAValue], type: Attribute, pieces: _Pieces) -> SSAValue:
        vector = self.build(units)
        if pieces.memory_bits < pieces.register_bits:
            vector = self.trunc(vector, integer_type(pieces.memory_bits))
        if not is_pointer(type):
            return self.bitcast(vector, type)
        lanes = lanes_of(type)
        flat = integer_type(64) if lanes is None else vector_type(integer_type(64), lanes)
        return self.inttoptr(self.bitcast(vector, flat), scalar_of(type))


@dataclass(frozen=True)
class _Pieces:
    """How a value is cut into accesses: `count` of `bytes`, each of `units` registers."""

    count: int
    bytes: int
    units: int
    memory_bits: int
    register_bits: int

    @property
    def vector(self) -> str:
        """The PTX vector suffix."""
        return "" if self.units == 1 else f".v{self.units}"

    @property
    def constraint(self) -> str:
        """LLVM's register class letter; 8-bit accesses go through 16-bit registers."""
        return {16: "h", 32: "r", 64: "l"}[self.register_bits]


def _pieces(type: Attribute, align: int) -> _Pieces:
    bits = bit_width(type)
    element = bit_width(scalar_of(type))
    size = bits // 8
    if bits % 8 or size & (size - 1) or size == 0 or element % 8:
        raise InternalError(f"guarded access of {type}", where="thread builder")
    piece = min(align, size, MAX_ACCESS_BYTES)
    unit = min(piece, 8 if element == 64 else 4)
    return _Pieces(size // piece, piece, piece // unit, 8 * unit, max(16, 8 * unit))


def _space(pointer: SSAValue) -> int:
    if not isinstance(pointer.type, PointerType) or pointer.type.address_space not in STATE_SPACES:
        raise InternalError(f"guarded access through {pointer.type}", where="thread builder")
    return pointer.type.address_space


def _registers(numbers: Sequence[int]) -> str:
    names = ", ".join(f"${number}" for number in numbers)
    return names if len(numbers) == 1 else f"{{{names}}}"


def _asm(template: str, constraints: Sequence[str]) -> dict[str, Attribute]:
    return {
        "template": StringAttr(template),
        "constraints": StringAttr(",".join(constraints)),
        "has_side_effects": UnitAttr(),
    }
