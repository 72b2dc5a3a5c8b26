"""Products into tensor memory, at nv_tileas: their warp role runs to its end, then the consumers.

It reads stages as consumers of other kernels do. What a loop of products has summed up is there
when it has been committed, and is loaded in the same order, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.memdesc import is_in_tmem
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotScaledOp
from tileiras.interpreter.equivalent_ops import EquivalentOps
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, format_of
from tileiras.interpreter.state import BlockRun, EffectRule
from tileiras.interpreter.tensor_rules import scaled_dot_rule
from tileiras.interpreter.thread_rules import WholeTiles, dot_rule, placed


@dataclass
class Sums:
    """An accumulator: what has been committed, and the tile that products add to."""

    committed: list[Array] = field(default_factory=list[Array])
    open: Array | None = None
    loaded: int = 0


def _create(run: BlockRun, op: tc.CreateAccumulatorOp) -> list[Any]:
    return [Sums()]


def _agent(run: BlockRun, op: tc.ProductAgentOp) -> list[Any]:
    """Its program runs where the warps part: `run_product_roles`."""
    return []


def run_product_roles(run: BlockRun, switch: Operation) -> None:
    """The programs of the warp roles beside a switch, once its producer is done."""
    block = switch.parent_block()
    for op in block.ops if block is not None else ():
        if isinstance(op, tc.ProductAgentOp):
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
    if sums.open is not None:
        raise InterpreterError("the sum before has not been committed", op)
    type = op.accumulator.type
    if not is_in_tmem(type):
        raise InterpreterError("no accumulator", op)
    sums.open = np.zeros(type.shape, format_of(type.element_type).dtype)
    return []


def _commit(run: BlockRun, op: tc.AccumulatorCommitOp) -> list[Any]:
    sums: Sums = run.value(op.accumulator)
    if sums.open is None:
        raise InterpreterError("a sum is committed that nobody has begun", op)
    sums.committed.append(sums.open)
    sums.open = None
    return []


def _multiply(equivalents: EquivalentOps) -> EffectRule:
    def multiply(run: BlockRun, op: tc.Tcgen05DotOp) -> list[Any]:
        """Adds the product of two tiles in stages."""
        sums: Sums = run.value(op.accumulator)
        if sums.open is None:
            raise InterpreterError("a product is issued into a sum that nobody has begun", op)
        tiles = WholeTiles(run, op)
        operands = (tiles.value(op.lhs), tiles.value(op.rhs))
        sums.open = dot_rule(equivalents)(op, *operands, sums.open)
        return []

    return multiply


def _multiply_scaled(equivalents: EquivalentOps) -> EffectRule:
    def multiply(run: BlockRun, op: Tcgen05DotScaledOp) -> list[Any]:
        """Adds the product of two tiles in stages with the scales beside them."""
        sums: Sums = run.value(op.accumulator)
        if sums.open is None:
            raise InterpreterError("a product is issued into a sum that nobody has begun", op)
        tiles = WholeTiles(run, op)
        lhs, rhs, *scales = map(tiles.value, (op.lhs, op.rhs, op.lhs_scale, op.rhs_scale))
        sums.open = scaled_dot_rule(equivalents)(op, lhs, rhs, sums.open, *scales)
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
    found = sums.committed[sums.loaded]
    sums.loaded += 1
    if not bool(np.asarray(run.value(op.any)).all()):
        found = np.zeros(found.shape, format_of(element_of(op.result)).dtype)
    return placed(op, [found])


def effect_rules(equivalents: EquivalentOps) -> dict[type[Operation], EffectRule]:
    """Operations of tensor memory by class."""
    return {
        tc.CreateAccumulatorOp: _create,
        tc.ProductAgentOp: _agent,
        tc.AccumulatorAcquireOp: _acquire,
        tc.AccumulatorCommitOp: _commit,
        tc.Tcgen05DotOp: _multiply(equivalents),
        Tcgen05DotScaledOp: _multiply_scaled(equivalents),
        tc.StageReleaseOp: _release,
        tc.AccumulatorLoadOp: _load,
    }
