"""Which products tcgen05 computes, and where their sums lie in tensor memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.codegen.atoms.element_names import wgmma_accumulator, wgmma_operand
from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.codegen.atoms.tcgen05 import (
    MOST_N,
    ROWS,
    Tcgen05Kind,
    allocated_columns,
    find_tcgen05_kind,
)
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.dialects.layout.tmem import BLOCK_ROWS, HALF_ROWS, tmem_accumulator
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.access import plan_view_access
from tileiras.planning.mma.mma_sync import WARPS_PER_WARPGROUP
from tileiras.planning.mma.scaled_sums import scaled_sum
from tileiras.planning.mma.tcgen05 import LEFT_SHAPE, Accumulator, Tcgen05Dot
from tileiras.planning.mma.tmem_columns import (
    columns_of,
    lanes_are_private,
    scales_in_turn,
)
from tileiras.planning.operands.staged import StagedOperands, staged_operands
from tileiras.planning.operands.tma import SharedOperand, is_by_tma, shared_operand, tile_uses
from tileiras.planning.resources.cta import CtaConfig
from tileiras.planning.warp_roles.producer_slice import sources_of_result

_K_AXES = (1, 0)
"""Fixed: the dims of A and B along K."""
LOAD_SHAPES = ("16x256b", "32x32b")
"""Fixed: of loads from tensor memory, the one to take where both are as good first."""
_THREADS = ("lane", "warp")
OF_ITERATION = -1
"""Fixed: the position of a sum that a loop does not carry; positions of loops count from 0."""
LEAST_BESIDE = 40
"""Policy: registers of a thread for addresses and work beside a sum that it has loaded."""
MOST_BUFFERS = 2
"""Policy: stages of an accumulator where each CTA makes several tiles: while the consumers read
one, the products of the next tile are computed.
"""


def operands_in_stages(
    op: aa.ProductOp, transposes: bool, atom: int = ATOM_BYTES
) -> StagedOperands | str:
    """The operands as stages bring them, or why they do not.

    `transposes`: the instructions read operands whose K is not contiguous, too, if the swizzle
    keeps `atom` bytes together.
    """
    operands = staged_operands(op)
    if operands is None:
        return "an operand does not come through a pipeline"
    majors = (1 if operands.lhs is None else operands.lhs.major_axis, operands.rhs.major_axis)
    if not transposes and majors != _K_AXES:
        return "K of an operand is not contiguous"
    if atom == ATOM_BYTES or majors == _K_AXES:
        return operands
    lhs, rhs = operands.lhs, operands.rhs
    if lhs is not None and majors[0] != _K_AXES[0]:
        if refusal := _why_not_wide(lhs):
            return refusal
        lhs = replace(lhs, atom=atom)
    if majors[1] != _K_AXES[1]:
        if refusal := _why_not_wide(rhs):
            return refusal
        rhs = replace(rhs, atom=atom)
    return StagedOperands(lhs, rhs)


def _why_not_wide(operand: SharedOperand) -> str:
    """Why the swizzle of an operand whose K is not contiguous cannot keep more bytes together than
    usual; empty if it can.

    All products that read the tile have to read it so.
    """
    what = "K of an operand is not contiguous"
    if not is_by_tma(operand.load):
        return f"{what}, and the operand does not come by TMA"
    if operand.swizzle != SWIZZLE_BYTES:
        return f"{what}, and its rows are no multiples of {SWIZZLE_BYTES} bytes"
    for use in tile_uses(operand.load):
        read = shared_operand(use.operation.operands[use.index])
        if read is None or read.major_axis == _K_AXES[use.index]:
            return f"{what}, and is for another product that reads it"
    return ""


def _why_not_computed(op: aa.DotOp) -> str:
    """Why consumers cannot store the left operand to tensor memory; empty if they can.

    They hold whole rows of sums that they have loaded, and so of what they make of these. What they
    load from elsewhere they hold in other places: mma.sync takes that from registers.
    """
    rows = shape_of(op.lhs)[0]
    if rows % BLOCK_ROWS:
        return f"a left operand that is computed has {rows} rows, no multiple of {BLOCK_ROWS}"
    loop = op.parent_op()
    if loop is None or not is_made_of_product(op.lhs, loop):
        return "a left operand is computed from other than products"
    return ""


def is_made_of_product(value: SSAValue, loop: Operation) -> bool:
    """Whether elementwise operations of a loop make a tile of the result of a product there."""
    pending, seen = [value], {value}
    while pending:
        found = pending.pop()
        maker = found.owner
        if not isinstance(maker, Operation) or not loop.is_ancestor(maker):
            continue
        if isinstance(maker, aa.DotOp):
            return True
        sources: Sequence[SSAValue] = ()
        if isinstance(maker, ElementwiseOp):
            sources = maker.operands
        elif isinstance(maker, aa.IfOp):
            sources = sources_of_result(maker, maker.results.index(found))
        pending += [source for source in sources if source not in seen]
        seen.update(sources)
    return False


def tcgen05_dot(op: aa.DotOp, target: GpuTarget) -> Tcgen05Dot | str:
    """The product with its sum in tensor memory, or why it has none there."""
    shape, depth = shape_of(op.result), shape_of(op.lhs)[-1]
    if len(shape) != 2:
        return "tcgen05 multiplies no batches"
    kind = dot_kind(op)
    if kind is None or not target.has(kind.feature):
        return "tcgen05 has no instructions for the element types"
    rows, columns = shape
    m = HALF_ROWS if rows == HALF_ROWS else BLOCK_ROWS
    if rows % m or m not in ROWS or not kind.holds(m, min(columns, MOST_N)) or depth % kind.k:
        return f"tcgen05 has no instructions for a product of {rows}x{columns}x{depth}"
    operands = operands_in_stages(op, kind.transposes, kind.atom)
    if isinstance(operands, str):
        return operands
    if operands.lhs is None and (refusal := _why_not_computed(op)):
        return refusal
    accumulator = scaled_sum(op) or accumulator_of(op)
    if isinstance(accumulator, str):
        return accumulator
    return Tcgen05Dot(op, operands.lhs, operands.rhs, kind, accumulator)


def dot_kind(op: aa.DotOp) -> Tcgen05Kind | None:
    """The kind of instructions for the element types, None if the hardware has none."""
    return find_tcgen05_kind(wgmma_accumulator(element_of(op.result)), *operand_names(op))


def operand_names(op: aa.DotOp) -> tuple[str | None, str | None]:
    """PTX's names of the operands' types."""
    signs = (op.signedness_lhs, op.signedness_rhs)
    lhs, rhs = (
        wgmma_operand(element_of(value), _is_unsigned(sign))
        for value, sign in zip((op.lhs, op.rhs), signs, strict=True)
    )
    return lhs, rhs


def _is_unsigned(signedness: SignednessAttr | None) -> bool:
    return signedness is not None and signedness.data is Signedness.UNSIGNED


def accumulator_of(op: aa.ProductOp) -> Accumulator | str:
    """The sum that the product adds to, or why it has none in tensor memory.

    That of a whole loop: the loop carries it, products of its body add to it one after another, and
    nothing else reads it there. Where something does, that of one iteration.
    """
    loop = op.parent_op()
    if not isinstance(loop, aa.ForOp):
        return "a product stands in no loop"
    position = _carried_position(op, loop)
    if position is None:
        if not isinstance(op, aa.DotOp):
            return "a sum is read in its loop"
        return Accumulator(loop, OF_ITERATION, op)
    return Accumulator(loop, position, is_filled=not is_zero(loop.init_values[position]))


def _carried_position(op: aa.ProductOp, loop: aa.ForOp) -> int | None:
    """Which value of the loop only products read and add to, this one too; None if none is."""
    value: SSAValue = op.acc
    while isinstance(value, OpResult) and isinstance(value.op, aa.ProductOp):
        if value.op.parent_op() is not loop or not _has_one_use(value):
            return None
        value = value.op.acc
    arguments = loop.body.block.args[1:]
    if value not in arguments or not _has_one_use(value):
        return None
    position = arguments.index(value)
    return position if _is_carried_on(op, loop, position) else None


def _is_carried_on(op: aa.ProductOp, loop: aa.ForOp, position: int) -> bool:
    """Whether nothing but further products and the next iteration reads the result."""
    result: SSAValue = op.result
    while True:
        uses = list(result.uses)
        if len(uses) != 1:
            return False
        user, index = uses[0].operation, uses[0].index
        if isinstance(user, aa.ContinueOp) and user.parent_op() is loop:
            return index == position
        if not isinstance(user, aa.ProductOp) or user.parent_op() is not loop:
            return False
        if user.acc is not result or [*user.operands].count(result) > 1:
            return False
        result = user.result


def _has_one_use(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1


def placed_sums(
    dots: Sequence[Tcgen05Dot], shape: CtaConfig, target: GpuTarget
) -> list[Tcgen05Dot] | str:
    """The products with places for their sums in tensor memory, or that there is no room.

    Nor may there be too few registers to load a sum to.

    CTAs that share an SM share its columns, too, and each allocates a power of two of them.
    """
    held = max(_held_registers(planned, shape.warpgroups) for planned in dots)
    are_rows = any(planned.lhs is None for planned in dots)
    if held + LEAST_BESIDE > shape.registers:
        return f"a thread has {shape.registers} registers, and {held} of them would be for a sum"
    most = target.tmem_columns // shape.ctas
    scales = max(planned.scale_columns for planned in dots)
    choices = [(buffers, False) for buffers in range(MOST_BUFFERS, 0, -1)]
    if lanes_are_private(dots, shape.warpgroups):
        choices.append((1, True))
    for buffers, in_place in choices:
        places, left, end = columns_of(dots, buffers, in_place=in_place)
        if allocated_columns(end + scales) > most:
            continue
        turns = scales_in_turn(dots)
        if allocated_columns(end + max(map(_scales_end, dots, turns))) > most:
            turns = [0] * len(dots)
        return [
            replace(
                planned,
                accumulator=places[planned.accumulator],
                load_shape=LEFT_SHAPE if are_rows else load_shape(planned, shape.warpgroups),
                scales_column=end + by if planned.scales else 0,
                left_column=left.get(planned.dot, 0),
                is_in_turn=by > 0,
            )
            for planned, by in zip(dots, turns, strict=True)
        ]
    what = "sums and scales" if scales else "sums"
    return f"the {what} take more than {most} columns of tensor memory"


def _scales_end(planned: Tcgen05Dot, by: int) -> int:
    return planned.scale_columns + by


def _held_registers(planned: Tcgen05Dot, warpgroups: int) -> int:
    """Registers of a thread for a sum; of an iteration's also for the one that it is added to."""
    tiles = 1 + (planned.accumulator.is_of_iteration and not planned.starts_at_zero)
    return tiles * planned.accumulator_registers(warpgroups)


