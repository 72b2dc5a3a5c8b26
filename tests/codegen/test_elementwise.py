"""Elementwise lowering: every op on every type compiles, to the instructions that it should.

LLVM ends its process for what it cannot select, so PTX is made in a child process, one module with
a kernel per row; a child that dies is asked again in halves until the guilty rows are known.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    tf32,
)
from xdsl.ir import Block

from tests.kernels.elementwise_rows import (
    FP4_ROWS,
    IEEE,
    ROWS,
    Row,
    build_kernel,
    build_module,
    f4E2M1FN,
    i1,
    i8,
    i32,
    i64,
    uses_fp8,
)
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.lowering.elementwise import (
    RULES,
    is_elementwise,
    lower_elementwise,
    trigonometry,
)
from tileiras.codegen.lowering.types import register_type
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import pointer_type, vector_type
from tileiras.dialects.nv_tileaa import arithmetic, conversions, math
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.tensors import SplatOp
from tileiras.dialects.nv_tileaa.types import PointerType
from tileiras.errors import CompileError, InternalError
from tileiras.options import CompileOptions

ROOT = Path(__file__).resolve().parents[2]

_CHILD = """
import sys
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.target import get_target
from tileiras.options import CompileOptions
name = sys.argv[1]
text = sys.stdin.read()
sys.stdout.write(llvm_ir_to_ptx(text, get_target(name), CompileOptions(gpu_name=name)))
"""


def compile_text(text: str, target: str) -> str | None:
    """PTX of LLVM IR text; None if the child died or failed."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, target], input=text, capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout if done.returncode == 0 else None


def split_kernels(ptx: str) -> dict[str, str]:
    """The body of every kernel by the name of its row."""
    found = re.finditer(r"\.entry (\w+)\(.*?\n\{\n(.*?)\n\}\n", ptx, re.DOTALL)
    return {match.group(1).rpartition("__")[0]: match.group(2) for match in found}


def rows_for(target: str) -> list[Row]:
    """The rows that the target supports."""
    rows = ROWS if target != "sm_80" else [row for row in ROWS if not uses_fp8(row)]
    return rows + FP4_ROWS if target == "sm_120" else rows


@cache
def ptx_text_of(target: str, lanes: int | None) -> str | None:
    """PTX of all rows in one module, compiled once per session; None if LLVM died."""
    return compile_text(build_module(rows_for(target), target, lanes), target)


def compile_in_halves(rows: list[Row], target: str, lanes: int | None) -> dict[str, str]:
    """PTX bodies by row name; rows that LLVM dies of are missing."""
    ptx = compile_text(build_module(rows, target, lanes), target)
    if ptx is not None:
        return split_kernels(ptx)
    if len(rows) == 1:
        return {}
    middle = len(rows) // 2
    first = compile_in_halves(rows[:middle], target, lanes)
    return first | compile_in_halves(rows[middle:], target, lanes)


@cache
def ptx_of(target: str, lanes: int | None) -> dict[str, str]:
    """PTX bodies by row name, without the rows that do not compile."""
    ptx = ptx_text_of(target, lanes)
    if ptx is not None:
        return split_kernels(ptx)
    return compile_in_halves(rows_for(target), target, lanes)


def instructions(row: Row, target: str = "sm_90", lanes: int | None = None) -> str:
    """The kernel's PTX."""
    bodies = ptx_of(target, lanes)
    assert row.name in bodies, f"{row.name} does not compile"
    return bodies[row.name]


def test_every_elementwise_op_has_a_rule_and_a_row() -> None:
    chapters = (arithmetic, math, conversions)
    ops = {
        op
        for chapter in chapters
        for op in vars(chapter).values()
        if isinstance(op, type)
        and issubclass(op, ElementwiseOp)
        and op.__module__ == chapter.__name__
    }
    assert ops == set(RULES)
    assert ops == {row.op for row in ROWS}
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_compiles_for_sm_90_as_scalar_and_vector(row: Row) -> None:
    for lanes in (None, 4):
        body = instructions(row, lanes=lanes)
        assert "st.global" in body
        assert "llvm." not in body  # a call of an intrinsic that LLVM does not know


