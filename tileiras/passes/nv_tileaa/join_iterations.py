"""The pass `join-iterations`: iterations over small tiles become one over a large one.

What a loop carries for each column of a tile may be joined, too: maxima, and sums below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.schedule import REMAINDER, loop_schedule
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import put_in_place
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan
    from tileiras.planning.tiling.joined_iterations import JoinedIterations

COLUMNS = 128
"""Policy: an iteration with scores of fewer columns takes as long for its waits as for its work."""
PART_COLUMNS = 64
"""Policy: the least that an iteration has where a tile is too large for registers."""
ROWS = 64
"""Fixed: rows of a wgmma; of fewer, warps have copies (decision 0026)."""


@dataclass(frozen=True)
class JoinIterationsPass(IrPass):
    """Lets a loop of attention take several small tiles of keys and values at a time, as one.

    Each iteration waits for products, exchanges maxima and scales sums, however few columns its
    scores have. Several iterations as one do so once. What a loop carries has to be known: maxima
    of rows, and sums of powers below them (`planning/tiling/online_sums.py`). They are rounded in
    another order then. What is left has a loop as it was, mostly of one iteration or none; it does
    all where maxima are multiplied by what turns out not to be above zero.

    Scores that are scaled before their maxima are taken are scaled in the powers' exponents
    instead, which are rounded once then: 64 operations of a thread less, of some 540. The maximum
    of the scores times the scale is the same number.

    Where sums are small (heads of 32), a tile is taken in two parts instead, if CTAs of one
    warpgroup have registers for the rows of two then: CTAs that share an SM wait for each other
    less than warpgroups do. So are tiles of keys that leave no registers for probabilities beside
    scores (256 keys), or that would not come to shared memory: in the fewest parts whose products
    run beside powers.

    Loops without products may keep a maximum and sums of each column, and reduce both behind the
    loop. Columns that one access of a thread loads get one maximum and one sum of each instead:
    sums are scaled once for all of them, and powers are one for each column, not two. Sums are
    added in another order. Loops that carry the extremes of rows or columns, and their places, keep
    an extreme of each element of a tile and the iteration that it is of: two or three instructions
    an element and nothing to wait for; what is left of rows is reduced behind the loop. Numbers and
    places are the same: extremes start at no NaN, and the first of equal ones is kept. Loops that
    scan small tiles scan longer ones; what comes before is combined with them in another order. Or
    they compute two iterations side by side, in the same order, so that one works while the other
    one waits.

    Before   for %j in [0, %n) { %s = dot %q, %k[%j];  .. } of 64 keys
             for %j { %m2 = max(%m, %x);  %l2 = %l * exp(%m - %m2) + exp(%x - %m2) } of 1024 columns
             for %j { %p = argmax %x; %h = max %x; %w = %h > %m ? %p : %w; %m = max(%m, %h) }
             for %j { %x = load; scan %x; .. } of 64x64, along rows
             for %j { %x = load; scan %x; .. } of 16x256
    After    for %j in [0, %n / 2 * 2) step 2 { %s = dot %q, %k[%j];  .. } of 128 keys
             for %j in [%n / 2 * 2, %n) { %s = dot %q, %k[%j];  .. } of 64 keys
             for %j { %m2 = max(%m, reduce max %x);  %l2 = %l * exp(%m - %m2) + reduce add exp(%x -
             %m2) } of 128 groups
             for %j { %w = %x > %m ? %j : %w;  %m = max(%m, %x) };  max %m;  first (%w, row) of it
             for %j step 4 { %x = load; scan %x; .. } of 64x256; for what is left { .. }
             for %j step 2 { %x, %y = loads; scan %x; ..; scan %y; .. }; for what is left { .. }
    Requires nv_tileaa, with the strategies of kernels; for products wgmma and TMA
    Leaves   loops whose products would not run beside the powers of another iteration then, or with
             fewer CTAs on an SM; those of few rows, or with powers rounded to 8 bits; tiles in
             parts where maxima are multiplied by what may be less than zero, and stored; kernels
             with several loops, but for scaling; columns that lie apart in memory, or whose maxima
             and sums are used otherwise
    """

    name = "join-iterations"
    title: ClassVar[str] = "Join iterations of attention"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions that gain by it."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or func.two_tiles is not None:
                continue
            if columns := _join_columns(func):
                ctx.remarks.add(_remark(func, columns))
                continue
            if _keep_extremes(func):
                ctx.remarks.add(_remark(func, "each element of a tile has an extreme of its own"))
                continue
            if scans := _join_scans(func):
                ctx.remarks.add(_remark(func, scans))
                continue
            joined = _joined(func, target)
            if joined is not None:
                put_in_place(joined[0], func)
                ctx.remarks.add(_remark(*joined))


def _join_columns(func: aa.FuncOp) -> str | None:
    """Lets loops keep maxima and sums of groups of columns, and says so; None if there is none."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    loops = [loop for loop in loops if any(isinstance(v.type, TensorType) for v in loop.results)]
    if not loops or any(isinstance(op, aa.ProductOp) for op in func.walk()):
        return None
    from tileiras.planning.strategy import drop_strategy
    from tileiras.planning.tiling.online_columns import find_online_columns

    found = [each for each in map(find_online_columns, loops) if each is not None]
    if not found:
        return None
    from tileiras.passes.nv_tileaa.column_groups import keep_groups

    for each in found:
        keep_groups(each)
    drop_strategy(func)
    return f"maxima and sums are those of groups of {found[0].group} columns"


