"""Shapes that elementwise operations share: how many operands, which element types, which verifier.

A chapter's operation derives from one of these, and adds its properties and what is special to it.
"""

from abc import ABC
from typing import ClassVar

from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect, Pure

from tileiras.dialects.cuda_tile.checks import check_same_shape, check_tile, check_uniform
from tileiras.dialects.cuda_tile.element_types import (
    BASE_FLOAT,
    INTEGER,
    ElementClass,
)
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import TileType


class UniformOp(TileOp, ABC):
    """Operands and results all have one type, a tile of `ELEMENTS`."""

    ELEMENTS: ClassVar[ElementClass] = INTEGER

    def check_semantics(self) -> None:
        """One type, of the right elements."""
        check_uniform(self, self.ELEMENTS)


class UnaryFloatOp(UniformOp, ABC):
    """`result[i] = f(source[i])` on float tiles."""

    ELEMENTS: ClassVar[ElementClass] = BASE_FLOAT
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


class UnaryIntegerOp(UniformOp, ABC):
    """`result[i] = f(source[i])` on integer tiles."""

    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


class BinaryFloatOp(UniformOp, ABC):
    """`result[i] = f(lhs[i], rhs[i])` on float tiles."""

    ELEMENTS: ClassVar[ElementClass] = BASE_FLOAT
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())


class BinaryIntegerOp(UniformOp, ABC):
    """`result[i] = f(lhs[i], rhs[i])` on integer tiles."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())


class PartialIntegerOp(UniformOp, ABC):
    """A binary operation that is undefined for some operands.

    It has no effects, but must not be moved to where it did not run before.
    """

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(NoMemoryEffect())


class ConversionOp(TileOp, ABC):
    """`result[i] = f(source[i])`: one shape, element types of `FROM` and `TO`."""

    FROM: ClassVar[ElementClass] = INTEGER
    TO: ClassVar[ElementClass] = INTEGER
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One shape, and the right element types on both sides."""
        self.check_conversion()

    def check_conversion(self) -> tuple[TileType, TileType]:
        """Checks shape and element types; returns the types of source and result."""
        source = check_tile(self, self.source, "source", self.FROM)
        result = check_tile(self, self.result, "result", self.TO)
        check_same_shape(self, source, result, "source and result")
        return source, result