@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
def test_compiles_for_other_targets(target: str) -> None:
    missing = [row.name for row in rows_for(target) if row.name not in ptx_of(target, None)]
    assert missing == []


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_ptxas_accepts_every_row(target: str) -> None:
    ptx = ptx_text_of(target, None)
    assert ptx is not None, "LLVM died"
    options = CompileOptions(gpu_name=target, opt_level=1)
    assert ptx_to_cubin(ptx, get_target(target), options).cubin.startswith(b"\x7fELF")


def rounded(op: type, name: str, arity: int) -> list[tuple[Row, str]]:
    """The expected instruction of an f32 or f64 operation per rounding mode."""
    cases: list[tuple[Row, str]] = []
    for mode, suffix in zip(IEEE, ("rn", "rz", "rm", "rp")):
        for type in (f32, f64):
            row = Row(op, (type,) * arity, type, {"rounding_mode": mode})
            cases.append((row, f"{name}.{suffix}.{type}"))
        flushed = {"rounding_mode": mode, "flush_to_zero": True}
        cases.append((Row(op, (f32,) * arity, f32, flushed), f"{name}.{suffix}.ftz.f32"))
    return cases


def division(mode: str) -> Row:
    """An f32 division."""
    return Row(arithmetic.DivFOp, (f32, f32), f32, {"rounding_mode": mode})


def ftof(source: object, target: object, mode: str = "nearest_even") -> Row:
    """A float conversion."""
    return Row(conversions.FpToFpOp, (source,), target, {"rounding_mode": mode})  # type: ignore[arg-type]


NEAREST = {"rounding_mode": "nearest_even"}
EXPECTED = [
    *rounded(arithmetic.AddFOp, "add", 2),
    *rounded(arithmetic.SubFOp, "sub", 2),
    *rounded(arithmetic.MulFOp, "mul", 2),
    *rounded(arithmetic.DivFOp, "div", 2),
    *rounded(arithmetic.FmaOp, "fma", 3),
    *rounded(math.SqrtOp, "sqrt", 1),
    (division("approx"), "div.approx.f32"),
    (division("full"), "div.full.f32"),
    (Row(math.SqrtOp, (f32,), f32, {"rounding_mode": "approx"}), "sqrt.approx.f32"),
    (Row(arithmetic.AddFOp, (f16, f16), f16, NEAREST), "add.rn.f16"),
    (Row(arithmetic.MulFOp, (bf16, bf16), bf16, NEAREST), "mul.rn.bf16"),
    (Row(arithmetic.FmaOp, (bf16, bf16, bf16), bf16, NEAREST), "fma.rn.bf16"),
    (Row(arithmetic.DivFOp, (f16, f16), f16, NEAREST), "div.rn.f32"),
    (Row(math.SqrtOp, (bf16,), bf16, NEAREST), "sqrt.rn.f32"),
    (Row(arithmetic.MaxFOp, (f32, f32), f32), "max.f32"),
    (Row(arithmetic.MaxFOp, (f32, f32), f32, {"propagate_nan": True}), "max.NaN.f32"),
    (Row(arithmetic.MinFOp, (f16, f16), f16, {"propagate_nan": True}), "min.NaN.f16"),
    (Row(arithmetic.MinFOp, (f64, f64), f64), "min.f64"),
    (Row(arithmetic.MaxFOp, (f32, f32), f32, {"flush_to_zero": True}), "max.ftz.f32"),
    (Row(arithmetic.CeilOp, (f64,), f64), "cvt.rpi.f64.f64"),
    (Row(arithmetic.FloorOp, (f32,), f32), "cvt.rmi.f32.f32"),
    (Row(math.Exp2Op, (f32,), f32), "ex2.approx.f32"),
    (Row(math.Exp2Op, (f32,), f32, {"flush_to_zero": True}), "ex2.approx.ftz.f32"),
    (Row(math.Exp2Op, (f16,), f16), "ex2.approx.f32"),
    (Row(math.RsqrtOp, (f32,), f32, {"flush_to_zero": True}), "rsqrt.approx.ftz.f32"),
    (Row(math.TanhOp, (f32,), f32, {"rounding_mode": "approx"}), "tanh.approx.f32"),
    (Row(math.ExpOp, (f32,), f32, {"rounding_mode": "approx"}), "ex2.approx.f32"),
    (Row(arithmetic.MulhiIOp, (i32, i32), i32), "mul.hi.u32"),
    (Row(arithmetic.MulhiIOp, (i64, i64), i64), "mul.hi.u64"),
    (Row(arithmetic.AbsIOp, (i32,), i32), "abs.s32"),
    (Row(arithmetic.RemIOp, (i32, i32), i32, {"signedness": "unsigned"}), "rem.u32"),
    (ftof(f32, f16), "cvt.rn.f16.f32"),
    (ftof(f32, bf16), "cvt.rn.bf16.f32"),
    (ftof(f64, f16), "cvt.rn.f16.f64"),
    (ftof(f64, f32, "positive_inf"), "cvt.rp.f32.f64"),
    (ftof(f32, f16, "negative_inf"), "cvt.rm.f16.f32"),
    (ftof(f32, f8E4M3FN), "cvt.rn.satfinite.e4m3x2.f32"),
    (ftof(f16, f8E5M2), "cvt.rn.satfinite.e5m2x2.f16x2"),
    (ftof(f8E4M3FN, f16), "cvt.rn.f16x2.e4m3x2"),
]


