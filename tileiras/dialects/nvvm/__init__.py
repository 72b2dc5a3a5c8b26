"""The `nvvm` dialect: what a GPU thread has beyond LLVM, on vectors of the thread's own elements.

The chapters: `threads` (ids, barriers, shuffles, votes), `matrix` (mma.sync, ldmatrix, stmatrix),
`copies` (cp.async, dependent launch), `access` (guarded and ordered loads and stores); for
sm_90 and later `mbarrier`, `tma`, `wgmma`, `cluster`; for Blackwell `tcgen05`.
Sources: PTX ISA, sections named in each class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    NVVM: Dialect


def __getattr__(name: str) -> Dialect:
    """The dialect `NVVM`, made when it is asked for: compilations use single chapters."""
    if name != "NVVM":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    from xdsl.ir import Dialect

    from tileiras.dialects.nvvm.access import ACCESS_OPS
    from tileiras.dialects.nvvm.cluster import CLUSTER_OPS, LAUNCH_CONTROL_OPS, QUEUE_OPS
    from tileiras.dialects.nvvm.copies import COPY_OPS
    from tileiras.dialects.nvvm.matrix import MATRIX_OPS
    from tileiras.dialects.nvvm.mbarrier import MBARRIER_OPS
    from tileiras.dialects.nvvm.tcgen05 import TCGEN05_OPS, TCGEN05_SCALED_OPS
    from tileiras.dialects.nvvm.threads import THREAD_OPS
    from tileiras.dialects.nvvm.tma import TMA_OPS
    from tileiras.dialects.nvvm.wgmma import WGMMA_OPS

    dialect = Dialect(
        "nvvm",
        [
            *THREAD_OPS,
            *MATRIX_OPS,
            *COPY_OPS,
            *ACCESS_OPS,
            *MBARRIER_OPS,
            *TMA_OPS,
            *WGMMA_OPS,
            *TCGEN05_OPS,
            *TCGEN05_SCALED_OPS,
            *CLUSTER_OPS,
            *LAUNCH_CONTROL_OPS,
            *QUEUE_OPS,
        ],
        [],
    )
    globals()[name] = dialect
    return dialect
