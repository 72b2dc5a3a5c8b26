"""What passes take for granted: checked in text of nv_tileaa and nv_tileas.

There anything may stand.
Passes make such numbers, shapes and layouts themselves; verifying them at every border would cost
time and find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntAttr, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.tmem import TMEM_COLUMNS
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.types import PointerType, TiledViewType
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.memdesc import MemDescType, ThreadCellsAttr
from tileiras.dialects.nv_tileas.plan import KernelPlanAttr
from tileiras.errors import BytecodeError

MAX_ELEMENTS = 1 << 24
"""Of a tile (Tile IR specification, "Tile Type")."""
MAX_WARPS = 32
"""Of a CTA (CUDA C++ Programming Guide): 1024 threads."""
MAX_SHARED_BYTES = 1 << 20
"""More than any GPU's shared memory."""
MAX_RANK = 16
_PARTS = ("register", "lane", "warp")
_SWIZZLES = (0, 16, 32, 64, 128)

_ONE_OR_MORE = (1, MAX_SHARED_BYTES)
_ANY_SIZE = (0, MAX_SHARED_BYTES)
_WARPS = (1, MAX_WARPS)
_NUMBERS: dict[str, tuple[int, int]] = {
    "stages": _ONE_OR_MORE,
    "stage_bytes": _ONE_OR_MORE,
    "pieces": _ONE_OR_MORE,
    "column": (0, TMEM_COLUMNS - 1),
    "columns": (1, TMEM_COLUMNS),
    "readers": (1, MAX_WARPS),
    "consumers": (1, MAX_WARPS),
    "gather_threads": (0, 32 * MAX_WARPS),
    "consumer_warps": _WARPS,
    "producer_warps": _WARPS,
    "working_warps": _WARPS,
    "num_warps": _WARPS,
    "warps_m": _WARPS,
    "warps_n": _WARPS,
    "consumer_registers": (0, 255),
    "producer_registers": (0, 255),
    "ctas": (0, 32),
    "bytes": _ANY_SIZE,
    "offset": _ANY_SIZE,
    "offsets": _ANY_SIZE,
    "skipped": _ANY_SIZE,
    "pending": (0, 1024),
    "keep": (0, 1),
    "axis": (0, MAX_RANK),
    "axes": (0, MAX_RANK),
    "box": (1, 256),
    "follows": (0, 1),
    "delayed": (0, 1),
    "alignment": (1, 1 << 62),
    "contiguity": (1, 1 << 62),
    "mask_constancy": (1, 1 << 62),
    "shape_divisor": (0, 1 << 62),
    "stride_divisor": (0, 1 << 62),
}
"""Least and greatest value of a property, of whichever operation has one of the name."""
_POWERS = ("num_warps", "vector", "vectors", "run", "consumer_warps", "warps_m", "warps_n")
"""Properties that are powers of two."""


def check_limits(module: ModuleOp) -> None:
    """Raises BytecodeError, with its place, for what no pass makes and none can take."""
    seen: dict[Attribute, str] = {}
    for op in module.walk():
        for type in _types_of(op):
            if type not in seen:
                seen[type] = _type_mistake(type)
            if seen[type]:
                raise BytecodeError(f"'{op.name}' op has {seen[type]}", place_of(op))
        for name, value in (*op.properties.items(), *op.attributes.items()):
            wrong = _property_mistake(op, name, value)
            if wrong:
                raise BytecodeError(f"'{op.name}' op has {wrong}", place_of(op))


def _types_of(op: Operation) -> Iterator[Attribute]:
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.args)


def _is_power(number: int) -> bool:
    return number > 0 and not number & (number - 1)


def _type_mistake(type: Attribute) -> str:
    """What is wrong with a type; empty if it is fine."""
    match type:
        case TensorType():
            wrong = _shape_mistake(type.get_shape())
            if wrong or not isinstance(type.encoding, LayoutEncodingAttr):
                return wrong
            layout = type.encoding.data
            if layout.shape != type.get_shape():
                return f"a tensor of shape {list(type.get_shape())} in a layout of {layout.shape}"
            # A producer holds pointers, masks and indices of the first element of what it copies.
            may_have_gaps = isinstance(type.element_type, PointerType | IntegerType)
            return _layout_mistake(layout, may_have_gaps)
        case MemDescType():
            wrong, cells = _shape_mistake(type.shape), type.encoding
            if wrong or not isinstance(cells, ThreadCellsAttr):
                return wrong
            return _layout_mistake(cells.layout.data)
        case TiledViewType():
            return _view_mistake(type)
        case _:
            return ""


