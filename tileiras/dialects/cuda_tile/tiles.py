"""Operations of the cuda_tile dialect: making and reshaping tiles (Tile IR specification)."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import AssumePredicateAttr
from tileiras.dialects.cuda_tile.checks import (
    check_dim,
    check_same_shape,
    check_same_type,
    check_scalar,
    check_tile,
    fail,
    show,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import ANY, I32, INTEGER, NUMBER, POINTER, bit_width
from tileiras.dialects.cuda_tile.predicates import check_predicate
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import TileType


def _check_same_elements(op: Operation, source: TileType, result: TileType, what: str) -> None:
    if source.element_type != result.element_type:
        found, expected = element_text(result.element_type), element_text(source.element_type)
        fail(op, f"{what} has element type {found}, expected {expected} (as the source)")


def _check_slice_indices(op: Operation, indices: Sequence[SSAValue], rank: int) -> None:
    if len(indices) != rank:
        fail(op, f"has {len(indices)} indices, expected {rank} (the rank of the source)")
    for position, index in enumerate(indices):
        check_scalar(op, index, f"index {position}", I32)


def _check_slices(op: Operation, whole: TileType, part: TileType, names: tuple[str, str]) -> None:
    if whole.rank != part.rank:
        fail(op, f"{names[1]} has rank {part.rank}, expected {whole.rank} (as the {names[0]})")
    for dim, (size, slice_size) in enumerate(zip(whole.shape, part.shape)):
        if size % slice_size:
            fail(
                op,
                f"{names[1]} has size {slice_size} in dim {dim}, "
                f"expected a divisor of {size} (as the {names[0]})",
            )


@irdl_op_definition
class BroadcastOp(TileOp):
    """`result[.., i, ..] = source[.., 0, ..]` along the dims of size 1 that grow."""

    name = "cuda_tile.broadcast"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Same rank and elements; only dims of size 1 change."""
        source = check_tile(self, self.source, "source", ANY)
        result = check_tile(self, self.result, "result", ANY)
        _check_same_elements(self, source, result, "result")
        if source.rank != result.rank:
            fail(self, f"result has rank {result.rank}, expected {source.rank} (as the source)")
        for dim, (old, new) in enumerate(zip(source.shape, result.shape)):
            if old not in (1, new):
                fail(self, f"result has size {new} in dim {dim}, expected {old} (as the source)")


@irdl_op_definition
class CatOp(TileOp):
    """`result` is `lhs` followed by `rhs` along `dim`."""

    name = "cuda_tile.cat"
    lhs = operand_def()
    rhs = operand_def()
    dim = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Same rank and elements; sizes add up along `dim` and agree elsewhere."""
        lhs = check_tile(self, self.lhs, "lhs", ANY)
        rhs = check_tile(self, self.rhs, "rhs", ANY)
        result = check_tile(self, self.result, "result", ANY)
        dim = check_dim(self, self.dim, lhs.rank)
        for type, what in ((rhs, "rhs"), (result, "result")):
            if type.element_type != lhs.element_type:
                found, expected = element_text(type.element_type), element_text(lhs.element_type)
                fail(self, f"{what} has element type {found}, expected {expected} (as lhs)")
            if type.rank != lhs.rank:
                fail(self, f"{what} has rank {type.rank}, expected {lhs.rank} (as lhs)")
        for other in range(lhs.rank):
            left, right, both = lhs.shape[other], rhs.shape[other], result.shape[other]
            expected = left + right if other == dim else left
            if both != expected:
                fail(self, f"result has size {both} in dim {other}, expected {expected}")
            if other != dim and right != left:
                fail(self, f"rhs has size {right} in dim {other}, expected {left} (as lhs)")


@irdl_op_definition
class ConstantOp(TileOp):
    """A tile of known elements."""

    name = "cuda_tile.constant"
    value = prop_def(DenseAttr)
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """The value has the type of the result."""
        check_tile(self, self.result, "result", NUMBER)
        check_same_type(self, self.value.type, self.result.type, "value and result")


@irdl_op_definition
class ExtractOp(TileOp):
    """`result` is the slice of `source` with the given slice index (not offset) in every dim.

    Undefined for an index that is out of range.
    """

    name = "cuda_tile.extract"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Same rank and elements, sizes that divide, one i32 index per dim."""
        source = check_tile(self, self.source, "source", ANY)
        result = check_tile(self, self.result, "result", ANY)
        _check_same_elements(self, source, result, "result")
        _check_slices(self, source, result, ("source", "result"))
        _check_slice_indices(self, self.indices, source.rank)


