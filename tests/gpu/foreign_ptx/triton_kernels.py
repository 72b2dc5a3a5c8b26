"""Compiles kernels with Triton to PTX, for `foreign_ptx`; needs no GPU.

    python tests/gpu/foreign_ptx/triton_kernels.py DIRECTORY sm_90,sm_100     # that has triton

Leaves NAME.TARGET.ptx for every kernel, and launches.json with threads and shared memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton_gemm import KERNELS as GEMMS  # noqa: E402
from triton_gemm import SCALED, SIZES, TILE, gemm  # noqa: E402


@triton.jit
def gemm_rows(
    left,
    right,
    result,
    rows,
    columns,
    depth,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
):
    """result = left @ right, both row-major: B is read with its columns contiguous."""
    first_row, first_column = tl.program_id(0) * TM, tl.program_id(1) * TN
    a = tl.make_tensor_descriptor(left, [rows, depth], [depth, 1], [TM, TK])
    b = tl.make_tensor_descriptor(right, [depth, columns], [columns, 1], [TK, TN])
    c = tl.make_tensor_descriptor(result, [rows, columns], [columns, 1], [TM, TN])
    total = tl.zeros((TM, TN), tl.float32)
    for step in range(0, depth, TK):
        total = tl.dot(a.load([first_row, step]), b.load([step, first_column]), total)
    c.store([first_row, first_column], total.to(tl.float16))


@triton.jit
def attention(
    queries,
    keys,
    values,
    result,
    length,
    scale,
    TM: tl.constexpr,
    TN: tl.constexpr,
    D: tl.constexpr,
):
    """Causal attention of one head; `scale` includes log2(e)."""
    first, deep = tl.program_id(0) * TM, tl.arange(0, D)
    row, column = first + tl.arange(0, TM), tl.arange(0, TN)
    k = tl.make_tensor_descriptor(keys, [length, D], [D, 1], [TN, D])
    v = tl.make_tensor_descriptor(values, [length, D], [D, 1], [TN, D])
    q = tl.load(queries + row[:, None] * D + deep[None, :])
    top = tl.full((TM,), float("-inf"), tl.float32)
    weight = tl.zeros((TM,), tl.float32)
    total = tl.zeros((TM, D), tl.float32)
    for step in range(0, first + TM, TN):
        scores = tl.dot(q, k.load([step, 0]).T) * scale
        scores = tl.where(row[:, None] >= (step + column)[None, :], scores, float("-inf"))
        above = tl.maximum(top, tl.max(scores, 1))
        share, kept = tl.exp2(scores - above[:, None]), tl.exp2(top - above)
        weight = weight * kept + tl.sum(share, 1)
        total = tl.dot(share.to(tl.float16), v.load([step, 0]), total * kept[:, None])
        top = above
    place = result + row[:, None] * D + deep[None, :]
    tl.store(place, (total / weight[:, None]).to(tl.float16))


HALF = "*fp16"
PRODUCT = dict.fromkeys(("left", "right", "result"), HALF) | SIZES
SUMS = {"EXACT": None, "SUM": tl.float32, "RESULT": tl.float16}
KERNELS = {
    "gemm": (gemm, PRODUCT, {**TILE, "TK": 64, **SUMS}),
    "gemm_rows": (gemm_rows, PRODUCT, {**TILE, "TK": 64}),
    "attention": (
        attention,
        {
            **dict.fromkeys(("queries", "keys", "values", "result"), HALF),
            "length": "i32",
            "scale": "fp32",
        },
        {"TM": 128, "TN": 64, "D": 64},
    ),
}
KERNELS |= {name: GEMMS[name] for name in SCALED}


def main(directory: Path, targets: list[str]) -> None:
    """All kernels for all targets."""
    launches = {}
    for target in targets:
        for name, (function, types, constants) in KERNELS.items():
            whole = [number for number, kind in enumerate(types.values()) if kind != "fp32"]
            aligned = {(number,): [["tt.divisibility", 16]] for number in whole}
            signature = {**types, **dict.fromkeys(constants, "constexpr")}
            source = ASTSource(
                fn=function, signature=signature, constexprs=constants, attrs=aligned
            )
            gpu = GPUTarget("cuda", int(target.removeprefix("sm_")), 32)
            made = triton.compile(source, target=gpu, options={"num_warps": 4, "num_stages": 2})
            (directory / f"{name}.{target}.ptx").write_text(made.asm["ptx"])
            launches[f"{name}.{target}"] = {
                "entry": made.metadata.name,
                "threads": 32 * made.metadata.num_warps,
                "shared": made.metadata.shared,
                "scratch": made.metadata.global_scratch_size,
            }
    (directory / "launches.json").write_text(json.dumps(launches, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","))
