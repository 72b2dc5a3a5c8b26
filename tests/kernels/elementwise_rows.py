"""Every elementwise op on every element type that it takes, as rows, and kernels made of them.

A kernel loads each operand, lowers the one op of its row, and stores the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    tf32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.lowering.elementwise import lower_elementwise
from tileiras.codegen.lowering.types import element_type, register_type
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile import attributes as enums
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import bit_width, integer_type, pointer_type, vector_type
from tileiras.dialects.nv_tileaa import arithmetic, conversions, math
from tileiras.dialects.nv_tileaa.types import PointerType

i1, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
f4E2M1FN = Float4E2M1FNType()
INTEGERS = (i1, i8, i16, i32, i64)
FLOATS = (f16, bf16, f32, f64)
IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
PREDICATES = tuple(enums.ComparisonPredicate)

_ENUMS = {
    "rounding_mode": enums.RoundingModeAttr,
    "rounding": enums.RoundingModeAttr,
    "signedness": enums.SignednessAttr,
    "overflow": enums.IntegerOverflowAttr,
    "comparison_predicate": enums.ComparisonPredicateAttr,
    "comparison_ordering": enums.ComparisonOrderingAttr,
}
_MEMBERS = {
    "rounding_mode": enums.RoundingMode,
    "rounding": enums.RoundingMode,
    "signedness": enums.Signedness,
    "overflow": enums.IntegerOverflow,
    "comparison_predicate": enums.ComparisonPredicate,
    "comparison_ordering": enums.ComparisonOrdering,
}


@dataclass(frozen=True)
class Row:
    """An op class with the element types of its operands and result, and its properties."""

    op: type[Operation]
    operands: tuple[Attribute, ...]
    result: Attribute
    properties: dict[str, str | bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for tests and kernels."""
        types = [str(type) for type in (*self.operands, self.result)]
        extra = [key if value is True else str(value) for key, value in self.properties.items()]
        text = "_".join([self.op.name.rpartition(".")[2], *types, *extra])
        return "".join(c if c.isalnum() else "_" for c in text)

    def build(self, lanes: int | None) -> Operation:
        """The op, on tensors of `lanes` elements or on scalars, with operands of a dead block."""

        def shaped(element: Attribute) -> Attribute:
            return element if lanes is None else TensorType(element, [lanes])

        block = Block(arg_types=[shaped(element) for element in self.operands])
        properties: dict[str, Attribute] = {}
        for key, value in self.properties.items():
            if value is True:
                properties[key] = UnitAttr()
            else:
                properties[key] = _ENUMS[key](_MEMBERS[key](value))
        return self.op.create(
            operands=list(block.args),
            result_types=[shaped(self.result)],
            properties=properties,
        )


def unary(op: type[Operation], types: tuple[Attribute, ...], **properties: str | bool) -> list[Row]:
    """One row per type: same operand and result."""
    return [Row(op, (type,), type, properties) for type in types]


def binary(
    op: type[Operation], types: tuple[Attribute, ...], **properties: str | bool
) -> list[Row]:
    """One row per type: two operands and a result of it."""
    return [Row(op, (type, type), type, properties) for type in types]


def _integer_rows() -> list[Row]:
    rows: list[Row] = []
    for op in (arithmetic.AddIOp, arithmetic.SubIOp, arithmetic.MulIOp, arithmetic.ShLIOp):
        rows += binary(op, INTEGERS, overflow="none")
    for op in (arithmetic.AndIOp, arithmetic.OrIOp, arithmetic.XOrIOp, arithmetic.MulhiIOp):
        rows += binary(op, INTEGERS)
    rows += unary(arithmetic.AbsIOp, INTEGERS)
    rows += unary(arithmetic.NegIOp, INTEGERS, overflow="none")
    for sign in ("signed", "unsigned"):
        for op in (arithmetic.MaxIOp, arithmetic.MinIOp, arithmetic.RemIOp, arithmetic.ShRIOp):
            rows += binary(op, INTEGERS, signedness=sign)
        for rounding in ("zero", "negative_inf", "positive_inf"):
            if (sign, rounding) != ("unsigned", "negative_inf"):
                rows += binary(arithmetic.DivIOp, INTEGERS, signedness=sign, rounding=rounding)
        for predicate in PREDICATES:
            rows += [
                Row(
                    arithmetic.CmpIOp,
                    (type, type),
                    i1,
                    {"comparison_predicate": predicate.value, "signedness": sign},
                )
                for type in INTEGERS
            ]
    return rows


