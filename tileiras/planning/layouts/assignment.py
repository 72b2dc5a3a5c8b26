"""The layout of every tensor of a kernel, and that in which each operation takes its operands.

A walk in program order that writes attributes (`dialects/nv_tileas/assigned`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.plans import SharedMemory
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas.assigned import LAYOUTS, FmaAttr, layouts_attribute
from tileiras.dialects.nv_tileas.plan import (
    MMA,
    PIPELINE,
    KernelPlanAttr,
    StagedMmaSyncAttr,
    Tcgen05Attr,
    WgmmaAttr,
)
from tileiras.planning.layouts.accesses import ACCESSES, AccessAssigner
from tileiras.planning.layouts.equivalence_classes import EquivalenceClasses
from tileiras.planning.layouts.rematerialization import LAZY_OPS, is_cheap, is_tensor
from tileiras.planning.layouts.writer import LayoutWriter
from tileiras.planning.layouts.written import (
    contradiction,
    factors,
    fragments_of,
    mma_of,
    operands_before_loop,
    scales_of,
)
from tileiras.planning.operands.smem import is_in_smem
from tileiras.planning.operands.tma import root_load, rounds_to_tf32

_REARRANGING = (
    aa.ExtractOp,
    aa.InsertOp,
    aa.CatOp,
    aa.PackOp,
    aa.UnpackOp,
    aa.PrintOp,
    aa.AssertOp,
    aa.DebugValueOp,
)
"""Operations that take their operands as they lie."""


def assign_layouts(func: aa.FuncOp, kernel: KernelPlanAttr, target: GpuTarget) -> None:
    """Writes the layouts of a function whose products have theirs.

    Raises CompileError where they have not, and for operations that tensors do not have.
    """
    classes = EquivalenceClasses(kernel.integer("num_warps"))
    classes.collect(func)
    warpgroups = kernel.integer("warpgroups")
    writer = LayoutWriter(classes)
    is_in_tmem = any(isinstance(op.attributes.get(MMA), Tcgen05Attr) for op in func.walk())
    transposed = _are_transposed(func)
    accesses = AccessAssigner(writer, target, warpgroups, transposed, is_in_tmem)
    LayoutAssigner(writer, accesses, warpgroups > 0).assign_block(func.body.block)


def _are_transposed(func: aa.FuncOp) -> bool:
    """Whether wgmma computes all products transposed."""
    found = (op.attributes.get(MMA) for op in func.walk() if isinstance(op, aa.DotOp))
    return all(isinstance(mma, WgmmaAttr) and mma.integer("transposed") for mma in found)


class LayoutAssigner:
    """Assigns what is no access to memory, and walks."""

    def __init__(self, writer: LayoutWriter, accesses: AccessAssigner, is_specialised: bool):
        self._writer = writer
        self._accesses = accesses
        self._is_specialised = is_specialised

    def assign_block(self, block: Block) -> None:
        """Writes the layouts of a block's values."""
        with self._writer.inner_block():
            for op in block.ops:
                self._assign(op)

    def _assign(self, op: Operation) -> None:
        rule = _RULES.get(op.__class__, LayoutAssigner._assign_any)
        if rule is not None:
            rule(self, op)

    def _assign_any(self, op: Operation) -> None:
        """Elementwise operations, and those without tensors."""
        if isinstance(op, ElementwiseOp):
            self._assign_elementwise(op)
        elif any(map(is_tensor, (*op.operands, *op.results))):
            raise contradiction(op, "is not supported yet on tiles")

    def _assign_if(self, op: aa.IfOp) -> None:
        self._writer.set_results(op)
        for region in op.regions:
            for block in region.blocks:
                self.assign_block(block)

    def _assign_continue(self, op: aa.ContinueOp) -> None:
        loop = enclosing(op, aa.ForOp, aa.LoopOp)
        skip = 1 if isinstance(loop, aa.ForOp) else 0
        self._writer.ask_like(op.operands, loop.regions[0].block.args[skip:])

    def _assign_break(self, op: aa.BreakOp) -> None:
        self._writer.ask_like(op.operands, enclosing(op, aa.LoopOp).results)

    def _assign_yield(self, op: aa.YieldOp) -> None:
        parent = op.parent_op()
        self._writer.ask_like(op.operands, parent.results if parent is not None else ())

    def _assign_elementwise(self, op: ElementwiseOp) -> None:
        """All operands in the layout of the result."""
        result = op.results[0]
        if not is_tensor(result) or (self._is_specialised and _is_absorbed(op)):
            return
        layout = self._writer.settled(result)
        op.attributes[LAYOUTS] = layouts_attribute((layout,))
        for operand in op.operands:
            self._writer.ask(operand, layout)

    def _assign_loop(self, op: aa.ForOp | aa.LoopOp) -> None:
        """Initial values in the layouts of the carried ones."""
        block = op.body.block
        carried = block.args[1:] if isinstance(op, aa.ForOp) else block.args
        self._writer.ask_like(op.init_values, carried)
        for dot in block.ops:
            if isinstance(dot, aa.ProductOp):
                for value, layout in operands_before_loop(dot):
                    self._writer.ask(value, layout)
        self._writer.set_arguments(op, block.args)
        self._writer.set_results(op)
        self.assign_block(block)

    def _assign_dot(self, op: aa.ProductOp) -> None:
        """The sum as the instructions want it; operands too, unless they are read as they lie."""
        writer, mma, fragments = self._writer, mma_of(op), fragments_of(op)
        writer.set_results(op)
        if isinstance(mma, StagedMmaSyncAttr | Tcgen05Attr | WgmmaAttr):
            held = (op.lhs, *scales_of(op), op.acc)[-len(fragments) :]
            writer.take(op, zip(held, fragments, strict=True))
            return
        # The sum is asked for first: what is made first is found by what follows.
        writer.ask(op.acc, fragments[-1])
        taken: list[tuple[SSAValue, LinearLayout]] = []
        for number, value in enumerate(factors(op)):
            if isinstance(mma, FmaAttr) or mma.has("widens"):
                layout = writer.settled(value)
            else:
                layout = self._dot_operand(value, fragments[number])
            writer.ask(value, layout)
            taken.append((value, layout))
        for value, layout in zip(scales_of(op), fragments[len(taken) :]):
            writer.ask(value, layout)
            taken.append((value, layout))
        writer.take(op, [*taken, (op.acc, fragments[-1])])

    def _dot_operand(self, value: SSAValue, fragment: LinearLayout) -> LinearLayout:
        """An operand in fragments if that takes no shared memory, else as it lies."""
        if is_in_smem(value):
            return self._writer.settled(value)
        natural = self._writer.classes.natural(value)
        if natural is None or self._writer.is_made(value, fragment) or is_cheap(value):
            return fragment
        plan = plan_conversion(natural, fragment, storage_bits(element_of(value)))
        return self._writer.settled(value) if isinstance(plan, SharedMemory) else fragment

    def _assign_combining(self, op: aa.ReduceOp | aa.ScanOp) -> None:
        """A reduce or scan: all operands in one layout; a reduced axis leaves copies behind."""
        natural = self._writer.classes.natural
        model = next((value for value in op.operands if natural(value)), op.operands[0])
        layout = self._writer.settled(model).without_register_duplicates()
        self._writer.take(op, [(operand, layout) for operand in op.operands])
        self._writer.set_results(op)

    def _assign_share(self, op: aa.ShareTilesOp) -> None:
        """Each tile in the layout of the class of all who read it."""
        taken: list[tuple[SSAValue, LinearLayout]] = []
        for number, tile in enumerate(op.tiles):
            reads = op.reads(number)
            layout = self._writer.settled(reads[0].result if reads else tile)
            taken.append((tile, layout.without_register_duplicates()))
        self._writer.take(op, taken)

    def _assign_unsplat(self, op: aa.UnsplatOp) -> None:
        """The one element in the default layout: every thread then holds it."""
        default = self._writer.classes.default(shape_of(op.source))
        self._writer.take(op, [(op.source, default)])

    def _assign_atomic(self, op: aa.AtomicRMWOp | aa.AtomicCASOp) -> None:
        """Everything in the layout of the result."""
        self._writer.set_results(op)
        self._writer.ask_like(op.operands, [op.result] * len(op.operands))

    def _assign_read(self, op: aa.ReadSharedOp | aa.ReadKeptOp) -> None:
        self._writer.set_results(op)

    def _assign_write_kept(self, op: aa.WriteKeptOp) -> None:
        """As it will be read."""
        users = [use.operation for use in op.tiles.uses]
        reads = [user for user in users if isinstance(user, aa.ReadKeptOp)]
        layout = self._writer.settled(reads[0].result if reads else op.value)
        self._writer.take(op, [(op.value, layout)])

    def _assign_rearranging(self, op: Operation) -> None:
        """Slices, concatenations, packs: operands where they are, the result where it is wanted."""
        tensors = [value for value in op.operands if is_tensor(value)]
        self._writer.take(op, [(value, self._writer.settled(value)) for value in tensors])
        self._writer.set_results(op)

    def _assign_access(self, op: Operation) -> None:
        self._accesses.assign(op)


