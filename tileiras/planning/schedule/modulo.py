"""Iterative modulo scheduling (Rau, 1994) of a small graph on units that do one thing at a time.

An operation that starts at `time` in its own iteration starts in every interval at
`time % interval`, in stage `time // interval`. A unit that is busy for several cycles is busy in
the same cycles of every interval: the reservation table says in which, and with what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.codegen.target import Unit

ATTEMPTS_PER_NODE = 12
"""Policy: placements, evicted ones included, before an interval is given up."""


@dataclass(frozen=True)
class Node:
    """An operation that holds units, each for some cycles, all from its start on."""

    uses: tuple[tuple[Unit, int], ...]

    @property
    def cycles(self) -> int:
        """How long it holds the unit that it holds longest."""
        return max((cycles for _, cycles in self.uses), default=0)


@dataclass(frozen=True)
class Edge:
    """`target` starts at least `latency` after the start of `source`, `distance` iterations ago."""

    source: int
    target: int
    latency: int
    distance: int


class ReservationTable:
    """Which node holds which unit when, in an interval that begins again and again.

    Spans are kept as they are, not cycle by cycle: an interval may have ten thousand cycles.
    """

    def __init__(self, interval: int):
        self.interval = interval
        self._spans: dict[Unit, dict[int, tuple[int, int]]] = {}

    def holders(self, node: Node, time: int) -> list[int]:
        """The nodes that hold a unit while this one would if it started at this time."""
        found: dict[int, None] = {}
        for unit, cycles in node.uses:
            if not cycles:
                continue
            for other, (start, its_cycles) in self._spans.get(unit, {}).items():
                gap = (start - time) % self.interval
                if gap < cycles or self.interval - gap < its_cycles:
                    found[other] = None
        return list(found)

    def reserve(self, number: int, node: Node, time: int) -> None:
        """Gives a node its units from this time on."""
        for unit, cycles in node.uses:
            if cycles:
                self._spans.setdefault(unit, {})[number] = time, cycles

    def release(self, number: int) -> None:
        """Takes the units of a node back."""
        for spans in self._spans.values():
            spans.pop(number, None)


def modulo_schedule(
    nodes: Sequence[Node], edges: Sequence[Edge], interval: int
) -> tuple[int, ...] | None:
    """The start of each node, or None where none was found for this interval."""
    heights = _heights(len(nodes), edges, interval)
    if heights is None or any(node.cycles > interval for node in nodes):
        return None
    return _Scheduling(nodes, edges, interval, heights).run()


def _heights(count: int, edges: Sequence[Edge], interval: int) -> list[int] | None:
    """The longest way from each node to the end; None if a cycle of edges asks for more time."""
    heights = [0] * count
    for _ in range(count + 1):
        changed = False
        for edge in edges:
            height = heights[edge.target] + edge.latency - interval * edge.distance
            if height > heights[edge.source]:
                heights[edge.source] = height
                changed = True
        if not changed:
            return heights
    return None


class _Scheduling:
    """One attempt: places nodes by height, evicts what is in the way, gives up in the end."""

    def __init__(
        self, nodes: Sequence[Node], edges: Sequence[Edge], interval: int, heights: Sequence[int]
    ):
        self.nodes = nodes
        self.interval = interval
        self.heights = heights
        self.into: list[list[Edge]] = [[] for _ in nodes]
        self.out_of: list[list[Edge]] = [[] for _ in nodes]
        for edge in edges:
            self.into[edge.target].append(edge)
            self.out_of[edge.source].append(edge)
        self.times: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.table = ReservationTable(interval)

    def run(self) -> tuple[int, ...] | None:
        """The starts, if all nodes find a place within the attempts."""
        for _ in range(ATTEMPTS_PER_NODE * len(self.nodes)):
            waiting = [n for n in range(len(self.nodes)) if n not in self.times]
            if not waiting:
                return tuple(self.times[n] for n in range(len(self.nodes)))
            self._place(max(waiting, key=lambda n: (self.heights[n], -n)))
        return None

    def _place(self, node: int) -> None:
        own, earliest = self.nodes[node], 0
        for edge in self.into[node]:
            if edge.source in self.times and edge.source != node:
                start = self.times[edge.source] + edge.latency - self.interval * edge.distance
                earliest = max(earliest, start)
        window = range(earliest, earliest + self.interval)
        time = next((time for time in window if not self.table.holders(own, time)), None)
        if time is None:
            before = self.before.get(node)
            time = earliest if before is None or earliest > before else before + 1
        for other in self.table.holders(own, time):
            self._evict(other)
        self.times[node] = self.before[node] = time
        self.table.reserve(node, own, time)
        for edge in self.out_of[node]:
            after = self.times.get(edge.target)
            needed = time + edge.latency - self.interval * edge.distance
            if after is not None and after < needed and edge.target != node:
                self._evict(edge.target)

    def _evict(self, node: int) -> None:
        """Takes a node from its place."""
        del self.times[node]
        self.table.release(node)
