"""Copies of nv_tileas in CuTe's notation: by threads, by TMA, between layouts of registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.cute_notation.kernel import Shown
from tileiras.codegen.cute_notation.layouts import (
    smem_tensor,
    staging_tensor,
    tile_text,
    tmem_tensor,
)
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.dialects.nv_tileas.ways import ShufflesAttr, ThroughSmemAttr


def _tiled_copy(shown: Shown, kind: str, bits: int, layout: LinearLayout) -> str:
    """The type of a copy by threads of a layout."""
    return f"!cute.tiled_copy<{kind}, {bits}, {shown.alias(layout)}, {tile_text(layout.shape)}>"


def _at(shown: Shown, view: SSAValue, indices: Sequence[SSAValue]) -> str:
    """A tile of a view: `%view(%i,%k)`."""
    return f"{shown.use(view)}({shown.uses(indices)})"


def _bits(value: SSAValue, vector: int) -> int:
    type = value.type
    element = type.element_type if isinstance(type, TensorType) else type
    return storage_bits(element) * vector


def view_copy(shown: Shown, op: Operation) -> list[str]:
    """A tile of a view to registers, or back."""
    if isinstance(op, tas.TiledLoadOp):
        layout = layout_of(op.result.type)
        if layout is None:
            return []
        copy = _tiled_copy(shown, "universal", _bits(op.result, op.vector.data), layout)
        return [f"{shown.results(op)}cute.copy({copy}, {_at(shown, op.view, op.indices)})"]
    assert isinstance(op, tas.TiledStoreOp | aa.TiledAtomicRedOp)
    layout, vector = layout_of(op.value.type), op.vector.data if op.vector else 1
    if layout is None:
        return []
    copy = _tiled_copy(shown, "universal", _bits(op.value, vector), layout)
    there = _at(shown, op.view, op.indices)
    note = ""
    if isinstance(op, aa.TiledAtomicRedOp):
        note = f"  // combined: {op.mode.data.value}"
    return [f"cute.copy({copy}, {shown.use(op.value)}, {there}){note}"]


def pointer_copy(shown: Shown, op: Operation) -> list[str]:
    """Elements at pointers to registers, or back."""
    assert isinstance(op, tas.LoadOp | tas.StoreOp)
    held = op.result if isinstance(op, tas.LoadOp) else op.value
    layout = layout_of(held.type)
    if layout is None:
        return []
    copy = _tiled_copy(shown, "universal", _bits(held, op.vector.data), layout)
    if isinstance(op, tas.LoadOp):
        return [f"{shown.results(op)}cute.copy({copy}, *{shown.use(op.operands[0])})"]
    return [f"cute.copy({copy}, {shown.use(held)}, *{shown.use(op.operands[0])})"]


def row_store(shown: Shown, op: Operation) -> list[str]:
    """Registers of a product through shared memory to rows, each where a pointer says."""
    assert isinstance(op, tas.StoreRowsOp)
    layout = layout_of(op.value.type)
    where = f" : {shown.alias(layout)}" if layout is not None else ""
    return [f"store_rows({shown.use(op.value)}{where}, *{shown.use(op.operands[0])})"]


def asynchronous_copy(shown: Shown, op: Operation) -> list[str]:
    """cp.async into a stage of a buffer."""
    assert isinstance(op, tas.AsyncCopyOp)
    element = view_type_of(op.view).memref.element_type
    bits = storage_bits(element) * op.vector.data
    copy = _tiled_copy(shown, "cp_async", bits, op.layout.data)
    stage = f"{shown.use(op.buffer)}({shown.use(op.stage)})"
    lines = [f"cute.copy({copy}, {_at(shown, op.view, op.indices)}, {stage})"]
    return [*lines, *_stage(element, op.shared)]


def _stage(element: Attribute, shared: LinearLayout | None) -> list[str]:
    """Where elements of a stage lie that all threads read."""
    if shared is None:
        return []
    return [f"  smem = {staging_tensor(element, shared)}"]


def stage_read(shown: Shown, op: Operation) -> list[str]:
    """A stage of a buffer to registers, or the tile as it lies there."""
    assert isinstance(op, tas.ReadStageOp)
    stage = f"{shown.use(op.buffer)}({shown.use(op.stage)})"
    layout = layout_of(op.result.type)
    element = view_type_of(op.view).memref.element_type
    if layout is None or op.shared is not None:
        return [f"{shown.results(op)}{stage}", *_stage(element, op.shared)]
    copy = _tiled_copy(shown, "universal", storage_bits(element) * op.vector.data, layout)
    return [f"{shown.results(op)}cute.copy({copy}, {stage})"]


def conversion(shown: Shown, op: Operation) -> list[str]:
    """Registers to registers of another layout: renamed, by shuffles, through shared memory."""
    assert isinstance(op, tas.ConvertLayoutOp)
    source, target = layout_of(op.source.type), layout_of(op.result.type)
    if source is None or target is None:
        return []
    type = op.source.type
    element = type.element_type if isinstance(type, TensorType) else type
    there = f"{shown.use(op.source)}, {shown.alias(source)}, {shown.alias(target)}"
    match op.by:
        case ShufflesAttr():
            rounds, elements = op.by.integer("rounds"), op.by.integer("elements")
            note = f"  // {rounds} shuffles of {elements} elements"
            return [f"{shown.results(op)}shuffle({there}){note}"]
        case ThroughSmemAttr():
            note = f"  // {op.by.store.data} at a time stored, {op.by.load.data} loaded"
            return [
                f"{shown.results(op)}through_smem({there}){note}",
                f"  smem = {staging_tensor(element, op.by.layout.data)}",
            ]
        case _:
            return [f"{shown.results(op)}cute.retile({there})"]


# TMA and pipelines ----------------------------------------------------------------------------


def tma_atom(shown: Shown, op: Operation) -> list[str]:
    """The box of a tensor map, the contiguous dim first."""
    assert isinstance(op, pl.MakeTensorMapOp)
    type = view_type_of(op.view)
    strides = type.memref.strides
    rank = len(strides)
    first = next((dim for dim in reversed(range(rank)) if strides[dim] == 1), rank - 1)
    order = [first, *(dim for dim in reversed(range(rank)) if dim != first)]
    box = ",".join(str(op.box.data[dim]) for dim in order)
    atom = f"!cute_nvgpu.tma_atom<{type.memref.element_type}, ({box}), {op.swizzle.data}>"
    return [f"{shown.results(op)}{atom}  // of {shown.use(op.view)}"]


def tma_load(shown: Shown, op: Operation) -> list[str]:
    """A tile of a view to a byte of the current stage."""
    assert isinstance(op, pl.TmaLoadOp)
    there = f"{shown.use(op.pipeline)}.stage + {op.offset.data}"
    tile = _at(shown, op.view, op.indices)
    notes = []
    if op.multicast_if is not None:
        notes.append(f"multicast to the cluster where {shown.use(op.multicast_if)}")
    if op.skip_if is not None:
        notes.append(f"not where {shown.use(op.skip_if)}")
    note = f"  // {'; '.join(notes)}" if notes else ""
    return [f"cute_nvgpu.tma_load({shown.use(op.tensor_map)}, {tile}, {there}){note}"]


def thread_load(shown: Shown, op: Operation) -> list[str]:
    """A tile that the producer's threads copy into the current stage."""
    assert isinstance(op, pl.CopyLoadOp | pl.GatherLoadOp | tc.ScalesLoadOp)
    there = f"{shown.use(op.pipeline)}.stage + {op.offset.data}"
    if isinstance(op, pl.GatherLoadOp):
        note = f"  // {op.vector.data} elements at once, rows of {op.swizzle.data} bytes"
        return [f"cute.copy(cp_async, *{shown.use(op.pointers)}, {there}){note}"]
    tile = _at(shown, op.view, op.indices)
    if isinstance(op, pl.CopyLoadOp):
        sizes = " or ".join(map(str, op.vectors.data))
        note = f"  // {sizes} elements at once, rows of {op.swizzle.data} bytes"
    else:
        note = f"  // {op.vector.data} scales at once"
    return [f"cute.copy(cp_async, {tile}, {there}){note}"]


