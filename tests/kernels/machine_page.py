"""The page with the table of kernels in the PTX machine."""

from __future__ import annotations

from tests.kernels.machine_table import Result
from tests.kernels.prose import wrapped

HEAD = """# Our kernels in the PTX machine

Made by `make machine PAGE=docs/machine-table.md`; do not edit. Each kernel is compiled for a
target, its PTX runs in the [PTX machine](ptx-machine.md), and what it leaves in memory is compared
with float64: exactly for products of small whole numbers, within the rounding of the type for
attention. The machine also ends with an error on a race, a read of what is not finished, and a
missing fence. Of each kernel: what multiplies, and how operands come to shared memory.
"""


def page(found: dict[tuple[str, str], dict[str, Result]], targets: list[str]) -> str:
    """The kernels of each family as Markdown; the same runs make the same page."""
    lines: list[str] = []
    before = ""
    for (family, name), by_target in found.items():
        lines += ["", f"## {family}", ""] if family != before else []
        before = family
        units: dict[str, list[str]] = {}
        for target in targets:
            result = by_target.get(target)
            right = result is not None and result.kind == "right"
            unit = "-" if result is None else result.unit if right else f"**{result.kind}**"
            units.setdefault(unit, []).append(target)
        ways = "; ".join(f"{unit} ({', '.join(names)})" for unit, names in units.items())
        lines.append(f"- {name}: {ways}")
    counts = sum(len(by_target) for by_target in found.values())
    right = sum(r.kind == "right" for by_target in found.values() for r in by_target.values())
    return f"{HEAD}{wrapped(chr(10).join(lines))}\n{right} of {counts} right.\n"
