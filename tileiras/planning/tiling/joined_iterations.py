"""Which loops over tiles do the same in fewer iterations, with tiles that are larger.

    for %j in [a, b) { %k = load K[%j] of 64; %s = dot %q, %k; .. }
    -> for %j in [a, b) step 2 { %k = load K[%j] of 128; %s = dot %q, %k; .. }

What comes from a load whose index is the number of the iteration is larger along a dim, up to where
it is reduced or summed up along that dim. What is carried is known (`online_sums`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, RoundingMode, RoundingModeAttr
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.tiling.online_sums import (
    AFTER,
    BEFORE,
    FIXED,
    MAXIMUM,
    TILE,
    CannotJoinError,
    Factor,
    Kind,
    Meaning,
    added,
    fixed_scalar,
    largest,
    multiplied,
    negated,
    power,
    scaled,
    summed,
)
from tileiras.planning.tiling.slicing import operand_dims

_PARTS = 2
"""Fixed: what is made larger could be cut in at least so many parts then."""
_BODY_OPS = 2
"""Fixed: operations of the body of a plain reduction, with its end."""
_LEAST_BITS = 16
"""Policy: of what powers are rounded to. Those of f8 below a common maximum would lose more than
those below the maximum of each tile.
"""
_SIGN = 0x80
"""Fixed: the sign in the last byte of a float."""
_NEAREST = RoundingModeAttr(RoundingMode.NEAREST_EVEN)
_SHAPES = (aa.ReshapeOp, aa.BroadcastOp, aa.PermuteOp, aa.SplatOp)


@dataclass
class JoinedIterations:
    """A loop of which several iterations may be one.

    `tops`: its results that are maxima. `dims`: what is so many times as large then, and along
    which dim. `factors`: numbers that must be above zero, since maxima are multiplied by them,
    `late` ones where scores are scaled late. `scaled`: products of tiles with a number, each with
    the operand that is a tile, of which maxima are taken and powers made. The maximum of the tile
    itself times the number is the same, and powers take one operation less then. `coarse`: powers
    are rounded to few bits, so that several tiles must not have one maximum.
    """

    loop: aa.ForOp
    tops: list[SSAValue] = field(default_factory=list[SSAValue])
    dims: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    factors: list[SSAValue] = field(default_factory=list[SSAValue])
    late: list[SSAValue] = field(default_factory=list[SSAValue])
    scaled: dict[Operation, int] = field(default_factory=dict[Operation, int])
    coarse: bool = False


def joined_iterations(loop: aa.ForOp) -> JoinedIterations | None:
    """How iterations of a loop become one, None if that would not give the same."""
    if not counts_one_by_one(loop):
        return None
    reading = IterationReading(loop)
    try:
        reading.read()
    except CannotJoinError:
        return None
    found = reading.found
    return found if any(isinstance(v.owner, aa.TiledLoadOp) for v in found.dims) else None


def counts_one_by_one(loop: aa.ForOp) -> bool:
    """Whether the loop counts up by one, and by itself."""
    step = fixed_scalar(loop.step)
    is_one = isinstance(step, bytes) and int.from_bytes(step, "little") == 1
    return is_one and loop.takes_over is None


class IterationReading:
    """Goes through the body of a loop in program order."""

    def __init__(self, loop: aa.ForOp):
        self.loop = loop
        self.block: Block = loop.body.block
        self.found = JoinedIterations(loop)
        self.dims = self.found.dims
        last = self.block.last_op
        self.yielded = last.operands if isinstance(last, aa.ContinueOp) else ()
        self.meanings: dict[SSAValue, Meaning] = {}
        self.tops: dict[SSAValue, None] = {}
        """The maxima that are handed on."""
        for position, arg in enumerate(self.block.args[1:]):
            self.meanings[arg] = Meaning(Kind.SUM, carried=position)
            maker = self.yielded[position].owner
            if isinstance(maker, aa.MaxFOp) and maker.parent_block() is self.block:
                self.meanings[arg] = BEFORE
                self.tops[self.yielded[position]] = None
                self.found.tops.append(self.loop.results[position])

    def read(self) -> None:
        """Raises CannotJoinError."""
        if len(self.tops) > 1 or len(self.yielded) != len(self.block.args) - 1:
            raise CannotJoinError("several maxima")
        for op in self.block.ops:
            if isinstance(op, aa.ContinueOp):
                continue
            meaning = self._meaning(op)
            for result in op.results:
                if isinstance(result.type, TensorType) or not isinstance(op, aa.TiledLoadOp):
                    self.meanings[result] = meaning
            if op.results and op.results[0] in self.tops:
                if meaning.kind is not Kind.TOP:
                    raise CannotJoinError("what is handed on is not the maximum")
                self.meanings[op.results[0]] = AFTER
        for position, value in enumerate(self.yielded):
            known = self._of(value)
            is_next = known.kind is Kind.NEXT and known.carried == position
            if value not in self.tops and not is_next:
                raise CannotJoinError("what is handed on is no sum")

    def _of(self, value: SSAValue) -> Meaning:
        """The meaning of an operand: what comes from outside is fixed."""
        if value in self.meanings:
            return self.meanings[value]
        if value is self.block.args[0]:
            raise CannotJoinError("the number of the iteration beside indices")
        if isinstance(value.owner, Block):
            return FIXED
        if value.owner.parent_block() is self.block:
            raise CannotJoinError("a value of no known meaning")
        return FIXED

    def _meaning(self, op: Operation) -> Meaning:
        """The meaning of what an operation makes; notes what is larger."""
        match op:
            case aa.TiledLoadOp():
                return self._load(op)
            case aa.ReduceOp():
                return self._reduction(op)
            case aa.DotOp():
                return self._product(op)
        if op.regions or not op.has_trait(Pure):
            raise CannotJoinError("an operation with an effect, or a branch")
        meanings = [self._of(operand) for operand in op.operands]
        self._widen(op)
        if isinstance(op, aa.MulFOp):
            self._note_scaled(op, meanings)
        if all(meaning.kind is Kind.FIXED for meaning in meanings):
            return FIXED
        return self._computed(op, meanings)

    def _computed(self, op: Operation, meanings: list[Meaning]) -> Meaning:
        """The meaning of what is computed element by element."""
        match op:
            case aa.ReshapeOp() | aa.BroadcastOp() | aa.PermuteOp() | aa.SplatOp():
                return meanings[0]
            case aa.NegFOp():
                return negated(meanings[0])
            case aa.AddFOp():
                return added(*meanings)
            case aa.SubFOp():
                return added(meanings[0], negated(meanings[1]))
            case aa.MulFOp():
                return self._times(op, meanings)
            case aa.FmaOp():
                return added(self._times(op, meanings), meanings[2])
            case aa.MaxFOp():
                return largest(*meanings)
            case aa.Exp2Op() | aa.ExpOp():
                return power(meanings[0], type(op))
            case aa.FpToFpOp() if meanings[0].kind is Kind.POWER:
                self.found.coarse |= storage_bits(element_of(op.result)) < _LEAST_BITS
                return meanings[0]
            case _:
                if any(meaning.kind not in (Kind.FIXED, Kind.TILE) for meaning in meanings):
                    raise CannotJoinError("what is carried is computed with otherwise")
                return TILE

    def _times(self, op: aa.MulFOp | aa.FmaOp, meanings: list[Meaning]) -> Meaning:
        """The meaning of the product of the first two operands."""
        pairs = list(zip(meanings[:2], op.operands[:2], strict=True))
        for (meaning, _), (other, value) in (pairs, pairs[::-1]):
            if meaning.kind not in (Kind.BELOW, Kind.MAXIMUM) or other.kind is not Kind.FIXED:
                continue
            factor = fixed_scalar(value)
            if factor is None:
                raise CannotJoinError("a maximum times a tile")
            if meaning.kind is Kind.BELOW:
                return scaled(meaning, factor)
            if not _is_positive(factor, self.found.factors):
                raise CannotJoinError("a maximum times what is less than zero")
            return MAXIMUM
        return multiplied(*meanings[:2])

    def _note_scaled(self, op: aa.MulFOp, meanings: list[Meaning]) -> None:
        """Notes a tile times a number, if nothing but maxima and powers is made of it."""
        kinds = [meaning.kind for meaning in meanings]
        if sorted(kinds, key=lambda kind: kind.value) != [Kind.FIXED, Kind.TILE]:
            return
        tile = kinds.index(Kind.TILE)
        factor = fixed_scalar(op.operands[1 - tile])
        users = [use.operation for use in op.result.uses]
        maxima = [user for user in users if self._is_maximum(user)]
        powers = [user for user in users if _makes_powers(user, op.result)]
        if factor is None or not maxima or len(maxima) + len(powers) < len(users):
            return
        if is_plain(op) and all(map(is_plain, powers)) and _is_positive(factor, self.found.late):
            self.found.scaled[op] = tile

    def _is_maximum(self, op: Operation) -> bool:
        """Whether an operation is the maximum of a tile."""
        if not isinstance(op, aa.ReduceOp) or len(op.arguments) != 1:
            return False
        along = self.dims.get(op.arguments[0]) == op.dim.value.data
        return along and body_is(op, aa.MaxFOp)

    def _load(self, op: aa.TiledLoadOp) -> Meaning:
        """A tile; larger along the dim whose index is the number of the iteration."""
        counter, view = self.block.args[0], view_type_of(op.view)
        dims = [dim for dim, index in enumerate(op.indices) if index is counter]
        others = [value for value in op.operands if value is not counter]
        if any(self._of(value).kind is not Kind.FIXED for value in others):
            raise CannotJoinError("an index that changes")
        if op.ordering.data != MemoryOrdering.WEAK or op.result_token.first_use is not None:
            raise CannotJoinError("a load in an order")
        if not dims:
            return FIXED
        [dim, *more] = dims
        follows = view.steps[dim] == view.tile_shape[dim]
        if memref_of(op.view).parent_block() is self.block:
            raise CannotJoinError("a view that is made in the loop")
        if more or not follows or view.sparse_dim is not None:
            raise CannotJoinError("tiles that do not follow each other")
        self.dims[op.result] = dim
        return TILE

    def _reduction(self, op: aa.ReduceOp) -> Meaning:
        """A reduction along the tile's dim or another one."""
        if len(op.arguments) != 1:
            raise CannotJoinError("a reduction of several tiles")
        [source] = op.arguments
        meaning = self._of(source)
        if meaning.kind is Kind.FIXED:
            return FIXED
        is_sum, is_maximum = body_is(op, aa.AddFOp), body_is(op, aa.MaxFOp)
        if self.dims.get(source) != op.dim.value.data:
            self._widen(op)
            if meaning.kind is Kind.TILE or (meaning.kind is Kind.POWER and is_sum):
                return meaning
            raise CannotJoinError("a reduction of what is carried")
        if is_maximum and meaning.kind is Kind.TILE:
            return MAXIMUM
        if not is_sum:
            raise CannotJoinError("a reduction that is neither a sum nor a maximum")
        return summed([meaning])

    def _product(self, op: aa.DotOp) -> Meaning:
        """A product of which one operand is larger, or both along K."""
        lhs, rhs, acc = (self._of(value) for value in (op.lhs, op.rhs, op.acc))
        if op.condition is not None:
            raise CannotJoinError("a product under a condition")
        rank = len(shape_of(op.result))
        ends = self.dims.get(op.lhs) == rank - 1, self.dims.get(op.rhs) == rank - 2
        if all(ends):
            part = summed([lhs, rhs])
            return part if is_zero(op.acc) else added(acc, part)
        if any(ends) or any(m.kind not in (Kind.FIXED, Kind.TILE) for m in (lhs, rhs, acc)):
            raise CannotJoinError("a product of what is carried")
        self._widen(op)
        return TILE if Kind.TILE in (lhs.kind, rhs.kind, acc.kind) else FIXED

    def _widen(self, op: Operation) -> None:
        """Notes along which dim a result is larger, if an operand is."""
        wide = {value: self.dims[value] for value in op.operands if value in self.dims}
        if not wide:
            return
        [result] = op.results
        for dim in range(len(shape_of(result))):
            needed = operand_dims(op, dim, _PARTS)
            if needed is None:
                continue
            pairs = list(zip(op.operands, needed, strict=True))
            if any(wide.get(value, at) != at for value, at in pairs):
                continue
            if all(at is None or self._can_be_wide(value, at) for value, at in pairs):
                self.dims[result] = dim
                return
        raise CannotJoinError("a shape that hides the tile's dim")

    def _can_be_wide(self, value: SSAValue, dim: int) -> bool:
        """Whether a value is larger along a dim, or the same all along it; notes it."""
        if not isinstance(value.type, TensorType):
            return True
        if value in self.dims:
            return self.dims[value] == dim
        if not isinstance(value, OpResult):
            return False
        op = value.op
        if not isinstance(op, (ElementwiseOp, aa.ConstantOp, *_SHAPES)):
            return False
        needed = operand_dims(op, dim, _PARTS)
        if needed is None:
            return False
        pairs = zip(op.operands, needed, strict=True)
        if not all(at is None or self._can_be_wide(v, at) for v, at in pairs):
            return False
        self.dims[value] = dim
        return True


def _is_positive(factor: Factor, asked: list[SSAValue]) -> bool:
    """Whether a factor is above zero; of what is known when the kernel runs, it is asked then."""
    if isinstance(factor, bytes):
        return any(factor) and not factor[-1] & _SIGN
    if factor not in asked:
        asked.append(factor)
    return True


def body_is(op: aa.ReduceOp, function: type[Operation]) -> bool:
    """Whether a reduction applies one function and nothing else."""
    body = list(op.body.block.ops)
    return len(body) == _BODY_OPS and isinstance(body[0], function)


def _makes_powers(op: Operation, value: SSAValue) -> bool:
    """Whether an operation subtracts from a value what makes it the exponent of powers."""
    if not isinstance(op, aa.SubFOp) or op.lhs is not value or op.rhs is value:
        return False
    return all(isinstance(use.operation, aa.Exp2Op | aa.ExpOp) for use in op.result.uses)


def is_plain(op: Operation) -> bool:
    """Whether an operation rounds to the nearest number."""
    is_nearest = op.properties.get("rounding_mode") == _NEAREST
    return is_nearest and "flush_to_zero" not in op.properties