@irdl_op_definition
class InsertOp(TileOp):
    """`destination` with one slice replaced by `source`: the inverse of `extract`, since 13.4."""

    name = "cuda_tile.insert"
    source = operand_def()
    destination = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Same rank and elements, sizes that divide, one i32 index per dim."""
        source = check_tile(self, self.source, "source", ANY)
        destination = check_tile(self, self.destination, "destination", ANY)
        _check_same_elements(self, source, destination, "destination")
        _check_slices(self, destination, source, ("destination", "source"))
        _check_slice_indices(self, self.indices, destination.rank)
        check_same_type(self, destination, self.result.type, "destination and result")


@irdl_op_definition
class IotaOp(TileOp):
    """`result[i] = i`, rank 1."""

    name = "cuda_tile.iota"
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """A rank-1 integer tile that can hold its last index."""
        result = check_tile(self, self.result, "result", INTEGER)
        if result.rank != 1:
            fail(self, f"result has rank {result.rank}, expected 1")
        width = bit_width(result.element_type)
        if result.num_elements > 1 << width:
            fail(self, f"result has {result.num_elements} elements, expected at most 2^{width}")


@irdl_op_definition
class OffsetOp(TileOp):
    """`result[i] = ptr[i] + offset[i] * size of the pointee`, the offset signed."""

    name = "cuda_tile.offset"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """A pointer tile, an integer tile of its shape."""
        ptr = check_tile(self, self.ptr, "ptr", POINTER)
        offset = check_tile(self, self.offset, "offset", INTEGER)
        check_same_shape(self, ptr, offset, "ptr and offset")
        check_same_type(self, ptr, self.result.type, "ptr and result")


@irdl_op_definition
class PermuteOp(TileOp):
    """Reorders dims: `result.shape[i] = source.shape[permutation[i]]`."""

    name = "cuda_tile.permute"
    source = operand_def()
    permutation = prop_def(DenseArrayBase[IntegerType])
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """A permutation of all dims of a source of rank 2 or more."""
        source = check_tile(self, self.source, "source", ANY)
        result = check_tile(self, self.result, "result", ANY)
        _check_same_elements(self, source, result, "result")
        if source.rank < 2:
            fail(self, f"source has rank {source.rank}, expected at least 2")
        permutation = tuple(self.permutation.iter_values())
        if len(permutation) != source.rank:
            expected = f"{source.rank} (the rank of the source)"
            fail(self, f"permutation has {len(permutation)} elements, expected {expected}")
        if sorted(permutation) != list(range(source.rank)):
            expected = f"a permutation of 0 to {source.rank - 1}"
            fail(self, f"permutation is {list(permutation)}, expected {expected}")
        shape = tuple(source.shape[dim] for dim in permutation)
        if result.shape != shape:
            fail(self, f"result has shape {list(result.shape)}, expected {list(shape)}")


@irdl_op_definition
class ReshapeOp(TileOp):
    """The same elements in row-major order, in another shape."""

    name = "cuda_tile.reshape"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Same elements and as many of them."""
        source = check_tile(self, self.source, "source", ANY)
        result = check_tile(self, self.result, "result", ANY)
        _check_same_elements(self, source, result, "result")
        if source.num_elements != result.num_elements:
            expected = f"{source.num_elements} (as the source)"
            fail(self, f"result has {result.num_elements} elements, expected {expected}")


@irdl_op_definition
class AssumeOp(TileOp):
    """`result = value`, with a promise about it; undefined where the promise is broken."""

    name = "cuda_tile.assume"
    value = operand_def()
    predicate = prop_def(AssumePredicateAttr)
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """The predicate fits the value (`predicates.py`); the type does not change."""
        if self.value.type != self.result.type:
            found, expected = show(self.result.type), show(self.value.type)
            fail(self, f"result has type {found}, expected {expected} (as the value)")
        check_predicate(self, self.predicate, self.value.type)


def _check_three_i32(op: Operation) -> None:
    for index, result in enumerate(op.results):
        check_scalar(op, result, f"result {index}", I32)


@irdl_op_definition
class GetNumTileBlocksOp(TileOp):
    """The size of the grid of tile blocks, at most 2^24 - 1 in each dim."""

    name = "cuda_tile.get_num_tile_blocks"
    grid_size_x = result_def()
    grid_size_y = result_def()
    grid_size_z = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Three i32 scalars."""
        _check_three_i32(self)


@irdl_op_definition
class GetTileBlockIdOp(TileOp):
    """The position of this tile block in the grid."""

    name = "cuda_tile.get_tile_block_id"
    block_id_x = result_def()
    block_id_y = result_def()
    block_id_z = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Three i32 scalars."""
        _check_three_i32(self)
