"""Where threads meet: mbarriers, barriers of the CTA and of the cluster, with what they tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.clocks import NEVER


def _nothing_known() -> np.ndarray:
    return np.full(1, NEVER, np.int64)


@dataclass
class _Told:
    """What those who arrived know; whoever passes learns what was known when it completed."""

    gathered: np.ndarray = field(default_factory=_nothing_known)
    published: np.ndarray = field(default_factory=_nothing_known)

    def gather(self, told: np.ndarray) -> None:
        """One arrival."""
        self.gathered = np.maximum(self.gathered, told)

    def publish(self) -> None:
        """All have arrived."""
        self.published = self.gathered


@dataclass
class Mbarrier:
    """An mbarrier: arrivals and bytes that the current phase still expects."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    told: _Told = field(default_factory=_Told)

    def arrive(self, count: int, told: np.ndarray | None = None) -> None:
        """So many arrivals by threads that know this."""
        self.pending -= count
        if told is not None:
            self.told.gather(told)
        self.settle()

    def settle(self) -> None:
        """On to the next phase, if this one is complete."""
        if self.pending < 0:
            raise InterpreterError(f"more arrivals than the {self.count} that are expected")
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count
            self.told.publish()

    def has_passed(self, parity: int) -> bool:
        """Whether the phase of this parity is complete."""
        return self.phase & 1 != parity

    def __str__(self) -> str:
        return f"phase {self.phase}, {self.pending} arrivals and {self.bytes} bytes short"


@dataclass
class MeetingPoint:
    """A barrier that counts threads: `bar.sync` with a number, or that of a cluster."""

    arrived: int = 0
    generation: int = 0
    told: _Told = field(default_factory=_Told)

    def arrive(self, threads: int, expected: int, told: np.ndarray) -> int:
        """So many threads arrive of those expected; returns the generation to wait for."""
        mine = self.generation + 1
        self.arrived += threads
        self.told.gather(told)
        if self.arrived > expected:
            raise InterpreterError(f"{self.arrived} threads arrive where {expected} are expected")
        if self.arrived == expected:
            self.arrived, self.generation = 0, mine
            self.told.publish()
        return mine
