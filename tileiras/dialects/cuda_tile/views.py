"""Operations of the cuda_tile dialect: views of global memory (Tile IR specification, "Views").

A tensor view is a pointer with sizes and strides; the other views cut it into tiles.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import NoneAttr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import PointerKindAttr
from tileiras.dialects.cuda_tile.checks import (
    check_pointee,
    check_scalar,
    check_view,
    fail,
    mnemonic,
    show,
)
from tileiras.dialects.cuda_tile.element_types import INTEGER, POINTER
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    ViewType,
)


@irdl_op_definition
class MakeTensorViewOp(TileOp):
    """A tensor at `base`; the operands give the sizes and strides that the type leaves open.

    Strides are in elements.
    """

    name = "cuda_tile.make_tensor_view"
    base = operand_def()
    dynamic_shape = var_operand_def()
    dynamic_strides = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One operand, of one integer type, per open size and stride; a pointer to the elements."""
        view = self.result.type
        if not isinstance(view, TensorViewType):
            fail(self, f"result has type {show(view)}, expected a tensor_view")
        base = check_scalar(self, self.base, "base", POINTER)
        check_pointee(self, base, view.element_type, "base")
        self.check_kinds(base.element_type, view)
        for sizes, operands, what in (
            (view.shape, self.dynamic_shape, "shape"),
            (view.strides, self.dynamic_strides, "strides"),
        ):
            expected = sizes.count(DYNAMIC)
            if len(operands) != expected:
                found = f"has {len(operands)} dynamic {what} operands"
                fail(self, f"{found}, expected {expected} (the ? in the {what})")
        first: TileType | None = None
        for index, operand in enumerate((*self.dynamic_shape, *self.dynamic_strides)):
            type = check_scalar(self, operand, f"dynamic operand {index}", INTEGER)
            if first is not None and type != first:
                fail(self, f"dynamic operand {index} has type {show(type)}, expected {show(first)}")
            first = type

    def check_kinds(self, pointer: object, view: TensorViewType) -> None:
        """The view keeps the pointer's ptr_attr; none at all differs from `none`."""
        kind = pointer.kind if isinstance(pointer, PointerType) else NoneAttr()
        if kind != view.kind:
            found, expected = _kind_text(kind), _kind_text(view.kind)
            fail(self, f"base has ptr_attr {found}, expected {expected} (as the tensor_view)")


def _kind_text(kind: PointerKindAttr | NoneAttr) -> str:
    return kind.data.value if isinstance(kind, PointerKindAttr) else "absent"


class MakeViewOp(TileOp, ABC):
    """Cuts a tensor view into tiles, as the result type says."""

    RESULT: ClassVar[type[ViewType]] = ViewType
    tensor_view = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """The result is a view of the operand."""
        view = self.result.type
        if not isinstance(view, self.RESULT):
            expected = mnemonic(self).removeprefix("make_")
            fail(self, f"result has type {show(view)}, expected a {expected}")
        if self.tensor_view.type != view.tensor_view:
            found, expected = show(self.tensor_view.type), show(view.tensor_view)
            fail(self, f"tensor_view has type {found}, expected {expected} (of the result)")


@irdl_op_definition
class MakePartitionViewOp(MakeViewOp):
    """Disjoint tiles, side by side."""

    name = "cuda_tile.make_partition_view"
    RESULT: ClassVar[type[ViewType]] = PartitionViewType


@irdl_op_definition
class MakeStridedViewOp(MakeViewOp):
    """Tiles at regular distances, which may overlap; since 13.3."""

    name = "cuda_tile.make_strided_view"
    RESULT: ClassVar[type[ViewType]] = StridedViewType


@irdl_op_definition
class MakeGatherScatterViewOp(MakeViewOp):
    """Tiles whose rows an index tile picks; since 13.3."""

    name = "cuda_tile.make_gather_scatter_view"
    RESULT: ClassVar[type[ViewType]] = GatherScatterViewType


class GetShapeOp(TileOp, ABC):
    """One scalar per dim, all of one integer type."""

    src = operand_def()
    results_ = var_result_def()
    traits = traits_def(Pure())

    def check_results(self, rank: int) -> None:
        """Checks number and types of the results."""
        if len(self.results) != rank:
            fail(self, f"has {len(self.results)} results, expected {rank} (the rank)")
        for index, result in enumerate(self.results):
            type = check_scalar(self, result, f"result {index}", INTEGER)
            if type != self.results[0].type:
                expected = show(self.results[0].type)
                fail(self, f"result {index} has type {show(type)}, expected {expected}")


@irdl_op_definition
class GetIndexSpaceShapeOp(GetShapeOp):
    """The number of tiles of a view in every dim."""

    name = "cuda_tile.get_index_space_shape"

    def check_semantics(self) -> None:
        """One result per dim of the view."""
        self.check_results(check_view(self, self.src).rank)


@irdl_op_definition
class GetTensorShapeOp(GetShapeOp):
    """The size of a tensor view in every dim."""

    name = "cuda_tile.get_tensor_shape"

    def check_semantics(self) -> None:
        """One result per dim of the tensor view."""
        if not isinstance(self.src.type, TensorViewType):
            fail(self, f"src has type {show(self.src.type)}, expected a tensor_view")
        self.check_results(self.src.type.rank)
