"""Mathematical functions. Elementwise on scalars, tensors and tensors with a layout."""

from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, TensorType, UnitAttr
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import RoundingModeAttr
from tileiras.dialects.named_values import NamedValues
from tileiras.dialects.nv_tileaa.elementwise import BinaryOp, UnaryOp


@irdl_attr_definition
class FmaShareAttr(NamedValues):
    """A special function of which FMA units compute a share: `pairs` of `of` neighbouring pairs.

    Pairs are elements that follow each other in the registers of a thread.
    """

    name = "nv_tileaa.fma_share"
    required: ClassVar[tuple[str, ...]] = ("pairs", "of")

    def verify(self) -> None:
        """Some pairs, and not more than there are."""
        super().verify()
        if not 1 <= self.integer("pairs") <= self.integer("of"):
            raise VerifyException(
                f"{self.name}: {self.integer('pairs')} pairs of {self.integer('of')}"
            )


@irdl_op_definition
class Atan2Op(BinaryOp):
    """`result[i] = atan2(x, y)`."""

    name = "nv_tileaa.atan2"


@irdl_op_definition
class CosOp(UnaryOp):
    """`result[i] = cos(x)`."""

    name = "nv_tileaa.cos"


@irdl_op_definition
class CoshOp(UnaryOp):
    """`result[i] = cosh(x)`."""

    name = "nv_tileaa.cosh"


@irdl_op_definition
class ExpOp(UnaryOp):
    """`result[i] = e^x`."""

    name = "nv_tileaa.exp"
    rounding_mode = prop_def(RoundingModeAttr)


@irdl_op_definition
class Exp2Op(UnaryOp):
    """`result[i] = 2^x`.

    `fma_share`: what FMA units compute of it, of f32 whose subnormal results become zero.
    """

    name = "nv_tileaa.exp2"
    flush_to_zero = opt_prop_def(UnitAttr)
    fma_share = opt_prop_def(FmaShareAttr)

    def verify_(self) -> None:
        """Only `ex2.approx.ftz.f32` has a polynomial in its stead."""
        if self.fma_share is None:
            return
        type = self.result.type
        element = type.element_type if isinstance(type, TensorType) else type
        if self.flush_to_zero is None or not isinstance(element, Float32Type):
            raise VerifyException("has fma_share, expected f32 with flush_to_zero")


@irdl_op_definition
class FPowIOp(BinaryOp):
    """`result[i] = x^n, n integer`."""

    name = "nv_tileaa.fpowi"


@irdl_op_definition
class LogOp(UnaryOp):
    """`result[i] = ln(x)`."""

    name = "nv_tileaa.log"


@irdl_op_definition
class Log2Op(UnaryOp):
    """`result[i] = log2(x)`."""

    name = "nv_tileaa.log2"


@irdl_op_definition
class PowOp(BinaryOp):
    """`result[i] = x^y`."""

    name = "nv_tileaa.pow"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """`result[i] = 1/sqrt(x)`."""

    name = "nv_tileaa.rsqrt"
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class SinOp(UnaryOp):
    """`result[i] = sin(x)`."""

    name = "nv_tileaa.sin"


@irdl_op_definition
class SinhOp(UnaryOp):
    """`result[i] = sinh(x)`."""

    name = "nv_tileaa.sinh"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """`result[i] = sqrt(x)`."""

    name = "nv_tileaa.sqrt"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class TanOp(UnaryOp):
    """`result[i] = tan(x)`."""

    name = "nv_tileaa.tan"


@irdl_op_definition
class TanhOp(UnaryOp):
    """`result[i] = tanh(x)`."""

    name = "nv_tileaa.tanh"
    rounding_mode = prop_def(RoundingModeAttr)
