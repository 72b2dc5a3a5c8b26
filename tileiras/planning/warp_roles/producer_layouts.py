"""Where the producer's threads hold tiles: layouts demanded backwards from the copies.

A gathered operand demands its pointers and its mask in the layout of its copies; what computes them
is demanded in the layouts that follow, back to ranges, scalars and loads of indices. A value that
is demanded in several layouts is made in each of them, loads included: they are small, and nothing
has to move between threads then, which would take shared memory.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.operands.gather import GATHER_WARPS, chunk_layout, gather_registers
from tileiras.planning.warp_roles.producer_slice import (
    ProducerSlice,
    sources_of_argument,
    sources_of_result,
)

MAX_REGISTERS = 64
"""Policy: elements of a tile that a thread of the producer may hold."""
MAX_GATHER_REGISTERS = 96
"""Policy: what consumers can give up and still hold their sums."""

_MADE_ANYWHERE = (aa.ConstantOp, aa.MakeRangeOp, aa.SplatOp, aa.TiledLoadOp)
"""Operations that make a tile in any layout, from scalars."""


class ProducerLayouts:
    """The layouts in which the producer makes every tile of its slice."""

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self._of: dict[SSAValue, list[LinearLayout]] = {}

    def of(self, value: SSAValue) -> list[LinearLayout]:
        """The layouts of a tile, in the order in which they were asked for."""
        return self._of.get(value, [])

    def carried(self, value: SSAValue) -> LinearLayout:
        """The only layout of a tile that control flow hands on."""
        (layout,) = self.of(value)
        return layout

    def add(self, value: SSAValue, layout: LinearLayout) -> bool:
        """Notes a layout that a value is needed in; False if it is known."""
        known = self._of.setdefault(value, [])
        if layout in known:
            return False
        known.append(layout)
        return True


def producer_warps(kept: ProducerSlice) -> int:
    """Warps of the producer: one issues TMA, a warpgroup gathers."""
    return GATHER_WARPS if kept.gathers else 1


def producer_layouts(kept: ProducerSlice) -> ProducerLayouts | None:
    """The layouts of the slice's tiles; None if the producer's threads cannot compute them."""
    if gather_registers(kept.gathers) > MAX_GATHER_REGISTERS:
        return None
    result = ProducerLayouts(producer_warps(kept))
    pending: list[tuple[SSAValue, LinearLayout]] = []
    for load in kept.gathers:
        if not isinstance(load, aa.LoadOp):
            continue
        layout = chunk_layout(load)
        pending += [(value, layout) for value in (load.pointers, load.mask) if value is not None]
    for op in kept.ops:
        if isinstance(op, aa.UnsplatOp):
            pending.append((op.operands[0], _everywhere(op.operands[0], result.warps)))
    while pending:
        value, layout = pending.pop()
        if not isinstance(value.type, TensorType) or not result.add(value, layout):
            continue
        if layout.in_size("register") > MAX_REGISTERS or not _is_single(value, result):
            return None
        sources = _sources(value, layout)
        if sources is None:
            return None
        pending += sources
    return result


def _everywhere(value: SSAValue, warps: int) -> LinearLayout:
    """A tile of one element, which every thread holds."""
    shape = shape_of(value)
    return blocked(shape, tuple(reversed(range(len(shape)))), 1, warps)


def _is_single(value: SSAValue, layouts: ProducerLayouts) -> bool:
    """Whether a tile that control flow hands on has one layout; other tiles may have several."""
    is_carried = isinstance(value, BlockArgument) or (
        isinstance(value, OpResult) and isinstance(value.op, aa.ForOp | aa.LoopOp | aa.IfOp)
    )
    return not is_carried or len(layouts.of(value)) == 1


def _sources(value: SSAValue, layout: LinearLayout) -> list[tuple[SSAValue, LinearLayout]] | None:
    """What a tile in a layout is made from; None if it cannot be made there."""
    if isinstance(value, BlockArgument):
        return [(source, layout) for source in sources_of_argument(value)]
    if not isinstance(value, OpResult):
        return None
    op = value.op
    match op:
        case aa.ForOp() | aa.LoopOp() | aa.IfOp():
            return [(source, layout) for source in sources_of_result(op, value.index)]
        case aa.LoadOp():
            operands = [operand for operand in (op.pointers, op.mask, op.other) if operand]
            return [(operand, layout) for operand in operands]
        case aa.TiledLoadOp() if any(isinstance(i.type, TensorType) for i in op.indices):
            return None
        case aa.BroadcastOp() | aa.ReshapeOp() | aa.PermuteOp():
            return [(op.operands[0], source_layout(op, layout))]
        case aa.ExtractOp():
            return [(op.source, source_layout(op, layout))]
        case ElementwiseOp():
            return [(operand, layout) for operand in op.operands]
        case _:
            return [] if isinstance(op, _MADE_ANYWHERE) else None
