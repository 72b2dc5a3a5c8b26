"""In which order products compute their columns: as the next products want to find them.

    %d = dot %a, %x, 0        16 x (16 x 16)
    %y = permute [1, 2, 0] (reshape %d)
    %e = dot %b, %y, 0        sums over what was the first half of the columns of %d

An instruction of mma.sync computes a few columns, and any will do: where threads hold those of the
next product's sum over K in this way, they hold its operand. Otherwise that goes through shared
memory. Right operands take the order of the columns, sums show it in their layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import in_columns
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileas.assigned import FRAGMENTS, MmaSyncAttr, layouts_attribute
from tileiras.dialects.nv_tileas.plan import MMA
from tileiras.planning.layouts.rematerialization import is_tensor
from tileiras.planning.layouts.written import fragments_of
from tileiras.planning.operands.smem import is_in_smem

MOVING = ("lane", "warp")
"""Whatever these hold, registers hold the rest."""


@dataclass(eq=False)
class _Group:
    """Products whose columns have one order: of one sum, or of one right operand."""

    dots: list[aa.DotOp]
    is_settled: bool = False

    def reorder(self, order: dict[int, int]) -> None:
        """Settles the order of the columns of all."""
        self.is_settled = True
        for dot in self.dots:
            lhs, rhs, result = fragments_of(dot)
            fragments = (lhs, in_columns(rhs, order), in_columns(result, order))
            dot.attributes[FRAGMENTS] = layouts_attribute(fragments)


@dataclass(frozen=True)
class _Wanted:
    """The product that takes a value, its operand's layout, and where that is in the value."""

    dot: aa.DotOp
    operand: LinearLayout
    is_right: bool
    layout: LinearLayout

    def before(self, op: Operation) -> _Wanted:
        """The same for the source of what only gives elements other places."""
        return _Wanted(self.dot, self.operand, self.is_right, source_layout(op, self.layout))


def order_columns(dots: Sequence[aa.ProductOp]) -> None:
    """Changes fragments of the products by mma.sync that others follow, from the last one back."""
    groups = _groups([dot for dot in dots if isinstance(dot, aa.DotOp) and _is_plain(dot)])
    for dot in reversed(dots):
        group = groups.get(dot)
        if group is None or group.is_settled:
            continue
        for member in group.dots:
            wanted = _wanted(member.result, set())
            if wanted is not None and wanted.dot not in group.dots:
                _settle(group, groups[wanted.dot], wanted)
                break


def _settle(group: _Group, following: _Group, wanted: _Wanted) -> None:
    """Orders for both groups, or none."""
    is_free = wanted.is_right and not following.is_settled
    plain = fragments_of(group.dots[0])[-1]
    if all(here == there for here, there, _ in _slots(plain, wanted, MOVING)):
        return
    found = _solved(plain, wanted, is_free)
    if found is None:
        return
    group.reorder(found[0])
    if is_free:
        following.reorder(found[1])


def _groups(dots: Sequence[aa.DotOp]) -> dict[Operation, _Group]:
    """The groups of products; those that read shared memory in place stay as they are."""
    groups: dict[Operation, _Group] = {dot: _Group([dot]) for dot in dots}
    rights: dict[SSAValue, aa.DotOp] = {}
    for dot in dots:
        before = dot.acc.owner
        for other in (rights.setdefault(dot.rhs, dot), before):
            if isinstance(other, aa.DotOp) and other in groups and groups[other] != groups[dot]:
                kept, joined = groups[other], groups[dot]
                kept.dots += joined.dots
                groups.update(dict.fromkeys(joined.dots, kept))
    for group in dict.fromkeys(groups.values()):
        layouts = {fragments_of(dot)[1:] for dot in group.dots}
        group.is_settled = len(layouts) > 1 or any(is_in_smem(dot.rhs) for dot in group.dots)
    return groups


def _is_plain(dot: aa.DotOp) -> bool:
    """Whether a product is one by mma.sync of operands as they are."""
    mma = dot.attributes.get(MMA)
    return isinstance(mma, MmaSyncAttr) and not mma.has("widens")


