"""Memory operations whose tensors have layouts, and what moves data between layouts."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.async_copy import AsyncCopyBase, ReadStageBase
from tileiras.dialects.nv_tileaa.control_flow import ScanOp
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.storage import register_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, layout_of
from tileiras.dialects.nv_tileas.memdesc import (
    IN_SMEM,
    MemDescType,
    ScaleChunksAttr,
    ScaleRowsAttr,
    ThreadCellsAttr,
)
from tileiras.dialects.nv_tileas.ways import IS_WAY, WAYS, check_way, smem_bytes

BUFFER_ALIGN = 128
"""Bytes: buffers and their stages start where a wavefront of shared memory does."""


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """The same tensor in another place.

    `by`: in registers, by shuffles, or through shared memory, once
    `tileas-materialize-convert-layout` has said which (`nv_tileas/ways.py`).
    """

    name = "nv_tileas.convert_layout"
    by = opt_prop_def(IS_WAY)
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Both sides have layouts and the same elements, which can go the way that is said."""
        source, result = layout_of(self.source.type), layout_of(self.result.type)
        if source is None or result is None or source.shape != result.shape:
            raise VerifyException("convert_layout needs two layouts of one shape")
        if isinstance(self.by, WAYS):
            check_way(self.by, source, result, self.element_bits)

    @property
    def element_bits(self) -> int:
        """Bits of an element in a register."""
        return register_bits(element_of(self.source))

    @property
    def smem_bytes(self) -> int:
        """Shared memory that the tile goes through, 0 where it goes through none."""
        return smem_bytes(self.by, self.element_bits) if self.by is not None else 0


@irdl_op_definition
class ScanTotalOp(IRDLOperation):
    """What a scan has combined in the end: `result = source[size - 1]` along the scan's dim.

    Of a reverse scan it is the first slice. The scan knows it before it has all of its result, and
    all threads that share a row get it.
    """

    name = "nv_tileas.scan_total"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @property
    def scan(self) -> ScanOp:
        """The scan that the total is of."""
        scan = self.source.owner
        assert isinstance(scan, ScanOp)
        return scan

    def verify_(self) -> None:
        """The source is a scan's result; the total has its shape, but for the dim."""
        if not isinstance(scan := self.source.owner, ScanOp):
            raise VerifyException("scan_total needs the result of a scan")
        dim, shape = scan.dim.value.data, shape_of(self.source)
        if shape_of(self.result) != shape[:dim] + shape[dim + 1 :]:
            raise VerifyException("scan_total has the shape of its scan, but for the dim")


@irdl_op_definition
class TiledLoadOp(TiledLoadBase):
    """Loads one tile through a view, `vector` elements at a time along tile dim `axis`.

    `in_words`: elements of 8 bits that move one by one, of which users take words of neighbours.
    """

    name = "nv_tileas.tiled_load"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)
    in_words = opt_prop_def(UnitAttr)


@irdl_op_definition
class TiledStoreOp(TiledStoreBase):
    """Stores one tile through a view, `vector` elements at a time along tile dim `axis`."""

    name = "nv_tileas.tiled_store"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class LoadOp(LoadBase):
    """Gathers through pointers, `vector` consecutive elements at a time along dim `axis`."""

    name = "nv_tileas.load"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class StoreOp(StoreBase):
    """Scatters through pointers, `vector` consecutive elements at a time along dim `axis`."""

    name = "nv_tileas.store"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class StoreRowsOp(StoreBase):
    """Scatters the rows of a tile, through shared memory.

    The tile comes from the registers of a product. Pointers and the mask have the first element of
    every `chunk` of a row, a row in each thread; the elements of a row follow each other.
    """

    name = "nv_tileas.store_rows"
    chunk = prop_def(IntAttr)


