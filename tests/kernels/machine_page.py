"""The page with the table of kernels in the PTX machine."""

from __future__ import annotations

from tests.kernels.machine_table import Result

HEAD = """# Our kernels in the PTX machine

Made by `make machine PAGE=docs/machine-table.md`; do not edit. Each kernel is compiled for a
target, its PTX runs in the [PTX machine](ptx-machine.md), and what it leaves in memory is compared
with float64: exactly for products of small whole numbers, within the rounding of the type for
attention. The machine also ends with an error on a race, a read of what is not finished, and a
missing fence. In the table: what multiplies, and how operands come to shared memory.

"""


def page(found: dict[tuple[str, str], dict[str, Result]], targets: list[str]) -> str:
    """The table as Markdown; the same runs make the same page."""
    lines = [f"| family | kernel | {' | '.join(targets)} |", "|---" * (2 + len(targets)) + "|"]
    for (family, name), by_target in found.items():
        cells = []
        for target in targets:
            result = by_target.get(target)
            right = result is not None and result.kind == "right"
            cells.append("-" if result is None else result.unit if right else f"**{result.kind}**")
        lines.append(f"| {family} | {name} | {' | '.join(cells)} |")
    counts = sum(len(by_target) for by_target in found.values())
    right = sum(r.kind == "right" for by_target in found.values() for r in by_target.values())
    return f"{HEAD}{chr(10).join(lines)}\n\n{right} of {counts} right.\n"
