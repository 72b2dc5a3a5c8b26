"""Loops that keep a maximum and sums of each element's column, of which the rest is made behind.

    for %j { %m2 = max(%m, %x[%j]);  %f = exp(%m - %m2);  %l2 = %l * %f + exp(%x[%j] - %m2) }
    %top = reduce max %m;  %all = reduce add (%l * exp(%m - %top))

Columns that become one in the end anyway may be one from the start: a tile with so many columns
for each maximum is what `online_sums` says of several tiles. Powers and scaling of sums are then
needed once for all columns of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.planning.access import plan_pointer_access, plan_view_access
from tileiras.planning.tiling.joined_iterations import IterationReading, body_is, is_plain
from tileiras.planning.tiling.online_sums import (
    AFTER,
    BEFORE,
    FIXED,
    MAXIMUM,
    TILE,
    CannotJoinError,
    Kind,
    Meaning,
    added,
    summed,
)

_PLAIN = (Kind.FIXED, Kind.TILE)
_NARROW = (Kind.TOP, Kind.FADE, Kind.SCALED, Kind.NEXT)


@dataclass
class OnlineColumns:
    """A loop whose columns along `dim` may be kept in groups of `group`, and what follows it.

    `narrow`: values, of the body and behind it, that have one element for each group then;
    `fixed`: what they are computed with that is the same for all columns.
    `maximum`, `sums`: the reductions behind the loop that make one of all groups.
    """

    loop: aa.ForOp
    dim: int = -1
    group: int = 1
    narrow: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    fixed: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    maximum: list[aa.ReduceOp] = field(default_factory=list[aa.ReduceOp])
    sums: list[aa.ReduceOp] = field(default_factory=list[aa.ReduceOp])


def find_online_columns(loop: aa.ForOp) -> OnlineColumns | None:
    """How columns of a loop's maxima and sums become groups; None if that would not be the same,
    or a thread has no several columns side by side.
    """
    carried = [value for value in loop.results if isinstance(value.type, TensorType)]
    if len(carried) < 2 or any(isinstance(op, aa.ProductOp) for op in loop.walk()):
        return None
    reading = _ColumnReading(loop)
    try:
        reading.read()
        reading.read_behind()
    except CannotJoinError:
        return None
    found = reading.columns
    found.group = _columns_of_access(loop, found.dim)
    return found if found.group > 1 else None


def can_narrow(value: SSAValue, dim: int) -> bool:
    """Whether a value from elsewhere is the same all along a dim, and may be made shorter."""
    if not isinstance(value.type, TensorType):
        return True
    if not isinstance(value, OpResult):
        return False
    match value.op:
        case aa.ConstantOp() as op:
            return op.value.is_splat
        case aa.SplatOp():
            return True
        case aa.BroadcastOp() as op:
            return shape_of(op.source)[dim] == 1 or can_narrow(op.source, dim)
        case ElementwiseOp() as op:
            return all(can_narrow(operand, dim) for operand in op.operands)
        case _:
            return False


def _columns_of_access(loop: aa.ForOp, dim: int) -> int:
    """Columns that one access of a thread loads: of all loads of the body the fewest."""
    shape = next(shape_of(v) for v in loop.results if isinstance(v.type, TensorType))
    columns: list[int] = []
    for op in loop.body.block.ops:
        match op:
            case aa.TiledLoadOp() if shape_of(op.result) == shape:
                access = plan_view_access(op.view, 1)
            case aa.LoadOp() if shape_of(op.pointers) == shape:
                access = plan_pointer_access(op, 1)
            case _:
                continue
        columns.append(access.vector if access is not None and access.axis == dim else 1)
    return min(columns, default=1)


class _ColumnReading(IterationReading):
    """As iterations are read, but that each column has a maximum and sums of its own."""

    def __init__(self, loop: aa.ForOp):
        super().__init__(loop)
        self.columns = OnlineColumns(loop)
        self.types: dict[Attribute, None] = {}
        self.scales: dict[int, tuple[object, ...]] = {}
        """By which powers sums are scaled: what a maximum is multiplied by, and the function."""
        for arg in self.block.args:
            if isinstance(arg.type, TensorType):
                self.types[arg.type] = None
                self.columns.narrow[arg] = None
            else:
                self.meanings[arg] = TILE

    def read(self) -> None:
        """The body. Raises CannotJoinError."""
        if len(self.types) != 1 or len(self.yielded) != len(self.block.args) - 1:
            raise CannotJoinError("tiles of several shapes")
        tops = [value for value in self.yielded if value in self.tops]
        if len(tops) != 1 or element_of(tops[0]) != Float32Type():
            raise CannotJoinError("no maximum of f32")
        for op in self.block.ops:
            if not isinstance(op, aa.ContinueOp):
                self._note(op, self._meaning(op))
        for position, value in enumerate(self.yielded):
            if not isinstance(value.type, TensorType) or value in self.tops:
                continue
            known = self._of(value)
            if known.kind is not Kind.NEXT or known.carried != position:
                raise CannotJoinError("what is handed on is no sum")

    def _note(self, op: Operation, meaning: Meaning) -> None:
        """Notes what the results of an operation are."""
        for result in op.results:
            self.meanings[result] = meaning
        if not op.results:
            return
        [first, *_] = op.results
        if first in self.tops:
            if meaning.kind is not Kind.TOP:
                raise CannotJoinError("what is handed on is not the maximum")
            self.meanings[first] = AFTER
        is_below = meaning.kind is Kind.BELOW and not meaning.has_rest
        if meaning.kind not in _NARROW and not is_below:
            return
        if first.type not in self.types:
            raise CannotJoinError("what is carried gets another shape")
        self.columns.narrow[first] = None

    def _of(self, value: SSAValue) -> Meaning:
        """The meaning of an operand."""
        return self.meanings[value] if value in self.meanings else super()._of(value)

    def _meaning(self, op: Operation) -> Meaning:
        """Whatever is done with tiles alone is what it was."""
        meanings = [self._of(operand) for operand in op.operands]
        if all(meaning.kind in _PLAIN for meaning in meanings):
            is_fixed = not op.regions and all(m.kind is Kind.FIXED for m in meanings)
            return FIXED if is_fixed and not isinstance(op, aa.TiledLoadOp) else TILE
        if op.regions or not isinstance(op, ElementwiseOp):
            raise CannotJoinError("what is carried is no element")
        return self._combined(op, meanings)

    def _combined(self, op: Operation, meanings: list[Meaning]) -> Meaning:
        """The meaning of what is computed with carried values: of a group's columns the maximum or
        the sum is taken first.
        """
        match op:
            case aa.MaxFOp():
                meanings = [MAXIMUM if m.kind is Kind.TILE else m for m in meanings]
            case aa.AddFOp() if any(m.kind in (Kind.SCALED, Kind.SUM) for m in meanings):
                meanings = [_part(meaning) for meaning in meanings]
                _check_order(op)
            case aa.FmaOp() if meanings[2].kind in (Kind.POWER, Kind.TILE):
                product = self._times(op, meanings)
                if product.kind is Kind.SCALED:
                    _check_order(op)
                    self._note_scale(product)
                    return added(product, _part(meanings[2]))
            case _:
                pass
        found = self._computed(op, meanings)
        if found.kind is Kind.SCALED:
            self._note_scale(found)
        return found

    def _note_scale(self, scaled: Meaning) -> None:
        self.scales[scaled.carried] = (scaled.after, scaled.base)

    # behind the loop

    def read_behind(self) -> None:
        """What is made of maxima and sums behind the loop, up to reductions of both."""
        for number, result in enumerate(self.loop.results):
            if isinstance(result.type, TensorType):
                is_top = self.yielded[number] in self.tops
                sum_ = Meaning(Kind.SUM, carried=number)
                self.meanings[result] = BEFORE if is_top else sum_
                self.columns.narrow[result] = None
        op = self.loop.next_op
        while op is not None:
            if any(operand in self.columns.narrow for operand in op.operands):
                self._read_behind(op)
            op = op.next_op
        found = self.columns
        if not found.maximum or not found.sums:
            raise CannotJoinError("no reductions")
        for value, meaning in self.meanings.items():
            owner = value.owner
            block = owner.parent_block() if isinstance(owner, Operation) else owner
            uses = [] if meaning.kind in _PLAIN else value.uses
            if any(use.operation.parent_block() is not block for use in uses):
                raise CannotJoinError("what is carried is used in a branch")
        self._check_fixed()

    def _read_behind(self, op: Operation) -> None:
        """The meaning of one operation behind the loop."""
        if isinstance(op, aa.ReduceOp):
            self._read_reduction(op)
            return
        if op.regions or not isinstance(op, ElementwiseOp):
            raise CannotJoinError("what is carried is used otherwise")
        meanings = [self.meanings.get(operand, FIXED) for operand in op.operands]
        match op:
            case aa.Exp2Op() | aa.ExpOp():
                found = self._power_behind(op, meanings[0])
            case aa.MulFOp() if {m.kind for m in meanings} == {Kind.SUM, Kind.POWER}:
                found = self._scaled_behind(meanings)
            case aa.AddFOp() | aa.SubFOp() | aa.MulFOp() | aa.NegFOp() | aa.FmaOp():
                found = self._computed(op, meanings)
                if found.kind is not Kind.BELOW:
                    raise CannotJoinError("what is carried is computed with otherwise")
            case _:
                raise CannotJoinError("what is carried is computed with otherwise")
        [result] = op.results
        if result.type not in self.types:
            raise CannotJoinError("what is carried gets another shape")
        self.meanings[result] = found
        self.columns.narrow[result] = None

    def _power_behind(self, op: Operation, meaning: Meaning) -> Meaning:
        """A power of a maximum of a group, below anything that is the same for all columns."""
        if meaning.kind is not Kind.BELOW or meaning.before is None or meaning.after is not None:
            raise CannotJoinError("a power of something else")
        return Meaning(Kind.POWER, after=meaning.before.negated(), base=type(op))

    def _scaled_behind(self, meanings: Sequence[Meaning]) -> Meaning:
        """A sum, scaled as it has been in the loop."""
        sum_, factor = sorted(meanings, key=lambda meaning: meaning.kind is not Kind.SUM)
        if self.scales.get(sum_.carried) != (factor.after, factor.base):
            raise CannotJoinError("a sum is scaled otherwise behind the loop")
        return Meaning(Kind.SCALED, carried=sum_.carried)

    def _read_reduction(self, op: aa.ReduceOp) -> None:
        """The maximum of all maxima, or the sum of sums that are below one maximum."""
        if len(op.arguments) != 1:
            raise CannotJoinError("a reduction of several tiles")
        meaning = self.meanings[op.arguments[0]]
        found, dim = self.columns, op.dim.value.data
        is_sum = meaning.kind is Kind.SCALED
        is_sum = is_sum or (meaning.kind is Kind.SUM and meaning.carried not in self.scales)
        if meaning == BEFORE and body_is(op, aa.MaxFOp):
            found.maximum.append(op)
        elif is_sum and body_is(op, aa.AddFOp):
            found.sums.append(op)
        else:
            raise CannotJoinError("another reduction")
        if found.dim not in (-1, dim):
            raise CannotJoinError("reductions along several dims")
        found.dim = dim

    def _check_fixed(self) -> None:
        """What is computed with maxima and sums has to be the same for all columns of a group."""
        found = self.columns
        for number, start in enumerate(self.loop.init_values):
            if not isinstance(start.type, TensorType):
                continue
            is_top = self.yielded[number] in self.tops
            if not (can_narrow(start, found.dim) if is_top else is_zero(start)):
                raise CannotJoinError("sums that do not start at zero")
        for value in found.narrow:
            if not isinstance(value, OpResult) or value.op is self.loop:
                continue
            for operand in value.op.operands:
                meaning = self.meanings.get(operand, FIXED)
                if meaning.kind is not Kind.FIXED:
                    continue
                if not can_narrow(operand, found.dim):
                    raise CannotJoinError("what is not the same for all columns")
                found.fixed[operand] = None
        [top] = self.tops
        flags = {_flags(op) for op in _maxima(top, found.narrow)}
        flags |= {_flags(op.body.block.first_op) for op in found.maximum}
        if len(flags) > 1:
            raise CannotJoinError("maxima that differ in what they make of NaN")


def _part(meaning: Meaning) -> Meaning:
    """Of the sum of a group's columns."""
    return summed([meaning]) if meaning.kind in (Kind.POWER, Kind.TILE) else meaning


def _check_order(op: Operation) -> None:
    if not is_plain(op):
        raise CannotJoinError("sums are rounded in a way of their own")


def _maxima(top: SSAValue, narrow: dict[SSAValue, None]) -> list[Operation]:
    """The maxima that the carried one is made of."""
    found: list[Operation] = []
    pending = [top]
    while pending:
        value = pending.pop()
        if value in narrow and isinstance(value.owner, aa.MaxFOp):
            found.append(value.owner)
            pending += value.owner.operands
    return found


def _flags(op: Operation | None) -> tuple[tuple[str, Attribute], ...]:
    return tuple(sorted(op.properties.items())) if op is not None else ()
