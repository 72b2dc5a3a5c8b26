"""Which unit computes the products of every file of a directory, and what is said where it is not
the target's.

    python tests/sweeps/product_units.py ../shared/corpus --gpu-name sm_100 --part 0/2

Exit status 1 if a file's products are not done by the target's unit and no remark says why.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.driver import compile_module  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.remarks import Remark, RemarkCollector, RemarkFilter, RemarkKind  # noqa: E402

UNITS = {
    "tcgen05 block_scale": ("tcgen05_dot_scaled",),
    "tcgen05": ("tcgen05_dot",),
    "wgmma": ("wgmma_dot", "wgmma_dots"),
    "mma.sync block_scale": ("mma_scaled_dot",),
    "mma.sync": ("mma_dot",),
    "fma": ("fma_dot",),
}
"""Units by what their operations are called, the first that a file has counts."""
REASONS = ("TensorMemory", "BlockScaled", "Wgmma", "RemarkTensorCoreMMA")
"""Remarks that say why products are not done by a better unit."""


def units_of(text: str) -> list[str]:
    """The units of a module of nv_tileas."""
    words = set(text.replace("=", " ").replace('"', " ").replace("(", " ").split())
    names = {word.removeprefix("nv_tileas.") for word in words}
    return [unit for unit, ops in UNITS.items() if any(op in names for op in ops)]


def reasons_of(remarks: Iterable[Remark]) -> list[str]:
    """What is said of products that another unit could have done."""
    kinds = (RemarkKind.MISSED, RemarkKind.FAILED)
    found = (r for r in remarks if r.kind in kinds and r.name in REASONS)
    return list(dict.fromkeys(remark.message for remark in found))


def wanted_units(gpu: str) -> tuple[str, ...]:
    """The units that a target has for products, tensor memory first."""
    target = get_target(gpu)
    if target.has(Feature.TCGEN05):
        return ("tcgen05 block_scale", "tcgen05")
    if target.has(Feature.WGMMA):
        return ("wgmma",)
    return ("mma.sync block_scale", "mma.sync")


def main() -> int:
    """Prints files without unit and remark, then counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--gpu-name", default="sm_100")
    parser.add_argument("--pattern", default="*.tileirbc")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th file, from the i-th")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    wanted, counts, why = wanted_units(options.gpu_name), Counter[str](), Counter[str]()
    files = silent = failed = 0
    for path in sorted(options.corpus.glob(options.pattern))[part::parts]:
        remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
        asked = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name=options.gpu_name)
        files += 1
        try:
            text = compile_module(path.read_bytes(), asked, remarks=remarks).output.decode()
        except Exception as error:
            failed += 1
            print(f"failed  {path.name}  {type(error).__name__}: {error}"[:200], flush=True)
            continue
        units = units_of(text)
        if not units:
            continue
        counts[units[0]] += 1
        if units[0] in wanted:
            continue
        said = reasons_of(remarks.remarks)
        why.update(said[:1])
        if not said:
            silent += 1
            print(f"silent  {path.name}  {', '.join(units)}", flush=True)
    listed = ", ".join(f"{counts[unit]} {unit}" for unit in UNITS if counts[unit])
    print(f"{options.gpu_name}: {files} files, {sum(counts.values())} with products: {listed}")
    for reason, count in why.most_common():
        print(f"{count:6} {reason}")
    print(f"{failed} failed, {silent} without the target's unit and without a remark")
    return 1 if silent or failed else 0


if __name__ == "__main__":
    sys.exit(main())
