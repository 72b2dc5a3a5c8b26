"""Tiles gathered into the pipeline by cp.async, chunk by chunk, in the layout that wgmma reads.

The threads' arrivals at the full barrier wait for their copies (`cp.async.mbarrier.arrive`).
cp.async writes through the generic proxy and wgmma reads through the async proxy, so consumers pass
a proxy fence between the barrier and the product (PTX ISA, "Async proxy"; it may stand anywhere on
the path: "Proxy-preserved base causality order").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.pointers import pointee_of
from tileiras.codegen.lowering.types import storage_bits, storage_bytes
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import OffsetTerms, offset_terms
from tileiras.dialects.layout.shared import row_major, swizzle
from tileiras.dialects.llvm.arithmetic import AndOp
from tileiras.dialects.llvm.types import integer_type
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError

CACHES = {16: "cg", 8: "ca", 4: "ca"}
"""The way of so many bytes: past L1 where there is a choice."""
MOST_BITS = 16
"""Bits of a vector that LLVM keeps in predicates."""
MOST_PREDICATES = 8
"""Policy: masks of an iteration that may be predicates. With 16 as such, f16 experts of the
client's order take 981 us, as bits 974; with 8 fp8 experts of 128x256 496 and 510 (H200).
"""
WORD_BITS = 32


def panel_layout(
    shape: tuple[int, ...], axis: int, element_bits: int, row_bytes: int = SWIZZLE_BYTES
) -> LinearLayout:
    """ "offset" in elements -> coordinates, as TMA would write the tile with `axis` contiguous.

    Panels of one swizzle span, `row_bytes` along `axis`, lie one behind the other, each row after
    row, swizzled.
    """
    span = row_bytes * 8 // element_bits
    others = [dim for dim in reversed(range(len(shape))) if dim != axis]
    plain = row_major(shape, (axis, *others))
    along = shape[axis].bit_length() - 1
    inner = span.bit_length() - 1
    bases = plain.vectors("offset")
    panels = LinearLayout.from_index_bases(
        {"offset": (*bases[:inner], *bases[along:], *bases[inner:along])}, shape
    )
    chunk = (128 // element_bits).bit_length() - 1
    chunks = (row_bytes // 16).bit_length() - 1
    return panels.compose(swizzle(chunks, chunk, 3, plain.size))


def chunk_offsets(
    layout: LinearLayout, axis: int, element_bits: int, row_bytes: int = SWIZZLE_BYTES
) -> OffsetTerms:
    """Where the elements that a thread points to lie in the stage, in elements."""
    return offset_terms(layout, panel_layout(layout.shape, axis, element_bits, row_bytes))


def lower_gather_load(ctx: KernelLowering, op: Operation) -> None:
    """Every thread copies its chunks; a false mask copies nothing and writes zeros."""
    if not isinstance(op, pl.GatherLoadOp) or not isinstance(op.pointers.type, TensorType):
        raise InternalError("the rule of gather_load got another operation")
    b, pipeline = ctx.b, ctx.roles.pipeline(op.pipeline)
    pointee = pointee_of(ctx, op.pointers)
    layout = ctx.layout(op.pointers.type)
    terms = chunk_offsets(layout, op.axis.data, storage_bits(pointee), op.swizzle.data)
    size = storage_bytes(pointee)
    bytes_ = op.vector.data * size
    stage, _ = pipeline.position(ctx)
    address = b.gep(pipeline.stage_address(b, stage.get(b)), op.offset.data)
    base = b.mul(ctx.threads.linear(terms.lane, terms.warp), b.i32(size))
    addresses, leaders = ctx.value(op.pointers), run_leaders(layout, op.axis.data, op.run.data)
    mask = None if op.mask is None else ctx.value(op.mask)
    ignored = _ignored(ctx, mask, len(leaders), len(leaders) * _gathers_beside(op))
    shared = thread_bits(terms)
    disjoint = not shared & _register_bits(terms)
    places: dict[int, SSAValue] = {}
    for register, offset in enumerate(terms.register):
        if disjoint:
            place = b.add(base, b.i32(offset * size))
            target = b.gep(address, b.zext(place, integer_type(64)))
        else:
            mixed = offset & shared
            if mixed not in places:
                place = b.xor(base, b.i32(mixed * size))
                places[mixed] = b.gep(address, b.zext(place, integer_type(64)))
            target = b.gep(places[mixed], (offset - mixed) * size)
        leader, distance = leaders[register]
        source = b.inttoptr(b.extract(addresses, leader), ctx.pointer)
        source = b.gep(source, distance * size) if distance else source
        b.cp_async(
            target,
            source,
            bytes_,
            CACHES[bytes_],
            ignore=ignored[register],
        )


def _ignored(
    ctx: KernelLowering, mask: SSAValue | None, count: int, copies: int
) -> Sequence[SSAValue | None]:
    """For each copy whether it is masked off; `copies` are those of all tiles of an iteration.

    What is known before the loop (which rows there are) is bits of a word where that are many: so
    many predicates are packed and unpacked, one after another, in front of the copies. LLVM keeps
    long vectors of bits in words, too, from which each is taken by three instructions: they are
    computed one by one.
    """
    b = ctx.b
    if mask is None:
        return [None] * count
    parts = list(_conjunction(mask))
    known = [part for part in parts if _is_known_before(ctx, part)]
    others = [part for part in parts if part not in known]
    if not known or not others or not MOST_PREDICATES < copies <= WORD_BITS:
        if count <= MOST_BITS:
            ignored = b.not_(mask)
            return [b.extract(ignored, number) for number in range(count)]
        return [b.not_(_part(ctx, mask, number)) for number in range(count)]
    word = reduce(b.and_, [_as_word(ctx, part, count) for part in known])
    found: list[SSAValue] = []
    for number in range(count):
        bit = b.icmp("ne", b.and_(word, b.i32(1 << number)), b.i32(0))
        found.append(b.not_(reduce(b.and_, [bit, *(b.extract(part, number) for part in others)])))
    return found


def _gathers_beside(op: Operation) -> int:
    """How many tiles are gathered in an iteration."""
    block = op.parent_block()
    return 0 if block is None else sum(isinstance(each, pl.GatherLoadOp) for each in block.ops)


def _conjunction(mask: SSAValue) -> Iterator[SSAValue]:
    """The masks of which all have to hold."""
    if isinstance(mask.owner, AndOp):
        for operand in mask.owner.operands:
            yield from _conjunction(operand)
    else:
        yield mask


def _is_known_before(ctx: KernelLowering, value: SSAValue) -> bool:
    """Whether a value is made in another block than the one that is being written: the loop's."""
    return _block_of(value) is not ctx.b.block


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent_block()


