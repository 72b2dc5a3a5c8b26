"""The `llvm` dialect: one thread's program on vectors of its own elements.

Ours rather than xDSL's, which lacks address spaces on most ops, extractelement, several casts,
poison and bf16, and costs 24 ms to import. Ops mean what the LLVM instruction of the same name
means. The chapters: `types`, `constants`, `arithmetic`, `vectors`, `memory`, `calls`, `control`.
"""

from xdsl.ir import Dialect

from tileiras.dialects.llvm import arithmetic, calls, constants, control, memory, types, vectors
from tileiras.dialects.operations import attributes_of, operations_of

LLVM = Dialect(
    "llvm",
    operations_of(constants, arithmetic, vectors, memory, calls, control),
    attributes_of(types, constants, memory, vectors),
)
