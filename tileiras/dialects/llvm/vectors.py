"""Moving elements between vectors and structs: extract, insert, shuffle."""

from xdsl.dialects.builtin import IntegerType
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.constants import IntegersData
from tileiras.dialects.llvm.types import lanes_of, scalar_of


@irdl_attr_definition
class IndicesAttr(IntegersData):
    """A list of small integers; in a shuffle -1 means that the lane may be anything."""

    name = "llvm.indices"


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """`result = vector[index]`. Trap: a dynamic index spills the whole vector to local memory."""

    name = "llvm.extractelement"
    vector = operand_def()
    index = operand_def(IntegerType)
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """The result is the vector's element."""
        type = self.vector.type
        if lanes_of(type) is None or scalar_of(type) != self.result.type:
            raise VerifyException(f"llvm.extractelement: {self.result.type} from {type}")


@irdl_op_definition
class InsertElementOp(IRDLOperation):
    """`result = vector` with `result[index] = value`."""

    name = "llvm.insertelement"
    vector = operand_def()
    value = operand_def()
    index = operand_def(IntegerType)
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """The value is of the vector's element type."""
        type = self.result.type
        if self.vector.type != type or lanes_of(type) is None or scalar_of(type) != self.value.type:
            raise VerifyException(f"llvm.insertelement: {self.value.type} into {type}")


@irdl_op_definition
class ShuffleVectorOp(IRDLOperation):
    """`result[i] = concat(lhs, rhs)[indices[i]]`; index -1 leaves the lane poison."""

    name = "llvm.shufflevector"
    lhs = operand_def()
    rhs = operand_def()
    indices = prop_def(IndicesAttr)
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Indices address the concatenation and give the result's lanes."""
        source, target = self.lhs.type, self.result.type
        lanes = lanes_of(source)
        if lanes is None or self.rhs.type != source or scalar_of(source) != scalar_of(target):
            raise VerifyException(f"llvm.shufflevector: {source} and {self.rhs.type} to {target}")
        if lanes_of(target) != len(self.indices.data):
            raise VerifyException("llvm.shufflevector: number of indices is not the result's lanes")
        if not all(-1 <= index < 2 * lanes for index in self.indices.data):
            raise VerifyException("llvm.shufflevector: index out of range")
