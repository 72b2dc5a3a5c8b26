"""Runs the PTX of every kernel of a directory of bytecode files and compares it with its meaning.

    python tests/sweeps/ptx_sweep.py ../shared/corpus --gpu-name sm_90 --part 0/10

Exit status 1 if the PTX computes something else than the tile interpreter, races, or reads what is
not finished.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.kernels.corpus_comparison import compare_corpus, comparison_parser  # noqa: E402
from tests.kernels.ptx_comparison import compare_ptx_file  # noqa: E402


def main() -> int:
    """Prints every kernel that is not the same, then counts."""
    options = comparison_parser(__doc__, seconds=60).parse_args()
    return compare_corpus(options, lambda path: compare_ptx_file(path, options.gpu_name))


if __name__ == "__main__":
    sys.exit(main())