_RULES: dict[type[Operation], Callable[[LayoutAssigner, Any], None] | None] = {
    aa.ForOp: LayoutAssigner._assign_loop,
    aa.LoopOp: LayoutAssigner._assign_loop,
    aa.IfOp: LayoutAssigner._assign_if,
    aa.ContinueOp: LayoutAssigner._assign_continue,
    aa.BreakOp: LayoutAssigner._assign_break,
    aa.YieldOp: LayoutAssigner._assign_yield,
    aa.DotOp: LayoutAssigner._assign_dot,
    aa.DotScaledOp: LayoutAssigner._assign_dot,
    aa.ReduceOp: LayoutAssigner._assign_combining,
    aa.ScanOp: LayoutAssigner._assign_combining,
    aa.ShareTilesOp: LayoutAssigner._assign_share,
    aa.ReadSharedOp: LayoutAssigner._assign_read,
    aa.ReadKeptOp: LayoutAssigner._assign_read,
    aa.WriteKeptOp: LayoutAssigner._assign_write_kept,
    aa.UnsplatOp: LayoutAssigner._assign_unsplat,
    aa.AtomicRMWOp: LayoutAssigner._assign_atomic,
    aa.AtomicCASOp: LayoutAssigner._assign_atomic,
    **dict.fromkeys(_REARRANGING, LayoutAssigner._assign_rearranging),
    **dict.fromkeys(ACCESSES, LayoutAssigner._assign_access),
    **dict.fromkeys(LAZY_OPS),
}
"""How operations are assigned that are not elementwise; lazy ones are made where needed."""


def _is_absorbed(op: Operation) -> bool:
    """Whether products read what is under the operation, so that nothing is left of it."""
    load = root_load(op.results[0]) if rounds_to_tf32(op) else None
    return load is not None and PIPELINE in load.attributes
