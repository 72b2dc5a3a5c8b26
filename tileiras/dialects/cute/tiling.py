"""Products, divides and partitions: layouts repeated, cut into tiles, and shared out to threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra import divides, partitions, products
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout, Tiler
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import for_thread, on_layout

Split = Callable[[Layout, Any], Layout]


def _divide(split: Split) -> Callable[[Any, Tiler], Any]:
    """A divide of layouts for all views."""

    def apply(view: Any, tiler: Tiler) -> Any:
        return on_layout(view, lambda layout: split(layout, tiler))

    return apply


def local_tile(view: Any, tiler: Tiler, coordinate: Any) -> Any:
    """One tile."""
    return on_layout(view, lambda layout: partitions.local_tile(layout, tiler, coordinate))


def outer_partition(view: Any, tiler: Tiler, coordinate: Any) -> Any:
    """One element of each tile."""
    return on_layout(view, lambda layout: partitions.outer_partition(layout, tiler, coordinate))


def local_partition(view: Any, threads: Layout, thread: Leaf) -> Any:
    """The elements of a thread, one of each tile of the threads' shape."""

    def change(layout: Layout) -> tuple[Layout, Leaf]:
        count = threads.static_size
        return for_thread(
            thread, count, lambda number: partitions.local_partition(layout, threads, number)
        )

    return on_layout(view, change)


def tv_partition(view: Any, thread_value: Layout, thread: Leaf) -> Any:
    """The elements of a thread under a TV layout of the tile."""
    if thread_value.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {thread_value}")

    def change(layout: Layout) -> tuple[Layout, Leaf]:
        count = thread_value[0].static_size
        return for_thread(
            thread, count, lambda number: partitions.tv_partition(layout, thread_value, number)
        )

    return on_layout(view, change)


def _product_row(name: str, function: Callable[..., Layout], says: str) -> type[CuteOp]:
    kind = "layout" if name in ("blocked_product", "raked_product") else "tiler"
    return operation(name, f"layout, {kind} -> layout", function, says)


def _divide_row(name: str, function: Split, says: str) -> type[CuteOp]:
    return operation(name, "view, tiler -> view", _divide(function), says)


OPERATIONS: tuple[type[CuteOp], ...] = (
    _product_row(
        "logical_product",
        products.logical_product,
        "A layout repeated as another says: `(A, complement(A) o B)`.",
    ),
    _product_row(
        "zipped_product",
        products.zipped_product,
        "The blocks, then the repetitions: `((BM,BN),(RM,RN))`.",
    ),
    _product_row(
        "tiled_product",
        products.tiled_product,
        "The blocks, the repetitions at the top: `((BM,BN),RM,RN)`.",
    ),
    _product_row("flat_product", products.flat_product, "All modes at the top: `(BM,BN,RM,RN)`."),
    _product_row(
        "blocked_product",
        products.blocked_product,
        "Blocks side by side: `((BM,RM),(BN,RN))`, the block faster.",
    ),
    _product_row(
        "raked_product",
        products.raked_product,
        "Blocks interleaved: `((RM,BM),(RN,BN))`, the repetition faster.",
    ),
    _divide_row(
        "logical_divide",
        divides.logical_divide,
        "A layout cut by mode: `A o (B, complement(B, size(A))) = ((TM,RM),(TN,RN))`.",
    ),
    _divide_row(
        "zipped_divide",
        divides.zipped_divide,
        "The tile, then the tiles: `((TM,TN),(RM,RN))`.",
    ),
    _divide_row(
        "tiled_divide",
        divides.tiled_divide,
        "The tile, the tiles at the top: `((TM,TN),RM,RN)`.",
    ),
    _divide_row("flat_divide", divides.flat_divide, "All modes at the top: `(TM,TN,RM,RN)`."),
    operation(
        "local_tile",
        "view, tiler, coord -> view",
        local_tile,
        "One tile: `local_tile(T, B, k) = zipped_divide(T, B)(_, k)`.",
    ),
    operation(
        "inner_partition",
        "view, tiler, coord -> view",
        local_tile,
        "One tile: `inner_partition(T, B, k) = zipped_divide(T, B)(_, k)`.",
    ),
    operation(
        "outer_partition",
        "view, tiler, coord -> view",
        outer_partition,
        "One element of each tile: `outer_partition(T, B, k) = zipped_divide(T, B)(k, _)`.",
    ),
    operation(
        "local_partition",
        "view, layout, int -> view",
        local_partition,
        "The elements of a thread: `zipped_divide(T, shape(threads))(c, _)`, `threads(c) = t`.",
    ),
    operation(
        "tv_partition",
        "view, layout, int -> view",
        tv_partition,
        "The elements of a thread under a TV layout: `R(v) = T(tv(t, v))`.",
    ),
)
"""The operations of this chapter."""