def prologue_fill(shown: Shown, op: Operation) -> list[str]:
    """The first stages, which the consumers' threads fill."""
    assert isinstance(op, pl.PrologueFillOp)
    lines = [f"prologue_fill({shown.use(op.pipeline)})  // the consumers' threads, by cp.async"]
    rest = list(op.indices)
    for view, offset, span in zip(op.views, op.offsets.data, op.swizzles.data, strict=True):
        rank = len(view_type_of(view).tile_shape)
        tile, rest = _at(shown, view, rest[:rank]), rest[rank:]
        there = f"{shown.use(op.pipeline)}.stage + {offset}"
        lines.append(f"  cute.copy(cp_async, {tile}, {there})  // rows of {span} bytes")
    return lines


def consumer_wait(shown: Shown, op: Operation) -> list[str]:
    """The tiles of the next full stage, each with a last mode for all stages."""
    assert isinstance(op, pl.ConsumerWaitOp)
    made = op.pipeline.owner
    stages, size = 1, 0
    if isinstance(made, pl.CreatePipelineOp):
        stages, size = made.stages.data, made.stage_bytes.data
    lines = [f"cutlass.consumer_wait({shown.use(op.pipeline)})"]
    for tile, offset in zip(op.tiles, op.offsets.data, strict=True):
        assert is_in_smem(tile.type)
        tensor = smem_tensor(tile.type, offset, stages, size)
        place = f"{shown.use(op.pipeline)}.stage + {offset}"
        lines.append(f"  {shown.use(tile)} = {place} : {tensor}")
    return lines


def read_tile(shown: Shown, op: Operation) -> list[str]:
    """A tile of a stage to registers."""
    assert isinstance(op, pl.ReadTileOp)
    return [f"{shown.results(op)}cute.copy({shown.use(op.tile)})  // shared memory to registers"]


