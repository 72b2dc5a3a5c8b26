"""A roofline for each target: the floor of a piece of work, and where our program stands.

    python benchmarks/roofline.py [--page docs/roofline.md]

No GPU: rates are documents' (tileiras/codegen/target/rates.py), of our kernels it reads the PTX.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from loop_figures import LANES, LoopFigures, consumer_warps, main_loop  # noqa: E402
from loop_traffic import traffic_of  # noqa: E402
from sass_figures import role_loops, sass_of  # noqa: E402
from static_figures import KERNELS  # noqa: E402

from tests.kernels.product_text import ProductKernel  # noqa: E402
from tests.kernels.random_products import aligned_result  # noqa: E402
from tests.kernels.scaled_gemm import ScaledGemm  # noqa: E402
from tests.kernels.softmax_attention import softmax_attention  # noqa: E402
from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.codegen.target.rates import (  # noqa: E402
    ISSUED_PER_CYCLE,
    L2_BYTES_MEASURED,
    L2_BYTES_PER_CYCLE,
    RATES,
    SHARED_BYTES_PER_CYCLE,
    Rates,
)
from tileiras.driver import compile_module, with_environment  # noqa: E402
from tileiras.errors import CompileError  # noqa: E402
from tileiras.options import DYNAMIC_PERSISTENT, LARGE_CLUSTERS, CompileOptions  # noqa: E402

SIZE = 8192
"""Rows, columns and depth of the products; keys and queries of attention."""
HEADS = 128
"""Heads of attention in all batches."""
DEPTH = 128
"""Elements of a head, where a task does not say."""
FLOPS_OF_K16 = 2 * 16 * 8 * 16
"""Of an mma.sync of 16-bit elements: one of more has smaller elements and a higher rate."""


@dataclass(frozen=True)
class Task:
    """Something to compute. `element`: of the tensor core; bytes are moved at least once; `depth`:
    of attention's heads.
    """

    name: str
    kernel: str
    element: str
    flops: float
    memory_bytes: float
    exponentials: float = 0
    depth: int = DEPTH


GEMM_FLOPS = 2.0 * SIZE**3


def attention(name: str, depth: int) -> Task:
    """Attention of heads of a depth."""
    flops, moved = 4.0 * HEADS * SIZE * SIZE * depth, 4 * 2 * HEADS * SIZE * depth
    return Task(name, "attention", "f16", flops, moved, HEADS * SIZE * SIZE, depth)


TASKS = (
    Task("GEMM f16", "f16", "f16", GEMM_FLOPS, 3 * 2 * SIZE**2),
    Task("GEMM f8", "f8E4M3FN", "f8", GEMM_FLOPS, (1 + 1 + 2) * SIZE**2),
    Task("GEMM nvf4", "nvf4", "f4", GEMM_FLOPS, (2 * (0.5 + 1 / 16) + 4) * SIZE**2),
    attention("attention", DEPTH),
    attention("attention, D=64", 64),
)
DEPTHS = {"f16": 64, "f8E4M3FN": 128, "nvf4": 256}
"""Of the tiles that an author may choose: a row of a stage is one swizzle span of 128 bytes."""
_OF_TCGEN05 = ((128, 128, 1), (256, 256, 2), (512, 256, 4), (1024, 256, 8), (512, 512, 8))
SHAPES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "sm_90": ((128, 128, 1), (128, 256, 1)),
    **dict.fromkeys(("sm_100", "sm_110"), _OF_TCGEN05),
    "sm_103": (*_OF_TCGEN05, (512, 256, 8)),
}
LARGEST = (1024, 512, 16)
"""A tile of a cluster that the launch has to allow, on GPUs that have such (TILEIR_LARGE_CLUSTERS).
"""
"""Rows and columns of tiles by target, and how many CTAs divide one (`num_cta_in_cga`); elsewhere
128x128 by one."""
ATTENTION_TILES: dict[str, tuple[tuple[int, int], ...]] = dict.fromkeys(
    ("sm_100", "sm_103", "sm_110"), ((128, 64), (128, 128), (256, 64), (256, 128))
)
"""Queries and keys of attention's tiles by target; elsewhere 128 by 64."""
CLIENTS_STEP = 16
"""What a client says of the strides of arrays that are multiples of it (cuTile Python does)."""
OPERAND_BYTES = {"f16": 2.0, "f8": 1.0, "f4": 0.5 + 1 / 16}


@dataclass(frozen=True)
class Program:
    """How a kernel computes a task: its loop, and the tile of `ctas` CTAs.

    `traffic`: bytes from L2 for 1000 flops; None where the tile says it. `tiles`: of how many tile
    blocks the CTAs compute one at once.
    """

    loop: LoopFigures
    tile: tuple[int, int]
    ctas: int = 1
    traffic: float | None = None
    tiles: int = 1


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
    if task.exponentials:
        results = kiloflops * 1000 * loop.powers * LANES / loop.flops
        times["ex2"] = results / (cycles * rates.exponentials)
    times["issue"] = kiloflops * loop.per_kiloflop / (cycles * ISSUED_PER_CYCLE)
    times["shared"] = kiloflops * loop.bytes_per_kiloflop / (cycles * SHARED_BYTES_PER_CYCLE)
    loaded = _l2_bytes(task, program.tile)
    if program.traffic is not None:
        loaded = kiloflops * program.traffic
    times["L2"] = loaded / (cycles * L2_BYTES_PER_CYCLE)
    return times


