"""The dependence graph of a loop body: products, work of the vector units, what is free.

Free operations (index arithmetic, views, constants, shapes) cost nothing and are repeated in every
stage that needs them; loads that feed a product go where the product goes. The graph has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.planning.schedule.costs import PRODUCT_LATENCY, QUANTUM, TileCosts
from tileiras.planning.schedule.modulo import Edge, Node

MAX_TIME = 256
"""Units of time that a body takes at most: longer bodies are scheduled in larger units."""
TENSOR_CORES, VECTOR_UNITS = "tensor cores", "vector units"

_SHAPES = (
    aa.ConstantOp,
    aa.SplatOp,
    aa.MakeRangeOp,
    aa.BroadcastOp,
    aa.ReshapeOp,
    aa.PermuteOp,
    aa.BlockTileOp,
    aa.CreateMemTokenOp,
    aa.JoinMemTokensOp,
)


def is_free(op: Operation) -> bool:
    """Whether the operation may be repeated: it costs nothing worth counting."""
    if isinstance(op, _SHAPES):
        return True
    return isinstance(op, ElementwiseOp) and not isinstance(op.results[0].type, TensorType)


def operands_of(op: Operation) -> list[SSAValue]:
    """What an operation reads, within its regions included."""
    read = dict.fromkeys(op.operands)
    if op.regions:
        inside = {value for inner in op.walk() for value in _defined(inner)}
        for inner in op.walk():
            read.update(dict.fromkeys(v for v in inner.operands if v not in inside))
    return list(read)


def _defined(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


@dataclass(frozen=True)
class Product:
    """A product that the tensor cores do beside other work, with the loads that it waits for.

    `keeps_lhs`: it reads its left operand from registers until it is finished.
    """

    dot: aa.DotOp
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
        self.loads: Mapping[Operation, aa.DotOp] = {
            load: product.dot for product in products for load in product.loads
        }
        self.ops = [
            op
            for op in self.block.ops
            if not (is_free(op) or op in self.loads or isinstance(op, aa.ContinueOp))
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
        units = [TENSOR_CORES if op in self.products else VECTOR_UNITS for op in self.ops]
        cycles = [
            self.costs.product_cycles(op) if isinstance(op, aa.DotOp) else self.costs.cycles(op)
            for op in self.ops
        ]
        quantum = max(QUANTUM, sum(cycles) // MAX_TIME)
        nodes = [
            Node(unit, _rounded(its, quantum)) for unit, its in zip(units, cycles, strict=True)
        ]
        after_product = _rounded(PRODUCT_LATENCY, quantum)
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