@irdl_op_definition
class AllocTensorOp(IRDLOperation):
    """Shared memory for `stages` tiles of the type of its result, which lie one behind the other.

    `offset`: where the first begins, in the shared memory that a kernel has for all of these, once
    `tileas-optimize-alloc-tensor` has chosen it. Buffers that are in use at different times may lie
    in the same place. Tiles that TMA reads have no place: their memory is their own, as long as the
    kernel runs, and begins where patterns of swizzles do. `ctas`: so many tile blocks shall fit an
    SM.
    """

    name = "nv_tileas.alloc_tensor"
    stages = prop_def(IntAttr)
    offset = opt_prop_def(IntAttr)
    ctas = opt_prop_def(IntAttr)
    result = result_def(IN_SMEM)

    @property
    def has_place(self) -> bool:
        """Whether the buffer lies at an offset, in memory that it shares."""
        return buffer_type(self.result).has_layout

    @property
    def stage_bytes(self) -> int:
        """Bytes from one stage to the next."""
        return -(-buffer_type(self.result).smem_bytes // BUFFER_ALIGN) * BUFFER_ALIGN

    @property
    def bytes(self) -> int:
        """Bytes of all stages."""
        return self.stages.data * self.stage_bytes

    def verify_(self) -> None:
        """There is a stage, of a tile of known size, where no other buffer lies meanwhile."""
        if self.stages.data < 1:
            raise VerifyException("alloc_tensor needs a stage")
        if isinstance(buffer_type(self.result).encoding, ScaleChunksAttr | ScaleRowsAttr):
            raise VerifyException("alloc_tensor of scales, which are part of a stage")
        if self.offset is None:
            return
        if not self.has_place:
            raise VerifyException("alloc_tensor at a place, of tiles with memory of their own")
        if self.offset.data % BUFFER_ALIGN:
            raise VerifyException(f"alloc_tensor at {self.offset.data}, no multiple of 128 bytes")
        other = self._overlapping()
        if other is not None:
            raise VerifyException(f"bytes {byte_range(self)}, while {byte_range(other)} are in use")

    def _overlapping(self) -> AllocTensorOp | None:
        """A buffer of the function before this one that is in use while this one is, and has bytes
        of it.
        """
        from tileiras.dialects.nv_tileas.live_buffers import are_live_together

        func, parent = self.parent_op(), self.parent_op()
        while parent is not None and parent.parent_op() is not None:
            func, parent = parent, parent.parent_op()
        buffers = (op for op in func.walk() if isinstance(op, AllocTensorOp)) if func else ()
        for other in buffers:
            if other is self:
                break
            if self._has_bytes_of(other) and are_live_together(self, other):
                return other
        return None

    def _has_bytes_of(self, other: AllocTensorOp) -> bool:
        """Whether both have a place, and these overlap."""
        if self.offset is None or other.offset is None:
            return False
        first, second = self.offset.data, other.offset.data
        return first < second + other.bytes and second < first + self.bytes


def byte_range(op: AllocTensorOp) -> str:
    """`0 to 8191`: the bytes of a buffer that has its place."""
    start = op.offset.data if op.offset is not None else 0
    return f"{start} to {start + op.bytes - 1}"


def buffer_type(buffer: SSAValue) -> MemDescType:
    """The type of a buffer: that of one of its tiles."""
    if not isinstance(buffer.type, MemDescType):
        raise VerifyException(f"a buffer of type {buffer.type}")
    return buffer.type


@irdl_op_definition
class AsyncCopyOp(AsyncCopyBase):
    """Every thread starts to copy what `layout` says, `vector` elements at a time along `axis`.

    Where they lie in the stage is said by the type of the buffer: a thread's own cells are those of
    the same layout. `streamed`: nobody reads the tile again, so pieces of 16 bytes go past L1.
    """

    name = "nv_tileas.async_copy"
    buffer = operand_def(IN_SMEM)
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)
    layout = prop_def(LayoutEncodingAttr)

    def verify_(self) -> None:
        """Threads copy to their own cells what they will read, or the whole tile."""
        _check_stage(self.buffer, self.layout.data)

    @property
    def shared(self) -> LinearLayout | None:
        """Where elements lie in a stage that all threads read; None in cells of each thread."""
        return buffer_type(self.buffer).shared_linear


@irdl_op_definition
class ReadStageOp(ReadStageBase):
    """Every thread reads what it has copied itself; `vector` and `axis` as it started.

    In a buffer that all threads read the tile stays where it is, and products read it there.
    """

    name = "nv_tileas.read_stage"
    buffer = operand_def(IN_SMEM)
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)

    def verify_(self) -> None:
        """Threads read what their cells hold, or all of the tile."""
        layout = layout_of(self.result.type)
        if layout is None:
            raise VerifyException("read_stage gives a tile with a layout")
        _check_stage(self.buffer, layout)

    @property
    def shared(self) -> LinearLayout | None:
        """Where elements lie in a stage that all threads read; None in cells of each thread."""
        return buffer_type(self.buffer).shared_linear


def _check_stage(buffer: SSAValue, layout: LinearLayout) -> None:
    """Refuses threads of a `layout` that are not those of a buffer's cells, and other tiles."""
    type = buffer_type(buffer)
    if layout.shape != type.shape:
        raise VerifyException(f"a tile of {list(layout.shape)} in stages of {list(type.shape)}")
    cells = type.encoding
    if isinstance(cells, ThreadCellsAttr) and cells.layout.data != layout:
        raise VerifyException("threads have cells of another layout in this buffer")
