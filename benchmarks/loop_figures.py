"""What PTX says of the loop that multiplies: instructions, flops and bytes of shared memory.

Numbers are for one warp that runs the loop, so that ratios do not depend on how many do. Of
tcgen05, which one thread issues, the whole tile counts, and so do all warps that read shared memory
for it: those that meet in the loop run it together. Where warps read sums in a loop of their own,
as those of attention do, so do their instructions, of all their warps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

LABEL = re.compile(r"\s*(?P<label>[$%\w]+):(?!:)")
BRANCH = re.compile(r"(?:@!?%?\w+\s+)?bra(?:\.uni)?\s+(?P<target>[$%\w]+)")
NO_INSTRUCTION = re.compile(r"\.(?:reg|file|pragma|shared|local|param|callprototype)\b|$")
MMA_SYNC = re.compile(r"mma\.sync\S*?\.m(\d+)n(\d+)k(\d+)")
WGMMA = re.compile(r"wgmma\.mma_async\S*?\.m64n(\d+)k(\d+)\S*")
TCGEN05 = re.compile(r"tcgen05\.mma\S*kind::(\w+)")
TCGEN05_DENSE = re.compile(
    r"tcgen05\.mma\S*kind::\w+\s+\[[^]]+\],\s*(?P<a>\[?)[^,]+,[^,]+,\s*(?P<word>%\w+),"
)
"""A is in tensor memory where it has brackets; behind B the instruction descriptor."""
COLLECTED = re.compile(r"\.collector::a::(?:use|lastuse)\b")
"""A was read by an instruction before, and has been kept (PTX ISA, "tcgen05.mma", collector)."""
CONSTANT = re.compile(r"mov\.b32\s+(%\w+), (\d+)$")
SUM_LOAD = re.compile(r"tcgen05\.ld\b")
POWER = re.compile(r"ex2\.approx")
THREADS = re.compile(r"\.reqntid (\d+)")
LDMATRIX = re.compile(r"ldmatrix\S*\.x([124])\b")
MEETING = re.compile(r"\b(?:bar|barrier)\.(?:cta\.)?sync\b")
"""All warps of a CTA."""
COPY = re.compile(r"tcgen05\.cp\S*\.32x128b")
COPY_BYTES = 512
"""Of a chunk of scales, on its way to tensor memory."""
LOAD = re.compile(r"ld\.shared\S*?(?:\.v([248]))?\.[busf](\d+)\b")
TCGEN05_K = {
    "f16": 16,
    "tf32": 8,
    "f8f6f4": 32,
    "i8": 32,
    "mxf8f6f4": 32,
    "mxf4": 64,
    "mxf4nvf4": 64,
}
"""Elements of K of an instruction (PTX ISA, "tcgen05.mma", shapes); dense, 32 bytes of K."""
INSTRUCTION_BYTES = 32
"""Bytes of K of a row of either operand in an instruction of wgmma or tcgen05."""
WARPS = 4
"""Warps of a warpgroup, which compute a wgmma together."""
ROWS = 64
"""Rows of a wgmma."""
LANES = 32


@dataclass(frozen=True)
class LoopFigures:
    """Of one iteration: `unit` is what multiplies; bytes are read from shared memory.

    `powers`: instructions of special functions for powers of 2, those on FMA units not among them.
    """

    unit: str
    instructions: int
    products: int
    flops: int
    shared_bytes: int
    powers: int = 0

    @property
    def per_kiloflop(self) -> float:
        """Instructions that a warp issues for 1000 flops."""
        return 1000 * self.instructions / self.flops

    @property
    def bytes_per_kiloflop(self) -> float:
        """Bytes that are read from shared memory for 1000 flops."""
        return 1000 * self.shared_bytes / self.flops


def statements(ptx: str) -> list[str]:
    """Instructions and labels (with a colon) in order, those of inline assembly one by one."""
    text = re.sub(
        r"//[^\n]*|^\s*\.loc\s[^\n]*$", "", ptx[ptx.index(".entry") :], flags=re.MULTILINE
    )
    text = text[text.index("\n{") + 2 :]
    found: list[str] = []
    for part in re.split(r";", text):
        rest = part.strip().lstrip("{} \t\n")
        while match := LABEL.match(rest):
            found.append(f"{match['label']}:")
            rest = rest[match.end() :].strip().lstrip("{} \t\n")
        if rest and not NO_INSTRUCTION.match(rest):
            found.append(rest)
    return found


def main_loop(ptx: str, tile: tuple[int, int], *, reads_sums: bool = True) -> LoopFigures | None:
    """The innermost loop with the most products; None without one.

    `tile`: rows and columns that a CTA computes, which a tcgen05 instruction does not say.
    `reads_sums`: whether a loop of other warps that reads sums runs beside it, and is not one over
    tiles.
    """
    listed = statements(ptx)
    places = {text[:-1]: number for number, text in enumerate(listed) if text.endswith(":")}
    # Of branches back to one place the last ends the loop; others go on with the next iteration.
    ends: dict[int, int] = {}
    for number, text in enumerate(listed):
        match = BRANCH.match(text)
        if match and places.get(match["target"], number) < number:
            ends[places[match["target"]]] = number
    loops = list(ends.items())
    inner = [
        (first, last)
        for first, last in loops
        if not any(
            (a, b) != (first, last) and first <= a and b <= last and _multiplies(listed[a:b])
            for a, b in loops
        )
    ]
    words = {m[1]: int(m[2]) for text in listed if (m := CONSTANT.match(text))}
    threads = THREADS.search(ptx)
    warps = 1 if threads is None else int(threads[1]) // LANES
    figures = [_figures(listed[first : last + 1], tile, words, warps) for first, last in inner]
    found = max((f for f in figures if f is not None), key=lambda f: f.flops, default=None)
    if found is None or not found.unit.startswith("tcgen05") or not reads_sums:
        return found
    readers = [n for first, last in loops if (n := _reads_sums(listed[first : last + 1]))]
    # Of loops that follow each other the longest one counts, as above.
    issued, powers = max(readers, default=(0, 0))
    readers_warps = consumer_warps(ptx)
    issued, powers = issued * readers_warps, powers * readers_warps
    return replace(found, instructions=found.instructions + issued, powers=powers)


def consumer_warps(ptx: str) -> int:
    """Warps that read sums: all but one that copies and one that multiplies, or but their
    warpgroup, where that gives registers away.
    """
    threads = THREADS.search(ptx)
    beside = WARPS if "setmaxnreg" in ptx else 2
    return 0 if threads is None else int(threads[1]) // LANES - beside


def _reads_sums(body: list[str]) -> tuple[int, int] | None:
    """Instructions of a loop that reads sums of tensor memory and issues no products, and powers of
    2 among them; None for another loop.
    """
    if _multiplies(body) or not any(map(SUM_LOAD.match, body)):
        return None
    return sum(not text.endswith(":") for text in body), sum(map(_is_power, body))


def _is_power(text: str) -> bool:
    return POWER.search(text) is not None


def _multiplies(body: list[str]) -> bool:
    return any(_product(text, (1, 1), {}) is not None for text in body)


def _figures(
    body: list[str], tile: tuple[int, int], words: Mapping[str, int], warps: int
) -> LoopFigures | None:
    """Of a loop; `warps`: of the CTA."""
    instructions = [text for text in body if not text.endswith(":")]
    made = (_product(text, tile, words) for text in instructions)
    products = [found for found in made if found is not None]
    if not products:
        return None
    unit = products[0][0]
    flops = sum(flops for _, flops, _ in products)
    read, loaded = sum(size for _, _, size in products), sum(map(_read_bytes, instructions))
    if unit.startswith("tcgen05"):
        loaded *= warps if any(map(MEETING.search, instructions)) else 1
        loaded += COPY_BYTES * sum(COPY.search(text) is not None for text in instructions)
    read += loaded
    powers = sum(map(_is_power, instructions))
    return LoopFigures(unit, len(instructions), len(products), flops, read, powers)


def _product(
    text: str, tile: tuple[int, int], words: Mapping[str, int]
) -> tuple[str, int, int] | None:
    """Unit, flops and bytes of shared memory that an instruction reads by itself.

    `words`: constants in registers, among them instruction descriptors, which know the shape.
    """
    if match := MMA_SYNC.search(text):
        m, n, k = map(int, match.groups())
        unit = "mma.sync block_scale" if "block_scale" in text else "mma.sync"
        return unit, 2 * m * n * k, 0
    if match := WGMMA.search(text):
        n, k = map(int, match.groups())
        # Behind the accumulators: a descriptor, or a list of registers that hold A.
        behind = text[text.index("}") + 1 :].lstrip(", \n\t")
        rows = n if behind.startswith("{") else n + ROWS
        return "wgmma", 2 * ROWS * n * k // WARPS, rows * INSTRUCTION_BYTES // WARPS
    if match := TCGEN05.search(text):
        rows, columns = tile
        unit, from_memory = "tcgen05 block_scale" if "block_scale" in text else "tcgen05", True
        dense = TCGEN05_DENSE.search(text)
        if dense is not None and unit == "tcgen05":
            from_memory = not dense["a"]
            if (word := words.get(dense["word"])) is not None:
                rows, columns = (word >> 24 & 31) << 4, (word >> 17 & 63) << 3
        from_memory = from_memory and COLLECTED.search(text) is None
        flops = 2 * rows * columns * TCGEN05_K[match[1]]
        return unit, flops, (rows * from_memory + columns) * INSTRUCTION_BYTES
    return None


def _read_bytes(text: str) -> int:
    """Bytes of shared memory that a load of a warp reads."""
    if match := LDMATRIX.search(text):
        return 128 * int(match[1])
    if match := LOAD.search(text):
        return LANES * int(match[1] or 1) * int(match[2]) // 8
    return 0
