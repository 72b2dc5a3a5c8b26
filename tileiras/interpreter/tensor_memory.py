"""Products into tensor memory, at nv_tileas: their warp role runs to its end, then the consumers.

It reads stages as consumers of other kernels do. What a loop of products has summed up is there
when it has been committed, and is loaded in the same order, once. Left operands that consumers
store are there only then: products are noted, and computed when their sum is loaded.

Blocks of rows that take turns come one after another; what is done for the last one is done for
all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.memdesc import is_in_tmem
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.interpreter.equivalent_ops import EquivalentOps, equivalent_properties
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.float_arithmetic import RULES as FLOAT_RULES
from tileiras.interpreter.formats import Array, format_of
from tileiras.interpreter.state import BlockRun, EffectRule
from tileiras.interpreter.tensor_rules import scaled_dot_rule
from tileiras.interpreter.thread_rules import WholeTiles, dot_rule, placed

TurnOp = (
    tc.AccumulatorAcquireOp
    | tc.AccumulatorCommitOp
    | tc.Tcgen05DotOp
    | tc.LeftOperandWaitOp
    | tc.LeftOperandReleaseOp
)
"""What the warp that issues products does for a block of rows."""
Product = Callable[[Array], Array]
"""Adds itself to a sum."""


@dataclass
class InTurns:
    """What is filled and handed back in blocks of rows."""

    blocks: int = 1
    following: dict[type[Operation], int] = field(default_factory=dict[type[Operation], int])
    """The block for which an operation of each kind comes next."""

    def is_done(self, op: TurnOp) -> bool:
        """Whether an operation has come for all blocks. InterpreterError where one is left out."""
        expected = self.following.get(type(op), 0)
        if (op.block.data if op.block is not None else 0) != expected:
            raise InterpreterError(f"block {expected} of the rows is left out", op)
        self.following[type(op)] = (expected + 1) % self.blocks
        return expected == self.blocks - 1


@dataclass
class Sums(InTurns):
    """An accumulator: the products of what has been committed, and of what is added to."""

    committed: list[list[Product]] = field(default_factory=list[list[Product]])
    open: list[Product] | None = None
    loaded: int = 0
    is_scaled: bool = False
    """Whether consumers get the sum behind each product, and scale it where it lies."""
    scaled: Array | None = None
    """What it was when they did so last, or what it starts from where they say."""
    is_filled: bool = False
    """Whether consumers store what it starts from."""


@dataclass
class LeftOperands(InTurns):
    """The tiles that consumers have stored so far, and how many products have waited for."""

    stored: list[Array] = field(default_factory=list[Array])
    waited: int = 0
    released: int = 0


def _create(run: BlockRun, op: tc.CreateAccumulatorOp) -> list[Any]:
    return [Sums(_blocks(op), is_scaled=op.scaled is not None, is_filled=op.filled is not None)]


def _blocks(op: tc.CreateAccumulatorOp | tc.CreateLeftOperandOp) -> int:
    return 1 if op.blocks is None else op.blocks.data


def _product_warp(run: BlockRun, op: tc.ProductWarpOp) -> list[Any]:
    """Its program runs where the warps part: `run_product_roles`."""
    return []


def run_product_roles(run: BlockRun, switch: Operation) -> None:
    """The programs of the warp roles beside a switch, once its producer is done."""
    block = switch.parent_block()
    for op in block.ops if block is not None else ():
        if isinstance(op, tc.ProductWarpOp):
            run.run_region(op.body, ())


def check_all_loaded(run: BlockRun, switch: Operation) -> None:
    """Raises InterpreterError where sums are left over: the warp role would hang in the next
    tile.
    """
    block = switch.parent_block()
    for op in block.ops if block is not None else ():
        if isinstance(op, tc.CreateAccumulatorOp):
            sums: Sums = run.value(op.result)
            if sums.loaded < len(sums.committed):
                raise InterpreterError("a sum is never loaded: the products may hang", op)


def _acquire(run: BlockRun, op: tc.AccumulatorAcquireOp) -> list[Any]:
    sums: Sums = run.value(op.accumulator)
    if not sums.is_done(op):
        return []
    if sums.open is not None and not sums.is_scaled:
        raise InterpreterError("the sum before has not been committed", op)
    sums.open = []
    return []


def _commit(run: BlockRun, op: tc.AccumulatorCommitOp) -> list[Any]:
    sums: Sums = run.value(op.accumulator)
    if not sums.is_done(op):
        return []
    if sums.open is None:
        raise InterpreterError("a sum is committed that nobody has begun", op)
    sums.committed.append(sums.open)
    sums.open = [] if sums.is_scaled else None
    return []


def _multiply(equivalents: EquivalentOps) -> EffectRule:
    def multiply(run: BlockRun, op: tc.Tcgen05DotOp) -> list[Any]:
        """Adds the product of two tiles in stages."""
        sums: Sums = run.value(op.accumulator)
        if not sums.is_done(op):
            return []
        if sums.open is None:
            raise InterpreterError("a product is issued into a sum that nobody has begun", op)
        tiles = WholeTiles(run, op)
        left, rhs = _left(tiles, op), tiles.value(op.rhs)
        sums.open.append(lambda sum: dot_rule(equivalents)(op, left(), rhs, sum))
        return []

    return multiply


def _left(tiles: WholeTiles, op: tc.Tcgen05DotOp) -> Callable[[], Array]:
    """The left operand of a product: from a stage, or the one that has been waited for last."""
    if not is_in_tmem(op.lhs.type):
        tile = tiles.value(op.lhs)
        return lambda: tile
    operands: LeftOperands = tiles.run.value(op.lhs)
    number = operands.waited - 1
    if number < 0 or operands.released > number:
        raise InterpreterError("a left operand is read that nobody has waited for", op)

    def stored() -> Array:
        if number >= len(operands.stored):
            raise InterpreterError("a left operand is never stored: the products hang", op)
        return operands.stored[number]

    return stored


def _create_left(run: BlockRun, op: tc.CreateLeftOperandOp) -> list[Any]:
    return [LeftOperands(_blocks(op))]


def _wait_left(run: BlockRun, op: tc.LeftOperandWaitOp) -> list[Any]:
    operands: LeftOperands = run.value(op.left)
    if not operands.is_done(op):
        return []
    if operands.released < operands.waited:
        raise InterpreterError("the left operand before is not handed back: consumers hang", op)
    operands.waited += 1
    return []


def _release_left(run: BlockRun, op: tc.LeftOperandReleaseOp) -> list[Any]:
    operands: LeftOperands = run.value(op.left)
    if not operands.is_done(op):
        return []
    operands.released = operands.waited
    return []


def _store_left(run: BlockRun, op: tc.LeftOperandStoreOp) -> list[Any]:
    operands: LeftOperands = run.value(op.left)
    if len(operands.stored) >= operands.waited:
        raise InterpreterError("a left operand is stored that no product waits for", op)
    operands.stored.append(WholeTiles(run, op).value(op.tile))
    return []


def _multiply_scaled(equivalents: EquivalentOps) -> EffectRule:
    def multiply(run: BlockRun, op: Tcgen05DotScaledOp) -> list[Any]:
        """Adds the product of two tiles in stages with the scales beside them."""
        sums: Sums = run.value(op.accumulator)
        if sums.open is None:
            raise InterpreterError("a product is issued into a sum that nobody has begun", op)
        if op.condition is not None and not run.value(op.condition):
            return []
        tiles = WholeTiles(run, op)
        lhs, rhs, *scales = map(tiles.value, (op.lhs, op.rhs, op.lhs_scale, op.rhs_scale))
        sums.open.append(lambda sum: scaled_dot_rule(equivalents)(op, lhs, rhs, sum, *scales))
        return []

    return multiply


def _release(run: BlockRun, op: tc.StageReleaseOp) -> list[Any]:
    """The tensor core hands the newest stage back: all before it are back already."""
    pipeline = run.value(op.pipeline)
    pipeline.released = pipeline.waited
    return []


def _load(run: BlockRun, op: tc.AccumulatorLoadOp) -> Sequence[Any]:
    sums: Sums = run.value(op.accumulator)
    if sums.loaded >= len(sums.committed):
        raise InterpreterError("a sum is loaded that is never committed: the consumers hang", op)
    if sums.is_filled and sums.scaled is None:
        raise InterpreterError("a sum is loaded that nobody has filled: the products hang", op)
    found = _next(sums, op.accumulator)
    if not bool(np.asarray(run.value(op.any)).all()):
        found = np.zeros(found.shape, found.dtype)
    sums.scaled = None
    return placed(op, [found])


def _fill(run: BlockRun, op: tc.AccumulatorFillOp) -> list[Any]:
    """What the next sum starts from."""
    sums: Sums = run.value(op.accumulator)
    if sums.scaled is not None:
        raise InterpreterError("a sum is filled before the one before was loaded", op)
    sums.scaled = WholeTiles(run, op).value(op.value)
    return []


def _clear(run: BlockRun, op: tc.AccumulatorClearOp) -> list[Any]:
    """The sum is zero, once it is the consumers'."""
    sums: Sums = run.value(op.accumulator)
    if sums.loaded >= len(sums.committed):
        raise InterpreterError("a sum is cleared that is never committed: consumers hang", op)
    sums.scaled = _zeros(op.accumulator)
    return []


