"""The dependence graph of a loop body: products, work of the vector units, what is free.

Free operations (index arithmetic, views, constants, shapes) cost nothing and are repeated in every
stage that needs them; loads that feed a product go where the product goes. The graph has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.schedule import is_repeatable, operands_of
from tileiras.planning.schedule.costs import QUANTUM, TileCosts
from tileiras.planning.schedule.modulo import Edge, Node

MAX_TIME = 256
"""Policy: units of time that a body takes at most: longer bodies are scheduled in larger units."""


@dataclass(frozen=True)
class Product:
    """A product that the tensor cores do beside other work, with the loads that it waits for.

    `keeps_lhs`: it reads its left operand from registers until it is finished.
    """

    dot: aa.ProductOp
    loads: tuple[aa.TiledLoadOp | aa.LoadOp, ...]
    keeps_lhs: bool

    @property
    def registers(self) -> tuple[SSAValue, ...]:
        """The operands that are in registers and not in shared memory."""
        return (self.dot.lhs, self.dot.acc) if self.keeps_lhs else (self.dot.acc,)


class LoopBody:
    """A loop with its products; `ops` are the operations of the graph, in the order written."""

    def __init__(self, loop: aa.ForOp, products: Sequence[Product], costs: TileCosts):
        self.loop = loop
        self.block: Block = loop.body.block
        self.costs = costs
        self.products: Mapping[Operation, Product] = {p.dot: p for p in products}
        # The first of several products that read a tile waits for it.
        self.loads: Mapping[Operation, aa.ProductOp] = {
            load: product.dot for product in reversed(products) for load in product.loads
        }
        self.ops = [
            op
            for op in self.block.ops
            if not (is_repeatable(op) or op in self.loads or isinstance(op, aa.ContinueOp))
        ]
        self.number = {op: number for number, op in enumerate(self.ops)}

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """What the next iteration gets."""
        last = self.block.last_op
        return last.operands if last is not None else ()

    def makers(self, value: SSAValue) -> list[tuple[Operation, int]]:
        """The operations of the graph that a value is made by, and how many iterations ago."""
        found: dict[tuple[Operation, int], None] = {}
        pending: list[tuple[SSAValue, int]] = [(value, 0)]
        seen: dict[tuple[SSAValue, int], None] = {}
        while pending:
            current, distance = pending.pop()
            if (current, distance) in seen or distance > 1:
                continue
            seen[current, distance] = None
            if isinstance(current, BlockArgument) and current.owner is self.block:
                if current.index > 0:
                    pending.append((self.yielded[current.index - 1], distance + 1))
            elif isinstance(current, OpResult) and current.op.parent_block() is self.block:
                op = current.op
                if op in self.number:
                    found[op, distance] = None
                elif op in self.loads and isinstance(current.type, TensorType):
                    continue
                elif op in self.loads:
                    found[self.loads[op], distance] = None
                else:
                    pending += [(operand, distance) for operand in op.operands]
        return list(found)

    def reads(self, op: Operation) -> list[tuple[Operation, int]]:
        """The operations of the graph that an operation depends on, and how many iterations ago."""
        product = self.products.get(op)
        values = operands_of(op)
        if product is not None:
            values += [operand for load in product.loads for operand in load.operands]
        found: dict[tuple[Operation, int], None] = {}
        for value in values:
            found.update(dict.fromkeys(self.makers(value)))
        found.pop((op, 0), None)
        return list(found)

    def graph(self) -> tuple[list[Node], list[Edge], int]:
        """Units and times, who waits for whom, and the cycles of a unit of time."""
        uses = [self.costs.uses(op) for op in self.ops]
        total = sum(max((cycles for _, cycles in held), default=0) for held in uses)
        quantum = max(QUANTUM, total // MAX_TIME)
        nodes = [
            Node(tuple((unit, _rounded(cycles, quantum)) for unit, cycles in held)) for held in uses
        ]
        after_product = _rounded(self.costs.performance.product_latency, quantum)
        edges: dict[Edge, None] = {}
        for target, op in enumerate(self.ops):
            for maker, distance in self.reads(op):
                source = self.number[maker]
                latency = nodes[source].cycles
                if maker in self.products and op not in self.products:
                    latency += after_product
                edges[Edge(source, target, latency, distance)] = None
        for source, op in enumerate(self.ops):
            for writer in self.overwriters(op):
                latency = nodes[source].cycles + after_product
                edges[Edge(source, self.number[writer], latency, 1)] = None
        return nodes, list(edges), quantum

    def overwriters(self, op: Operation) -> list[Operation]:
        """What writes the registers that a product reads: not before the product is finished."""
        product = self.products.get(op)
        if product is None or not product.keeps_lhs:
            return []
        return [maker for maker, distance in self.makers(product.dot.lhs) if not distance]


def _rounded(cycles: int, quantum: int) -> int:
    """Cycles in units of so many; next to nothing is nothing."""
    return (cycles + quantum // 2) // quantum


def is_rotatable(loop: aa.ForOp) -> bool:
    """Whether the body is one that may be taken apart: no stores, loops and ways out in it."""
    return isinstance(loop.lower_bound.type, IntegerType) and all(
        is_movable(op) for op in loop.body.block.ops
    )


def is_movable(op: Operation) -> bool:
    """Whether the order of the operation follows from its operands alone."""
    if isinstance(op, aa.ContinueOp) or is_repeatable(op):
        return True
    if isinstance(op, aa.IfOp):
        inner = [o for region in op.regions for block in region.blocks for o in block.ops]
        return all(isinstance(o, aa.YieldOp) or is_movable(o) for o in inner)
    plain = (aa.ProductOp, aa.ReduceOp, aa.TiledLoadOp, aa.LoadOp)
    return isinstance(op, (ElementwiseOp, *plain))
