"""A roofline for each target: the floor of a piece of work, and where our program stands.

    python benchmarks/roofline.py [--page docs/roofline.md]

No GPU: rates are documents' (tileiras/codegen/target/rates.py), of our kernels it reads the PTX.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from loop_figures import LoopFigures, consumer_warps, main_loop  # noqa: E402
from sass_figures import role_loops, sass_of  # noqa: E402
from static_figures import our_row  # noqa: E402

from tests.kernels.softmax_attention import softmax_attention  # noqa: E402
from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.codegen.target.rates import (  # noqa: E402
    ISSUED_PER_CYCLE,
    L2_BYTES_PER_CYCLE,
    RATES,
    SHARED_BYTES_PER_CYCLE,
    Rates,
)
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

SIZE = 8192
"""Rows, columns and depth of the products; keys and queries of attention."""
HEADS, DEPTH = 128, 128
"""Heads of attention in all batches, and their depth."""
FLOPS_OF_K16 = 2 * 16 * 8 * 16
"""Of an mma.sync of 16-bit elements: one of more has smaller elements and a higher rate."""


@dataclass(frozen=True)
class Task:
    """Something to compute. `element`: of the tensor core; bytes are moved at least once."""

    name: str
    kernel: str
    element: str
    flops: float
    memory_bytes: float
    exponentials: float = 0
    tile: tuple[int, int] = (128, 128)
    """Queries and keys of attention's tiles."""
    is_of_tcgen05: bool = False
    """Whether the tile is one for targets with tensor memory."""

    def suits(self, target: str) -> bool:
        """Whether a target has units for it."""
        has_unit = self.element in RATES[target].tensor
        return has_unit and (not self.is_of_tcgen05 or get_target(target).has(Feature.TCGEN05))


GEMM_FLOPS = 2.0 * SIZE**3
ATTENTION_FLOPS = 4.0 * HEADS * SIZE * SIZE * DEPTH
TASKS = (
    Task("GEMM f16", "f16", "f16", GEMM_FLOPS, 3 * 2 * SIZE**2),
    Task("GEMM f8", "f8E4M3FN", "f8", GEMM_FLOPS, (1 + 1 + 2) * SIZE**2),
    Task("GEMM nvf4", "nvf4", "f4", GEMM_FLOPS, (2 * (0.5 + 1 / 16) + 4) * SIZE**2),
    *(
        Task(
            name,
            "attention",
            "f16",
            ATTENTION_FLOPS,
            4 * 2 * HEADS * SIZE * DEPTH,
            HEADS * SIZE * SIZE,
            tile,
            tile != (128, 64),
        )
        for name, tile in (
            ("attention f16", (128, 64)),
            ("attention f16 128x128", (128, 128)),
            ("attention f16 256x64", (256, 64)),
            ("attention f16 256x128", (256, 128)),
        )
    ),
)
OPERAND_BYTES = {"f16": 2.0, "f8": 1.0, "f4": 0.5 + 1 / 16}


@dataclass(frozen=True)
class Program:
    """How a kernel computes a task: its loop, and the tile that a CTA computes."""

    loop: LoopFigures
    tile: tuple[int, int]


def floor(task: Task, rates: Rates) -> dict[str, float]:
    """Microseconds that each unit needs at least, whatever the program."""
    cycles = rates.multiprocessors * rates.clock * 1000
    return {
        "tensor": task.flops / rates.tensor[task.element] / 1e6,
        "memory": task.memory_bytes / rates.memory / 1e3,
        "ex2": task.exponentials / (cycles * rates.exponentials),
    }


def predicted(task: Task, rates: Rates, program: Program) -> dict[str, float]:
    """Microseconds that each unit needs for the program."""
    loop, cycles = program.loop, rates.multiprocessors * rates.clock * 1000
    kiloflops = task.flops / 1000
    times = floor(task, rates)
    if loop.unit.startswith("mma.sync"):
        part = 1.0 if "block_scale" in loop.unit else rates.mma_sync
        elements = loop.flops / loop.products / FLOPS_OF_K16
        rate = rates.flops_per_cycle * part * elements
        times["tensor"] = task.flops / (cycles * rate)
    times["issue"] = kiloflops * loop.per_kiloflop / (cycles * ISSUED_PER_CYCLE)
    times["shared"] = kiloflops * loop.bytes_per_kiloflop / (cycles * SHARED_BYTES_PER_CYCLE)
    times["L2"] = _l2_bytes(task, program.tile) / (cycles * L2_BYTES_PER_CYCLE)
    return times


def _l2_bytes(task: Task, tile: tuple[int, int]) -> float:
    """Bytes that tile blocks load: operands once for every tile along the other dim."""
    rows, columns = tile
    if task.kernel == "attention":
        return 2 * 2 * HEADS * SIZE * DEPTH * (SIZE / rows)
    return OPERAND_BYTES[task.element] * SIZE**3 * (1 / rows + 1 / columns)


