"""Guarded, ordered and scattered memory accesses, each for a whole tile fragment in one op."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import PointerType, bit_width, lanes_of, scalar_of
from tileiras.dialects.operations import SegmentedOp

LOAD_ORDERS = ("weak", "relaxed", "acquire", "volatile")
STORE_ORDERS = ("weak", "relaxed", "release", "volatile")
SCOPES = ("", "cta", "cluster", "gpu", "sys")
CACHE_HINTS = ("", ".nc", ".ca", ".cg", ".cs", ".lu", ".cv", ".wb", ".wt")


@irdl_op_definition
class GuardedLoadOp(SegmentedOp):
    """Loads where a guard holds: `result[g] = predicate[g] ? *pointers[g] : passthru[g]`.

    With one pointer the result (scalar or vector) lies contiguously there. With G pointers it has G
    groups of lanes, one contiguous run per pointer. `align` (bytes) holds for every pointer and
    caps the width of an access, as do 16 bytes. Where the guard is false nothing is touched;
    without `passthru` those lanes are unspecified. `in_words`: bytes that are loaded one by one
    come into registers of 32 bits, for users that take words of four. PTX ISA, "ld".
    """

    name = "nvvm.guarded_load"
    align = prop_def(IntAttr)
    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    cache = opt_prop_def(StringAttr)
    in_words = opt_prop_def(UnitAttr)
    pointers = operand_def()
    predicate = opt_operand_def()
    passthru = opt_operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Groups, guard and passthru fit the result."""
        check_groups(self.name, self.pointers.type, self.predicate, self.result.type)
        if self.passthru is not None and self.passthru.type != self.result.type:
            raise VerifyException("nvvm.guarded_load: passthru has another type than the result")
        check_order(self.name, self.order.data, self.scope.data, LOAD_ORDERS, self.cache)
        lanes = lanes_of(self.result.type)
        is_one_by_one = bit_width(scalar_of(self.result.type)) == 8 and self.align.data == 1
        if self.in_words is not None and not (is_one_by_one and lanes):
            raise VerifyException("nvvm.guarded_load: words of what is not loaded byte by byte")


@irdl_op_definition
class GuardedStoreOp(IRDLOperation):
    """Stores where a guard holds, the mirror of `GuardedLoadOp`. PTX ISA, "st"."""

    name = "nvvm.guarded_store"
    align = prop_def(IntAttr)
    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    cache = opt_prop_def(StringAttr)
    value = operand_def()
    pointers = operand_def()
    predicate = opt_operand_def()
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        """Groups and guard fit the value."""
        check_groups(self.name, self.pointers.type, self.predicate, self.value.type)
        check_order(self.name, self.order.data, self.scope.data, STORE_ORDERS, self.cache)


def check_groups(
    name: str, pointers: Attribute, predicate: SSAValue | None, value: Attribute
) -> None:
    """Raises unless pointers, guard and value have matching numbers of groups."""
    if not isinstance(scalar_of(pointers), PointerType):
        raise VerifyException(f"{name}: expected pointers, found {pointers}")
    groups = lanes_of(pointers)
    if predicate is not None and (
        scalar_of(predicate.type) != IntegerType(1)
        or lanes_of(predicate.type) not in (None, groups)
    ):
        raise VerifyException(f"{name}: predicate {predicate.type} does not fit {pointers}")
    lanes = lanes_of(value)
    if groups is not None and (lanes is None or lanes % groups):
        raise VerifyException(f"{name}: {value} is not {groups} equal groups")
    size = bit_width(value) // (groups or 1)
    if size < 8 or size & (size - 1) or bit_width(scalar_of(value)) % 8:
        raise VerifyException(f"{name}: {size} bits per pointer is not a power of two of bytes")


def check_order(
    name: str, order: str, scope: str, orders: tuple[str, ...], cache: StringAttr | None
) -> None:
    """Raises unless the PTX memory order, scope and cache hint are legal together."""
    if order not in orders or scope not in SCOPES:
        raise VerifyException(f"{name}: memory order '{order}' at scope '{scope}'")
    if (order in ("weak", "volatile")) != (scope == ""):
        raise VerifyException(f"{name}: order '{order}' with scope '{scope}'")
    if cache is not None and (cache.data not in CACHE_HINTS or order != "weak"):
        raise VerifyException(f"{name}: cache hint '{cache.data}' with order '{order}'")