def _keep_extremes(func: aa.FuncOp) -> bool:
    """Lets loops carry extremes of elements, not of rows; whether there are any."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    loops = [loop for loop in loops if any(isinstance(v.type, TensorType) for v in loop.results)]
    if not any(isinstance(op, aa.ReduceOp) for loop in loops for op in loop.body.block.ops):
        return False
    from tileiras.planning.strategy import drop_strategy
    from tileiras.planning.tiling.carried_extremes import find_carried_extremes

    found = [(loop, extremes) for loop in loops if (extremes := find_carried_extremes(loop))]
    if not found:
        return False
    from tileiras.passes.nv_tileaa.element_extremes import keep_elements

    for loop, extremes in found:
        keep_elements(loop, extremes)
    drop_strategy(func)
    return True


def _join_scans(func: aa.FuncOp) -> str | None:
    """Lets iterations scan longer tiles, or puts two side by side, and says so; None for others."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    loops = [loop for loop in loops if any(isinstance(op, aa.ScanOp) for op in loop.body.block.ops)]
    if not loops:
        return None
    from tileiras.planning.strategy import drop_strategy
    from tileiras.planning.tiling.joined_scans import longer_tiles
    from tileiras.planning.tiling.scanned_loops import TOGETHER, scans_side_by_side

    longer = [found for found in map(longer_tiles, loops) if found is not None]
    beside = [] if longer else [loop for loop in loops if scans_side_by_side(loop)]
    if longer:
        from tileiras.passes.nv_tileaa.iteration_builder import join

        for found, count in longer:
            join(found, count)
    if beside:
        from tileiras.passes.nv_tileaa.schedule.unroll import unroll

        for loop in beside:
            unroll(loop, TOGETHER)
            loop.attributes[REMAINDER] = UnitAttr()
    if not longer and not beside:
        return None
    drop_strategy(func)
    if longer:
        return f"{longer[0][1]} iterations that scan small tiles are one over a longer tile"
    return "two iterations that scan tiles run side by side"


def _remark(func: aa.FuncOp, text: str) -> Remark:
    return remark_about(func, JoinIterationsPass.name, "JoinedIterations", text)


def _joined(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, str] | None:
    """A copy with other iterations, and their schedules, and what is said of them; None if it does
    not pay.
    """
    loops = _product_loops(func)
    if not loops or any(loop_schedule(loop) is not None for loop in loops):
        return None
    from tileiras.codegen.target import Feature
    from tileiras.planning.strategy import strategy_of
    from tileiras.planning.tiling.score_parts import (
        PARTS,
        fits_one_warpgroup,
        parts_beside_powers,
    )

    if not (target.has(Feature.WGMMA) and target.has(Feature.TMA)):
        return None

    plan = strategy_of(func, target)
    if func.cluster_size > 1 or (plan is not None and plan.is_in_tmem):
        return None
    if plan is None:
        return _specialised_in_parts(func, target)
    if any(planned.rows < ROWS for planned in plan.dots.values()):
        return None
    scores = [planned.columns for planned in plan.dots.values() if planned.starts_at_zero]
    if not scores:
        return None
    # Where keys are masked in a loop of their own, the others are few.
    count = COLUMNS // max(scores) if len(loops) == 1 else 1
    if count == 1 and len(loops) == 1 and fits_one_warpgroup(plan):
        joined = _joined_by(func, 1, target, partial(_is_shared, plan), PARTS)
        if joined is not None:
            return joined, f"an iteration over a tile is {PARTS}, over a part each"
    while count:
        joined = _joined_by(func, count, target, partial(_is_as_good, plan))
        if joined is not None and count > 1:
            return joined, f"{count} iterations over small tiles are one over a large tile"
        if joined is not None:
            return joined, "maxima are taken of scores before these are scaled"
        count //= 2
    parts = parts_beside_powers(plan, PART_COLUMNS) if len(loops) == 1 else 1
    if parts == 1:
        return None
    return _in_parts(func, parts, target, partial(_is_as_good, plan))


