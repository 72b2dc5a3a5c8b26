"""Which values share a layout, and which layout each class of values gets.

Elementwise operations and control flow tie their values together (union-find). A class takes the
layout that its most demanding member wants: a matrix product before a memory access before what it
is computed from. Values that cost nothing to make anywhere (constants, ranges, splats, and
reshapes, permutations and broadcasts of anything) belong to no class: they are made where they are
needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.grid_slices import grid_slice
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.rearranged import result_layout, source_layout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.access import AccessPlan, is_widest, plan_pointer_access, plan_view_access
from tileiras.planning.layouts.epilogues import Epilogues
from tileiras.planning.mma.dots import DotPlan, plan_dot
from tileiras.planning.model.cta import CtaPlan

LAZY_OPS = (
    aa.ConstantOp,
    aa.SplatOp,
    aa.MakeRangeOp,
    aa.BroadcastOp,
    aa.ReshapeOp,
    aa.PermuteOp,
)
"""Operations whose results are made anew in every layout that is asked for."""

PRIORITY_SCALE, PRIORITY_DOT, PRIORITY_LOAD, PRIORITY_STORE = 4, 3, 2, 1
"""Policy: whose preference for a layout counts more: that of products for their scales, for their
results, of loads or stores.
"""


@dataclass(frozen=True)
class Wish:
    """A layout that some member of a class wants; `vector` weighs equal priorities.

    `is_widest`: of an access whose vectors are as long as an instruction can move.
    """

    priority: int
    vector: int
    layout: LinearLayout
    is_widest: bool = False


def is_tensor(value: SSAValue) -> bool:
    """Whether the value is a tensor, hence needs a layout."""
    return isinstance(value.type, TensorType)


def is_lazy(value: SSAValue) -> bool:
    """Whether the value is made where it is needed."""
    return isinstance(value, OpResult) and isinstance(value.op, LAZY_OPS)


class LayoutClasses:
    """Collects classes over a function, then answers `layout(value)`."""

    def __init__(self, plan: CtaPlan):
        self.plan = plan
        self._parent: dict[SSAValue, SSAValue] = {}
        self._members: dict[SSAValue, list[SSAValue]] = {}
        self._wishes: dict[SSAValue, list[Wish]] = {}
        self._layouts: dict[SSAValue, LinearLayout] = {}
        self._assigning: list[SSAValue] = []
        self._epilogues = Epilogues(self._reads_as_well)

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
            self._wishes.setdefault(first, []).extend(self._wishes.pop(second, []))

    def wish(
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
            self._wishes.setdefault(root, []).append(Wish(priority, vector, layout, is_widest))

    # collection

    def collect(self, func: aa.FuncOp) -> None:
        """Ties and wishes of all operations of a function."""
        for op in func.walk():
            self._collect_op(op)

    def _collect_op(self, op: Operation) -> None:
        match op:
            case ElementwiseOp() | aa.ScanOp():
                apart = self._epilogues.products(op)
                self.tie([*(value for value in op.operands if value not in apart), *op.results])
            case aa.ForOp():
                arguments = op.body.block.args[1:]
                self._tie_each(arguments, op.init_values, op.results)
            case aa.LoopOp():
                self._tie_each(op.body.block.args, op.init_values)
            case aa.ContinueOp():
                loop = enclosing(op, aa.ForOp, aa.LoopOp)
                skip = 1 if isinstance(loop, aa.ForOp) else 0
                self._tie_each(loop.regions[0].block.args[skip:], op.operands)
            case aa.BreakOp():
                self._tie_each(enclosing(op, aa.LoopOp).results, op.operands)
            case aa.YieldOp():
                parent = op.parent_op()
                if isinstance(parent, aa.IfOp):
                    self._tie_each(parent.results, op.operands)
            case aa.ReduceOp():
                self.tie(op.operands)
                self.tie(op.results)
            case _:
                self._collect_access(op)

    def _reads_as_well(self, load: Operation, dot: aa.ProductOp) -> bool:
        """Whether a load may go straight to the layout of a product."""
        access = None
        match load:
            case aa.TiledLoadOp() | aa.FinishLoadOp():
                access = plan_view_access(load.view, self.plan.num_warps)
            case aa.LoadOp():
                access = plan_pointer_access(load, self.plan.num_warps)
            case _:
                pass
        return access is None or access.suits(plan_dot(dot, self.plan).result)

    def _tie_each(self, *groups: Sequence[SSAValue]) -> None:
        for values in zip(*groups, strict=True):
            self.tie(values)

    def _collect_access(self, op: Operation) -> None:
        warps = self.plan.num_warps
        match op:
            case aa.TiledLoadOp() | aa.FinishLoadOp():
                self._wish_access(op.result, PRIORITY_LOAD, plan_view_access(op.view, warps))
            case aa.TiledStoreOp() | aa.TiledAtomicRedOp():
                self._wish_access(op.value, PRIORITY_STORE, plan_view_access(op.view, warps))
            case aa.LoadOp():
                self.tie([op.pointers, *op.operands[1:], op.result])
                access = plan_pointer_access(op, warps)
                if access is not None:
                    self.wish(op.result, PRIORITY_LOAD, access.vector, access.layout)
            case aa.StoreOp():
                self.tie([op.pointers, *([op.mask] if op.mask is not None else [])])
                access = plan_pointer_access(op, warps)
                if access is not None:
                    self.wish(op.pointers, PRIORITY_LOAD, access.vector, access.layout)
                    self.wish(op.value, PRIORITY_STORE, access.vector, access.layout)
            case aa.AtomicRMWOp() | aa.AtomicCASOp():
                self.tie([*op.operands, op.result])
            case aa.ShareTilesOp():
                for number in range(len(op.tiles)):
                    self.tie([read.result for read in op.reads(number)])
            case aa.DotOp() | aa.DotScaledOp():
                self.tie([op.acc, op.result])
                planned = plan_dot(op, self.plan)
                self.wish(op.result, PRIORITY_DOT, 0, planned.result)
                if isinstance(op, aa.DotScaledOp):
                    self._wish_scales(op, planned)
            case _:
                pass

    def _wish_scales(self, op: aa.DotScaledOp, planned: DotPlan) -> None:
        """Scales are few: they are loaded to where instructions read them, at whatever width."""
        scales = (op.lhs_scale, planned.lhs_scale), (op.rhs_scale, planned.rhs_scale)
        for value, layout in scales:
            if layout is not None:
                self.wish(value, PRIORITY_SCALE, 0, layout)

    def _wish_access(self, value: SSAValue, priority: int, access: AccessPlan) -> None:
        """What an access through a view wants."""
        widest = is_widest(access, storage_bits(element_of(value)))
        self.wish(value, priority, access.vector, access.layout, widest)

    # answers

    def layout(self, value: SSAValue) -> LinearLayout:
        """The layout of a tensor that has a class."""
        root = self._find(value)
        known = self._layouts.get(root)
        if known is None:
            self._assigning.append(root)
            known = self._choose(root)
            self._assigning.pop()
            self._layouts[root] = known
        return known

    def natural(self, value: SSAValue) -> LinearLayout | None:
        """The layout in which the value exists, or falls out for free; None if any is as good."""
        if not is_lazy(value):
            root = self._find(value)
            return None if root in self._assigning else self.layout(value)
        if not isinstance(value, OpResult):
            return None
        match value.op:
            case aa.ReshapeOp() | aa.PermuteOp() as op:
                source = self.natural(op.source) if is_tensor(op.source) else None
                return result_layout(op, source) if source is not None else None
            case _:
                return None

    def settled(self, value: SSAValue) -> LinearLayout:
        """The natural layout, or the default one of the shape."""
        return self.natural(value) or self.default(shape_of(value))

    def default(self, shape: tuple[int, ...]) -> LinearLayout:
        """Row-major vectors of four, neighbouring lanes adjacent."""
        order = tuple(reversed(range(len(shape))))
        size = 1
        for dim in shape:
            size *= dim
        threads = 32 * self.plan.num_warps
        vector = max(1, min(4, size // threads))
        return blocked(shape, order, vector, self.plan.num_warps)

    def _choose(self, root: SSAValue) -> LinearLayout:
        wishes = self._wishes.get(root)
        best = max(wishes, key=lambda wish: (wish.priority, wish.vector)) if wishes else None
        if best is not None and best.priority == PRIORITY_LOAD and best.is_widest:
            # Of wider elements fewer fill an access: theirs would be torn apart otherwise.
            alike = (wish for wish in wishes or () if wish.is_widest)
            return min(alike, key=lambda wish: wish.vector).layout
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
