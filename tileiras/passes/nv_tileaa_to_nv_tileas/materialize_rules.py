"""How each operation that is not elementwise is placed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntAttr,
    StringAttr,
    UnitAttr,
    f16,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.assigned import IN_WORDS, AccessAttr, FmaAttr, MmaSyncAttr
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.dialects.nv_tileas.plan import BY_ROWS
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.async_copy import ASYNC_COPY_RULES
from tileiras.passes.nv_tileaa_to_nv_tileas.exchange import EXCHANGE_RULES
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import (
    Materializer,
    MaterializeRule,
    type_of,
)
from tileiras.planning.layouts.rematerialization import is_tensor
from tileiras.planning.layouts.written import (
    access_of,
    contradiction,
    coordinate_layout,
    factors,
    mma_of,
    operands_before_loop,
    scales_of,
)

SMALL_FLOATS = (Float8E4M3FNType, Float8E5M2Type, Float4E2M1FNType)
"""Types that multiply-adds do not take; every value of them is an f32."""

ViewAccess = (
    TiledLoadBase
    | TiledStoreBase
    | aa.TiledAtomicRedOp
    | aa.MultimemLoadOp
    | aa.MultimemStoreOp
    | aa.MultimemReduceOp
)


def _like(materializer: Materializer, value: SSAValue, model: SSAValue) -> SSAValue:
    """`value` in the layout of `model` (which has the same shape), or the place of a sum."""
    if not is_tensor(value):
        return materializer.plain(value)
    if (
        materializer.consumer is not None
        and (held := materializer.consumer.held(model)) is not None
    ):
        return held
    return materializer.in_layout(value, materializer.layout(model))


def _typed(value: SSAValue, layout: LinearLayout) -> Attribute:
    """The type of a tensor value in a layout; scalars keep theirs."""
    return encoded(element_of(value), layout) if is_tensor(value) else value.type


def _place_for(materializer: Materializer, op: aa.ForOp | aa.LoopOp) -> Sequence[SSAValue]:
    """A loop: initial values in the layouts of the carried ones."""
    bounds = [op.lower_bound, op.upper_bound, op.step] if isinstance(op, aa.ForOp) else []
    carried = op.body.block.args[1:] if isinstance(op, aa.ForOp) else op.body.block.args
    operands = [materializer.plain(value) for value in bounds]
    if materializer.consumer is not None:
        materializer.consumer.start(materializer, op, operands)
    initial = [_like(materializer, v, arg) for v, arg in zip(op.init_values, carried, strict=True)]
    if materializer.consumer is not None and materializer.consumer.passes_over(op):
        return materializer.consumer.finish_loop(materializer, op, initial)
    operands += initial
    for dot in op.body.block.ops:
        if isinstance(dot, aa.ProductOp):
            for value, layout in operands_before_loop(dot):
                materializer.in_layout(value, layout)
    region = materializer.place_region(op.body)
    types = [materializer.placed_type(result) for result in op.results]
    results = materializer.emit(type_of(op), operands, types, op.properties, [region]).results
    if materializer.consumer is not None:
        return materializer.consumer.finish_loop(materializer, op, results)
    return results


def _place_if(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """Both branches; their values come out in the layouts of the results."""
    operands = [materializer.plain(op.operands[0])]
    if materializer.consumer is not None:
        materializer.consumer.start(materializer, op, operands)
    regions = [materializer.place_region(region) for region in op.regions]
    types = [materializer.placed_type(result) for result in op.results]
    results = materializer.emit(aa.IfOp, operands, types, op.properties, regions).results
    if materializer.consumer is not None:
        materializer.consumer.release_kept(materializer, op)
    return results


def _place_terminator(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """Values that leave a block, in the layouts of what they become."""
    match op:
        case aa.ContinueOp():
            loop = enclosing(op, aa.ForOp, aa.LoopOp)
            skip = 1 if isinstance(loop, aa.ForOp) else 0
            models: Sequence[SSAValue] = loop.regions[0].block.args[skip:]
        case aa.BreakOp():
            models = enclosing(op, aa.LoopOp).results
        case aa.YieldOp():
            parent = op.parent_op()
            models = parent.results if isinstance(parent, aa.IfOp) else op.operands
        case _:
            models = op.operands
    pairs = zip(op.operands, models, strict=True)
    materializer.emit(type_of(op), [_like(materializer, value, model) for value, model in pairs])
    return []


def _place_combining(materializer: Materializer, op: aa.ReduceOp | aa.ScanOp) -> Sequence[SSAValue]:
    """A reduce or scan: all operands in one layout; a reduced axis leaves copies behind."""
    layout = materializer.operand_layouts(op)[0]
    operands = materializer.taken(op)
    if isinstance(op, aa.ReduceOp):
        layout = layout.slice(op.dim.value.data).without_register_duplicates()
    region = materializer.place_region(op.body)
    types = [_typed(result, layout) for result in op.results]
    built = materializer.emit(type_of(op), operands, types, op.properties, [region]).results
    return [materializer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _place_dot(materializer: Materializer, op: aa.ProductOp) -> Sequence[SSAValue]:
    """A product by mma.sync on fragments, or by fused multiply-adds."""
    if materializer.consumer is not None and op in materializer.consumer.plan.dots:
        return materializer.consumer.place_dot(materializer, op)
    values, scales, mma = factors(op), scales_of(op), mma_of(op)
    *layouts, result = materializer.operand_layouts(op, [*values, *scales, op.acc])
    acc = materializer.in_layout(op.acc, result)
    wide = f32 if isinstance(mma, FmaAttr) else f16 if mma.has("widens") else None
    operands = [
        _widened(materializer, materializer.in_layout(value, layout), wide)
        for value, layout in zip(values, layouts)
    ]
    placed = zip(scales, layouts[len(values) :], strict=True)
    scale_operands = [materializer.in_layout(value, layout) for value, layout in placed]
    type = encoded(element_of(op.result), result)
    match mma:
        case FmaAttr():
            kept = ("signedness_lhs", "signedness_rhs")
            signs = {key: op.properties[key] for key in kept if key in op.properties}
            built = materializer.emit(tas.FmaDotOp, [*operands, acc], [type], signs)
        case MmaSyncAttr():
            properties = {
                "atom": StringAttr(mma.word("atom")),
                "warps_m": IntAttr(mma.integer("warps_m")),
                "warps_n": IntAttr(mma.integer("warps_n")),
            }
            kind = tas.MmaScaledDotOp if scales else tas.MmaDotOp
            built = materializer.emit(kind, [*operands, acc, *scale_operands], [type], properties)
        case _:
            raise contradiction(op, "is planned for wgmma in a kernel without roles")
    return [materializer.settle(op.result, built.results[0])]


def _widened(materializer: Materializer, value: SSAValue, wide: Attribute | None) -> SSAValue:
    """An operand whose small floats are exactly in a wider type; other types as they are."""
    layout = layout_of(value.type)
    if wide is None or layout is None or not isinstance(element_of(value), SMALL_FLOATS):
        return value
    properties = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}
    return materializer.emit(aa.FpToFpOp, [value], [encoded(wide, layout)], properties).results[0]


def _access_properties(op: Operation, access: AccessAttr) -> dict[str, Attribute]:
    """The operation's own properties and how its elements move."""
    return dict(op.properties) | {"vector": access.vector, "axis": access.axis}


