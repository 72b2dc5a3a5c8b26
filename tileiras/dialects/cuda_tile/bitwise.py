"""Operations of the cuda_tile dialect: bitwise (Tile IR specification, "Bitwise").

`result[i] = f(lhs[i], rhs[i])` on integer tiles of one type, i1 included.
"""

from xdsl.irdl import irdl_op_definition, prop_def

from tileiras.dialects.cuda_tile.attributes import IntegerOverflowAttr, SignednessAttr
from tileiras.dialects.cuda_tile.elementwise import BinaryIntegerOp


@irdl_op_definition
class AndIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] & rhs[i]`."""

    name = "cuda_tile.andi"


@irdl_op_definition
class OrIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] | rhs[i]`."""

    name = "cuda_tile.ori"


@irdl_op_definition
class ShLIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] << rhs[i]`, the amount unsigned; undefined from the width on."""

    name = "cuda_tile.shli"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class ShRIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] >> rhs[i]`, arithmetic if signed; undefined from the width on."""

    name = "cuda_tile.shri"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class XOrIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] ^ rhs[i]`."""

    name = "cuda_tile.xori"
