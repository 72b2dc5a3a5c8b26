"""Matrix products whose operands have a scale for each block of elements along K."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float32Type,
    IntegerType,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.mma import SCALE_VECTORS


@irdl_op_definition
class DotScaledOp(IRDLOperation):
    """`result = (lhs * lhs_scale) @ (rhs * rhs_scale) + acc`, rank 2, or rank 3 batched over dim 0.

    `lhs_scale` is M x K/V, `rhs_scale` K/V x N: V elements along K share a scale. Element types are
    those of cuda_tile's mmaf_scaled, but that those of the operands may differ. The accumulator is
    f32. `packed`: operands are i8, a byte is two f4 along K, that of the even K in the low half.
    Where the `condition` (i1) does not hold, `result` is `acc`.
    """

    name = "nv_tileaa.dot_scaled"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    acc = operand_def(TensorType)
    lhs_scale = operand_def(TensorType)
    rhs_scale = operand_def(TensorType)
    condition = opt_operand_def(IntegerType(1))
    packed = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @property
    def depth(self) -> int:
        """Elements along K."""
        return _shape(self.lhs)[-1] * (1 if self.packed is None else 2)

    @property
    def block(self) -> int:
        """How many elements along K share a scale."""
        return self.depth // _shape(self.lhs_scale)[-1]

    def operand_element(self, operand: SSAValue) -> Attribute:
        """The type of the numbers of an operand."""
        element = _element(operand)
        is_byte = element == IntegerType(8) and self.packed is not None
        return Float4E2M1FNType() if is_byte else element

    def verify_(self) -> None:
        """Shapes of a product, one scale a block, element types that scales of such blocks have."""
        *batch, m, k = _shape(self.lhs)
        n, groups = _shape(self.rhs)[-1], _shape(self.lhs_scale)[-1]
        wanted = {
            "rhs": (*batch, k, n),
            "acc": (*batch, m, n),
            "lhs_scale": (*batch, m, groups),
            "rhs_scale": (*batch, groups, n),
        }
        for what, shape in wanted.items():
            found = _shape(getattr(self, what))
            if found != shape:
                raise VerifyException(f"{what} has shape {list(found)}, expected {list(shape)}")
        if self.result.type != self.acc.type or not isinstance(_element(self.acc), Float32Type):
            raise VerifyException(f"acc {self.acc.type} gives {self.result.type}, expected f32")
        scale = _element(self.lhs_scale)
        if scale != _element(self.rhs_scale):
            raise VerifyException("scales have different element types, expected one")
        for what, operand in (("lhs", self.lhs), ("rhs", self.rhs)):
            self._check_operand(what, operand, scale, groups)

    def _check_operand(self, what: str, operand: SSAValue, scale: Attribute, groups: int) -> None:
        """The numbers of an operand have scales of this type, for as many elements each."""
        element = self.operand_element(operand)
        if self.packed is not None and _element(operand) != IntegerType(8):
            raise VerifyException(
                f"{what} has type {operand.type}, expected i8 in a packed product"
            )
        blocks = SCALE_VECTORS.get(type(element), {}).get(type(scale), ())
        if self.depth not in [size * groups for size in blocks]:
            raise VerifyException(
                f"{what} has elements of {element} and {self.depth} of them for {groups} scales of "
                f"{scale}, expected a block of {' or '.join(map(str, blocks)) or 'another type'}"
            )


def _shape(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape() if isinstance(value.type, TensorType) else ()


def _element(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, TensorType) else value.type
