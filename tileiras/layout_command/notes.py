"""What is said of an access to shared memory."""

from __future__ import annotations


def access_text(who: str, vector: int, fronts: int) -> str:
    """`%tile: vectors of 8 elements, no bank conflicts`."""
    conflicts = "no bank conflicts" if fronts == 1 else f"{fronts} wavefronts where 1 would do"
    return f"access {who}: vectors of {vector} elements, {conflicts}"
