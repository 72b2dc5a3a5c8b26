"""The nv_tileas dialect: every tensor has a layout; the scheduling level, per target.

Elementwise operations, shape changes and control flow keep their nv_tileaa classes: with a layout
on every tensor type they mean the same. Here is what only exists once places are known.
"""

from xdsl.ir import Dialect

from tileiras.dialects.nv_tileas.assigned import ASSIGNED_ATTRIBUTES
from tileiras.dialects.nv_tileas.dot import FmaDotOp, MmaDotOp, MmaScaledDotOp
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, encoded, layout_of
from tileiras.dialects.nv_tileas.memdesc import ENCODINGS, MemDescType, MemorySpaceAttr
from tileiras.dialects.nv_tileas.memory import (
    AllocTensorOp,
    AsyncCopyOp,
    ConvertLayoutOp,
    LoadOp,
    ReadStageOp,
    StoreOp,
    StoreRowsOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tileiras.dialects.nv_tileas.pipeline import (
    PIPELINE_OPS,
    PipelineType,
    TensorMapType,
)
from tileiras.dialects.nv_tileas.plan import PLAN_ATTRIBUTES
from tileiras.dialects.nv_tileas.tcgen05 import (
    TCGEN05_OPS,
    ScalesLoadOp,
    Tcgen05DotScaledOp,
)
from tileiras.dialects.nv_tileas.tma_stores import TMA_STORE_OPS
from tileiras.dialects.nv_tileas.warp_roles import WARP_ROLE_ATTRIBUTES
from tileiras.dialects.nv_tileas.ways import WAY_ATTRIBUTES
from tileiras.dialects.nv_tileas.wgmma import WGMMA_OPS

WARP_ROLE_OPS = (*PIPELINE_OPS, *WGMMA_OPS, *TMA_STORE_OPS, ScalesLoadOp)
"""Operations that only warp-specialized kernels have."""

NvTileAS = Dialect(
    "nv_tileas",
    [
        AllocTensorOp,
        ConvertLayoutOp,
        ReadStageOp,
        FmaDotOp,
        LoadOp,
        MmaDotOp,
        MmaScaledDotOp,
        AsyncCopyOp,
        StoreOp,
        StoreRowsOp,
        TiledLoadOp,
        TiledStoreOp,
        *WARP_ROLE_OPS,
        *TCGEN05_OPS,
        Tcgen05DotScaledOp,
    ],
    [
        LayoutEncodingAttr,
        PipelineType,
        MemDescType,
        MemorySpaceAttr,
        *ENCODINGS,
        TensorMapType,
        *PLAN_ATTRIBUTES,
        *ASSIGNED_ATTRIBUTES,
        *WARP_ROLE_ATTRIBUTES,
        *WAY_ATTRIBUTES,
    ],
)

__all__ = [
    "WARP_ROLE_OPS",
    "TCGEN05_OPS",
    "ScalesLoadOp",
    "Tcgen05DotScaledOp",
    "AllocTensorOp",
    "ConvertLayoutOp",
    "ReadStageOp",
    "FmaDotOp",
    "LayoutEncodingAttr",
    "LoadOp",
    "MmaDotOp",
    "MmaScaledDotOp",
    "NvTileAS",
    "AsyncCopyOp",
    "StoreOp",
    "StoreRowsOp",
    "TiledLoadOp",
    "TiledStoreOp",
    "encoded",
    "layout_of",
]