def _view_operands(
    materializer: Materializer, op: ViewAccess, layout: LinearLayout
) -> list[SSAValue]:
    """View, indices and token; a tile of indices lies where the tile has its sparse coordinate."""
    operands: list[SSAValue] = [materializer.plain(op.view)]
    sparse = view_type_of(op.view).sparse_dim
    for axis, index in enumerate(op.indices):
        if not is_tensor(index):
            operands.append(materializer.plain(index))
        elif axis == sparse:
            operands.append(materializer.in_layout(index, coordinate_layout(layout, axis)))
        else:
            raise InternalError("a tile indexes a dim that is not sparse")
    if op.token is not None:
        operands.append(materializer.plain(op.token))
    return operands


def _place_tiled_load(materializer: Materializer, op: aa.TiledLoadOp) -> Sequence[SSAValue]:
    """As the access says, then converted."""
    if materializer.consumer is not None and materializer.consumer.brings(op):
        return materializer.consumer.place_load(materializer, op)
    access = access_of(op, shape_of(op.result), materializer.num_warps)
    layout = access.layout.data
    operands = _view_operands(materializer, op, layout)
    types = [encoded(element_of(op.result), layout), op.result_token.type]
    properties = _access_properties(op, access)
    if IN_WORDS in op.attributes:
        properties[IN_WORDS] = UnitAttr()
    built = materializer.emit(tas.TiledLoadOp, operands, types, properties)
    return [materializer.settle(op.result, built.results[0]), built.results[1]]


