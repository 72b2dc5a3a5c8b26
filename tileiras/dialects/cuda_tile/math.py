"""Operations of the cuda_tile dialect: mathematical functions (Tile IR specification, "Math").

`result[i] = f(source[i])` on f16, bf16, f32 or f64 tiles; f16 and bf16 are computed through f32.
`flush_to_zero` and the rounding mode approx are for f32 only.
"""

from abc import ABC

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.cuda_tile.checks import (
    IEEE_ROUNDING,
    check_f32_modifiers,
    check_rounding,
    check_same_shape,
    check_same_type,
    check_tile,
    check_uniform,
)
from tileiras.dialects.cuda_tile.element_types import BASE_FLOAT, EXPONENT_INTEGER
from tileiras.dialects.cuda_tile.elementwise import UnaryFloatOp
from tileiras.dialects.cuda_tile.tile_op import TileOp

EXP_ROUNDING = frozenset({RoundingMode.FULL, RoundingMode.APPROX})
SQRT_ROUNDING = IEEE_ROUNDING | {RoundingMode.APPROX}


@irdl_op_definition
class CosOp(UnaryFloatOp):
    """`result[i] = cos(source[i])`, in radians."""

    name = "cuda_tile.cos"


@irdl_op_definition
class CosHOp(UnaryFloatOp):
    """`result[i] = cosh(source[i])`."""

    name = "cuda_tile.cosh"


class FullOrApproxOp(UnaryFloatOp, ABC):
    """A function with two precisions: full, for every float type, and approx, for f32."""

    rounding_mode = prop_def(RoundingModeAttr)

    def check_semantics(self) -> None:
        """One float type; rounding full or approx, approx for f32 only."""
        type = check_uniform(self, self.ELEMENTS)
        mode = self.rounding_mode.data
        check_rounding(self, mode, EXP_ROUNDING)
        if mode is RoundingMode.APPROX:
            check_f32_modifiers(self, type, mode, flush_to_zero=False)


@irdl_op_definition
class ExpOp(FullOrApproxOp):
    """`result[i] = e ** source[i]`."""

    name = "cuda_tile.exp"


class FlushableOp(UnaryFloatOp, ABC):
    """A function that can flush subnormal f32 operands and results to zero."""

    flush_to_zero = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """One float type, flush_to_zero for f32 only."""
        type = check_uniform(self, self.ELEMENTS)
        check_f32_modifiers(self, type, None, self.flush_to_zero is not None)


@irdl_op_definition
class Exp2Op(FlushableOp):
    """`result[i] = 2 ** source[i]`."""

    name = "cuda_tile.exp2"


@irdl_op_definition
class LogOp(UnaryFloatOp):
    """`result[i] = ln(source[i])`."""

    name = "cuda_tile.log"


@irdl_op_definition
class Log2Op(UnaryFloatOp):
    """`result[i] = log2(source[i])`."""

    name = "cuda_tile.log2"


@irdl_op_definition
class FPowFOp(TileOp):
    """`result[i] = source[i] ** exponent[i]`; `fpowf` in the text form since 13.4."""

    name = "cuda_tile.pow"
    source = operand_def()
    exponent = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One float type."""
        check_uniform(self, BASE_FLOAT)


@irdl_op_definition
class RsqrtOp(FlushableOp):
    """`result[i] = 1 / sqrt(source[i])`."""

    name = "cuda_tile.rsqrt"


@irdl_op_definition
class SinOp(UnaryFloatOp):
    """`result[i] = sin(source[i])`, in radians."""

    name = "cuda_tile.sin"


@irdl_op_definition
class SinHOp(UnaryFloatOp):
    """`result[i] = sinh(source[i])`."""

    name = "cuda_tile.sinh"


@irdl_op_definition
class SqrtOp(FlushableOp):
    """`result[i] = sqrt(source[i])`, rounded as `rounding_mode` says or approx."""

    name = "cuda_tile.sqrt"
    rounding_mode = prop_def(RoundingModeAttr)

    def check_semantics(self) -> None:
        """One float type; an IEEE rounding or approx; modifiers for f32 only."""
        type = check_uniform(self, self.ELEMENTS)
        mode = self.rounding_mode.data
        check_rounding(self, mode, SQRT_ROUNDING)
        check_f32_modifiers(self, type, mode, self.flush_to_zero is not None)


@irdl_op_definition
class TanOp(UnaryFloatOp):
    """`result[i] = tan(source[i])`, in radians."""

    name = "cuda_tile.tan"


@irdl_op_definition
class TanHOp(FullOrApproxOp):
    """`result[i] = tanh(source[i])`."""

    name = "cuda_tile.tanh"


@irdl_op_definition
class Atan2Op(TileOp):
    """`result[i] = atan2(x[i], y[i])`. Trap: `x`, the first operand, is the ordinate."""

    name = "cuda_tile.atan2"
    x = operand_def()
    y = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One float type."""
        check_uniform(self, BASE_FLOAT)


@irdl_op_definition
class FPowIOp(TileOp):
    """`result[i] = source[i] ** exponent[i]` with an integer exponent, since 13.4."""

    name = "cuda_tile.fpowi"
    source = operand_def()
    exponent = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """A float base, an exponent of at most 32 bits and the same shape."""
        source = check_tile(self, self.source, "source", BASE_FLOAT)
        exponent = check_tile(self, self.exponent, "exponent", EXPONENT_INTEGER)
        check_same_shape(self, source, exponent, "source and exponent")
        check_same_type(self, source, self.result.type, "source and result")