def program_of(task: Task, target: str) -> Program | None:
    """Our kernel, None where the target lacks its types or has no loop of products."""
    if task.kernel != "attention":
        row = our_row(task.kernel, target)
        return None if row is None or row.loop is None else Program(row.loop, row.tile[:2])
    source = softmax_attention("full", *task.tile, DEPTH)
    options = with_environment(CompileOptions(gpu_name=target, emit="ptx"))
    ptx = compile_module(source, options).output.decode()
    loop = main_loop(ptx, task.tile)
    if loop is None:
        return None
    if not loop.unit.startswith("tcgen05"):
        return Program(loop, task.tile)
    sass = sass_of(compile_module(source, replace(options, emit="cubin")).output)
    found = None if sass is None else role_loops(sass)
    if found is not None:
        issued = found.product_warp + found.consumer * consumer_warps(ptx)
        loop = replace(loop, instructions=issued)
    # A tile that is computed in parts reads keys again for each.
    rows = loop.flops // (4 * task.tile[1] * DEPTH)
    return Program(loop, (rows, task.tile[1]))


UNITS = ("tensor", "memory", "ex2", "issue", "shared", "L2")
HEADS_OF_TABLE = (
    "target",
    "task",
    "floor",
    "bound by",
    "our unit",
    *UNITS,
    "predicted",
    "of floor",
)


def cells(target: str, task: Task) -> list[str] | None:
    """A row of the table, None where the target has no such unit."""
    rates = RATES[target]
    if not task.suits(target):
        return None
    least = floor(task, rates)
    bound = max(least, key=lambda unit: least[unit])
    start = [target, task.name, f"{least[bound]:.0f}", bound]
    program = program_of(task, target)
    if program is None:
        return [*start, *["-"] * (len(HEADS_OF_TABLE) - len(start))]
    times = predicted(task, rates, program)
    slowest = max(times, key=lambda unit: times[unit])
    numbers = [f"{times[unit]:.0f}" for unit in UNITS]
    ratio = times[slowest] / least[bound]
    return [
        *start,
        program.loop.unit,
        *numbers,
        f"{times[slowest]:.0f} ({slowest})",
        f"{ratio:.2f}",
    ]


def table() -> str:
    """All targets and tasks, as Markdown."""
    lines = [f"| {' | '.join(HEADS_OF_TABLE)} |", "|---" * len(HEADS_OF_TABLE) + "|"]
    for target in RATES:
        rows = (cells(target, task) for task in TASKS)
        lines += [f"| {' | '.join(row)} |" for row in rows if row is not None]
    return "\n".join(lines) + "\n"


def rates_table() -> str:
    """The documents' rates, and what was assumed."""
    heads = ("target", "GPU", "SMs", "clock, GHz", "f16", "f8", "f4", "memory, GB/s", "source")
    lines = [f"| {' | '.join(heads)} | assumed |", "|---" * (len(heads) + 1) + "|"]
    for target, rates in RATES.items():
        tensor = [f"{rates.tensor.get(name, 0):g}" for name in ("f16", "f8", "f4")]
        row = [target, rates.gpu, str(rates.multiprocessors), f"{rates.clock:.2f}", *tensor]
        row += [str(rates.memory), rates.source, "; ".join(rates.assumed) or "-"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


PAGE = f"""# A roofline for each target

Made by `python benchmarks/roofline.py --page docs/roofline.md`; do not edit. Nothing here was
measured but what the sources say. Products are {SIZE}x{SIZE}x{SIZE}, attention has {HEADS} heads of
{DEPTH} with {SIZE} queries and keys, not causal.

## Rates

TFLOP/s are dense, sums in f32. The clock is the one that the rate of f16 needs.

RATES
## Where our programs stand

Microseconds. The floor is what the slowest of tensor cores, memory and special functions needs,
whatever the program. Then what each unit needs for our program, read off the loop of its PTX (as in
[static-figures.md](static-figures.md)): a PTX instruction counts as one issued, an SM issues
{ISSUED_PER_CYCLE} a cycle and reads {SHARED_BYTES_PER_CYCLE} bytes of shared memory and
{L2_BYTES_PER_CYCLE} of L2 (an A100's, assumed elsewhere). Units overlap; the slowest is the
prediction. The kernels have tiles of 128x128, those of attention 128 queries by 64 keys, or as the
row says; clusters and two tiles per CTA, which load less from L2, are not counted. Of attention,
the loop has its softmax, sums are scaled in every iteration, and on tcgen05 instructions are those
of the SASS that ptxas makes of it: PTX has a `mov.b64` for each pair of registers.
Prologues, epilogues and last waves are left out, so a prediction is optimistic.

TABLE"""


def main() -> int:
    """Prints the table, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    text = table()
    print(text, end="")
    if options.page is not None:
        options.page.write_text(PAGE.replace("RATES", rates_table()).replace("TABLE", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
