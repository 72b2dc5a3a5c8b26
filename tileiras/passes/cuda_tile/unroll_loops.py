"""Short loops that load the same tiles are written out, so that each tile is loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.cuda_tile.effects import is_pure, is_speculatable
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.canonicalization.canonicalize import canonicalize
from tileiras.passes.canonicalization.constants import integer_splat, splat_signed
from tileiras.passes.canonicalization.control_flow import known_trip_count
from tileiras.passes.rewriting import replace_op

if TYPE_CHECKING:
    from xdsl.ir import Block

MOST_TRIPS = 8
"""Policy: iterations that are written out at most."""
MOST_BYTES = 16 << 10
"""Policy: of the tiles that are kept from one loop for another: 32 registers of 128 threads."""


@dataclass(frozen=True)
class UnrollLoopsPass(IrPass):
    """Writes out loops of a few iterations that load what another loop of the block loads as well.

    Before   for %i in (0 to 2) { %a = load(%i); use(%a) };  for %i in (0 to 2) { %b = load(%i) }
    After    %a0 = load(0); use(%a0); %a1 = load(1); use(%a1); %b0 = load(0); %b1 = load(1)
    Requires canonical form; leaves it so, and equal loads for cse to merge.
    Leaves   loops with loops or branches in them, loops of unknown or many iterations, and those
             whose tiles registers would not hold
    """

    name = "unroll-loops"
    title = "Unroll loops that load the same tiles"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        if unroll_loops(op):
            canonicalize(op)


def unroll_loops(root: Operation) -> bool:
    """Writes out all loops that it pays for; returns whether there were any."""
    blocks: dict[Block, list[ct.ForOp]] = {}
    for op in root.walk():
        block = op.parent_block()
        if isinstance(op, ct.ForOp) and block is not None and _is_short(op):
            blocks.setdefault(block, []).append(op)
    chosen: dict[ct.ForOp, None] = {}
    for loops in blocks.values():
        for position, second in enumerate(loops):
            for first in loops[:position]:
                if _is_worth_it(first, second):
                    chosen.update({first: None, second: None})
    around = dict.fromkeys(loop.parent_block() for loop in chosen)
    for loop in chosen:
        _write_out(loop)
    for block in around:
        if block is not None:
            _advance_loads(block)
    return bool(chosen)


_PRODUCTS = (ct.MmaFOp, ct.MmaFScaledOp, ct.MmaIOp)


def _is_short(loop: ct.ForOp) -> bool:
    """Whether the loop has a few iterations of straight code."""
    trips = known_trip_count(loop)
    if trips is None or not 1 < trips <= MOST_TRIPS:
        return False
    ops = list(loop.body.block.ops)
    if any(isinstance(op, _PRODUCTS) for op in ops):
        return False
    plain = all(not op.regions or isinstance(op, ct.ReduceOp | ct.ScanOp) for op in ops)
    return plain and isinstance(ops[-1], ct.ContinueOp)


def _is_worth_it(first: ct.ForOp, second: ct.ForOp) -> bool:
    """Whether the second loop loads tiles of the first one, and registers can hold them."""
    trips = known_trip_count(first)
    if trips is None or trips != known_trip_count(second):
        return False
    bounds = zip(first.operands[:3], second.operands[:3], strict=True)
    if any(splat_signed(one) != splat_signed(other) for one, other in bounds):
        return False
    compare = _Comparison(first, second)
    earlier, total = _weak_loads(first), 0
    for load in _weak_loads(second):
        if any(compare.are_equal_loads(before, load) for before in earlier):
            total += trips * _bytes(load)
    return 0 < total <= MOST_BYTES


def _weak_loads(loop: ct.ForOp) -> list[Operation]:
    """The weak loads of a body."""
    return [op for op in loop.body.block.ops if _is_weak_load(op)]


def _is_weak_load(op: Operation) -> bool:
    return (
        isinstance(op, ct.LoadPtrTkoOp | ct.LoadViewTkoOp)
        and op.memory_ordering_semantics.data == MemoryOrdering.WEAK
    )


def _bytes(load: Operation) -> int:
    """Bytes of a loaded tile."""
    tile = load.results[0].type
    return prod(tile.shape) * storage_bytes(tile.element_type) if isinstance(tile, TileType) else 0


class _Comparison:
    """Whether values of two bodies are the same in the same iteration."""

    def __init__(self, first: ct.ForOp, second: ct.ForOp):
        self.blocks = first.body.block, second.body.block
        self.known: dict[tuple[SSAValue, SSAValue], bool] = {}

    def are_equal_loads(self, first: Operation, second: Operation) -> bool:
        """Loads of the same elements, behind the same token."""
        return self._are_alike(first, second)

    def _are_alike(self, first: Operation, second: Operation) -> bool:
        if type(first) is not type(second) or first.properties != second.properties:
            return False
        if [r.type for r in first.results] != [r.type for r in second.results]:
            return False
        if first.regions or len(first.operands) != len(second.operands):
            return False
        return all(
            self._are_equal(one, other)
            for one, other in zip(first.operands, second.operands, strict=True)
        )

    def _are_equal(self, first: SSAValue, second: SSAValue) -> bool:
        if first is second:
            return True
        if (first, second) == (self.blocks[0].args[0], self.blocks[1].args[0]):
            return True
        known = self.known.get((first, second))
        if known is None:
            known = self.known[(first, second)] = self._are_made_alike(first, second)
        return known

    def _are_made_alike(self, first: SSAValue, second: SSAValue) -> bool:
        if not isinstance(first, OpResult) or not isinstance(second, OpResult):
            return False
        if first.index != second.index or not is_pure(first.op):
            return False
        return self._are_alike(first.op, second.op)


def _write_out(loop: ct.ForOp) -> None:
    """Puts the iterations in the place of the loop."""
    trips, around = known_trip_count(loop), loop.parent_block()
    lower, step = splat_signed(loop.lower_bound), splat_signed(loop.step)
    if trips is None or lower is None or step is None or around is None:
        return
    block = loop.body.block
    carried: Sequence[SSAValue] = list(loop.init_values)
    for number in range(trips):
        counter = _constant(loop, lower + number * step)
        around.insert_op_before(counter, loop)
        values: dict[SSAValue, SSAValue] = {block.args[0]: counter.results[0]}
        values.update(zip(block.args[1:], carried, strict=True))
        for op in block.ops:
            if isinstance(op, ct.ContinueOp):
                carried = [values.get(value, value) for value in op.operands]
            else:
                around.insert_op_before(op.clone(values), loop)
    replace_op(loop, carried)


def _advance_loads(block: Block) -> None:
    """Moves weak loads in front of the first reduction, with what computes their addresses.

    They are under way while the reduction waits for what it reduces, and stores come after them.
    Those that an assertion or a branch out of the block may keep from being executed stay.
    """
    ops = list(block.ops)
    place = next((op for op in ops if isinstance(op, ct.ReduceOp)), None)
    if place is None:
        return
    late = dict.fromkeys(takewhile(_goes_on, ops[ops.index(place) :]))
    room = MOST_BYTES
    for load in [op for op in late if _is_weak_load(op)]:
        needed: dict[Operation, None] = {}
        room -= _bytes(load)
        if room < 0:
            return
        if not _collect(load, late, needed):
            continue
        for op in needed:
            op.detach()
            block.insert_op_before(op, place)
            del late[op]


def _goes_on(op: Operation) -> bool:
    """Whether what follows an operation is executed in any case.

    Pointers behind it may be valid only if it is. Loops that `break` ends count as ones without
    end, and so may a `for` in a branch: what the terminators in there leave is not looked up.
    """
    leaving = (ct.ReturnOp, ct.AssertOp, ct.BreakOp)
    if isinstance(op, ct.IfOp):
        leaving = (*leaving, ct.ContinueOp)
    return not isinstance(op, ct.LoopOp) and not any(isinstance(o, leaving) for o in op.walk())


def _collect(op: Operation, late: dict[Operation, None], needed: dict[Operation, None]) -> bool:
    """Adds an operation behind all of `late` that it reads; False if some of these must stay."""
    for value in op.operands:
        owner = value.owner
        if not isinstance(owner, Operation) or owner not in late or owner in needed:
            continue
        if owner.regions or not is_speculatable(owner) or not _collect(owner, late, needed):
            return False
    needed[op] = None
    return True


def _constant(loop: ct.ForOp, number: int) -> Operation:
    """A value of the loop's counter."""
    type = loop.lower_bound.type
    value = integer_splat(type, number)
    if value is None:
        raise InternalError("the counter of a loop has a type without constants")
    properties = {"value": value}
    return ct.ConstantOp.create(result_types=[type], properties=properties, location=loop.location)
