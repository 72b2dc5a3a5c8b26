"""The cuda_tile dialect: tiles and views, no hardware."""

from xdsl.ir import Dialect

from tileiras.dialects.cuda_tile import arithmetic as _arithmetic
from tileiras.dialects.cuda_tile import attributes as _a
from tileiras.dialects.cuda_tile import bitwise as _bitwise
from tileiras.dialects.cuda_tile import constants as _c
from tileiras.dialects.cuda_tile import conversions as _conversions
from tileiras.dialects.cuda_tile import debug_info as _d
from tileiras.dialects.cuda_tile import math as _math
from tileiras.dialects.cuda_tile import types as _t
from tileiras.dialects.cuda_tile.arithmetic import *  # noqa: F403
from tileiras.dialects.cuda_tile.atomics import (
    AtomicCASTkoOp,
    AtomicRedViewTkoOp,
    AtomicRMWTkoOp,
    MultimemLoadReduceViewTkoOp,
    MultimemReduceViewTkoOp,
    MultimemStoreViewTkoOp,
)
from tileiras.dialects.cuda_tile.bitwise import *  # noqa: F403
from tileiras.dialects.cuda_tile.control_flow import (
    AssertOp,
    BreakOp,
    ContinueOp,
    ForOp,
    IfOp,
    LoopOp,
    ReturnOp,
    YieldOp,
)
from tileiras.dialects.cuda_tile.conversions import *  # noqa: F403
from tileiras.dialects.cuda_tile.math import *  # noqa: F403
from tileiras.dialects.cuda_tile.memory import (
    AllocaOp,
    GdcLaunchDependentsTkoOp,
    GdcWaitTkoOp,
    JoinTokensOp,
    LoadPtrTkoOp,
    LoadViewTkoOp,
    MakeTokenOp,
    MemoryFenceAliasTkoOp,
    PrintTkoOp,
    StorePtrTkoOp,
    StoreViewTkoOp,
)
from tileiras.dialects.cuda_tile.mma import MmaFOp, MmaFScaledOp, MmaIOp
from tileiras.dialects.cuda_tile.reductions import ReduceOp, ScanOp
from tileiras.dialects.cuda_tile.structure import EntryOp, GetGlobalOp, GlobalOp, ModuleOp
from tileiras.dialects.cuda_tile.tiles import (
    AssumeOp,
    BroadcastOp,
    CatOp,
    ConstantOp,
    ExtractOp,
    GetNumTileBlocksOp,
    GetTileBlockIdOp,
    InsertOp,
    IotaOp,
    OffsetOp,
    PermuteOp,
    ReshapeOp,
)
from tileiras.dialects.cuda_tile.views import (
    GetIndexSpaceShapeOp,
    GetTensorShapeOp,
    MakeGatherScatterViewOp,
    MakePartitionViewOp,
    MakeStridedViewOp,
    MakeTensorViewOp,
)
from tileiras.dialects.operations import operations_of

CudaTile = Dialect(
    "cuda_tile",
    [
        *operations_of(_arithmetic, _bitwise, _conversions, _math),
        BroadcastOp,
        CatOp,
        ConstantOp,
        ExtractOp,
        InsertOp,
        IotaOp,
        OffsetOp,
        PermuteOp,
        ReshapeOp,
        AssumeOp,
        GetNumTileBlocksOp,
        GetTileBlockIdOp,
        BreakOp,
        ContinueOp,
        ForOp,
        IfOp,
        LoopOp,
        ReturnOp,
        YieldOp,
        AssertOp,
        ReduceOp,
        ScanOp,
        MmaFOp,
        MmaIOp,
        MmaFScaledOp,
        ModuleOp,
        EntryOp,
        GlobalOp,
        GetGlobalOp,
        MakeTensorViewOp,
        MakePartitionViewOp,
        MakeStridedViewOp,
        MakeGatherScatterViewOp,
        GetIndexSpaceShapeOp,
        GetTensorShapeOp,
        LoadViewTkoOp,
        StoreViewTkoOp,
        LoadPtrTkoOp,
        StorePtrTkoOp,
        MakeTokenOp,
        JoinTokensOp,
        AllocaOp,
        MemoryFenceAliasTkoOp,
        GdcLaunchDependentsTkoOp,
        GdcWaitTkoOp,
        PrintTkoOp,
        AtomicCASTkoOp,
        AtomicRMWTkoOp,
        AtomicRedViewTkoOp,
        MultimemLoadReduceViewTkoOp,
        MultimemReduceViewTkoOp,
        MultimemStoreViewTkoOp,
    ],
    [
        _a.IntTupleAttr,
        _a.OptimizationHintsAttr,
        _a.SignednessAttr,
        _a.IntegerOverflowAttr,
        _a.RoundingModeAttr,
        _a.ComparisonPredicateAttr,
        _a.ComparisonOrderingAttr,
        _a.MemoryOrderingAttr,
        _a.MemoryScopeAttr,
        _a.AtomicRMWModeAttr,
        _a.PaddingValueAttr,
        _a.SymbolVisibilityAttr,
        _a.MultimemReductionKindAttr,
        _a.PointerKindAttr,
        _a.DivByAttr,
        _a.SameElementsAttr,
        _a.BoundedAttr,
        _c.FloatBitsAttr,
        _c.DenseAttr,
        _t.Float8E5M3FNUType,
        _t.PointerType,
        _t.TileType,
        _t.TensorViewType,
        _t.PartitionViewType,
        _t.StridedViewType,
        _t.GatherScatterViewType,
        _t.TokenType,
        _d.DIFileAttr,
        _d.DICompileUnitAttr,
        _d.DISubprogramAttr,
        _d.DILexicalBlockAttr,
        _d.DILocAttr,
        _d.DICallSiteLoc,
    ],
)
