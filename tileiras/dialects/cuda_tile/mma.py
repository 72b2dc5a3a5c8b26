"""Operations of the cuda_tile dialect: matrix multiplication (Tile IR specification, "mma").

`result = lhs @ rhs + acc` on M x K, K x N and M x N tiles, or on batches of them (rank 3).
"""

from abc import ABC

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import SignednessAttr
from tileiras.dialects.cuda_tile.checks import check_same_type, check_tile, fail, listed
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import F32, FLOAT, I8, I32, ElementClass
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType, TileType

MMAF_ACCUMULATORS: dict[type[Attribute], tuple[type[Attribute], ...]] = {
    Float16Type: (Float16Type, Float32Type),
    BFloat16Type: (Float32Type,),
    Float32Type: (Float32Type,),
    Float64Type: (Float64Type,),
    FloatTF32Type: (Float32Type,),
    Float8E4M3FNType: (Float16Type, Float32Type),
    Float8E5M2Type: (Float16Type, Float32Type),
}
"""Operand element type -> accumulator element types."""

SCALE_VECTORS: dict[type[Attribute], dict[type[Attribute], tuple[int, ...]]] = {
    Float8E4M3FNType: {Float8E8M0FNUType: (32,)},
    Float8E5M2Type: {Float8E8M0FNUType: (32,)},
    Float4E2M1FNType: {
        Float8E4M3FNType: (16,),
        Float8E8M0FNUType: (16, 32),
        Float8E5M3FNUType: (16, 32),
    },
}
"""Operand element type -> scale element type -> elements along K that share one scale."""


def check_mma_shapes(op: Operation, lhs: TileType, rhs: TileType, acc: TileType) -> None:
    """M x K times K x N gives M x N, all with the same batch."""
    if lhs.rank not in (2, 3):
        fail(op, f"lhs has rank {lhs.rank}, expected 2 or 3")
    for type, what in ((rhs, "rhs"), (acc, "acc")):
        if type.rank != lhs.rank:
            fail(op, f"{what} has rank {type.rank}, expected {lhs.rank} (the rank of lhs)")
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    if rhs.shape != (*batch, k, n):
        fail(op, f"rhs has shape {list(rhs.shape)}, expected {[*batch, k, n]} for lhs of {[m, k]}")
    if acc.shape != (*batch, m, n):
        fail(op, f"acc has shape {list(acc.shape)}, expected {[*batch, m, n]}")


class MmaOp(TileOp, ABC):
    """What the unscaled multiplications share."""

    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_tiles(
        self, inputs: ElementClass, accumulators: ElementClass
    ) -> tuple[TileType, TileType, TileType]:
        """Checks element classes and shapes; returns the types of lhs, rhs and acc."""
        lhs = check_tile(self, self.lhs, "lhs", inputs)
        rhs = check_tile(self, self.rhs, "rhs", inputs)
        acc = check_tile(self, self.acc, "acc", accumulators)
        check_mma_shapes(self, lhs, rhs, acc)
        check_same_type(self, acc, self.result.type, "acc and result")
        return lhs, rhs, acc


def _names(types: tuple[type[Attribute], ...]) -> str:
    return listed(element_text(type()) for type in types)


@irdl_op_definition
class MmaFOp(MmaOp):
    """Float multiplication; `fast_acc` (13.3) permits the cheaper f8 accumulation of Hopper."""

    name = "cuda_tile.mmaf"
    fast_acc = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """Operands of one element type, and an accumulator that it has."""
        lhs, rhs, acc = self.check_tiles(FLOAT, FLOAT)
        left, right = lhs.element_type, rhs.element_type
        if left != right:
            found = f"{element_text(left)} and {element_text(right)}"
            fail(self, f"lhs and rhs have element types {found}, expected one")
        allowed = MMAF_ACCUMULATORS.get(type(left))
        if allowed is None:
            expected = _names(tuple(MMAF_ACCUMULATORS))
            fail(self, f"lhs has element type {element_text(left)}, expected {expected}")
        if type(acc.element_type) not in allowed:
            found = element_text(acc.element_type)
            expected = f"{_names(allowed)} for operands of {element_text(left)}"
            fail(self, f"acc has element type {found}, expected {expected}")


@irdl_op_definition
class MmaIOp(MmaOp):
    """Integer multiplication, i8 into i32; each operand has its own signedness."""

    name = "cuda_tile.mmai"
    signedness_lhs = prop_def(SignednessAttr)
    signedness_rhs = prop_def(SignednessAttr)

    def check_semantics(self) -> None:
        """i8 operands and an i32 accumulator."""
        self.check_tiles(I8, I32)


@irdl_op_definition
class MmaFScaledOp(TileOp):
    """`result = (lhs * lhs_scale) @ (rhs * rhs_scale) + acc`, a scale per V elements along K.

    `lhs_scale` is M x K/V, `rhs_scale` K/V x N.
    """

    name = "cuda_tile.mmaf_scaled"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    lhs_scale = operand_def()
    rhs_scale = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Element types and shapes of operands and scales (`SCALE_VECTORS`)."""
        lhs = check_tile(self, self.lhs, "lhs", FLOAT)
        rhs = check_tile(self, self.rhs, "rhs", FLOAT)
        acc = check_tile(self, self.acc, "acc", F32)
        check_mma_shapes(self, lhs, rhs, acc)
        check_same_type(self, acc, self.result.type, "acc and result")
        for operand, what in ((lhs, "lhs"), (rhs, "rhs")):
            if type(operand.element_type) not in SCALE_VECTORS:
                found = element_text(operand.element_type)
                expected = _names(tuple(SCALE_VECTORS))
                fail(self, f"{what} has element type {found}, expected {expected}")
        if lhs.element_type != rhs.element_type:
            found = f"{element_text(lhs.element_type)} and {element_text(rhs.element_type)}"
            fail(self, f"lhs and rhs have element types {found}, expected one")
        self.check_scales(lhs, rhs)

    def check_scales(self, lhs: TileType, rhs: TileType) -> None:
        """Both scales have one element type, and one entry for each group along K."""
        lhs_scale = check_tile(self, self.lhs_scale, "lhs_scale", FLOAT)
        rhs_scale = check_tile(self, self.rhs_scale, "rhs_scale", FLOAT)
        left, right = lhs_scale.element_type, rhs_scale.element_type
        if left != right:
            found = f"{element_text(left)} and {element_text(right)}"
            fail(self, f"scales have element types {found}, expected one")
        vectors = SCALE_VECTORS[type(lhs.element_type)]
        if type(left) not in vectors:
            found = element_text(left)
            expected = f"{_names(tuple(vectors))} for {element_text(lhs.element_type)}"
            fail(self, f"lhs_scale has element type {found}, expected {expected}")
        *batch, m, k = lhs.shape
        shapes = [(*batch, m, k // size) for size in vectors[type(left)] if k % size == 0]
        if lhs_scale.shape not in shapes:
            expected = listed(map(list, shapes)) if shapes else "a K that the scales divide"
            fail(self, f"lhs_scale has shape {list(lhs_scale.shape)}, expected {expected}")
        groups = lhs_scale.shape[-1]
        if rhs_scale.shape != (*batch, groups, rhs.shape[-1]):
            expected = [*batch, groups, rhs.shape[-1]]
            fail(self, f"rhs_scale has shape {list(rhs_scale.shape)}, expected {expected}")
