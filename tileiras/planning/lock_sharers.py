"""Kernels whose tile blocks take a lock in every iteration, and which of them take the same one.

    %g = remi %pid, %m; %lock = f(%g)
    for %i { P(%i); loop { atomic_cas %lock .. acquire }; S(%i); atomic_rmw xchg %lock .. release }

Tile blocks whose numbers differ by a multiple of %m have the same lock, and their sections go to
the same places. One CTA may run some of them side by side and take the lock once for all of them:
that they come to it one right after another is one of the ways in which things can happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.analysis.register_pressure import tensor_words
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.planning.critical_sections import Section, are_kept_in_registers, place_of_access
from tileiras.planning.locked_loops import Access, carries_tokens, is_plain, locked_section

MOST_TILE_BLOCKS = 4
"""Policy: tile blocks that a CTA runs side by side (decision 0035 has the measurements)."""
MOST_WORDS = 12288
"""Policy: registers of a CTA for the tiles that one iteration of all of them loads."""
AXES = range(3)


@dataclass(frozen=True)
class LockSharers:
    """A kernel whose tile blocks `c, c + m, c + 2 m ..` along an axis take the same lock.

    `divisor` is m; None if all of an axis take the same. `varying`: what differs between them.
    `shared`: operations of the kernel that all of them may do at once, before anything else.
    """

    loop: aa.ForOp
    before: tuple[Operation, ...]
    section: Section
    axis: int
    divisor: SSAValue | None
    varying: frozenset[SSAValue]
    shared: frozenset[Operation]
    together: int

    def accesses(self) -> list[Access]:
        """What an iteration of the loop with the lock reads and writes."""
        return [op for op in (*self.before, *self.section.body) if isinstance(op, Access)]

    def differs(self, op: Operation) -> bool:
        """Whether an operation does something else in each of the tile blocks."""
        values = _values(op.results) or [v for inner in op.walk() for v in inner.operands]
        return any(value in self.varying for value in values)


def find_lock_sharers(func: aa.FuncOp) -> LockSharers | None:
    """The kernel as one of such tile blocks, None if they must not be run side by side."""
    waits = [op for op in func.walk() if isinstance(op, aa.LoopOp)]
    loop = waits[0].parent_op() if len(waits) == 1 else None
    if not isinstance(loop, aa.ForOp) or loop.parent_op() is not func:
        return None
    parsed = locked_section(loop)
    if parsed is None or not carries_tokens(loop):
        return None
    before, section = parsed
    others = [op for op in func.body.block.ops if op is not loop]
    if not all(map(_may_interleave, others)) or not are_kept_in_registers(section):
        return None
    for axis in AXES:
        for divisor in _divisors(func, axis):
            varying = _varying(func, axis, divisor)
            shared = _shared(func, varying, axis)
            owner = None if divisor is None else divisor.owner
            if isinstance(owner, Operation) and owner not in shared:
                continue
            if _share(loop, before, section, varying):
                together = _together(before, section, varying)
                found = LockSharers(loop, before, section, axis, divisor, varying, shared, together)
                return found if together > 1 else None
    return None


def _shared(func: aa.FuncOp, varying: frozenset[SSAValue], axis: int) -> frozenset[Operation]:
    """Operations without effect on what is the same for all, and on nothing from memory."""
    found: set[Operation] = set()
    for op in func.body.block.ops:
        is_early = op.has_trait(Pure) or isinstance(op, aa.CreateMemTokenOp)
        if not is_early or op.regions or any(value in varying for value in op.results):
            continue
        owners = [v.owner for v in op.operands if not isinstance(v, BlockArgument)]
        if all(owner in found or is_number(owner, axis) for owner in owners):
            found.add(op)
    return frozenset(found)


def _may_interleave(op: Operation) -> bool:
    """Whether an operation waits for nobody, so that others of a CTA may come in between."""
    if isinstance(op, aa.ForOp):
        inside = [inner for inner in op.body.block.ops if not isinstance(inner, aa.ContinueOp)]
        return all(_may_interleave(inner) and not isinstance(inner, aa.ForOp) for inner in inside)
    if isinstance(op, aa.ReduceOp):
        return all(inner.has_trait(Pure) or isinstance(inner, aa.YieldOp) for inner in _inner(op))
    return isinstance(op, aa.ReturnOp) or is_plain(op)


def _inner(op: Operation) -> list[Operation]:
    return [inner for inner in op.walk() if inner is not op]


def is_number(op: Operation | Block, axis: int) -> bool:
    """Whether an operation gives the number of the tile block along an axis."""
    return isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == axis


def _divisors(func: aa.FuncOp, axis: int) -> list[SSAValue | None]:
    """What numbers of tile blocks are divided by for a remainder, and none."""
    found: dict[SSAValue | None, None] = {}
    for op in func.body.block.ops:
        if isinstance(op, aa.RemIOp) and op.rhs.type == i32 and _is_number_value(op.lhs, axis):
            found[op.rhs] = None
    return [*found, None]


def _is_number_value(value: SSAValue, axis: int) -> bool:
    return is_number(value.owner, axis)


def _varying(func: aa.FuncOp, axis: int, divisor: SSAValue | None) -> frozenset[SSAValue]:
    """What is different in tile blocks whose numbers have the same remainder; tokens aside."""
    found: set[SSAValue] = set()

    def follow(block: Block) -> None:
        for op in block.ops:
            is_remainder = isinstance(op, aa.RemIOp) and op.rhs is divisor
            if is_remainder and _is_number_value(op.operands[0], axis):
                continue
            if isinstance(op, aa.ForOp):
                _follow_loop(op)
            elif is_number(op, axis) or _uses(op, found):
                found.update(_values(op.results))

    def _follow_loop(loop: aa.ForOp) -> None:
        body = loop.body.block
        follow(body)
        inits = any(value in found for value in loop.init_values)
        if inits or any(_uses(op, found) for op in body.ops):
            found.update(_values(body.args[1:]), _values(loop.results))
            follow(body)

    follow(func.body.block)
    return frozenset(found)


def _uses(op: Operation, values: set[SSAValue]) -> bool:
    return any(value in values for inner in op.walk() for value in inner.operands)


def _values(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [value for value in values if not isinstance(value.type, MemTokenType)]


def _share(
    loop: aa.ForOp, before: Sequence[Operation], section: Section, varying: frozenset[SSAValue]
) -> bool:
    """Whether tile blocks have the same lock and places, loops as long, and not the same tiles."""
    func = loop.parent_op()
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)] if func is not None else []
    fixed = [value for op in loops for value in (op.lower_bound, op.upper_bound, op.step)]
    for op in (section.acquire, section.release):
        fixed += [value for inner in op.walk() for value in inner.operands]
    body = set(section.body)
    for access in section.accesses():
        for part in place_of_access(access) or ():
            values = part.operands if isinstance(part, Operation) else [part]
            fixed += [value for value in values if isinstance(value, SSAValue)]
    fixed = _values(fixed)
    if any(value in varying or (value.owner in body and _is_read(value)) for value in fixed):
        return False
    return any(value in varying for op in (*before, *section.body) for value in op.operands)


def _is_read(value: SSAValue) -> bool:
    """Whether a value of a section is more than a constant, or a view of memory."""
    return not isinstance(value.owner, aa.ConstantOp | aa.BlockTileOp)


def _together(before: Sequence[Operation], section: Section, varying: frozenset[SSAValue]) -> int:
    """As many tile blocks as registers hold what an iteration loads for all of them."""
    each = common = 0
    for op in (*before, *section.body):
        if isinstance(op, aa.TiledLoadOp) and isinstance(op.result.type, TensorType):
            if op.result in varying:
                each += tensor_words(op.result.type)
            else:
                common += tensor_words(op.result.type)
    together = MOST_TILE_BLOCKS
    while together > 1 and common + together * each > MOST_WORDS:
        together //= 2
    return together