def _scale(equivalents: EquivalentOps) -> EffectRule:
    def scale(run: BlockRun, op: tc.AccumulatorScaleOp) -> list[Any]:
        """Multiplies the sum so far."""
        sums: Sums = run.value(op.accumulator)
        if sums.loaded >= len(sums.committed):
            raise InterpreterError("a sum is scaled that is never committed: consumers hang", op)
        if sums.scaled is None:
            raise InterpreterError("a sum is scaled that nobody has cleared", op)
        before, factors = _next(sums, op.accumulator), WholeTiles(run, op).value(op.factors)
        properties: dict[str, Attribute] = {
            "rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)
        }
        properties |= equivalent_properties(op, "flush_to_zero")
        operands, results = (op.factors, op.factors), (op.factors,)
        equivalent = equivalents.of(op, ct.MulFOp, properties, operands, results)
        sums.scaled = FLOAT_RULES[ct.MulFOp](equivalent, before, factors)
        return []

    return scale


def _next(sums: Sums, accumulator: SSAValue) -> Array:
    """What consumers get next of an accumulator."""
    found = _zeros(accumulator) if sums.scaled is None else sums.scaled
    for add in sums.committed[sums.loaded]:
        found = add(found)
    sums.loaded += 1
    return found


def _zeros(accumulator: SSAValue) -> Array:
    """A sum of nothing."""
    type = accumulator.type
    if not is_in_tmem(type):
        raise InterpreterError("no accumulator")
    return np.zeros(type.shape, format_of(type.element_type).dtype)


def effect_rules(equivalents: EquivalentOps) -> dict[type[Operation], EffectRule]:
    """Operations of tensor memory by class."""
    return {
        tc.CreateAccumulatorOp: _create,
        tc.ProductWarpOp: _product_warp,
        tc.AccumulatorAcquireOp: _acquire,
        tc.AccumulatorCommitOp: _commit,
        tc.Tcgen05DotOp: _multiply(equivalents),
        Tcgen05DotScaledOp: _multiply_scaled(equivalents),
        tc.StageReleaseOp: _release,
        tc.AccumulatorLoadOp: _load,
        tc.AccumulatorClearOp: _clear,
        tc.AccumulatorFillOp: _fill,
        tc.AccumulatorScaleOp: _scale(equivalents),
        tc.CreateLeftOperandOp: _create_left,
        tc.LeftOperandWaitOp: _wait_left,
        tc.LeftOperandReleaseOp: _release_left,
        tc.LeftOperandStoreOp: _store_left,
    }
