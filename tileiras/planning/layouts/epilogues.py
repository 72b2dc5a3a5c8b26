"""Where the result of a product meets loaded tiles on its way to memory.

    total = dot ...            old = load            store(old + total)

Such an operation is done in the layout in which memory is accessed: `total` changes its layout, and
nothing else does. In the layout of the product the loaded tile would have to change, and the sum;
unless that is as good a layout for the load, then nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing

Suits = Callable[[Operation, aa.ProductOp], bool]
"""Whether a load reads as well in the layout of a product as in its own."""


class Epilogues:
    """Answers, each found out once, about the values of one function."""

    def __init__(self, suits: Suits) -> None:
        self._suits = suits
        self._product: dict[SSAValue, aa.ProductOp | None] = {}
        self._load: dict[SSAValue, Operation | None] = {}
        self._stored: dict[SSAValue, bool] = {}

    def products(self, op: Operation) -> list[SSAValue]:
        """Operands from products that meet loaded ones here, if the result is only stored."""
        if not isinstance(op, ElementwiseOp):
            return []
        products = {value: dot for value in op.operands if (dot := self._product_of(value))}
        loads = [load for value in op.operands if (load := self._load_of(value))]
        meet = any(not self._suits(load, dot) for load in loads for dot in products.values())
        return list(products) if meet and self._is_only_stored(op.results[0]) else []

    def _product_of(self, value: SSAValue) -> aa.ProductOp | None:
        """The product whose layout a value has."""
        if value not in self._product:
            self._product[value] = self._find_product(value)
        return self._product[value]

    def _find_product(self, value: SSAValue) -> aa.ProductOp | None:
        if not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
            return None
        op = value.op
        match op:
            case aa.DotOp() | aa.DotScaledOp():
                return op
            case aa.ForOp():
                sources: Sequence[SSAValue] = _continued(op, value.index)
            case aa.IfOp():
                sources = _yielded(op, value.index)
            case aa.ExtractOp():
                sources = (op.source,)
            case ElementwiseOp():
                sources = op.operands if not self.products(op) else ()
            case _:
                sources = ()
        return next((dot for source in sources if (dot := self._product_of(source))), None)

    def _load_of(self, value: SSAValue) -> Operation | None:
        """The load whose layout a value has."""
        if value not in self._load:
            self._load[value] = self._find_load(value)
        return self._load[value]

    def _find_load(self, value: SSAValue) -> Operation | None:
        if not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
            return None
        op = value.op
        if isinstance(op, aa.TiledLoadOp | aa.LoadOp):
            return op
        if not isinstance(op, ElementwiseOp) or self._product_of(value) is not None:
            return None
        return next((load for source in op.operands if (load := self._load_of(source))), None)

    def _is_only_stored(self, value: SSAValue) -> bool:
        """Whether all that becomes of a value is stored."""
        if value not in self._stored:
            uses = list(value.uses)
            stored = bool(uses) and all(self._is_stored_by(use.operation, value) for use in uses)
            self._stored[value] = stored
        return self._stored[value]

    def _is_stored_by(self, op: Operation, value: SSAValue) -> bool:
        match op:
            case aa.TiledStoreOp() | aa.TiledAtomicRedOp() | aa.StoreOp():
                return op.value is value
            case ElementwiseOp() | aa.ReshapeOp():
                return self._is_only_stored(op.results[0])
            case _:
                return False


def _continued(loop: aa.ForOp, index: int) -> list[SSAValue]:
    """What iterations hand on as one of the results of a loop."""
    return [
        inner.operands[index]
        for inner in loop.walk()
        if isinstance(inner, aa.ContinueOp) and enclosing(inner, aa.ForOp, aa.LoopOp) is loop
    ]


def _yielded(branch: aa.IfOp, index: int) -> list[SSAValue]:
    """What the branches hand on as one of the results of an if."""
    return [
        inner.operands[index]
        for inner in branch.walk()
        if isinstance(inner, aa.YieldOp) and inner.parent_op() is branch
    ]
