"""Facts about pointers (divisors in bytes, runs in pointees), assumptions, and views."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntAttr

from tileiras.analysis.bit_rules import extend
from tileiras.analysis.lattice import Axis, ValueFacts, make_facts, power_of_two_in
from tileiras.analysis.typed_facts import SUB_BYTE, common_constancy, elementwise
from tileiras.dialects.cuda_tile.attributes import (
    AssumePredicateAttr,
    BoundedAttr,
    DivByAttr,
    SameElementsAttr,
)


def offset(pointer: ValueFacts, by: ValueFacts, pointee_size: int) -> ValueFacts:
    """`pointer + by * pointee_size`, with a signed offset of any width.

    `pointee_size` is in bytes; SUB_BYTE leaves nothing but constancy.
    """
    if pointee_size == SUB_BYTE:
        return elementwise(pointer, by)
    wide = by if by.width == 64 else extend(by, 64, signed=True)
    axes: list[Axis] = []
    for dim, constancy in enumerate(common_constancy(pointer, wide)):
        run = max(
            min(pointer.contiguity[dim], wide.constancy[dim]),
            min(pointer.constancy[dim], wide.contiguity[dim]),
        )
        divisor = min(pointer.run_divisor(dim, run), wide.run_divisor(dim, run) * pointee_size)
        axes.append((run, divisor, constancy))
    element = min(pointer.element_divisor, wide.element_divisor * pointee_size)
    return make_facts(pointer.shape, 64, axes, element_divisor=element, step=pointee_size)


def restep(source: ValueFacts, step: int) -> ValueFacts:
    """The same bits with runs counted in other steps: integer and pointer casts.

    Bounds are dropped: addresses have none worth keeping.
    """
    if step == source.step:
        return replace(source, lower=None, upper=None)
    axes = [(1, source.element_divisor, constancy) for constancy in source.constancy]
    return make_facts(
        source.shape, source.width, axes, element_divisor=source.element_divisor, step=step
    )


def alignment(bytes_: int) -> ValueFacts:
    """A scalar address, view or tensor view about which only the alignment is known."""
    return make_facts((), 64, element_divisor=power_of_two_in(bytes_) if bytes_ > 0 else 1)


def assume(source: ValueFacts, predicate: AssumePredicateAttr) -> ValueFacts:
    """What holds for `source` if the predicate does."""
    match predicate:
        case DivByAttr(divisor=IntAttr(data=divisor), every=IntAttr(data=every), along=along):
            dim = along.data if isinstance(along, IntAttr) else 0
            return _assume_groups(source, divisor, every, dim)
        case DivByAttr(divisor=IntAttr(data=divisor)):
            axes = [
                (run, max(divisor, known), constancy) for run, known, constancy in _axes(source)
            ]
            element = max(source.element_divisor, divisor)
            return _with_axes(source, axes, element)
        case BoundedAttr(lb=lb, ub=ub):
            return _assume_bounds(
                source,
                lb.data if isinstance(lb, IntAttr) else None,
                ub.data if isinstance(ub, IntAttr) else None,
            )
        case SameElementsAttr(values=values):
            groups = [power_of_two_in(group) if group > 0 else 1 for group in values.data]
            axes = [
                (run, known, max(constancy, group))
                for (run, known, constancy), group in zip(_axes(source), groups)
            ]
            return _with_axes(source, axes, source.element_divisor)
        case _:
            return source


def _axes(source: ValueFacts) -> list[Axis]:
    """The three facts of every dim."""
    return list(zip(source.contiguity, source.divisibility, source.constancy))


def _with_axes(source: ValueFacts, axes: list[Axis], element_divisor: int) -> ValueFacts:
    """The same tile with better facts about its dims."""
    return make_facts(
        source.shape,
        source.width,
        axes,
        element_divisor=element_divisor,
        bounds=(source.lower, source.upper),
        step=source.step,
    )


def _assume_groups(source: ValueFacts, divisor: int, every: int, along: int) -> ValueFacts:
    """`div_by<divisor, every E along D>`: groups of E contiguous elements, each start divisible."""
    if every <= 0:
        return source
    run = power_of_two_in(every)
    start = divisor if run == every else min(divisor, run * source.step)
    axes = _axes(source)
    known_run, known, constancy = axes[along]
    if run > known_run:
        axes[along] = (run, max(start, source.run_divisor(along, run)), 1 if run > 1 else constancy)
    else:
        axes[along] = (known_run, max(start, known), constancy)
    return _with_axes(source, axes, source.element_divisor)


def _assume_bounds(source: ValueFacts, lower: int | None, upper: int | None) -> ValueFacts:
    """Bounds from a promise and from what is known; `bounded` on i1 is not looked at."""
    if source.width <= 1:
        return source
    low, high = source.range()
    if lower is not None:
        low = max(low, lower)
    if upper is not None:
        high = min(high, upper)
    return make_facts(
        source.shape,
        source.width,
        _axes(source),
        element_divisor=source.element_divisor,
        bounds=(low, high),
        step=source.step,
    )
