"""Static figures of our GEMMs beside Triton's: loop, shared memory, registers, spills. No GPU.

    python benchmarks/static_figures.py --triton PYTHON [--page docs/static-figures.md]

PYTHON is one that has triton. PTX of both is assembled by the same ptxas.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from loop_figures import LoopFigures, main_loop  # noqa: E402

from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import aligned_result  # noqa: E402
from tests.kernels.scaled_gemm import ScaledGemm  # noqa: E402
from tileiras.codegen.ptxas_backend import ptx_to_cubin  # noqa: E402
from tileiras.codegen.target import get_target  # noqa: E402
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.errors import CompileError  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.pipeline import select_steps  # noqa: E402

TARGETS = ("sm_90", "sm_100", "sm_103", "sm_120")
KERNELS = {
    "f16": ProductKernel("f16", (128, 128, 64), b="turned", result="f16", whole=True),
    "f8E4M3FN": ProductKernel("f8E4M3FN", (128, 128, 128), b="turned", result="f16", whole=True),
    "i8": ProductKernel("i8", (128, 128, 128), b="turned", whole=True),
    "mxf8": ScaledGemm("f8E4M3FN", "f8E8M0FNU", 32, (128, 128, 128)),
    "mxf4": ScaledGemm("f4E2M1FN", "f8E8M0FNU", 32, (128, 128, 128)),
    "nvf4": ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (128, 128, 128)),
}
ONLY = {"i8": ("sm_90",)}
"""Targets of kernels that stand for something there: elsewhere i8 is as f8."""
OPERAND_BITS = {"f16": 16, "f8E4M3FN": 8, "i8": 8, "mxf8": 8, "mxf4": 4, "nvf4": 4}
ONE_TILE, ONE_CTA = "one tile", "one CTA"
AS_TRITON = {
    ("f16", "sm_90"): ONE_TILE,
    ("i8", "sm_90"): ONE_TILE,
    ("mxf4", "sm_120"): ONE_CTA,
    ("nvf4", "sm_120"): ONE_CTA,
}
"""Kernels of ours that compute two tiles at once, or have two CTAs of four warps on an SM: they
have another row, of one tile or of one CTA of eight warps, as the other compiler has it.
"""
HEAD = """# Static figures beside Triton's

Made by `benchmarks/static_figures.py --triton PYTHON --page docs/static-figures.md`; do not edit.
C = A @ B^T in tiles of 128x128; Triton VERSION, 8 warps, 3 stages; both assembled by the same
ptxas. Of the innermost loop that multiplies, for one warp that runs it (tcgen05: for the thread
that issues products, without those that only copy): instructions of PTX, and per 1000 flops
instructions and bytes read from shared memory (tcgen05: by all warps of the loop, and by copies of
scales to tensor memory; warps that meet in the loop run it together). Code that a branch to beyond
the loop runs in rare cases (signs of scales) does not count. Stages: tiles of both operands that
shared memory would hold. Nothing of this is a time.

Registers are those of a thread at the launch. A kernel of ours with warp roles is launched with
equal shares of all registers of an SM, which its warps trade by `setmaxnreg`: so the number is what
there is, not what is needed. Needed: what ptxas takes for the same PTX without `setmaxnreg`, and
without a number of CTAs that shall fit an SM: it takes more than it must where it may. Least: the
smallest multiple of 8 with which ptxas spills nothing, which is the figure to compare. Where ours
computes more at once it takes more registers: f16 and i8 on sm_90 two tiles, nvf4 and mxf4 on
sm_120 64x64 a warp, not 32x64. `tileiras1` is what Triton has: one tile (`tiles-per-cta` left out),
or one CTA of eight warps on an SM (the hint `occupancy = 1`). f8 on sm_90 is to be compared with
`triton+`.

f8 on sm_90: wgmma adds up f8 with fewer bits than f32 has. We add its sums of 128 products to
others in f32. Triton does not unless it is told to (`triton+`: `max_num_imprecise_acc = 128`). i8
has sums that are exact, so neither compiler adds them twice: it is the loop of f8 without that.

