"""The pass `join-lock-sharers`: one CTA runs tile blocks that take the same lock.

    for %i {                                   for %i {
      %x = load %a[%pid, %i]                     %x0 = load %a[%p0, %i]; %x1 = load %a[%p1, %i]
      loop { take %lock }               ->       loop { take %lock }
      %c = load %out[%i]                         %c = load %out[%i]
      store %c + %x, %out[%i]                    store (%c + %x0) + %x1, %out[%i]
      give %lock back }                          give %lock back }

Tile blocks with the same lock go through their sections one after another, and what a section costs
are its trips to memory. Here it has as many as before, for several tile blocks.

Where sections only add to sums, as this one does, there are as many CTAs as find room on the GPU.
Each goes through its tile blocks, adds up what they would add in shared memory, and takes the lock
for all of them in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.planning.lock_sums import LockSums


@dataclass(frozen=True)
class JoinLockSharersPass(IrPass):
    """Runs tile blocks that take the same lock in every iteration in one CTA, in one section.

    Before   %g = remi %pid, %m; for %i { P(%pid, %i); take lock(%g); S(%i); give back }
    After    if enough tile blocks are left { for %i { P(%p0, %i); P(%p1, %i) ..; take lock(%g);
             S0(%i); S1(%i) .. in registers; give back } } else { as before }
             or, where S adds to sums: for %p of this CTA { for %i { P(%p, %i); add to
             what is kept } }; for %i { take lock(%g); add what is kept; give back }
    Requires nv_tileaa
    Leaves   kernels that do more than read and write tiles beside the section; sections that go to
             different places; tiles of which registers hold no two; what is left of the grid
    """

    name = "join-lock-sharers"
    title: ClassVar[str] = "Run tile blocks that share a lock in one CTA"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions with a loop that waits in a loop."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or not _has_lock(func):
                continue
            from tileiras.planning.lock_sharers import find_lock_sharers

            if (found := find_lock_sharers(func)) is None:
                continue
            from tileiras.planning.lock_sums import find_lock_sums

            sums = find_lock_sums(found, ctx.require_target())
            if sums is None:
                from tileiras.passes.nv_tileaa.lock_sharer_grids import JoinedGrid

                JoinedGrid(func, found).run()
            else:
                from tileiras.passes.nv_tileaa.lock_sums_grid import SummedGrid

                SummedGrid(func, found, sums).run()
            func.properties["lock_sharers"] = IntegerAttr(found.together, i32)
            if sums is not None:
                func.properties["sharer_ctas"] = IntegerAttr(sums.ctas_of_sm, i32)
            ctx.remarks.add(_remark(func, found.together, sums))


def _has_lock(func: aa.FuncOp) -> bool:
    """Whether a loop in a loop of the function's body might wait for a lock."""
    loops = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    return any(isinstance(op, aa.LoopOp) for loop in loops for op in loop.body.block.ops)


def _remark(func: aa.FuncOp, together: int, sums: LockSums | None) -> Remark:
    said = f"a CTA runs {together} tile blocks that take the same lock, once for all of them"
    if sums is not None:
        said = (
            f"CTAs that find room at once run the tile blocks, {together} side by side, and add up "
            f"{sums.count} tiles of a row before they take the lock"
        )
    return remark_about(func, JoinLockSharersPass.name, "LockSharers", said)