def _shape_mistake(shape: tuple[int, ...]) -> str:
    count = 1
    for size in shape:
        count *= size
    if len(shape) > MAX_RANK or count > MAX_ELEMENTS or not all(map(_is_power, shape)):
        return (
            f"a tile of shape {list(shape)[:MAX_RANK]}, expected powers of two, of at most "
            f"{MAX_ELEMENTS} elements together"
        )
    return ""


def _view_mistake(type: TiledViewType) -> str:
    rank, dims = len(type.memref.shape), type.dim_map
    if len(type.memref.strides) != rank:
        return f"a memref of {rank} sizes and {len(type.memref.strides)} strides"
    if not len(dims) == len(type.tile_shape) == len(type.steps):
        return f"a view of {len(type.tile_shape)} tile dims whose dim map has {len(dims)}"
    if len(set(dims)) != len(dims) or not all(0 <= dim < rank for dim in dims):
        return f"a view whose dim map is {list(dims)}, expected different dims of {rank}"
    if type.sparse_dim is not None and not 0 <= type.sparse_dim < rank:
        return f"a view that gathers along dim {type.sparse_dim} of {rank}"
    return _shape_mistake(type.tile_shape)


def _layout_mistake(layout: LinearLayout, may_have_gaps: bool = False) -> str:
    """What is wrong with the places of a tensor's elements in threads."""
    unknown = [name for name in layout.in_dims if name not in _PARTS]
    if unknown or "lane" not in layout.in_dims:
        found = ", ".join(layout.in_dims)
        return f"a layout of {found[:80]}, expected {', '.join(_PARTS)}"
    if len(layout.vectors("lane")) != 5:
        return f"a layout of {1 << len(layout.vectors('lane'))} lanes, expected 32"
    if not (may_have_gaps or layout.is_surjective):
        return "a layout that does not hold the whole tile"
    return ""


def _is_bijective(layout: LinearLayout) -> bool:
    return layout.is_surjective and layout.is_injective


def _axis_mistake(op: Operation, axis: int) -> str:
    """What is wrong with the dim that an operation goes along, if the rank of its tile is known."""
    types = [value.type for value in (*op.results, *op.operands)]
    ranks = [len(type.get_shape()) for type in types if isinstance(type, TensorType)]
    ranks += [len(type.tile_shape) for type in types if isinstance(type, TiledViewType)]
    if ranks and axis >= max(ranks):
        return f"an 'axis' of {axis}, expected less than {max(ranks)}, the rank of its tile"
    return ""


def _property_mistake(op: Operation, name: str, value: Attribute) -> str:
    """What is wrong with a property; empty if it is fine."""
    match value:
        case IntAttr():
            numbers: tuple[int, ...] = (value.data,)
        case IntegerAttr() if name == "num_warps":
            numbers = (value.value.data,)
        case IntTupleAttr():
            numbers = value.data
        case LayoutEncodingAttr() if name == "smem_layout":
            return "" if _is_bijective(value.data) else f"a '{name}' layout without an inverse"
        case LayoutEncodingAttr():
            return _layout_mistake(value.data)
        case KernelPlanAttr():
            return _plan_mistake(value)
        case _:
            return ""
    if not op.name.startswith("nv_tilea"):
        return ""
    if name in ("swizzle", "swizzles") and not all(n in _SWIZZLES for n in numbers):
        return f"a '{name}' of {_shown(numbers)}, expected one of {_SWIZZLES}"
    if name in _POWERS and not all(map(_is_power, numbers)):
        return f"a '{name}' of {_shown(numbers)}, expected powers of two"
    low, high = _NUMBERS.get(name, (None, None))
    if low is not None and high is not None and not all(low <= n <= high for n in numbers):
        return f"a '{name}' of {_shown(numbers)}, expected {low} to {high}"
    return _axis_mistake(op, numbers[0]) if name == "axis" else ""


def _shown(numbers: tuple[int, ...]) -> str:
    """At most 80 characters of numbers."""
    return ", ".join(map(str, numbers))[:80]


def _plan_mistake(plan: KernelPlanAttr) -> str:
    for name, value in plan.data:
        if not isinstance(value, int):
            return f"a plan whose {name} is {value[:40]}, expected an integer"
        if not 0 <= value <= MAX_SHARED_BYTES:
            return f"a plan whose {name} is {str(value)[:40]}, expected 0 to {MAX_SHARED_BYTES}"
    warps = plan.integer("num_warps")
    if not (_is_power(warps) and warps <= MAX_WARPS):
        return f"a plan of {warps} warps, expected a power of two up to {MAX_WARPS}"
    return ""
