"""How many registers the tensors that are live at once take, over all threads of a tile block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp, UnaryOp
from tileiras.dialects.nv_tileaa.storage import storage_bits

_FREE = (aa.ConstantOp, aa.SplatOp, aa.MakeRangeOp)
_VIEWS = (aa.BroadcastOp, aa.ReshapeOp, aa.PermuteOp)


def tensor_words(type: Attribute) -> int:
    """32-bit registers that a tensor takes if no element is held twice; 0 for anything else.

    Pointers are counted as one word: mostly they are a base and an offset.
    """
    if not isinstance(type, TensorType):
        return 0
    count = 1
    for dim in type.get_shape():
        count *= dim
    element = type.element_type
    if isinstance(element, IntegerType) and element.width.data == 1:
        return -(-count // 8)
    bits = 32 if isinstance(element, aa.PointerType) else storage_bits(element)
    return -(-count * bits // 32)


def held_value(value: SSAValue) -> SSAValue | None:
    """The value whose registers `value` is read from; None if it is made where it is needed."""
    while isinstance(value, OpResult):
        if isinstance(value.op, _FREE):
            return None
        if not isinstance(value.op, _VIEWS):
            break
        value = value.op.operands[0]
    return value if isinstance(value.type, TensorType) else None


Live = dict[SSAValue, int]
"""Live tensors and their words, in a fixed order."""


def block_pressure(block: Block, ignored: Iterable[SSAValue] = ()) -> int:
    """The most words that tensors take at one time while the block runs, from outside included.

    What is `ignored` does not count.
    """
    return _Walk(dict.fromkeys(ignored)).block(block, {})


def words_behind(op: Operation) -> int:
    """The most words that tensors take at one time behind an operation, to the end of its block,
    its results included.
    """
    return _Walk().behind(op)


def live_at_products(block: Block) -> dict[aa.ProductOp, Live]:
    """What is live with each product, its result included.

    Not counted are operands loaded for it, which come from shared memory a piece at a time, and
    what is computed from ranges, scalars and broadcasts alone (addresses, masks): that can wait,
    and repeats itself.
    """
    products = [op for op in block.walk() if isinstance(op, aa.ProductOp)]
    made: dict[SSAValue, None] = {}
    for op in block.walk():
        if isinstance(op, (*_FREE, *_VIEWS, ElementwiseOp)):
            tensors = [v for v in op.operands if isinstance(v.type, TensorType)]
            if isinstance(op, (*_FREE, aa.BroadcastOp)) or (
                tensors and all(v in made for v in tensors)
            ):
                made.update(dict.fromkeys(op.results))
    ignored = made | {v: None for op in products for v in _loaded_for(op)}
    walk = _Walk(ignored)
    walk.block(block, {})
    return walk.at_products


def _loaded_for(op: aa.ProductOp) -> list[SSAValue]:
    """The operands that are loaded, converted at most, and all values between."""
    found: list[SSAValue] = []
    scales = (op.lhs_scale, op.rhs_scale) if isinstance(op, aa.DotScaledOp) else ()
    for operand in (op.lhs, op.rhs, *scales):
        chain: list[SSAValue] = [operand]
        while isinstance(operand, OpResult) and len(operand.op.operands) == 1:
            if not isinstance(operand.op, (*_VIEWS, UnaryOp)):
                break
            operand = operand.op.operands[0]
            chain.append(operand)
        if isinstance(operand, OpResult) and isinstance(operand.op, aa.LoadOp | aa.TiledLoadOp):
            found += chain
    return found


@dataclass
class _Walk:
    """A walk backwards over a block and what is in it."""

    ignored: Mapping[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    at_products: dict[aa.ProductOp, Live] = field(default_factory=dict[aa.ProductOp, Live])

    def block(self, block: Block, live_after: Live) -> int:
        """The most words at one time, if `live_after` is live behind the block."""
        return self._backwards(list(block.ops), live_after)

    def behind(self, op: Operation) -> int:
        """The most words at one time between an operation and the end of its block."""
        block = op.parent_block()
        ops = list(block.ops) if block is not None else []
        return self._backwards(ops[ops.index(op) + 1 :], {}) if ops else 0

    def _backwards(self, ops: Sequence[Operation], live_after: Live) -> int:
        live = dict(live_after)
        most = sum(live.values())
        for op in reversed(ops):
            if op.regions and not isinstance(op, aa.ReduceOp | aa.ScanOp):
                around = dict(live)
                for result in op.results:
                    around.pop(result, None)
                self._use(around, _captured(op))
                for region in op.regions:
                    for inner in region.blocks:
                        most = max(most, self.block(inner, around))
            written = dict(live)
            self._use(written, op.results)
            if isinstance(op, aa.ProductOp):
                self.at_products[op] = written
            most = max(most, sum(written.values()))
            for result in op.results:
                live.pop(result, None)
            self._use(live, op.operands)
            most = max(most, sum(live.values()))
        return most

    def _use(self, live: Live, values: Iterable[SSAValue]) -> None:
        """Makes values live."""
        for value in values:
            held = held_value(value)
            if held is not None and held not in self.ignored:
                live[held] = tensor_words(held.type)


def _captured(op: Operation) -> list[SSAValue]:
    """Values from outside that the regions of an operation use: live all the time it runs."""
    captured: dict[SSAValue, None] = {}
    for inner in op.walk():
        if inner is op:
            continue
        for operand in inner.operands:
            held = held_value(operand)
            if held is not None and not is_within(held, op):
                captured[held] = None
    return list(captured)


def is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is defined inside of an operation."""
    block: Block | None = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is None:
            return False
        if parent is op:
            return True
        block = parent.parent_block()
    return False
