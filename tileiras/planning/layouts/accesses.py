"""How each access to memory of a kernel is done: written beside it, with its layouts."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.assigned import (
    ACCESS,
    IN_WORDS,
    SMEM_LAYOUT,
    access_attribute,
    layout_attribute,
)
from tileiras.dialects.nv_tileas.plan import BY_ROWS, BY_TMA, PIPELINE
from tileiras.errors import InternalError
from tileiras.planning.access import LINE_BYTES, SECTOR_BYTES, AccessPlan, plan_reduction
from tileiras.planning.layouts.equivalence_classes import ViewAccess
from tileiras.planning.layouts.rematerialization import is_tensor
from tileiras.planning.layouts.writer import LayoutWriter
from tileiras.planning.layouts.written import coordinate_layout
from tileiras.planning.mma.block_scaled import is_scale
from tileiras.planning.model.cta import CtaPlan

MULTIMEM = aa.MultimemLoadOp | aa.MultimemStoreOp | aa.MultimemReduceOp
ACCESSES = (
    aa.TiledLoadOp,
    aa.TiledStoreOp,
    aa.AsyncCopyOp,
    aa.ReadStageOp,
    aa.TiledAtomicRedOp,
    aa.MultimemLoadOp,
    aa.MultimemStoreOp,
    aa.MultimemReduceOp,
    aa.LoadOp,
    aa.StoreOp,
)
"""The operations of this file."""


class AccessAssigner:
    """Assigns the accesses of one function.

    `warpgroups`: of consumers, 0 if the kernel is not specialised. `are_transposed`: whether wgmma
    computes all its products transposed. `is_in_tmem`: whether their sums come from tensor memory.
    """

    def __init__(
        self,
        writer: LayoutWriter,
        target: GpuTarget,
        warpgroups: int,
        are_transposed: bool,
        is_in_tmem: bool,
    ):
        self._writer = writer
        self._target = target
        self._warpgroups = warpgroups
        self._are_transposed = are_transposed
        self._is_in_tmem = is_in_tmem

    def assign(self, op: Operation) -> None:
        """Writes how one of `ACCESSES` is done."""
        match op:
            case aa.TiledLoadOp() | LoadBase() if PIPELINE in op.attributes:
                pass  # its tile stays in shared memory
            case aa.TiledStoreOp() | aa.TiledAtomicRedOp() if BY_TMA in op.attributes:
                self._assign_tma_store(op)
            case aa.TiledLoadOp():
                self._assign_tiled_load(op)
            case aa.TiledStoreOp():
                self._assign_tiled_store(op)
            case aa.TiledAtomicRedOp():
                self._assign_atomic_red(op)
            case aa.AsyncCopyOp() | aa.ReadStageOp():
                self._assign_pipelined_load(op)
            case aa.MultimemLoadOp() | aa.MultimemStoreOp() | aa.MultimemReduceOp():
                self._assign_multimem(op)
            case aa.StoreOp() if BY_ROWS in op.attributes:
                self._assign_row_store(op)
            case LoadBase() | StoreBase():
                self._assign_pointer_access(op)
            case _:
                raise InternalError(f"'{op.name}' is no access to memory", where="planning")

    def _set(self, op: Operation, access: AccessPlan) -> None:
        op.attributes[ACCESS] = access_attribute(access.vector, access.axis, access.layout)

    def _ask_indices(self, op: ViewAccess, layout: LinearLayout) -> None:
        """A tile of indices lies where the tile has its sparse coordinate."""
        sparse = view_type_of(op.view).sparse_dim
        if sparse is not None:
            for axis, index in enumerate(op.indices):
                if is_tensor(index):
                    self._writer.ask(index, coordinate_layout(layout, axis))

    def _assign_tma_store(self, op: aa.TiledStoreOp | aa.TiledAtomicRedOp) -> None:
        """From the registers that a product, or a load from tensor memory, leaves its result in."""
        from tileiras.codegen.atoms.store_pieces import loaded_layouts, stored_layouts

        shape = shape_of(op.value)
        if self._is_in_tmem:
            ways = list(loaded_layouts(shape, self._warpgroups).values())
        else:
            ways = stored_layouts(shape, self._warpgroups, self._are_transposed)
        natural = self._writer.classes.natural(op.value)
        layout = natural if natural is not None and natural in ways else ways[0]
        self._writer.take(op, [(op.value, layout)])

    def _assign_row_store(self, op: aa.StoreOp) -> None:
        """From the registers that a product leaves its result in; pointers by rows."""
        from tileiras.codegen.atoms.store_pieces import Held, stored_layout

        access = self._writer.classes.pointer_access(op)
        if access is None:
            raise InternalError("rows without pointers are stored", where="planning")
        self._set(op, access)
        held = Held.COLUMNS if self._are_transposed else Held.ROWS
        layout = stored_layout(shape_of(op.value), self._warpgroups, held)
        pointers = [op.pointers, *([op.mask] if op.mask is not None else [])]
        asked = [(value, access.layout) for value in pointers]
        self._writer.take(op, [asked[0], (op.value, layout), *asked[1:]])

    def _assign_tiled_load(self, op: aa.TiledLoadOp) -> None:
        """In the layout of the result's class if that reads as well, else coalesced.

        Scales of products in that of their class in any case: they need not be exchanged then.
        Instructions take four in a word, even where they are loaded one by one.
        """
        access = self._writer.classes.view_access(op)
        wanted = self._writer.settled(op.result)
        bits = storage_bits(element_of(op.result))
        if is_scale(op.result) or self._writer.classes.is_spread(op):
            access = access.at(wanted)
            if (
                is_scale(op.result)
                and access.vector == 1
                and self._target.has(Feature.BLOCK_SCALED_MMA)
            ):
                op.attributes[IN_WORDS] = UnitAttr()
        else:
            access = access.towards(wanted, bits, _least_bytes(op))
        self._set(op, access)
        self._ask_indices(op, access.layout)
        self._writer.set_results(op)

    def _assign_tiled_store(self, op: aa.TiledStoreOp) -> None:
        """The value as it lies if that writes as well, else coalesced.

        Consumers of a pipeline have few registers left, and write the accumulators as they are.
        Where warps have columns of their own, lines of memory would be written in parts.
        """
        access = self._writer.classes.view_access(op)
        natural = self._writer.classes.natural(op.value)
        layout = access.layout
        if natural is not None:
            bits = storage_bits(element_of(op.value))
            if access.suits(natural) and not _is_down_columns(op):
                layout = natural
            elif self._warpgroups and (moved := access.in_place(natural, bits)) is not None:
                access, layout = moved, moved.layout
        self._set(op, AccessPlan(access.axis, access.vector, layout))
        self._writer.ask(op.value, layout)
        self._ask_indices(op, layout)

    def _assign_atomic_red(self, op: aa.TiledAtomicRedOp) -> None:
        """In the layout that the value has, at most registers exchanged.

        Lanes that fill sectors of memory only in part are no reason to go through shared memory: it
        takes as long as the atomics themselves, which nobody waits for.
        """
        access = plan_reduction(op, self._writer.classes.num_warps, self._target)
        layout = self._writer.settled(op.value)
        if access.vector > 1 and not access.suits(layout):
            moved = access.in_place(layout, storage_bits(element_of(op.value)))
            layout = moved.layout if moved is not None else layout
        self._set(op, AccessPlan(access.axis, access.vector, layout))
        self._writer.ask(op.value, layout)
        self._ask_indices(op, layout)

    def _assign_multimem(self, op: MULTIMEM) -> None:
        """Coalesced."""
        access = self._writer.classes.view_access(op)
        self._set(op, access)
        if not isinstance(op, aa.MultimemLoadOp):
            self._writer.ask(op.value, access.layout)
        self._ask_indices(op, access.layout)
        self._writer.set_results(op)

    def _assign_pointer_access(self, op: LoadBase | StoreBase) -> None:
        """All operands in the layout of the pointers; scalars have none."""
        access = self._writer.classes.pointer_access(op)
        if access is None:
            return
        is_load = isinstance(op, LoadBase)
        wanted = self._writer.settled(op.results[0]) if is_load else access.layout
        if is_load and wanted in self._writer.classes.row_layouts:
            access = access.at(wanted)
        layout = wanted if access.suits(wanted) else access.layout
        self._set(op, AccessPlan(access.axis, access.vector, layout))
        for operand in op.operands:
            self._writer.ask(operand, layout)
        self._writer.set_results(op)

    def _assign_pipelined_load(self, op: aa.AsyncCopyOp | aa.ReadStageOp) -> None:
        """Threads copy what they will read themselves; or, if products read the copies, all.

        Then everything is coalesced: what is read where the layout in shared memory says.
        """
        finish = op if isinstance(op, aa.ReadStageOp) else _finishing(op)
        buffer = op.buffer.owner
        if isinstance(buffer, aa.CircularBufferOp) and buffer.shared is not None:
            from tileiras.planning.operands.smem import stage_layout

            plan = CtaPlan(self._writer.classes.num_warps, self._target)
            shared = stage_layout(finish, plan)
            if shared is None:
                raise InternalError(
                    "a stage that all threads read, of a tile that no product wants"
                )
            op.attributes[SMEM_LAYOUT] = layout_attribute(shared)
            access = self._writer.classes.view_access(finish)
        else:
            access = self._early_access(finish)
        self._set(op, access)
        self._writer.set_results(op)

    def _early_access(self, op: aa.ReadStageOp) -> AccessPlan:
        """In the layout of the result's class if that reads as well, else coalesced.

        What several loops read, threads must find where they have copied it: coalesced in all.
        """
        access = self._writer.classes.view_access(op)
        if sum(isinstance(use.operation, aa.ReadStageOp) for use in op.buffer.uses) > 1:
            return access
        wanted = self._writer.settled(op.result)
        wanted = access.towards(wanted, storage_bits(element_of(op.result)), _least_bytes(op))
        # A stage has room for each element once; copies in more threads would take more of it.
        if wanted.layout.in_size("register") > access.layout.in_size("register"):
            return access
        return wanted


def _least_bytes(op: aa.TiledLoadOp | aa.ReadStageOp) -> int:
    """What neighbouring lanes load at least: a sector where warps have columns of their own."""
    return SECTOR_BYTES if _is_down_columns(op) else LINE_BYTES


def _is_down_columns(op: aa.TiledLoadOp | aa.ReadStageOp | aa.TiledStoreOp) -> bool:
    """Whether a loop that reduces or scans columns accesses a large tile."""
    if not isinstance(op.parent_op(), aa.ForOp):
        return False
    from tileiras.planning.column_loops import LEAST_ELEMENTS, column_dim

    shape = shape_of(op.value if isinstance(op, aa.TiledStoreOp) else op.result)
    return prod(shape) >= LEAST_ELEMENTS and column_dim(op.parent_op()) is not None


def _finishing(op: aa.AsyncCopyOp) -> aa.ReadStageOp:
    """The operation that reads what this one loads."""
    for use in op.buffer.uses:
        if isinstance(use.operation, aa.ReadStageOp):
            return use.operation
    raise InternalError("a load is started and never finished")
