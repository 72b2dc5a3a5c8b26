"""Reads the layouts beside operations, and says where they are missing or contradict the program.

Everything here raises CompileError with the place of the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas.assigned import ACCESS, FRAGMENTS, AccessAttr, FmaAttr, MmaSyncAttr
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.plan import (
    MMA,
    PLAN,
    KernelPlanAttr,
    StagedMmaSyncAttr,
    Tcgen05Attr,
    WgmmaAttr,
)
from tileiras.errors import CompileError

ASSIGN_FIRST = "tileas-assign-load-store-layouts comes first"


def contradiction(op: Operation, what: str) -> CompileError:
    """The error about an operation whose attributes say what cannot be."""
    return CompileError(f"'{op.name.removeprefix('nv_tileaa.')}' op {what}", place_of(op))


def kernel_plan(func: aa.FuncOp, asked_by: str) -> KernelPlanAttr:
    """The plan of a kernel, for a pass that needs one."""
    plan = func.attributes.get(PLAN)
    if isinstance(plan, KernelPlanAttr):
        return plan
    raise CompileError(
        f"kernel '{func.sym_name.data}' is not planned: {asked_by} comes after tileas-plan-cta",
        place_of(func),
    )


def layouts_of(
    op: Operation, name: str, values: Iterable[SSAValue], num_warps: int
) -> list[LinearLayout]:
    """The layouts in a list beside an operation: one for each tensor of `values`."""
    found = op.attributes.get(name)
    shapes = [v.type.get_shape() for v in values if isinstance(v.type, TensorType)]
    if not isinstance(found, ArrayAttr):
        raise contradiction(op, f"has no '{name}': {ASSIGN_FIRST}")
    if len(found.data) != len(shapes):
        raise contradiction(op, f"has {len(found.data)} of '{name}', expected {len(shapes)}")
    return [
        _checked(op, name, attribute, shape, num_warps)
        for attribute, shape in zip(found.data, shapes, strict=True)
    ]


def _checked(
    op: Operation, name: str, attribute: object, shape: tuple[int, ...], num_warps: int
) -> LinearLayout:
    """The layout of an attribute, if it is one of such a tensor."""
    if not isinstance(attribute, LayoutEncodingAttr):
        raise contradiction(op, f"has among its '{name}' what is no layout")
    layout = attribute.data
    if layout.shape != shape:
        sizes = " and ".join("x".join(map(str, each)) for each in (layout.shape, shape))
        raise contradiction(op, f"has '{name}' and a tensor of other sizes: {sizes}")
    if layout.in_size("warp") != num_warps:
        warps = layout.in_size("warp")
        raise contradiction(op, f"has '{name}' for {warps} warps in a kernel of {num_warps}")
    return layout


def access_of(op: Operation, shape: tuple[int, ...], num_warps: int) -> AccessAttr:
    """How an access to a tile in memory is done."""
    found = op.attributes.get(ACCESS)
    if not isinstance(found, AccessAttr):
        raise contradiction(op, f"has no '{ACCESS}': {ASSIGN_FIRST}")
    _checked(op, ACCESS, found.layout, shape, num_warps)
    return found


def coordinate_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """Where the coordinates along one axis are needed: every other axis forgotten."""
    for other in reversed(range(layout.rank)):
        if other != axis:
            layout = layout.slice(other)
    return layout


DotWay = MmaSyncAttr | FmaAttr | StagedMmaSyncAttr | Tcgen05Attr | WgmmaAttr
"""How a product is computed."""


def fragments_of(dot: Operation) -> tuple[LinearLayout, ...]:
    """The layouts that the instructions of a product work on: the last is that of the sum."""
    found = dot.attributes.get(FRAGMENTS)
    layouts = found.data if isinstance(found, ArrayAttr) else ()
    if not layouts or not all(isinstance(each, LayoutEncodingAttr) for each in layouts):
        raise contradiction(dot, f"has no '{FRAGMENTS}': tileas-assign-dot-layouts comes first")
    return tuple(each.data for each in layouts if isinstance(each, LayoutEncodingAttr))


def mma_of(dot: aa.ProductOp) -> DotWay:
    """By which instructions a product is computed."""
    found = dot.attributes.get(MMA)
    if not isinstance(found, DotWay):
        raise contradiction(dot, f"has no '{MMA}': tileas-assign-dot-layouts comes first")
    return found


def scales_of(dot: aa.ProductOp) -> tuple[SSAValue, ...]:
    """The scales of both operands, none of a plain product."""
    return (dot.lhs_scale, dot.rhs_scale) if isinstance(dot, aa.DotScaledOp) else ()


def factors(dot: aa.ProductOp) -> tuple[SSAValue, SSAValue]:
    """The operands as they are read: what is broadcast to all batches is read from one."""
    mma = dot.attributes.get(MMA)
    if not isinstance(mma, FmaAttr):
        return dot.lhs, dot.rhs
    return _factor(dot, dot.lhs, mma.word("lhs_batches")), _factor(
        dot, dot.rhs, mma.word("rhs_batches")
    )


def _factor(dot: aa.ProductOp, value: SSAValue, batches: str) -> SSAValue:
    if batches != "one":
        return value
    if not isinstance(value.owner, aa.BroadcastOp):
        raise contradiction(dot, "is to read one batch of an operand that is no broadcast")
    return value.owner.source


def operands_before_loop(dot: aa.ProductOp) -> list[tuple[SSAValue, LinearLayout]]:
    """The operands that become fragments in front of the loop around, with these."""
    mma = dot.attributes.get(MMA)
    if not isinstance(mma, MmaSyncAttr) or not mma.has("before_loop"):
        return []
    word, fragments = mma.word("before_loop"), fragments_of(dot)
    pairs: Sequence[tuple[SSAValue, LinearLayout]] = list(zip((dot.lhs, dot.rhs), fragments))
    match word:
        case "both":
            return list(pairs)
        case "lhs":
            return [pairs[0]]
        case "rhs":
            return [pairs[1]]
        case _:
            raise contradiction(dot, f"has before_loop = {word}, expected lhs, rhs or both")