def _specialised_in_parts(func: aa.FuncOp, target: GpuTarget) -> tuple[aa.FuncOp, str] | None:
    """A kernel whose tiles are too large for shared memory, or for registers, in parts."""
    columns = max(shape_of(op.result)[-1] for op in func.walk() if isinstance(op, aa.ProductOp))
    parts = 2
    while columns // parts >= PART_COLUMNS:
        if (joined := _in_parts(func, parts, target, lambda _: True)) is not None:
            return joined
        parts *= 2
    return None


def _in_parts(
    func: aa.FuncOp, parts: int, target: GpuTarget, is_good: Callable[[RolePlan], bool]
) -> tuple[aa.FuncOp, str] | None:
    """A copy that takes tiles in parts whose products run beside powers."""
    joined = _joined_by(func, 1, target, is_good, parts)
    return joined and (joined, f"an iteration over a tile is {parts}, over a part each")


def _joined_by(
    func: aa.FuncOp,
    count: int,
    target: GpuTarget,
    is_good: Callable[[RolePlan], bool],
    parts: int = 1,
) -> aa.FuncOp | None:
    """The same of so many iterations at a time, or of so many parts of one; of a whole one maxima
    are taken before scaling. `is_good` compares its plan with that of the kernel.
    """
    from tileiras.passes.nv_tileaa.iteration_builder import join
    from tileiras.planning.schedule.overlap import overlap_products
    from tileiras.planning.schedule.written import write_overlaps
    from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise

    if not _chosen(func, count, parts):
        return None
    copy = without_strategy(func)
    for found in _chosen(copy, count, parts):
        join(found, count, parts)
    after = would_specialise(copy, target)
    if after is None or not is_good(after):
        return None
    loops = overlap_products(copy, after, target)
    if not all(schedule is not None and schedule.stages > 1 for _, schedule in loops):
        return None
    # Products of f8 are cut into parts first, and then scheduled.
    is_left = not loops and strategy_of(func, target) is None
    return copy if is_left or write_overlaps(loops, after.shape.ctas) else None


def _chosen(func: aa.FuncOp, count: int, parts: int) -> list[JoinedIterations]:
    """The loops that gain by so many iterations at a time, or by parts, and how."""
    from tileiras.planning.tiling.joined_iterations import joined_iterations

    read = (joined_iterations(loop) for loop in _product_loops(func))
    found = [one for one in read if one is not None and _are_computed(one)]
    return [one for one in found if _gains(one, count, parts)]


def _gains(found: JoinedIterations, count: int, parts: int) -> bool:
    """Whether a loop becomes another one, and does the same.

    Maxima of parts, times what may be less than zero, are larger than those of the whole. Powers
    below them are smaller, and sums are scaled by them as before: it shows in maxima alone.
    """
    if parts > 1:
        return not found.factors or all(top.first_use is None for top in found.tops)
    return not found.coarse and (count > 1 or bool(found.scaled))


def _product_loops(func: aa.FuncOp) -> list[aa.ForOp]:
    """The loops that products stand in, if all do."""
    around = dict.fromkeys(op.parent_op() for op in func.walk() if isinstance(op, aa.ProductOp))
    loops = [op for op in around if isinstance(op, aa.ForOp)]
    return loops if len(loops) == len(around) else []


def _are_computed(found: JoinedIterations) -> bool:
    """Whether a left operand of a product is made of another product's result."""
    products = [op for op in found.loop.body.block.ops if isinstance(op, aa.ProductOp)]
    return any(op.lhs in found.dims and op.result not in found.dims for op in products)


def _is_as_good(before: RolePlan, after: RolePlan) -> bool:
    """Whether as many CTAs share an SM, of as many warpgroups."""
    is_shared = after.shape.ctas >= before.shape.ctas
    return is_shared and after.warpgroups == before.warpgroups


def _is_shared(before: RolePlan, after: RolePlan) -> bool:
    """Whether as many warpgroups are of several CTAs that share an SM."""
    together = after.shape.ctas * after.warpgroups >= before.shape.ctas * before.warpgroups
    return together and after.shape.ctas > before.shape.ctas
