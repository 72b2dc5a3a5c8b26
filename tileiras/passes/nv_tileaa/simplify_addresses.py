"""The pass `simplify-addresses`: less arithmetic for each pointer and mask of a loop.

    for %k { %p = addptr(%base, %rows + %k64) }    ->    %r = addptr(%base, %rows)
                                                         for %k { %p = addptr(%r, %k64) }
    cmpi(exti %row, exti %size)                    ->    cmpi(%row, %size)

It comes after the facts about pointers have been noted: they are found in the longer form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.types import element_of, with_element
from tileiras.errors import InternalError, required
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import erase_op

ADDRESS_BITS = 64
"""Fixed: bits of an address."""
MOVEMENTS = (aa.SplatOp, aa.BroadcastOp, aa.ReshapeOp)
"""Operations that hand elements on as they are."""


@dataclass(frozen=True)
class SimplifyAddressesPass(IrPass):
    """Moves the invariant part of pointers out of loops; compares indices without widening them.

    Before   for %k { %p = addptr(%base, addi(%rows, %k64)); %m = cmpi(exti %a, exti %b) }
    After    %r = addptr(%base, %rows); for %k { %p = addptr(%r, %k64); %m = cmpi(%a, %b) }
    Requires nv_tileaa, with the facts about pointers and masks on their users; a kernel that it
             changes loses its strategy
    Leaves   offsets without an invariant part, or narrower than addresses; comparisons of what was
             widened in different ways
    """

    name = "simplify-addresses"
    title: ClassVar[str] = "Simplify addresses in loops"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Narrows all comparisons, then goes through all loops, inner ones first."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and _simplify(func):
                from tileiras.planning.strategy import drop_strategy

                drop_strategy(func)


def _simplify(func: aa.FuncOp) -> bool:
    """Simplifies a function; False if there is nothing to do."""
    done = [_narrow(op) for op in list(func.walk()) if isinstance(op, aa.CmpIOp)]
    loops = [inner for inner in func.walk(reverse=True) if isinstance(inner, aa.ForOp)]
    for loop in loops:
        pointers = [inner for inner in loop.walk() if isinstance(inner, aa.AddPtrOp)]
        done += [_split(op, loop) for op in pointers]
    return any(done)


def _narrow(compare: aa.CmpIOp) -> bool:
    """Compares before both sides are widened: widening keeps the order, of unsigned numbers too."""
    sides = [_widened(value) for value in compare.operands]
    if sides[0] is None or sides[1] is None:
        return False
    first, second = sides[0], sides[1]
    if element_of(first.source) != element_of(second.source):
        return False
    if first.signedness.data is not second.signedness.data:
        return False
    wide = list(compare.operands)
    compare.operands = [_without(value) for value in wide]
    for value in wide:
        _erase_unused(value)
    if first.signedness.data is Signedness.UNSIGNED:
        compare.properties["signedness"] = SignednessAttr(Signedness.UNSIGNED)
    return True


def _widened(value: SSAValue) -> aa.ExtIOp | None:
    """The widening under operations that hand elements on."""
    while isinstance(value, OpResult) and isinstance(value.op, MOVEMENTS):
        value = value.op.operands[0]
    if not isinstance(value, OpResult):
        return None
    return value.op if isinstance(value.op, aa.ExtIOp) else None


def _without(value: SSAValue) -> SSAValue:
    """The value with the widening left out."""
    if not isinstance(value, OpResult):
        raise InternalError("a widened value has no maker", where="simplify_addresses")
    if isinstance(value.op, aa.ExtIOp):
        return value.op.source
    source = _without(value.op.operands[0])
    return _put_before(value.op, value.op, [source], with_element(value.type, element_of(source)))


def _split(pointers: aa.AddPtrOp, loop: aa.ForOp) -> bool:
    """Adds the invariant terms of an offset to the pointers before the loop.

    Only offsets as wide as addresses: a narrow sum may wrap where that of wide terms does not.
    """
    base, offset = pointers.operands
    if element_of(offset) != IntegerType(ADDRESS_BITS):
        return False
    terms = _terms(offset)
    invariant = [term for term in terms if _is_invariant(term, loop)]
    varying = [term for term in terms if not _is_invariant(term, loop)]
    if not invariant or not varying or not _is_invariant(base, loop):
        return False
    values = [_before(value, loop) for value in (base, *invariant)]
    rows = _put_before(pointers, loop, [values[0], _sum(values[1:], loop)], pointers.result.type)
    pointers.operands = [rows, _sum(varying, pointers)]
    _erase_unused(base)
    _erase_unused(offset)
    return True


def _erase_unused(value: SSAValue) -> None:
    """Erases what nothing uses any more, and what only that has used."""
    simple = (*MOVEMENTS, aa.ExtIOp, aa.AddIOp)
    if value.first_use is not None or not isinstance(value, OpResult):
        return
    op = value.op
    if isinstance(op, simple) and op.parent_block() is not None:
        operands = list(op.operands)
        erase_op(op)
        for operand in operands:
            _erase_unused(operand)


def _terms(value: SSAValue) -> list[SSAValue]:
    """What a sum adds up; it wraps, so in any order."""
    if isinstance(value, OpResult) and isinstance(value.op, aa.AddIOp):
        return [*_terms(value.op.operands[0]), *_terms(value.op.operands[1])]
    return [value]


def _is_invariant(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is made before the loop, or handed on from what is."""
    owner = value.owner
    if not loop.is_ancestor(owner):
        return True
    return isinstance(owner, MOVEMENTS) and _is_invariant(owner.operands[0], loop)


def _before(value: SSAValue, loop: Operation) -> SSAValue:
    """An invariant value, in front of the loop."""
    if not isinstance(value, OpResult) or not loop.is_ancestor(value.op):
        return value
    return _put_before(value.op, loop, [_before(value.op.operands[0], loop)], value.type)


def _sum(values: list[SSAValue], place: Operation) -> SSAValue:
    """The sum, computed in front of an operation."""
    total = values[0]
    for value in values[1:]:
        added = aa.AddIOp.create(
            operands=[total, value],
            result_types=[total.type],
            properties={"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)},
            location=place.location,
        )
        _insert(added, place)
        total = added.results[0]
    return total


def _put_before(
    model: Operation, place: Operation, operands: list[SSAValue], type_: Attribute
) -> SSAValue:
    """An operation like another one, in front of `place`."""
    copy = type(model).create(
        operands=operands,
        result_types=[type_],
        properties=model.properties,
        location=model.location,
    )
    _insert(copy, place)
    return copy.results[0]


def _insert(op: Operation, place: Operation) -> None:
    block = required(place.parent_block(), "an operation is in no block", "simplify_addresses")
    block.insert_op_before(op, place)


__all__ = ["SimplifyAddressesPass"]
