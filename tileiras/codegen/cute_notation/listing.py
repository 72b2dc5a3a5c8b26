"""`--emit=cute` of a tile kernel: its layouts, copies and products in CuTe's notation.

    kernel @matmul warps 4 {
      #mma0 = ((4,8,4),(2,2,8)):((128,1,16),(64,8,512))  // (64,64)
      %memref = %arg0 : !cute.tensor<f16, gmem, align<16>, (?{div=8},?{div=8}):(?{div=8},1)>
      %view = local_tile(%memref, (64,32))
      for %iv {
        %tile = cute.copy(!cute.tiled_copy<universal, 128, #blocked0, (64,32)>, %view(%pid_x,%iv))

The text is read, not compiled: what is computed element by element is left out. Names are those of
`--emit=nv_tileas`.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation, Region

from tileiras.codegen.cute_notation import copies, products
from tileiras.codegen.cute_notation.kernel import Shown
from tileiras.codegen.cute_notation.layouts import memref_tensor, tile_text
from tileiras.dialects.assembly.aliases import collect_aliases
from tileiras.dialects.assembly.names import ValueNames
from tileiras.dialects.nv_tileaa.control_flow import ForOp, FuncOp, IfOp, LoopOp
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.cute_layouts import thread_value_text
from tileiras.dialects.nv_tileas.memory import AllocTensorOp, buffer_type, byte_range
from tileiras.dialects.nv_tileas.tcgen05 import ProductWarpOp
from tileiras.remarks import counted

_Rule = Callable[[Shown, Operation], list[str]]
INDENT = "  "


def _memref(shown: Shown, op: Operation) -> list[str]:
    return [f"{shown.results(op)}{shown.use(op.operands[0])} : {memref_tensor(op.results[0])}"]


def _view(shown: Shown, op: Operation) -> list[str]:
    """Tiles of a tensor; modes are selected where the tile has them in another order."""
    type: TiledViewType = view_type_of(op.results[0])
    source = shown.use(op.operands[0])
    if type.dim_map != tuple(range(len(type.memref.strides))):
        source = f"select<{','.join(map(str, type.dim_map))}>({source})"
    notes = []
    if type.steps != type.tile_shape:
        notes.append(f"tiles begin at multiples of {tile_text(type.steps)}")
    if type.sparse_dim is not None:
        notes.append(f"rows of dim {type.sparse_dim} are gathered")
    note = f"  // {'; '.join(notes)}" if notes else ""
    return [f"{shown.results(op)}local_tile({source}, {tile_text(type.tile_shape)}){note}"]


def _pipeline(shown: Shown, op: Operation) -> list[str]:
    assert isinstance(op, pl.CreatePipelineOp)
    notes = [
        f"{op.stage_bytes.data} bytes a stage, {counted(op.consumers.data, 'arrival')} to free it"
    ]
    if op.gather_threads.data:
        notes.append(f"{op.gather_threads.data} threads copy into it")
    if op.shared is not None:
        notes.append("filled by all CTAs of the cluster")
    if op.storage is not None:
        notes.append(f"in the memory of {shown.use(op.storage)}")
    made = f"cutlass.make_pipeline<{op.stages.data}>"
    return [f"{shown.results(op)}{made}  // {'; '.join(notes)}"]


def _store_pipeline(shown: Shown, op: Operation) -> list[str]:
    assert isinstance(op, ts.CreateStorePipelineOp)
    note = f"// of each warpgroup, {op.pieces.data} pieces a stage"
    return [f"{shown.results(op)}cutlass.make_store_pipeline<{op.stages.data}>  {note}"]


def _acquire(shown: Shown, op: Operation) -> list[str]:
    assert isinstance(op, pl.ProducerAcquireOp)
    note = f"  // TMA brings {op.bytes.data} bytes" if op.bytes.data else ""
    return [f"cutlass.producer_acquire({shown.use(op.pipeline)}){note}"]


def _release(shown: Shown, op: Operation) -> list[str]:
    assert isinstance(op, pl.ConsumerReleaseOp)
    note = "  // all but the newest stage" if op.keep.data else ""
    return [f"cutlass.consumer_release({shown.use(op.pipeline)}){note}"]


def _buffer(shown: Shown, op: Operation) -> list[str]:
    assert isinstance(op, AllocTensorOp)
    is_shared = buffer_type(op.result).shared_linear is not None
    note = "read by all threads" if is_shared else "a thread reads what it has copied"
    note += "" if op.offset is None else f"; bytes {byte_range(op)}"
    return [f"{shown.results(op)}buffer of {op.stages.data} tiles  // {note}"]


def _call(name: str, *numbers: str) -> _Rule:
    """`name<number>(%operands)`, with those properties that are given."""

    def rule(shown: Shown, op: Operation) -> list[str]:
        found = [op.properties.get(number) for number in numbers]
        values = [str(getattr(value, "data", "")) for value in found if value is not None]
        given = f"<{','.join(values)}>" if values else ""
        return [f"{shown.results(op)}{name}{given}({shown.uses(op.operands)})"]

    return rule


def _nothing(shown: Shown, op: Operation) -> list[str]:
    return []


RULES: dict[str, _Rule] = {
    "nv_tileaa.make_memref": _memref,
    "nv_tileaa.block_tile": _view,
    "nv_tileaa.tiled_atomic_red": copies.view_copy,
    "nv_tileaa.async_commit_group": _call("cute_nvgpu.cp_async_commit_group"),
    "nv_tileaa.async_wait_group": _call("cute_nvgpu.cp_async_wait_group", "pending"),
    "nv_tileas.alloc_tensor": _buffer,
    "nv_tileas.convert_layout": copies.conversion,
    "nv_tileas.read_stage": copies.stage_read,
    "nv_tileas.load": copies.pointer_copy,
    "nv_tileas.store": copies.pointer_copy,
    "nv_tileas.store_rows": copies.row_store,
    "nv_tileas.tiled_load": copies.view_copy,
    "nv_tileas.tiled_store": copies.view_copy,
    "nv_tileas.async_copy": copies.asynchronous_copy,
    "nv_tileas.mma_dot": products.warp_mma,
    "nv_tileas.mma_scaled_dot": products.warp_mma,
    "nv_tileas.fma_dot": products.universal_mma,
    "nv_tileas.wgmma_dot": products.warpgroup_mma,
    "nv_tileas.wgmma_dots": products.warpgroup_mma,
    "nv_tileas.tcgen05_dot": products.tensor_memory_mma,
    "nv_tileas.tcgen05_dot_scaled": products.tensor_memory_mma,
    "nv_tileas.smem_transpose": copies.transposition,
    "nv_tileas.transpose_tile": copies.transposed_stage,
    "nv_tileas.scan_total": _call("last_of_scan"),
    "nv_tileas.dot_wait": _call("cute_nvgpu.warpgroup_wait", "pending"),
    "nv_tileas.async.pipeline.create_pipeline": _pipeline,
    "nv_tileas.async.pipeline.create_store_pipeline": _store_pipeline,
    "nv_tileas.async.pipeline.producer_acquire": _acquire,
    "nv_tileas.async.pipeline.producer_commit": _call("cutlass.producer_commit"),
    "nv_tileas.async.pipeline.producer_tail": _call("cutlass.producer_tail"),
    "nv_tileas.async.pipeline.producer_skip": _call("skip_filled"),
    "nv_tileas.async.pipeline.prologue_fill": copies.prologue_fill,
    "nv_tileas.async.pipeline.consumer_wait": copies.consumer_wait,
    "nv_tileas.async.pipeline.consumer_release": _release,
    "nv_tileas.async.pipeline.free_pipelines": _nothing,
    "nv_tileas.async.pipeline.stage_for_tma_store": copies.store_stage,
    "nv_tileas.async.pipeline.store_stage": copies.tma_store,
    "nv_tileas.async.pipeline.store_tail": _call("cute_nvgpu.tma_store_wait"),
    "nv_tileas.make_tiled_tma_desc": copies.tma_atom,
    "nv_tileas.renew_tiled_tma_descs": _call("renew_tma_descs"),
    "nv_tileas.async.tiled_tma_load": copies.tma_load,
    "nv_tileas.async.tiled_tma_store": copies.tma_store,
    "nv_tileas.async.gather_load": copies.thread_load,
    "nv_tileas.async.tiled_load": copies.thread_load,
    "nv_tileas.async.scales_load": copies.thread_load,
    "nv_tileas.create_accumulator": copies.accumulator,
    "nv_tileas.accumulator_acquire": _call("accumulator_acquire"),
    "nv_tileas.accumulator_commit": _call("cute_nvgpu.tcgen05_commit"),
    "nv_tileas.accumulator_load": copies.accumulator_load,
    "nv_tileas.accumulator_fill": copies.accumulator_fill,
    "nv_tileas.accumulator_clear": _call("clear_in_tmem"),
    "nv_tileas.accumulator_scale": copies.accumulator_scale,
    "nv_tileas.create_left_operand": copies.left_operand,
    "nv_tileas.left_operand_store": copies.left_operand_store,
    "nv_tileas.left_operand_wait": _call("left_operand_wait"),
    "nv_tileas.left_operand_release": _call("cute_nvgpu.tcgen05_commit"),
    "nv_tileas.stage_release": _call("cutlass.consumer_release"),
    "nv_tileas.select_tile": _call("select"),
    "nv_tileas.read_tile": copies.read_tile,
    "nv_tileas.async.pipeline.held_tile": copies.held_tile,
    "nv_tileas.proxy_fence": _call("cute_nvgpu.fence_proxy_async"),
    "nv_tileas.uniform": _nothing,
    "nv_tileas.await_first": _call("await_first_warpgroup"),
    "nv_tileas.start_others": _call("start_other_warpgroups"),
    "nv_tileas.has_rows": _call("warpgroup_has_rows"),
    "nv_tileas.async.pipeline.leave_pipelines": _call("leave_pipelines"),
}
"""Operation -> its lines; those after the first say where its operands are."""


def print_listing(module: ModuleOp, functions: tuple[str, ...] = ()) -> str:
    """The text of a module of stage nv_tileas; of the functions of these names, if there are any.

    The module is not changed.
    """
    tops = list(module.body.block.ops)
    aliases = collect_aliases(tops)
    lines: list[str] = []
    for op in tops:
        if isinstance(op, FuncOp) and (not functions or op.sym_name.data in functions):
            lines += _function(op, aliases)
    return "\n".join(lines) + "\n"


def _function(func: FuncOp, aliases: dict[Attribute, str]) -> list[str]:
    """The lines of a kernel, its layouts first."""
    names = ValueNames()
    names.name_all(func)
    warps = func.num_warps.value.data if isinstance(func.num_warps, IntegerAttr) else 1
    shown = Shown(names, aliases, warps)
    body = _region(shown, func.body, 1)
    layouts = [
        f"{INDENT}{name} = {thread_value_text(layout)}  // {tile_text(layout.shape)}"
        for layout, name in shown.used.items()
    ]
    cluster = f" cluster {func.cluster_size}" if func.cluster_size > 1 else ""
    return [f"kernel @{func.sym_name.data} warps {warps}{cluster} {{", *layouts, *body, "}"]


def _region(shown: Shown, region: Region, depth: int) -> list[str]:
    """The lines of all operations of a region; none where nothing in it is shown."""
    lines: list[str] = []
    for block in region.blocks:
        for op in block.ops:
            lines += _operation(shown, op, depth)
    return lines


def _operation(shown: Shown, op: Operation, depth: int) -> list[str]:
    indent = INDENT * depth
    match op:
        case pl.AgentSwitchOp():
            return _roles(shown, op, depth)
        case ProductWarpOp():
            return _block(shown, "products {  // 1 warp", op.body, depth)
        case wg.TransposeWarpsOp():
            head = f"transposes {{  // {op.warps.data} warps"
            return _block(shown, head, op.body, depth)
        case ForOp():
            counter = shown.use(op.body.block.args[0])
            bounds = f"{shown.use(op.lower_bound)} to {shown.use(op.upper_bound)}"
            return _block(shown, f"for {counter} = {bounds} {{", op.body, depth)
        case LoopOp():
            return _block(shown, "loop {", op.body, depth)
        case IfOp():
            return _branches(shown, op, depth)
        case _:
            rule = RULES.get(op.name)
            return [f"{indent}{line}" for line in rule(shown, op)] if rule is not None else []


def _block(shown: Shown, head: str, region: Region, depth: int) -> list[str]:
    """A region in braces; nothing where nothing in it is shown."""
    lines = _region(shown, region, depth + 1)
    indent = INDENT * depth
    return [f"{indent}{head}", *lines, f"{indent}}}"] if lines else []


def _branches(shown: Shown, op: IfOp, depth: int) -> list[str]:
    first = _region(shown, op.then_region, depth + 1)
    second = _region(shown, op.else_region, depth + 1)
    if not first and not second:
        return []
    indent = INDENT * depth
    middle = [f"{indent}}} else {{", *second] if second else []
    return [f"{indent}if {shown.use(op.condition)} {{", *first, *middle, f"{indent}}}"]


def _roles(shown: Shown, op: pl.AgentSwitchOp, depth: int) -> list[str]:
    """The programs of the warps, in the order of the text of nv_tileas."""
    every = shown.warps
    lines: list[str] = []
    roles = (
        ("producer", op.working_warps.data, op.producer_registers.data, op.producer),
        ("consumer", op.consumer_warps.data, op.consumer_registers.data, op.consumer),
        ("store", 1, 0, op.store),
    )
    for name, warps, registers, region in roles:
        if region is not None:
            shown.warps = warps
            head = f"{name} {{  // {counted(warps, 'warp')}{_registers(registers)}"
            lines += _block(shown, head, region, depth)
    shown.warps = every
    return lines


def _registers(count: int) -> str:
    return f", {count} registers a thread" if count else ""