def _as_word(ctx: KernelLowering, bits: SSAValue, count: int) -> SSAValue:
    """An i32 with a bit for each of a vector's, made where the vector is."""
    b, block = ctx.b, _block_of(bits)
    if block is None:
        raise InternalError("a mask stands in no block", where="gathers")
    outer, before = b.block, b.before
    owner = bits.owner
    b.block, b.before = block, owner.next_op if isinstance(owner, Operation) else block.first_op
    ones = [
        b.select(b.extract(bits, number), b.i32(1 << number), b.i32(0)) for number in range(count)
    ]
    word = reduce(b.or_, ones)
    b.block, b.before = outer, before
    return word


def _part(ctx: KernelLowering, bits: SSAValue, number: int) -> SSAValue:
    """An element of a vector of bits."""
    if isinstance(bits.owner, AndOp):
        return ctx.b.and_(*(_part(ctx, operand, number) for operand in bits.owner.operands))
    return ctx.b.extract(bits, number)


def run_leaders(layout: LinearLayout, axis: int, run: int) -> list[tuple[int, int]]:
    """For each register the first one of its run of elements along `axis`, and how far that is."""
    within = [
        vector[axis] if sum(vector) == vector[axis] < run else 0
        for vector in layout.basis("register")
    ]
    found: list[tuple[int, int]] = []
    for register in range(1 << len(within)):
        bits = [bit for bit, step in enumerate(within) if step and register >> bit & 1]
        found.append((register - sum(1 << bit for bit in bits), sum(within[bit] for bit in bits)))
    return found


def thread_bits(terms: OffsetTerms) -> int:
    """The bits of an offset that depend on the thread."""
    bits = 0
    for value in (*terms.lane, *terms.warp):
        bits |= value
    return bits


def _register_bits(terms: OffsetTerms) -> int:
    """The bits of an offset that depend on the register."""
    bits = 0
    for value in terms.register:
        bits |= value
    return bits


def lower_proxy_fence(ctx: KernelLowering, op: Operation) -> None:
    """What has been copied by threads is visible to wgmma from here on."""
    ctx.b.fence_proxy_async()
