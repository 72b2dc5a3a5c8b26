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

    from tileiras.dialects.nvvm import (
        access,
        cluster,
        copies,
        matrix,
        mbarrier,
        tcgen05,
        threads,
        tma,
        wgmma,
    )
    from tileiras.dialects.operations import operations_of

    chapters = (threads, matrix, copies, access, mbarrier, tma, wgmma, tcgen05, cluster)
    dialect = Dialect("nvvm", operations_of(*chapters), [])
    globals()[name] = dialect
    return dialect
