"""Tiles that the consumers transpose before wgmma reads them, while the product before is
running.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import MemDescType, NvmmaSharedAttr, is_in_smem
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer


def smem_transposed_tile(
    materializer: Materializer, tile: SSAValue, released: Sequence[SSAValue]
) -> SSAValue:
    """The tile of a stage with its other dim contiguous; `released` pipelines get theirs back then.

    `tileas-hoist-transposes` moves it up.
    """
    transpose = materializer.emit(wg.SmemTransposeOp, [tile], [_transposed_type(tile)])
    for pipeline in released:
        materializer.emit(pl.ConsumerReleaseOp, [pipeline], (), {"keep": IntAttr(0)})
    return transpose.results[0]


def transposed_words(
    materializer: Materializer, tile: SSAValue, running: SSAValue | None
) -> tuple[SSAValue, SSAValue | None]:
    """The tile of a stage, of 32-bit elements, with its other dim contiguous.

    A sum that is `running` meanwhile is finished then, and comes with it.
    """
    sums = [] if running is None else [running]
    types = [_transposed_type(tile), *(value.type for value in sums)]
    results = materializer.emit(wg.SmemTransposeOp, [tile, *sums], types).results
    return results[0], results[1] if sums else None


def _transposed_type(tile: SSAValue) -> MemDescType:
    """The type of a tile once its other dim is contiguous."""
    old = tile.type
    if not is_in_smem(old):
        raise InternalError("what is transposed is no tile", where="warp roles")
    major = 1 - old.major
    swizzle = widest_swizzle(old.shape[major] * storage_bytes(old.element_type))
    if swizzle is None:
        raise InternalError("what is transposed has no swizzle", where="warp roles")
    return MemDescType(old.shape, old.element_type, NvmmaSharedAttr(swizzle, major))
