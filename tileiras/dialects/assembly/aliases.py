"""Aliases for layouts and long types, declared before the module.

A layout is called after what it is for: `#blocked` for coalesced accesses, `#mma` for accumulators
of tensor cores, `#operand` for what they multiply, `#linear` for the rest. A tile in memory is
`!smem` or `!tmem`, after which memory that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

from xdsl.dialects.builtin import ArrayAttr, ContainerType, FunctionType
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from tileiras.dialects.assembly.spellings import alias_name
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.nv_tileas.assigned import FRAGMENTS
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, layout_of

MAX_ENUMERATED_RANK = 4
PRODUCTS = (
    *("nv_tileas.mma_dot", "nv_tileas.mma_scaled_dot"),
    *("nv_tileas.wgmma_dot", "nv_tileas.wgmma_dots"),
    "nv_tileas.accumulator_load",
)
"""Operations of tensor cores."""


def collect_aliases(tops: Iterable[Operation]) -> dict[Attribute, str]:
    """Attribute -> alias, those that others refer to first."""
    ops = [inner for op in tops for inner in op.walk()]
    found: dict[Attribute, None] = {}
    for op in ops:
        for attribute in _attributes_of(op):
            _collect(attribute, found)
    roles = _roles(ops)
    counts: dict[str, int] = {}
    aliases: dict[Attribute, str] = {}
    for attribute in found:
        name = alias_name(attribute)
        if isinstance(attribute, LayoutEncodingAttr):
            name = f"#{_layout_name(attribute.data, roles)}"
        if name is not None:
            number = counts.get(name, 0)
            counts[name] = number + 1
            aliases[attribute] = f"{name}{number}"
    return aliases


def _attributes_of(op: Operation) -> Iterator[Attribute]:
    """The types, properties and attributes of an operation, and of the arguments of its blocks."""
    yield from (value.type for value in op.operands)
    yield from (value.type for value in op.results)
    yield from op.properties.values()
    yield from op.attributes.values()
    for region in op.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.args)


def _collect(attribute: Attribute, found: dict[Attribute, None]) -> None:
    """Records an attribute after all that it refers to."""
    if attribute in found:
        return
    for part in _parts(attribute):
        _collect(part, found)
    if isinstance(attribute, LayoutEncodingAttr) or alias_name(attribute) is not None:
        found[attribute] = None


def _parts(attribute: Attribute) -> Iterator[Attribute]:
    match attribute:
        case ArrayAttr():
            yield from attribute.data
        case FunctionType():
            yield from attribute.inputs.data
            yield from attribute.outputs.data
        case ParametrizedAttribute():
            yield from attribute.parameters
        case ContainerType():
            yield attribute.get_element_type()
        case _:
            return


def _roles(ops: list[Operation]) -> dict[LinearLayout, str]:
    """What layouts of the operands of products are for."""
    roles: dict[LinearLayout, str] = {}
    for op in ops:
        if isinstance(fragments := op.attributes.get(FRAGMENTS), ArrayAttr):
            *operands, sum = (each.data for each in fragments.data)
            roles[sum] = "mma"
            for layout in operands:
                roles.setdefault(layout, "operand")
        if op.name not in PRODUCTS:
            continue
        for value in op.results:
            if (layout := layout_of(value.type)) is not None:
                roles[layout] = "mma"
        for value in op.operands:
            if (layout := layout_of(value.type)) is not None:
                roles.setdefault(layout, "operand")
    return roles


def _layout_name(layout: LinearLayout, roles: dict[LinearLayout, str]) -> str:
    """`mma`, `blocked` where `layout.blocked` makes this layout, `operand`, else `linear`."""
    role = roles.get(layout, "linear")
    return "blocked" if role != "mma" and _is_blocked(layout) else role


def _is_blocked(layout: LinearLayout) -> bool:
    """Whether the layout is one for coalesced accesses, in some order of the dims."""
    rank = len(layout.shape)
    bases = dict(layout.bases)
    if rank > MAX_ENUMERATED_RANK or bases.keys() != {"register", "lane", "warp"}:
        return False
    warps = 1 << len(bases["warp"])
    return any(
        blocked(layout.shape, order, 1 << bits, warps) == layout
        for order in permutations(range(rank))
        for bits in range(len(bases["register"]) + 1)
    )