def load_shape(planned: Tcgen05Dot, warpgroups: int) -> str:
    """The instructions by which a sum is loaded: those whose layout its readers like best.

    A row of the tile lies in one thread (32x32b) or in four lanes (16x256b). Rows that are reduced
    had better be in one thread; stores want neighbouring lanes to fill sectors of memory.
    """
    own, size = planned.accumulator, (planned.rows, planned.columns)
    if planned.rows == HALF_ROWS:
        return LOAD_SHAPES[0]
    result = planned.dot.result if own.is_of_iteration else own.loop.results[own.position]
    readers = list(_readers(result))

    def cost(shape: str) -> int:
        layout = tmem_accumulator(size, shape, warpgroups)
        return sum(_cost(reader, layout, warpgroups) for reader in readers)

    return min(LOAD_SHAPES, key=cost)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """What reads a tile, or what elementwise operations make of it."""
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            yield use.operation
            if isinstance(use.operation, ElementwiseOp):
                made = [result for result in use.operation.results if result not in seen]
                pending += made
                seen.update(made)


def _cost(reader: Operation, layout: LinearLayout, warpgroups: int) -> int:
    """What a reader has to do for a layout: exchanges between threads."""
    match reader:
        case aa.ReduceOp():
            dim = reader.dim.value.data
            return sum(bool(step[dim]) for part in _THREADS for step in layout.basis(part))
        case aa.TiledStoreOp() if view_type_of(reader.view).tile_shape == layout.shape:
            access = plan_view_access(reader.view, WARPS_PER_WARPGROUP * warpgroups)
            bits = storage_bits(element_of(reader.value))
            return int(not access.suits(layout) and access.in_place(layout, bits) is None)
        case _:
            return 0