def _float_rows() -> list[Row]:
    rows: list[Row] = []
    arithmetics = (arithmetic.AddFOp, arithmetic.SubFOp, arithmetic.MulFOp, arithmetic.DivFOp)
    for mode in IEEE:
        for op in arithmetics:
            rows += binary(op, FLOATS, rounding_mode=mode)
            rows += binary(op, (f32,), rounding_mode=mode, flush_to_zero=True)
        rows += [Row(arithmetic.FmaOp, (t, t, t), t, {"rounding_mode": mode}) for t in FLOATS]
        flushed = {"rounding_mode": mode, "flush_to_zero": True}
        rows += [Row(arithmetic.FmaOp, (f32, f32, f32), f32, flushed)]
        rows += unary(math.SqrtOp, FLOATS, rounding_mode=mode)
        rows += unary(math.SqrtOp, (f32,), rounding_mode=mode, flush_to_zero=True)
    for mode in ("approx", "full"):
        rows += binary(arithmetic.DivFOp, (f32,), rounding_mode=mode)
        rows += binary(arithmetic.DivFOp, (f32,), rounding_mode=mode, flush_to_zero=True)
    rows += unary(math.SqrtOp, (f32,), rounding_mode="approx")
    rows += unary(math.SqrtOp, (f32,), rounding_mode="approx", flush_to_zero=True)
    for op in (arithmetic.AbsFOp, arithmetic.NegFOp, arithmetic.CeilOp, arithmetic.FloorOp):
        rows += unary(op, FLOATS)
    rows += binary(arithmetic.RemFOp, FLOATS)
    for op in (arithmetic.MaxFOp, arithmetic.MinFOp):
        rows += binary(op, FLOATS) + binary(op, FLOATS, propagate_nan=True)
        rows += binary(op, (f32,), flush_to_zero=True)
        rows += binary(op, (f32,), flush_to_zero=True, propagate_nan=True)
    for predicate in PREDICATES:
        for ordering in ("ordered", "unordered"):
            properties = {
                "comparison_predicate": predicate.value,
                "comparison_ordering": ordering,
            }
            rows += [Row(arithmetic.CmpFOp, (type, type), i1, properties) for type in FLOATS]
    return rows


def _math_rows() -> list[Row]:
    rows: list[Row] = []
    plain = (
        *(math.CosOp, math.CoshOp, math.SinOp, math.SinhOp, math.TanOp, math.LogOp, math.Log2Op),
        *(math.Exp2Op, math.RsqrtOp),
    )
    for op in plain:
        rows += unary(op, FLOATS)
    for op in (math.Exp2Op, math.RsqrtOp):
        rows += unary(op, (f32,), flush_to_zero=True)
    for op in (math.PowOp, math.Atan2Op):
        rows += binary(op, FLOATS)
    for op in (math.ExpOp, math.TanhOp):
        rows += unary(op, FLOATS, rounding_mode="full")
        rows += unary(op, (f32,), rounding_mode="approx")
    rows += [Row(math.FPowIOp, (base, n), base) for base in FLOATS for n in (i1, i8, i16, i32)]
    return rows


def _conversion_rows() -> list[Row]:
    rows: list[Row] = []
    i4 = IntegerType(4)
    widths = (i1, i4, i8, i16, i32, i64)
    for low, narrow in enumerate(widths):
        for wide in widths[low + 1 :]:
            rows += [
                Row(conversions.ExtIOp, (narrow,), wide, {"signedness": sign})
                for sign in ("signed", "unsigned")
            ]
            rows.append(Row(conversions.TruncIOp, (wide,), narrow, {"overflow": "none"}))
    for sign in ("signed", "unsigned"):
        for number in (*FLOATS, tf32, f8E4M3FN, f8E5M2):
            nearest = {"signedness": sign, "rounding_mode": "nearest_even"}
            cut = {"signedness": sign, "rounding_mode": "nearest_int_to_zero"}
            for integer in INTEGERS:
                rows.append(Row(conversions.IntToFpOp, (integer,), number, nearest))
                rows.append(Row(conversions.FpToIntOp, (number,), integer, cut))
                rows.append(
                    Row(conversions.FpToIntOp, (number,), integer, {**cut, "saturating": True})
                )
    every = (*FLOATS, tf32, f8E4M3FN, f8E5M2)
    for source in every:
        for target in every:
            if source != target:
                rows.append(
                    Row(conversions.FpToFpOp, (source,), target, {"rounding_mode": "nearest_even"})
                )
    for mode in IEEE[1:]:
        pairs = [(f64, f32), (f64, f16), (f64, bf16), (f32, f16), (f32, bf16), (f16, f32)]
        rows += [Row(conversions.FpToFpOp, (s,), t, {"rounding_mode": mode}) for s, t in pairs]
    for mode in ("zero", "nearest_away"):
        rows += [Row(conversions.FpToFpOp, (s,), tf32, {"rounding_mode": mode}) for s in (f32, f64)]
    same_width = ((i8, f8E4M3FN), (f8E5M2, f8E4M3FN), (i16, f16), (bf16, f16), (i32, f32))
    rows += [Row(conversions.BitcastOp, (a,), b) for a, b in (*same_width, (i64, f64))]
    rows += [Row(conversions.BitcastOp, (b,), a) for a, b in (*same_width, (i64, f64))]
    pointer = PointerType(f32)
    rows += [
        Row(conversions.IntToPtrOp, (i64,), pointer),
        Row(conversions.PtrToIntOp, (pointer,), i64),
        Row(conversions.PtrToPtrOp, (pointer,), PointerType(i8)),
    ]
    for pointee in (i1, i8, f16, f32, f64, pointer):
        to = PointerType(pointee)
        rows += [Row(conversions.AddPtrOp, (to, integer), to) for integer in INTEGERS]
    return rows


