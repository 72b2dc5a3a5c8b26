"""CuTe layouts of power-of-two sizes as linear layouts, and back.

A CuTe layout adds strides, a `LinearLayout` combines bits by `^`: they are the same function
exactly if the indices that the bits of the coordinate stand for have no bit in common, so that no
sum carries. A swizzle is linear by itself.

Two uses, with the directions that each side has:

    shared memory   CuTe: coordinate -> offset         linear: {offset} -> coordinates
    registers       CuTe: (thread, value) -> index     linear: {register, lane, warp} -> coordinates

The index of a tile is column-major in CuTe: the first mode is the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout, Swizzle, swizzled
from tileiras.dialects.cute.algebra.transforms import coalesce, of_pairs
from tileiras.dialects.layout import LayoutError, LinearLayout

LANE_BITS = 5


def mode_images(layout: AnyLayout) -> list[list[int]]:
    """For each top-level mode the indices of its coordinate's bits, lowest first.

    AlgebraError unless the layout is linear over bits: extents are powers of two and no sum of
    strides carries; a composed layout has a swizzle and no offset.
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    images: list[list[int]] = []
    taken = 0
    for mode in outer.modes:
        bits: list[int] = []
        for raw_extent, raw_stride in mode.pairs:
            extent = static(raw_extent, f"an extent of {layout}")
            stride = static(raw_stride, f"a stride of {layout}")
            if extent & (extent - 1):
                raise AlgebraError(
                    f"{layout} is not linear over bits: its extent {extent} is no power of two"
                )
            for bit in range(extent.bit_length() - 1):
                index = stride << bit
                if index < 0 or index & taken:
                    raise AlgebraError(
                        f"{layout} is not linear over bits: multiples of its stride {stride} "
                        "carry into other indices"
                    )
                taken |= index
                bits.append(index)
        images.append(bits)
    if not isinstance(layout, ComposedLayout):
        return images
    if layout.offset or not isinstance(layout.inner, Swizzle):
        raise AlgebraError(f"{layout} is not linear over bits, only a swizzle with offset 0 is")
    return [[layout.inner(index) for index in bits] for bits in images]


def shared_linear(layout: AnyLayout) -> LinearLayout:
    """A tile in shared memory, coordinate -> offset, as {offset} -> coordinates.

    AlgebraError unless it is linear over bits and fills its offsets exactly once.
    """
    images = mode_images(layout)
    size = prod(1 << len(bits) for bits in images)
    try:
        forward = LinearLayout.from_index_bases(
            {f"dim{i}": bits for i, bits in enumerate(images)}, (size,)
        )
        inverse = forward.invert()
    except LayoutError as error:
        raise AlgebraError(f"{layout} does not fill {size} offsets exactly once") from error
    return LinearLayout.from_index_bases({"offset": inverse.vectors("dim0")}, inverse.shape)


def shared_from_linear(layout: LinearLayout) -> AnyLayout:
    """A tile in shared memory, {offset} -> coordinates, as coordinate -> offset.

    A plain layout where bits of coordinates are bits of offsets, else the first swizzle, by bits,
    base and shift, of such a one. AlgebraError if no single swizzle does it.
    """
    inverse = _inverted(layout)
    images = [inverse.vectors(f"dim{i}") for i in range(layout.rank)]
    if _is_plain(images):
        return _of_images(images)
    width = layout.size.bit_length() - 1
    for bits in range(1, width // 2 + 1):
        for base in range(width - 2 * bits + 1):
            for shift in range(bits, width - base - bits + 1):
                for swizzle in (Swizzle(bits, base, shift), Swizzle(bits, base, -shift)):
                    plain = [[swizzle(index) for index in column] for column in images]
                    if _is_plain(plain):
                        return swizzled(swizzle, _of_images(plain))
    raise AlgebraError(f"no shape, stride and single swizzle make {layout}")


def distributed_linear(thread_value: Layout, shape: Sequence[int]) -> LinearLayout:
    """A TV layout (thread, value) -> column-major index of a tile, as {register, lane, warp}.

    Threads 0 to 31 are lanes of warp 0. AlgebraError unless it is linear over bits, of rank 2, and
    stays in the tile.
    """
    if thread_value.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {thread_value}")
    threads, values = mode_images(thread_value)
    size = prod(shape)
    if any(index >= size for index in [*threads, *values]):
        raise AlgebraError(f"{thread_value} leaves the {size} elements of the tile")

    def coordinates(indices: Sequence[int]) -> list[list[int]]:
        found = []
        for index in indices:
            vector = []
            for extent in shape:
                vector.append(index % extent)
                index //= extent
            found.append(vector)
        return found

    bases = {
        "register": coordinates(values),
        "lane": coordinates(threads[:LANE_BITS]),
        "warp": coordinates(threads[LANE_BITS:]),
    }
    try:
        return LinearLayout(bases, shape)
    except LayoutError as error:
        raise AlgebraError(f"{thread_value} is no placement of a tile: {error}") from error


def distributed_from_linear(layout: LinearLayout) -> Layout:
    """{register, lane, warp} -> coordinates as a TV layout (thread, value) -> column-major index.

    Each mode is coalesced. AlgebraError where coordinates of two input bits share a bit: sums
    of strides cannot say `^`.
    """
    steps = [prod(layout.shape[:axis]) for axis in range(layout.rank)]
    taken = 0
    columns: dict[str, list[int]] = {}
    for name, vectors in layout.bases:
        columns[name] = column = []
        for vector in vectors:
            index = sum(c * step for c, step in zip(vector, steps, strict=True))
            if index & taken:
                raise AlgebraError(f"{layout} adds bits by ^, no strides do that")
            taken |= index
            column.append(index)
    threads = [*columns.get("lane", ()), *columns.get("warp", ())]
    return _of_images([threads, columns.get("register", [])])


def _of_images(images: Sequence[Sequence[int]]) -> Layout:
    """The layout whose mode i maps bit b of its coordinate to `images[i][b]`."""
    return Layout.of(coalesce(of_pairs([(2, index) for index in bits])) for bits in images)


def of_indices(table: Sequence[Sequence[int]]) -> Layout:
    """The layout (i, j) -> `table[i][j]`; AlgebraError unless it is a sum over bits of i and j."""
    sizes = len(table), len(table[0])
    if any(size & (size - 1) for size in sizes):
        raise AlgebraError(f"a table of {sizes[0]} x {sizes[1]} indices is none over bits")
    first = [table[1 << bit][0] for bit in range(sizes[0].bit_length() - 1)]
    second = [table[0][1 << bit] for bit in range(sizes[1].bit_length() - 1)]
    for i, line in enumerate(table):
        start = sum(step for bit, step in enumerate(first) if i >> bit & 1)
        for j, index in enumerate(line):
            if index != start + sum(step for bit, step in enumerate(second) if j >> bit & 1):
                raise AlgebraError(f"index {index} at ({i},{j}) is no sum over bits")
    return _of_images([first, second])


def _is_plain(images: Sequence[Sequence[int]]) -> bool:
    """Whether all images are single bits."""
    return all(index and not index & (index - 1) for bits in images for index in bits)


def _inverted(layout: LinearLayout) -> LinearLayout:
    """Coordinates -> offset; AlgebraError unless the layout is {offset} and a bijection."""
    if layout.in_dims != ("offset",):
        raise AlgebraError(f"a tile in shared memory has the input 'offset', found {layout}")
    try:
        return layout.invert()
    except LayoutError as error:
        raise AlgebraError(str(error)) from error