def held_tile(shown: Shown, op: Operation) -> list[str]:
    """A tile of the newest stage, or of the one before."""
    assert isinstance(op, pl.HeldTileOp)
    stage = "stage_before" if op.age.data else "stage"
    return [f"{shown.results(op)}{shown.use(op.pipeline)}.{stage} + {op.offset.data}"]


def transposition(shown: Shown, op: Operation) -> list[str]:
    """A tile in shared memory that threads write anew."""
    assert isinstance(op, wg.SmemTransposeOp)
    assert is_in_smem(op.tile.type) and is_in_smem(op.result.type)
    return [
        f"{shown.results(op)}transpose_in_smem({shown.use(op.tile)})",
        f"  from {smem_tensor(op.tile.type)}",
        f"  to {smem_tensor(op.result.type)}",
    ]


def transposed_stage(shown: Shown, op: Operation) -> list[str]:
    """A tile that warps write to the stage of another pipeline, transposed."""
    assert isinstance(op, wg.TransposeTileOp)
    assert is_in_smem(op.tile.type)
    return [
        f"transpose_in_smem({shown.use(op.tile)}) into {shown.use(op.pipeline)}.stage",
        f"  from {smem_tensor(op.tile.type)}",
    ]


def accumulator(shown: Shown, op: Operation) -> list[str]:
    """Sums in tensor memory."""
    assert isinstance(op, tc.CreateAccumulatorOp)
    type: Any = op.result.type
    tensor = tmem_tensor(type, op.stages.data, op.columns.data)
    return [f"{shown.results(op)}{tensor}  // from column {op.column.data} on"]


def accumulator_load(shown: Shown, op: Operation) -> list[str]:
    """Sums to registers."""
    assert isinstance(op, tc.AccumulatorLoadOp)
    layout = layout_of(op.result.type)
    where = shown.alias(layout) if layout is not None else ""
    call = f"cute_nvgpu.tcgen05_load<{op.shape.data}>({shown.use(op.accumulator)})"
    return [f"{shown.results(op)}{call}  // to {where}"]


def accumulator_fill(shown: Shown, op: Operation) -> list[str]:
    """What sums start from, to tensor memory."""
    assert isinstance(op, tc.AccumulatorFillOp)
    layout = layout_of(op.value.type)
    where = shown.alias(layout) if layout is not None else ""
    value, sums = shown.use(op.value), shown.use(op.accumulator)
    return [f"cute_nvgpu.tcgen05_store<{op.shape.data}>({value}, {sums})  // from {where}"]


def accumulator_scale(shown: Shown, op: Operation) -> list[str]:
    """Sums are scaled where they lie."""
    assert isinstance(op, tc.AccumulatorScaleOp)
    return [f"scale_in_tmem({shown.use(op.accumulator)}, {shown.use(op.factors)})"]


def left_operand(shown: Shown, op: Operation) -> list[str]:
    """A left operand in tensor memory."""
    assert isinstance(op, tc.CreateLeftOperandOp)
    type: Any = op.result.type
    tensor = tmem_tensor(type, 1, type.tmem_columns)
    return [f"{shown.results(op)}{tensor}  // from column {op.column.data} on"]


def left_operand_store(shown: Shown, op: Operation) -> list[str]:
    """Registers to a left operand in tensor memory."""
    assert isinstance(op, tc.LeftOperandStoreOp)
    layout = layout_of(op.tile.type)
    where = shown.alias(layout) if layout is not None else ""
    call = f"cute_nvgpu.tcgen05_store({shown.use(op.tile)}, {shown.use(op.left)})"
    return [f"{shown.results(op)}{call}  // from {where}"]


def tma_store(shown: Shown, op: Operation) -> list[str]:
    """Registers of a product through shared memory to a tile of a view."""
    assert isinstance(op, ts.TmaStoreOp | ts.StoreStageOp)
    tile = _at(shown, op.view, op.indices)
    if isinstance(op, ts.TmaStoreOp):
        layout = layout_of(op.value.type)
        source = shown.use(op.value) + (f" : {shown.alias(layout)}" if layout else "")
    else:
        source = f"{shown.use(op.pipeline)}.stage"
    note = ""
    if op.reduction is not None:
        note = f"  // combined: {op.reduction.data.value}"
    name = "tma_store" if op.reduction is None else "tma_reduce"
    return [f"cute_nvgpu.{name}({shown.use(op.tensor_map)}, {source}, {tile}){note}"]


def store_stage(shown: Shown, op: Operation) -> list[str]:
    """Registers of a product into stages that the store warp empties."""
    assert isinstance(op, ts.StageForTmaStoreOp)
    layout = layout_of(op.value.type)
    where = f" : {shown.alias(layout)}" if layout is not None else ""
    return [f"stage_for_tma_store({shown.use(op.value)}{where}, {shown.use(op.pipeline)})"]
