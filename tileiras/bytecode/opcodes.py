"""The operations of the bytecode: one row each, in order of opcode.

A row names the operation's class, its operand groups (`x` one, `x?` optional, `x*` any number),
its attributes in the order of the encoding, and what newer versions added. A version accepts every
opcode up to its highest. `entry`, `global` and `module` have opcodes of their own but are sections
of the file, never records.
"""

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.format import V13_1, V13_2, V13_3, V13_4, V13_5, VERSIONS, Version
from tileiras.bytecode.schema import (
    MANY,
    UNIT,
    Arity,
    Attr,
    EnumClass,
    Kind,
    Operand,
    OpRow,
    Plan,
    plan_for,
)
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWModeAttr,
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    MemoryOrderingAttr,
    MemoryScopeAttr,
    MultimemReductionKindAttr,
    RoundingMode,
    RoundingModeAttr,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import TOKEN

FULL = RoundingModeAttr(RoundingMode.FULL)
NO_OVERFLOW_FLAGS = IntegerOverflowAttr(IntegerOverflow.NONE)

ENUM_MEMBER_SINCE: dict[EnumClass, dict[str, Version]] = {
    RoundingModeAttr: {RoundingMode.NEAREST_AWAY: V13_4},
}
"""Members of an enum that are newer than the enum."""


def _enum(
    key: str,
    enum: EnumClass,
    *,
    optional: bool = False,
    since: Version | None = None,
    default: Attribute | None = None,
) -> Attr:
    return Attr(key, Kind.ENUM, enum, optional, since, default)


def _unit(key: str, *, since: Version | None = None) -> Attr:
    return Attr(key, Kind.UNIT, since=since, default=UNIT)


def _inbounds(since: Version) -> Attr:
    return Attr("inbounds", Kind.BOOL_ARRAY, since=since)


def _operand(spec: str) -> Operand:
    name, _, since = spec.partition("@")
    version = next(v for v in VERSIONS if since == f"{v[0]}.{v[1]}") if since else None
    arity = {"?": Arity.OPTIONAL, "*": Arity.ANY}.get(name[-1], Arity.ONE)
    return Operand(name.rstrip("?*"), arity, version)


def _op(
    opcode: int,
    cls: type[IRDLOperation],
    operands: str,
    *,
    attrs: tuple[Attr, ...] = (),
    results: int = 1,
    since: Version = V13_1,
    late_results: tuple[Version, tuple[Attribute, ...]] | None = None,
    regions: int = 0,
) -> OpRow:
    groups = tuple(_operand(spec) for spec in operands.split())
    return OpRow(opcode, cls, since, groups, attrs, results, late_results, regions)


FTZ = _unit("flush_to_zero")
ROUNDING = _enum("rounding_mode", RoundingModeAttr)
OVERFLOW = _enum("overflow", IntegerOverflowAttr)
SIGNEDNESS = _enum("signedness", SignednessAttr)
ORDERING = _enum("memory_ordering_semantics", MemoryOrderingAttr)
SCOPE = _enum("memory_scope", MemoryScopeAttr)
MAYBE_SCOPE = _enum("memory_scope", MemoryScopeAttr, optional=True)
MAYBE_HINTS = Attr("optimization_hints", Kind.HINTS, optional=True)
INBOUNDS = Attr("inbounds", Kind.BOOL_ARRAY)
MODE = _enum("mode", AtomicRMWModeAttr)
REDUCTION = _enum("reduction", MultimemReductionKindAttr)
DIM = Attr("dim", Kind.INT32)
IDENTITIES = Attr("identities", Kind.ARRAY)

