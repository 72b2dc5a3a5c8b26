"""The modulo scheduler: units do one thing at a time, latencies hold over iterations."""

from __future__ import annotations

import random

import pytest

from tileiras.codegen.target import Unit
from tileiras.planning.schedule.modulo import Edge, Node, ReservationTable, modulo_schedule

TENSOR, VECTOR = UNITS = (Unit.TENSOR_CORE, Unit.FMA)


def holds(nodes, edges, interval, times) -> bool:
    """Whether a schedule keeps its promises."""
    for edge in edges:
        arrival = times[edge.source] + edge.latency - interval * edge.distance
        if edge.source != edge.target and times[edge.target] < arrival:
            return False
    taken: dict[tuple[Unit, int], int] = {}
    for number, (node, time) in enumerate(zip(nodes, times, strict=True)):
        for unit, cycles in node.uses:
            for cycle in range(time, time + cycles):
                if taken.setdefault((unit, cycle % interval), number) != number:
                    return False
    return True


def test_two_products_and_the_work_between_them_overlap():
    nodes = [Node(((TENSOR, 4),)), Node(((VECTOR, 5),)), Node(((TENSOR, 4),))]
    edges = [Edge(0, 1, 4, 0), Edge(1, 2, 5, 0)]
    times = modulo_schedule(nodes, edges, 8)
    assert times is not None
    assert holds(nodes, edges, 8, times)
    assert times[2] // 8 == 1


def test_a_cycle_of_latencies_bounds_the_interval():
    nodes = [Node(((VECTOR, 1),)), Node(((VECTOR, 1),))]
    edges = [Edge(0, 1, 6, 0), Edge(1, 0, 4, 1)]
    assert modulo_schedule(nodes, edges, 9) is None
    assert modulo_schedule(nodes, edges, 10) is not None


def test_a_unit_that_is_too_short_for_an_operation_gives_nothing():
    assert modulo_schedule([Node(((VECTOR, 5),))], [], 4) is None


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_get_schedules_that_hold(seed):
    rng = random.Random(seed)
    nodes = [
        Node(tuple((unit, rng.randrange(5)) for unit in UNITS if rng.random() < 0.7))
        for _ in range(8)
    ]
    edges = []
    for _ in range(12):
        source, target = rng.randrange(8), rng.randrange(8)
        distance = 0 if source < target else 1
        edges.append(Edge(source, target, nodes[source].cycles + rng.randrange(3), distance))
    for interval in range(1, 120):
        times = modulo_schedule(nodes, edges, interval)
        if times is not None:
            assert holds(nodes, edges, interval, times)
            break
    else:
        pytest.fail("no schedule at all")


def test_an_operation_waits_for_all_its_units():
    nodes = [Node(((TENSOR, 3),)), Node(((VECTOR, 2),)), Node(((TENSOR, 1), (VECTOR, 2)))]
    assert modulo_schedule(nodes, [], 4) is not None
    assert modulo_schedule(nodes, [], 3) is None


def test_the_table_knows_who_holds_a_unit_across_the_end_of_an_interval():
    table = ReservationTable(10)
    table.reserve(0, Node(((VECTOR, 4),)), 18)
    assert table.holders(Node(((VECTOR, 1),)), 1) == [0]
    assert table.holders(Node(((VECTOR, 1),)), 2) == []
    assert table.holders(Node(((TENSOR, 9),)), 0) == []
    assert table.holders(Node(((VECTOR, 7),)), 2) == [0]
    table.release(0)
    assert table.holders(Node(((VECTOR, 9),)), 0) == []