def _stored_by_tma(
    materializer: Materializer, op: aa.TiledStoreOp | aa.TiledAtomicRedOp
) -> Sequence[SSAValue] | None:
    """The placed operation if TMA is to do it."""
    if materializer.consumer is None or op not in materializer.consumer.plan.stores:
        return None
    from tileiras.passes.nv_tileaa_to_nv_tileas.roles.stores import place_tma_store

    if materializer.consumer.store_pipeline is not None:
        from tileiras.passes.nv_tileaa_to_nv_tileas.roles.store_warp import place_staged

        return place_staged(materializer, op, materializer.consumer.store_pipeline)
    map = materializer.consumer.store_maps[op]
    return place_tma_store(materializer, op, map, materializer.consumer.plan)


def _place_tiled_store(materializer: Materializer, op: aa.TiledStoreOp) -> Sequence[SSAValue]:
    """As the access says, or by TMA."""
    if (stored := _stored_by_tma(materializer, op)) is not None:
        return stored
    access = access_of(op, shape_of(op.value), materializer.num_warps)
    layout = access.layout.data
    operands = [materializer.in_layout(op.value, layout), *_view_operands(materializer, op, layout)]
    properties = _access_properties(op, access)
    return materializer.emit(tas.TiledStoreOp, operands, [op.result_token.type], properties).results


