"""Block-scaled products by tcgen05: their scales go through stages, as operands do.

    scales_load %p, %view[%x, %i]                      (the producer's threads)
    %a, %b, %sa, %sb = consumer_wait %p
    tcgen05_dot_scaled %a by %sa, %b by %sb into %sum  (the warp that issues products)

A tile of scales in a stage has no swizzle, which its type says by a swizzle of 0: it lies as
`dialects/layout/scale_factors` says.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.nv_tileas.pipeline import SharedTileType
from tileiras.dialects.nv_tileas.tcgen05 import AccumulatorType

F4_PER_BYTE = 2


@irdl_op_definition
class ScalesLoadOp(IRDLOperation):
    """Copies one tile of scales of a view into the current stage at byte `offset`.

    `axis` is the dim of the tile along K, `rows` the other one that counts. The producer's threads
    copy `vector` scales along K at a time, by cp.async if these are 4 bytes. What is out of bounds
    becomes zero. `inbounds` promises per dim that nothing is.
    """

    name = "nv_tileas.async.scales_load"
    pipeline = operand_def()
    view = operand_def()
    indices = var_operand_def()
    axis = prop_def(IntAttr)
    rows = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    vector = prop_def(IntAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])


@irdl_op_definition
class Tcgen05DotScaledOp(IRDLOperation):
    """`accumulator += (lhs * lhs_scale) @ (rhs * rhs_scale)`, without waiting for it.

    All operands are tiles in stages; scales are copied to tensor memory, those of the left operand
    to column `column` and on, those of the right one behind them. `kind` names a row of
    `codegen.atoms.tcgen05_scaled`. `packed`: operands are i8, a byte is two f4 along K.
    """

    name = "nv_tileas.tcgen05_dot_scaled"
    accumulator = operand_def(AccumulatorType)
    lhs = operand_def(SharedTileType)
    rhs = operand_def(SharedTileType)
    lhs_scale = operand_def(SharedTileType)
    rhs_scale = operand_def(SharedTileType)
    kind = prop_def(StringAttr)
    column = prop_def(IntAttr)
    packed = opt_prop_def(UnitAttr)

    @property
    def depth(self) -> int:
        """Elements along K."""
        return _shape(self.lhs)[-1] * (1 if self.packed is None else F4_PER_BYTE)

    def verify_(self) -> None:
        """The shapes are those of a product, with as many scales along K on both sides."""
        lhs, rhs = _shape(self.lhs), _shape(self.rhs)
        is_product = len(lhs) == len(rhs) == 2 and lhs[1] == rhs[0]
        if not is_product or _shape(self.accumulator) != (lhs[0], rhs[1]):
            raise VerifyException(f"{self.name}: {lhs} @ {rhs} is not {_shape(self.accumulator)}")
        left, right = _shape(self.lhs_scale), _shape(self.rhs_scale)
        are_scales = len(left) == len(right) == 2 and left[1] == right[0]
        if not are_scales or (left[0], right[1]) != (lhs[0], rhs[1]) or self.depth % left[1]:
            raise VerifyException(f"{self.name}: scales {left} and {right} of {lhs} @ {rhs}")


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile in a stage or of a sum."""
    type = value.type
    return type.shape if isinstance(type, AccumulatorType | SharedTileType) else ()


TCGEN05_SCALED_OPS = (ScalesLoadOp, Tcgen05DotScaledOp)
