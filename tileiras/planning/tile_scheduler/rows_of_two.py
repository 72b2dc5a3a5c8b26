"""Whether two tiles can be one of twice the rows, where the second's rows come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.operands.swap_ab import VariationRate, rate_of
from tileiras.planning.tile_scheduler.joinable import TILES
from tileiras.planning.tile_scheduler.neighbours import Neighbours
from tileiras.planning.tiling.product_cut import CannotCutError, ProductCut

_WIDENED = (
    ElementwiseOp,
    aa.BroadcastOp,
    aa.ConstantOp,
    aa.DotOp,
    aa.PermuteOp,
    aa.ReshapeOp,
    aa.SplatOp,
    aa.TiledLoadOp,
    aa.TiledStoreOp,
)
"""Operations that can be done on twice the rows."""


class RowsOfTwo:
    """What has twice the rows, and what must be the same for both tiles."""

    def __init__(self, pair: Neighbours, dot: aa.DotOp):
        self.pair = pair
        block = pair.loop.parent_block()
        if block is None:
            raise CannotCutError("a loop that stands nowhere")
        self.block = block
        self.cut = ProductCut(block, TILES, lambda _: False)
        """What has twice the rows, and along which dim these are."""
        self.equal: dict[SSAValue, None] = {}
        self.following: dict[SSAValue, None] = {}
        """Numbers of tiles that have to be equal, or to follow each other."""
        self.cut.cut([(dot.result, 0)])
        self._check()

    def _check(self) -> None:
        """Raises CannotCutError where the tiles cannot be one."""
        for op in self.block.ops:
            if op is self.pair.loop:
                self._look_at(self.pair.loop.body.block.ops)
                self._same([v for v in self.pair.loop.init_values if v not in self.cut.dims])
            elif isinstance(op, aa.ReturnOp):
                break
            elif op.regions:
                raise CannotCutError(f"'{op.name}' beside the products")
            elif self.is_wide(op) or _has_tiles(op.results):
                self._look_at([op])
            elif self._is_of_the_tile(op):
                self._check_number(op)
        if rate_of(list(self.equal), self.pair.rates) is VariationRate.OFTEN:
            raise CannotCutError("neighbours that mostly have other columns")
        if not all(isinstance(value.type, IntegerType) for value in (*self.equal, *self.following)):
            raise CannotCutError("what differs is no number")

    def is_wide(self, op: Operation) -> bool:
        """Whether an operation makes, or stores, anything of twice the rows."""
        return op in self.cut.sinks or any(result in self.cut.dims for result in op.results)

    def _is_of_the_tile(self, op: Operation) -> bool:
        """Whether an operation is done for each tile, and not once for all."""
        return not op.has_trait(Pure) or any(v in self.pair.differing for v in op.operands)

    def _look_at(self, ops: Iterable[Operation]) -> None:
        """Operations on tiles."""
        for op in ops:
            if op.regions:
                raise CannotCutError(f"'{op.name}' in the loop over K")
            if self.is_wide(op):
                self._check_wide(op)
            elif not isinstance(op, aa.ContinueOp):
                self._same(op.operands)

    def _check_wide(self, op: Operation) -> None:
        is_whole = op not in self.cut.sinks and self.cut.is_used_whole(op)
        if is_whole or not isinstance(op, _WIDENED):
            raise CannotCutError(f"'{op.name}' of twice the rows")
        if not isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp):
            self._same([value for value in op.operands if value not in self.cut.dims])
            return
        [dim] = self.cut.dims_of(op)
        view = view_type_of(op.view)
        if view.steps[dim] != view.tile_shape[dim] or view.sparse_dim is not None:
            raise CannotCutError("tiles that do not follow each other")
        if op.indices[dim] not in self.pair.differing:
            raise CannotCutError("both tiles have the same rows")
        self.following[op.indices[dim]] = None
        others = [index for at, index in enumerate(op.indices) if at != dim]
        self._same([memref_of(op.view).result, *others])

    def _same(self, values: Sequence[SSAValue]) -> None:
        """What has to be the same for both, and may not be; not what is of twice the rows."""
        for value in values:
            if value in self.pair.differing and not self._is_made_of_tiles(value):
                self.equal[value] = None

    def _is_made_of_tiles(self, value: SSAValue) -> bool:
        """Whether a value is a tile, of twice the rows or the same for both, or a token of one; or
        is made in the loop.
        """
        if not isinstance(value, OpResult):
            return value.owner is self.pair.loop.body.block
        op = value.op
        is_inside = op.parent_op() is self.pair.loop
        return is_inside or op is self.pair.loop or self.is_wide(op) or _has_tiles(op.results)

    def _check_number(self, op: Operation) -> None:
        """What is no tile, and computed for each."""
        for value in op.operands:
            if self._is_made_of_tiles(value) or isinstance(value.type, TensorType):
                raise CannotCutError(f"'{op.name}' of a tile")
        if not op.has_trait(Pure):
            raise CannotCutError(f"'{op.name}' beside the products")


def _has_tiles(values: Sequence[SSAValue]) -> bool:
    return any(isinstance(value.type, TensorType) for value in values)
