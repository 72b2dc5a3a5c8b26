"""Operations of the cuda_tile dialect: reductions (Tile IR specification, "reduce", "scan").

The body takes one (element, accumulator) pair of scalars per operand and yields the accumulators.
It must be associative: the order of the elements is not fixed.
"""

from abc import ABC

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoMemoryEffect

from tileiras.dialects.cuda_tile.checks import (
    check_dim,
    check_tile,
    check_types,
    fail,
    mnemonic,
)
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.effects import is_pure
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import NUMBER
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import TileType

HALF_FLOATS = ("f16", "bf16")
ALLOWED = ("cuda_tile.yield", "cuda_tile.if")
"""What may be in a body besides operations without effects."""
REFUSED = ("cuda_tile.for", "cuda_tile.assume")
"""What may not be in a body though it has no effect (observed behaviour)."""


class FoldingOp(TileOp, ABC):
    """What reduce and scan share: operands of one shape, identities, and a body of scalars."""

    arguments = var_operand_def()
    dim = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    results_ = var_result_def()
    body = region_def()
    traits = traits_def(NoMemoryEffect())

    def check_operands(self) -> list[TileType]:
        """Checks shapes, dim and identities; returns the types of the operands."""
        if not self.arguments:
            fail(self, "has no operands, expected at least one")
        tiles = [
            check_tile(self, operand, f"operand {index}", NUMBER)
            for index, operand in enumerate(self.arguments)
        ]
        for index, tile in enumerate(tiles):
            if tile.shape != tiles[0].shape:
                expected = f"{list(tiles[0].shape)} (as operand 0)"
                fail(self, f"operand {index} has shape {list(tile.shape)}, expected {expected}")
        check_dim(self, self.dim, tiles[0].rank)
        self.check_identities(tiles)
        return tiles

    def check_identities(self, tiles: list[TileType]) -> None:
        """One identity per operand, of its element type."""
        identities = self.identities.data
        if len(identities) != len(tiles):
            fail(self, f"has {len(identities)} identities, expected {len(tiles)} (one per operand)")
        for index, (identity, tile) in enumerate(zip(identities, tiles)):
            found = _identity_type(identity)
            if found is None:
                fail(self, f"identity {index} is not a typed number")
            texts = (element_text(found), element_text(tile.element_type))
            if texts[0] != texts[1] and not all(text in HALF_FLOATS for text in texts):
                expected = f"{texts[1]} (as the operand)"
                fail(self, f"identity {index} has type {texts[0]}, expected {expected}")

    def check_body(self, tiles: list[TileType]) -> None:
        """Pairs of scalars in, one scalar per operand out, and no effects between."""
        if len(self.body.blocks) != 1:
            fail(self, f"body has {len(self.body.blocks)} blocks, expected 1")
        block = self.body.blocks[0]
        scalars = [TileType(tile.element_type) for tile in tiles]
        pairs = [scalar for scalar in scalars for _ in range(2)]
        found = [argument.type for argument in block.args]
        check_types(self, found, pairs, "block argument", "an element and an accumulator each")
        for inner in block.walk():
            if not is_pure(inner) and inner.name not in ALLOWED or inner.name in REFUSED:
                fail(self, f"body has '{mnemonic(inner)}', expected operations without effects")
        last = block.last_op
        if last is None or last.name != "cuda_tile.yield":
            fail(self, "body does not end in 'yield'")
        yielded = [operand.type for operand in last.operands]
        check_types(self, yielded, scalars, "yielded value", "the accumulators")


def _identity_type(identity: Attribute) -> Attribute | None:
    if isinstance(identity, FloatBitsAttr):
        return identity.type
    if isinstance(identity, IntegerAttr) and isinstance(identity.type, IntegerType):
        return identity.type
    return None


@irdl_op_definition
class ReduceOp(FoldingOp):
    """Folds all elements along `dim` into one; `dim` goes away."""

    name = "cuda_tile.reduce"

    def check_semantics(self) -> None:
        """Results have the operands' shape without `dim`."""
        tiles = self.check_operands()
        dim = self.dim.value.data
        shape = tiles[0].shape[:dim] + tiles[0].shape[dim + 1 :]
        expected = [TileType(tile.element_type, shape) for tile in tiles]
        found = [result.type for result in self.results]
        check_types(self, found, expected, "result", "the operands without dim")
        self.check_body(tiles)


@irdl_op_definition
class ScanOp(FoldingOp):
    """`result[i]` folds the elements 0 to i along `dim`, or i to the last with `reverse`."""

    name = "cuda_tile.scan"
    reverse = prop_def(IntegerAttr)

    def check_semantics(self) -> None:
        """Results have the operands' types."""
        tiles = self.check_operands()
        found = [result.type for result in self.results]
        check_types(self, found, tiles, "result", "the operands")
        if self.reverse.value.data not in (-1, 0, 1):
            fail(self, f"has reverse {self.reverse.value.data}, expected true or false")
        self.check_body(tiles)
