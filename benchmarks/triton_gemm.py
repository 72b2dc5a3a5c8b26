"""Compiles GEMMs with Triton to PTX, for `static_figures.py`; needs no GPU.

    python benchmarks/triton_gemm.py DIRECTORY sm_90,sm_100,sm_120     # a Python that has triton

Leaves NAME.TARGET.ptx for every kernel, and figures.json with tiles, warps and shared memory.
"""

# pyright: reportMissingParameterType=false
# A kernel's parameters have no types of Python's.

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]


@triton.jit
def gemm(
    left,
    right,
    result,
    rows,
    columns,
    depth,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    EXACT: tl.constexpr,
    SUM: tl.constexpr,
    RESULT: tl.constexpr,
):
    """result = left @ right, tiles by TMA; f8: EXACT products at most in wgmma's own sums."""
    first_row, first_column = tl.program_id(0) * TM, tl.program_id(1) * TN
    a = tl.make_tensor_descriptor(left, [rows, depth], [depth, 1], [TM, TK])
    b = tl.make_tensor_descriptor(right, [columns, depth], [depth, 1], [TN, TK])
    c = tl.make_tensor_descriptor(result, [rows, columns], [columns, 1], [TM, TN])
    total = tl.zeros((TM, TN), SUM)
    for step in range(0, depth, TK):
        a_tile, b_tile = a.load([first_row, step]), b.load([first_column, step])
        total = tl.dot(a_tile, b_tile.T, total, max_num_imprecise_acc=EXACT, out_dtype=SUM)
    c.store([first_row, first_column], total.to(RESULT))


@triton.jit
def scaled(
    left,
    left_scales,
    right,
    right_scales,
    result,
    columns,
    depth,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
    FORMAT: tl.constexpr,
    BLOCK: tl.constexpr,
    PACKED: tl.constexpr,
):
    """result = (left * scales) @ (right * scales)^T, a scale for BLOCK elements along K."""
    row = tl.program_id(0) * TM + tl.arange(0, TM)
    column = tl.program_id(1) * TN + tl.arange(0, TN)
    deep, groups = tl.arange(0, TK // PACKED), tl.arange(0, TK // BLOCK)
    total = tl.zeros((TM, TN), tl.float32)
    for step in range(0, depth, TK):
        at, scale_at = step // PACKED + deep, step // BLOCK + groups
        a = tl.load(left + row[:, None] * (depth // PACKED) + at[None, :])
        b = tl.load(right + column[None, :] * (depth // PACKED) + at[:, None])
        a_scale = tl.load(left_scales + row[:, None] * (depth // BLOCK) + scale_at[None, :])
        b_scale = tl.load(right_scales + column[:, None] * (depth // BLOCK) + scale_at[None, :])
        total = tl.dot_scaled(a, a_scale, FORMAT, b, b_scale, FORMAT, total)
    tl.store(result + row[:, None] * columns + column[None, :], total)


SCALED = ("mxf8", "mxf4", "nvf4")
EVERYWHERE = ("f16", "f8E4M3FN", "i8")
"""Of the others sm_90 has no scaled product, and it alone has the sums of f8 that are not exact."""
SIZES = {"rows": "i32", "columns": "i32", "depth": "i32"}
TILE = {"TM": 128, "TN": 128}
FLOAT, INTEGER = {"SUM": tl.float32, "RESULT": tl.float16}, {"SUM": tl.int32, "RESULT": tl.int32}
KERNELS: dict[str, tuple[Any, dict[str, str], dict[str, Any]]] = {
    "f16": (
        gemm,
        {"left": "*fp16", "right": "*fp16", "result": "*fp16", **SIZES},
        {**TILE, "TK": 64, "EXACT": None, **FLOAT},
    ),
    "i8": (
        gemm,
        {"left": "*i8", "right": "*i8", "result": "*i32", **SIZES},
        {**TILE, "TK": 128, "EXACT": None, **INTEGER},
    ),
}
for _name, _exact in (("f8E4M3FN", None), ("f8E4M3FN+", 128)):
    KERNELS[_name] = (
        gemm,
        {"left": "*fp8e4nv", "right": "*fp8e4nv", "result": "*fp16", **SIZES},
        {**TILE, "TK": 128, "EXACT": _exact, **FLOAT},
    )
for _name, _format, _element, _scale, _block, _packed in (
    ("mxf8", "e4m3", "*fp8e4nv", "*u8", 32, 1),
    ("mxf4", "e2m1", "*u8", "*u8", 32, 2),
    ("nvf4", "e2m1", "*u8", "*fp8e4nv", 16, 2),
):
    KERNELS[_name] = (
        scaled,
        {
            "left": _element,
            "left_scales": _scale,
            "right": _element,
            "right_scales": _scale,
            "result": "*fp32",
            "columns": "i32",
            "depth": "i32",
        },
        {**TILE, "TK": 128, "FORMAT": _format, "BLOCK": _block, "PACKED": _packed},
    )


def main(directory: Path, targets: list[str]) -> None:
    """All kernels for all targets; a kernel that Triton refuses is left out."""
    directory.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"triton": triton.__version__}
    for target in targets:
        for name, (function, signature, constants) in KERNELS.items():
            if (name in SCALED) == (target == "sm_90") and name not in EVERYWHERE:
                continue
            aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
            types = {**signature, **dict.fromkeys(constants, "constexpr")}
            source = ASTSource(fn=function, signature=types, constexprs=constants, attrs=aligned)
            gpu = GPUTarget("cuda", int(target.removeprefix("sm_")), 32)
            made = triton.compile(source, target=gpu, options={"num_warps": 8, "num_stages": 3})
            (directory / f"{name}.{target}.ptx").write_text(made.asm["ptx"])
            figures[f"{name}.{target}"] = {
                "tile": [constants[key] for key in ("TM", "TN", "TK")],
                "shared": made.metadata.shared,
            }
    (directory / "figures.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","))
