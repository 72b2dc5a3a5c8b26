"""Prints how this compiler's errors agree with the public suite's: `python -m tests.public_suite`.

With `-v` also every fact that is told otherwise, with our words.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.public_suite.judgement import EXPLAINED, Agreement, judge
from tests.public_suite.pieces import VARIABLE, read_pieces, suite_folder


def main() -> int:
    """Reads all pieces and prints the counts."""
    folder = suite_folder()
    if folder is None:
        print(f"{VARIABLE} does not name a checkout of NVIDIA/cuda-tile", file=sys.stderr)
        return 1
    counts: Counter[str] = Counter()
    for piece in read_pieces(folder):
        judgement = judge(piece)
        verdict = "rejected" if judgement.errors else "accepted"
        counts[f"{'wrong' if piece.is_wrong else 'right'} pieces {verdict}"] += 1
        if bool(judgement.errors) != piece.is_wrong:
            print(f"{piece.name}: {verdict}: {EXPLAINED.get(piece.name, 'NOT EXPLAINED')}")
        for fact in piece.facts:
            agreement = judgement.agreement(fact)
            counts[f"facts: {agreement.value}"] += 1
            if agreement is not Agreement.WORDS and "-v" in sys.argv:
                ours = judgement.errors[0].message if judgement.errors else "nothing"
                print(f"{piece.name}: {agreement.value}\n  {fact.words}\n  {ours}")
    for name, count in sorted(counts.items()):
        print(f"{count:5}  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
