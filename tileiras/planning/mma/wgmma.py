"""Which wgmma instructions compute a product, and what they take beside the accumulator."""

from __future__ import annotations

from typing import Literal

from xdsl.dialects.builtin import TensorType

from tileiras.codegen.atoms.element_names import wgmma_accumulator, wgmma_operand
from tileiras.codegen.atoms.wgmma import WgmmaFamily, find_wgmma_family
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import (
    M16N8K8_TF32,
    M16N8K16_F16,
    M16N8K32_S8,
    mma_operand_layout,
)
from tileiras.dialects.layout.mma import wgmma_accumulator as wgmma_tile
from tileiras.dialects.layout.wgmma_k_order import smem_transposed_fragments
from tileiras.dialects.layout.wgmma_rows import register_rows_accumulator
from tileiras.dialects.nv_tileaa.types import element_of

Fragments = Literal["lhs", "rhs", "smem_transpose", "both"] | None

_FRAGMENTS = {8: M16N8K32_S8, 16: M16N8K16_F16, 32: M16N8K8_TF32}
"""A warp's 16 rows of the left operand, by the bits of an element, are those of mma.sync."""


def dot_family(op: aa.DotOp) -> WgmmaFamily | None:
    """The instructions for the element types, None if the hardware has none."""
    return find_wgmma_family(
        wgmma_accumulator(element_of(op.result)),
        wgmma_operand(element_of(op.lhs), _is_unsigned(op.signedness_lhs)),
        wgmma_operand(element_of(op.rhs), _is_unsigned(op.signedness_rhs)),
    )


def is_two_level(op: aa.DotOp, family: WgmmaFamily) -> bool:
    """Whether each K tile is summed up by itself and then added in f32.

    The accumulation of f8 products inside Hopper's tensor cores keeps about 14 bits of an f32
    accumulator, which `fast_acc` allows.
    """
    is_f8 = family.operand_bits == 8 and not family.is_integer
    return is_f8 and family.accumulator == "f32" and op.fast_acc is None


def left_fragments(
    shape: tuple[int, ...], family: WgmmaFamily, fragments: Fragments, warpgroups: int
) -> LinearLayout:
    """Where the elements of a left operand in registers lie."""
    if fragments == "smem_transpose":
        return smem_transposed_fragments(shape, warpgroups)
    rows = _FRAGMENTS[family.operand_bits]
    return mma_operand_layout(rows.a, shape, (4 * warpgroups, 1), "A")


def accumulator_layout(
    shape: tuple[int, ...],
    family: WgmmaFamily,
    fragments: Fragments,
    warpgroups: int,
    transposed: bool,
) -> LinearLayout:
    """Where the threads hold a result of `shape`; see `dialects/layout/wgmma_rows`."""
    rows, columns = shape
    bits = family.operand_bits
    match fragments:
        case "lhs" | "both" if not transposed:
            return register_rows_accumulator((rows, columns), bits, warpgroups)
        case "lhs" | "rhs" | "both":
            return register_rows_accumulator((columns, rows), bits, warpgroups).permute((1, 0))
        case _ if transposed:
            return wgmma_tile((columns, rows), warpgroups).permute((1, 0))
        case "smem_transpose" | None:
            return wgmma_tile(shape, warpgroups)


def accumulator_registers(
    op: aa.DotOp, family: WgmmaFamily, warpgroups: int, *, by_columns: bool = False
) -> int:
    """32-bit registers of one thread for the result; `by_columns`: warpgroups share columns."""
    rows, columns = op.result.type.get_shape() if isinstance(op.result.type, TensorType) else (0, 0)
    least = 0 if by_columns else 64 * columns
    elements = max(rows * columns // warpgroups, least) // 128
    return elements // 2 if family.accumulator == "f16" else elements


def _is_unsigned(signedness: SignednessAttr | None) -> bool:
    return signedness is not None and signedness.data is Signedness.UNSIGNED
