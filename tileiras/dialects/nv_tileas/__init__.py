"""The nv_tileas dialect: every tensor has a layout; the scheduling level, per target.

Elementwise operations, shape changes and control flow keep their nv_tileaa classes: with a layout
on every tensor type they mean the same. Here is what only exists once places are known.
"""

from xdsl.ir import Dialect

from tileiras.dialects.nv_tileas.dot import FmaDotOp, MmaDotOp
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, encoded, layout_of
from tileiras.dialects.nv_tileas.memory import (
    BarrierOp,
    ConvertLayoutOp,
    FinishLoadOp,
    LoadOp,
    StartLoadOp,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tileiras.dialects.nv_tileas.pipeline import (
    PIPELINE_OPS,
    PipelineType,
    SharedTileType,
    TensorMapType,
)

NvTileAS = Dialect(
    "nv_tileas",
    [
        BarrierOp,
        ConvertLayoutOp,
        FinishLoadOp,
        FmaDotOp,
        LoadOp,
        MmaDotOp,
        StartLoadOp,
        StoreOp,
        TiledLoadOp,
        TiledStoreOp,
        *PIPELINE_OPS,
    ],
    [LayoutEncodingAttr, PipelineType, SharedTileType, TensorMapType],
)

__all__ = [
    "BarrierOp",
    "ConvertLayoutOp",
    "FinishLoadOp",
    "FmaDotOp",
    "LayoutEncodingAttr",
    "LoadOp",
    "MmaDotOp",
    "NvTileAS",
    "StartLoadOp",
    "StoreOp",
    "TiledLoadOp",
    "TiledStoreOp",
    "encoded",
    "layout_of",
]
