"""Iterative modulo scheduling (Rau, 1994) of a small graph on units that do one thing at a time.

An operation that starts at `time` in its own iteration starts in every interval at
`time % interval`, in stage `time // interval`. A unit that is busy for several cycles is busy in
the same cycles of every interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ATTEMPTS_PER_NODE = 12
"""Placements, evicted ones included, before an interval is given up."""


@dataclass(frozen=True)
class Node:
    """An operation that keeps `unit` busy for `cycles`."""

    unit: str
    cycles: int


@dataclass(frozen=True)
class Edge:
    """`target` starts at least `latency` after the start of `source`, `distance` iterations ago."""

    source: int
    target: int
    latency: int
    distance: int


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

    def run(self) -> tuple[int, ...] | None:
        """The starts, if all nodes find a place within the attempts."""
        for _ in range(ATTEMPTS_PER_NODE * len(self.nodes)):
            waiting = [n for n in range(len(self.nodes)) if n not in self.times]
            if not waiting:
                return tuple(self.times[n] for n in range(len(self.nodes)))
            self._place(max(waiting, key=lambda n: (self.heights[n], -n)))
        return None

    def _place(self, node: int) -> None:
        earliest = 0
        for edge in self.into[node]:
            if edge.source in self.times and edge.source != node:
                start = self.times[edge.source] + edge.latency - self.interval * edge.distance
                earliest = max(earliest, start)
        window = range(earliest, earliest + self.interval)
        time = next((time for time in window if not self._conflicts(node, time)), None)
        if time is None:
            before = self.before.get(node)
            time = earliest if before is None or earliest > before else before + 1
        for other in self._conflicts(node, time):
            del self.times[other]
        self.times[node] = self.before[node] = time
        for edge in self.out_of[node]:
            after = self.times.get(edge.target)
            needed = time + edge.latency - self.interval * edge.distance
            if after is not None and after < needed and edge.target != node:
                del self.times[edge.target]

    def _conflicts(self, node: int, time: int) -> list[int]:
        """Placed nodes that keep the unit busy at the same time."""
        own = self.nodes[node]
        if not own.cycles:
            return []
        found: list[int] = []
        for other, start in self.times.items():
            its = self.nodes[other]
            if other == node or its.unit != own.unit or not its.cycles:
                continue
            gap = (start - time) % self.interval
            if gap < own.cycles or self.interval - gap < its.cycles:
                found.append(other)
        return found
