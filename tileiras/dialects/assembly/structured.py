"""Operations with a syntax of their own, and when it says all that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    FunctionType,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue

from tileiras.dialects.assembly.constants import (
    element_type_of,
)
from tileiras.dialects.assembly.forms_compiler import form_of
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.llvm.constants import ConstantOp as BitsConstantOp
from tileiras.dialects.llvm.control import BrOp, CondBrOp
from tileiras.dialects.llvm.control import FuncOp as ThreadFuncOp
from tileiras.dialects.nv_tileaa.control_flow import ForOp, FuncOp, IfOp, LoopOp
from tileiras.dialects.nv_tileaa.tensors import ConstantOp


def is_one_block(region: Region) -> bool:
    """Whether a region has exactly one block."""
    return region.first_block is not None and region.first_block.next_block is None


def is_expressible(op: Operation) -> bool:
    """Whether the syntax of this file says all that the operation is."""
    match op:
        case FuncOp():
            return is_one_block(op.body) and _function_type(op) == op.function_type and _plain(op)
        case ForOp():
            return is_one_block(op.body) and _is_loop(op, op.body.block.args[1:], op.step.type)
        case LoopOp():
            return is_one_block(op.body) and _carries(op, op.body.block.args)
        case IfOp():
            empty = op.else_region.first_block is None
            return (
                is_one_block(op.then_region)
                and (empty or is_one_block(op.else_region))
                and not any(block.args for region in op.regions for block in region.blocks)
                and op.condition.type == IntegerType(1)
                and _plain(op)
            )
        case ConstantOp():
            return tile_type(op.result.type) == op.value.type and _plain(op)
        case BitsConstantOp():
            return _is_number(op.result.type) and not op.attributes
        case ThreadFuncOp():
            return op.body.first_block is not None and _plain(op)
        case BrOp() | CondBrOp():
            return not op.attributes
        case _:
            return False


def _plain(op: Any) -> bool:
    """Whether no attribute has the name of a property."""
    return not op.attributes.keys() & form_of(type(op)).kinds.keys()


def _is_loop(op: ForOp, carried: Sequence[SSAValue], kind: Attribute) -> bool:
    """Whether bounds and counter have one type, and the types of carried values agree."""
    counter = op.body.block.args[0].type
    bounds = {op.lower_bound.type, op.upper_bound.type, counter}
    return bounds == {kind} and _carries(op, carried)


def _carries(op: ForOp | LoopOp, carried: Sequence[SSAValue]) -> bool:
    types = [value.type for value in op.init_values]
    return types == [value.type for value in carried] and _plain(op)


def _function_type(op: FuncOp) -> FunctionType:
    return FunctionType.from_lists([value.type for value in op.body.block.args], [])


def _is_number(type: Attribute) -> bool:
    element = element_type_of(type)
    return isinstance(element, IntegerType) or element.__class__ in FLOAT_FORMATS


def tile_type(type: Attribute) -> TileType | None:
    """The tile type with the shape and elements of a tensor or scalar."""
    if not _is_number(type):
        return None
    shape = type.get_shape() if isinstance(type, TensorType) else ()
    return TileType(element_type_of(type), shape)
