"""The known word that a mistyped one is nearest to, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LENGTH = 64
"""Longer words are not compared: nobody mistypes one of ours that way."""


def edit_distance(first: str, second: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that make one the other."""
    before: list[int] = []
    above = list(range(len(second) + 1))
    for row, mine in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            cost = min(
                above[column] + 1, current[column - 1] + 1, above[column - 1] + (mine != other)
            )
            swapped = row > 1 and column > 1 and mine == second[column - 2]
            if swapped and first[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to this one, the first of several; None if none is near.

    Near is a third of the word's letters at most, or another case.
    """
    if not word or len(word) > MAX_LENGTH:
        return None
    best, limit = None, max(1, len(word) // 3) + 1
    for candidate in known:
        if candidate.lower() == word.lower():
            return candidate
        if abs(len(candidate) - len(word)) >= limit:
            continue
        distance = edit_distance(word, candidate)
        if distance < limit:
            best, limit = candidate, distance
    return best


def did_you_mean(word: str, known: Iterable[str], mark: str = "") -> str:
    """`did you mean 'addf'?`, or nothing. `mark` is put in front of the suggestion."""
    found = nearest(word, known)
    return "" if found is None else f"did you mean '{mark}{found}'?"
