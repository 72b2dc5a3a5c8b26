"""Bytes that a GEMM loads from L2 for its flops, read off the loop of its nv_tileas.

A copy that CTAs of a cluster share is counted once among them, a half that each CTA of a pair
copies as a half, a tile that is in the stage already not at all. Where CTAs have tile blocks of
their own, neighbours have one operand in common: of what they may share the smaller tile counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import dot
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import CompileOptions


@dataclass(frozen=True)
class Traffic:
    """Bytes from L2 for 1000 flops, rows and columns of a CTA's product, and of how many tile
    blocks it computes one at once.
    """

    per_kiloflop: float
    tile: tuple[int, int]
    tiles: int = 1


def traffic_of(
    source: bytes, target: str, knobs: Mapping[str, str] | None = None
) -> Traffic | None:
    """Of a kernel with roles, of the loops that copy and multiply most; None of any other."""
    given = CompileOptions(gpu_name=target, emit="nv_tileas", knobs=dict(knobs or {}))
    options = with_environment(given)
    module = read_source(compile_module(source, options).output)
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    switches = [op for op in func.walk() if isinstance(op, pl.AgentSwitchOp)]
    if not switches:
        return None
    programs = [op.body for op in func.walk() if isinstance(op, tc.ProductWarpOp)]
    flops = _most(programs or [switches[0].consumer], _flops)
    copied = _most([switches[0].producer], lambda body: _bytes(body, func))
    sizes = [size for op in func.walk() for size in _sizes(op)]
    if not flops:
        return None
    rows, columns, _ = max(sizes, key=lambda size: size[0] * size[1])
    tiles = 1 if func.tiles_at_once is None else func.tiles_at_once.data
    return Traffic(1000 * copied / flops, (rows, columns), tiles)


def _most(regions: list[Region], of_body: Callable[[list[Operation]], float]) -> float:
    """The most that any innermost loop has, branches in it included."""
    loops = [op for region in regions for op in region.walk() if isinstance(op, aa.ForOp)]
    found = (
        of_body(list(loop.body.walk()))
        for loop in loops
        if not any(isinstance(op, aa.ForOp) for op in loop.body.walk())
    )
    return max(found, default=0.0)


def _bytes(body: list[Operation], func: aa.FuncOp) -> float:
    """Bytes from L2 of the copies of an iteration, for one CTA."""
    total, shared = 0.0, list[float]()
    for op in body:
        if isinstance(op, tc.ScalesLoadOp | pl.CopyLoadOp):
            total += _tile_bytes(op.view)
        elif isinstance(op, pl.GatherLoadOp):
            total += prod(shape_of(op.pointers)) * op.vector.data
        elif isinstance(op, pl.TmaLoadOp) and not _is_in_stage(op):
            size = _tile_bytes(op.view) / (1 if op.halved is None else 2)
            if func.clustered is None or op.multicast_if is None:
                total += size / op.sharers(func.cluster_size)
            else:
                shared.append(size)
    return total + sum(shared) - min(shared, default=0.0) * (1 - 1 / func.cluster_size)


def _is_in_stage(load: pl.TmaLoadOp) -> bool:
    """Whether the tile of a load may be another one of its stage, and not that of a tile block that
    may not be there: all count that are computed at once.
    """
    return load.skip_if is not None and not isinstance(load.skip_if.owner, aa.XOrIOp)


def _tile_bytes(view: SSAValue) -> int:
    type = view_type_of(view)
    return prod(type.tile_shape) * storage_bytes(type.memref.element_type)


def _flops(body: list[Operation]) -> float:
    """Flops of an iteration, for one CTA."""
    return sum(2.0 * rows * columns * depth for op in body for rows, columns, depth in _sizes(op))


def _sizes(op: Operation) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and depth of the products of an operation."""
    match op:
        case tc.Tcgen05DotScaledOp():
            yield (*_size(op.accumulator), op.depth)
        case tc.Tcgen05DotOp():
            yield (*_size(op.accumulator), _size(op.lhs)[1])
        case wg.WgmmaDotsOp():
            for number, result in enumerate(op.sums):
                yield (*_size(result), _size(op.operands_of(number)[0])[1])
        case dot.MmaScaledDotOp():
            is_packed = _element(op.lhs) == IntegerType(8)
            yield (*_size(op.result), _size(op.lhs)[1] * (2 if is_packed else 1))
        case wg.WgmmaDotOp() | dot.MmaDotOp():
            yield (*_size(op.result), _size(op.lhs)[1])
        case _:
            return


def _size(value: SSAValue) -> tuple[int, int]:
    """Rows and columns of a tile, in memory or in registers."""
    type = value.type
    shape = type.shape if isinstance(type, MemDescType) else shape_of(value)
    return shape[-2], shape[-1]


def _element(value: SSAValue) -> object:
    return getattr(value.type, "element_type", None)
