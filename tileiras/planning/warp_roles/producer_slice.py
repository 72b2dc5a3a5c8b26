"""The part of a kernel that its producer must run: control flow and addresses of the loads.

The producer has its own copy of the control flow, so that it runs ahead over outer loops, too. It
carries only values that addresses, bounds and conditions depend on: scalars, tiles of pointers and
masks, and what it loads from memory for them (indices).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.planning.operands.tma import OperandLoad, is_by_tma, is_scale_load
from tileiras.planning.operands.uniform import condition_of

_STRUCTURED = (aa.ForOp, aa.LoopOp, aa.IfOp)
_ALLOWED = (
    aa.ConstantOp,
    aa.GetProgramIdOp,
    aa.GetGridSizeOp,
    aa.GetNumProgramsOp,
    aa.GetClusterPlaceOp,
    aa.GetClusterRankOp,
    aa.MakeMemRefOp,
    aa.BlockTileOp,
    aa.MakeRangeOp,
    aa.SplatOp,
    aa.UnsplatOp,
    aa.BroadcastOp,
    aa.ReshapeOp,
    aa.PermuteOp,
    aa.ExtractOp,
)


SlicedAccess = OperandLoad | aa.TiledStoreOp | aa.TiledAtomicRedOp | aa.ProductOp
"""What a slice is made for: loads of the producer, stores or products of warp roles of their
own.
"""


class ProducerSlice:
    """The operations and values that the producer keeps, or a store warp."""

    def __init__(self, loads: Sequence[SlicedAccess]) -> None:
        self.loads = loads
        self.ops: dict[Operation, None] = {}
        self.values: dict[SSAValue, None] = {}

    def keeps(self, op: Operation) -> bool:
        """Whether the producer runs the operation."""
        return op in self.ops

    def carries(self, value: SSAValue) -> bool:
        """Whether the producer needs the value."""
        return value in self.values

    @property
    def own_loads(self) -> list[OperandLoad]:
        """The loads whose results the producer needs itself."""
        found = (op for op in self.ops if isinstance(op, aa.TiledLoadOp | aa.LoadOp))
        return [op for op in found if op not in self.loads]

    @property
    def gathers(self) -> list[OperandLoad]:
        """The operands that a warpgroup copies; scales are few, one warp is enough for these."""
        loads = (load for load in self.loads if isinstance(load, aa.TiledLoadOp | aa.LoadOp))
        return [load for load in loads if not (is_by_tma(load) or is_scale_load(load))]


def producer_slice(
    func: aa.FuncOp, loads: Sequence[SlicedAccess], exit: Operation | None = None
) -> ProducerSlice | None:
    """The slice for these accesses; None if it would do what only all warps together can do.

    `exit`: a branch that is over before warps have roles.
    """
    slicer = _Slicer(loads)
    for op in func.walk():
        if isinstance(op, aa.ReturnOp) and (exit is None or not exit.is_ancestor(op)):
            slicer.keep(op)
    for load in loads:
        slicer.keep(load)
    return slicer.found if slicer.keep_makers() else None


class _Slicer:
    """Goes from operations that are kept back to what makes their operands."""

    def __init__(self, loads: Sequence[SlicedAccess]) -> None:
        self.found = ProducerSlice(loads)
        self.pending: list[SSAValue] = []

    def keep(self, op: Operation) -> None:
        """Keeps an operation, what is around it, and what decides whether it runs."""
        if op in self.found.ops or isinstance(op, aa.FuncOp):
            return
        self.found.ops[op] = None
        self.pending += _needed_by_access_or_branch(op, self.found)
        if isinstance(op, aa.ForOp | aa.LoopOp):
            self._keep_exits(op)
        parent = op.parent_op()
        if parent is not None:
            self.keep(parent)

    def keep_makers(self) -> bool:
        """Keeps what makes the values that are needed; False if other warp roles cannot run it."""
        while self.pending:
            value = self.pending.pop()
            if value in self.found.values:
                continue
            self.found.values[value] = None
            if isinstance(value, BlockArgument):
                self.pending += sources_of_argument(value)
            elif not isinstance(value, OpResult) or not self._keep_maker(value):
                return False
        return True

    def _keep_maker(self, value: OpResult) -> bool:
        op = value.op
        if isinstance(op, _STRUCTURED):
            self.keep(op)
            self.pending += sources_of_result(op, value.index)
        elif isinstance(op, (ElementwiseOp, *_ALLOWED)):
            self.keep(op)
            self.pending += op.operands
        elif isinstance(op, aa.TiledLoadOp | aa.LoadOp) and _is_plain(op):
            self.keep(op)
        else:
            return False
        return True

    def _keep_exits(self, loop: Operation) -> None:
        for inner in loop.walk():
            is_exit = isinstance(inner, aa.BreakOp | aa.ContinueOp)
            if is_exit and enclosing(inner, aa.ForOp, aa.LoopOp) is loop:
                self.keep(inner)


def _needed_by_access_or_branch(op: Operation, kept: ProducerSlice) -> list[SSAValue]:
    """What accesses and control flow need whatever becomes of their results."""
    match op:
        case aa.TiledLoadOp() if op in kept.loads and (condition := condition_of(op)) is not None:
            return [op.view, *op.indices, condition]
        case aa.TiledLoadOp() | aa.TiledStoreOp() | aa.TiledAtomicRedOp():
            return [op.view, *op.indices]
        case aa.LoadOp():
            values = [op.pointers, op.mask, None if op in kept.loads else op.other]
            return [value for value in values if value is not None]
        case aa.ForOp():
            return [op.lower_bound, op.upper_bound, op.step]
        case aa.IfOp():
            return [op.condition]
        case aa.DotOp() | aa.DotScaledOp() if op.condition is not None:
            return [op.condition]
        case _:
            return []


def needed_values(op: Operation, kept: ProducerSlice) -> list[SSAValue]:
    """What a role needs to run an operation of its slice, and to hand on what it carries."""
    needed = _needed_by_access_or_branch(op, kept)
    if isinstance(op, (ElementwiseOp, *_ALLOWED)):
        needed += op.operands
    if isinstance(op, _STRUCTURED):
        for index, result in enumerate(op.results):
            needed += sources_of_result(op, index) if kept.carries(result) else ()
        arguments = () if isinstance(op, aa.IfOp) else op.body.block.args
        for argument in arguments:
            needed += sources_of_argument(argument) if kept.carries(argument) else ()
    return needed


def _is_plain(load: OperandLoad) -> bool:
    """Whether any warps may do the load by themselves, and more than once."""
    return load.ordering.data == MemoryOrdering.WEAK


def sources_of_argument(argument: BlockArgument) -> list[SSAValue]:
    """Where a block argument's values come from: initial values and what continues hand on."""
    loop = argument.block.parent_op()
    if isinstance(loop, aa.ForOp):
        position = argument.index - 1
        if position < 0:
            return []
    elif isinstance(loop, aa.LoopOp):
        position = argument.index
    else:
        return []
    sources = [loop.init_values[position]]
    for inner in loop.walk():
        if isinstance(inner, aa.ContinueOp) and enclosing(inner, aa.ForOp, aa.LoopOp) is loop:
            sources.append(inner.operands[position])
    return sources


def sources_of_result(op: Operation, index: int) -> list[SSAValue]:
    """Where a result of structured control flow comes from."""
    if isinstance(op, aa.ForOp):
        return [op.body.block.args[index + 1], op.init_values[index]]
    sources: list[SSAValue] = []
    for inner in op.walk():
        is_break = isinstance(inner, aa.BreakOp) and isinstance(op, aa.LoopOp)
        if is_break and enclosing(inner, aa.ForOp, aa.LoopOp) is op:
            sources.append(inner.operands[index])
        if isinstance(inner, aa.YieldOp) and inner.parent_op() is op:
            sources.append(inner.operands[index])
    return sources