def _l2_bytes(task: Task, tile: tuple[int, int]) -> float:
    """Bytes that tile blocks load: operands once for every tile along the other dim."""
    rows, columns = tile
    if task.kernel == "attention":
        return 2 * 2 * HEADS * SIZE * task.depth * (SIZE / rows)
    return OPERAND_BYTES[task.element] * SIZE**3 * (1 / rows + 1 / columns)


def gemm_source(kernel: str, target: str, shape: tuple[int, int, int]) -> bytes:
    """A kernel of the static figures with another tile: rows, columns, and CTAs that divide it."""
    rows, columns, ctas = shape
    form = KERNELS[kernel]
    depth = form.tile[2] if (rows, columns) == form.tile[:2] else DEPTHS[kernel]
    form = replace(form, tile=(rows, columns, depth))
    if isinstance(form, ScaledGemm):
        form = replace(form, scales_step=CLIENTS_STEP)
    text = aligned_result(form) if isinstance(form, ProductKernel) else form.text()
    if ctas > 1:
        hints = f") optimization_hints=<{target} = {{num_cta_in_cga = {ctas}}}> {{"
        text = text.replace(") {", hints, 1)
    return text.encode()


def gemm_program(kernel: str, target: str, shape: tuple[int, int, int]) -> Program | None:
    """The kernel with a tile, None where the target lacks its types."""
    rows, columns, ctas = shape
    source = gemm_source(kernel, target, shape)
    large = {LARGE_CLUSTERS: "1"} if shape == LARGEST else {}
    try:
        traffic = traffic_of(source, target, large)
    except CompileError:
        return None
    tiles = 1 if traffic is None else traffic.tiles
    # A loop over tiles around that over K would be taken for one that reads sums in every step; but
    # only such a loop computes several at once.
    alone = {} if tiles > 1 else {DYNAMIC_PERSISTENT: "0"}
    asked = CompileOptions(target, emit="ptx", knobs={**alone, **large})
    ptx = compile_module(source, with_environment(asked)).output.decode()
    together = 2 if "cta_group::2" in ptx else 1
    own = (rows // ctas, columns) if traffic is None else traffic.tile
    loop = main_loop(ptx, (own[0] * together, own[1]), reads_sums=tiles == 1)
    loaded = None if traffic is None else traffic.per_kiloflop
    return None if loop is None else Program(loop, (rows, columns), ctas, loaded, tiles)


def programs_of(task: Task, target: str) -> list[Program | None]:
    """Our kernels, for each tile one; None where the target lacks the types."""
    if task.kernel == "attention":
        tiles = ATTENTION_TILES.get(target, ((128, 64),))
        return [attention_program(tile, target, task.depth) for tile in tiles]
    shapes = SHAPES.get(target, ((128, 128, 1),))
    gpu = get_target(target)
    if gpu.has(Feature.TCGEN05) and gpu.largest_cluster >= LARGEST[2]:
        shapes = (*shapes, LARGEST)
    return [gemm_program(task.kernel, target, shape) for shape in shapes]


def attention_program(tile: tuple[int, int], target: str, depth: int = DEPTH) -> Program | None:
    """Our kernel of so many queries and keys, None where it has no loop of products."""
    source = softmax_attention("full", *tile, depth)
    options = with_environment(CompileOptions(gpu_name=target, emit="ptx"))
    ptx = compile_module(source, options).output.decode()
    loop = main_loop(ptx, tile)
    if loop is None:
        return None
    if not loop.unit.startswith("tcgen05"):
        return Program(loop, tile)
    sass = sass_of(compile_module(source, replace(options, emit="cubin")).output)
    found = None if sass is None else role_loops(sass)
    if found is not None:
        issued = found.product_warp + found.consumer * consumer_warps(ptx)
        loop = replace(loop, instructions=issued)
    # A tile that is computed in parts reads keys again for each.
    rows = loop.flops // (4 * tile[1] * depth)
    return Program(loop, (rows, tile[1]))


UNITS = ("tensor", "memory", "ex2", "issue", "shared", "L2")
HEADS_OF_TABLE = (
    "target",
    "task",
    "floor",
    "tile",
    "CTAs",
    "our unit",
    *UNITS,
    "predicted",
    "of floor",
    "of floor*",
)


def rows(target: str, task: Task) -> list[list[str]]:
    """The rows of a task, for each of our kernels; none where the target has no such unit."""
    if task.element not in RATES[target].tensor:
        return []
    return [cells(target, task, program) for program in programs_of(task, target)]


def cells(target: str, task: Task, program: Program | None) -> list[str]:
    """A row of the table."""
    rates = RATES[target]
    least = floor(task, rates)
    bound = max(least, key=lambda unit: least[unit])
    start = [target, task.name, f"{least[bound]:.0f} {bound}"]
    if program is None:
        return [*start, *["-"] * (len(HEADS_OF_TABLE) - len(start))]
    times = predicted(task, rates, program)
    slowest = max(times, key=lambda unit: times[unit])
    numbers = [f"{times[unit]:.0f}" for unit in UNITS]
    ratio = times[slowest] / least[bound]
    sooner = {**times, "L2": times["L2"] * L2_BYTES_PER_CYCLE / L2_BYTES_MEASURED}
    tile = "x".join(map(str, program.tile))
    return [
        *start,
        tile if program.tiles == 1 else f"{program.tiles} of {tile}",
        str(program.ctas),
        program.loop.unit,
        *numbers,
        f"{times[slowest]:.0f} {slowest}",
        f"{ratio:.2f}",
        f"{max(sooner.values()) / least[bound]:.2f}",
    ]


def table() -> str:
    """All targets and tasks, as Markdown."""
    lines = [f"| {' | '.join(HEADS_OF_TABLE)} |", "|---" * len(HEADS_OF_TABLE) + "|"]
    for target in RATES:
        for task in TASKS:
            lines += [f"| {' | '.join(row)} |" for row in rows(target, task)]
    return "\n".join(lines) + "\n"


def rates_table() -> str:
    """The documents' rates, and what was assumed."""
    heads = ("target", "GPU", "SMs", "clock, GHz", "f16", "f8", "f4", "memory, GB/s")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    sources: list[str] = []
    for target, rates in RATES.items():
        tensor = [f"{rates.tensor.get(name, 0):g}" for name in ("f16", "f8", "f4")]
        row = [target, rates.gpu, str(rates.multiprocessors), f"{rates.clock:.2f}", *tensor]
        lines.append(f"| {' | '.join([*row, str(rates.memory)])} |")
        assumed = f". Assumed: {'; '.join(rates.assumed)}" if rates.assumed else ""
        said = f"- {target}: {rates.source}{assumed}"
        sources += textwrap.wrap(said, 100, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, "", *sources]) + "\n"


