"""Appends operations to a block: what the passes that rebuild a program have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import UNKNOWN_LOC, IntegerType, LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType


class OpBuilder:
    """Appends to `block`; what is made gets `location`, the place of what it is made for."""

    def __init__(self) -> None:
        self.block = Block()
        self.location: LocationAttr = UNKNOWN_LOC

    def emit(
        self,
        op_class: type[Operation],
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Appends an operation, without verifying it."""
        op = op_class.create(
            operands=operands,
            result_types=result_types,
            properties=dict(properties) if properties else {},
            regions=regions,
            location=self.location,
        )
        self.block.add_op(op)
        return op

    def only_if(self, condition: SSAValue, then: Block) -> None:
        """What is in a block where the condition (i1) holds; `then` may end the kernel."""
        self.either(condition, then, Block())

    @contextmanager
    def only_where(self, condition: SSAValue) -> Iterator[None]:
        """What is appended meanwhile is done where the condition (i1) holds."""
        outer = self.block
        self.block = then = Block()
        yield
        self.block = outer
        self.only_if(condition, then)

    def either(self, condition: SSAValue, then: Block, other: Block) -> None:
        """What is in the first block where the condition (i1) holds, else what is in the other."""
        for block in (then, other):
            if not isinstance(block.last_op, aa.ReturnOp):
                block.add_op(aa.YieldOp.create(location=self.location))
        self.emit(aa.IfOp, [condition], (), {}, [Region(then), Region(other)])

    def integer(self, value: int, type: IntegerType) -> SSAValue:
        """A scalar constant of nv_tileaa."""
        raw = value.to_bytes(-(-type.width.data // 8), "little")
        properties = {"value": DenseAttr(TileType(type), raw)}
        return self.emit(aa.ConstantOp, (), [type], properties).results[0]
