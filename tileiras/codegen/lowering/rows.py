"""Tiles in shared memory row-major, and visits of one thread, in rounds where that is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.lowering.addressing import coordinates
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import load_tile, memory_element, memory_form, store_tile
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import (
    register_representatives,
    storage_bytes,
    vector_elements,
)
from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of

ROUND_BYTES = 16 * 1024
"""What a round puts into shared memory."""

Visit = Callable[[SSAValue, SSAValue, int], None]
"""Builds what the first thread does with `count` elements: (address, number of the first, count)"""


def row_major(shape: Sequence[int]) -> LinearLayout:
    """The shared layout of a tile without gaps or swizzle, last dim fastest."""
    size = 1
    for dim in shape:
        size *= dim
    return LinearLayout.identity("offset", size).reshape(shape)


def store_rows(ctx: KernelLowering, value: SSAValue, layout: LinearLayout) -> SSAValue:
    """Writes a tile row-major to shared memory, where all threads may read it; its address."""
    shared = row_major(layout.shape)
    size = storage_bytes(bit_width(memory_element(scalar_of(value.type))))
    region = ctx.scratch.region(layout.size * size)
    store_tile(ctx, value, region, layout, shared, vector_elements(layout, shared, 8 * size))
    ctx.b.barrier()
    return region


def load_rows(
    ctx: KernelLowering, region: SSAValue, element: Attribute, layout: LinearLayout
) -> SSAValue:
    """Reads what `store_rows` wrote, at the coordinates of `layout`."""
    shared = row_major(layout.shape)
    bits = bit_width(memory_element(element))
    return load_tile(ctx, element, region, layout, shared, vector_elements(layout, shared, bits))


def visit_rows(ctx: KernelLowering, value: SSAValue, layout: LinearLayout, visit: Visit) -> None:
    """The first thread visits all elements, in order."""
    size = bit_width(memory_element(scalar_of(value.type))) // 8
    if layout.size * size <= ROUND_BYTES:
        region = store_rows(ctx, value, layout)
        with ctx.first_thread():
            visit(region, ctx.b.i32(0), layout.size)
        return
    _visit_in_rounds(ctx, memory_form(ctx, value), layout, ROUND_BYTES // size, visit)


def _visit_in_rounds(
    ctx: KernelLowering, value: SSAValue, layout: LinearLayout, count: int, visit: Visit
) -> None:
    """A loop of the whole tile block: threads write the elements of the round, one reads them."""
    b = ctx.b
    size = bit_width(scalar_of(value.type)) // 8
    region = ctx.scratch.region(ROUND_BYTES)
    unique = [r for r, first in enumerate(register_representatives(layout)) if r == first]
    value = b.shuffle(value, None, unique)
    numbers = b.shuffle(coordinates(ctx, layout.reshape((layout.size,)), 0), None, unique)
    lanes = lanes_of(numbers.type) or 1
    owner = ctx.owner(layout)

    def spread(number: int) -> SSAValue:
        return b.splat(b.i32(number), lanes)

    head, done = b.new_block([i32]), b.new_block()
    b.br(head, [b.i32(0)])
    b.at(head)
    turn = head.args[0]
    belongs = b.icmp("eq", b.lshr(numbers, spread(count.bit_length() - 1)), b.splat(turn, lanes))
    place = b.mul(b.and_(numbers, spread(count - 1)), spread(size))
    b.masked_store(value, b.gep(region, place), ctx.both(belongs, owner), size)
    b.barrier()
    with ctx.first_thread():
        visit(region, b.mul(turn, b.i32(count)), count)
    b.barrier()
    following = b.add(turn, b.i32(1))
    last = b.icmp("eq", following, b.i32(layout.size // count))
    b.cond_br(last, done, head, (), [following], no_unroll=True)
    b.at(done)
    ctx.scratch.synchronized()
