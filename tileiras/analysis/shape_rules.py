"""Facts about constants, iota, and operations that move elements without changing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileiras.analysis.lattice import (
    Axis,
    ValueFacts,
    constant_facts,
    divisor_of,
    hull,
    join_axis,
    make_facts,
    wrap,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr

MAX_INSPECTED = 1024
"""Policy: constants with more elements than this are not looked into."""


def constant(value: DenseAttr, width: int) -> ValueFacts:
    """A constant tile: the facts are read off its elements."""
    shape, raw = value.type.shape, value.raw.data
    size = (width + 7) // 8
    numbers = [
        wrap(int.from_bytes(raw[at : at + size], "little"), width)
        for at in range(0, min(len(raw), MAX_INSPECTED * size), size)
    ]
    if all(number == numbers[0] for number in numbers) and len(raw) <= MAX_INSPECTED * size:
        return constant_facts(shape, width, numbers[0])
    if len(raw) > MAX_INSPECTED * size:
        return make_facts(shape, width)
    return _facts_of_numbers(numbers, shape, width)


def _facts_of_numbers(numbers: list[int], shape: tuple[int, ...], width: int) -> ValueFacts:
    """Facts of explicit row-major elements that are not all equal."""
    axes: list[Axis] = []
    stride = len(numbers)
    for size in shape:
        stride //= size
        steps = [
            (at // stride % size, numbers[at] - numbers[at - stride])
            for at in range(len(numbers))
            if at // stride % size
        ]
        run = _run_length(steps, size, 1, width)
        starts = [n for at, n in enumerate(numbers) if at // stride % size % run == 0]
        divisor = min(divisor_of(number, width) for number in starts)
        axes.append((run, divisor, _run_length(steps, size, 0, width)))
    element = min(divisor_of(number, width) for number in numbers)
    bounds = min(numbers), max(numbers)
    return make_facts(shape, width, axes, element_divisor=element, bounds=bounds)


def _run_length(steps: list[tuple[int, int]], size: int, step: int, width: int) -> int:
    """The longest power of two such that all steps inside aligned runs of it equal `step`.

    `steps` holds (index along the dim, difference from the previous element).
    """
    breaks = {index for index, difference in steps if (difference - step) % (1 << width)}
    run = size
    while any(index % run for index in breaks):
        run //= 2
    return run


def iota(count: int, width: int) -> ValueFacts:
    """`0, 1, .. count - 1`."""
    if count == 1:
        return constant_facts((1,), width, 0)
    zero = divisor_of(0, width)
    bounds = (0, count - 1) if width > 1 and count <= 1 << (width - 1) else (None, None)
    return make_facts((count,), width, [(count, zero, 1)], bounds=bounds)


def _rebuild(source: ValueFacts, shape: Sequence[int], axes: list[Axis]) -> ValueFacts:
    """Facts of the same elements in another arrangement."""
    return make_facts(
        shape,
        source.width,
        axes,
        element_divisor=source.element_divisor,
        bounds=(source.lower, source.upper),
        step=source.step,
    )


def broadcast(source: ValueFacts, shape: tuple[int, ...]) -> ValueFacts:
    """Repeats along dims of size 1: constant along them."""
    axes: list[Axis] = []
    for dim, size in enumerate(shape):
        if source.shape[dim] == size:
            axes.append(source.axis(dim, size))
        else:
            axes.append((1, source.element_divisor, size))
    return _rebuild(source, shape, axes)


def permute(source: ValueFacts, permutation: Sequence[int], shape: tuple[int, ...]) -> ValueFacts:
    """`result.shape[i] = source.shape[permutation[i]]`."""
    return _rebuild(source, shape, [source.axis(dim, source.shape[dim]) for dim in permutation])


def extract(source: ValueFacts, shape: tuple[int, ...]) -> ValueFacts:
    """One slice of a grid of slices: runs are cut to it."""
    return _rebuild(source, shape, [source.axis(dim, size) for dim, size in enumerate(shape)])


def merge(left: ValueFacts, right: ValueFacts, shape: tuple[int, ...]) -> ValueFacts:
    """`cat` and `insert`: every aligned block of the smaller shape comes from one of the two."""
    axes: list[Axis] = []
    for dim in range(len(shape)):
        run = min(left.contiguity[dim], right.contiguity[dim])
        axes.append(join_axis(left, right, dim, run))
    return make_facts(
        shape,
        left.width,
        axes,
        element_divisor=min(left.element_divisor, right.element_divisor),
        bounds=hull(left, right),
        step=left.step,
    )


def reshape(source: ValueFacts, shape: tuple[int, ...]) -> ValueFacts:
    """The same elements in row-major order: dims are merged and split within equal products."""
    axes: list[Axis] = []
    for olds, news in _matching_groups(source.shape, shape):
        flat = _merged_axis(source, olds)
        axes += _split_axis(source, flat, [shape[dim] for dim in news])
    return _rebuild(source, shape, axes)


def _matching_groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> Iterator[tuple[list[int], list[int]]]:
    """Consecutive groups of dims of both shapes with equal products, as small as possible."""
    at = 0
    olds: list[int] = []
    news: list[int] = []
    old_size = new_size = 1
    for dim, size in enumerate(new):
        news.append(dim)
        new_size *= size
        while at < len(old) and old_size < new_size:
            old_size *= old[at]
            olds.append(at)
            at += 1
        if old_size == new_size:
            yield olds, news
            olds, news, old_size, new_size = [], [], 1, 1


def _merged_axis(source: ValueFacts, dims: list[int]) -> Axis:
    """The row-major merge of some dims: only the innermost one's runs are contiguous."""
    dims = [dim for dim in dims if source.shape[dim] > 1]
    if not dims:
        return 1, source.element_divisor, 1
    inner = dims[-1]
    run, divisor, constancy = source.axis(inner, source.shape[inner])
    for dim in reversed(dims[:-1]):
        if constancy != prod_of(source.shape[d] for d in dims if d > dim):
            break
        constancy *= source.constancy[dim]
    return run, divisor, constancy


def prod_of(sizes: Iterator[int]) -> int:
    """The number of elements of some dims."""
    count = 1
    for size in sizes:
        count *= size
    return count


def _split_axis(source: ValueFacts, flat: Axis, sizes: list[int]) -> list[Axis]:
    """The row-major split of one dim: only the innermost new dim has contiguous runs."""
    run, divisor, constancy = flat
    axes: list[Axis] = []
    innermost = True
    stride = 1
    for size in reversed(sizes):
        if size == 1:
            axes.append((1, source.element_divisor, 1))
            continue
        same = max(1, min(size, constancy // stride))
        if innermost:
            cut = min(run, size)
            start = divisor if cut == run else min(divisor, cut * source.step)
            axes.append((cut, start, same))
        else:
            axes.append((1, source.element_divisor, same))
        innermost = False
        stride *= size
    return axes[::-1]
