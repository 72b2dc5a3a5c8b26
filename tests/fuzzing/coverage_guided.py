"""Coverage-guided fuzzing by atheris, where it is installed (`pip install atheris`).

`python -m tests.fuzzing.coverage_guided reader --seconds 600` (or `text`). libFuzzer keeps inputs
that reach new branches in `--corpus`, starts from them the next time, and ends at the first
finding, whose input it writes. `reader` takes bytes; `text` takes programs of cuda_tile.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

MAX_INPUT = 4096
"""Bytes of an input: small ones reach the same code, and far more of them are tried."""
SEEDS = 200
INSTRUMENTED = ("tileiras.bytecode", "tileiras.dialects.cuda_tile")
"""Packages whose branches are watched: the reader, the parser, the verifiers."""


def write_seeds(name: str, folder: Path) -> None:
    """Files to start from, unless there are some."""
    if folder.is_dir() and any(folder.iterdir()):
        return
    from tests.fuzzing import seeds

    folder.mkdir(parents=True, exist_ok=True)
    inputs = seeds.bytecodes() if name == "reader" else [t.encode() for t in seeds.texts()]
    small = sorted((data for data in inputs if len(data) <= MAX_INPUT), key=len)
    for number, data in enumerate(small[:: max(1, len(small) // SEEDS)]):
        (folder / f"seed-{number:03}").write_bytes(data)


def main() -> int:
    """Fuzzes until the time is over or something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=("reader", "text"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzzing/corpus"))
    options = parser.parse_args()
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed: no coverage-guided fuzzing (pip install atheris)")
        return 0
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        for package in INSTRUMENTED:
            importlib.import_module(package)
        subjects = importlib.import_module("tests.fuzzing.subjects")
    corpus = options.corpus / options.subject
    write_seeds(options.subject, corpus)
    subject = subjects.SUBJECTS[options.subject]
    as_text = subjects.CompileOptions("sm_90", emit="cuda_tile")

    def try_one(data: bytes) -> None:
        subjects.judge(subject, subjects.Input(data, as_text))

    flags = [f"-max_total_time={options.seconds}", f"-max_len={MAX_INPUT}", "-rss_limit_mb=1024"]
    artefacts = f"-artifact_prefix={options.corpus}/finding-{options.subject}-"
    atheris.Setup([sys.argv[0], *flags, "-timeout=10", artefacts, str(corpus)], try_one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
