"""Random programs by this compiler and by NVIDIA's, on a GPU of compute capability 9.0.

python -m tests.gpu.differential prepare DIR          # no GPU: programs, our cubins, what is wanted
python -m tests.gpu.differential prepare-vendor DIR   # NVIDIA's cubins, by $VENDOR_TILEIRAS
python -m tests.gpu.differential prepare-slices DIR 870:3  # parts, for outputs that differ
python -m tests.gpu.differential run DIR              # GPU; needs numpy and cuda-python only
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))


def main() -> int:
    """Runs `prepare` or `run`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=("prepare", "prepare-vendor", "prepare-slices", "run", "run-from")
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("outputs", nargs="*", help="of prepare-slices: SEED:OUTPUT")
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--start", type=int, default=0, help="number of the first launch")
    options = parser.parse_args()
    if options.what == "prepare-slices":
        from tests.gpu.differential.prepare import prepare_slices

        vendor = os.environ["VENDOR_TILEIRAS"]
        return int(prepare_slices(options.folder, options.outputs, vendor) > 0)
    if options.what.startswith("prepare"):
        from tests.gpu.differential.prepare import prepare

        vendor = os.environ["VENDOR_TILEIRAS"] if options.what == "prepare-vendor" else ""
        counts = (options.first, options.count, options.jobs)
        return int(prepare(options.folder, *counts, vendor) > 0)
    from tests.gpu.differential import launches

    if options.what == "run":
        return int(launches.run(options.folder) > 0)
    return launches.run_from(options.folder, options.start)


if __name__ == "__main__":
    sys.exit(main())
