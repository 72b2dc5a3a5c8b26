"""How each operation that is not elementwise is placed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntAttr,
    StringAttr,
    f16,
    f32,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.analysis.register_pressure import is_within
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.plans import SharedMemory
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.exchange import EXCHANGE_RULES
from tileiras.passes.nv_tileaa_to_nv_tileas.load_rings import LOAD_RING_RULES
from tileiras.passes.nv_tileaa_to_nv_tileas.placer import (
    MAX_REMATERIALIZED_OPS,
    Placer,
    PlaceRule,
    rematerialization_cost,
    type_of,
)
from tileiras.passes.nv_tileaa_to_nv_tileas.scaled_products import placed_scales
from tileiras.planning.access import (
    AccessPlan,
    plan_pointer_access,
    plan_reduction,
    plan_view_access,
)
from tileiras.planning.layouts.classes import is_tensor
from tileiras.planning.mma.block_scaled import is_scale
from tileiras.planning.mma.dots import plan_dot
from tileiras.planning.operands.smem import is_in_slot

SMALL_FLOATS = (Float8E4M3FNType, Float8E5M2Type, Float4E2M1FNType)
"""Types that multiply-adds do not take; every value of them is an f32."""

KEPT_REGISTERS = 32
"""Registers of a thread for the fragments of an operand that a loop leaves as it is."""
WORD_BITS = 32

ViewAccess = (
    TiledLoadBase
    | TiledStoreBase
    | aa.TiledAtomicRedOp
    | aa.MultimemLoadOp
    | aa.MultimemStoreOp
    | aa.MultimemReduceOp
)


def _like(placer: Placer, value: SSAValue, model: SSAValue) -> SSAValue:
    """`value` in the layout of `model` (which has the same shape)."""
    if not is_tensor(value):
        return placer.plain(value)
    return placer.in_layout(value, placer.layout(model))


def _typed(value: SSAValue, layout: LinearLayout) -> Attribute:
    """The type of a tensor value in a layout; scalars keep theirs."""
    return encoded(element_of(value), layout) if is_tensor(value) else value.type


def _place_for(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """A loop: initial values in the layouts of the carried ones."""
    if not isinstance(op, aa.ForOp | aa.LoopOp):
        raise InternalError("the rule of loops got another operation")
    bounds = [op.lower_bound, op.upper_bound, op.step] if isinstance(op, aa.ForOp) else []
    carried = op.body.block.args[1:] if isinstance(op, aa.ForOp) else op.body.block.args
    operands = [placer.plain(value) for value in bounds]
    if placer.consumer is not None:
        placer.consumer.start(placer, op, operands)
    operands += [_like(placer, v, arg) for v, arg in zip(op.init_values, carried, strict=True)]
    _make_fragments(placer, op)
    region = placer.place_region(op.body)
    types = [placer.placed_type(result) for result in op.results]
    results = placer.emit(type_of(op), operands, types, op.properties, [region]).results
    if placer.consumer is not None:
        return placer.consumer.finish_loop(placer, op, results)
    return results


def _make_fragments(placer: Placer, loop: aa.ForOp | aa.LoopOp) -> None:
    """Operands of mma.sync that are the same in all iterations: in fragments, if these are few."""
    for op in loop.body.block.ops:
        if not isinstance(op, aa.ProductOp):
            continue
        if placer.consumer is not None and op in placer.consumer.plan.dots:
            continue
        plan = plan_dot(op, placer.plan)
        if plan.widens_to_f16 or plan.lhs is None or plan.rhs is None:
            continue
        for value, layout in ((op.lhs, plan.lhs), (op.rhs, plan.rhs)):
            words = layout.in_size("register") * storage_bits(element_of(value)) // WORD_BITS
            if words <= KEPT_REGISTERS and not is_within(value, loop):
                placer.in_layout(value, layout)


def _place_if(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Both branches; their values come out in the layouts of the results."""
    operands = [placer.plain(op.operands[0])]
    if placer.consumer is not None:
        placer.consumer.start(placer, op, operands)
    regions = [placer.place_region(region) for region in op.regions]
    types = [placer.placed_type(result) for result in op.results]
    results = placer.emit(aa.IfOp, operands, types, op.properties, regions).results
    if placer.consumer is not None:
        placer.consumer.release_kept(placer, op)
    return results