def _wanted(value: SSAValue, seen: set[SSAValue]) -> _Wanted | None:
    """How the first product that takes a value, or what is computed from it, wants the value."""
    if value in seen:
        return None
    seen.add(value)
    found = (_wanted_by(use.operation, value, seen) for use in value.uses)
    return next((wanted for wanted in found if wanted is not None), None)


def _wanted_by(op: Operation, value: SSAValue, seen: set[SSAValue]) -> _Wanted | None:
    if isinstance(op, aa.DotOp):
        if value is op.acc:
            return _wanted(op.result, seen)
        if not _is_plain(op):
            return None
        layout = fragments_of(op)[1 if value is op.rhs else 0]
        return _Wanted(op, layout, value is op.rhs, layout)
    if not op.results or not is_tensor(op.results[0]):
        return None
    if isinstance(op, aa.ReshapeOp | aa.PermuteOp):
        wanted = _wanted(op.result, seen)
        return None if wanted is None else wanted.before(op)
    if isinstance(op, ElementwiseOp) and shape_of(value) == shape_of(op.results[0]):
        return _wanted(op.results[0], seen)
    return None


Order = dict[int, int]
"""Which column takes the place of which, by powers of two."""


def _solved(plain: LinearLayout, wanted: _Wanted, is_free: bool) -> tuple[Order, Order] | None:
    """The orders with which lanes and warps hold what they will need; None if there are none.

    Rows of the first product, and K of the second, stay where they are. If the second's columns are
    free, they follow.
    """
    places = _places(wanted) if is_free else {}
    own: Order = {}
    its: Order = {}
    loose: list[tuple[int, int]] = []
    for here, there, operand in _slots(plain, wanted, MOVING):
        follows = is_free and _is_column(operand)
        if follows and _is_column(here):
            loose.append((here[-1], operand[-1]))
        elif follows and here in places:
            its[operand[-1]] = places[here]
        elif _is_column(here) and _is_column(there):
            own[here[-1]] = there[-1]
        elif here != there:
            return None
    shared = {vector[-1]: place for vector, place in places.items() if _is_column(vector)}
    for here, operand in loose:
        taken = (own.values(), its.values())
        left = [v for v, place in shared.items() if v not in taken[0] and place not in taken[1]]
        if not left:
            return None
        own[here], its[operand] = max(left), shared[max(left)]
    # Of what registers hold the first ones stay the first: neighbours of an instruction.
    kept, new = (_columns_of_registers(layout) for layout in (plain, wanted.layout))
    own |= dict(zip(kept, [column for column in new if column not in own.values()]))
    mine, others = _completed(own, plain), _completed(its, wanted.operand)
    return None if mine is None or others is None else (mine, others)


def _slots(
    plain: LinearLayout, wanted: _Wanted, units: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Where each bit of threads is: in the sum, where it is wanted there, and in the operand."""
    for unit in units:
        bases = (layout.basis(unit) for layout in (plain, wanted.layout, wanted.operand))
        yield from zip(*bases, strict=True)


def _places(wanted: _Wanted) -> dict[tuple[int, ...], int]:
    """Where columns of the second product lie in the first one's sum."""
    slots = _slots(wanted.layout, wanted, ("register", *MOVING))
    return {there: operand[-1] for _, there, operand in slots if _is_column(operand)}


def _columns_of_registers(layout: LinearLayout) -> list[int]:
    return [vector[-1] for vector in layout.basis("register") if _is_column(vector)]


def _completed(order: Order, layout: LinearLayout) -> Order | None:
    """An order of all columns, of which the others stay ascending; None if two had one place."""
    if len(set(order.values())) < len(order):
        return None
    columns = sorted(v[-1] for _, vectors in layout.bases for v in vectors if _is_column(v))
    others = (column for column in columns if column not in order.values())
    return order | dict(zip((column for column in columns if column not in order), others))


def _is_column(vector: Sequence[int]) -> bool:
    """Whether a step goes along the columns alone."""
    return vector[-1] > 0 and not any(vector[:-1])
