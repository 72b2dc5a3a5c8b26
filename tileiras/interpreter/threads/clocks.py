"""Vector clocks: which accesses of other programs a program knows to be over.

Every program counts its own time, which goes on where it tells others how far it is (an arrival at
a barrier). `known[q]` is the first time of program q that this one does not know to be over. Two
accesses of different threads race if neither is known to the other's program.
"""

from __future__ import annotations

import numpy as np

NEVER = 0
"""The time of what counts as known to everybody."""


class Clock:
    """The time of program `number`, and what it knows of up to `programs` others."""

    def __init__(self, number: int, programs: int):
        self.number = number
        self.now = NEVER + 1
        self.known = np.full(programs, NEVER + 1, np.int64)

    def child(self, number: int) -> Clock:
        """The clock of a program that starts here: it knows what this one has done."""
        made = Clock(number, len(self.known))
        made.acquire(self.release())
        return made

    def meet(self) -> None:
        """The threads of this program wait for each other."""
        self.now += 1
        self.known[self.number] = self.now

    def release(self) -> np.ndarray:
        """What others know once they learn of this moment; a new time starts."""
        self.now += 1
        told = self.known.copy()
        told[self.number] = self.now
        return told

    def acquire(self, told: np.ndarray) -> None:
        """Learns what a `release` told."""
        np.maximum(self.known, told, out=self.known)

    def is_unknown(self, times: np.ndarray, programs: np.ndarray) -> np.ndarray:
        """Which accesses, by time and program, may still be under way."""
        return times >= self.known[programs]