def _place_pointer_access(
    materializer: Materializer, op: LoadBase | StoreBase
) -> Sequence[SSAValue]:
    """Loads and stores through pointers: all operands in the layout of the pointers."""
    if (
        materializer.consumer is not None
        and isinstance(op, aa.LoadOp)
        and materializer.consumer.brings(op)
    ):
        return materializer.consumer.place_load(materializer, op)
    if isinstance(op, aa.StoreOp) and BY_ROWS in op.attributes:
        return _place_row_store(materializer, op)
    target = tas.LoadOp if isinstance(op, LoadBase) else tas.StoreOp
    if not is_tensor(op.pointers):
        properties = dict(op.properties) | {"vector": IntAttr(1), "axis": IntAttr(0)}
        operands = [materializer.plain(operand) for operand in op.operands]
        types = [result.type for result in op.results]
        return materializer.emit(target, operands, types, properties).results
    access = access_of(op, shape_of(op.pointers), materializer.num_warps)
    layout, properties = access.layout.data, _access_properties(op, access)
    operands = [
        materializer.in_layout(operand, layout)
        if is_tensor(operand)
        else materializer.plain(operand)
        for operand in op.operands
    ]
    types = [_typed(result, layout) for result in op.results]
    built = materializer.emit(target, operands, types, properties).results
    return [materializer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _place_row_store(materializer: Materializer, op: aa.StoreOp) -> Sequence[SSAValue]:
    """The tile as a product leaves it, pointers and mask by rows."""
    access = access_of(op, shape_of(op.pointers), materializer.num_warps)
    tensors = [op.pointers, op.value, *([op.mask] if op.mask is not None else [])]
    layouts = materializer.operand_layouts(op, tensors)
    operands = list(map(materializer.in_layout, tensors, layouts))
    if op.token is not None:
        operands.append(materializer.plain(op.token))
    properties = dict(op.properties) | {"chunk": access.vector}
    types = [op.result_token.type]
    return materializer.emit(tas.StoreRowsOp, operands, types, properties).results


def _place_atomic(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """Atomics through pointers: everything in the layout of the result."""
    operands = [_like(materializer, operand, op.results[0]) for operand in op.operands]
    types = [materializer.placed_type(result) for result in op.results]
    return materializer.emit(type_of(op), operands, types, op.properties).results


def _place_atomic_red(materializer: Materializer, op: aa.TiledAtomicRedOp) -> Sequence[SSAValue]:
    """An atomic through a view, as the access says, or by TMA."""
    if (stored := _stored_by_tma(materializer, op)) is not None:
        return stored
    access = access_of(op, shape_of(op.value), materializer.num_warps)
    layout = access.layout.data
    operands = [materializer.in_layout(op.value, layout), *_view_operands(materializer, op, layout)]
    types = [result.type for result in op.results]
    return materializer.emit(type_of(op), operands, types, _access_properties(op, access)).results


def _place_multimem(
    materializer: Materializer, op: aa.MultimemLoadOp | aa.MultimemStoreOp | aa.MultimemReduceOp
) -> Sequence[SSAValue]:
    """Accesses to multicast memory, as the access says."""
    is_load = isinstance(op, aa.MultimemLoadOp)
    access = access_of(op, view_type_of(op.view).tile_shape, materializer.num_warps)
    layout = access.layout.data
    operands = [] if is_load else [materializer.in_layout(op.value, layout)]
    operands += _view_operands(materializer, op, layout)
    types = [_typed(result, layout) for result in op.results]
    properties = dict(op.properties) | {"axis": access.axis}
    built = materializer.emit(type_of(op), operands, types, properties).results
    return [materializer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _place_rearranging(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """Slices, concatenations, packs: operands where they are, the result where it is wanted."""
    operands = materializer.taken(op)
    types = [materializer.placed_type(result) for result in op.results]
    return materializer.emit(type_of(op), operands, types, op.properties).results


def _place_unsplat(materializer: Materializer, op: Operation) -> Sequence[SSAValue]:
    """The scalar of a one-element tensor, which every thread then holds."""
    return materializer.emit(aa.UnsplatOp, materializer.taken(op), [op.results[0].type]).results


MATERIALIZE_RULES: dict[type[Operation], MaterializeRule] = {
    aa.ForOp: _place_for,
    aa.LoopOp: _place_for,
    aa.IfOp: _place_if,
    aa.YieldOp: _place_terminator,
    aa.ContinueOp: _place_terminator,
    aa.BreakOp: _place_terminator,
    aa.ReturnOp: _place_terminator,
    aa.ReduceOp: _place_combining,
    aa.ScanOp: _place_combining,
    aa.DotOp: _place_dot,
    aa.DotScaledOp: _place_dot,
    aa.TiledLoadOp: _place_tiled_load,
    aa.TiledStoreOp: _place_tiled_store,
    **ASYNC_COPY_RULES,
    **EXCHANGE_RULES,
    aa.TiledAtomicRedOp: _place_atomic_red,
    aa.MultimemLoadOp: _place_multimem,
    aa.MultimemStoreOp: _place_multimem,
    aa.MultimemReduceOp: _place_multimem,
    aa.LoadOp: _place_pointer_access,
    aa.StoreOp: _place_pointer_access,
    aa.AtomicRMWOp: _place_atomic,
    aa.AtomicCASOp: _place_atomic,
    aa.ExtractOp: _place_rearranging,
    aa.InsertOp: _place_rearranging,
    aa.CatOp: _place_rearranging,
    aa.PackOp: _place_rearranging,
    aa.UnpackOp: _place_rearranging,
    aa.PrintOp: _place_rearranging,
    aa.AssertOp: _place_rearranging,
    aa.DebugValueOp: _place_rearranging,
    aa.UnsplatOp: _place_unsplat,
}
