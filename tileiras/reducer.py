"""Makes a program smaller as long as it stays interesting: what is left shows a mistake best.

Delta debugging over what can be taken away (operations, parameters, hints): large pieces first,
then halves, down to single ones, again until nothing can go. An operation's results are replaced by
other values of their type, or by zeros, so that what follows need not go with it.

A program is the bytes of a file: every trial reads them anew, so trials cannot disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.memory import MakeTokenOp
from tileiras.dialects.cuda_tile.structure import EntryOp
from tileiras.dialects.cuda_tile.tiles import ConstantOp
from tileiras.dialects.cuda_tile.types import TileType, TokenType
from tileiras.driver import is_bytecode, read_source
from tileiras.errors import TileirasError
from tileiras.stages import print_stage

HINTS = "optimization_hints"


@dataclass(frozen=True)
class Reduction:
    """What can be taken away from a program, and how. `find` gives the places in a fixed order."""

    name: str
    find: Callable[[ModuleOp], list[Any]]
    remove: Callable[[Any], None]


def reduce_program(
    source: bytes, is_interesting: Callable[[bytes], bool], report: Callable[[str], None]
) -> bytes:
    """The smallest program that was found for which `is_interesting` holds, as it does for
    `source`. `report` is told of progress."""
    before = b""
    while before != source:
        before = source
        for reduction in REDUCTIONS:
            source = _minimize(source, reduction, is_interesting, report)
    return source


def write_again(source: bytes, module: ModuleOp) -> bytes:
    """The module in the form of `source`, bytecode or text."""
    if is_bytecode(source):
        from tileiras.bytecode.writer import write_module

        return write_module(module)
    return print_stage(module, debug_info=True).encode()


def _minimize(
    source: bytes,
    reduction: Reduction,
    is_interesting: Callable[[bytes], bool],
    report: Callable[[str], None],
) -> bytes:
    """Takes away as much of one kind as can go."""
    left = len(reduction.find(read_source(source)))
    size = left
    while size:
        start = 0
        while start < left:
            found = _without(source, reduction, start, start + size)
            if found is not None and found[1] < left and is_interesting(found[0]):
                source, left = found
                report(f"{len(source)} bytes, {left} {reduction.name}")
            else:
                start += size
        size //= 2
    return source


def _without(source: bytes, reduction: Reduction, start: int, end: int) -> tuple[bytes, int] | None:
    """The program without some of what can go, and how much can still go; None where that is no
    program that can be written down."""
    module = read_source(source)
    for place in reversed(reduction.find(module)[start:end]):
        reduction.remove(place)
    _drop_unused(module)
    try:
        smaller = write_again(source, module)
        return smaller, len(reduction.find(read_source(smaller)))
    except (TileirasError, VerifyException):
        return None


def _removable(module: ModuleOp) -> list[Operation]:
    """All operations but terminators, modules and what replaces others."""
    kept = (ModuleOp, ConstantOp, MakeTokenOp)
    return [
        op
        for op in module.walk()
        if not isinstance(op, kept)
        and not op.name.endswith(".module")
        and not op.has_trait(IsTerminator)
    ]


def _remove_operation(op: Operation) -> None:
    """Takes an operation away if every result that is used has a substitute."""
    block = op.parent
    if block is None:
        return
    for result in op.results:
        if not result.uses:
            continue
        substitute = _substitute(op, result.type)
        if substitute is None:
            return
        result.replace_all_uses_with(substitute)
    op.detach()
    op.erase()


def _substitute(op: Operation, type: Attribute) -> SSAValue | None:
    """A value of the type that is known before `op`: an operand, an earlier value, a zero."""
    for value in op.operands:
        if value.type == type:
            return value
    return _earlier_value(op, type) or _zero_before(op, type)


def _earlier_value(op: Operation, type: Attribute) -> SSAValue | None:
    """The nearest value of the type whose definition dominates `op`."""
    at: Operation | None = op
    while at is not None and isinstance(block := at.parent, Block):
        before = at.prev_op
        while before is not None:
            for result in before.results:
                if result.type == type:
                    return result
            before = before.prev_op
        for argument in block.args:
            if argument.type == type:
                return argument
        at = at.parent_op()
    return None


def _zero_before(op: Operation, type: Attribute) -> SSAValue | None:
    """A new constant in front of `op`; None for types that have none."""
    block = op.parent
    assert block is not None
    new: Operation | None = None
    if isinstance(type, TokenType):
        new = MakeTokenOp.create(result_types=[type], location=op.location)
    elif (zero := _zero(type)) is not None:
        new = ConstantOp.create(
            result_types=[type], properties={"value": zero}, location=op.location
        )
    if new is None:
        return None
    block.insert_op_before(new, op)
    return new.results[0]


def _zero(type: Attribute) -> DenseAttr | None:
    """A tile of zeros; None for types that are no tiles of numbers."""
    if not isinstance(type, TileType):
        return None
    try:
        return DenseAttr(type, bytes(storage_bytes(type.element_type)))
    except ValueError:
        return None


def _drop_unused(module: ModuleOp) -> None:
    """Takes away constants and tokens that nobody uses."""
    for op in list(module.walk()):
        if isinstance(op, ConstantOp | MakeTokenOp) and not op.results[0].uses:
            op.detach()
            op.erase()


def _control_flow(module: ModuleOp) -> list[Operation]:
    """Operations in kernels whose first region could stand in their place."""
    return [op for op in _removable(module) if op.regions and not isinstance(op, EntryOp)]


def _remove_around(op: Operation) -> None:
    """Puts the body of a loop or condition in its place, as if it ran once."""
    body, block = op.regions[0].first_block, op.parent
    if body is None or block is None or body.last_op is None:
        return
    for argument in body.args:
        if not argument.uses:
            continue
        substitute = _substitute(op, argument.type)
        if substitute is None:
            return
        argument.replace_all_uses_with(substitute)
    *inner, terminator = body.ops
    for result, value in zip(op.results, terminator.operands, strict=False):
        if result.type == value.type:
            result.replace_all_uses_with(value)
    for each in inner:
        each.detach()
        block.insert_op_before(each, op)
    _remove_operation(op)


def _unused_parameters(module: ModuleOp) -> list[SSAValue]:
    """Parameters of kernels that are not used."""
    return [
        argument
        for op in module.walk()
        if isinstance(op, EntryOp) and op.arg_attrs is None
        for argument in op.body.block.args
        if not argument.uses
    ]


def _remove_parameter(argument: Any) -> None:
    entry = argument.block.parent_op()
    argument.block.erase_arg(argument)
    types = [each.type for each in entry.body.block.args]
    entry.properties["function_type"] = FunctionType.from_lists(types, [])


def _hinted(module: ModuleOp) -> list[Operation]:
    """Operations with hints."""
    return [op for op in module.walk() if HINTS in op.properties]


def _remove_hints(op: Operation) -> None:
    del op.properties[HINTS]


REDUCTIONS: Sequence[Reduction] = (
    Reduction("operations", _removable, _remove_operation),
    Reduction("loops and conditions", _control_flow, _remove_around),
    Reduction("unused parameters", _unused_parameters, _remove_parameter),
    Reduction("operations with hints", _hinted, _remove_hints),
)
"""In the order in which they are tried."""
