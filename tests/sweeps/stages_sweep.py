"""Compares every kernel of a directory of bytecode files at every stage of the compiler.

    python tests/sweeps/stages_sweep.py ../shared/corpus --disable-feature wgmma

Exit status 1 if a stage computes something else than the one before.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.kernels.corpus_comparison import compare_corpus, comparison_parser  # noqa: E402
from tests.kernels.stage_comparison import compare_file  # noqa: E402


def main() -> int:
    """Prints every kernel that is not the same at all stages, then counts."""
    parser = comparison_parser(__doc__, seconds=20)
    parser.add_argument("--disable-feature", action="append", default=[])
    parser.add_argument("--threads", action="store_true", help="run the last stage, too")
    options = parser.parse_args()
    features, threads = options.disable_feature, options.threads
    return compare_corpus(
        options, lambda path: compare_file(path, features, options.gpu_name, threads)
    )


if __name__ == "__main__":
    sys.exit(main())
