"""Types as the text form spells them, without the dialect's prefix."""

from functools import lru_cache

from xdsl.dialects.builtin import FunctionType, NoneAttr
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.attributes import PointerKindAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
    ViewType,
)


@lru_cache(maxsize=4096)
def type_text(type: Attribute) -> str:
    """A type as printed: `tile<4xf32>`, `tensor_view<?x16xf32, strides=[1,?]>`, `token`."""
    match type:
        case TileType():
            dims = "".join(f"{dim}x" for dim in type.shape)
            return f"tile<{dims}{element_text(type.element_type)}>"
        case TokenType():
            return "token"
        case TensorViewType():
            return f"tensor_view<{_tensor_view_body(type)}>"
        case ViewType():
            return _view_text(type)
        case FunctionType():
            inputs = ", ".join(map(type_text, type.inputs.data))
            outputs = ", ".join(map(type_text, type.outputs.data))
            return f"({inputs}) -> " + (outputs if len(type.outputs) == 1 else f"({outputs})")
        case _:
            return element_text(type)


def full_type_text(type: Attribute) -> str:
    """A type with its prefix, as the generic form needs it: `!cuda_tile.tile<4xf32>`."""
    if isinstance(type, FunctionType):
        inputs = ", ".join(map(full_type_text, type.inputs.data))
        outputs = ", ".join(map(full_type_text, type.outputs.data))
        return f"({inputs}) -> " + (outputs if len(type.outputs) == 1 else f"({outputs})")
    prefix = "!" if type.name.startswith("cuda_tile.") else ""
    return prefix + ("cuda_tile." if prefix else "") + type_text(type)


def _dim_text(dim: int) -> str:
    return "?" if dim == DYNAMIC else str(dim)


def _tensor_view_body(type: TensorViewType) -> str:
    dims = "".join(f"{_dim_text(dim)}x" for dim in type.shape)
    text = dims + element_text(type.element_type)
    if type.rank:
        text += f", strides=[{','.join(map(_dim_text, type.strides))}]"
    if isinstance(type.kind, PointerKindAttr):
        text += f", #cuda_tile.ptr_attr<{type.kind.data.value}>"
    return text


def _view_text(type: ViewType) -> str:
    parts = [f"tile=({'x'.join(map(str, type.tile_shape))})"]
    if isinstance(type, StridedViewType):
        parts.append(f"traversal_strides=[{','.join(map(str, type.traversal_strides))}]")
    if not isinstance(type.padding, NoneAttr):
        parts.append(f"padding_value = {type.padding.data.value}")
    parts.append(type_text(type.tensor_view))
    if isinstance(type, GatherScatterViewType):
        parts.append(f"sparse_dim={type.sparse_dim}")
    elif isinstance(type, PartitionViewType | StridedViewType) and type.dim_map != tuple(
        range(len(type.dim_map))
    ):
        parts.append(f"dim_map=[{', '.join(map(str, type.dim_map))}]")
    return f"{type.name.removeprefix('cuda_tile.')}<{', '.join(parts)}>"
