"""Custom forms of operations on tiles: how each reads what follows its mnemonic.

The rows are the mirror of `formats.py`; memory operations are in `memory_parsers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    PointerKindAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.elementwise import UniformOp
from tileiras.dialects.cuda_tile.text.formats import DEFAULT_ROUNDING
from tileiras.dialects.cuda_tile.text.lexer import Token
from tileiras.dialects.cuda_tile.text.values import ValueParser, flattened, segment_sizes
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
)

OpParser = Callable[[ValueParser, Any], Operation]
"""From the text after the mnemonic, and the operation's class, to the operation."""


def _rounding(p: ValueParser, cls: Any) -> RoundingModeAttr:
    if p.accept("rounding"):
        return RoundingModeAttr(p.angled(RoundingMode, "a rounding mode"))
    return RoundingModeAttr(RoundingMode(DEFAULT_ROUNDING.get(cls.name, "nearest_even")))


def _signedness(p: ValueParser) -> SignednessAttr:
    return SignednessAttr(p.enum(Signedness, "a signedness"))


def _overflow(p: ValueParser) -> IntegerOverflowAttr:
    if p.accept("overflow"):
        return IntegerOverflowAttr(p.angled(IntegerOverflow, "an overflow promise"))
    return IntegerOverflowAttr(IntegerOverflow.NONE)


def flags(p: ValueParser, *names: str) -> dict[str, Attribute]:
    """Unit attributes that are written as bare words, in any order."""
    found: dict[str, Attribute] = {}
    while p.peek().kind == "word" and p.peek().text in names:
        found[p.take().text] = UnitAttr()
    return found


def _uniform(p: ValueParser, cls: Any, properties: dict[str, Attribute], uses: Any) -> Operation:
    operands, type = p.uniform(uses)
    return cls.create(operands=operands, result_types=[type], properties=properties)


def _same_type(p: ValueParser, cls: Any) -> Operation:
    return _uniform(p, cls, {}, p.uses())


