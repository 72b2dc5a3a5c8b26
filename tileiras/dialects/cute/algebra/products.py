"""Products: a layout repeated as another one says. The first mode is the layout itself.

Source: CUTLASS documentation, "CuTe Layout Algebra", Product.
"""

from __future__ import annotations

from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.divides import zipped
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.inverses import complement
from tileiras.dialects.cute.algebra.layout import Layout, Tiler, as_layout, by_mode
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.transforms import append_to_rank, coalesce


def logical_product(block: Layout, tiler: Tiler) -> Layout:
    """(block, complement of the block after the tiler): `2:1` by `4:1` is (2,4):(1,2)."""
    if isinstance(tiler, tuple):
        return by_mode(block, tiler, logical_product)
    tile = as_layout(tiler)
    room = block.static_size * static(tile.cosize, f"the cosize of {tile}")
    return Layout.of([block, composition(complement(block, room), tile)])


def zipped_product(block: Layout, tiler: Tiler) -> Layout:
    """As `logical_product` with block modes and repetitions gathered: always of rank 2."""
    return zipped(logical_product, block, tiler)


def tiled_product(block: Layout, tiler: Tiler) -> Layout:
    """As `zipped_product` with the repetitions at the top."""
    first, rest = zipped_product(block, tiler).modes
    return Layout.of([first, *rest.modes])


def flat_product(block: Layout, tiler: Tiler) -> Layout:
    """As `zipped_product` with all modes at the top."""
    first, rest = zipped_product(block, tiler).modes
    return Layout.of([*first.modes, *rest.modes])


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Blocks side by side: mode i is (block i, tiler i), the block faster."""
    return _woven(block, tiler, block_first=True)


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Blocks interleaved as the teeth of rakes: mode i is (tiler i, block i), the tiler faster."""
    return _woven(block, tiler, block_first=False)


def _woven(block: Layout, tiler: Layout, block_first: bool) -> Layout:
    """The product of layouts made equally long, mode by mode, each mode coalesced."""
    rank = max(block.rank, tiler.rank)
    padded = append_to_rank(block, rank), append_to_rank(tiler, rank)
    first, second = logical_product(*padded).modes
    if first.rank != second.rank:
        raise AlgebraError(f"{block} and {tiler} have no common rank")
    pairs = zip(first.modes, second.modes, strict=True)
    woven = (Layout.of([b, t] if block_first else [t, b]) for b, t in pairs)
    return coalesce(Layout.of(woven), (1,) * rank)
