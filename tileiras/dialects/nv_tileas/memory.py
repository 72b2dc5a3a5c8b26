"""Memory operations whose tensors have layouts, and what moves data between layouts."""

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.nv_tileaa.async_copy import AsyncCopyBase, ReadStageBase
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, layout_of


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """The same tensor in another place: register renames, shuffles, or through shared memory."""

    name = "nv_tileas.convert_layout"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Both sides have layouts and the same elements."""
        source, result = layout_of(self.source.type), layout_of(self.result.type)
        if source is None or result is None or source.shape != result.shape:
            raise VerifyException("convert_layout needs two layouts of one shape")


@irdl_op_definition
class TiledLoadOp(TiledLoadBase):
    """Loads one tile through a view, `vector` elements at a time along tile dim `axis`."""

    name = "nv_tileas.tiled_load"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class TiledStoreOp(TiledStoreBase):
    """Stores one tile through a view, `vector` elements at a time along tile dim `axis`."""

    name = "nv_tileas.tiled_store"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class LoadOp(LoadBase):
    """Gathers through pointers, `vector` consecutive elements at a time along dim `axis`."""

    name = "nv_tileas.load"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class StoreOp(StoreBase):
    """Scatters through pointers, `vector` consecutive elements at a time along dim `axis`."""

    name = "nv_tileas.store"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)


@irdl_op_definition
class AsyncCopyOp(AsyncCopyBase):
    """Every thread starts to copy what `layout` says, `vector` elements at a time along `axis`.

    `shared`: where the elements lie in a stage that all threads read ("offset" -> coordinates).
    `streamed`: nobody reads the tile again, so pieces of 16 bytes go past L1.
    """

    name = "nv_tileas.async_copy"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)
    layout = prop_def(LayoutEncodingAttr)
    shared = opt_prop_def(LayoutEncodingAttr)


@irdl_op_definition
class ReadStageOp(ReadStageBase):
    """Every thread reads what it has copied itself; layout, `vector` and `axis` as it started.

    With `shared` the tile stays where it is, and products read it there.
    """

    name = "nv_tileas.read_stage"
    vector = prop_def(IntAttr)
    axis = prop_def(IntAttr)
    shared = opt_prop_def(LayoutEncodingAttr)
