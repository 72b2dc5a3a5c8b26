"""Layouts of nv_tileas in CuTe's notation: of registers, shared memory, tensor memory, and global.

    registers        (thread, value) -> index in the tile, column-major
    memory           coordinate in the tile -> offset in elements, under a swizzle

The texts are those of the cute dialect's types, which reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.shared_operands import PATTERN_BYTES
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.algebra.linear import shared_from_linear
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.memory import MakeMemRefOp
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.types import MemRefType
from tileiras.dialects.nv_tileas.cute_layouts import smem_layout, tmem_layout
from tileiras.dialects.nv_tileas.memdesc import MemDescType, ScaleRowsAttr


def staging_tensor(element: Attribute, layout: LinearLayout) -> str:
    """A tile in shared memory; the bits of its offsets where one swizzle does not say them."""
    try:
        return f"!cute.tensor<{element}, smem, align<16>, {shared_from_linear(layout)}>"
    except AlgebraError:
        return f"{element}, smem, {layout}"


def tile_text(shape: Sequence[int]) -> str:
    """The extents of a tile: `(64,32)`."""
    return text_of(tuple(shape))


def reversed_modes(layout: AnyLayout) -> AnyLayout:
    """The layout of the transposed tile."""
    return on_plain(layout, lambda plain: Layout.of(reversed(list(plain.modes))))


def with_stages(layout: AnyLayout, stages: int, step: int) -> AnyLayout:
    """The layout with one more mode for stages, `step` elements apart."""
    return on_plain(layout, lambda plain: Layout.of([*plain.modes, Layout(stages, step)]))


def on_plain(layout: AnyLayout, change: Callable[[Layout], Layout]) -> AnyLayout:
    """A layout with the one under its swizzle changed."""
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, change(layout.outer))
    return change(layout)


def smem_tensor(
    type: MemDescType,
    offset: int = 0,
    stages: int = 1,
    stage_bytes: int = 0,
    transposed: bool = False,
) -> str:
    """The tensor of a tile in shared memory, with a last mode for stages where there are several.

    `transposed`: as the transposed tile.
    """
    layout = smem_layout(type)
    if layout is None:
        how = "rows of 16" if isinstance(type.encoding, ScaleRowsAttr) else "chunks of 512"
        return f"{type.element_type}, smem, scales {tile_text(type.shape)} in {how} bytes"
    if transposed:
        layout = reversed_modes(layout)
    if stages > 1 and stage_bytes % PATTERN_BYTES == 0:
        step = stage_bytes * 8 // storage_bits(type.element_type)
        layout = with_stages(layout, stages, step)
    align = gcd(offset, PATTERN_BYTES) if offset else PATTERN_BYTES
    return f"!cute.tensor<{type.element_type}, smem, align<{align}>, {layout}>"


def tmem_tensor(type: MemDescType, stages: int = 1, columns: int = 0) -> str:
    """Sums in tensor memory: rows are lanes, blocks of rows lie side by side."""
    layout = tmem_layout(type)
    if layout is None:
        return str(type)
    if stages > 1:
        layout = Layout.of([*layout.modes, Layout(stages, columns)])
    return f"tmem {type.element_type}, {layout}"


def memref_tensor(memref: SSAValue) -> str:
    """A tensor in global memory, with what is proven of its extents and strides."""
    type, made = memref.type, memref.owner
    if not isinstance(type, MemRefType):
        return str(type)
    rank, shape, stride = len(type.shape), (), ()
    own = align = storage_bytes(type.element_type)
    if isinstance(made, MakeMemRefOp):
        shape = made.shape_divisor.data if made.shape_divisor else ()
        stride = made.stride_divisor.data if made.stride_divisor else ()
        proven = made.base_align
        align = proven.value.data if isinstance(proven, IntegerAttr) else align
    layout = Layout(_leaves(type.shape, shape, rank), _leaves(type.strides, stride, rank))
    return f"!cute.tensor<{type.element_type}, gmem, align<{max(own, align)}>, {layout}>"


def _leaves(numbers: Sequence[int], divisors: Sequence[int], rank: int) -> tuple[Leaf, ...]:
    """Static numbers, and `?{div=n}` for those that are not."""
    known = [*divisors, *[1] * (rank - len(divisors))]
    return tuple(
        Dynamic.symbol(UNKNOWN, divisor) if number == DYNAMIC else number
        for number, divisor in zip(numbers, known, strict=True)
    )
