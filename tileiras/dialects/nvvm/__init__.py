"""The `nvvm` dialect: what a GPU thread has beyond LLVM, on vectors of the thread's own elements.

The chapters: `threads` (ids, barriers, shuffles, votes), `matrix` (mma.sync, ldmatrix, stmatrix),
`copies` (cp.async, dependent launch), `access` (guarded and ordered loads and stores). Sources: PTX
ISA, sections named in each class.
"""

from xdsl.ir import Dialect

from tileiras.dialects.nvvm.access import ACCESS_OPS
from tileiras.dialects.nvvm.copies import COPY_OPS
from tileiras.dialects.nvvm.matrix import MATRIX_OPS
from tileiras.dialects.nvvm.threads import THREAD_OPS

NVVM = Dialect("nvvm", [*THREAD_OPS, *MATRIX_OPS, *COPY_OPS, *ACCESS_OPS], [])
