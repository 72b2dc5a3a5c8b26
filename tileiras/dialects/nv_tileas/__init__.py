"""The nv_tileas dialect: every tensor has a layout; the scheduling level, per target.

Elementwise operations, shape changes and control flow keep their nv_tileaa classes: with a layout
on every tensor type they mean the same. Here is what only exists once places are known.
"""

from xdsl.ir import Dialect

from tileiras.dialects.nv_tileas import assigned as _assigned
from tileiras.dialects.nv_tileas import dot as _dot
from tileiras.dialects.nv_tileas import encoding as _encoding
from tileiras.dialects.nv_tileas import memdesc as _memdesc
from tileiras.dialects.nv_tileas import memory as _memory
from tileiras.dialects.nv_tileas import pipeline as _pipeline
from tileiras.dialects.nv_tileas import plan as _plan
from tileiras.dialects.nv_tileas import tcgen05 as _tcgen05
from tileiras.dialects.nv_tileas import tma_stores as _tma_stores
from tileiras.dialects.nv_tileas import warp_roles as _warp_roles
from tileiras.dialects.nv_tileas import ways as _ways
from tileiras.dialects.nv_tileas import wgmma as _wgmma
from tileiras.dialects.nv_tileas.dot import *  # noqa: F403
from tileiras.dialects.nv_tileas.encoding import *  # noqa: F403
from tileiras.dialects.nv_tileas.memory import *  # noqa: F403
from tileiras.dialects.nv_tileas.tcgen05 import *  # noqa: F403
from tileiras.dialects.operations import attributes_of, operations_of

WARP_ROLE_OPS = (
    *(*_pipeline.PIPELINE_OPS, *_wgmma.WGMMA_OPS, *_tma_stores.TMA_STORE_OPS),
    _tcgen05.ScalesLoadOp,
)
"""Operations that only warp-specialized kernels have."""

NvTileAS = Dialect(
    "nv_tileas",
    operations_of(_memory, _dot, _pipeline, _wgmma, _tma_stores, _tcgen05),
    attributes_of(
        *(_encoding, _pipeline, _memdesc, _plan, _assigned, _warp_roles, _ways),
    ),
)
