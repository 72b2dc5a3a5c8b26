"""Makes a pair of the two CTAs that divide a tile: one instruction multiplies for both.

Each loads its rows of A and half of the columns of B, `halved`, in place of all of them. So it has
more stages, and its tensor core reads less shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, UnitAttr

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.planning.mma.tcgen05_pairs import halves_of
from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise
from tileiras.remarks import Remark, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget


def paired(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, Remark | None]:
    """The kernel for a pair of CTAs, or as it is; a remark where its products could be a pair's."""
    plan = strategy_of(func, target)
    if plan is None or not plan.is_in_tmem or func.pair is not None:
        return func, None
    halves = halves_of(func, plan)
    if isinstance(halves, str):
        return func, _remark(func, RemarkKind.MISSED, f"the CTAs multiply by themselves: {halves}")
    changed = without_strategy(func)
    changed.properties["pair"] = UnitAttr()
    for old, new in zip(func.walk(), changed.walk(), strict=True):
        if isinstance(old, aa.TiledLoadOp) and old in halves:
            new.properties["halved"] = IntAttr(halves[old])
    plan = would_specialise(changed, target)
    if plan is None or not plan.is_in_tmem:
        return func, _remark(func, RemarkKind.MISSED, "the CTAs multiply by themselves: no room")
    text = "two CTAs multiply together: each loads its rows, and half of the columns"
    return changed, _remark(changed, RemarkKind.PASSED, text)


def _remark(func: aa.FuncOp, kind: RemarkKind, text: str) -> Remark:
    return remark_about(func, "form-clusters", "Pair", text, kind=kind)
