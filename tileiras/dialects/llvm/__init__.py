"""The `llvm` dialect: one thread's program on vectors of its own elements.

Ours rather than xDSL's, which lacks address spaces on most ops, extractelement, several casts,
poison and bf16, and costs 24 ms to import. Ops mean what the LLVM instruction of the same name
means. The chapters: `types`, `constants`, `arithmetic`, `vectors`, `memory`, `calls`, `control`.
"""

from xdsl.ir import Dialect

from tileiras.dialects.llvm.arithmetic import ARITHMETIC_OPS
from tileiras.dialects.llvm.calls import CALL_OPS
from tileiras.dialects.llvm.constants import CONSTANT_OPS, BitsAttr
from tileiras.dialects.llvm.control import CONTROL_OPS
from tileiras.dialects.llvm.memory import MEMORY_OPS, BytesAttr
from tileiras.dialects.llvm.types import PointerType, StructType
from tileiras.dialects.llvm.vectors import VECTOR_OPS, IndicesAttr

LLVM = Dialect(
    "llvm",
    [*CONSTANT_OPS, *ARITHMETIC_OPS, *VECTOR_OPS, *MEMORY_OPS, *CALL_OPS, *CONTROL_OPS],
    [PointerType, StructType, BitsAttr, BytesAttr, IndicesAttr],
)
