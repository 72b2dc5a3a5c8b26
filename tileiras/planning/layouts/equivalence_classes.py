"""Which values share a layout, and which layout each class of values gets.

Elementwise operations and control flow tie their values together (union-find). A class takes the
layout that its most demanding member wants: a matrix product before a memory access before what it
is computed from. Values that cost nothing to make anywhere (constants, ranges, splats, and
reshapes, permutations and broadcasts of anything) belong to no class: they are made where they are
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.grid_slices import grid_slice
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.rearranged import result_layout, source_layout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas.plan import BY_ROWS
from tileiras.planning.access import (
    AccessPlan,
    is_widest,
    plan_load_access,
    plan_pointer_access,
    plan_view_access,
)
from tileiras.planning.layouts.epilogues import Epilogues
from tileiras.planning.layouts.rematerialization import is_lazy, is_tensor
from tileiras.planning.layouts.written import fragments_of, scales_of

PRIORITY_SCALE, PRIORITY_DOT, PRIORITY_LOAD, PRIORITY_STORE = 4, 3, 2, 1
"""Policy: whose preference for a layout counts more: that of products for their scales, for their
results, of loads or stores.
"""

MAX_SPREAD = 16
"""Policy: elements of a row, or column, that each thread loads for itself."""

ViewAccess = TiledLoadBase | TiledStoreBase | aa.TiledAtomicRedOp
"""Accesses through views."""


@dataclass(frozen=True)
class Preference:
    """A layout that some member of a class wants; `vector` weighs equal priorities.

    `is_widest`: of an access whose vectors are as long as an instruction can move.
    """

    priority: int
    vector: int
    layout: LinearLayout
    is_widest: bool = False


class EquivalenceClasses:
    """Collects classes over a function, then answers `layout(value)`."""

    def __init__(self, num_warps: int):
        self.num_warps = num_warps
        self._accesses: dict[Operation, AccessPlan] = {}
        self._parent: dict[SSAValue, SSAValue] = {}
        self._members: dict[SSAValue, list[SSAValue]] = {}
        self._preferences: dict[SSAValue, list[Preference]] = {}
        self._layouts: dict[SSAValue, LinearLayout] = {}
        self._settled: dict[SSAValue, LinearLayout] = {}
        self._assigning: list[SSAValue] = []
        self._combined: list[aa.ReduceOp | aa.ScanOp] = []
        self._combined_of: dict[SSAValue, list[aa.ReduceOp | aa.ScanOp]] = {}
        self._spread: set[aa.TiledLoadOp] = set()
        self._epilogues = Epilogues(self._reads_as_well)
        self._has_products = True
        self.row_layouts: set[LinearLayout] = set()
        """Of what there is for each row of a tile that is stored row by row."""

    # union-find

    def _find(self, value: SSAValue) -> SSAValue:
        root = value
        while (parent := self._parent.setdefault(root, root)) is not root:
            root = parent
        while self._parent[value] is not root:
            self._parent[value], value = root, self._parent[value]
        if root not in self._members:
            self._members[root] = [root]
        return root

    def tie(self, values: Iterable[SSAValue]) -> None:
        """Puts the tensors that have classes into one."""
        roots = [self._find(v) for v in values if is_tensor(v) and not is_lazy(v)]
        for other in roots[1:]:
            first, second = self._find(roots[0]), self._find(other)
            if first is second:
                continue
            self._parent[second] = first
            self._members[first] += self._members.pop(second)
            self._preferences.setdefault(first, []).extend(self._preferences.pop(second, []))

    def preference(
        self,
        value: SSAValue,
        priority: int,
        vector: int,
        layout: LinearLayout,
        is_widest: bool = False,
    ) -> None:
        """Records what a member wants, or what a lazy value wants of its source."""
        while is_lazy(value) and isinstance(value, OpResult):
            match value.op:
                case aa.ReshapeOp() | aa.PermuteOp() as op if is_tensor(op.source):
                    value, layout = op.source, source_layout(op, layout)
                case _:
                    return
        if is_tensor(value):
            root = self._find(value)
            self._preferences.setdefault(root, []).append(
                Preference(priority, vector, layout, is_widest)
            )

    # collection

    def collect(self, func: aa.FuncOp) -> None:
        """Ties and preferences of all operations of a function."""
        ops = list(func.walk())
        self._has_products = any(isinstance(op, aa.ProductOp) for op in ops)
        for op in ops:
            rule = _COLLECT.get(op.__class__)
            if rule is not None:
                rule(self, op)
            elif isinstance(op, ElementwiseOp) and is_tensor(op.results[0]):
                self._collect_elementwise(op)
        for op in self._combined:
            for root in dict.fromkeys(self._find(v) for v in op.operands if not is_lazy(v)):
                self._combined_of.setdefault(root, []).append(op)

    def _collect_elementwise(self, op: Operation) -> None:
        apart = self._epilogues.products(op) if self._has_products else ()
        self.tie([*(value for value in op.operands if value not in apart), *op.results])

    def _collect_for(self, op: aa.ForOp) -> None:
        self._tie_each(op.body.block.args[1:], op.init_values, op.results)

    def _collect_loop(self, op: aa.LoopOp) -> None:
        self._tie_each(op.body.block.args, op.init_values)

    def _collect_continue(self, op: aa.ContinueOp) -> None:
        loop = enclosing(op, aa.ForOp, aa.LoopOp)
        skip = 1 if isinstance(loop, aa.ForOp) else 0
        self._tie_each(loop.regions[0].block.args[skip:], op.operands)

    def _collect_break(self, op: aa.BreakOp) -> None:
        self._tie_each(enclosing(op, aa.LoopOp).results, op.operands)

    def _collect_yield(self, op: aa.YieldOp) -> None:
        parent = op.parent_op()
        if isinstance(parent, aa.IfOp):
            self._tie_each(parent.results, op.operands)

    def _collect_reduce(self, op: aa.ReduceOp) -> None:
        self.tie(op.operands)
        self.tie(op.results)
        self._combined.append(op)

    def _collect_scan(self, op: aa.ScanOp) -> None:
        self._collect_elementwise(op)
        self._combined.append(op)

    def _collect_atomic(self, op: aa.AtomicRMWOp | aa.AtomicCASOp) -> None:
        self.tie([*op.operands, op.result])

    def _collect_share(self, op: aa.ShareTilesOp) -> None:
        for number in range(len(op.tiles)):
            self.tie([read.result for read in op.reads(number)])

    def _collect_kept(self, op: aa.KeepTilesOp) -> None:
        """What is written is made as it will be read."""
        accesses = op.accesses()
        self.tie([a.value if isinstance(a, aa.WriteKeptOp) else a.result for a in accesses])

    def _collect_dot(self, op: aa.ProductOp) -> None:
        """Scales are few: they are loaded to where instructions read them, at whatever width."""
        self.tie([op.acc, op.result])
        *others, result = fragments_of(op)
        self.preference(op.result, PRIORITY_DOT, 0, result)
        # Of tcgen05 they are in tensor memory.
        scales = scales_of(op) if others else ()
        for value, layout in zip(scales, others[len(others) - len(scales) :], strict=True):
            self.preference(value, PRIORITY_SCALE, 0, layout)

    def _collect_view_load(self, op: aa.TiledLoadOp | aa.ReadStageOp) -> None:
        self._preference_access(op.result, PRIORITY_LOAD, self.view_access(op))

    def _collect_view_store(self, op: aa.TiledStoreOp | aa.TiledAtomicRedOp) -> None:
        self._preference_access(op.value, PRIORITY_STORE, self.view_access(op))

    def _collect_load(self, op: aa.LoadOp) -> None:
        self.tie([op.pointers, *op.operands[1:], op.result])
        access = self.pointer_access(op)
        if access is not None:
            self.preference(op.result, PRIORITY_LOAD, access.vector, access.layout)

    def _collect_store(self, op: aa.StoreOp) -> None:
        self.tie([op.pointers, *([op.mask] if op.mask is not None else [])])
        access = self.pointer_access(op)
        if access is not None:
            self.preference(op.pointers, PRIORITY_LOAD, access.vector, access.layout)
            if BY_ROWS in op.attributes:
                self._prefer_rows(op, access.layout)
            else:
                self.preference(op.value, PRIORITY_STORE, access.vector, access.layout)

    def _prefer_rows(self, op: aa.StoreOp, layout: LinearLayout) -> None:
        """What says where rows go is wanted by the thread of each row, from the load on."""
        layout = layout.slice(1).without_register_duplicates()
        self.row_layouts.add(layout)
        seen: set[SSAValue] = set()
        pending = [op.pointers, *([op.mask] if op.mask is not None else [])]
        while pending:
            value = pending.pop()
            if value in seen or not is_tensor(value):
                continue
            seen.add(value)
            maker = value.owner
            if is_lazy(value) or isinstance(maker, ElementwiseOp):
                pending += maker.operands if isinstance(maker, Operation) else ()
            elif shape_of(value) == layout.shape:
                self.preference(value, PRIORITY_DOT, 0, layout)

    def _reads_as_well(self, load: Operation, dot: aa.ProductOp) -> bool:
        """Whether a load may go straight to the layout of a product."""
        access = None
        match load:
            case aa.TiledLoadOp() | aa.ReadStageOp():
                access = self.view_access(load)
            case aa.LoadOp():
                access = self.pointer_access(load)
            case _:
                pass
        return access is None or access.suits(fragments_of(dot)[-1])

    def view_access(self, op: ViewAccess) -> AccessPlan:
        """How an access through a view is done best."""
        found = self._accesses.get(op)
        if found is None:
            if isinstance(op, aa.TiledLoadOp | aa.ReadStageOp):
                found = plan_load_access(op, self.num_warps)
            else:
                found = plan_view_access(op.view, self.num_warps)
            self._accesses[op] = found
        return found

    def pointer_access(self, op: LoadBase | StoreBase) -> AccessPlan | None:
        """How an access through pointers is done best; None for one of scalars."""
        found = self._accesses.get(op)
        if found is None:
            if isinstance(op, aa.StoreOp) and BY_ROWS in op.attributes:
                found = _row_access(op, self.num_warps)
            else:
                found = plan_pointer_access(op, self.num_warps)
            if found is not None:
                self._accesses[op] = found
        return found

    def _tie_each(self, *groups: Sequence[SSAValue]) -> None:
        for values in zip(*groups, strict=True):
            self.tie(values)

    def _preference_access(self, value: SSAValue, priority: int, access: AccessPlan) -> None:
        """What an access through a view wants."""
        widest = is_widest(access, storage_bits(element_of(value)))
        self.preference(value, priority, access.vector, access.layout, widest)

    # answers

    def layout(self, value: SSAValue) -> LinearLayout:
        """The layout of a tensor that has a class."""
        return self._layout_of(self._find(value))

    def _layout_of(self, root: SSAValue) -> LinearLayout:
        known = self._layouts.get(root)
        if known is None:
            self._assigning.append(root)
            known = self._choose(root)
            self._assigning.pop()
            self._layouts[root] = known
        return known

    def natural(self, value: SSAValue) -> LinearLayout | None:
        """The layout in which the value exists, or falls out for free; None if any is as good."""
        owner = value.owner
        if not is_lazy(value):
            root = self._find(value)
            return None if root in self._assigning else self._layout_of(root)
        if isinstance(owner, aa.ReshapeOp | aa.PermuteOp) and is_tensor(owner.source):
            source = self.natural(owner.source)
            return result_layout(owner, source) if source is not None else None
        return None

    def settled(self, value: SSAValue) -> LinearLayout:
        """The natural layout, or the default one of the shape."""
        known = self._settled.get(value)
        if known is None:
            known = self.natural(value) or self.default(shape_of(value))
            self._settled[value] = known
        return known

    def default(self, shape: tuple[int, ...]) -> LinearLayout:
        """Row-major vectors of four, neighbouring lanes adjacent."""
        order = tuple(reversed(range(len(shape))))
        size = 1
        for dim in shape:
            size *= dim
        threads = 32 * self.num_warps
        vector = max(1, min(4, size // threads))
        return blocked(shape, order, vector, self.num_warps)

    def is_spread(self, load: aa.TiledLoadOp) -> bool:
        """Whether the layout of a load's class is that of a row whose elements each thread loads
        for itself; to be asked when that layout is known.
        """
        return load in self._spread

    def _spread_layout(self, load: aa.TiledLoadOp) -> LinearLayout | None:
        """Where a row or column of few elements lies that products' tiles are combined with.

        Each thread loads what it needs of it: others would send it at least as many times. None if
        it is read in any other way, or has more elements than `MAX_SPREAD` in a thread.
        """
        if not self._has_products or len(self._members[self._find(load.result)]) > 1:
            return None
        wanted = dict.fromkeys(
            layout for use in load.result.uses for layout in self._spread_by(use.operation)
        )
        found = next(iter(wanted), None) if len(wanted) == 1 else None
        if found is None:
            return None
        found = found.without_register_duplicates()
        return found if 2 ** len(found.basis("register")) <= MAX_SPREAD else None

    def _spread_by(self, op: Operation) -> list[LinearLayout | None]:
        """The layouts of the source in which the users of what rearranges it want it."""
        if not isinstance(op, aa.BroadcastOp | aa.ReshapeOp | aa.PermuteOp):
            return [None]
        found: list[LinearLayout | None] = []
        for use in op.result.uses:
            user = use.operation
            if isinstance(user, ElementwiseOp) and isinstance(op, aa.BroadcastOp):
                root = self._find(user.results[0])
                is_product = any(
                    p.priority == PRIORITY_DOT for p in self._preferences.get(root, ())
                )
                layouts = [self._layout_of(root) if is_product else None]
            else:
                layouts = self._spread_by(user)
            found += [layout and source_layout(op, layout) for layout in layouts]
        return found

    def _choose(self, root: SSAValue) -> LinearLayout:
        owner = root.owner
        if isinstance(owner, aa.TiledLoadOp):
            spread = self._spread_layout(owner)
            if spread is not None:
                self._spread.add(owner)
                return spread
        layout = self._preferred(root)
        ops = self._combined_of.get(root, [])
        axes = {op.dim.value.data for op in ops}
        if len(axes) != 1 or any(map(_is_read_twice, self._members[root])):
            return layout
        from tileiras.planning.column_loops import column_dim
        from tileiras.planning.layouts.combining import rows_for_warps, warps_beside, warps_last

        axis = axes.pop()
        if any(isinstance(op, aa.ScanOp) for op in ops):
            return warps_last(layout, axis)
        if any(column_dim(op.parent_op()) == axis for op in ops):
            bits = min(storage_bits(element_of(member)) for member in self._members[root])
            layout = warps_beside(layout, axis, bits)
        if all(isinstance(op, aa.ReduceOp) and len(op.operands) > 1 for op in ops):
            layout = rows_for_warps(layout, axis)
        return layout

    def _preferred(self, root: SSAValue) -> LinearLayout:
        """What the most demanding member wants."""
        preferences = self._preferences.get(root)
        best = (
            max(preferences, key=lambda preference: (preference.priority, preference.vector))
            if preferences
            else None
        )
        if best is not None and best.priority == PRIORITY_LOAD and best.is_widest:
            # Of wider elements fewer fill an access: theirs would be torn apart otherwise.
            alike = (preference for preference in preferences or () if preference.is_widest)
            return min(alike, key=lambda preference: preference.vector).layout
        if best is not None and best.priority >= PRIORITY_LOAD:
            return best.layout
        for member in self._members[root]:
            derived = self._derived(member)
            if derived is not None:
                return derived.without_register_duplicates()
        return best.layout if best is not None else self.default(shape_of(root))

    def _derived(self, value: SSAValue) -> LinearLayout | None:
        """What falls out of the operation that makes a member."""
        if isinstance(value, BlockArgument) or not isinstance(value, OpResult):
            return None
        op = value.op
        if isinstance(op, aa.ReduceOp):
            source = self.natural(op.operands[0])
            return source.slice(op.dim.value.data) if source is not None else None
        if isinstance(op, aa.ExtractOp):
            source = self.natural(op.source)
            return grid_slice(source, shape_of(value)) if source is not None else None
        if isinstance(op, ElementwiseOp):
            for operand in op.operands:
                if is_tensor(operand) and is_lazy(operand):
                    natural = self.natural(operand)
                    if natural is not None:
                        return natural
        return None


def _row_access(op: aa.StoreOp, warps: int) -> AccessPlan | None:
    """A store of rows, each by one thread."""
    from tileiras.planning.operands.row_stores import chunk_of, pointers_layout

    layout = pointers_layout(op, warps)
    return AccessPlan(1, chunk_of(op), layout) if layout is not None else None


def _is_read_twice(value: SSAValue) -> bool:
    """Whether several loops read a tile where the first one has copied it."""
    owner = value.owner
    if not isinstance(owner, aa.ReadStageOp):
        return False
    return sum(isinstance(use.operation, aa.ReadStageOp) for use in owner.buffer.uses) > 1


_COLLECT: dict[type[Operation], Callable[[EquivalenceClasses, Any], None]] = {
    aa.ScanOp: EquivalenceClasses._collect_scan,
    aa.ForOp: EquivalenceClasses._collect_for,
    aa.LoopOp: EquivalenceClasses._collect_loop,
    aa.ContinueOp: EquivalenceClasses._collect_continue,
    aa.BreakOp: EquivalenceClasses._collect_break,
    aa.YieldOp: EquivalenceClasses._collect_yield,
    aa.ReduceOp: EquivalenceClasses._collect_reduce,
    aa.AtomicRMWOp: EquivalenceClasses._collect_atomic,
    aa.AtomicCASOp: EquivalenceClasses._collect_atomic,
    aa.ShareTilesOp: EquivalenceClasses._collect_share,
    aa.KeepTilesOp: EquivalenceClasses._collect_kept,
    aa.DotOp: EquivalenceClasses._collect_dot,
    aa.DotScaledOp: EquivalenceClasses._collect_dot,
    aa.TiledLoadOp: EquivalenceClasses._collect_view_load,
    aa.ReadStageOp: EquivalenceClasses._collect_view_load,
    aa.TiledStoreOp: EquivalenceClasses._collect_view_store,
    aa.TiledAtomicRedOp: EquivalenceClasses._collect_view_store,
    aa.LoadOp: EquivalenceClasses._collect_load,
    aa.StoreOp: EquivalenceClasses._collect_store,
}
"""What operations tie and prefer that are not elementwise."""
