"""Conversions between element types, and pointer arithmetic.

Elementwise on scalars, tensors and tensors with a layout.
"""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflowAttr,
    RoundingModeAttr,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.elementwise import BinaryOp, UnaryOp


@irdl_op_definition
class BitcastOp(UnaryOp):
    """`result[i] = same bits, other type`."""

    name = "nv_tileaa.bitcast"


@irdl_op_definition
class ExtIOp(UnaryOp):
    """`result[i] = widen an integer`."""

    name = "nv_tileaa.exti"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class FpToFpOp(UnaryOp):
    """`result[i] = convert between float types`."""

    name = "nv_tileaa.fp_to_fp"
    rounding_mode = prop_def(RoundingModeAttr)


@irdl_op_definition
class FpToIntOp(UnaryOp):
    """`result[i] = float to integer, towards zero`."""

    name = "nv_tileaa.fp_to_int"
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    saturating = opt_prop_def(UnitAttr)


@irdl_op_definition
class IntToFpOp(UnaryOp):
    """`result[i] = integer to float`."""

    name = "nv_tileaa.int_to_fp"
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)


@irdl_op_definition
class TruncIOp(UnaryOp):
    """`result[i] = low bits`."""

    name = "nv_tileaa.trunci"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class IntToPtrOp(UnaryOp):
    """`result[i] = i64 to pointer`."""

    name = "nv_tileaa.int_to_ptr"


@irdl_op_definition
class PtrToIntOp(UnaryOp):
    """`result[i] = pointer to i64`."""

    name = "nv_tileaa.ptr_to_int"


@irdl_op_definition
class PtrToPtrOp(UnaryOp):
    """`result[i] = reinterpret the pointee`."""

    name = "nv_tileaa.ptr_to_ptr"


@irdl_op_definition
class AddPtrOp(BinaryOp):
    """`result[i] = p + n * size of the pointee`."""

    name = "nv_tileaa.addptr"