@pytest.mark.parametrize(("row", "mnemonic"), EXPECTED, ids=lambda x: getattr(x, "name", str(x)))
def test_uses_the_instruction(row: Row, mnemonic: str) -> None:
    assert re.search(rf"\b{re.escape(mnemonic)}\s", instructions(row))


def test_f64_narrows_to_bf16_without_rounding_twice() -> None:
    body = instructions(ftof(f64, bf16))
    assert "cvt.rz.f32.f64" in body
    assert "cvt.rn.bf16.f32" in body
    assert "cvt.rn.f32.f64" not in body


def test_signed_i1_becomes_minus_one_in_bf16() -> None:
    row = Row(conversions.IntToFpOp, (i1,), bf16, {"signedness": "signed", **NEAREST})
    assert instructions(row, lanes=4).count("0xBF80") == 4


def test_remainder_is_exact_and_not_a_rounded_division() -> None:
    assert "div.rn.f32" not in instructions(Row(arithmetic.RemFOp, (f32, f32), f32))


@pytest.mark.parametrize(
    ("row", "pair"),
    [
        (ftof(f32, bf16), "cvt.rn.bf16x2.f32"),
        (ftof(f32, f16, "zero"), "cvt.rz.f16x2.f32"),
        (ftof(f32, f8E5M2), "cvt.rn.satfinite.e5m2x2.f32"),
        (ftof(f8E4M3FN, f32), "cvt.rn.f16x2.e4m3x2"),
        (Row(arithmetic.AddFOp, (f16, f16), f16, NEAREST), "add.rn.f16x2"),
        (Row(arithmetic.FmaOp, (bf16, bf16, bf16), bf16, NEAREST), "fma.rn.bf16x2"),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_vectors_use_packed_instructions(row: Row, pair: str) -> None:
    assert instructions(row, lanes=4).count(pair) == 2


def test_fp4_and_e8m0_use_blackwell_conversions() -> None:
    down = instructions(ftof(f32, f4E2M1FN), "sm_120")
    up = instructions(ftof(f4E2M1FN, f16), "sm_120")
    scale = instructions(ftof(f32, f8E8M0FNU, "positive_inf"), "sm_120")
    assert "cvt.rn.satfinite.e2m1x2.f32" in down
    assert "cvt.rn.f16x2.e2m1x2" in up
    assert "cvt.rp.satfinite.ue8m0x2.f32" in scale


def multiply_add(element: object, flush: bool) -> str:
    """LLVM IR of `a * b + c` as two ops."""
    extra: dict[str, str | bool] = {"flush_to_zero": True} if flush else {}
    properties = {"rounding_mode": "nearest_even", **extra}
    mul = Row(arithmetic.MulFOp, (element, element), element, properties)  # type: ignore[arg-type]
    add = Row(arithmetic.AddFOp, (element, element), element, properties)  # type: ignore[arg-type]
    func = FuncOp.make_kernel("mul_add", [pointer_type(1)] * 2)
    b, target = ThreadBuilder(func.entry), get_target("sm_90")
    source, result = func.entry.args
    vector = vector_type(element, 4)  # type: ignore[arg-type]
    x = b.load(source, vector, align=8)
    product = lower_elementwise(b, mul.build(4), (x, x), target)
    b.store(lower_elementwise(b, add.build(4), (product, x), target), result, align=8)
    b.ret()
    return print_module(ModuleOp([func]))


@pytest.mark.parametrize("element", [f16, bf16, f32, f64], ids=str)
def test_product_and_sum_stay_apart(element: object) -> None:
    ptx = compile_text(multiply_add(element, flush=False), "sm_90")
    assert ptx is not None
    assert "fma" not in ptx
    assert "mul.rn" in ptx
    assert "add.rn" in ptx


def test_flushed_product_and_sum_stay_apart() -> None:
    ptx = compile_text(multiply_add(f32, flush=True), "sm_90")
    assert ptx is not None
    assert "fma" not in ptx
    assert ptx.count("mul.rn.ftz.f32") == 4


def test_pointer_offset_is_signed_and_in_bytes() -> None:
    pointer = PointerType(f64)
    body = instructions(Row(conversions.AddPtrOp, (pointer, i32), pointer))
    assert re.search(r"mul\.wide\.s32 .*, 8;|shl\.b64 .*, 3;", body)


REJECTED = [
    ("sm_80", ftof(f32, f8E4M3FN), "'ftof' op on f8E4M3FN is not supported on sm_80"),
    ("sm_90", ftof(f32, f4E2M1FN), "'ftof' op on f4E2M1FN is not supported on sm_90"),
    ("sm_90", ftof(f8E8M0FNU, f32), "'ftof' op on f8E8M0FNU is not supported on sm_90"),
    (
        "sm_120",
        ftof(f32, Float8E5M3FNUType()),
        "'ftof' op on !cuda_tile.fnv8E5M3FNU is not supported on sm_120",
    ),
    ("sm_90", ftof(f32, f8E5M2, "zero"), "'ftof' op has no rounding 'zero' to f8E5M2"),
    ("sm_90", ftof(f16, f8E5M2, "zero"), "'ftof' op has no rounding 'zero' to f8E5M2"),
    ("sm_120", ftof(f32, f8E8M0FNU), "'ftof' op has no rounding 'nearest_even' to f8E8M0FNU"),
    ("sm_90", ftof(f32, tf32, "positive_inf"), "'ftof' op has no rounding 'positive_inf' to tf32"),
    ("sm_90", ftof(f32, f16, "nearest_away"), "'ftof' op has no rounding 'nearest_away' to f16"),
    (
        "sm_90",
        Row(arithmetic.DivFOp, (f64, f64), f64, {"rounding_mode": "approx"}),
        "'divf' op has rounding 'approx' on f32 only",
    ),
    (
        "sm_90",
        Row(math.SqrtOp, (f16,), f16, {"rounding_mode": "approx"}),
        "'sqrt' op has rounding 'approx' on f32 only",
    ),
    (
        "sm_90",
        Row(math.TanhOp, (f64,), f64, {"rounding_mode": "approx"}),
        "'tanh' op has rounding 'approx' on f32 only",
    ),
    (
        "sm_90",
        Row(math.ExpOp, (f64,), f64, {"rounding_mode": "approx"}),
        "'exp' op has rounding 'approx' on f32 only",
    ),
    (
        "sm_90",
        Row(arithmetic.AddFOp, (f32, f32), f32, {"rounding_mode": "full"}),
        "'addf' op has no rounding 'full' on f32",
    ),
    (
        "sm_90",
        Row(arithmetic.AddFOp, (f16, f16), f16, {**NEAREST, "flush_to_zero": True}),
        "'addf' op cannot flush f16 to zero, only f32",
    ),
    (
        "sm_90",
        Row(math.Exp2Op, (f64,), f64, {"flush_to_zero": True}),
        "'exp2' op cannot flush f64 to zero, only f32",
    ),
    (
        "sm_90",
        Row(arithmetic.DivIOp, (i32, i32), i32, {"signedness": "signed", "rounding": "full"}),
        "'divi' op has no rounding 'full'",
    ),
    (
        "sm_90",
        Row(conversions.IntToFpOp, (i32,), f32, {"signedness": "signed", "rounding_mode": "zero"}),
        "'itof' op has no rounding 'zero'",
    ),
    (
        "sm_120",
        Row(conversions.IntToFpOp, (i8,), f8E8M0FNU, {"signedness": "signed", **NEAREST}),
        "'itof' op cannot convert to f8E8M0FNU",
    ),
    (
        "sm_120",
        Row(conversions.AddPtrOp, (PointerType(f4E2M1FN), i32), PointerType(f4E2M1FN)),
        "'offset' op cannot step over f4E2M1FN, two of which share a byte",
    ),
]


@pytest.mark.parametrize(("target", "row", "message"), REJECTED, ids=[case[2] for case in REJECTED])
def test_rejects_with_name_and_place(target: str, row: Row, message: str) -> None:
    op = row.build(4)
    op.location = FileLineColLoc(StringAttr("kernel.py"), IntAttr(12), IntAttr(8))
    func = FuncOp.make_kernel("k", [])
    b = ThreadBuilder(func.entry)
    args = [b.undef(vector_type(register, 4)) for register in registers(row)]
    with pytest.raises(CompileError) as caught:
        lower_elementwise(b, op, args, get_target(target))
    assert caught.value.render() == f'loc("kernel.py":12:8): error: {message}'


def registers(row: Row) -> list[object]:
    """Register types of the row's operands."""
    return [register_type(element) for element in row.operands]


def test_another_op_is_our_own_mistake() -> None:
    block = Block(arg_types=[f32])
    splat = SplatOp.create(operands=[block.args[0]], result_types=[TensorType(f32, [4])])
    func = FuncOp.make_kernel("k", [])
    assert not is_elementwise(splat)
    with pytest.raises(InternalError, match="is not elementwise"):
        lower_elementwise(ThreadBuilder(func.entry), splat, [], get_target("sm_90"))


def count_ops(row: Row, lanes: int | None) -> int:
    """Ops in a kernel of the row."""
    return sum(1 for _ in build_kernel(row, "sm_90", lanes).entry.ops)


def blocks_of_pieces(row: Row) -> int:
    """Blocks for each few lanes that have a branch of their own: sine, cosine and tangent."""
    function, _, type = row.name.partition("_")
    if function in ("sin", "cos") and type.startswith("bf16"):
        return 4
    return 5 if type.startswith("f32") or function == "tan" and "f64" not in type else 0


def is_in_pieces(row: Row) -> bool:
    """Whether a branch is taken for a few lanes after the other."""
    return row.name.startswith(("sin_", "cos_", "tan_")) and blocks_of_pieces(row) > 0


def test_a_tile_costs_no_more_ops_than_a_few_elements() -> None:
    whole = [row for row in ROWS if not is_in_pieces(row)]
    grown = [row.name for row in whole if count_ops(row, 64) > count_ops(row, 4)]
    assert grown == []
    assert max(count_ops(row, 64) for row in whole) <= 50


def test_pieces_are_as_many_as_their_lanes_say() -> None:
    for row in filter(is_in_pieces, ROWS):
        block = build_kernel(row, "sm_90", 64).entry
        blocks = sum(1 for _ in block.parent.blocks) if block.parent else 0
        pieces = 64 // trigonometry.LANES
        assert blocks == 1 + blocks_of_pieces(row) * pieces, row.name