def _rounded(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    properties: dict[str, Attribute] = {"rounding_mode": _rounding(p, cls)}
    return _uniform(p, cls, properties | flags(p, "flush_to_zero"), uses)


def _flushable(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    return _uniform(p, cls, flags(p, "flush_to_zero", "propagate_nan"), uses)


def _overflowing(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    return _uniform(p, cls, {"overflow": _overflow(p)}, uses)


def _signed(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    return _uniform(p, cls, {"signedness": _signedness(p)}, uses)


def _divi(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    sign = _signedness(p)
    return _uniform(p, cls, {"signedness": sign, "rounding": _rounding(p, cls)}, uses)


def _comparison_types(p: ValueParser, cls: Any, properties: Any, uses: Any) -> Operation:
    operands, _ = p.uniform(uses)
    p.expect("->")
    return cls.create(operands=operands, result_types=[p.type()], properties=properties)


def _cmpi(p: ValueParser, cls: Any) -> Operation:
    predicate = ComparisonPredicateAttr(p.enum(ComparisonPredicate, "a comparison"))
    uses = [p.use()]
    p.expect(",")
    uses.append(p.use())
    p.expect(",")
    properties = {"comparison_predicate": predicate, "signedness": _signedness(p)}
    return _comparison_types(p, cls, properties, uses)


def _cmpf(p: ValueParser, cls: Any) -> Operation:
    predicate = ComparisonPredicateAttr(p.enum(ComparisonPredicate, "a comparison"))
    ordering = ComparisonOrderingAttr(p.enum(ComparisonOrdering, "an ordering"))
    properties = {"comparison_predicate": predicate, "comparison_ordering": ordering}
    return _comparison_types(p, cls, properties, p.uses())


def _select(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    p.expect(":")
    condition = p.type()
    p.expect(",")
    arm = p.type()
    operands = p.check_types(uses, [condition, *[arm] * (len(uses) - 1)])
    return cls.create(operands=operands, result_types=[arm])


def _typed(index: int) -> OpParser:
    """All operands have a type of their own; the result has the type of one of them."""

    def parse(p: ValueParser, cls: Any) -> Operation:
        uses = p.uses()
        properties = flags(p, "fast_acc") if cls is ct.MmaFOp else {}
        operands = p.typed(uses)
        if index >= len(operands):
            p.fail(f"found {len(operands)} operands, expected more", uses[0].token)
        type = operands[index].type
        return cls.create(operands=operands, result_types=[type], properties=properties)

    return parse


def _mmai(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    properties = {"signedness_lhs": _signedness(p), "signedness_rhs": _signedness(p)}
    operands = p.typed(uses)
    type = operands[-1].type
    return cls.create(operands=operands, result_types=[type], properties=properties)


def _converted(properties: Callable[[ValueParser, Any], dict[str, Attribute]]) -> OpParser:
    """`%a <properties> : T -> T`, with a type for every operand."""

    def parse(p: ValueParser, cls: Any) -> Operation:
        uses = p.uses()
        found = properties(p, cls)
        operands = p.typed(uses)
        p.expect("->")
        return cls.create(operands=operands, result_types=[p.type()], properties=found)

    return parse


def _itof_properties(p: ValueParser, cls: Any) -> dict[str, Attribute]:
    sign = _signedness(p)
    found: dict[str, Attribute] = {"signedness": sign, "rounding_mode": _rounding(p, cls)}
    return found | flags(p, "saturating")


def _dim_properties(p: ValueParser, cls: Any) -> dict[str, Attribute]:
    p.expect("dim")
    p.expect("=")
    return {"dim": IntegerAttr(p.integer("a dim"), i32)}


def _permutation(p: ValueParser, cls: Any) -> dict[str, Attribute]:
    dims = p.dim_list("a dim")
    return {"permutation": DenseArrayBase.from_list(i32, dims)}


def _extract(p: ValueParser, cls: Any) -> Operation:
    source = p.use()
    indices = p.use_list()
    p.expect(":")
    operands = [p.check_type(source, p.type()), *(use.value for use in indices)]
    p.expect("->")
    return cls.create(operands=operands, result_types=[p.type()])


def _insert(p: ValueParser, cls: Any) -> Operation:
    uses = p.uses()
    indices = p.use_list()
    operands = p.typed(uses)
    type = operands[-1].type
    return cls.create(operands=[*operands, *(use.value for use in indices)], result_types=[type])


def _results(count: int) -> OpParser:
    """`: T`, the type of all results."""

    def parse(p: ValueParser, cls: Any) -> Operation:
        p.expect(":")
        return cls.create(result_types=[p.type()] * count)

    return parse


def _constant(p: ValueParser, cls: Any) -> Operation:
    value = p.dense()
    return cls.create(result_types=[value.type], properties={"value": value})


def _assume(p: ValueParser, cls: Any) -> Operation:
    predicate = p.predicate()
    p.expect(",")
    return _uniform(p, cls, {"predicate": predicate}, [p.use()])


def _assert(p: ValueParser, cls: Any) -> Operation:
    use = p.use()
    p.expect(",")
    message = StringAttr(p.string("a message"))
    return cls.create(operands=p.typed([use]), properties={"message": message})


def _alloca(p: ValueParser, cls: Any) -> Operation:
    properties: dict[str, Attribute] = {}
    for name in ("num_elem", "alignment"):
        p.expect(name)
        p.expect("=")
        properties[name] = IntegerAttr(p.integer("an integer"), i64)
        if name == "num_elem":
            p.expect(",")
    properties |= flags(p, "global")
    p.expect(":")
    return cls.create(result_types=[p.type()], properties=properties)


def _get_global(p: ValueParser, cls: Any) -> Operation:
    symbol = SymbolRefAttr(p.symbol("the name of a global"))
    p.expect(":")
    return cls.create(result_types=[p.type()], properties={"name": symbol})


def _get_shape(p: ValueParser, cls: Any) -> Operation:
    use = p.use()
    operands = p.typed([use])
    rank = getattr(use.value.type, "rank", 0)
    result = [p.type()] * rank if p.accept("->") else []
    return cls.create(operands=operands, result_types=result)


def _sizes(p: ValueParser, name: str) -> tuple[list[Any], list[Any], Token | None]:
    token = p.peek()
    if not p.accept(name):
        return [], [], None
    p.expect("=")

    def size() -> Any:
        token = p.peek()
        if token.kind == "value":
            return p.use()
        value = p.integer("a size or a value")
        if not 0 < value < 1 << 63:
            p.fail(f"expected strictly positive integer, got {value}", token)
        return value

    sizes = p.listed("[", "]", size)
    literals = [item if isinstance(item, int) else DYNAMIC for item in sizes]
    return literals, [item for item in sizes if not isinstance(item, int)], token


def _make_tensor_view(p: ValueParser, cls: Any) -> Operation:
    base = p.use()
    shape, shape_uses, shape_token = [], [], None
    strides, stride_uses, strides_token = [], [], None
    if p.accept(","):
        shape, shape_uses, shape_token = _sizes(p, "shape")
        p.expect(",")
        strides, stride_uses, strides_token = _sizes(p, "strides")
    p.expect(":")
    types = p.types()
    type = types[-1]
    if p.accept("->"):
        type = p.type()
        if isinstance(getattr(type, "kind", None), PointerKindAttr) and types:
            p.check_type(base, types.pop(0))
        for use in (*shape_uses, *stride_uses):
            p.check_type(use, types[0] if types else type)
    if not isinstance(type, TensorViewType):
        p.fail("make_tensor_view gives another type, expected a tensor_view", base.token)
    if tuple(shape) != type.shape:
        p.fail("shape differs from the shape of the type", shape_token or base.token)
    if tuple(strides) != type.strides:
        p.fail("strides differ from the strides of the type", strides_token or base.token)
    sizes = [use.value for use in shape_uses]
    steps = [use.value for use in stride_uses]
    return cls.create(
        operands=flattened(base.value, sizes, steps),
        result_types=[type],
        properties={"operandSegmentSizes": segment_sizes(base.value, sizes, steps)},
    )


def _make_view(p: ValueParser, cls: Any) -> Operation:
    use = p.use()
    p.expect(":")
    type = p.type()
    if not isinstance(type, PartitionViewType | StridedViewType | GatherScatterViewType):
        p.fail("found another type, expected a view", use.token)
    operand = p.check_type(use, type.tensor_view)
    return cls.create(operands=[operand], result_types=[type])


def _join_tokens(p: ValueParser, cls: Any) -> Operation:
    return _uniform(p, cls, {}, p.uses())


def _gdc(p: ValueParser, cls: Any) -> Operation:
    operands = []
    if p.accept("token"):
        p.expect("=")
        operands = [p.use().value]
    p.expect("->")
    return cls.create(operands=operands, result_types=[p.type()])


def _fence(p: ValueParser, cls: Any) -> Operation:
    return cls.create(operands=[p.use().value], result_types=[TOKEN])


def _terminator(p: ValueParser, cls: Any) -> Operation:
    if p.peek().kind != "value":
        return cls.create()
    return cls.create(operands=p.typed(p.uses()))


def _no_properties(p: ValueParser, cls: Any) -> dict[str, Attribute]:
    return {}


_ROWS: tuple[tuple[OpParser, tuple[Any, ...]], ...] = (
    (_same_type, (ct.FPowFOp, ct.Atan2Op)),
    (
        _rounded,
        (
            *(ct.ExpOp, ct.TanHOp, ct.SqrtOp, ct.AddFOp, ct.SubFOp, ct.MulFOp, ct.DivFOp),
            ct.FmaOp,
        ),
    ),
    (_flushable, (ct.Exp2Op, ct.RsqrtOp, ct.MaxFOp, ct.MinFOp)),
    (_overflowing, (ct.NegIOp, ct.AddIOp, ct.SubIOp, ct.MulIOp, ct.ShLIOp)),
    (_signed, (ct.MaxIOp, ct.MinIOp, ct.RemIOp, ct.ShRIOp)),
    (_divi, (ct.DivIOp,)),
    (_cmpi, (ct.CmpIOp,)),
    (_cmpf, (ct.CmpFOp,)),
    (_select, (ct.SelectOp,)),
    (_typed(0), (ct.FPowIOp,)),
    (_typed(2), (ct.MmaFOp, ct.MmaFScaledOp)),
    (_mmai, (ct.MmaIOp,)),
    (
        _converted(_no_properties),
        (
            *(ct.BitcastOp, ct.PtrToIntOp, ct.IntToPtrOp, ct.PtrToPtrOp, ct.BroadcastOp),
            *(ct.ReshapeOp, ct.PackOp, ct.UnpackOp, ct.OffsetOp),
        ),
    ),
    (_converted(lambda p, cls: {"signedness": _signedness(p)}), (ct.ExtIOp,)),
    (_converted(lambda p, cls: {"overflow": _overflow(p)}), (ct.TruncIOp,)),
    (_converted(_itof_properties), (ct.IToFOp, ct.FToIOp)),
    (_converted(lambda p, cls: {"rounding_mode": _rounding(p, cls)}), (ct.FToFOp,)),
    (_converted(_dim_properties), (ct.CatOp,)),
    (_converted(_permutation), (ct.PermuteOp,)),
    (_extract, (ct.ExtractOp,)),
    (_insert, (ct.InsertOp,)),
    (_results(1), (ct.IotaOp, ct.MakeTokenOp)),
    (_results(3), (ct.GetTileBlockIdOp, ct.GetNumTileBlocksOp)),
    (_constant, (ct.ConstantOp,)),
    (_assume, (ct.AssumeOp,)),
    (_assert, (ct.AssertOp,)),
    (_alloca, (ct.AllocaOp,)),
    (_get_global, (ct.GetGlobalOp,)),
    (_get_shape, (ct.GetTensorShapeOp, ct.GetIndexSpaceShapeOp)),
    (_make_tensor_view, (ct.MakeTensorViewOp,)),
    (_make_view, (ct.MakePartitionViewOp, ct.MakeStridedViewOp, ct.MakeGatherScatterViewOp)),
    (_join_tokens, (ct.JoinTokensOp,)),
    (_gdc, (ct.GdcWaitTkoOp, ct.GdcLaunchDependentsTkoOp)),
    (_fence, (ct.MemoryFenceAliasTkoOp,)),
    (_terminator, (ct.BreakOp, ct.ContinueOp, ct.YieldOp, ct.ReturnOp)),
)
OP_PARSERS: dict[str, tuple[OpParser, Any]] = {
    **{cls.name: (_same_type, cls) for cls in ct.CudaTile.operations if issubclass(cls, UniformOp)},
    **{cls.name: (parser, cls) for parser, classes in _ROWS for cls in classes},
}
"""Operation name -> how it is read, and its class."""
