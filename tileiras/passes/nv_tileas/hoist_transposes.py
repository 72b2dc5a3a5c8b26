"""The pass `tileas-hoist-transposes`: tiles are transposed while the product before is running."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class HoistTransposesPass(IrPass):
    """Moves transposes in shared memory up to the product before, with their waits and releases.

    Before   %p = wgmma_dot ..;  %e = mulf ..;  %t = consumer_wait %q;  %u = smem_transpose %t;
             consumer_release %q
    After    %p = wgmma_dot ..;  %t = consumer_wait %q;  %u = smem_transpose %t;
             consumer_release %q;  %e = mulf ..
    Requires nv_tileas; transposes beside the products that read them
    Leaves   transposes whose stage is read once more behind them, by a product or by another
             transpose; those with no product before them in their block
    """

    name = "tileas-hoist-transposes"
    title: ClassVar[str] = "Hoist transposes in shared memory"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Moves the transposes of all functions of the module."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    for transpose in list(_transposes(switch)):
                        _hoist(transpose)


def _transposes(switch: pl.AgentSwitchOp) -> Iterator[wg.SmemTransposeOp]:
    """The transposes of the consumers."""
    for op in switch.consumer.walk():
        if isinstance(op, wg.SmemTransposeOp):
            yield op


def _hoist(transpose: wg.SmemTransposeOp) -> None:
    """Moves a transpose, with all that must be around it, behind the last product before."""
    wait, block = transpose.tile.owner, transpose.parent_block()
    if not isinstance(wait, pl.ConsumerWaitOp) or block is None or wait.parent is not block:
        return
    releases = _releases_behind(transpose)
    before = _product_before(wait)
    if not releases or before is None or _is_read_before(wait, transpose):
        return
    for op in (wait, transpose, *releases):
        op.detach()
        block.insert_op_after(op, before)
        before = op


def _releases_behind(op: Operation) -> list[Operation]:
    """The stages that go back at once behind an operation."""
    found: list[Operation] = []
    behind = op.next_op
    while isinstance(behind, pl.ConsumerReleaseOp):
        found.append(behind)
        behind = behind.next_op
    return found


def _product_before(op: pl.ConsumerWaitOp) -> Operation | None:
    """The last product in front of an operation of a block; none where a loop stands between.

    The loop takes stages, and in its order.
    """
    before = op.prev_op
    while before is not None and not isinstance(before, wg.WgmmaDotOp):
        if any(isinstance(inner, pl.ConsumerWaitOp) for inner in before.walk()):
            is_other = isinstance(before, pl.ConsumerWaitOp) and before.pipeline is not op.pipeline
            if not is_other:
                return None
        before = before.prev_op
    return before


def _is_read_before(wait: pl.ConsumerWaitOp, transpose: wg.SmemTransposeOp) -> bool:
    """Whether something else reads tiles of the stage between the wait and the transpose.

    The stage would go back before it.
    """
    op = wait.next_op
    while op is not None and op is not transpose:
        if any(operand.owner is wait for inner in op.walk() for operand in inner.operands):
            return True
        op = op.next_op
    return False