OPERATIONS: tuple[OpRow, ...] = (
    _op(0, ct.AbsFOp, "source"),
    _op(1, ct.AbsIOp, "source"),
    _op(2, ct.AddFOp, "lhs rhs", attrs=(FTZ, ROUNDING)),
    _op(3, ct.AddIOp, "lhs rhs", attrs=(OVERFLOW,)),
    _op(4, ct.AndIOp, "lhs rhs"),
    _op(5, ct.AssertOp, "condition", attrs=(Attr("message", Kind.STRING),), results=0),
    _op(6, ct.AssumeOp, "value", attrs=(Attr("predicate", Kind.TAGGED),)),
    _op(7, ct.AtomicCASTkoOp, "pointers cmp val mask? token?", attrs=(ORDERING, SCOPE), results=2),
    _op(
        8, ct.AtomicRMWTkoOp, "pointers arg mask? token?", attrs=(ORDERING, SCOPE, MODE), results=2
    ),
    _op(9, ct.BitcastOp, "source"),
    _op(10, ct.BreakOp, "operands*", results=MANY),
    _op(11, ct.BroadcastOp, "source"),
    _op(12, ct.CatOp, "lhs rhs", attrs=(DIM,)),
    _op(13, ct.CeilOp, "source"),
    _op(
        14,
        ct.CmpFOp,
        "lhs rhs",
        attrs=(
            _enum("comparison_predicate", ComparisonPredicateAttr),
            _enum("comparison_ordering", ComparisonOrderingAttr),
        ),
    ),
    _op(
        15,
        ct.CmpIOp,
        "lhs rhs",
        attrs=(_enum("comparison_predicate", ComparisonPredicateAttr), SIGNEDNESS),
    ),
    _op(16, ct.ConstantOp, "", attrs=(Attr("value", Kind.CONSTANT),)),
    _op(17, ct.ContinueOp, "operands*", results=MANY),
    _op(18, ct.CosOp, "source"),
    _op(19, ct.CosHOp, "source"),
    _op(20, ct.DivFOp, "lhs rhs", attrs=(FTZ, ROUNDING)),
    _op(21, ct.DivIOp, "lhs rhs", attrs=(SIGNEDNESS, _enum("rounding", RoundingModeAttr))),
    _op(
        23,
        ct.ExpOp,
        "source",
        attrs=(_enum("rounding_mode", RoundingModeAttr, since=V13_3, default=FULL),),
    ),
    _op(24, ct.Exp2Op, "source", attrs=(FTZ,)),
    _op(37, ct.ExtIOp, "from", attrs=(SIGNEDNESS,)),
    _op(38, ct.ExtractOp, "source indices*", results=MANY),
    _op(39, ct.FloorOp, "source"),
    _op(40, ct.FmaOp, "lhs rhs acc", attrs=(FTZ, ROUNDING)),
    _op(
        41,
        ct.ForOp,
        "lowerBound upperBound step initValues*",
        attrs=(_unit("unsignedCmp", since=V13_2),),
        results=MANY,
        regions=1,
    ),
    _op(42, ct.FToFOp, "from", attrs=(ROUNDING,)),
    _op(43, ct.FToIOp, "from", attrs=(_unit("saturating", since=V13_4), SIGNEDNESS, ROUNDING)),
    _op(44, ct.GetGlobalOp, "", attrs=(Attr("name", Kind.SYMBOL),)),
    _op(45, ct.GetIndexSpaceShapeOp, "src", results=MANY),
    _op(46, ct.GetNumTileBlocksOp, "", results=3),
    _op(47, ct.GetTensorShapeOp, "src", results=MANY),
    _op(48, ct.GetTileBlockIdOp, "", results=3),
    _op(50, ct.IfOp, "condition", results=MANY, regions=2),
    _op(51, ct.IntToPtrOp, "source"),
    _op(58, ct.IotaOp, ""),
    _op(59, ct.IToFOp, "from", attrs=(SIGNEDNESS, ROUNDING)),
    _op(60, ct.JoinTokensOp, "tokens*", results=MANY),
    _op(
        61,
        ct.LoadPtrTkoOp,
        "source mask? paddingValue? token?",
        attrs=(ORDERING, MAYBE_SCOPE, MAYBE_HINTS),
        results=2,
    ),
    _op(
        62,
        ct.LoadViewTkoOp,
        "view index* token?",
        attrs=(ORDERING, MAYBE_SCOPE, MAYBE_HINTS, _inbounds(V13_4)),
        results=MANY,
    ),
    _op(63, ct.LogOp, "source"),
    _op(64, ct.Log2Op, "source"),
    _op(65, ct.LoopOp, "initValues*", results=MANY, regions=1),
    _op(66, ct.MakePartitionViewOp, "tensor_view"),
    _op(67, ct.MakeTensorViewOp, "base dynamicShape* dynamicStrides*", results=MANY),
    _op(68, ct.MakeTokenOp, ""),
    _op(69, ct.MaxFOp, "lhs rhs", attrs=(_unit("propagate_nan"), FTZ)),
    _op(70, ct.MaxIOp, "lhs rhs", attrs=(SIGNEDNESS,)),
    _op(71, ct.MinFOp, "lhs rhs", attrs=(_unit("propagate_nan"), FTZ)),
    _op(72, ct.MinIOp, "lhs rhs", attrs=(SIGNEDNESS,)),
    _op(73, ct.MmaFOp, "lhs rhs acc", attrs=(_unit("fast_acc", since=V13_3),)),
    _op(
        74,
        ct.MmaIOp,
        "lhs rhs acc",
        attrs=(_enum("signedness_lhs", SignednessAttr), _enum("signedness_rhs", SignednessAttr)),
    ),
    _op(76, ct.MulFOp, "lhs rhs", attrs=(FTZ, ROUNDING)),
    _op(77, ct.MulhiIOp, "x y"),
    _op(78, ct.MulIOp, "lhs rhs", attrs=(OVERFLOW,)),
    _op(79, ct.NegFOp, "source"),
    _op(
        80,
        ct.NegIOp,
        "source",
        attrs=(_enum("overflow", IntegerOverflowAttr, since=V13_2, default=NO_OVERFLOW_FLAGS),),
    ),
    _op(81, ct.OffsetOp, "ptr offset"),
    _op(82, ct.OrIOp, "lhs rhs"),
    _op(83, ct.PermuteOp, "source", attrs=(Attr("permutation", Kind.INT32_ARRAY),)),
    _op(84, ct.FPowFOp, "source exponent"),
    _op(
        85,
        ct.PrintTkoOp,
        "args* token?@13.2",
        attrs=(Attr("str", Kind.STRING),),
        results=MANY,
        late_results=(V13_2, (TOKEN,)),
    ),
    _op(86, ct.PtrToIntOp, "source"),
    _op(87, ct.PtrToPtrOp, "source"),
    _op(88, ct.ReduceOp, "operands*", attrs=(DIM, IDENTITIES), results=MANY, regions=1),
    _op(89, ct.RemFOp, "lhs rhs"),
    _op(90, ct.RemIOp, "lhs rhs", attrs=(SIGNEDNESS,)),
    _op(91, ct.ReshapeOp, "source"),
    _op(92, ct.ReturnOp, "operands*", results=MANY),
    _op(93, ct.RsqrtOp, "source", attrs=(FTZ,)),
    _op(
        94,
        ct.ScanOp,
        "operands*",
        attrs=(DIM, Attr("reverse", Kind.BOOL), IDENTITIES),
        results=MANY,
        regions=1,
    ),
    _op(95, ct.SelectOp, "cond val_if_true val_if_false"),
    _op(96, ct.ShLIOp, "lhs rhs", attrs=(OVERFLOW,)),
    _op(97, ct.ShRIOp, "lhs rhs", attrs=(SIGNEDNESS,)),
    _op(98, ct.SinOp, "source"),
    _op(99, ct.SinHOp, "source"),
    _op(100, ct.SqrtOp, "source", attrs=(FTZ, ROUNDING)),
    _op(
        101,
        ct.StorePtrTkoOp,
        "destination value mask? token?",
        attrs=(ORDERING, MAYBE_SCOPE, MAYBE_HINTS),
    ),
    _op(
        102,
        ct.StoreViewTkoOp,
        "tile view index* token?",
        attrs=(ORDERING, MAYBE_SCOPE, MAYBE_HINTS, _inbounds(V13_4)),
        results=MANY,
    ),
    _op(103, ct.SubFOp, "lhs rhs", attrs=(FTZ, ROUNDING)),
    _op(104, ct.SubIOp, "lhs rhs", attrs=(OVERFLOW,)),
    _op(105, ct.TanOp, "source"),
    _op(
        106,
        ct.TanHOp,
        "source",
        attrs=(_enum("rounding_mode", RoundingModeAttr, since=V13_2, default=FULL),),
    ),
    _op(107, ct.TruncIOp, "from", attrs=(OVERFLOW,)),
    _op(108, ct.XOrIOp, "lhs rhs"),
    _op(109, ct.YieldOp, "operands*", results=MANY),
    _op(110, ct.Atan2Op, "x y", since=V13_2),
    _op(111, ct.PackOp, "source", since=V13_3),
    _op(112, ct.UnpackOp, "source", since=V13_3),
    _op(
        113,
        ct.AllocaOp,
        "",
        attrs=(_unit("global"), Attr("num_elem", Kind.INT64), Attr("alignment", Kind.INT64)),
        since=V13_3,
    ),
    _op(114, ct.MmaFScaledOp, "lhs rhs acc lhs_scale rhs_scale", since=V13_3),
    _op(115, ct.MakeGatherScatterViewOp, "tensor_view", since=V13_3),
    _op(116, ct.MakeStridedViewOp, "tensor_view", since=V13_3),
    _op(
        117,
        ct.AtomicRedViewTkoOp,
        "view index* value token?",
        attrs=(ORDERING, SCOPE, MODE, _inbounds(V13_5)),
        results=MANY,
        since=V13_3,
    ),
    _op(118, ct.InsertOp, "source destination indices*", results=MANY, since=V13_4),
    _op(119, ct.GdcLaunchDependentsTkoOp, "token?", since=V13_4),
    _op(120, ct.GdcWaitTkoOp, "token?", since=V13_4),
    _op(121, ct.FPowIOp, "source exponent", since=V13_4),
    _op(122, ct.MemoryFenceAliasTkoOp, "token", since=V13_4),
    _op(
        123,
        ct.MultimemLoadReduceViewTkoOp,
        "view index* token?",
        attrs=(ORDERING, MAYBE_SCOPE, REDUCTION, INBOUNDS),
        results=MANY,
        since=V13_5,
    ),
    _op(
        124,
        ct.MultimemReduceViewTkoOp,
        "view tile index* token?",
        attrs=(ORDERING, SCOPE, REDUCTION, INBOUNDS),
        results=MANY,
        since=V13_5,
    ),
    _op(
        125,
        ct.MultimemStoreViewTkoOp,
        "view tile index* token?",
        attrs=(ORDERING, MAYBE_SCOPE, INBOUNDS),
        results=MANY,
        since=V13_5,
    ),
)

ROW_BY_OPCODE = {row.opcode: row for row in OPERATIONS}
ROW_BY_CLASS = {row.cls: row for row in OPERATIONS}

HIGHEST_OPCODE: dict[Version, int] = {
    version: max(row.opcode for row in OPERATIONS if row.since <= version) for version in VERSIONS
}

_plans: dict[tuple[int, Version], Plan] = {}


def plan(row: OpRow, version: Version) -> Plan:
    """The row resolved for a version, resolved once per process."""
    key = (row.opcode, version)
    known = _plans.get(key)
    if known is None:
        known = _plans[key] = plan_for(row, version)
    return known