def _place_terminator(placer: Placer, op: Operation) -> Sequence[SSAValue]:
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
    placer.emit(type_of(op), [_like(placer, value, model) for value, model in pairs])
    return []


def _place_combining(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """A reduce or scan: all operands in one layout; a reduced axis leaves copies behind."""
    if not isinstance(op, aa.ReduceOp | aa.ScanOp):
        raise InternalError("the rule of reductions got another operation")
    model = next((v for v in op.operands if placer.classes.natural(v)), op.operands[0])
    layout = placer.layout(model).without_register_duplicates()
    operands = [placer.in_layout(operand, layout) for operand in op.operands]
    if isinstance(op, aa.ReduceOp):
        layout = layout.slice(op.dim.value.data).without_register_duplicates()
    region = placer.place_region(op.body)
    types = [_typed(result, layout) for result in op.results]
    built = placer.emit(type_of(op), operands, types, op.properties, [region]).results
    return [placer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _dot_operand(placer: Placer, value: SSAValue, fragment: LinearLayout) -> SSAValue:
    """An operand in fragments if that takes no shared memory, else as it lies."""
    if is_in_slot(value):
        return placer.any_layout(value)
    if placer.is_made(value, fragment):
        return placer.in_layout(value, fragment)
    natural = placer.classes.natural(value)
    if natural is None or rematerialization_cost(value) <= MAX_REMATERIALIZED_OPS:
        return placer.in_layout(value, fragment)
    plan = plan_conversion(natural, fragment, storage_bits(element_of(value)))
    if isinstance(plan, SharedMemory):
        return placer.any_layout(value)
    return placer.in_layout(value, fragment)


def _place_dot(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """A product by mma.sync on fragments, or by fused multiply-adds."""
    if not isinstance(op, aa.ProductOp):
        raise InternalError("the rule of dot got another operation")
    if placer.consumer is not None and op in placer.consumer.plan.dots:
        return placer.consumer.place_dot(placer, op)
    plan = plan_dot(op, placer.plan)
    acc = placer.in_layout(op.acc, plan.result)
    type = encoded(element_of(op.result), plan.result)
    if plan.lhs is None or plan.rhs is None:
        pair = [_widened(placer, _unrepeated(value), f32) for value in (op.lhs, op.rhs)]
        operands = [*pair, acc]
        kept = ("signedness_lhs", "signedness_rhs")
        signs = {key: op.properties[key] for key in kept if key in op.properties}
        built = placer.emit(tas.FmaDotOp, operands, [type], signs)
    else:
        pairs = ((op.lhs, plan.lhs), (op.rhs, plan.rhs))
        if plan.widens_to_f16:
            operands = [*(_widened(placer, value, f16) for value, _ in pairs), acc]
        else:
            operands = [*(_dot_operand(placer, value, layout) for value, layout in pairs), acc]
        properties = {
            "atom": StringAttr(plan.atom),
            "warps_m": IntAttr(plan.warps[0]),
            "warps_n": IntAttr(plan.warps[1]),
        }
        op_class: type[Operation] = tas.MmaDotOp
        if isinstance(op, aa.DotScaledOp):
            op_class = tas.MmaScaledDotOp
            operands += placed_scales(placer, op, plan.warps)
        built = placer.emit(op_class, operands, [type], properties)
    return [placer.settle(op.result, built.results[0])]


def _unrepeated(operand: SSAValue) -> SSAValue:
    """The one batch of which all batches of an operand of multiply-adds are copies."""
    if not isinstance(operand, OpResult) or not isinstance(operand.op, aa.BroadcastOp):
        return operand
    before, after = shape_of(operand.op.source), shape_of(operand)
    return operand.op.source if len(after) == 3 and before[1:] == after[1:] else operand


def _widened(placer: Placer, operand: SSAValue, wide: Attribute) -> SSAValue:
    """An operand whose small floats are exactly in a wider type; other types as they are."""
    value = placer.any_layout(operand)
    if not isinstance(element_of(operand), SMALL_FLOATS):
        return value
    properties = {"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)}
    type = encoded(wide, placer.layout(operand))
    return placer.emit(aa.FpToFpOp, [value], [type], properties).results[0]


def _access_properties(op: Operation, access: AccessPlan | None) -> dict[str, Attribute]:
    """The operation's own properties and how its elements move."""
    vector, axis = (access.vector, access.axis) if access is not None else (1, 0)
    return dict(op.properties) | {"vector": IntAttr(vector), "axis": IntAttr(axis)}


def _view_operands(placer: Placer, op: ViewAccess, layout: LinearLayout) -> list[SSAValue]:
    """View, indices and token; a tile of indices lies where the tile has its sparse coordinate."""
    operands: list[SSAValue] = [placer.plain(op.view)]
    sparse = view_type_of(op.view).sparse_dim
    for axis, index in enumerate(op.indices):
        if not is_tensor(index):
            operands.append(placer.plain(index))
        elif axis == sparse:
            operands.append(placer.in_layout(index, _coordinate_layout(layout, axis)))
        else:
            raise InternalError("a tile indexes a dim that is not sparse")
    if op.token is not None:
        operands.append(placer.plain(op.token))
    return operands


def _coordinate_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """Where the coordinates along one axis are needed: every other axis forgotten."""
    for other in reversed(range(layout.rank)):
        if other != axis:
            layout = layout.slice(other)
    return layout


def _place_tiled_load(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """In the layout of the result's class if that reads as well, else coalesced, then converted."""
    if not isinstance(op, aa.TiledLoadOp):
        raise InternalError("the rule of tiled_load got another operation")
    if placer.consumer is not None and placer.consumer.brings(op):
        return placer.consumer.place_load(placer, op)
    access = plan_view_access(op.view, placer.plan.num_warps)
    wanted, bits = placer.layout(op.result), storage_bits(element_of(op.result))
    access = access.at(wanted) if is_scale(op.result) else access.towards(wanted, bits)
    layout = access.layout
    operands = _view_operands(placer, op, layout)
    types = [encoded(element_of(op.result), layout), op.result_token.type]
    built = placer.emit(tas.TiledLoadOp, operands, types, _access_properties(op, access))
    return [placer.settle(op.result, built.results[0]), built.results[1]]


def _stored_by_tma(
    placer: Placer, op: aa.TiledStoreOp | aa.TiledAtomicRedOp
) -> Sequence[SSAValue] | None:
    """The placed operation if TMA is to do it."""
    if placer.consumer is None or op not in placer.consumer.store_maps:
        return None
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.stores import place_tma_store

    plan, map = placer.consumer.plan, placer.consumer.store_maps[op]
    if placer.consumer.store_pipeline is not None:
        from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.store_agent import place_staged

        return place_staged(placer, op, placer.consumer.store_pipeline, plan)
    return place_tma_store(placer, op, map, plan)


def _place_tiled_store(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The value as it lies if that writes as well, else coalesced.

    Consumers of a ring have few registers left, and write the accumulators as they are.
    """
    if not isinstance(op, aa.TiledStoreOp):
        raise InternalError("the rule of tiled_store got another operation")
    if (stored := _stored_by_tma(placer, op)) is not None:
        return stored
    access = plan_view_access(op.view, placer.plan.num_warps)
    natural = placer.classes.natural(op.value)
    suits = natural is not None and access.suits(natural)
    if placer.consumer is not None and natural is not None and not suits:
        bits = storage_bits(element_of(op.value))
        access = access.in_place(natural, bits) or access
    layout = natural if natural is not None and suits else access.layout
    operands = [placer.in_layout(op.value, layout), *_view_operands(placer, op, layout)]
    properties = _access_properties(op, access)
    return placer.emit(tas.TiledStoreOp, operands, [op.result_token.type], properties).results


def _place_pointer_access(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Loads and stores through pointers: all operands in the layout of the pointers."""
    if not isinstance(op, LoadBase | StoreBase):
        raise InternalError("the rule of pointer accesses got another operation")
    if placer.consumer is not None and isinstance(op, aa.LoadOp) and placer.consumer.brings(op):
        return placer.consumer.place_load(placer, op)
    access = plan_pointer_access(op, placer.plan.num_warps)
    target = tas.LoadOp if isinstance(op, LoadBase) else tas.StoreOp
    properties = _access_properties(op, access)
    if access is None:
        operands = [placer.plain(operand) for operand in op.operands]
        types = [result.type for result in op.results]
        return placer.emit(target, operands, types, properties).results
    wanted = placer.layout(op.results[0]) if isinstance(op, LoadBase) else access.layout
    layout = wanted if access.suits(wanted) else access.layout
    operands = [
        placer.in_layout(operand, layout) if is_tensor(operand) else placer.plain(operand)
        for operand in op.operands
    ]
    types = [_typed(result, layout) for result in op.results]
    built = placer.emit(target, operands, types, properties).results
    return [placer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _place_atomic(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Atomics through pointers: everything in the layout of the result."""
    operands = [_like(placer, operand, op.results[0]) for operand in op.operands]
    types = [placer.placed_type(result) for result in op.results]
    return placer.emit(type_of(op), operands, types, op.properties).results


def _place_atomic_red(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """An atomic through a view, in the layout that the value has, at most registers exchanged.

    Lanes that fill sectors of memory only in part are no reason to go through shared memory: it
    takes as long as the atomics themselves, which nobody waits for.
    """
    if not isinstance(op, aa.TiledAtomicRedOp):
        raise InternalError("the rule of tiled_atomic_red got another operation")
    if (stored := _stored_by_tma(placer, op)) is not None:
        return stored
    access = plan_reduction(op, placer.plan.num_warps, placer.plan.target)
    layout = placer.layout(op.value)
    if access.vector > 1 and not access.suits(layout):
        moved = access.in_place(layout, storage_bits(element_of(op.value)))
        layout = moved.layout if moved is not None else layout
    operands = [placer.in_layout(op.value, layout), *_view_operands(placer, op, layout)]
    types = [result.type for result in op.results]
    return placer.emit(type_of(op), operands, types, _access_properties(op, access)).results


def _place_multimem(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Accesses to multicast memory, coalesced."""
    if not isinstance(op, aa.MultimemLoadOp | aa.MultimemStoreOp | aa.MultimemReduceOp):
        raise InternalError("the rule of multimem got another operation")
    access = plan_view_access(op.view, placer.plan.num_warps)
    value = [] if isinstance(op, aa.MultimemLoadOp) else [op.value]
    operands = [placer.in_layout(tile, access.layout) for tile in value]
    operands += _view_operands(placer, op, access.layout)
    types = [_typed(result, access.layout) for result in op.results]
    properties = dict(op.properties) | {"axis": IntAttr(access.axis)}
    built = placer.emit(type_of(op), operands, types, properties).results
    return [placer.settle(old, new) for old, new in zip(op.results, built, strict=True)]


def _place_rearranging(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """Slices, concatenations, packs: operands where they are, the result where it is wanted."""
    operands = [placer.any_layout(operand) for operand in op.operands]
    types = [placer.placed_type(result) for result in op.results]
    return placer.emit(type_of(op), operands, types, op.properties).results


def _place_unsplat(placer: Placer, op: Operation) -> Sequence[SSAValue]:
    """The scalar of a one-element tensor, which every thread then holds."""
    layout = placer.classes.default(shape_of(op.operands[0]))
    source = placer.in_layout(op.operands[0], layout)
    return placer.emit(aa.UnsplatOp, [source], [op.results[0].type]).results


PLACE_RULES: dict[type[Operation], PlaceRule] = {
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
    **LOAD_RING_RULES,
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
    aa.UnsplatOp: _place_unsplat,
}
