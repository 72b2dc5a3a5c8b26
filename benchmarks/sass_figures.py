"""What SASS says of the loops of attention: instructions that warps issue, by role.

PTX counts more: a pair of registers that becomes one of 64 bits is `mov.b64` there, and nothing in
SASS. Of branches back to one place the last ends the loop.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tileiras.codegen.nvdisasm import disassemble

LABEL = re.compile(r"(\.L_x_\d+):")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+)(.*?);")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
PRODUCT = ("UTCHMMA", "UTCQMMA", "UTCIMMA")
"""tcgen05.mma of 16-bit and 8-bit floats and of integers."""
SUM_LOAD = "LDTM"
"""tcgen05.ld"""


@dataclass(frozen=True)
class RoleLoops:
    """Of one iteration: products, what the warp that issues them issues, and what a consumer."""

    products: int
    product_warp: int
    consumer: int


def sass_of(cubin: bytes) -> str | None:
    """The text that nvdisasm prints, None without it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        found = disassemble(str(path), {})
    return None if found is None else found.decode()


def role_loops(sass: str) -> RoleLoops | None:
    """The loops of the product warp and of consumers; None without them."""
    loops = [names for names in _loops(sass) if not _is_around(names)]
    products = [names for names in loops if _count(names, PRODUCT)]
    readers = [names for names in loops if _count(names, (SUM_LOAD,))]
    readers = [names for names in readers if not _count(names, PRODUCT)]
    if not products or not readers:
        return None
    own = max(products, key=lambda names: _count(names, PRODUCT))
    return RoleLoops(_count(own, PRODUCT), len(own), max(map(len, readers)))


def _is_around(names: list[str]) -> bool:
    """Whether it is what ptxas makes of a wait, or a loop that is left and entered again: those
    have the roles of several warps in them.
    """
    return "EXIT" in names


def _count(names: list[str], wanted: tuple[str, ...]) -> int:
    return sum(name.startswith(wanted) for name in names)


def _loops(sass: str) -> list[list[str]]:
    """The names of the instructions of each loop."""
    names: list[str] = []
    places: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    for line in sass.splitlines():
        if label := LABEL.match(line):
            places[label[1]] = len(names)
        elif found := INSTRUCTION.match(line):
            names.append(found[1])
            if found[1].startswith("BRA") and (target := TARGET.search(found[2])):
                branches.append((len(names), target[1]))
    ends: dict[int, int] = {}
    for end, label in branches:
        if places.get(label, end) < end:
            ends[places[label]] = end
    return [names[start:end] for start, end in ends.items()]
