"""Operations of later stages as the cuda_tile operations of the same meaning: their equivalent
operations.

The stages keep properties and change types: a rule of cuda_tile, given the equivalent operation of
an operation, computes what that operation means. An equivalent operation is detached; its operands
only have types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.dialects.nv_tileaa.counterparts import COUNTERPARTS
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.interpreter.formats import Format, format_of

ELEMENTWISE: dict[type[Operation], type[Operation]] = COUNTERPARTS
"""Elementwise operations and the classes of their equivalent operations."""

REARRANGING: dict[type[Operation], type[Operation]] = {
    aa.BroadcastOp: ct.BroadcastOp,
    aa.CatOp: ct.CatOp,
    aa.ConstantOp: ct.ConstantOp,
    aa.ExtractOp: ct.ExtractOp,
    aa.InsertOp: ct.InsertOp,
    aa.MakeRangeOp: ct.IotaOp,
    aa.PackOp: ct.PackOp,
    aa.PermuteOp: ct.PermuteOp,
    aa.ReshapeOp: ct.ReshapeOp,
    aa.UnpackOp: ct.UnpackOp,
}
"""Operations that make tensors or move their elements, and the classes of their equivalent
operations.
"""


@cache
def tile_type(type: Attribute) -> TileType:
    """The tile that a tensor or scalar is."""
    if isinstance(type, TensorType):
        return TileType(tile_element(type.element_type), type.get_shape())
    if isinstance(type, TileType):
        return type
    return TileType(tile_element(type), ())


@cache
def tile_element(type: Attribute) -> Attribute:
    """An element type as cuda_tile has it: pointers are its own."""
    return PointerType(tile_element(type.pointee)) if isinstance(type, aa.PointerType) else type


def value_format(type: Attribute) -> Format:
    """The format of the elements of a tensor, tile or scalar type."""
    return format_of(tile_type(type).element_type)


def pointee_format(type: Attribute) -> Format:
    """The format of what a pointer, or a tensor of pointers, points to."""
    element = tile_type(type).element_type
    return format_of(element.pointee if isinstance(element, PointerType) else element)


def equivalent_properties(op: Operation, *names: str) -> dict[str, Attribute]:
    """Those of the named properties that an operation has."""
    return {name: op.properties[name] for name in names if name in op.properties}


def operand_type(type: Attribute) -> TileType:
    """As `tile_type`; a tile in shared memory or in tensor memory is a tile, too."""
    if isinstance(type, MemDescType):
        return TileType(tile_element(type.element_type), type.shape)
    return tile_type(type)


class EquivalentOps:
    """Makes equivalent operations, one per operation, and keeps them as long as a run lasts."""

    def __init__(self) -> None:
        self._made: dict[Operation, Operation] = {}

    def of(
        self,
        op: Operation,
        equivalent_class: type[Operation],
        properties: Mapping[str, Attribute] | None = None,
        operands: Sequence[SSAValue] | None = None,
        results: Sequence[SSAValue] | None = None,
    ) -> Operation:
        """The equivalent operation of an operation whose operands and results are tensors or
        scalars.

        It has the operation's own properties, operands and results unless others are given.
        """
        known = self._made.get(op)
        if known is None:
            types = [operand.type for operand in (op.operands if operands is None else operands)]
            made = op.results if results is None else results
            stand_ins = Block(arg_types=[operand_type(type) for type in types])
            known = equivalent_class.create(
                operands=list(stand_ins.args),
                result_types=[operand_type(result.type) for result in made],
                properties=dict(op.properties if properties is None else properties),
                location=op.location,
            )
            self._made[op] = known
        return known
