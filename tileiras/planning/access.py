"""How a memory operation wants its tensor placed: axis, vector width, coalesced layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.reductions import red_vector
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked, contiguous_vector
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

MAX_ACCESS_BYTES = 16
"""Fixed: widest global access of one thread on every target (ld.global.v4.b32)."""
LINE_BYTES = 128
"""Fixed: a line of the caches."""
LEAST_ACCESS_BITS = 32
"""Policy: of an access of one thread that is not too short for its instruction."""
MOST_SLICED = 4
"""Policy: elements of a dim along which a tile is sliced, all of them in one thread: the parts of
complex numbers, pairs that are rotated, quaternions."""
SECTOR_BYTES = 32
"""Fixed: what memory moves at least: CUDA C++ Best Practices Guide, "Coalesced Access"."""


@dataclass(frozen=True)
class AccessPlan:
    """`vector` elements along tile dim `axis` move at once, neighbouring lanes adjacent."""

    axis: int
    vector: int
    layout: LinearLayout

    def suits(self, layout: LinearLayout) -> bool:
        """Whether another layout of the tile serves as well: same vectors, lanes along the axis."""
        if layout == self.layout:
            return True
        if contiguous_vector(layout, self.axis, self.vector) < self.vector:
            return False
        return _first_lane_axis(layout) == _first_lane_axis(self.layout)

    def towards(
        self, layout: LinearLayout, element_bits: int, least_bytes: int = LINE_BYTES
    ) -> AccessPlan:
        """The access in the layout that is wanted, if that is as good; else as it is.

        `least_bytes`: of neighbouring lanes in shorter vectors.
        """
        if self.suits(layout):
            return replace(self, layout=layout)
        return self.narrowed(layout, element_bits, least_bytes) or self

    def at(self, layout: LinearLayout) -> AccessPlan:
        """The access in any other layout, in vectors as long as there."""
        run = contiguous_vector(layout, self.axis, self.vector)
        return AccessPlan(self.axis, run, layout)

    def narrowed(
        self, layout: LinearLayout, element_bits: int, least_bytes: int = LINE_BYTES
    ) -> AccessPlan | None:
        """The access in shorter vectors, as another layout has them; None if that is worse.

        Lanes must go on where a vector ends, so that a warp still moves whole lines of memory, or
        whole sectors of them.
        """
        run = contiguous_vector(layout, self.axis, self.vector)
        if run >= self.vector or run * element_bits < LEAST_ACCESS_BITS:
            return None
        lanes, reached = layout.basis("lane"), run
        while reached in range(1, layout.shape[self.axis]) and self._along(reached) in lanes:
            reached *= 2
        enough = min(8 * least_bytes, element_bits * layout.shape[self.axis])
        if reached * element_bits < enough:
            return None
        return AccessPlan(self.axis, run, layout)

    def in_place(self, layout: LinearLayout, element_bits: int) -> AccessPlan | None:
        """The access by threads that hold elements as `layout` says, which keep them.

        Registers change places at most. None if the lanes of an access would fill sectors of
        memory in part only.
        """
        bases = {name: list(vectors) for name, vectors in layout.bases}
        registers, run = bases["register"], 1
        while run < self.vector and self._along(run) in registers:
            run *= 2
        first = [self._along(1 << bit) for bit in range(run.bit_length() - 1)]
        bases["register"] = first + [vector for vector in registers if vector not in first]
        moved = LinearLayout(bases, layout.shape)
        vector = contiguous_vector(moved, self.axis, run)
        while self._along(run) in bases["lane"]:
            run *= 2
        if run * element_bits < 8 * SECTOR_BYTES:
            return None
        return AccessPlan(self.axis, vector, moved)

    def _along(self, step: int) -> tuple[int, ...]:
        """The coordinate `step` elements along the axis."""
        return tuple(step if dim == self.axis else 0 for dim in range(self.layout.rank))


def _first_lane_axis(layout: LinearLayout) -> int | None:
    """The dim along which the lowest lane bit moves, None if it makes copies."""
    first = layout.basis("lane")[0]
    return next((axis for axis, step in enumerate(first) if step), None)


def is_widest(access: AccessPlan, element_bits: int) -> bool:
    """Whether threads move as much at once as they can."""
    return access.vector * element_bits == 8 * MAX_ACCESS_BYTES


class Fact(Enum):
    """What the length of the vectors of an access follows from."""

    INSTRUCTION = "instruction"
    TILE = "tile"
    BASE = "base"
    STEP = "step"
    EXTENT = "extent"
    STRIDE = "stride"
    CONTIGUITY = "contiguity"
    ALIGNMENT = "alignment"
    MASK = "mask"
    NO_UNIT_STRIDE = "no unit stride"
    INDICES = "indices"
    NO_POINTERS = "no pointers"


class VectorLimit(NamedTuple):
    """So many elements at most, by a fact about a dim: of the tensor, of the tile for TILE, STEP.

    Elements count with the largest power of two that divides them; 0 is divided by all.
    """

    elements: int
    fact: Fact
    dim: int


def _power_of_two(value: int) -> int:
    """The largest power of two that divides `value`."""
    return value & -value if value else MAX_ACCESS_BYTES


def plan_view_access(view: SSAValue, num_warps: int) -> AccessPlan:
    """Widest vectors along the unit-stride dim that base, strides, sizes and steps allow."""
    type, memref = view_type_of(view), memref_of(view)
    order = _dims_by_stride(type)
    vector = _view_vector(type, memref, order[0]) if order else 1
    axis = order[0] if order else 0
    layout = blocked(type.tile_shape, order, vector, num_warps)
    return AccessPlan(axis, vector, layout)


def plan_load_access(op: aa.TiledLoadOp | aa.ReadStageOp, num_warps: int) -> AccessPlan:
    """The same for a load; where all that reads the tile takes slices of it along that dim, of
    which it has few elements, each thread has all of these, so that slices are in place.

    Neighbouring lanes are as many elements apart then: a warp moves as much in as many accesses.
    """
    access = plan_view_access(op.view, num_warps)
    type, axis = view_type_of(op.view), access.axis
    run = type.tile_shape[axis]
    if not access.vector < run <= MOST_SLICED or type.sparse_dim is not None:
        return access
    users = [use.operation for use in op.result.uses]
    slices = [user for user in users if isinstance(user, aa.ExtractOp)]
    if not users or len(slices) < len(users):
        return access
    if any(shape_of(each.result)[axis] > access.vector for each in slices):
        return access
    layout = blocked(type.tile_shape, _dims_by_stride(type), run, num_warps)
    return replace(access, layout=layout)


def plan_reduction(op: aa.TiledAtomicRedOp, num_warps: int, target: GpuTarget) -> AccessPlan:
    """As `plan_view_access`, in vectors that one instruction can combine."""
    access = plan_view_access(op.view, num_warps)
    element = view_type_of(op.view).memref.element_type
    limit = red_vector(op.mode.data, element, target)
    return AccessPlan(access.axis, min(limit, access.vector), access.layout)


def _dims_by_stride(type: aa.TiledViewType) -> tuple[int, ...]:
    """Tile dims, smallest stride first; unknown strides are taken as row-major."""
    strides = type.memref.strides

    def key(tile_dim: int) -> tuple[int, int, int]:
        dim = type.dim_map[tile_dim]
        if strides[dim] == 1 and type.tile_shape[tile_dim] > 1:
            return (0, 0, -dim)
        known = strides[dim] != DYNAMIC
        return (1 if known else 2, strides[dim] if known else 0, -dim)

    if any(stride == DYNAMIC for stride in strides):
        # A dynamic stride can only be ordered by position: unit stride first, then inner to outer.
        return tuple(
            sorted(
                range(len(type.tile_shape)),
                key=lambda i: (
                    strides[type.dim_map[i]] != 1 or type.tile_shape[i] == 1,
                    -type.dim_map[i],
                ),
            )
        )
    return tuple(sorted(range(len(type.tile_shape)), key=key))


def _view_vector(type: aa.TiledViewType, memref: aa.MakeMemRefOp, axis: int) -> int:
    """Elements that one access may move along `axis`; 1 if that dim has no unit stride."""
    least = 2 if storage_bits(type.memref.element_type) < 8 else 1
    limits = view_limits(type, memref, axis)
    if limits[0].fact is Fact.NO_UNIT_STRIDE:
        return 1
    if limits[0].fact is Fact.INDICES:
        return least
    return max(least, min(_power_of_two(limit.elements) for limit in limits))


def view_limits(
    type: aa.TiledViewType, memref: aa.MakeMemRefOp, axis: int
) -> tuple[VectorLimit, ...]:
    """What bounds the vectors of an access along `axis`, the instruction first.

    One limit alone where there are no vectors at all.
    """
    dim = type.dim_map[axis]
    if type.memref.strides[dim] != 1 or type.sparse_dim == axis:
        return (VectorLimit(1, Fact.NO_UNIT_STRIDE, dim),)
    if type.sparse_dim is not None:
        # Indices of a gather/scatter view are element offsets, of which nothing is known.
        return (VectorLimit(1, Fact.INDICES, dim),)
    bits = storage_bits(type.memref.element_type)
    align = memref.base_align.value.data if memref.base_align is not None else 1
    shape_divisor = memref.shape_divisor.data if memref.shape_divisor is not None else ()
    stride_divisor = memref.stride_divisor.data if memref.stride_divisor is not None else ()
    limits = [
        VectorLimit(8 * MAX_ACCESS_BYTES // bits, Fact.INSTRUCTION, dim),
        VectorLimit(type.tile_shape[axis], Fact.TILE, axis),
        VectorLimit(max(1, 8 * align // bits), Fact.BASE, dim),
        VectorLimit(type.steps[axis], Fact.STEP, axis),
        VectorLimit(shape_divisor[dim] if shape_divisor else 1, Fact.EXTENT, dim),
    ]
    for other in range(len(type.memref.strides)):
        if other != dim:
            divisor = stride_divisor[other] if stride_divisor else 1
            limits.append(VectorLimit(divisor, Fact.STRIDE, other))
    return tuple(limits)


def plan_pointer_access(op: LoadBase | StoreBase, num_warps: int) -> AccessPlan | None:
    """Vectors along the dim of the longest runs of pointers; None for a scalar access."""
    type = op.pointers.type
    if not isinstance(type, TensorType):
        return None
    shape = type.get_shape()
    rank = len(shape)
    contiguity = op.contiguity.data if op.contiguity is not None else (1,) * rank
    if len(contiguity) != rank:
        contiguity = (1,) * rank
    order = sorted(range(rank), key=lambda dim: (-min(contiguity[dim], 128), -dim))
    axis = order[0] if order else 0
    vector = _pointer_vector(op, type.element_type, axis, contiguity)
    return AccessPlan(axis, vector, blocked(shape, order, vector, num_warps))


def _pointer_vector(
    op: LoadBase | StoreBase, pointer: Attribute, axis: int, contiguity: Sequence[int]
) -> int:
    """Elements that one access may move along `axis`."""
    limits = pointer_limits(op, pointer, axis, contiguity)
    return max(1, min(_power_of_two(limit.elements) for limit in limits))


def pointer_limits(
    op: LoadBase | StoreBase, pointer: Attribute, axis: int, contiguity: Sequence[int]
) -> tuple[VectorLimit, ...]:
    """What bounds the vectors of an access through pointers along `axis`."""
    if not isinstance(pointer, aa.PointerType) or not contiguity:
        return (VectorLimit(1, Fact.NO_POINTERS, axis),)
    size = storage_bytes(pointer.pointee)
    align = op.alignment.data[0] if op.alignment is not None else 1
    limits = [
        VectorLimit(MAX_ACCESS_BYTES // size, Fact.INSTRUCTION, axis),
        VectorLimit(contiguity[axis], Fact.CONTIGUITY, axis),
        VectorLimit(max(1, align // size), Fact.ALIGNMENT, axis),
    ]
    if op.mask is not None:
        constancy = op.mask_constancy.data if op.mask_constancy is not None else ()
        known = constancy[axis] if axis < len(constancy) else 1
        limits.append(VectorLimit(known, Fact.MASK, axis))
    return tuple(limits)
