"""Which products wgmma computes, and in which way: see `docs/hopper.md`, "Operands"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import BlockArgument, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.transposed_words import is_word_transposable
from tileiras.dialects.layout.wgmma_k_order import SMEM_TRANSPOSE_COLUMNS
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.mma.wgmma import Fragments, dot_family
from tileiras.planning.model.dots import ROWS_PER_WARPGROUP, WgmmaDot
from tileiras.planning.operands.staged import staged_operands, staged_or_why_not
from tileiras.planning.operands.swap_ab import may_be_transposed
from tileiras.planning.resources.cta import MOST_WARPGROUPS

FEW_ROWS = (16, 32)
"""Fixed: rows of a left operand in registers of which the warps of a warpgroup can have copies."""

MOST_HELD = 16
"""Policy: registers of a thread for 64 rows of a left operand that products of a loop read from
registers: those of 64 elements of 16 bits (decision 0050).
"""

_K_IS_STRIDED = "K is not contiguous in memory, and wgmma reads 8- and 32-bit operands along K only"


def wgmma_dot(op: aa.DotOp, *, few_rows: bool = False, holds: bool = False) -> WgmmaDot | str:
    """The product with its operands in shared memory, or why wgmma cannot do it.

    `few_rows`: a left operand of 16 or 32 rows comes from registers, and warps have copies of it.
    `holds`: a left operand loaded in front of the loop stays in registers if it is small.
    """
    shape, depth = shape_of(op.result), shape_of(op.lhs)[-1:]
    family = dot_family(op)
    if len(shape) != 2:
        return "wgmma multiplies no batches"
    if family is None:
        types = f"{element_of(op.lhs)} by {element_of(op.rhs)} into {element_of(op.result)}"
        return f"wgmma does not multiply {types}"
    if depth[0] % family.k:
        return f"K is {depth[0]}, no multiple of wgmma's {family.k}"
    operands = staged_or_why_not(op)
    if isinstance(operands, str):
        return operands
    lhs, rhs = operands.lhs, operands.rhs
    majors = (None if lhs is None else lhs.major_axis, rhs.major_axis)
    ways: dict[tuple[int | None, int], Fragments] = {(0, 0): "lhs", (1, 1): "rhs"}
    if family.operand_bits == 8 and shape[1] % SMEM_TRANSPOSE_COLUMNS == 0:
        ways |= {(None, 1): "smem_transpose", (0, 1): "both"}
    is_direct = family.transposes or majors in ((None, 0), (1, 0))
    if family.operand_bits == 32 and majors == (0, 1):
        words = _transposed_words(WgmmaDot(op, lhs, rhs, family, "both"))
        return words or _K_IS_STRIDED
    if not is_direct and majors not in ways:
        return _K_IS_STRIDED
    fragments = None if is_direct else ways[majors]
    if few_rows and shape[0] in FEW_ROWS and fragments is None:
        is_resident = lhs is None or lhs.load.parent_block() is not op.parent_block()
        if is_resident:
            return WgmmaDot(op, None, rhs, family)
        return f"a left operand of {shape[0]} rows is loaded in the loop"
    planned = WgmmaDot(op, lhs, rhs, family, fragments, fragments == "rhs")
    if holds and _stays_in_registers(planned):
        return replace(planned, lhs=None)
    if planned.rows < ROWS_PER_WARPGROUP and may_be_transposed(planned):
        planned = replace(planned, transposed=True)
    if _is_legal(planned):
        return planned
    rows, columns = shape
    return (
        f"a tile of {rows}x{columns} is no whole number of instructions: wgmma has "
        f"{ROWS_PER_WARPGROUP} rows, and {family.sizes_n[0]} to {family.sizes_n[-1]} columns"
    )


def has_computed_lhs(op: aa.ProductOp) -> bool:
    """Whether the left operand is computed, and the right one comes through a pipeline."""
    operands = staged_operands(op)
    return operands is not None and operands.lhs is None


def is_of_few_rows(op: aa.DotOp) -> bool:
    """Whether the left operand is computed, and has fewer rows than a warpgroup."""
    return has_computed_lhs(op) and shape_of(op.result)[0] in FEW_ROWS


def _stays_in_registers(planned: WgmmaDot) -> bool:
    """Whether its left operand is loaded in front of the loop, and takes few registers.

    The instructions read less of shared memory then, which they share with TMA. But threads that
    load start later than TMA does (`holds_operands`).
    """
    held = shape_of(planned.dot.lhs)[-1] * planned.operand_bits * ROWS_PER_WARPGROUP // (32 * 128)
    return (
        planned.is_lhs_resident
        and planned.fragments is None
        and planned.operand_bits == 16
        and held <= MOST_HELD
        and _is_legal(planned)
    )


def holds_operands(dots: Sequence[aa.ProductOp]) -> bool:
    """Whether products may hold operands that are loaded in front of their loops.

    That is beside computed operands, where threads have registers for such, and where all tile
    blocks have as many iterations.
    """
    loops = dict.fromkeys(op.parent_op() for op in dots)
    return any(map(has_computed_lhs, dots)) and all(
        _is_as_long_for_all(loop) for loop in loops if isinstance(loop, aa.ForOp)
    )


def _is_as_long_for_all(loop: aa.ForOp) -> bool:
    """Whether the bounds of a loop follow from what the kernel is given."""
    pending: list[SSAValue] = [loop.lower_bound, loop.upper_bound, loop.step]
    while pending:
        value = pending.pop()
        if isinstance(value, BlockArgument):
            if not isinstance(value.owner.parent_op(), aa.FuncOp):
                return False
        elif isinstance(value, OpResult):
            loads = aa.GetProgramIdOp | aa.TiledLoadOp | aa.LoadOp
            if value.op.regions or isinstance(value.op, loads):
                return False
            pending += value.op.operands
    return True


def _is_legal(planned: WgmmaDot) -> bool:
    """Whether there are instructions for a product of this size."""
    return planned.rows % ROWS_PER_WARPGROUP == 0 and planned.columns in planned.family.sizes_n


def _transposed_words(planned: WgmmaDot) -> WgmmaDot | None:
    """A product of 32-bit operands of which threads transpose one: that with fewer words, if they
    can.

    The other one is read where it is, but for its place in registers.
    """
    depth, warps = shape_of(planned.dot.lhs)[-1], 4 * MOST_WARPGROUPS
    ways = [planned]
    if not planned.is_lhs_resident:
        ways.append(replace(planned, transposed=True))
    for way in sorted(ways, key=lambda way: way.columns):
        if _is_legal(way) and is_word_transposable((depth, way.columns), warps):
            return way
    return None