PAGE = f"""# A roofline for each target

Made by `python benchmarks/roofline.py --page docs/roofline.md`; do not edit. Nothing here was
measured but what the sources say. Products are {SIZE}x{SIZE}x{SIZE}, attention (f16) has
{HEADS} heads of {DEPTH} or 64 with {SIZE} queries and keys, not causal.

## Rates

TFLOP/s are dense, sums in f32. The clock is the one that the rate of f16 needs.

RATES
## Where our programs stand

Microseconds. The floor is what the slowest of tensor cores, memory and special functions needs,
whatever the program; one that computes powers of 2 on FMA units
([decision 49](decisions/0049-powers-on-fma-units.md)) may be below it. Then what each unit needs
for our program, read off the loop of its PTX (as in [static-figures.md](static-figures.md)): a PTX
instruction counts as one issued, an SM issues
{ISSUED_PER_CYCLE} a cycle and reads {SHARED_BYTES_PER_CYCLE} bytes of shared memory and
{L2_BYTES_PER_CYCLE} of L2 (an A100's, assumed elsewhere; no document and no measurement of a
Blackwell GPU was found). Units overlap; the slowest is the prediction. The column with a star is
for {L2_BYTES_MEASURED} bytes of L2, which GEMMs were seen to get on an H100
([decision 18](decisions/0018-ordinary-grids.md)).

Kernels are those of an author who chooses the tile: `CTAs` of a cluster divide it
(`num_cta_in_cga`), along rows, or along rows and columns, and multiply in pairs where there is
tcgen05 (decisions [43](decisions/0043-pairs-of-ctas.md) and
[48](decisions/0048-clusters-in-two-dims.md)). Clusters of 16 CTAs a launch has to allow
(`TILEIR_LARGE_CLUSTERS`, [decision 57](decisions/0057-scales-by-tma.md)). Where a tile says "3 of",
the CTAs compute three neighbouring tile blocks at once
([decision 73](decisions/0073-several-tile-blocks-at-once.md)); those that a tensor core keeps a
left operand for do not read it from shared memory. What they load from L2 is
read off their nv_tileas: what CTAs share, and what is in a stage already, once. Attention's tile is
queries by keys, and its loop has the softmax: sums are scaled in every iteration, and on tcgen05
instructions are those of the SASS that ptxas makes of it, since PTX has a `mov.b64` for each pair
of registers. Powers are those that the loop leaves to special functions. What clusters would share
of it is not counted. Prologues, epilogues, loops over tiles and last waves are left out, so a
prediction is optimistic.

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