def _select_rows() -> list[Row]:
    types = (*INTEGERS, *FLOATS, tf32, f8E4M3FN, PointerType(f32))
    return [Row(arithmetic.SelectOp, (i1, type, type), type) for type in types]


ROWS = [*_integer_rows(), *_float_rows(), *_math_rows(), *_conversion_rows(), *_select_rows()]
"""What every target since sm_89 compiles."""

FP4_ROWS = [
    Row(conversions.FpToFpOp, (source,), target, {"rounding_mode": mode})
    for source, target, mode in (
        *((source, f4E2M1FN, "nearest_even") for source in (*FLOATS, tf32, f8E4M3FN)),
        *((f4E2M1FN, target, "nearest_even") for target in (*FLOATS, tf32, f8E5M2)),
        *((f8E8M0FNU, target, "nearest_even") for target in FLOATS),
        *((source, f8E8M0FNU, mode) for source in FLOATS for mode in ("zero", "positive_inf")),
    )
]
"""What needs the conversion instructions of Blackwell."""


def uses_fp8(row: Row) -> bool:
    """Whether the row converts to or from an 8-bit float."""
    types = (*row.operands, row.result)
    converts = row.op not in (conversions.BitcastOp, arithmetic.SelectOp)
    return converts and (f8E4M3FN in types or f8E5M2 in types)


def memory_type(element: Attribute) -> Attribute:
    """How a kernel here keeps an element in memory: its register, i1 in a byte."""
    register = register_type(element)
    return integer_type(8) if bit_width(register) == 1 else register


def build_kernel(row: Row, target_name: str, lanes: int | None, indexed: bool = False) -> FuncOp:
    """One kernel: parameters are a pointer per operand, then the result's.

    `indexed`: thread i of the grid, in CTAs of 128, takes the i-th run of `lanes` elements.
    """
    pointers = [pointer_type(1)] * (len(row.operands) + 1)
    suffix = "scalar" if lanes is None else f"x{lanes}"
    func = FuncOp.make_kernel(f"{row.name}__{suffix}", pointers)
    b = ThreadBuilder(func.entry)
    first = element_index(b, lanes or 1) if indexed else b.i64(0)

    def shaped(type: Attribute) -> Attribute:
        return type if lanes is None else vector_type(type, lanes)

    def place(pointer: SSAValue, stored: Attribute) -> SSAValue:
        return b.gep(pointer, b.mul(first, b.i64(bit_width(stored) // 8)))

    args: list[SSAValue] = []
    for element, pointer in zip(row.operands, func.entry.args):
        stored = memory_type(element)
        value = b.load(place(pointer, stored), shaped(stored), align=bit_width(stored) // 8)
        args.append(b.trunc(value, register_type(element)) if element == i1 else value)
    result = lower_elementwise(b, row.build(lanes), args, get_target(target_name))
    if element_type(row.result) == i1:
        result = b.zext(result, integer_type(8))
    stored = memory_type(row.result)
    b.store(result, place(func.entry.args[-1], stored), align=bit_width(stored) // 8)
    b.ret()
    return func


def element_index(b: ThreadBuilder, lanes: int) -> SSAValue:
    """Index of the thread's first element, i64."""
    thread = b.add(b.mul(b.sreg("ctaid.x"), b.i32(128)), b.thread_id())
    return b.mul(b.zext(thread, i64), b.i64(lanes))


def build_module(
    rows: list[Row], target_name: str, lanes: int | None, indexed: bool = False
) -> str:
    """LLVM IR text with a kernel per row."""
    kernels = [build_kernel(row, target_name, lanes, indexed) for row in rows]
    return print_module(ModuleOp(kernels))