"""


@dataclass(frozen=True)
class Row:
    """A kernel of one compiler for a target. `free`: its PTX without a limit of registers."""

    kernel: str
    target: str
    compiler: str
    tile: tuple[int, int, int]
    loop: LoopFigures | None
    registers: int
    needed: int
    free: str
    spilled: int
    shared: int

    @property
    def stages(self) -> int:
        """Tiles of A and B that the shared memory holds."""
        m, n, k = self.tile
        return self.shared // ((m + n) * k * OPERAND_BITS[self.kernel] // 8)

    @property
    def least(self) -> int:
        """The fewest registers of a thread with which ptxas spills nothing."""
        return least_registers(self.free, self.target, self.needed)

    def cells(self) -> list[str]:
        """The row as text."""
        loop = self.loop
        found = (
            ["-"] * 5
            if loop is None
            else [
                loop.unit,
                str(loop.instructions),
                str(loop.products),
                f"{loop.per_kiloflop:.3f}",
                f"{loop.bytes_per_kiloflop:.2f}",
            ]
        )
        registers = [self.registers, self.needed, self.least]
        rest = [self.stages, self.shared, *registers, self.spilled]
        return [self.kernel, self.target, self.compiler, *found, *map(str, rest)]


HEADS = ("kernel", "target", "compiler", "unit", "instructions", "products", "per kflop")
HEADS += ("bytes/kflop", "stages", "smem", "regs", "need", "least", "spilled")
LIMITS = re.compile(r"^\s*setmaxnreg\.[^\n]*\n|^\.(?:minnctapersm|maxnreg) [^\n]*\n", re.MULTILINE)
"""What says in PTX how many registers there are."""
THREADS = re.compile(r"^\.(?:reqntid|maxntid) [^\n]*\n", re.MULTILINE)
UNIT, MOST_REGISTERS = 8, 256
"""Registers of a thread are a multiple of so many, and fewer (CUDA C++ Programming Guide)."""


def our_row(kernel: str, target: str, how: str = "") -> Row | None:
    """Our kernel, or as `AS_TRITON` says; None where a target lacks the types."""
    if target not in ONLY.get(kernel, TARGETS):
        return None
    form = KERNELS[kernel]
    text = aligned_result(form) if isinstance(form, ProductKernel) else form.text()
    options = with_environment(CompileOptions(gpu_name=target, emit="ptx"))
    if how == ONE_CTA:
        text = text.replace(") {\n", f") optimization_hints=<{target} = {{occupancy = 1}}> {{\n", 1)
    left_out = "tiles-per-cta" if how == ONE_TILE else ""
    steps = select_steps(options, get_target(target))
    passes = tuple(step.pass_name for step in steps if step.pass_name != left_out)
    try:
        ptx = compile_module(text.encode(), options, pass_names=passes).output.decode()
    except CompileError:
        return None
    compiler = "tileiras1" if how else "tileiras"
    return row_of(kernel, target, compiler, form.tile, ptx, 0)


def row_of(
    kernel: str, target: str, compiler: str, tile: tuple[int, int, int], ptx: str, dynamic: int
) -> Row:
    """The figures of PTX; `dynamic`: bytes of shared memory that a launch adds."""
    options = with_environment(CompileOptions(gpu_name=target))
    [used] = ptx_to_cubin(ptx, get_target(target), options).kernels
    spilled = used.spill_stores + used.spill_loads
    loop = main_loop(ptx, tile[:2])
    unlimited = LIMITS.sub("", ptx)
    [free] = ptx_to_cubin(unlimited, get_target(target), options).kernels
    shared = used.shared + dynamic
    registers = (used.registers, free.registers)
    return Row(kernel, target, compiler, tile, loop, *registers, unlimited, spilled, shared)


def least_registers(ptx: str, target: str, needed: int) -> int:
    """The fewest registers of a thread with which ptxas spills nothing; `needed`: those that it
    takes where it may take any.
    """

    def is_enough(registers: int | None) -> bool:
        limit = "" if registers is None else f".maxnreg {registers}\n"
        limited = THREADS.sub(rf"\g<0>{limit}", ptx, count=1)
        options = with_environment(CompileOptions(gpu_name=target))
        try:
            [used] = ptx_to_cubin(limited, get_target(target), options).kernels
        except CompileError:
            return False
        return used.spill_stores + used.spill_loads == 0

    low, high = 0, -(-needed // UNIT) if is_enough(None) else MOST_REGISTERS // UNIT
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle * UNIT) else (middle, high)
    return high * UNIT


def triton_rows(python: str) -> tuple[str, list[Row]]:
    """Triton's version and kernels."""
    with tempfile.TemporaryDirectory() as folder:
        script = str(ROOT / "benchmarks" / "triton_gemm.py")
        subprocess.run([python, script, folder, ",".join(TARGETS)], check=True)
        figures = json.loads((Path(folder) / "figures.json").read_text())
        version = figures.pop("triton")
        rows = []
        for name, facts in figures.items():
            kernel, target = name.split(".")
            if target not in ONLY.get(kernel, TARGETS):
                continue
            compiler = "triton+" if kernel.endswith("+") else "triton"
            ptx = (Path(folder) / f"{name}.ptx").read_text()
            tile = (facts["tile"][0], facts["tile"][1], facts["tile"][2])
            kernel = kernel.removesuffix("+")
            rows.append(row_of(kernel, target, compiler, tile, ptx, facts["shared"]))
    return version, rows


def table(rows: list[Row]) -> str:
    """As Markdown, kernel by kernel."""
    order = list(KERNELS)
    rows = sorted(rows, key=lambda row: (order.index(row.kernel), row.target, row.compiler))
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Prints the table, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triton", help="a Python that has triton; ours alone if not given")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    version, rows = triton_rows(options.triton) if options.triton else ("none", [])
    ours = [our_row(kernel, target) for kernel in KERNELS for target in TARGETS]
    ours += [our_row(*which, how) for which, how in AS_TRITON.items()]
    text = table([*rows, *(row for row in ours if row is not None)])
    print(text, end="")
    if options.page is not None:
        options.page.write_text(HEAD.replace("VERSION", version) + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
